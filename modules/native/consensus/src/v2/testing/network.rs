//! Chains of random networks, built block by block by an independent slow model of the rules, and compared with the
//! engine: masternodes, penalties, leaders, returns, missed rounds, limits and thresholds by round.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::Value;
use tenon_api::{
    ChainReader, RecoveredBlock, SealAttributes, SealedHeader, Transaction, TransactionPayload, TransactionSignature,
};
use tenon_chain::{ChainSpec, assemble_block};
use tenon_memory_chain::MemoryChain;
use tenon_native_spec::{NativeSettings, read_genesis};

use super::Listed;
use crate::{
    extra::addresses_of,
    messages::{BlockInfo, QuorumCertificate, vote_digest},
    signers::SignerCache,
    signing::{BLOCK_SIGNERS, SigningIndex},
    v2::{MasternodeKey, V2Engine, extra_of, seal},
};

/// The seeds of a test's networks: consecutive numbers from 1 on, so that every run of the tests is the same.
/// `TENON_NETWORKS` sets their number instead of `count`, `TENON_FIRST_SEED` the first one; `TENON_SEED` is the only one.
pub fn seeds(count: u64) -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    if let Some(seed) = number("TENON_SEED") {
        return vec![seed];
    }
    let first = number("TENON_FIRST_SEED").unwrap_or(1);
    (first..first + number("TENON_NETWORKS").unwrap_or(count)).collect()
}

/// Length of an epoch.
pub const EPOCH: u64 = 20;
/// Distance from a gap block to the next epoch.
pub const GAP: u64 = 10;

/// A network and its chain so far.
#[derive(derive_more::Deref)]
pub struct Network {
    /// Decides everything random.
    pub random: StdRng,
    /// The rules.
    pub spec: Arc<ChainSpec>,
    /// The keys of all candidates.
    pub keys: HashMap<Address, MasternodeKey>,
    /// All candidates by gap number, best first.
    pub candidates: BTreeMap<u64, Vec<Address>>,
    /// Masternodes that make no blocks.
    silent: Vec<Address>,
    /// The blocks by height.
    pub chain: BTreeMap<u64, Arc<RecoveredBlock>>,
    /// The same blocks as a [`ChainReader`](tenon_api::ChainReader).
    #[deref]
    memory: MemoryChain,
    /// The model's current epoch: its first block, masternodes, penalties.
    epoch: (u64, Vec<Address>, Vec<Address>),
    /// Numbers and penalties of all epochs so far.
    history: Vec<(u64, Vec<Address>)>,
    /// Number of epochs that [`Network::extend`] has opened.
    pub epochs: usize,
    /// Number of penalties in them.
    pub penalised: usize,
    /// Number of masternodes in them that returned after a penalty.
    pub come_backs: usize,
}

impl Network {
    /// A network of random size.
    pub fn random(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let count = random.random_range(4..12);
        Self::of(count, seed, random)
    }

    /// A network of this many candidates, of which a random number can be masternodes.
    pub fn of(count: u64, seed: u64, mut random: StdRng) -> Self {
        let limit = random.random_range(count.min(3)..=count);
        Self::limited(count, seed, random, limit)
    }

    /// A network whose candidates are always masternodes, unless they are penalised.
    pub fn steady(count: u64, seed: u64) -> Self {
        Self::limited(count, seed, StdRng::seed_from_u64(seed), count)
    }

    fn limited(count: u64, seed: u64, random: StdRng, limit: u64) -> Self {
        Self::with_rules(count, seed, random, limit, &serde_json::json!({}), &serde_json::json!({}))
    }

    /// A network whose penalties follow `docs/spec/upgrades.md` 5 from a height on.
    pub fn upgraded(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let count = random.random_range(8..14);
        let rules = serde_json::json!({
            "minimumMinerBlockPerEpoch": random.random_range(0..3), "limitPenaltyEpoch": random.random_range(0..4),
            "minimumSigningTx": random.random_range(0..3),
        });
        let height = serde_json::json!({ "tipUpgradePenaltyBlock": random.random_range(0..80) });
        Self::with_rules(count, seed, random, count, &height, &rules)
    }

