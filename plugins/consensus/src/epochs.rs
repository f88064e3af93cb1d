//! Epochs and their masternodes (`docs/spec/rpc-node.md` 2.3, 2.4).

use tenon_sdk::{prelude::*, shapes::JsonWriter};

use crate::{Answer, ConsensusContext, Types, require_native, selector::ChosenBlock, write_addresses, write_number};

/// Maximum number of blocks from the start to the end of a range.
const RANGE_LIMIT: u64 = 50_000;

/// The masternodes of a block's epoch. Errors are in the member `Error`.
pub(crate) async fn masternodes(context: ConsensusContext, block: ChosenBlock) -> Answer {
    require_native(&context, "getMasternodesByNumber").await?;
    let members = context.call(GetEpochMembers { block: block.block() }).await;
    let (members, error) = match members {
        Ok(Some(members)) => (members, String::new()),
        Ok(None) => (EpochMembers::default(), "unknown block".to_owned()),
        Err(failure) => (EpochMembers::default(), failure.message),
    };
    let mut json = JsonWriter::with_capacity(1024);
    json.begin_object();
    json.key("Number").quantity(members.number);
    json.key("Round").quantity(members.round);
    let lists = [
        ("MasternodesLen", "Masternodes", members.masternodes),
        ("PenaltyLen", "Penalty", members.penalties),
        ("StandbynodesLen", "Standbynodes", members.standby),
    ];
    for (length, name, addresses) in &lists {
        write_number(json.key(length), addresses.len() as u64);
        write_addresses(json.key(name), addresses);
    }
    json.key("Error").string(&error);
    json.end_object();
    Ok(json)
}

/// The masternodes of a block's epoch in the reference's form. An error is only an empty object, because the
/// reference's error type has no members.
pub(crate) async fn masternodes_by_reference(context: ConsensusContext, block: ChosenBlock) -> Answer {
    require_native(&context, "getMasternodesByNumber").await?;
    let members = match block.or_committed() {
        Ok(block) => context.call(GetEpochMembers { block }).await?,
        Err(_) => None,
    };
    let known = members.is_some();
    let EpochMembers { number, round, masternodes, penalties, standby } = members.unwrap_or_default();
    let mut json = JsonWriter::with_capacity((masternodes.len() + penalties.len() + standby.len()) * 45 + 200);
    json.begin_object();
    write_number(json.key("Number"), number);
    write_number(json.key("Round"), round);
    let lists = [
        ("MasternodesLen", "Masternodes", masternodes),
        ("PenaltyLen", "Penalty", penalties),
        ("StandbynodesLen", "Standbynodes", standby),
    ];
    for (length, name, addresses) in &lists {
        write_number(json.key(length), addresses.len() as u64);
        if known { write_addresses(json.key(name), addresses) } else { json.key(name).null() }
    }
    json.key("Error");
    if known {
        json.null();
    } else {
        json.begin_object();
        json.end_object();
    }
    json.end_object();
    Ok(json)
}

pub(crate) async fn missed_rounds(context: ConsensusContext, block: ChosenBlock) -> Answer {
    missed_rounds_in(Types::Document, &context, block).await
}

pub(crate) async fn missed_rounds_by_reference(context: ConsensusContext, block: ChosenBlock) -> Answer {
    missed_rounds_in(Types::Reference, &context, block).await
}

async fn missed_rounds_in(types: Types, context: &ConsensusContext, block: ChosenBlock) -> Answer {
    require_native(context, "getMissedRoundsInEpochByBlockNum").await?;
    let found = context.call(GetMissedRounds { block: types.block(block, ChosenBlock::or_committed)? }).await?;
    let missed = found.ok_or_else(|| match block.number() {
        Some(number) => Failure::server(format!("can not get header by number {number}")),
        None => Failure::server("can not get header by nil number"),
    })?;
    let mut json = JsonWriter::with_capacity(missed.missed.len() * 320 + 100);
    json.begin_object();
    types.write_quantity(json.key("EpochRound"), missed.epoch_round);
    types.write_quantity(json.key("EpochBlockNumber"), missed.epoch_number);
    json.key("MissedRounds");
    if types == Types::Reference && missed.missed.is_empty() {
        json.null();
    } else {
        json.begin_list();
        missed.missed.iter().for_each(|round| write_missed(&mut json, types, round));
        json.end_list();
    }
    json.end_object();
    Ok(json)
}

