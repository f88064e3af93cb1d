//! The authorised block producers (`docs/spec/rpc-node.md` 2.3, 2.4).

use tenon_sdk::{prelude::*, shapes::JsonWriter};

use crate::{Answer, ConsensusContext, Types, require_native, selector::ChosenBlock, write_addresses, write_number};

pub(crate) async fn snapshot(context: ConsensusContext, block: ChosenBlock) -> Answer {
    snapshot_in(Types::Document, &context, block).await
}

pub(crate) async fn snapshot_by_reference(context: ConsensusContext, block: ChosenBlock) -> Answer {
    snapshot_in(Types::Reference, &context, block).await
}

async fn snapshot_in(types: Types, context: &ConsensusContext, block: ChosenBlock) -> Answer {
    require_native(context, "getSnapshot").await?;
    let block = types.block(block, ChosenBlock::height)?;
    Ok(snapshot_json(types, &authorised(context, block).await?))
}

pub(crate) async fn snapshot_at_hash(context: ConsensusContext, hash: B256) -> Answer {
    snapshot_at_hash_in(Types::Document, &context, hash).await
}

pub(crate) async fn snapshot_at_hash_by_reference(context: ConsensusContext, hash: B256) -> Answer {
    snapshot_at_hash_in(Types::Reference, &context, hash).await
}

async fn snapshot_at_hash_in(types: Types, context: &ConsensusContext, hash: B256) -> Answer {
    require_native(context, "getSnapshotAtHash").await?;
    Ok(snapshot_json(types, &authorised(context, BlockId::hash(hash)).await?))
}

pub(crate) async fn signers(context: ConsensusContext, block: ChosenBlock) -> Answer {
    signers_in(Types::Document, &context, block).await
}

pub(crate) async fn signers_by_reference(context: ConsensusContext, block: ChosenBlock) -> Answer {
    signers_in(Types::Reference, &context, block).await
}

async fn signers_in(types: Types, context: &ConsensusContext, block: ChosenBlock) -> Answer {
    require_native(context, "getSigners").await?;
    let block = types.block(block, ChosenBlock::height)?;
    Ok(signers_json(&authorised(context, block).await?))
}

pub(crate) async fn signers_at_hash(context: ConsensusContext, hash: B256) -> Answer {
    require_native(&context, "getSignersAtHash").await?;
    Ok(signers_json(&authorised(&context, BlockId::hash(hash)).await?))
}

async fn authorised(context: &ConsensusContext, block: BlockId) -> Result<Authorised, Failure> {
    context.call(GetAuthorised { block }).await?.ok_or_else(|| Failure::server("unknown block"))
}

fn signers_json(authorised: &Authorised) -> JsonWriter {
    let mut json = JsonWriter::with_capacity(authorised.signers.len() * 45 + 2);
    write_addresses(&mut json, &authorised.signers);
    json
}

/// Signers are a list in the interface document and a map in the reference. Without voting, `votes` is an empty list in
/// the document and `null` in the reference.
fn snapshot_json(types: Types, authorised: &Authorised) -> JsonWriter {
    let mut json = JsonWriter::with_capacity(authorised.signers.len() * 120 + 300);
    json.begin_object();
    write_number(json.key("number"), authorised.number);
    json.key("hash").data(authorised.hash);
    write_signers(json.key("signers"), types, &authorised.signers);
    match &authorised.voting {
        Some(voting) => write_voting(&mut json, types, authorised.number, voting),
        None => {
            json.key("recents").null();
            match types {
                Types::Document => write_addresses(json.key("votes"), &[]),
                Types::Reference => json.key("votes").null(),
            }
            json.key("tally").null();
        }
    }
    json.end_object();
    json
}

fn write_signers(json: &mut JsonWriter, types: Types, signers: &[Address]) {
    if types == Types::Document {
        return write_addresses(json, signers);
    }
    // Sorted, because Go's JSON encoder sorts the keys of a map.
    let mut signers = signers.to_vec();
    signers.sort_unstable();
    json.begin_object();
    for signer in &signers {
        json.key(&text(signer)).begin_object();
        json.end_object();
    }
    json.end_object();
}

fn write_voting(json: &mut JsonWriter, types: Types, number: u64, voting: &HeaderVoting) {
    let mut recent: Vec<(String, &Address)> =
        voting.recent.iter().map(|(number, maker)| (number.to_string(), maker)).collect();
    recent.sort_unstable();
    json.key("recents").begin_object();
    for (number, maker) in recent {
        json.key(&number).data(maker);
    }
    json.end_object();
    json.key("votes");
    // The reference writes `null` instead of a list for block 0, and for the first block of an epoch without votes.
    let is_null = number == 0 || voting.opens_epoch && voting.votes.is_empty();
    if types == Types::Reference && is_null {
        json.null();
    } else {
        json.begin_list();
        voting.votes.iter().for_each(|vote| write_vote(json, vote));
        json.end_list();
    }
    json.key("tally").begin_object();
    for tally in &voting.tally {
        json.key(&text(&tally.about)).begin_object();
        json.key("authorize").boolean(tally.is_to_add);
        write_number(json.key("votes"), tally.votes);
        json.end_object();
    }
    json.end_object();
}

fn write_vote(json: &mut JsonWriter, vote: &HeaderVote) {
    json.begin_object();
    json.key("signer").data(vote.voter);
    write_number(json.key("block"), vote.block);
    json.key("address").data(vote.about);
    json.key("authorize").boolean(vote.is_to_add);
    json.end_object();
}

/// An address in lower case, as a member name.
fn text(address: &Address) -> String {
    format!("{address:#x}")
}
