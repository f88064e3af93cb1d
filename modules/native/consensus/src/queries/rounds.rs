//! A header with its round and status (`docs/spec/rpc-node.md` 2.4).

use std::sync::Arc;

use tenon_api::{
    BlockNumber,
    messages::{BlockRound, RoundOf, RoundProblem},
};
use tenon_chain::encode_header;

use super::{Queries, QueryError};
use crate::extra::{ExtraFields, ExtraProblem};

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
        let round = match self.engine.is_v2(header.number) {
            true => ExtraFields::decode(&header.extra_data).map(|extra| extra.round).map_err(round_problem),
            false => Ok(0),
        };
        let mut rlp = Vec::with_capacity(1024);
        encode_header(&header, &mut rlp);
        let canonical = self.chain.canonical_hash(BlockNumber(header.number))?;
        let committed = self.chain.head().finalized.map(|number| number.0);
        Ok(Some(BlockRound { header, rlp: rlp.into(), round, canonical, committed }))
    }
}

fn round_problem(problem: ExtraProblem) -> RoundProblem {
    match problem {
        ExtraProblem::Empty => RoundProblem::NoExtra,
        ExtraProblem::TooLong => RoundProblem::ExtraTooLong,
        ExtraProblem::Version(version) => RoundProblem::Version(version),
        ExtraProblem::Rlp(error) => RoundProblem::Malformed { reason: error.to_string() },
    }
}
