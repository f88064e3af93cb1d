//! A slow model of the system contracts, for the tests of the native engines: it follows the transactions of a recorded
//! chain and keeps the slots that consensus reads, in the contracts' own layout (`docs/spec/chain.md` 10). It executes
//! nothing; the layout is implemented here a second time, independently of the readers.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock},
};

use alloy_primitives::{address, keccak256};
use delegate::delegate;
use tenon_api::{
    Account, Address, B256, BlockNumber, Bytes, ChainReader, Head, LocatedLog, LogFilter, Receipt, RecoveredBlock,
    SealedHeader, StateReader, StoreError, Transaction, TrieReader, U256,
};
use tenon_chain::{ChainSpec, Genesis};
use tenon_native_spec::read_genesis;

use super::recorded_chain::{RecordedChain, unpacked};

const VALIDATOR: Address = address!("0000000000000000000000000000000000000088");
const BLOCK_SIGNER: Address = address!("0000000000000000000000000000000000000089");
const RANDOMIZE: Address = address!("0000000000000000000000000000000000000090");
/// Slots of the voting contract.
const RECORDS: u64 = 1;
const VOTERS: u64 = 2;
const KYC: u64 = 3;
const OWNED: u64 = 6;
const CANDIDATES: u64 = 8;
const MIN_CANDIDATE_CAP: u64 = 11;
const MIN_VOTER_CAP: u64 = 12;
/// The flag "is a candidate", in the same word as the owner.
const IS_CANDIDATE: U256 = U256::from_limbs([0, 0, 1 << 32, 0]);

fn slot(number: u64) -> B256 {
    U256::from(number).into()
}

fn entry(key: B256, mapping: B256) -> B256 {
    keccak256([key.0, mapping.0].concat())
}

fn offset(slot: B256, words: u64) -> B256 {
    U256::from_be_bytes(slot.0).wrapping_add(U256::from(words)).into()
}

/// Slots of the system contracts.
#[derive(Clone, Default)]
pub(crate) struct RecordedState {
    storage: HashMap<(Address, B256), U256>,
}

impl StateReader for RecordedState {
    fn account(&self, _: Address) -> Result<Option<Account>, StoreError> {
        Ok(None)
    }

    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError> {
        Ok(self.get(address, slot))
    }

    fn code(&self, _: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(None)
    }

    fn block_hash(&self, _: BlockNumber) -> Result<Option<B256>, StoreError> {
        Ok(None)
    }
}

impl RecordedState {
    pub(crate) fn of_genesis(genesis: &Genesis) -> Self {
        let accounts = genesis.alloc.iter();
        let slots = accounts.flat_map(|(address, account)| account.storage.iter().map(|(k, v)| ((*address, *k), *v)));
        Self { storage: slots.collect() }
    }

    fn get(&self, contract: Address, slot: B256) -> U256 {
        self.storage.get(&(contract, slot)).copied().unwrap_or_default()
    }

    pub(crate) fn set(&mut self, contract: Address, slot: B256, value: impl Into<U256>) {
        self.storage.insert((contract, slot), value.into());
    }

    fn push(&mut self, contract: Address, array: B256, value: B256) {
        let length = self.get(contract, array);
        self.set(contract, offset(keccak256(array), length.to()), U256::from_be_bytes(value.0));
        self.set(contract, array, length + U256::ONE);
    }

    /// Applies a block's calls; returns whether any of them could change something.
    pub(crate) fn apply(&mut self, block: &RecoveredBlock) -> bool {
        let mut is_changed = false;
        for (transaction, sender) in block.transactions.iter().zip(&block.senders) {
            let Some((selector, arguments)) = transaction.input.split_first_chunk::<4>() else { continue };
            match transaction.to {
                Some(VALIDATOR) => self.vote(*selector, arguments, transaction, *sender),
                Some(BLOCK_SIGNER) => self.sign(*selector, arguments, *sender),
                Some(RANDOMIZE) => self.reveal(*selector, arguments, *sender, block.header.number % 900),
                _ => continue,
            }
            is_changed = true;
        }
        is_changed
    }

    fn sign(&mut self, selector: [u8; 4], arguments: &[u8], sender: Address) {
        if selector == [0xe3, 0x41, 0xea, 0xa4] && arguments.len() == 64 {
            let array = entry(B256::from_slice(&arguments[32..]), slot(0));
            self.push(BLOCK_SIGNER, array, sender.into_word());
        }
    }