    /// A network with these members of `config` and of its later parameters.
    fn with_rules(count: u64, seed: u64, random: StdRng, limit: u64, members: &Value, rules: &Value) -> Self {
        let keys: HashMap<Address, MasternodeKey> = (0..count)
            .map(|n: u64| {
                MasternodeKey::from_bytes(keccak256([seed.to_be_bytes(), n.to_be_bytes()].concat()).0).unwrap()
            })
            .map(|key| (key.address(), key))
            .collect();
        let mut first: Vec<Address> = keys.keys().copied().collect();
        first.sort_unstable();
        let extra =
            [&[0; 32][..], &first.iter().flat_map(|address| address.0.0).collect::<Vec<_>>(), &[0; 65]].concat();
        let timing = serde_json::json!({"base": 1.0, "maxExponent": 0});
        let mut config = serde_json::json!({
            "config": {"chainId": 5151, "XDPoS": {"period": 1, "epoch": EPOCH, "gap": GAP, "v2": {"switchBlock": 0,
                "allConfigs": {
                    "0": {"maxMasternodes": 108, "minePeriod": 1, "certificateThreshold": 0.667,
                        "timeoutPeriod": 5, "timeoutSyncThreshold": 3, "expTimeoutConfig": timing},
                    "60": {"maxMasternodes": limit, "minePeriod": 2, "certificateThreshold": 0.6,
                        "timeoutPeriod": 4, "timeoutSyncThreshold": 2, "expTimeoutConfig": timing},
                }}}},
            "extraData": alloy_primitives::hex::encode_prefixed(extra), "difficulty": "0x1", "gasLimit": "0x2faf080",
            "alloc": {},
        });
        let add = |to: &mut Value, from: &Value| to.as_object_mut().unwrap().extend(from.as_object().unwrap().clone());
        add(&mut config["config"]["XDPoS"]["v2"]["allConfigs"]["60"], rules);
        add(&mut config["config"], members);
        let genesis = read_genesis(config.to_string().as_bytes()).unwrap();
        let mut network = Self {
            random,
            spec: Arc::clone(&genesis.spec),
            keys,
            candidates: BTreeMap::new(),
            silent: Vec::new(),
            chain: BTreeMap::new(),
            memory: MemoryChain::default(),
            epoch: (0, first.clone(), Vec::new()),
            history: vec![(0, Vec::new())],
            epochs: 0,
            penalised: 0,
            come_backs: 0,
        };
        network.candidates.insert(0, first);
        network.store(genesis.sealed_header().unwrap(), Vec::new());
        network
    }

    /// Adds a block with these signing transactions.
    pub fn store(&mut self, header: SealedHeader, signings: Vec<(Address, B256)>) {
        let block = recovered(header, signings);
        self.memory.push(Arc::clone(&block));
        self.chain.insert(block.header.number, block);
    }

    /// The last header.
    pub fn tip(&self) -> &SealedHeader {
        &self.chain.last_key_value().unwrap().1.header
    }

    /// The round of a block.
    pub fn round(&self, number: u64) -> u64 {
        if number == 0 { 0 } else { extra_of(&self.chain[&number].header).unwrap().round }
    }

    /// An engine with the candidates known so far.
    pub fn engine(&self) -> V2Engine {
        let lists = self.candidates.iter().map(|(gap, list)| (*gap, list.clone().into())).collect();
        V2Engine::new(
            Arc::clone(&self.spec),
            Arc::new(NativeSettings::of(&self.spec).cloned().unwrap()),
            Arc::new(SignerCache::default()),
            Arc::new(Listed(lists)),
            Arc::new(SigningIndex::default()),
        )
    }

