//! Random networks: keys, parameters, a genesis in the form accepted by `tenon init` and the reference.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use serde_json::{Map, Value, json};
use tenon_chain::Genesis;
use tenon_differential_tests::SplitMix64;
use tenon_native_consensus::v2::MasternodeKey;
use tenon_native_spec::{PublicNetwork, read_genesis};

/// Every native rule applies from block 0 on chains with this id (`docs/spec/consensus.md` 12.2).
pub(crate) const CHAIN_ID: u64 = 5_151;
/// Minimum stake of a candidate, coins.
pub(crate) const MIN_CANDIDATE_COINS: u64 = 1_000;
/// Minimum stake of a voter, coins.
pub(crate) const MIN_VOTER_COINS: u64 = 10;
/// Balance of every sender, coins, large enough not to run out.
const RICH: u64 = 1_000_000_000;
/// The constant gas limit of blocks: v2 binds it to the parent's.
pub(crate) const GAS_LIMIT: u64 = 50_000_000;

/// This many coins in wei.
pub(crate) fn coins(count: u64) -> U256 {
    U256::from(count) * U256::from(10_u64.pow(18))
}

/// Consensus parameters from a round on (`docs/spec/consensus.md` 12.3).
#[derive(Clone, Debug)]
pub struct RoundRules {
    /// The first round to which they apply.
    pub from: u64,
    /// Maximum number of masternodes of an epoch.
    pub max_masternodes: usize,
    /// Minimum seconds between blocks.
    pub mine_period: u64,
    /// The share of masternodes needed for a certificate.
    pub threshold: f64,
}

/// A new network.
pub struct Network {
    /// The node's genesis.
    pub genesis: Genesis,
    /// The same as a file's text.
    pub genesis_text: Vec<u8>,
    /// Keys of all possible masternodes.
    pub candidates: BTreeMap<Address, MasternodeKey>,
    /// Keys of the stakers.
    pub owners: BTreeMap<Address, MasternodeKey>,
    /// Blocks of a v1 epoch, rounds of a v2 epoch.
    pub epoch: u64,
    /// Distance of the gap block from the next multiple of the epoch, blocks.
    pub gap: u64,
    /// The last block of engine v1.
    pub switch_block: u64,
    /// Reward of an epoch, coins.
    pub reward: u64,
    /// Receives a tenth of every reward.
    pub foundation: Address,
    /// Parameters by round, ascending.
    pub rounds: Vec<RoundRules>,
    /// Candidates of the genesis: address, owner, stake in coins.
    pub first: Vec<(Address, Address, u64)>,
}

fn key(seed: u64, role: u8, number: u64) -> MasternodeKey {
    let bytes = [&seed.to_be_bytes()[..], &[role], &number.to_be_bytes()].concat();
    MasternodeKey::from_bytes(keccak256(bytes).0).unwrap()
}

fn keys(seed: u64, role: u8, count: u64) -> BTreeMap<Address, MasternodeKey> {
    (0..count).map(|number| key(seed, role, number)).map(|key| (key.address(), key)).collect()
}

impl Network {
    /// A network of engine v2 from block 1 on, with short epochs.
    pub fn of_v2(random: &mut SplitMix64) -> Self {
        let epoch = 20 + 10 * random.below(3);
        let gap = epoch / 2 - random.below(3);
        Self::random(random, epoch, gap, 0)
    }

    /// A network that begins with engine v1, with epochs of 900 blocks, and switches to v2 after this many epochs.
    pub fn of_both(random: &mut SplitMix64, v1_epochs: u64) -> Self {
        Self::random(random, 900, 450, 900 * v1_epochs)
    }

    fn random(random: &mut SplitMix64, epoch: u64, gap: u64, switch_block: u64) -> Self {
        let seed = random.number();
        let count = 4 + random.below(9);
        let candidates = keys(seed, 0, count);
        let owners = keys(seed, 1, 1 + random.below(4));
        let names: Vec<Address> = candidates.keys().copied().collect();
        let owner_names: Vec<Address> = owners.keys().copied().collect();
        // Initial candidates; equal stakes are likely, to test their order.
        let stake = |random: &mut SplitMix64| MIN_CANDIDATE_COINS + 100 * random.below(4);
        let first = names[..3 + usize::try_from(random.below(count - 3)).unwrap()]
            .iter()
            .map(|name| (*name, *random.one_of(&owner_names), stake(random)))
            .collect();
        let limit = 3 + usize::try_from(random.below(count)).unwrap();
        let rounds = vec![
            RoundRules { from: 0, max_masternodes: 108, mine_period: 1, threshold: 0.667 },
            RoundRules { from: epoch * 3, max_masternodes: limit, mine_period: 2, threshold: 0.6 },
            RoundRules { from: epoch * 6 + 7, max_masternodes: 108, mine_period: 3, threshold: 0.667 },
        ];
        // Sometimes the foundation owns masternodes itself, which costs it nine tenths (`docs/spec/chain.md` 4.3).
        let foundation = if random.chance(20) { owner_names[0] } else { Address::repeat_byte(0xf0) };
        let mut network = Self {
            genesis: PublicNetwork::Devnet.genesis().unwrap(),
            genesis_text: Vec::new(),
            candidates,
            owners,
            epoch,
            gap,
            switch_block,
            reward: 100 + random.below(5_000),
            foundation,
            rounds,
            first,
        };
        network.genesis_text = network.to_json();
        network.genesis = read_genesis(&network.genesis_text).unwrap();
        network
    }