    fn reveal(&mut self, selector: [u8; 4], arguments: &[u8], sender: Address, place: u64) {
        let words: Vec<B256> = arguments.chunks_exact(32).map(B256::from_slice).collect();
        match selector {
            [0x34, 0xd3, 0x86, 0x00] if (800..850).contains(&place) => {
                let array = entry(sender.into_word(), slot(0));
                self.set(RANDOMIZE, array, U256::ZERO);
                words[2..].iter().for_each(|secret| self.push(RANDOMIZE, array, *secret));
            }
            [0xe1, 0x1f, 0x5b, 0xa2] if place >= 850 => {
                self.set(RANDOMIZE, entry(sender.into_word(), slot(1)), U256::from_be_bytes(words[0].0));
            }
            _ => {}
        }
    }

    fn record(candidate: Address) -> B256 {
        entry(candidate.into_word(), slot(RECORDS))
    }

    fn stake_slot(candidate: Address, voter: Address) -> B256 {
        entry(voter.into_word(), offset(Self::record(candidate), 2))
    }

    fn add_stake(&mut self, candidate: Address, voter: Address, value: U256) {
        let (total, own) = (offset(Self::record(candidate), 1), Self::stake_slot(candidate, voter));
        self.set(VALIDATOR, total, self.get(VALIDATOR, total) + value);
        self.set(VALIDATOR, own, self.get(VALIDATOR, own) + value);
    }

    fn take_stake(&mut self, candidate: Address, voter: Address, value: U256) {
        let (total, own) = (offset(Self::record(candidate), 1), Self::stake_slot(candidate, voter));
        self.set(VALIDATOR, total, self.get(VALIDATOR, total) - value);
        self.set(VALIDATOR, own, self.get(VALIDATOR, own) - value);
    }

    /// Makes an account a candidate that owns itself, with this stake in coins.
    pub(crate) fn add_candidate(&mut self, candidate: Address, coins: u64) {
        let owner = U256::from_be_bytes(candidate.into_word().0) | IS_CANDIDATE;
        self.set(VALIDATOR, Self::record(candidate), owner);
        self.push(VALIDATOR, slot(CANDIDATES), candidate.into_word());
        self.add_stake(candidate, candidate, U256::from(coins) * U256::from(10_u64.pow(18)));
    }

    fn vote(&mut self, selector: [u8; 4], arguments: &[u8], transaction: &Transaction, sender: Address) {
        let word = |index: usize| arguments.get(32 * index..32 * index + 32).map(B256::from_slice);
        let Some(first) = word(0) else { return };
        let candidate = Address::from_word(first);
        let record = self.get(VALIDATOR, Self::record(candidate));
        let is_candidate = record & IS_CANDIDATE != U256::ZERO;
        let is_owner = Address::from_word(record.into()) == sender;
        let own_stake = self.get(VALIDATOR, Self::stake_slot(candidate, sender));
        match selector {
            [0xf5, 0xc9, 0x51, 0x25] => self.push(VALIDATOR, entry(sender.into_word(), slot(KYC)), B256::ZERO),
            [0x01, 0x26, 0x79, 0x51] => {
                let is_known = |mapping| !self.get(VALIDATOR, entry(sender.into_word(), slot(mapping))).is_zero();
                let is_listed = is_known(KYC) || is_known(OWNED);
                if !is_candidate && is_listed && transaction.value >= self.get(VALIDATOR, slot(MIN_CANDIDATE_CAP)) {
                    let owner = U256::from_be_bytes(sender.into_word().0) | IS_CANDIDATE;
                    self.set(VALIDATOR, Self::record(candidate), owner);
                    self.push(VALIDATOR, slot(CANDIDATES), candidate.into_word());
                    self.push(VALIDATOR, entry(sender.into_word(), slot(OWNED)), candidate.into_word());
                    self.push(VALIDATOR, entry(candidate.into_word(), slot(VOTERS)), sender.into_word());
                    self.add_stake(candidate, sender, transaction.value);
                }
            }
            [0x6d, 0xd7, 0xd8, 0xea]
                if is_candidate && transaction.value >= self.get(VALIDATOR, slot(MIN_VOTER_CAP)) =>
            {
                if own_stake.is_zero() {
                    self.push(VALIDATOR, entry(candidate.into_word(), slot(VOTERS)), sender.into_word());
                }
                self.add_stake(candidate, sender, transaction.value);
            }
            [0x02, 0xaa, 0x9b, 0xe2] => {
                let Some(value) = word(1).map(|value| U256::from_be_bytes(value.0)) else { return };
                let keeps_enough = own_stake
                    .checked_sub(value)
                    .is_some_and(|left| !is_owner || left >= self.get(VALIDATOR, slot(MIN_CANDIDATE_CAP)));
                if keeps_enough {
                    self.take_stake(candidate, sender, value);
                }
            }
            [0xae, 0x6e, 0x43, 0xf5] if is_candidate && is_owner => {
                self.set(VALIDATOR, Self::record(candidate), record ^ IS_CANDIDATE);
                let count: u64 = self.get(VALIDATOR, slot(CANDIDATES)).to();
                for index in 0..count {
                    let place = offset(keccak256(slot(CANDIDATES)), index);
                    if self.get(VALIDATOR, place) == U256::from_be_bytes(candidate.into_word().0) {
                        self.set(VALIDATOR, place, U256::ZERO);
                    }
                }
                self.take_stake(candidate, sender, own_stake);
            }
            _ => {}
        }
    }
}

