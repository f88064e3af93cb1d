//! A header with its round and status (`docs/spec/rpc-node.md` 2.4).

use std::sync::Arc;

use tenon_api::{
    BlockNumber,
    messages::{BlockRound, RoundOf},
};
use tenon_chain::encode_header;

use super::{Queries, QueryError};
use crate::v2::{V2Error, round_of};

impl Queries {
    /// A header with its round; `None` if it is not stored.
    pub(super) fn round(&self, header: RoundOf) -> Result<Option<BlockRound>, QueryError> {
        let header = match header {
            RoundOf::Block(block) => match self.header(block)? {
                Some(header) => header,
                None => return Ok(None),
            },
            RoundOf::Header(header) => Arc::new(tenon_chain::seal(*header)),
        };
        let round = round_of(self.engine.consensus(), &header).map_err(|error| match error {
            V2Error::Extra(problem) => problem.to_string(),
            other => other.to_string(),
        });
        let mut rlp = Vec::with_capacity(1024);
        encode_header(&header, &mut rlp);
        let canonical = self.chain.canonical_hash(BlockNumber(header.number))?;
        let committed = self.chain.head().finalized.map(|number| number.0);
        Ok(Some(BlockRound { header, rlp: rlp.into(), round, canonical, committed }))
    }
}
