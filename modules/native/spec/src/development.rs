//! The genesis of a native development network with one masternode (`tenon dev --profile native`).

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256, hex};
use serde_json::{Map, Value, json};
use tenon_chain::{GenesisAccount, GenesisError, candidate_record, element_slot, mapping_slot, variable_slot as slot};

use crate::{NativeSettings, PublicNetwork};

/// The only chain id whose native rules up to v2.7.0 of the reference all apply from block 0 (`docs/spec/chain.md` 5.1). It
/// has no rule of `docs/spec/upgrades.md`; a genesis file may set them. Every other id has the heights of a public network,
/// which a new chain would take years to reach.
pub const NATIVE_DEVELOPMENT_CHAIN: u64 = 5151;
/// Blocks of an epoch of engine v1: for other lengths the second signers cannot be determined (`docs/spec/consensus.md`
/// 2.5).
const V1_EPOCH: u64 = 900;
/// First block of engine v2 on a development network of engine v1: effectively never.
const V1_SWITCH_BLOCK: u64 = V1_EPOCH * 1_000_000_000;
/// Code of the issuer of tokens that pay their transfers' fees, as on networks of the reference client.
const TRC21_ISSUER_CODE: &str = include_str!("../../../../config/networks/trc21-issuer.hex");
/// Minimum stake of a candidate and of a vote, coins.
const MIN_CANDIDATE_COINS: u64 = 1_000;
const MIN_VOTER_COINS: u64 = 10;
/// Minimum deposit of a token's issuer, coins.
const MIN_TOKEN_COINS: u64 = 10;
/// Stake of the masternode itself, coins, unless the accounts together have more.
const MIN_STAKE_COINS: u64 = 10_000_000;
/// Maximum number of validators in the contract.
const MAX_VALIDATORS: u64 = 18;
/// Blocks until a withdrawn stake is paid out: of a candidate, of a voter.
const WITHDRAW_DELAYS: [u64; 2] = [30, 10];

/// Wei in one coin.
const COIN: u64 = 1_000_000_000_000_000_000;

/// The first engine of a native development network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DevelopmentEngine {
    /// v2 from block 1, with epochs of this many rounds.
    V2 {
        /// Rounds of an epoch.
        epoch: u64,
    },
    /// v1, with epochs of 900 blocks, permanently.
    V1,
}

/// The parameters of a native development network.
#[derive(Clone, Debug)]
pub struct NativeDevelopment {
    /// The engine.
    pub engine: DevelopmentEngine,
    /// Gas limit of the first block.
    pub gas_limit: u64,
    /// The maker of all blocks.
    pub masternode: Address,
    /// The masternode's owner, who receives its fees and rewards.
    pub owner: Address,
    /// Receiver of the foundation's share of the rewards.
    pub foundation: Address,
    /// Reward per epoch, coins.
    pub reward: u64,
    /// Funded accounts.
    pub accounts: Vec<Address>,
    /// Balance of each, wei.
    pub balance: U256,
}