/// A recorded chain with the modelled state after each of its blocks.
pub(crate) struct ModelledChain {
    pub(crate) chain: RecordedChain,
    /// By the first block after which they apply.
    states: BTreeMap<u64, Arc<RecordedState>>,
    /// Whether only the states of the head and its parent can be read.
    is_pruned: bool,
}

impl ModelledChain {
    /// Engine v1 for two epochs with double validation, all `TIP` heights at 0, then v2 from 1801 on.
    pub(crate) fn v1switch() -> &'static Self {
        static CHAIN: LazyLock<ModelledChain> = LazyLock::new(|| ModelledChain::read("v1switch"));
        &CHAIN
    }

    /// Engine v1 for one epoch under the main network's heights, then v2 from 901 on.
    pub(crate) fn staged() -> &'static Self {
        static CHAIN: LazyLock<ModelledChain> = LazyLock::new(|| ModelledChain::read("staged"));
        &CHAIN
    }

    /// The chain of this name under `tests/data`.
    pub(crate) fn read(name: &str) -> Self {
        let genesis = format!("chain/native-genesis-{name}.json.gz");
        let chain = RecordedChain::read(name, &genesis);
        let mut state = RecordedState::of_genesis(&read_genesis(&unpacked(&genesis)).unwrap());
        let mut states = BTreeMap::from([(0, Arc::new(state.clone()))]);
        for block in &chain.blocks {
            if state.apply(block) {
                states.insert(block.header.number, Arc::new(state.clone()));
            }
        }
        Self { chain, states, is_pruned: false }
    }

    /// The same chain as seen by a node that keeps only the states of the head and its parent.
    pub(crate) fn pruned(self) -> Self {
        Self { is_pruned: true, ..self }
    }

    /// Makes the block of this height the head.
    pub(crate) fn set_head(&self, number: u64) {
        self.chain.set_head(self.chain.at(number).hash());
    }

    pub(crate) fn state(&self, number: u64) -> Arc<RecordedState> {
        Arc::clone(self.states.range(..=number).next_back().unwrap().1)
    }

    /// A chain of only a genesis block, with this state.
    pub(crate) fn starting_at(spec: Arc<ChainSpec>, genesis: RecoveredBlock, state: RecordedState) -> Self {
        let chain = RecordedChain::starting_at(spec, genesis);
        Self { chain, states: BTreeMap::from([(0, Arc::new(state))]), is_pruned: false }
    }

    /// Adds a block and applies its calls.
    pub(crate) fn push(&mut self, block: RecoveredBlock) {
        let number = block.header.number;
        let mut state = RecordedState::clone(&self.state(number));
        if state.apply(&block) {
            self.states.insert(number, Arc::new(state));
        }
        self.chain.push(block);
    }
}

impl ChainReader for ModelledChain {
    /// No signing transaction failed.
    fn receipts(&self, hash: B256) -> Result<Option<Arc<Vec<Receipt>>>, StoreError> {
        let receipt = Receipt {
            transaction_type: tenon_api::TransactionType::Legacy,
            outcome: tenon_api::ReceiptOutcome::Status(true),
            cumulative_gas_used: 0,
            gas_used: 0,
            logs: Vec::new(),
        };
        Ok(self.block(hash)?.map(|block| Arc::new(vec![receipt; block.transactions.len()])))
    }

    fn state_at(&self, number: BlockNumber) -> Result<Arc<dyn StateReader>, StoreError> {
        let oldest = self.head().number().parent().unwrap_or_default();
        if self.is_pruned && number < oldest {
            return Err(StoreError::Pruned { number, oldest });
        }
        Ok(self.state(number.0))
    }

    delegate! {
        to self.chain {
            fn head(&self) -> Arc<Head>;
            fn canonical_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError>;
            fn header(&self, hash: B256) -> Result<Option<Arc<SealedHeader>>, StoreError>;
            fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, StoreError>;
            fn total_difficulty(&self, hash: B256) -> Result<Option<U256>, StoreError>;
            fn transaction_location(&self, hash: B256) -> Result<Option<(B256, u64)>, StoreError>;
            fn trie(&self) -> Arc<dyn TrieReader>;
            fn logs(
                &self,
                from: BlockNumber,
                to: BlockNumber,
                filter: &LogFilter,
                limit: usize,
                is_cancelled: &dyn Fn() -> bool,
            ) -> Result<Vec<LocatedLog>, StoreError>;
        }
    }
}