fn write_missed(json: &mut JsonWriter, types: Types, missed: &MissedRound) {
    json.begin_object();
    types.write_quantity(json.key("Round"), missed.round);
    json.key("Miner").data(missed.leader);
    json.key("CurrentBlockHash").data(missed.next.1);
    types.write_quantity(json.key("CurrentBlockNum"), missed.next.0);
    json.key("ParentBlockHash").data(missed.previous.1);
    types.write_quantity(json.key("ParentBlockNum"), missed.previous.0);
    json.end_object();
}

/// The heights at which epochs start, from one block to another.
pub(crate) async fn numbers_between(context: ConsensusContext, begin: ChosenBlock, end: ChosenBlock) -> Answer {
    numbers_between_in(Types::Document, &context, begin, end).await
}

pub(crate) async fn numbers_between_by_reference(
    context: ConsensusContext,
    begin: ChosenBlock,
    end: ChosenBlock,
) -> Answer {
    numbers_between_in(Types::Reference, &context, begin, end).await
}

async fn numbers_between_in(types: Types, context: &ConsensusContext, begin: ChosenBlock, end: ChosenBlock) -> Answer {
    require_native(context, "getEpochNumbersBetween").await?;
    let first = bound(types, context, begin, "begin").await?.ok_or_else(|| match begin.number() {
        Some(number) => Failure::server(format!("illegal begin block number {number}")),
        None => Failure::server("begin block is nil"),
    })?;
    let last = bound(types, context, end, "end").await?.ok_or_else(|| match end.number() {
        Some(number) => Failure::server(format!("illegal end block number {number}")),
        None => Failure::server("end block number is nil"),
    })?;
    let Some(difference) = last.number.checked_sub(first.number) else {
        return Err(Failure::server("illegal begin and end block number, begin > end"));
    };
    if difference > RANGE_LIMIT {
        return Err(Failure::server("block range over limit of 50,000 blocks"));
    }
    let switches = context.call(GetEpochSwitches { first: first.hash(), last: last.hash() }).await?;
    let mut json = JsonWriter::with_capacity(switches.len() * 10 + 2);
    json.begin_list();
    switches.into_iter().for_each(|number| types.write_quantity(&mut json, number));
    json.end_list();
    Ok(json)
}

/// The header at one end of a range; `None` if there is no such block.
async fn bound(
    types: Types,
    context: &ConsensusContext,
    chosen: ChosenBlock,
    side: &str,
) -> Result<Option<std::sync::Arc<SealedHeader>>, Failure> {
    let block = types.block(chosen, ChosenBlock::or_committed).map_err(|failure| {
        let number = chosen.number().unwrap_or_default();
        Failure::server(format!("can not get {side} header from number {number}, err: {}", failure.message))
    })?;
    if block == BlockId::Tag(BlockTag::Finalized) && context.call(GetHead).await?.finalized.is_none() {
        return Ok(None);
    }
    Ok(context.call(GetHeader { block }).await?.map(|stored| stored.header))
}

/// The first and the last block of an epoch of engine v2.
pub(crate) async fn block_info(context: ConsensusContext, epoch: Number) -> Answer {
    require_native(&context, "getBlockInfoByEpochNum").await?;
    let blocks = context.call(GetEpochBlocks { epoch: epoch.0 }).await?;
    let mut json = JsonWriter::with_capacity(160);
    json.begin_object();
    json.key("hash").data(blocks.hash);
    write_number(json.key("round"), blocks.round);
    write_number(json.key("firstBlock"), blocks.first);
    match blocks.last {
        Some(last) => write_number(json.key("lastBlock"), last),
        None => json.key("lastBlock").null(),
    }
    json.end_object();
    Ok(json)
}
