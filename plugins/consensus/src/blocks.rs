//! Blocks with their rounds (`docs/spec/rpc-node.md` 2.3, 2.4). What is wrong stands in the answer's `Error`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tenon_sdk::{prelude::*, shapes::JsonWriter};

use crate::{
    Answer, ConsensusContext,
    header::{HeaderArgument, nothing_given},
    require_native,
    selector::Chosen,
    write_number,
};

const NO_COMMITTED: &str = "can not find latest committed block from consensus";

pub(crate) async fn by_number(context: ConsensusContext, block: Chosen) -> Answer {
    require_native(&context, "getV2BlockByNumber").await?;
    let id = match block.or_committed() {
        Ok(id) => id,
        Err(failure) => return Ok(Info::error(failure.message).json()),
    };
    let found = context.call(GetRound { header: RoundOf::Block(id) }).await?;
    let info = match (&found, block.number()) {
        (Some(found), _) => Info::of(found, false),
        (None, Some(number)) => Info { number: Some(number), ..Info::error("can not find block from this number") },
        (None, None) => Info::error("can not find block from nil number"),
    };
    Ok(info.json())
}

pub(crate) async fn by_hash(context: ConsensusContext, hash: B256) -> Answer {
    require_native(&context, "getV2BlockByHash").await?;
    let found = context.call(GetRound { header: RoundOf::Block(BlockId::hash(hash)) }).await?;
    let info = match &found {
        None => Info { hash, ..Info::error("can not find block from this hash") },
        Some(BlockRound { canonical: None, header, .. }) => Info {
            number: Some(header.number.cast_signed()),
            ..Info::error("can not find chain header from this number")
        },
        Some(found) => Info::of(found, found.canonical != Some(found.header.hash())),
    };
    Ok(info.json())
}

/// A header that the caller brings. `is_uncle` says that it is not on the canonical chain.
pub(crate) async fn by_header(context: ConsensusContext, header: Option<HeaderArgument>, is_uncle: bool) -> Answer {
    require_native(&context, "getV2BlockByHeader").await?;
    let header = header.ok_or_else(nothing_given)?;
    let found = context.call(GetRound { header: RoundOf::Header(header.0) }).await?;
    let found = found.ok_or_else(|| Failure::server("the node tells no round of this header"))?;
    Ok(Info::of(&found, is_uncle).json())
}

/// What is said of a block; all is zero or empty when there is an error.
#[derive(Default)]
struct Info<'a> {
    hash: B256,
    round: u64,
    number: Option<i64>,
    parent_hash: B256,
    is_committed: bool,
    miner: Address,
    timestamp: Option<u64>,
    rlp: &'a [u8],
    error: String,
}

impl<'a> Info<'a> {
    fn error(error: impl Into<String>) -> Self {
        Self { error: error.into(), ..Self::default() }
    }

    fn of(found: &'a BlockRound, is_uncle: bool) -> Self {
        let BlockRound { header, rlp, round, committed, .. } = found;
        let hash = header.hash();
        let round = match (round, committed) {
            (_, None) => return Self { hash, ..Self::error(NO_COMMITTED) },
            (Err(problem), _) => return Self { hash, ..Self::error(problem.clone()) },
            (Ok(round), Some(_)) => *round,
        };
        Self {
            hash,
            round,
            number: Some(header.number.cast_signed()),
            parent_hash: header.parent_hash,
            is_committed: !is_uncle && committed.is_some_and(|committed| header.number <= committed),
            miner: header.beneficiary,
            timestamp: Some(header.timestamp),
            rlp,
            error: String::new(),
        }
    }

    fn json(&self) -> JsonWriter {
        let mut json = JsonWriter::with_capacity(self.rlp.len() * 4 / 3 + 500);
        json.begin_object();
        json.key("Hash").data(self.hash);
        write_number(json.key("Round"), self.round);
        write_optional(json.key("Number"), self.number.map(|number| number.to_string()));
        json.key("ParentHash").data(self.parent_hash);
        json.key("Committed").boolean(self.is_committed);
        json.key("Miner").data(self.miner.into_word());
        write_optional(json.key("Timestamp"), self.timestamp.map(|timestamp| timestamp.to_string()));
        json.key("EncodedRLP").string(&STANDARD.encode(self.rlp));
        json.key("Error").string(&self.error);
        json.end_object();
        json
    }
}

fn write_optional(json: &mut JsonWriter, number: Option<String>) {
    match number {
        Some(number) => json.raw(&number),
        None => json.null(),
    }
}
