//! Who may make blocks (`docs/spec/rpc-node.md` 2.3, 2.4).

use tenon_sdk::{prelude::*, shapes::JsonWriter};

use crate::{Answer, ConsensusContext, require_native, selector::Chosen, write_addresses, write_number};

pub(crate) async fn snapshot(context: ConsensusContext, block: Chosen) -> Answer {
    require_native(&context, "getSnapshot").await?;
    Ok(snapshot_json(&authorised(&context, block.height()?).await?))
}

pub(crate) async fn snapshot_at_hash(context: ConsensusContext, hash: B256) -> Answer {
    require_native(&context, "getSnapshotAtHash").await?;
    Ok(snapshot_json(&authorised(&context, BlockId::hash(hash)).await?))
}

pub(crate) async fn signers(context: ConsensusContext, block: Chosen) -> Answer {
    require_native(&context, "getSigners").await?;
    Ok(signers_json(&authorised(&context, block.height()?).await?))
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

fn snapshot_json(authorised: &Authorised) -> JsonWriter {
    let mut json = JsonWriter::with_capacity(authorised.signers.len() * 120 + 300);
    json.begin_object();
    write_number(json.key("number"), authorised.number);
    json.key("hash").data(authorised.hash);
    // Names in the order of their letters, as everywhere where the reference has a map.
    let mut signers = authorised.signers.clone();
    signers.sort_unstable();
    json.key("signers").begin_object();
    for signer in &signers {
        json.key(&text(signer)).begin_object();
        json.end_object();
    }
    json.end_object();
    match &authorised.voting {
        Some(voting) => write_voting(&mut json, authorised.number, voting),
        None => ["recents", "votes", "tally"].into_iter().for_each(|name| json.key(name).null()),
    }
    json.end_object();
    json
}

fn write_voting(json: &mut JsonWriter, number: u64, voting: &HeaderVoting) {
    let mut recent: Vec<(String, &Address)> =
        voting.recent.iter().map(|(number, maker)| (number.to_string(), maker)).collect();
    recent.sort_unstable();
    json.key("recents").begin_object();
    for (number, maker) in recent {
        json.key(&number).data(maker);
    }
    json.end_object();
    json.key("votes");
    // The block of an epoch's beginning forgets the list itself.
    if number == 0 || voting.opens_epoch && voting.votes.is_empty() {
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

/// An address in lower case, as a name.
fn text(address: &Address) -> String {
    format!("{address:#x}")
}
