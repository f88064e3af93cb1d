//! A search for the nodes closest to a target (`docs/spec/p2p.md` 4.6).

use std::collections::HashSet;
use std::time::Duration;

use alloy_primitives::{B256, U256};
use tenon_network_identity::{Endpoint, NodeId};

/// Maximum number of concurrent requests.
const CONCURRENCY: usize = 3;

/// The state of one search.
#[derive(Debug)]
pub(crate) struct Lookup {
    target: U256,
    pub(crate) target_id: NodeId,
    /// Nodes that answered a Ping, in order of distance from the target, closest first.
    result: Vec<(U256, NodeId, Endpoint)>,
    asked: HashSet<NodeId>,
    under_way: usize,
    limit: usize,
    /// The search cannot end before this time: nodes that were named can still answer until then.
    settled_at: Duration,
}

impl Lookup {
    /// Creates a search that keeps the `limit` closest nodes and never asks `own`.
    pub(crate) fn new(target: NodeId, own: NodeId, limit: usize, settled_at: Duration) -> Self {
        Self {
            target: U256::from_be_bytes(target.hash().0),
            target_id: target,
            result: Vec::new(),
            asked: HashSet::from([own]),
            under_way: 0,
            limit,
            settled_at,
        }
    }

    /// Adds a node, unless it is farther than the `limit` closest ones.
    pub(crate) fn add(&mut self, id: NodeId, hash: &B256, endpoint: Endpoint) {
        let distance = U256::from_be_bytes(hash.0) ^ self.target;
        if let Err(position) = self.result.binary_search_by_key(&distance, |(distance, ..)| *distance)
            && position < self.limit
        {
            self.result.insert(position, (distance, id, endpoint));
            self.result.truncate(self.limit);
        }
    }

    /// Returns the next node to ask for which `is_ready` is true, and marks it as asked.
    pub(crate) fn next(&mut self, is_ready: impl Fn(&NodeId, &Endpoint) -> bool) -> Option<(NodeId, Endpoint)> {
        if self.under_way >= CONCURRENCY {
            return None;
        }
        let (_, id, endpoint) =
            self.result.iter().find(|(_, id, endpoint)| !self.asked.contains(id) && is_ready(id, endpoint))?;
        let next = (*id, *endpoint);
        self.asked.insert(next.0);
        self.under_way += 1;
        Some(next)
    }

    /// Ends a request, with or without an answer.
    pub(crate) fn ended(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Delays the end of the search, because a node can still answer until this time.
    pub(crate) fn wait_until(&mut self, time: Duration) {
        self.settled_at = self.settled_at.max(time);
    }

    /// When to advance the search, if no packet arrives earlier.
    pub(crate) const fn wakes_at(&self) -> Duration {
        self.settled_at
    }

    /// Returns whether all nodes of the result were asked, no request is pending, and no answer to a Ping is awaited.
    pub(crate) fn is_done(&self, now: Duration) -> bool {
        self.under_way == 0 && now >= self.settled_at && self.result.iter().all(|(_, id, _)| self.asked.contains(id))
    }

    /// The closest nodes found, closest first.
    pub(crate) fn nodes(&self) -> Vec<(NodeId, Endpoint)> {
        self.result.iter().map(|(_, id, endpoint)| (*id, *endpoint)).collect()
    }
}