    /// The parameters of a round.
    pub fn rules(&self, round: u64) -> &RoundRules {
        self.rounds
            .iter()
            .rev()
            .find(|rules| rules.from <= round)
            .unwrap_or_else(|| panic!("no rules apply to round {round}"))
    }

    fn to_json(&self) -> Vec<u8> {
        let mut signers: Vec<Address> = self.first.iter().map(|(name, _, _)| *name).collect();
        signers.sort_unstable();
        let list: Vec<u8> = signers.iter().flat_map(|signer| signer.0.0).collect();
        let round = |rules: &RoundRules| {
            json!({
                "maxMasternodes": rules.max_masternodes, "switchRound": rules.from, "minePeriod": rules.mine_period,
                "timeoutSyncThreshold": 3, "timeoutPeriod": 5, "certificateThreshold": rules.threshold,
                "expTimeoutConfig": {"base": 1.0, "maxExponent": 0},
            })
        };
        let by_round: Map<String, Value> =
            self.rounds.iter().map(|rules| (rules.from.to_string(), round(rules))).collect();
        let text = json!({
            "config": {
                "chainId": CHAIN_ID,
                "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0, "byzantiumBlock": 0,
                "XDPoS": {
                    "period": 1, "epoch": self.epoch, "gap": self.gap, "reward": self.reward,
                    "rewardCheckpoint": self.epoch, "foudationWalletAddr": self.foundation, "SkipV1Validation": false,
                    "v2": {
                        "SwitchEpoch": self.switch_block / self.epoch, "switchBlock": self.switch_block,
                        "config": round(&self.rounds[0]), "allConfigs": by_round,
                    },
                },
            },
            "nonce": "0x0", "timestamp": "0x6b014f90", "difficulty": "0x1", "number": "0x0", "gasUsed": "0x0",
            "extraData": hex::encode_prefixed([&[0; 32][..], &list, &[0; 65]].concat()),
            "gasLimit": format!("{GAS_LIMIT:#x}"), "mixHash": B256::ZERO, "parentHash": B256::ZERO,
            "coinbase": Address::ZERO, "alloc": self.alloc(),
        });
        serde_json::to_vec_pretty(&text).unwrap()
    }

    fn alloc(&self) -> Map<String, Value> {
        let public = PublicNetwork::Devnet.genesis().unwrap();
        let code = |last: u8| public.alloc[&Address::with_last_byte(last)].code.clone();
        let contract = |code: Bytes, balance: U256, storage: BTreeMap<B256, U256>| {
            let slots: Map<String, Value> =
                storage.iter().map(|(slot, value)| (slot.to_string(), json!(B256::from(*value)))).collect();
            json!({"balance": format!("{balance:#x}"), "code": code, "storage": slots})
        };
        let staked = self.first.iter().map(|(_, _, stake)| *stake).sum();
        let mut alloc = Map::new();
        let mut put = |address: Address, account: Value| alloc.insert(format!("{address:#x}"), account);
        put(Address::with_last_byte(0x88), contract(code(0x88), coins(staked), self.voting_storage()));
        let epochs = BTreeMap::from([(B256::with_last_byte(2), U256::from(900))]);
        put(Address::with_last_byte(0x89), contract(code(0x89), U256::ZERO, epochs));
        put(Address::with_last_byte(0x90), contract(code(0x90), U256::ZERO, BTreeMap::new()));
        for rich in self.candidates.keys().chain(self.owners.keys()) {
            put(*rich, json!({"balance": format!("{:#x}", coins(RICH))}));
        }
        alloc
    }

    /// Storage of the voting contract with the first candidates (`docs/spec/chain.md` 10.1).
    fn voting_storage(&self) -> BTreeMap<B256, U256> {
        let slot = |number: u64| B256::from(U256::from(number));
        let word = |address: Address| U256::from_be_bytes(address.into_word().0);
        let entry = |address: Address, mapping: B256| keccak256([address.into_word().0, mapping.0].concat());
        let beyond = |slot: B256, words: u64| B256::from(U256::from_be_bytes(slot.0).wrapping_add(U256::from(words)));
        let mut storage = BTreeMap::from([
            (slot(9), U256::from(self.first.len())),
            (slot(11), coins(MIN_CANDIDATE_COINS)),
            (slot(12), coins(MIN_VOTER_COINS)),
            (slot(13), U256::from(150)),
            (slot(14), U256::from(30)),
            (slot(15), U256::from(10)),
        ]);
        let push = |storage: &mut BTreeMap<B256, U256>, array: B256, value: U256| {
            let length = storage.get(&array).copied().unwrap_or_default();
            storage.insert(beyond(keccak256(array), length.to()), value);
            storage.insert(array, length + U256::ONE);
        };
        for (candidate, owner, stake) in &self.first {
            let record = entry(*candidate, slot(1));
            storage.insert(record, word(*owner) | (U256::ONE << 160));
            storage.insert(beyond(record, 1), coins(*stake));
            storage.insert(entry(*owner, beyond(record, 2)), coins(*stake));
            push(&mut storage, slot(8), word(*candidate));
            push(&mut storage, entry(*candidate, slot(2)), word(*owner));
            push(&mut storage, entry(*owner, slot(6)), word(*candidate));
        }
        let owners: BTreeSet<Address> = self.first.iter().map(|(_, owner, _)| *owner).collect();
        storage.insert(slot(10), U256::from(owners.len()));
        owners.into_iter().for_each(|owner| push(&mut storage, slot(7), word(owner)));
        storage
    }
}