    /// The model's lists of the epoch that begins on the tip: a direct transcription of the specification.
    fn next_lists(&self, round: u64) -> (Vec<Address>, Vec<Address>) {
        let number = self.tip().number + 1;
        let multiple = number / EPOCH * EPOCH;
        let candidates = &self.candidates[&multiple.saturating_sub(GAP)];
        let mut penalties = Vec::new();
        let native = NativeSettings::of(&self.spec).unwrap();
        if number > 1 && native.heights.tip_upgrade_penalty.is_some_and(|height| number >= height) {
            penalties = self.next_penalties_after_the_upgrade();
        } else if number > 1 {
            let (start, masternodes, penalised) = &self.epoch;
            let has_made_one =
                |who: &Address| (start + 1..number).any(|each| self.chain[&each].header.beneficiary == *who);
            penalties.extend(masternodes.iter().filter(|who| !has_made_one(who)).copied());
            let has_returned = |who: &Address| {
                let window = number.saturating_sub(150).max(*start)..number;
                window.clone().any(|each| {
                    let block = &self.chain[&each];
                    block.senders.iter().zip(&block.transactions).any(|(sender, transaction)| {
                        let hash = B256::from_slice(&transaction.input[36..]);
                        let signed = self.header(hash).unwrap().map_or(u64::MAX, |header| header.number);
                        sender == who && signed.is_multiple_of(15) && window.contains(&signed) && signed <= each
                    })
                })
            };
            if number > EPOCH {
                for who in penalised {
                    if candidates.contains(who) && !has_returned(who) && !penalties.contains(who) {
                        penalties.push(*who);
                    }
                }
            }
        }
        let limit = NativeSettings::of(&self.spec).unwrap().consensus.at_round(round).max_masternodes;
        let masternodes = candidates.iter().filter(|who| !penalties.contains(who)).take(limit).copied().collect();
        (masternodes, penalties)
    }

    /// The model's penalties of the epoch that begins on the tip: a direct transcription of `docs/spec/upgrades.md` 5.
    fn next_penalties_after_the_upgrade(&self) -> Vec<Address> {
        let number = self.tip().number + 1;
        let (start, masternodes, penalised) = &self.epoch;
        let rules = NativeSettings::of(&self.spec).unwrap().consensus.at_round(self.round(number - 1)).clone();
        let made = |who: &Address| {
            let blocks = (start + 1..number).filter(|each| self.chain[each].header.beneficiary == *who);
            blocks.count() as u64
        };
        let mut makers: Vec<Address> = self.keys.keys().copied().filter(|who| made(who) > 0).collect();
        makers.sort_unstable();
        let mut penalties: Vec<Address> =
            makers.into_iter().filter(|who| made(who) < rules.minimum_miner_block_per_epoch).collect();
        penalties.extend(masternodes.iter().filter(|who| made(who) == 0));
        let epochs = rules.limit_penalty_epoch.max(1);
        if number > epochs * EPOCH {
            let newest = self.history.last().unwrap().0;
            let served = |who: &Address| {
                (0..epochs).all(|back| {
                    let epoch = newest.checked_sub(back);
                    self.history.iter().any(|(number, list)| Some(*number) == epoch && list.contains(who))
                })
            };
            let window = number.saturating_sub(EPOCH).max(*start)..number;
            let signed = |who: &Address| {
                let each = window.clone().flat_map(|each| {
                    let block = &self.chain[&each];
                    block.senders.iter().zip(&block.transactions).map(move |(sender, signing)| (each, sender, signing))
                });
                let counted = each.filter(|(each, sender, signing)| {
                    let hash = B256::from_slice(&signing.input[36..]);
                    let signed = self.header(hash).unwrap().map_or(u64::MAX, |header| header.number);
                    *sender == who && signed.is_multiple_of(15) && window.contains(&signed) && signed <= *each
                });
                counted.count() as u64
            };
            let stays = |who: &&Address| !served(who) || signed(who) < rules.minimum_signing_transactions;
            penalties.extend(penalised.iter().filter(stays));
        }
        penalties
    }

    /// Adds the next block by an active leader; rounds of silent leaders are missed.
    pub fn extend(&mut self) -> bool {
        let parent = self.tip().clone();
        let parent_round = self.round(parent.number);
        let consensus = NativeSettings::of(&self.spec).unwrap().consensus.clone();
        for round in parent_round + 1..parent_round + 60 {
            let opens = parent.number == 0 || parent_round < round / EPOCH * EPOCH;
            let lists = opens.then(|| self.next_lists(round));
            let list = lists.as_ref().map_or(&self.epoch.1, |(masternodes, _)| masternodes);
            if list.is_empty() {
                return false;
            }
            let leader = list[usize::try_from(round % EPOCH).unwrap() % list.len()];
            if self.silent.contains(&leader) {
                continue;
            }
            let quorum =
                self.certificate(&parent, parent_round, consensus.at_round(parent_round).certificate_threshold);
            let attributes = SealAttributes {
                timestamp: parent.timestamp + self.random.random_range(0..5),
                beneficiary: leader,
                gas_limit: 50_000_000,
                extra_data: Bytes::new(),
                mix_hash: B256::ZERO,
            };
            let engine = self.engine();
            let header = engine.prepare(&parent, round, quorum, &attributes, &**self).unwrap();
            let seal_items = header.native_seal.as_ref().unwrap();
            let written = addresses_of(&seal_items.validators);
            if let Some((masternodes, penalties)) = lists {
                assert_eq!(written, masternodes);
                assert_eq!(addresses_of(&seal_items.penalties), penalties);
                self.epochs += 1;
                self.penalised += penalties.len();
                self.come_backs += self.epoch.2.iter().filter(|who| masternodes.contains(who)).count();
                self.history.push((round / EPOCH, penalties.clone()));
                self.epoch = (header.number, masternodes, penalties);
            } else {
                assert!(written.is_empty());
            }
            let header = seal(header, &self.keys[&leader]).unwrap();
            engine.verify_header(&header, &parent, &**self, Some(u64::MAX)).unwrap();
            let signings = self.some_signings(&parent);
            self.store(header, signings);
            self.after_block();
            return true;
        }
        false
    }

