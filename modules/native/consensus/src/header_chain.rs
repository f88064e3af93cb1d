//! Verifies headers in bulk, without bodies and states (`tenon verify-headers`).

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder, prelude::*};
use tenon_api::{
    B256, BlockNumber, ChainReader, ConsensusEngine as _, Head, LocatedLog, LogFilter, Receipt, RecoveredBlock,
    SealedHeader, StateReader, StoreError, TrieReader, U256,
};
use tenon_chain::ChainSpec;

use super::engine::{NativeEngine, NativeError};

/// Number of epochs whose headers are kept: verification looks back to the beginning of the epoch, and at an epoch
/// switch to the gap block before it.
const KEPT_EPOCHS: u64 = 4;
/// Minimum and maximum number of headers kept for any length of an epoch; a header has about 6 KB.
const KEPT_HEADERS: std::ops::RangeInclusive<u64> = 2048..=65_536;

/// Why verification cannot start.
#[derive(Debug, thiserror::Error)]
pub enum VerifierError {
    /// The chain's rules are not native.
    #[error(transparent)]
    Rules(#[from] NativeError),
    /// The threads could not be started.
    #[error("cannot start the verification threads: {0}")]
    Threads(#[from] ThreadPoolBuildError),
}

/// How far a header was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerificationLevel {
    /// Block 0, equal to the expected genesis.
    Genesis,
    /// By every rule that needs no state.
    InFull,
    /// By form, seal and signatures; ancestors needed for the other rules were missing.
    Alone,
}

/// Why a header is refused.
#[derive(Debug, thiserror::Error)]
#[error("header {number} ({hash}): {reason}")]
pub struct RefusedHeader {
    /// Its height.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
    /// The broken rule.
    pub reason: HeaderProblem,
}

/// A rule that a header breaks.
#[derive(Debug, thiserror::Error)]
pub enum HeaderProblem {
    /// A rule of consensus is broken.
    #[error(transparent)]
    Consensus(#[from] NativeError),
    /// Block 0 belongs to another chain.
    #[error("block 0 is not the genesis block of this network, {0}")]
    OtherGenesis(B256),
}

/// Maximum number of headers whose signatures a thread recovers in one batch before it verifies them. Those of v2 have
/// some seventy signatures each, those of v1 two.
const HEADERS_PER_BATCH: usize = 16;

/// Verifies the headers of a chain in order, on all cores.
pub struct HeaderVerifier {
    engine: NativeEngine,
    chain: HeaderChain,
    /// Hash of block 0, if known.
    genesis: Option<B256>,
    /// The threads for verification.
    threads: ThreadPool,
}

impl HeaderVerifier {
    /// A verifier for headers of this chain with this many threads; 0 means one per core. Without `genesis`, any block
    /// 0 is accepted.
    ///
    /// # Errors
    /// [`VerifierError`].
    pub fn new(spec: &Arc<ChainSpec>, genesis: Option<B256>, threads: usize) -> Result<Self, VerifierError> {
        let engine = NativeEngine::for_headers_alone(spec)?;
        let epochs = engine.consensus().epoch.saturating_mul(KEPT_EPOCHS);
        let capacity = epochs.clamp(*KEPT_HEADERS.start(), *KEPT_HEADERS.end());
        let chain = HeaderChain::new(usize::try_from(capacity).unwrap_or(usize::MAX));
        let threads = ThreadPoolBuilder::new().num_threads(threads).build()?;
        Ok(Self { engine, chain, genesis, threads })
    }

