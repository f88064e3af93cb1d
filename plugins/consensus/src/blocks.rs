//! Blocks with their rounds (`docs/spec/rpc-node.md` 2.3, 2.4). Errors are in the answer's `Error`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tenon_sdk::{error_texts::round_problem_text, prelude::*, shapes::JsonWriter};

use crate::{
    Answer, ConsensusContext, Types,
    header::{HeaderArgument, missing_header_members},
    require_native,
    selector::ChosenBlock,
};

const NO_COMMITTED: &str = "can not find latest committed block from consensus";

pub(crate) async fn by_number(context: ConsensusContext, block: ChosenBlock) -> Answer {
    by_number_in(Types::Document, &context, block).await
}

pub(crate) async fn by_number_by_reference(context: ConsensusContext, block: ChosenBlock) -> Answer {
    by_number_in(Types::Reference, &context, block).await
}

async fn by_number_in(types: Types, context: &ConsensusContext, block: ChosenBlock) -> Answer {
    require_native(context, "getV2BlockByNumber").await?;
    let id = match types.block(block, ChosenBlock::or_committed) {
        Ok(id) => id,
        Err(failure) => return Ok(Info::error(failure.message).json(types)),
    };
    let found = match (context.call(GetRound { header: RoundOf::Block(id) }).await, types) {
        (Err(failure), Types::Document) => return Ok(Info::error(failure.message).json(types)),
        (found, _) => found?,
    };
    let info = match (&found, block.number()) {
        (Some(found), _) => Info::of(found, false),
        (None, Some(number)) => Info { number: Some(number), ..Info::error("can not find block from this number") },
        (None, None) => Info::error("can not find block from nil number"),
    };
    Ok(info.json(types))
}

pub(crate) async fn by_hash(context: ConsensusContext, hash: B256) -> Answer {
    by_hash_in(Types::Document, &context, hash).await
}

pub(crate) async fn by_hash_by_reference(context: ConsensusContext, hash: B256) -> Answer {
    by_hash_in(Types::Reference, &context, hash).await
}

async fn by_hash_in(types: Types, context: &ConsensusContext, hash: B256) -> Answer {
    require_native(context, "getV2BlockByHash").await?;
    let found = context.call(GetRound { header: RoundOf::Block(BlockId::hash(hash)) }).await?;
    let info = match &found {
        None => Info { hash, ..Info::error("can not find block from this hash") },
        Some(BlockRound { canonical: None, header, .. }) => Info {
            number: Some(header.number.cast_signed()),
            ..Info::error("can not find chain header from this number")
        },
        Some(found) => Info::of(found, found.canonical != Some(found.header.hash())),
    };
    Ok(info.json(types))
}

/// A header from the caller. `is_uncle` means that it is not on the canonical chain.
pub(crate) async fn by_header(context: ConsensusContext, header: Option<HeaderArgument>, is_uncle: bool) -> Answer {
    by_header_in(Types::Document, &context, header, is_uncle).await
}

pub(crate) async fn by_header_by_reference(
    context: ConsensusContext,
    header: Option<HeaderArgument>,
    is_uncle: bool,
) -> Answer {
    by_header_in(Types::Reference, &context, header, is_uncle).await
}

async fn by_header_in(
    types: Types,
    context: &ConsensusContext,
    header: Option<HeaderArgument>,
    is_uncle: bool,
) -> Answer {
    require_native(context, "getV2BlockByHeader").await?;
    let header = header.ok_or_else(missing_header_members)?;
    let found = context.call(GetRound { header: RoundOf::Header(header.0) }).await?;
    let found = found.ok_or_else(|| Failure::server("the node did not return the round of this header"))?;
    Ok(Info::of(&found, is_uncle).json(types))
}

/// The answer about a block; all fields are zero or empty if there is an error.
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
            (Err(problem), _) => return Self { hash, ..Self::error(round_problem_text(problem)) },
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

    fn json(&self, types: Types) -> JsonWriter {
        let mut json = JsonWriter::with_capacity(self.rlp.len() * 4 / 3 + 500);
        json.begin_object();
        json.key("Hash").data(self.hash);
        types.write_quantity(json.key("Round"), self.round);
        match (types, self.number) {
            // A tag without a block has no height; the reference shows its own number for the tag.
            (Types::Document, Some(number @ 0..)) => json.key("Number").quantity(number.cast_unsigned()),
            (Types::Reference, Some(number)) => json.key("Number").raw(&number.to_string()),
            _ => json.key("Number").null(),
        }
        json.key("ParentHash").data(self.parent_hash);
        json.key("Committed").boolean(self.is_committed);
        json.key("Miner").data(self.miner.into_word());
        match self.timestamp {
            Some(timestamp) => types.write_quantity(json.key("Timestamp"), timestamp),
            None => json.key("Timestamp").null(),
        }
        json.key("EncodedRLP").string(&STANDARD.encode(self.rlp));
        json.key("Error").string(&self.error);
        json.end_object();
        json
    }
}
