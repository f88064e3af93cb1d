//! Chains that networks of the reference client made (`tests/data/native/README.md`).

use std::sync::Arc;

use alloy_primitives::Address;
use tenon_api::{Block, messages::CallRequest};
use tenon_chain::{BlockStream, Genesis};
use tenon_native_consensus::NativeEngine;
use tenon_native_spec::read_genesis;
use tenon_test_data::unpacked;

use crate::{Node, SplitMix64};

/// A recorded chain.
pub struct RecordedChain {
    /// Its genesis.
    pub genesis: Genesis,
    /// Its blocks from block 1 on.
    pub blocks: Vec<Block>,
}

impl RecordedChain {
    /// Reads genesis and blocks from `tests/data`.
    ///
    /// # Panics
    /// If the files are missing or invalid.
    pub fn read(genesis: &str, chain: &str) -> Self {
        let file = unpacked(chain);
        let blocks = BlockStream::new(&file[..]).map(|block| block.unwrap());
        let blocks = blocks.filter(|block| block.header.number > 0).collect();
        Self { genesis: read_genesis(&unpacked(genesis)).unwrap(), blocks }
    }

    /// A node of this chain with the native engine and block 0 only.
    ///
    /// # Panics
    /// If the engine refuses the chain.
    pub fn node(&self) -> Node {
        Node::new(&self.genesis, |spec| Arc::new(NativeEngine::new(&spec).unwrap()))
    }

    /// All addresses in transactions of these blocks.
    pub fn addresses(blocks: &[Block]) -> Vec<Address> {
        let transactions = blocks.iter().flat_map(|block| &block.transactions);
        let mut addresses: Vec<Address> = transactions.filter_map(|transaction| transaction.to).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// Calls that repeat transactions of these blocks.
    pub fn calls(blocks: &[Block], random: &mut SplitMix64, count: u64) -> Vec<CallRequest> {
        let transactions: Vec<_> = blocks.iter().flat_map(|block| &block.transactions).collect();
        if transactions.is_empty() {
            return Vec::new();
        }
        let mut call = || {
            let transaction = random.one_of(&transactions);
            CallRequest {
                from: tenon_chain::recover_sender(transaction).ok(),
                to: transaction.to,
                gas: Some(transaction.gas_limit),
                input: transaction.input.clone(),
                ..CallRequest::default()
            }
        };
        (0..count).map(|_| call()).collect()
    }
}
