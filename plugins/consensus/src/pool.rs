//! Pooled votes and timeouts of this node (`docs/spec/rpc-node.md` 2.3).

use tenon_sdk::{prelude::*, shapes::JsonWriter};

use crate::{Answer, ConsensusContext, require_native, write_addresses, write_number};

pub(crate) async fn status(context: ConsensusContext) -> Answer {
    require_native(&context, "getLatestPoolStatus").await?;
    let VotingPool { votes, timeouts } = context.call(GetVotingPool).await?;
    let timeouts = timeouts.into_iter().map(|timeout| {
        let WaitingTimeouts { round, gap_number, members } = timeout;
        (format!("{round}:{gap_number}"), members)
    });
    let votes = votes.into_iter().map(|vote| {
        let WaitingVotes { round, gap_number, number, hash, members } = vote;
        (format!("{round}:{gap_number}:{number}:{hash:#x}"), members)
    });
    let mut json = JsonWriter::with_capacity(512);
    json.begin_object();
    write_pool(json.key("timeout"), timeouts.collect());
    write_pool(json.key("vote"), votes.collect());
    json.end_object();
    Ok(json)
}

/// Names in alphabetical order, as in the reference.
fn write_pool(json: &mut JsonWriter, mut pool: Vec<(String, WaitingMembers)>) {
    pool.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    json.begin_object();
    for (key, members) in &pool {
        json.key(key).begin_object();
        write_number(json.key("CurrentNumber"), members.signers.len() as u64);
        write_addresses(json.key("CurrentSigners"), &members.signers);
        write_addresses(json.key("MissingSigners"), &members.missing);
        json.end_object();
    }
    json.end_object();
}
