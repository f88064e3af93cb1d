//! Simulated v1 chains with masternodes that become silent and return, compared with a slow model of the penalties
//! (`docs/spec/consensus.md` 2.6, 2.7). Epochs have 180 blocks, so there are no pairs of signers.

use std::collections::{BTreeSet, HashMap};

use alloy_primitives::hex;
use proptest::prelude::*;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tenon_api::{
    B256, Block, EMPTY_OMMERS_HASH, NativeSeal, RecoveredBlock, Transaction, TransactionPayload, TransactionSignature,
    U256,
};
use tenon_chain::ChainSpec;
use tenon_native_spec::{NativeSettings, read_genesis};

use super::*;
use crate::{
    BLOCK_SIGNERS,
    recorded_chain::{address_of, key, key_of, sign, unpacked},
    recorded_state::RecordedState,
};

const EPOCH: u64 = 180;
const GAP: u64 = 90;

/// The test's plan for one block.
#[derive(Clone, Default)]
struct BlockPlan {
    /// Masternodes that do not make it, even on their turn.
    silent: BTreeSet<Address>,
    /// Its signing transactions: signer and signed block.
    signed: Vec<(Address, B256)>,
}

/// A chain that grows block by block, with a model of its lists to compare with the engine's.
struct Simulation {
    chain: ModelledChain,
    engine: V1Engine,
    /// All candidates, ascending.
    candidates: Vec<Address>,
    /// The model's masternodes and penalties by checkpoint.
    lists: HashMap<u64, (Vec<Address>, Vec<Address>)>,
    /// Makers of the current epoch's blocks, without its checkpoint's.
    creators: BTreeSet<Address>,
    last_creator: Option<Address>,
    rule: Rule,
}

/// The three rules of 2.7.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Contract,
    ReturnsOnly,
    Full,
}

impl Simulation {
    /// `count` candidates, all but the first of which are masternodes from the genesis block on.
    fn new(count: usize, rule: Rule) -> Self {
        let mut candidates: Vec<Address> = (0..count).map(|n| address_of(&key(n))).collect();
        candidates.sort_unstable();
        let spec = spec(rule);
        let mut state = RecordedState::default();
        for (place, candidate) in candidates.iter().enumerate() {
            state.add_candidate(*candidate, 10_000_000 + place as u64 % 3);
        }
        let first = candidates[..count - 1].to_vec();
        let genesis = Header {
            extra_data: [&[0; 32], concatenated(&first).as_slice(), &[0; 65]].concat().into(),
            ommers_hash: EMPTY_OMMERS_HASH,
            difficulty: U256::ONE,
            base_fee_per_gas: Some(12_500_000_000),
            native_seal: Some(NativeSeal::default()),
            ..Header::default()
        };
        let chain = ModelledChain::starting_at(Arc::clone(&spec), block(genesis, Vec::new()), state);
        let engine = engine(&chain);
        let lists = HashMap::from([(0, (first, Vec::new()))]);
        Self { chain, engine, candidates, lists, creators: BTreeSet::new(), last_creator: None, rule }
    }

    fn height(&self) -> u64 {
        self.chain.chain.blocks.len() as u64 - 1
    }

    fn hash(&self, number: u64) -> B256 {
        self.chain.chain.at(number).hash()
    }

    fn list(&self, number: u64) -> &[Address] {
        &self.lists[&(number - number % EPOCH)].0
    }

    /// Makes the next block, verifies it with the engine, and compares a checkpoint's lists with the model's.
    fn step(&mut self, plan: &BlockPlan) {
        let parent = self.chain.chain.at(self.height()).clone();
        let number = parent.number + 1;
        let (creator, difficulty) = self.next_creator(parent.number, &plan.silent);
        let mut header = Header {
            parent_hash: parent.hash(),
            ommers_hash: EMPTY_OMMERS_HASH,
            number,
            timestamp: parent.timestamp + 1,
            difficulty: U256::from(difficulty),
            base_fee_per_gas: Some(12_500_000_000),
            native_seal: Some(NativeSeal::default()),
            extra_data: vec![0; 32].into(),
            ..Header::default()
        };
        if number.is_multiple_of(EPOCH) {
            let computed = self.engine.checkpoint_lists(&parent, &self.chain).unwrap().unwrap();
            let modelled = self.modelled_lists(number);
            assert_eq!((&computed.masternodes, &computed.penalties), (&modelled.0, &modelled.1), "block {number}");
            header.extra_data = [&[0; 32], concatenated(&modelled.0).as_slice()].concat().into();
            let seal = header.native_seal.as_mut().unwrap();
            seal.penalties = concatenated(&modelled.1).into();
            seal.validators = computed.validators.unwrap_or_default().into();
            self.lists.insert(number, modelled);
            self.creators.clear();
        } else {
            self.creators.insert(creator);
        }
        header.extra_data = [&header.extra_data, [0; 65].as_slice()].concat().into();
        let start = header.extra_data.len() - 65;
        let signature = sign(v1_seal_hash(&header), &key_of(creator));
        header.extra_data = [&header.extra_data[..start], &signature].concat().into();
        let block = block(header, plan.signed.clone());
        assert_eq!(self.engine.verify_header(&block.header, &parent, &self.chain, None), Ok(()), "block {number}");
        self.last_creator = Some(creator);
        self.chain.push(block);
    }

