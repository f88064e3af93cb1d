//! Chains recorded on networks of the reference client, in memory, for the tests of the native engines and of the voting.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::sync::Arc;

use alloy_primitives::{Address, B256};
use secp256k1::{Message, SECP256K1, SecretKey};
use sha2::{Digest, Sha256};
use tenon_api::{Header, RecoveredBlock, SealedHeader};
use tenon_chain::{BlockStream, ChainSpec, recover_senders_under};
use tenon_memory_chain::MemoryChain;
use tenon_native_spec::{NativeSettings, read_genesis};
pub use tenon_test_data::unpacked;

/// A complete recorded chain with its rules. It has no state.
#[derive(derive_more::Deref)]
pub struct RecordedChain {
    /// Its rules.
    pub spec: Arc<ChainSpec>,
    /// Its blocks by height, the genesis block included.
    pub blocks: Vec<Arc<RecoveredBlock>>,
    /// The same blocks (or headers without blocks) as a [`ChainReader`](tenon_api::ChainReader).
    #[deref]
    memory: MemoryChain,
}

impl RecordedChain {
    /// The chain of this name; `genesis` is the path of its genesis below `tests/data`.
    pub fn read(name: &str, genesis: &str) -> Self {
        let spec = read_genesis(&unpacked(genesis)).unwrap().spec;
        let file = unpacked(format!("native/chains/{name}.rlp.gz"));
        let mut chain = Self { spec: Arc::clone(&spec), blocks: Vec::new(), memory: MemoryChain::default() };
        for block in BlockStream::new(&file[..]) {
            let block = block.unwrap();
            let rules = spec.signer_rules(block.header.number, block.header.timestamp);
            chain.push(recover_senders_under(block, &rules).unwrap());
        }
        chain
    }

    /// Some headers, without blocks.
    pub fn of_headers(spec: Arc<ChainSpec>, headers: Vec<SealedHeader>) -> Self {
        let memory = MemoryChain::default();
        headers.into_iter().for_each(|header| memory.push_header(header));
        Self { spec, blocks: Vec::new(), memory }
    }

    /// Every fork at 0, v2 from block 1, twelve epochs of 60, with timeouts and penalties.
    pub fn local() -> Self {
        Self::read("local", "chain/native-genesis-local.json.gz")
    }

    /// A chain of only this genesis block, to be extended.
    pub fn starting_at(spec: Arc<ChainSpec>, genesis: RecoveredBlock) -> Self {
        let mut chain = Self { spec, blocks: Vec::new(), memory: MemoryChain::default() };
        chain.push(genesis);
        chain
    }

    /// Adds a block that follows the last.
    pub fn push(&mut self, block: RecoveredBlock) {
        let block = Arc::new(block);
        self.memory.push(Arc::clone(&block));
        self.blocks.push(block);
    }

    /// Removes the blocks above this one.
    pub fn truncate(&mut self, head: usize) {
        self.blocks.truncate(head + 1);
        self.memory = MemoryChain::default();
        self.blocks.iter().for_each(|block| self.memory.push(Arc::clone(block)));
    }

    /// The native rules.
    pub fn settings(&self) -> NativeSettings {
        NativeSettings::of(&self.spec).cloned().unwrap()
    }

    /// The header of this height.
    pub fn at(&self, number: u64) -> &SealedHeader {
        &self.blocks[usize::try_from(number).unwrap()].header
    }
}

/// The key of account `n` of the recorded networks: sha256 of `tenon-golden-<n>`.
pub fn key(n: usize) -> SecretKey {
    SecretKey::from_byte_array(Sha256::digest(format!("tenon-golden-{n}")).into()).unwrap()
}

/// The address of a key.
pub fn address_of(key: &SecretKey) -> Address {
    let public = key.public_key(SECP256K1).serialize_uncompressed();
    Address::from_slice(&alloy_primitives::keccak256(&public[1..])[12..])
}

/// The key of one of the recorded networks' masternodes.
pub fn key_of(address: Address) -> SecretKey {
    (0..30).map(key).find(|key| address_of(key) == address).unwrap()
}

/// Signs a digest as masternodes do.
pub fn sign(digest: B256, key: &SecretKey) -> Vec<u8> {
    let (id, compact) = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(digest.0), key).serialize_compact();
    [&compact[..], &[u8::try_from(i32::from(id)).unwrap()]].concat()
}

/// Signs a changed v2 header again and seals it.
pub fn resealed(mut header: Header, key: &SecretKey) -> SealedHeader {
    let signature = sign(super::v2_seal_hash(&header), key);
    header.native_seal.as_mut().unwrap().validator = signature.into();
    tenon_chain::seal(header)
}
