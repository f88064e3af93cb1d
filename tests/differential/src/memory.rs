//! A node's answers about a height while it was the newest.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{
    Account, BlockId, BlockNumber, ChainReader as _, Receipt,
    messages::{BlockOverrides, Call, CallRequest},
};
use tenon_sdk::Failure;
use tenon_sdk::error_texts::RefusableAnswer as _;

use crate::{Node, compare::receipts_of};

/// The slots that are queried: those that the random code writes, and a few others.
const SLOTS: u64 = 8;

/// Answers of one height.
#[derive(Debug, Default)]
struct Height {
    hash: B256,
    receipts: Vec<Receipt>,
    accounts: BTreeMap<Address, Option<Account>>,
    slots: BTreeMap<(Address, B256), U256>,
    calls: Vec<(CallRequest, Result<Bytes, Failure>)>,
}

/// Answers of many heights.
#[derive(Debug, Default)]
pub struct Memory(BTreeMap<u64, Height>);

/// Number of compared answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Heights.
    pub heights: u64,
    /// Accounts.
    pub accounts: u64,
    /// Slots.
    pub slots: u64,
    /// Calls.
    pub calls: u64,
    /// Calls among them that failed, identically each time.
    pub failed_calls: u64,
}

fn slots_of(address: Address) -> impl Iterator<Item = (Address, B256)> {
    (0..SLOTS).map(move |slot| (address, B256::from(U256::from(slot))))
}

fn ask(node: &Node, request: &CallRequest, block: BlockId) -> Result<Bytes, Failure> {
    node.ask(Call {
        request: request.clone(),
        block,
        state_overrides: Vec::new(),
        block_overrides: BlockOverrides::default(),
    })
    .or_failure()
}

impl Memory {
    /// Records the head: its receipts, these accounts with some slots, these calls.
    ///
    /// # Panics
    /// If something cannot be read.
    pub fn remember(&mut self, node: &Node, addresses: &[Address], calls: Vec<CallRequest>) {
        let head = node.store.head();
        let state = node.store.state_at(head.number()).unwrap();
        let calls = calls.into_iter().map(|call| {
            let answer = ask(node, &call, BlockId::LATEST);
            (call, answer)
        });
        let height = Height {
            hash: head.header.hash(),
            receipts: receipts_of(node, head.number()),
            accounts: addresses.iter().map(|address| (*address, state.account(*address).unwrap())).collect(),
            slots: addresses
                .iter()
                .flat_map(|address| slots_of(*address))
                .map(|(address, slot)| ((address, slot), state.storage(address, slot).unwrap()))
                .collect(),
            calls: calls.collect(),
        };
        self.0.insert(head.header.number, height);
    }

    /// Repeats all queries on a node, by height, up to its head.
    ///
    /// # Panics
    /// At the first difference.
    pub fn compare(&self, node: &Node) -> Compared {
        let mut compared = Compared::default();
        for (number, height) in self.0.range(..=node.height()) {
            let number = BlockNumber(*number);
            assert_eq!(node.store.canonical_hash(number).unwrap(), Some(height.hash), "block {number}");
            assert_eq!(receipts_of(node, number), height.receipts, "receipts of block {number}");
            let state = node.store.state_at(number).unwrap();
            for (address, account) in &height.accounts {
                assert_eq!(state.account(*address).unwrap(), *account, "account {address} at block {number}");
            }
            for ((address, slot), value) in &height.slots {
                let found = state.storage(*address, *slot).unwrap();
                assert_eq!(found, *value, "slot {slot} of {address} at block {number}");
            }
            for (call, answer) in &height.calls {
                assert_eq!(ask(node, call, BlockId::number(number.0)), *answer, "{call:?} at block {number}");
                compared.failed_calls += u64::from(answer.is_err());
            }
            compared.heights += 1;
            compared.accounts += height.accounts.len() as u64;
            compared.slots += height.slots.len() as u64;
            compared.calls += height.calls.len() as u64;
        }
        compared
    }
}