    /// The next masternode in turn that is not silent, and the difficulty: the length of the list minus the masternodes
    /// skipped.
    fn next_creator(&self, parent: u64, silent: &BTreeSet<Address>) -> (Address, u64) {
        let list = self.list(parent);
        let length = list.len();
        let previous = self.last_creator.and_then(|last| list.iter().position(|address| *address == last));
        // If the parent's maker is not listed, or the parent is the genesis block, the turns start at the first place.
        let next = previous.map_or(0, |place| place + 1);
        let passed = (0..length).find(|passed| !silent.contains(&list[(next + passed) % length])).unwrap();
        (list[(next + passed) % length], (length - passed) as u64)
    }

    fn modelled_lists(&self, number: u64) -> (Vec<Address>, Vec<Address>) {
        let mut penalties = Vec::new();
        let ending = &self.lists[&(number - EPOCH)].0;
        match self.rule {
            Rule::Contract => penalties.extend(ending.iter().filter(|address| !self.signed_any(number, **address))),
            Rule::Full => penalties.extend(ending.iter().filter(|address| !self.creators.contains(*address))),
            Rule::ReturnsOnly => {}
        }
        if self.rule != Rule::Contract && number > 5 * EPOCH {
            let then = &self.lists[&(number - 5 * EPOCH)].1;
            penalties.extend(then.iter().filter(|address| !self.returned(number, **address)));
        }
        let is_out = |address: &Address| {
            let before = (1..=4).filter_map(|epochs| number.checked_sub(epochs * EPOCH)).filter(|then| *then > 0);
            penalties.contains(address) || before.into_iter().any(|then| self.lists[&then].1.contains(address))
        };
        let masternodes = self.candidates.iter().filter(|address| !is_out(address)).copied().collect();
        (masternodes, penalties)
    }

    fn signatures_in(&self, blocks: impl Iterator<Item = u64>) -> Vec<(u64, Address, B256)> {
        let blocks = blocks.map(|number| &self.chain.chain.blocks[usize::try_from(number).unwrap()]);
        let signed = |block: &Arc<RecoveredBlock>| {
            let number = block.header.number;
            let pairs = block.transactions.iter().zip(block.senders.clone());
            pairs.map(move |(call, sender)| (number, sender, B256::from_slice(&call.input[36..]))).collect::<Vec<_>>()
        };
        blocks.flat_map(signed).collect()
    }

    /// Returns whether the address signed any 15th block of the epoch before `number`.
    fn signed_any(&self, number: u64, address: Address) -> bool {
        let counted: Vec<B256> =
            (number - EPOCH..number).filter(|block| block % 15 == 0).map(|block| self.hash(block)).collect();
        let signatures = self.signatures_in(1..number);
        signatures.iter().any(|(_, signer, hash)| *signer == address && counted.contains(hash))
    }

    /// Returns whether one of the last 150 blocks contains a signature of the address for a 15th block among these 150.
    fn returned(&self, number: u64, address: Address) -> bool {
        let counted: Vec<B256> =
            (number - 150..number).filter(|block| block % 15 == 0).map(|block| self.hash(block)).collect();
        let signatures = self.signatures_in(number - 150..number);
        signatures.iter().any(|(_, signer, hash)| *signer == address && counted.contains(hash))
    }

    /// Makes blocks up to and including `last`.
    fn run_to(&mut self, last: u64, mut plan: impl FnMut(&Self, u64) -> BlockPlan) {
        while self.height() < last {
            let plan = plan(self, self.height() + 1);
            self.step(&plan);
        }
    }
}

fn spec(rule: Rule) -> Arc<ChainSpec> {
    let mut spec = read_genesis(&unpacked("chain/native-genesis-v1switch.json.gz")).unwrap().spec.as_ref().clone();
    let native = NativeSettings::of_mut(&mut spec).unwrap();
    (native.consensus.epoch, native.consensus.gap) = (EPOCH, GAP);
    native.consensus.switch_block = 1_000 * EPOCH;
    if rule == Rule::Contract {
        native.heights.tip_signing = u64::MAX;
    }
    if rule != Rule::Full {
        native.heights.tip_randomize = u64::MAX;
    }
    Arc::new(spec)
}

fn concatenated(addresses: &[Address]) -> Vec<u8> {
    addresses.iter().flat_map(|address| address.to_vec()).collect()
}

fn block(header: Header, signed: Vec<(Address, B256)>) -> RecoveredBlock {
    let senders = signed.iter().map(|(signer, _)| *signer).collect();
    let transactions = signed.into_iter().map(|(_, hash)| Arc::new(signing_call(hash))).collect();
    let header = tenon_chain::seal(header);
    RecoveredBlock { block: Block { header, transactions, ommers: Vec::new(), withdrawals: None, size: 0 }, senders }
}

