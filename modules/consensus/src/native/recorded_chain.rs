//! The chains that networks of the reference client made, in memory, for the tests of the native engines.

use std::{collections::HashMap, io::Read, path::PathBuf, sync::Arc};

use alloy_primitives::{Address, B256, U256};
use secp256k1::{Message, SECP256K1, SecretKey};
use sha2::{Digest, Sha256};
use tenon_api::{
    BlockNumber, ChainReader, Head, Header, LocatedLog, LogFilter, Receipt, RecoveredBlock, SealedHeader, StateReader,
    StoreError, TrieReader,
};
use tenon_chain::{BlockStream, ChainSpec, Genesis, NativeSettings, recover_senders_under};

/// A recorded chain, whole, with its rules. It has no state.
pub(crate) struct RecordedChain {
    pub(crate) spec: Arc<ChainSpec>,
    pub(crate) blocks: Vec<Arc<RecoveredBlock>>,
    /// Headers without their blocks.
    headers: Vec<Arc<SealedHeader>>,
    by_hash: HashMap<B256, usize>,
}

/// A packed file below `tests/data`.
pub(crate) fn unpacked(path: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(path);
    let packed = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    bytes
}

impl RecordedChain {
    /// The chain of this name; `genesis` is the path of its genesis below `tests/data`.
    pub(crate) fn read(name: &str, genesis: &str) -> Self {
        let spec = Genesis::from_json(&unpacked(genesis)).unwrap().spec;
        let file = unpacked(&format!("native/chains/{name}.rlp.gz"));
        let mut blocks = Vec::new();
        for block in BlockStream::new(&file[..]) {
            let block = block.unwrap();
            let rules = spec.signer_rules(block.header.number, block.header.timestamp);
            blocks.push(Arc::new(recover_senders_under(block, &rules).unwrap()));
        }
        let by_hash = blocks.iter().enumerate().map(|(index, block)| (block.hash(), index)).collect();
        Self { spec, blocks, headers: Vec::new(), by_hash }
    }

    /// Some headers, without blocks.
    pub(crate) fn of_headers(spec: Arc<ChainSpec>, headers: Vec<SealedHeader>) -> Self {
        let headers = headers.into_iter().map(Arc::new).collect();
        Self { spec, blocks: Vec::new(), headers, by_hash: HashMap::new() }
    }

    /// Every fork at 0, v2 from block 1, epochs of 60, twelve of them, with time-outs and penalties.
    pub(crate) fn local() -> Self {
        Self::read("local", "chain/native-genesis-local.json.gz")
    }

    /// A chain of this genesis block alone, to be added to.
    pub(crate) fn starting_at(spec: Arc<ChainSpec>, genesis: RecoveredBlock) -> Self {
        let mut chain = Self { spec, blocks: Vec::new(), headers: Vec::new(), by_hash: HashMap::new() };
        chain.push(genesis);
        chain
    }

    /// Adds a block that follows the last.
    pub(crate) fn push(&mut self, block: RecoveredBlock) {
        self.by_hash.insert(block.hash(), self.blocks.len());
        self.blocks.push(Arc::new(block));
    }

    pub(crate) fn settings(&self) -> NativeSettings {
        self.spec.native.clone().unwrap()
    }

    pub(crate) fn at(&self, number: u64) -> &SealedHeader {
        &self.blocks[usize::try_from(number).unwrap()].header
    }
}

/// The key of account `n` of the recorded networks: sha256 of `tenon-golden-<n>`.
pub(crate) fn key(n: usize) -> SecretKey {
    SecretKey::from_byte_array(Sha256::digest(format!("tenon-golden-{n}")).into()).unwrap()
}

/// The address of a key.
pub(crate) fn address_of(key: &SecretKey) -> Address {
    let public = key.public_key(SECP256K1).serialize_uncompressed();
    Address::from_slice(&alloy_primitives::keccak256(&public[1..])[12..])
}

/// The key of one of the recorded networks' masternodes.
pub(crate) fn key_of(address: Address) -> SecretKey {
    (0..30).map(key).find(|key| address_of(key) == address).unwrap()
}

/// Signs a digest as masternodes do.
pub(crate) fn sign(digest: B256, key: &SecretKey) -> Vec<u8> {
    let (id, compact) = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(digest.0), key).serialize_compact();
    [&compact[..], &[u8::try_from(i32::from(id)).unwrap()]].concat()
}

/// Signs a changed v2 header again and seals it.
pub(crate) fn resealed(mut header: Header, key: &SecretKey) -> SealedHeader {
    let signature = sign(super::v2_seal_hash(&header), key);
    header.native_seal.as_mut().unwrap().validator = signature.into();
    tenon_chain::seal(header)
}

impl ChainReader for RecordedChain {
    fn head(&self) -> Arc<Head> {
        let header = Arc::new(self.blocks.last().unwrap().header.clone());
        Arc::new(Head { header, total_difficulty: U256::ZERO, finalized: None, safe: None })
    }

    fn canonical_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        let recorded = usize::try_from(number.0).ok().and_then(|number| self.blocks.get(number));
        let alone = || self.headers.iter().find(|header| header.number == number.0).map(|header| header.hash());
        Ok(recorded.map(|block| block.hash()).or_else(alone))
    }

    fn header(&self, hash: B256) -> Result<Option<Arc<SealedHeader>>, StoreError> {
        let recorded = self.block(hash)?.map(|block| Arc::new(block.header.clone()));
        Ok(recorded.or_else(|| self.headers.iter().find(|header| header.hash() == hash).cloned()))
    }

    fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, StoreError> {
        Ok(self.by_hash.get(&hash).and_then(|index| self.blocks.get(*index)).cloned())
    }

    fn receipts(&self, _: B256) -> Result<Option<Arc<Vec<Receipt>>>, StoreError> {
        Ok(None)
    }

    fn total_difficulty(&self, _: B256) -> Result<Option<U256>, StoreError> {
        Ok(None)
    }

    fn transaction_location(&self, _: B256) -> Result<Option<(B256, u64)>, StoreError> {
        Ok(None)
    }

    fn state_at(&self, number: BlockNumber) -> Result<Arc<dyn StateReader>, StoreError> {
        Err(StoreError::UnknownBlock { what: number.0.to_string() })
    }

    fn trie(&self) -> Arc<dyn TrieReader> {
        unreachable!("headers need no trie")
    }

    fn logs(
        &self,
        _: BlockNumber,
        _: BlockNumber,
        _: &LogFilter,
        _: usize,
        _: &dyn Fn() -> bool,
    ) -> Result<Vec<LocatedLog>, StoreError> {
        Ok(Vec::new())
    }
}
