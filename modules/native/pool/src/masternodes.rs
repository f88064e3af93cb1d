//! The addresses that may send free transactions: the masternodes of the head's epoch, as listed by headers.

use std::sync::Arc;

use parking_lot::Mutex;
use tenon_api::{Address, B256, BlockNumber, ChainReader, Header, StoreError};
use tenon_native_spec::NativeConsensus;

/// Bytes of vanity and of the seal around the list in a v1 checkpoint's extra data.
const VANITY_BYTES: usize = 32;
const SEAL_BYTES: usize = 65;

/// Finds the masternodes of an epoch and caches the last list.
pub(super) struct Masternodes {
    epoch: u64,
    switch_block: u64,
    /// The masternodes as of the head with this hash. Locked for a look-up or an insertion only.
    last: Mutex<Option<(B256, Arc<[Address]>)>>,
}

impl Masternodes {
    pub(super) const fn new(consensus: &NativeConsensus) -> Self {
        Self { epoch: consensus.epoch, switch_block: consensus.switch_block, last: Mutex::new(None) }
    }

    /// Returns whether an address is a masternode of the head's epoch.
    pub(super) fn contains(
        &self,
        address: Address,
        head: &tenon_api::SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<bool, StoreError> {
        let known = self.last.lock().clone();
        if let Some((_, list)) = known.filter(|(hash, _)| *hash == head.hash()) {
            return Ok(list.contains(&address));
        }
        let list: Arc<[Address]> = self.list(head, chain)?.into();
        let is_one = list.contains(&address);
        *self.last.lock() = Some((head.hash(), list));
        Ok(is_one)
    }

    /// The list in the header that opened the head's epoch; empty if that header is not stored.
    fn list(&self, head: &tenon_api::SealedHeader, chain: &dyn ChainReader) -> Result<Vec<Address>, StoreError> {
        let mut number = head.number;
        let mut header = Arc::new(head.clone());
        // An epoch has at most as many blocks as rounds.
        for _ in 0..=self.epoch {
            if let Some(list) = self.listed(&header) {
                return Ok(list);
            }
            number = if number > self.switch_block { number.saturating_sub(1) } else { number - number % self.epoch };
            let hash = chain.canonical_hash(BlockNumber(number))?;
            let Some(next) = hash.map(|hash| chain.header(hash)).transpose()?.flatten() else { break };
            header = next;
        }
        Ok(Vec::new())
    }

    /// The masternodes listed in a header itself.
    fn listed(&self, header: &Header) -> Option<Vec<Address>> {
        let is_v2 = header.number > self.switch_block;
        let bytes: &[u8] = if is_v2 {
            header.native_seal.as_ref().map(|seal| &seal.validators[..])?
        } else if header.number.is_multiple_of(self.epoch) {
            let end = header.extra_data.len().checked_sub(SEAL_BYTES)?;
            header.extra_data.get(VANITY_BYTES..end)?
        } else {
            return None;
        };
        if is_v2 && bytes.is_empty() {
            return None;
        }
        Some(bytes.chunks_exact(Address::len_bytes()).map(Address::from_slice).collect())
    }
}
