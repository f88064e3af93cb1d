//! Sources of candidates and engines, for tests with recorded chains and random networks: those of this crate and of
//! `native/voting`.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

pub mod network;

use std::{collections::HashMap, sync::Arc};

use tenon_api::{Address, ChainReader, SealedHeader, StoreError};

use super::{V2Engine, gap_number, is_epoch_switch};
use crate::{
    candidates::MasternodeSource, extra::addresses_of, recorded_chain::RecordedChain, signers::SignerCache,
    signing::SigningIndex,
};

/// A source without state.
pub struct NoState;

impl MasternodeSource for NoState {
    fn candidates(&self, _: &SealedHeader, _: &dyn ChainReader) -> Result<Option<Arc<[Address]>>, StoreError> {
        Ok(None)
    }
}

/// Candidates by gap number.
pub struct Listed(
    /// The candidates.
    pub HashMap<u64, Arc<[Address]>>,
);

impl MasternodeSource for Listed {
    fn candidates(&self, gap: &SealedHeader, _: &dyn ChainReader) -> Result<Option<Arc<[Address]>>, StoreError> {
        Ok(self.0.get(&gap.number).cloned())
    }
}

impl Listed {
    /// The candidates as far as a chain's epoch switches show them: the masternodes of the first epoch drawn from a gap
    /// block, in order, followed by those penalised then. The order of the latter is unknown, as are candidates beyond
    /// the limit.
    pub fn from_headers(chain: &RecordedChain) -> Self {
        let settings = chain.settings();
        let consensus = &settings.consensus;
        let mut lists = HashMap::new();
        for block in chain.blocks.iter().filter(|block| block.header.number > consensus.switch_block) {
            let header = &block.header;
            if !is_epoch_switch(consensus, header).unwrap() {
                continue;
            }
            let seal = header.native_seal.as_ref().unwrap();
            let known = [addresses_of(&seal.validators), addresses_of(&seal.penalties)].concat();
            lists.entry(gap_number(consensus, header.number)).or_insert_with(|| known.into());
        }
        Self(lists)
    }
}

/// An engine for a recorded chain.
pub fn engine(chain: &RecordedChain, source: impl MasternodeSource + 'static) -> V2Engine {
    V2Engine::new(
        Arc::clone(&chain.spec),
        Arc::new(chain.settings()),
        Arc::new(SignerCache::default()),
        Arc::new(source),
        Arc::new(SigningIndex::default()),
    )
}