    /// A certificate by a random quorum of the parent's epoch, sometimes by more than needed.
    fn certificate(&mut self, parent: &SealedHeader, round: u64, threshold: f64) -> QuorumCertificate {
        let multiple = self.epoch.0 / EPOCH * EPOCH;
        let gap_number = multiple.saturating_sub(GAP);
        let block = BlockInfo { hash: parent.hash(), round, number: parent.number };
        let mut voters = self.epoch.1.clone();
        voters.shuffle(&mut self.random);
        let needed = (0..=voters.len()).find(|count| *count as f64 >= voters.len() as f64 * threshold).unwrap();
        let count = if round == 0 { 0 } else { self.random.random_range(needed..=voters.len()) };
        let digest = vote_digest(&block, gap_number);
        let signatures = voters[..count].iter().map(|who| self.keys[who].sign(digest).to_vec().into()).collect();
        QuorumCertificate { block, signatures, gap_number }
    }

    /// Signing transactions of some candidates for an earlier block, counted or not.
    fn some_signings(&mut self, parent: &SealedHeader) -> Vec<(Address, B256)> {
        let mut signings = Vec::new();
        let mut signers: Vec<Address> = self.keys.keys().copied().collect();
        signers.sort_unstable();
        for who in signers {
            if self.random.random_bool(0.1) {
                let any = self.random.random_range(parent.number.saturating_sub(16)..=parent.number);
                let number = if self.random.random_bool(0.5) { any } else { parent.number / 15 * 15 };
                signings.push((who, self.chain[&number].hash()));
            }
        }
        signings
    }

    /// Adds candidates at gap blocks; some become silent, some active.
    fn after_block(&mut self) {
        let number = self.tip().number;
        if number % EPOCH == EPOCH - GAP {
            let mut list: Vec<Address> = self.keys.keys().copied().collect();
            list.sort_unstable();
            list.shuffle(&mut self.random);
            list.truncate(self.random.random_range(3..=list.len()));
            self.candidates.insert(number, list);
        }
        if self.random.random_bool(0.1) {
            let mut all: Vec<Address> = self.keys.keys().copied().collect();
            all.sort_unstable();
            all.shuffle(&mut self.random);
            self.silent = all[..self.random.random_range(0..=all.len() / 3)].to_vec();
        }
    }
}

/// A block with these signing transactions.
pub fn recovered(header: SealedHeader, signings: Vec<(Address, B256)>) -> Arc<RecoveredBlock> {
    let transactions = signings.iter().map(|(_, hash)| Arc::new(signing_transaction(*hash))).collect();
    let senders = signings.iter().map(|(sender, _)| *sender).collect();
    Arc::new(RecoveredBlock { block: assemble_block(header, transactions, Vec::new(), None), senders })
}

fn signing_transaction(hash: B256) -> Transaction {
    let input = [&[0xe3, 0x41, 0xea, 0xa4][..], &[0; 32], hash.as_slice()].concat();
    Transaction {
        hash: B256::ZERO,
        chain_id: Some(5151),
        nonce: 0,
        gas_limit: 200_000,
        to: Some(BLOCK_SIGNERS),
        value: U256::ZERO,
        input: input.into(),
        payload: TransactionPayload::Legacy { gas_price: U256::ZERO },
        signature: TransactionSignature { v: 27, r: U256::ZERO, s: U256::ZERO },
    }
}