    /// Verifies the next headers, whose ancestors must be among them or in an earlier call. Returns the level of
    /// each, up to the first that is refused.
    ///
    /// They are verified in parallel: rules only read ancestors, and a refused ancestor precedes its descendants, so
    /// the first error is the same as in a sequential check.
    pub fn verify(&mut self, headers: Vec<SealedHeader>) -> (Vec<VerificationLevel>, Option<RefusedHeader>) {
        let headers: Vec<Arc<SealedHeader>> = headers.into_iter().map(Arc::new).collect();
        for header in &headers {
            self.chain.insert(Arc::clone(header));
        }
        let verify_part = |headers: &[Arc<SealedHeader>]| {
            let ahead: Vec<&SealedHeader> = headers.iter().map(|header| &**header).collect();
            self.engine.recover_ahead(&ahead);
            headers.iter().map(|header| self.verify_header(header)).collect::<Vec<_>>()
        };
        let part = (headers.len() / (4 * self.threads.current_num_threads())).clamp(1, HEADERS_PER_BATCH);
        let verdicts: Vec<_> = self.threads.install(|| headers.par_chunks(part).flat_map_iter(verify_part).collect());
        let mut levels = Vec::with_capacity(verdicts.len());
        for (header, verdict) in headers.iter().zip(verdicts) {
            match verdict {
                Ok(level) => levels.push(level),
                Err(reason) => {
                    let refused = RefusedHeader { number: header.number, hash: header.hash(), reason };
                    return (levels, Some(refused));
                }
            }
        }
        self.chain.forget_oldest();
        (levels, None)
    }

