//! The order in which a block should try the pending transactions.

use std::{cmp::Reverse, collections::BinaryHeap};

use tenon_api::{RecoveredTransaction, U256};

use crate::{entry::Entry, sender::Sender};

/// The proposer's revenue per gas at this base fee; `None` if the transaction cannot pay the base fee, from which
/// special transactions are exempt.
fn effective_tip(entry: &Entry, base_fee: U256) -> Option<U256> {
    if entry.is_special {
        return Some(entry.fee_cap().saturating_sub(base_fee).min(entry.tip_cap()));
    }
    let room = entry.fee_cap().checked_sub(base_fee)?;
    Some(room.min(entry.tip_cap()))
}

/// A sender's next transaction, to be compared with those of other senders.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    tip: U256,
    /// Among equals, the earlier arrival is first.
    arrival: Reverse<u64>,
    /// Position of the sender's run.
    run: usize,
}

/// At most `limit` pending transactions by effective tip, nonces of one sender ascending.
pub(crate) fn best<'a>(
    senders: impl Iterator<Item = &'a Sender>,
    base_fee: U256,
    limit: usize,
) -> Vec<RecoveredTransaction> {
    let mut runs: Vec<_> = senders.map(|sender| sender.pending().peekable()).collect();
    let mut heap = BinaryHeap::with_capacity(runs.len());
    for (run, entries) in runs.iter_mut().enumerate() {
        heap.extend(entries.peek().and_then(|entry| candidate(entry, base_fee, run)));
    }
    let mut chosen = Vec::new();
    while chosen.len() < limit {
        let Some(Candidate { run, .. }) = heap.pop() else { break };
        let Some(entries) = runs.get_mut(run) else { break };
        chosen.extend(entries.next().map(|entry| entry.transaction.clone()));
        // A transaction that cannot pay the base fee blocks all later ones of its sender.
        heap.extend(entries.peek().and_then(|entry| candidate(entry, base_fee, run)));
    }
    chosen
}

fn candidate(entry: &Entry, base_fee: U256, run: usize) -> Option<Candidate> {
    let tip = effective_tip(entry, base_fee)?;
    Some(Candidate { tip, arrival: Reverse(entry.arrival), run })
}