fn signing_call(hash: B256) -> Transaction {
    Transaction {
        hash: B256::ZERO,
        chain_id: None,
        nonce: 0,
        gas_limit: 200_000,
        to: Some(BLOCK_SIGNERS),
        value: U256::ZERO,
        input: [&hex!("e341eaa4")[..], &[0; 32], hash.as_slice()].concat().into(),
        payload: TransactionPayload::Legacy { gas_price: U256::ZERO },
        signature: TransactionSignature { v: 27, r: U256::ONE, s: U256::ONE },
    }
}

/// A masternode that is silent for an epoch is excluded from the next five, and then returns only if it has signed.
#[test]
fn a_silent_masternode_is_excluded_for_five_epochs_and_must_sign_to_return() {
    // (block with the signing transaction, signed block, whether it counts at 1260)
    let cases = [
        (None, false),
        (Some((1_111, 1_110)), true),
        (Some((1_259, 1_245)), true),
        (Some((1_109, 1_095)), false),
        (Some((1_111, 1_095)), false),
        (Some((1_112, 1_111)), false),
    ];

    for (signing, returns) in cases {
        let mut simulation = Simulation::new(5, Rule::Full);
        let silent = simulation.candidates[2];
        simulation.run_to(7 * EPOCH, |simulation, number| {
            let is_silent = (EPOCH + 1..2 * EPOCH).contains(&number);
            let signed = signing.filter(|(at, _)| *at == number).map(|(_, of)| (silent, simulation.hash(of)));
            BlockPlan {
                silent: is_silent.then_some(silent).into_iter().collect(),
                signed: signed.into_iter().collect(),
            }
        });

        let lists = |number: u64| &simulation.lists[&number];
        assert!(lists(EPOCH).1.is_empty(), "a masternode without a turn is not penalised");
        assert_eq!(lists(2 * EPOCH).1, [silent]);
        for epoch in 2..=6 {
            assert!(!lists(epoch * EPOCH).0.contains(&silent), "epoch {epoch}");
        }
        assert_eq!(lists(7 * EPOCH).0.contains(&silent), returns, "{signing:?}");
        assert_eq!(lists(7 * EPOCH).1.contains(&silent), !returns, "{signing:?}");
    }
}

/// A candidate that was not a masternode in the ending epoch had no turn to miss; it joins at the first checkpoint.
#[test]
fn candidates_of_the_gap_block_become_masternodes_at_the_checkpoint() {
    let mut simulation = Simulation::new(4, Rule::Full);

    simulation.run_to(2 * EPOCH, |_, _| BlockPlan::default());

    assert_eq!(simulation.list(1).len(), 3);
    assert_eq!(simulation.list(EPOCH), simulation.candidates);
    assert_eq!(simulation.list(2 * EPOCH), simulation.candidates);
}

#[test]
fn silence_is_not_penalised_between_the_two_tips() {
    let mut simulation = Simulation::new(4, Rule::ReturnsOnly);
    let silent: BTreeSet<Address> = [simulation.candidates[1]].into();

    simulation.run_to(2 * EPOCH, |_, _| BlockPlan { silent: silent.clone(), signed: Vec::new() });

    assert!(simulation.lists[&(2 * EPOCH)].1.is_empty());
}

#[test]
fn masternodes_without_signatures_are_penalised_before_the_first_tip() {
    let mut simulation = Simulation::new(4, Rule::Contract);
    let lazy = simulation.candidates[1];

    simulation.run_to(2 * EPOCH, |simulation, number| {
        let seen = number - 1;
        if seen % 15 != 0 {
            return BlockPlan::default();
        }
        let signers = simulation.candidates.iter().filter(|address| number < EPOCH || **address != lazy);
        BlockPlan { silent: BTreeSet::new(), signed: signers.map(|signer| (*signer, simulation.hash(seen))).collect() }
    });

    assert!(simulation.lists[&EPOCH].1.is_empty());
    assert_eq!(simulation.lists[&(2 * EPOCH)].1, [lazy]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, ..ProptestConfig::default() })]

    /// Random silence and random returns over nine epochs; [`Simulation::step`] compares every checkpoint.
    #[test]
    fn the_engine_agrees_with_the_slow_model(seed in any::<u64>(), count in 4_usize..9) {
        let mut random = StdRng::seed_from_u64(seed);
        let mut simulation = Simulation::new(count, Rule::Full);
        let mut silent = BTreeSet::new();
        simulation.run_to(9 * EPOCH, |simulation, number| {
            if number % EPOCH == 1 {
                let list = simulation.list(number).to_vec();
                silent = list.iter().filter(|_| random.random_bool(0.2)).copied().collect();
                // At least two must make blocks: no masternode makes two in a row.
                let awake = random.random_range(0..list.len());
                silent.remove(&list[awake]);
                silent.remove(&list[(awake + 1) % list.len()]);
            }
            let mut signed = Vec::new();
            if random.random_bool(0.02) {
                let signer = simulation.candidates[random.random_range(0..simulation.candidates.len())];
                let seen = number.saturating_sub(random.random_range(1..40));
                signed.push((signer, simulation.hash(seen - seen % 5)));
            }
            BlockPlan { silent: silent.clone(), signed }
        });
    }
}