    fn verify_header(&self, header: &SealedHeader) -> Result<VerificationLevel, HeaderProblem> {
        if header.number == 0 {
            match self.genesis {
                Some(wanted) if wanted != header.hash() => return Err(HeaderProblem::OtherGenesis(wanted)),
                Some(_) => return Ok(VerificationLevel::Genesis),
                None => return Ok(VerificationLevel::Alone),
            }
        }
        if let Some(parent) = self.chain.by_hash.get(&header.parent_hash) {
            match self.engine.check_header(header, parent, &self.chain) {
                Ok(()) => return Ok(VerificationLevel::InFull),
                Err(error) if error.is_missing_ancestor() => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.engine.verify_without_ancestors(header, &self.chain)?;
        Ok(VerificationLevel::Alone)
    }
}

/// The latest headers of a file.
struct HeaderChain {
    by_hash: HashMap<B256, Arc<SealedHeader>>,
    /// The first header received for each height.
    by_number: BTreeMap<u64, B256>,
    in_order: VecDeque<B256>,
    capacity: usize,
}

impl HeaderChain {
    fn new(capacity: usize) -> Self {
        Self { by_hash: HashMap::new(), by_number: BTreeMap::new(), in_order: VecDeque::new(), capacity }
    }

    fn insert(&mut self, header: Arc<SealedHeader>) {
        let (number, hash) = (header.number, header.hash());
        if self.by_hash.insert(hash, header).is_none() {
            self.by_number.entry(number).or_insert(hash);
            self.in_order.push_back(hash);
        }
    }

    fn forget_oldest(&mut self) {
        while self.in_order.len() > self.capacity {
            let Some(header) = self.in_order.pop_front().and_then(|hash| self.by_hash.remove(&hash)) else { return };
            if self.by_number.get(&header.number) == Some(&header.hash()) {
                self.by_number.remove(&header.number);
            }
        }
    }
}

impl ChainReader for HeaderChain {
    fn head(&self) -> Arc<Head> {
        let header = self.in_order.back().and_then(|hash| self.by_hash.get(hash)).cloned();
        let header = header.unwrap_or_else(|| Arc::new(tenon_chain::seal(tenon_api::Header::default())));
        Arc::new(Head { header, total_difficulty: U256::ZERO, finalized: None, safe: None })
    }

    fn canonical_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        Ok(self.by_number.get(&number.0).copied())
    }

    fn header(&self, hash: B256) -> Result<Option<Arc<SealedHeader>>, StoreError> {
        Ok(self.by_hash.get(&hash).cloned())
    }

    fn block(&self, _: B256) -> Result<Option<Arc<RecoveredBlock>>, StoreError> {
        Ok(None)
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
        // Headers have no state.
        Arc::new(HashMap::new())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded_chain::RecordedChain;

    fn headers(chain: &RecordedChain) -> Vec<SealedHeader> {
        chain.blocks.iter().map(|block| block.header.clone()).collect()
    }

    fn verifier(chain: &RecordedChain) -> HeaderVerifier {
        HeaderVerifier::new(&chain.spec, Some(chain.at(0).hash()), 2).unwrap()
    }

    #[test]
    fn every_header_of_the_recorded_chains_is_verified_in_full() {
        for (name, genesis) in [
            ("local", "chain/native-genesis-local.json.gz"),
            ("staged", "chain/native-genesis-staged.json.gz"),
            ("v1switch", "chain/native-genesis-v1switch.json.gz"),
        ] {
            let chain = RecordedChain::read(name, genesis);
            let mut verifier = verifier(&chain);
            let mut levels = Vec::new();
            for batch in headers(&chain).chunks(100) {
                let (found, refused) = verifier.verify(batch.to_vec());
                assert!(refused.is_none(), "{name}: {}", refused.unwrap());
                levels.extend(found);
            }
            let count = |wanted| levels.iter().filter(|level| **level == wanted).count();
            assert_eq!(count(VerificationLevel::Genesis), 1, "{name}");
            assert_eq!(count(VerificationLevel::InFull) + 1, chain.blocks.len(), "{name}");
        }
    }

    /// A file that begins in the middle of a chain: full verification starts with the child of the first epoch switch.
    #[test]
    fn headers_without_their_epoch_are_checked_alone() {
        let chain = RecordedChain::local();
        let (levels, refused) = verifier(&chain).verify(headers(&chain)[130..200].to_vec());

        assert!(refused.is_none(), "{}", refused.unwrap());
        let first_in_full = levels.iter().position(|level| *level == VerificationLevel::InFull);
        assert_eq!(first_in_full, Some(168 + 1 - 130), "block 168 opens an epoch");
        assert!(levels[39..].iter().all(|level| *level == VerificationLevel::InFull));
    }

    #[test]
    fn the_first_header_that_breaks_a_rule_is_named_regardless_of_later_ones() {
        let chain = RecordedChain::local();
        let mut all = headers(&chain);
        let mut broken = all[77].header().clone();
        broken.difficulty = U256::from(2);
        all[77] = tenon_chain::seal(broken);

        let (levels, refused) = verifier(&chain).verify(all);

        // The seal covers the difficulty; the reported rule is the first that a sequential check would find.
        let refused = refused.unwrap().to_string();
        assert_eq!(levels.len(), 77);
        assert!(refused.starts_with("header 77 (") && refused.ends_with("): invalid difficulty"), "{refused}");
    }

    #[test]
    fn a_header_without_ancestors_must_be_sealed_by_its_beneficiary() {
        let chain = RecordedChain::local();
        let mut changed = chain.at(300).header().clone();
        changed.state_root = B256::repeat_byte(1);

        let (_, refused) = verifier(&chain).verify(vec![tenon_chain::seal(changed)]);

        let refused = refused.unwrap().to_string();
        assert!(refused.ends_with("validator and coinbase address in header does not match"), "{refused}");
    }

    #[test]
    fn another_chains_block_0_is_refused() {
        let chain = RecordedChain::local();
        let other = RecordedChain::read("staged", "chain/native-genesis-staged.json.gz");

        let (_, refused) = verifier(&chain).verify(vec![other.at(0).clone()]);

        assert!(refused.unwrap().to_string().contains("block 0 is not the genesis block of this network"));
    }

    #[test]
    fn memory_is_bounded_by_the_headers_needed_for_verification() {
        let chain = RecordedChain::local();
        let mut verifier = verifier(&chain);
        verifier.chain.capacity = 128;
        for batch in headers(&chain).chunks(50) {
            let (_, refused) = verifier.verify(batch.to_vec());
            assert!(refused.is_none(), "{}", refused.unwrap());
        }
        assert_eq!(verifier.chain.by_hash.len(), 128);
        assert_eq!(verifier.chain.by_number.len(), 128);
    }
}