impl NativeDevelopment {
    /// The genesis, in the form that the reference client's `init` accepts too: every native rule of v2.7.0 from block 0,
    /// the system contracts of the public networks with one candidate, the issuer of sponsored tokens. Equal input gives
    /// equal bytes, so that a persistent network can be reopened.
    ///
    /// # Errors
    /// Never: the contracts are part of the program.
    pub fn to_json(&self) -> Result<Vec<u8>, GenesisError> {
        let public = PublicNetwork::Devnet.genesis()?;
        let code = |last: u8| public.alloc.get(&Address::with_last_byte(last)).map(|account| account.code.clone());
        let mut accounts = BTreeMap::new();
        for account in &self.accounts {
            accounts.insert(*account, GenesisAccount { balance: self.balance, ..GenesisAccount::default() });
        }
        let contract = |code: Option<Bytes>, balance, storage| GenesisAccount {
            code: code.unwrap_or_default(),
            balance,
            storage,
            ..GenesisAccount::default()
        };
        accounts.insert(Address::with_last_byte(0x88), contract(code(0x88), self.stake(), self.validator_storage()));
        let signer_storage = BTreeMap::from([(slot(2), U256::from(V1_EPOCH))]);
        accounts.insert(Address::with_last_byte(0x89), contract(code(0x89), U256::ZERO, signer_storage));
        accounts.insert(Address::with_last_byte(0x90), contract(code(0x90), U256::ZERO, BTreeMap::new()));
        let issuer_code = hex::decode(TRC21_ISSUER_CODE.trim()).ok().map(Bytes::from);
        let issuer_storage = BTreeMap::from([(slot(0), coins(MIN_TOKEN_COINS))]);
        let issuer = NativeSettings::contracts_of(NATIVE_DEVELOPMENT_CHAIN).trc21_issuer;
        accounts.insert(issuer, contract(issuer_code, U256::ZERO, issuer_storage));
        let extra = [&[0; 32][..], self.masternode.as_slice(), &[0; 65]].concat();
        let genesis = json!({
            "config": {
                "chainId": NATIVE_DEVELOPMENT_CHAIN,
                "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0, "byzantiumBlock": 0,
                "XDPoS": self.consensus(),
            },
            "nonce": "0x0",
            "timestamp": "0x0",
            "extraData": hex::encode_prefixed(extra),
            "gasLimit": format!("{:#x}", self.gas_limit),
            "difficulty": "0x1",
            "mixHash": B256::ZERO,
            "coinbase": Address::ZERO,
            "number": "0x0",
            "gasUsed": "0x0",
            "parentHash": B256::ZERO,
            "alloc": alloc(&accounts),
        });
        let mut bytes = serde_json::to_vec_pretty(&genesis)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// The `XDPoS` member of the configuration. At most one masternode: the one whose key this node has. Blocks are at
    /// least one second apart, because other clients of the chain need a period of at least 1.
    fn consensus(&self) -> Value {
        let (epoch, switch_block) = match self.engine {
            DevelopmentEngine::V2 { epoch } => (epoch, 0),
            DevelopmentEngine::V1 => (V1_EPOCH, V1_SWITCH_BLOCK),
        };
        let round = json!({
            "maxMasternodes": 1, "switchRound": 0, "minePeriod": 1, "timeoutSyncThreshold": 3, "timeoutPeriod": 10,
            "certificateThreshold": 0.667, "expTimeoutConfig": { "base": 1.0, "maxExponent": 0 },
        });
        json!({
            "period": 1, "epoch": epoch, "reward": self.reward, "rewardCheckpoint": epoch, "gap": epoch / 2,
            "foudationWalletAddr": self.foundation, "SkipV1Validation": false,
            "v2": { "SwitchEpoch": 0, "switchBlock": switch_block, "config": round, "allConfigs": { "0": round } },
        })
    }

    /// More than all accounts together could stake, so that no other candidate replaces the masternode.
    fn stake(&self) -> U256 {
        let money = self.balance.saturating_mul(U256::from(self.accounts.len())).saturating_mul(U256::from(2));
        money.max(coins(MIN_STAKE_COINS))
    }

    /// Minimum stake of a candidate. Unreachable with engine v1, which makes every candidate a masternode: it would
    /// wait for the turns of one whose key this node does not have.
    fn min_candidate_stake(&self) -> U256 {
        match self.engine {
            DevelopmentEngine::V2 { .. } => coins(MIN_CANDIDATE_COINS),
            DevelopmentEngine::V1 => self.stake(),
        }
    }

    /// Storage of the voting contract with one candidate (`docs/spec/chain.md` 10.1).
    fn validator_storage(&self) -> BTreeMap<B256, U256> {
        let (candidate, owner) = (self.masternode.into_word(), self.owner.into_word());
        let record: U256 = candidate_record(self.masternode).into();
        let field = |offset: u64| B256::from(record.wrapping_add(U256::from(offset)));
        let stake_of_owner = mapping_slot(owner, field(2).into());
        let voters = mapping_slot(candidate, U256::from(2));
        let owned = mapping_slot(owner, U256::from(6));
        let (candidate, owner): (U256, U256) = (candidate.into(), owner.into());
        let is_candidate = U256::ONE << 160;
        BTreeMap::from([
            (slot(7), U256::ONE),
            (element_slot(slot(7), 0), owner),
            (slot(8), U256::ONE),
            (element_slot(slot(8), 0), candidate),
            (slot(9), U256::ONE),
            (slot(10), U256::ONE),
            (slot(11), self.min_candidate_stake()),
            (slot(12), coins(MIN_VOTER_COINS)),
            (slot(13), U256::from(MAX_VALIDATORS)),
            (slot(14), U256::from(WITHDRAW_DELAYS[0])),
            (slot(15), U256::from(WITHDRAW_DELAYS[1])),
            (field(0), is_candidate | owner),
            (field(1), self.stake()),
            (stake_of_owner, self.stake()),
            (voters, U256::ONE),
            (element_slot(voters, 0), owner),
            (owned, U256::ONE),
            (element_slot(owned, 0), candidate),
        ])
    }
}

fn coins(count: u64) -> U256 {
    U256::from(count).saturating_mul(U256::from(COIN))
}

fn alloc(accounts: &BTreeMap<Address, GenesisAccount>) -> Map<String, Value> {
    let member = |(address, account): (&Address, &GenesisAccount)| {
        let mut object = Map::from_iter([("balance".to_owned(), json!(format!("{:#x}", account.balance)))]);
        if !account.code.is_empty() {
            object.insert("code".into(), json!(account.code));
        }
        if !account.storage.is_empty() {
            let slots = account.storage.iter().map(|(slot, value)| (slot.to_string(), json!(B256::from(*value))));
            object.insert("storage".into(), Value::Object(slots.collect()));
        }
        (format!("{address:#x}"), Value::Object(object))
    };
    accounts.iter().map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_genesis;

    fn network(engine: DevelopmentEngine) -> NativeDevelopment {
        NativeDevelopment {
            engine,
            gas_limit: 30_000_000,
            masternode: Address::repeat_byte(0x11),
            owner: Address::repeat_byte(0x22),
            foundation: Address::repeat_byte(0x33),
            reward: 250,
            accounts: vec![Address::repeat_byte(0xaa), Address::repeat_byte(0xbb)],
            balance: coins(10_000),
        }
    }

    #[test]
    fn has_every_native_rule_from_block_0_and_one_masternode() {
        for (engine, epoch, switch_block) in
            [(DevelopmentEngine::V2 { epoch: 30 }, 30, 0), (DevelopmentEngine::V1, 900, V1_SWITCH_BLOCK)]
        {
            let network = network(engine);
            let text = network.to_json().unwrap();
            assert_eq!(text, network.to_json().unwrap());
            let genesis = read_genesis(&text).unwrap();
            let native = NativeSettings::of(&genesis.spec).unwrap();
            assert!(native.heights.named().iter().all(|rule| rule.height.is_none_or(|height| height == 0)));
            assert_eq!((native.consensus.epoch, native.consensus.switch_block), (epoch, switch_block));
            assert_eq!(native.consensus.at_round(0).max_masternodes, 1);
            assert_eq!(genesis.header.base_fee_per_gas, Some(crate::NATIVE_BASE_FEE));
            assert_eq!(genesis.header.extra_data.len(), 32 + 20 + 65);
            assert!(genesis.alloc.contains_key(&native.contracts.trc21_issuer));
            // The voting contract's balance is its candidate's stake.
            let contract = &genesis.alloc[&Address::with_last_byte(0x88)];
            assert_eq!(contract.balance, coins(MIN_STAKE_COINS));
            assert_eq!(genesis.alloc.len(), 6);
        }
    }

    /// The storage layout equals that of a network created with the reference client's own tools.
    #[test]
    fn the_voting_contracts_layout_equals_the_references() {
        let recorded = tenon_test_data::unpacked("chain/native-genesis-local.json.gz");
        let recorded = read_genesis(&recorded).unwrap();
        let storage = &recorded.alloc[&Address::with_last_byte(0x88)].storage;
        let candidate = Address::from_word(B256::from(storage[&element_slot(slot(8), 0)]));
        let owner = Address::from_word(B256::from(storage[&element_slot(slot(7), 0)]));

        let own = NativeDevelopment { masternode: candidate, owner, ..network(DevelopmentEngine::V1) };

        // The counter of candidates, and intended differences: minimum stakes, delays, and the stakes themselves.
        let differs: Vec<_> = [8, 9, 11, 12, 14, 15]
            .map(slot)
            .into_iter()
            .chain([mapping_slot(owner.into_word(), U256::from(6))])
            .collect();
        for (slot, value) in own.validator_storage() {
            let found = storage.get(&slot).copied().unwrap_or_default();
            assert!(!found.is_zero(), "{slot}");
            assert!(found == value || differs.contains(&slot) || value == own.stake(), "{slot}: {found} {value}");
        }
    }

    #[test]
    fn no_account_can_outbid_the_masternode() {
        let mut network = network(DevelopmentEngine::V2 { epoch: 30 });
        network.balance = coins(50_000_000);
        assert_eq!(network.stake(), coins(200_000_000));
    }
}
