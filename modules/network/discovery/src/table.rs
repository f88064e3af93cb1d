//! The table of known nodes (`docs/spec/p2p.md` 4.5). Its sizes are data.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use alloy_primitives::{B256, U256};
use tenon_network_identity::{Endpoint, NodeId};

use crate::addresses::is_lan;

/// Distance of two hashes of identifiers: the bit length of their exclusive or, 0 to 256.
pub type Distance = usize;

/// Sizes of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSettings {
    /// Maximum number of nodes of a bucket, and of nodes in an answer to FindNode.
    pub bucket_size: usize,
    /// Maximum number of nodes that wait for a place in a bucket.
    pub replacements: usize,
    /// Number of buckets: one for each of the largest distances; the first one also holds all smaller distances.
    pub buckets: usize,
    /// Maximum number of nodes of one /24 network (IPv6: /64) in a bucket. Private addresses do not count.
    pub subnet_in_bucket: usize,
    /// Maximum number of nodes of one such network in the whole table.
    pub subnet_in_table: usize,
}

impl Default for TableSettings {
    /// The sizes of chains 50, 51 and 551.
    fn default() -> Self {
        Self { bucket_size: 200, replacements: 10, buckets: 17, subnet_in_bucket: 2, subnet_in_table: 10 }
    }
}

/// A node of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// The node.
    pub id: NodeId,
    /// The hash of its identifier, from which distances are computed.
    pub hash: B256,
    /// The address at which it answers.
    pub endpoint: Endpoint,
    /// When it was added.
    pub added: Duration,
    /// Number of consecutive requests that it did not answer.
    pub failures: u32,
}

#[derive(Debug, Default)]
struct Bucket {
    /// Most recently seen first.
    entries: Vec<NodeEntry>,
    /// Most recently seen last.
    replacements: Vec<NodeEntry>,
}

/// Known nodes by their distance from this one.
#[derive(Debug)]
pub struct Table {
    settings: TableSettings,
    own: NodeId,
    own_hash: B256,
    buckets: Vec<Bucket>,
    /// Number of entries of each subnet, replacements not counted.
    subnets: HashMap<Vec<u8>, usize>,
}

/// The subnet for which nodes are limited; `None` for private addresses.
fn subnet(ip: IpAddr) -> Option<Vec<u8>> {
    if is_lan(ip) {
        return None;
    }
    Some(match ip.to_canonical() {
        IpAddr::V4(ip) => ip.octets()[..3].to_vec(),
        IpAddr::V6(ip) => ip.octets()[..8].to_vec(),
    })
}

/// Bit length of the exclusive or of two hashes.
pub(crate) fn distance(one: &B256, other: &B256) -> Distance {
    (U256::from_be_bytes(one.0) ^ U256::from_be_bytes(other.0)).bit_len()
}

impl Table {
    /// Creates an empty table for this node.
    pub fn new(own: NodeId, settings: TableSettings) -> Self {
        let buckets = (0..settings.buckets.max(1)).map(|_| Bucket::default()).collect();
        Self { settings, own, own_hash: own.hash(), buckets, subnets: HashMap::new() }
    }

    fn bucket_index(&self, id: &NodeId) -> usize {
        let smallest = 257 - self.buckets.len();
        distance(&self.own_hash, &id.hash()).saturating_sub(smallest)
    }

    fn bucket(&mut self, id: &NodeId) -> &mut Bucket {
        let index = self.bucket_index(id);
        // The distance is 256 at most, so the index is below the number of buckets.
        let last = self.buckets.len() - 1;
        &mut self.buckets[index.min(last)]
    }

    /// Moves a node that answered to the front of its bucket. Returns whether the node is in the table; if the bucket
    /// or the subnet is full, the node becomes a replacement.
    pub fn add(&mut self, id: NodeId, endpoint: Endpoint, now: Duration) -> bool {
        if id == self.own {
            return false;
        }
        let young = NodeEntry { id, hash: id.hash(), endpoint, added: now, failures: 0 };
        match self.remove_entry(&id) {
            // At another address it counts as a new node: for the subnet limits, and with a new time of addition.
            Some(known) if known.endpoint == endpoint => self.insert(NodeEntry { failures: 0, ..known }),
            _ => self.insert(young),
        }
    }

    fn insert(&mut self, entry: NodeEntry) -> bool {
        let (bucket_size, replacements) = (self.settings.bucket_size, self.settings.replacements);
        let fits = self.subnet_allows(&entry);
        let net = subnet(entry.endpoint.ip);
        let bucket = self.bucket(&entry.id);
        bucket.replacements.retain(|other| other.id != entry.id);
        if bucket.entries.len() < bucket_size && fits {
            bucket.entries.insert(0, entry);
            if let Some(net) = net {
                *self.subnets.entry(net).or_default() += 1;
            }
            return true;
        }
        if bucket.replacements.len() >= replacements && !bucket.replacements.is_empty() {
            bucket.replacements.remove(0);
        }
        if replacements > 0 {
            bucket.replacements.push(entry);
        }
        false
    }

    fn subnet_allows(&mut self, entry: &NodeEntry) -> bool {
        let Some(net) = subnet(entry.endpoint.ip) else { return true };
        let in_table = self.subnets.get(&net).copied().unwrap_or_default();
        let limits = (self.settings.subnet_in_bucket, self.settings.subnet_in_table);
        let bucket = self.bucket(&entry.id);
        let in_bucket = bucket.entries.iter().filter(|other| subnet(other.endpoint.ip).as_ref() == Some(&net)).count();
        in_bucket < limits.0 && in_table < limits.1
    }

    fn remove_entry(&mut self, id: &NodeId) -> Option<NodeEntry> {
        let bucket = self.bucket(id);
        let position = bucket.entries.iter().position(|entry| entry.id == *id)?;
        let entry = bucket.entries.remove(position);
        if let Some(net) = subnet(entry.endpoint.ip)
            && let Some(count) = self.subnets.get_mut(&net)
        {
            *count -= 1;
            if *count == 0 {
                self.subnets.remove(&net);
            }
        }
        Some(entry)
    }

    /// Removes a node. The most recent replacement takes its place.
    pub fn remove(&mut self, id: &NodeId) {
        self.bucket(id).replacements.retain(|other| other.id != *id);
        if self.remove_entry(id).is_none() {
            return;
        }
        while let Some(next) = self.bucket(id).replacements.pop() {
            if self.subnet_allows(&next) {
                self.insert(next);
                return;
            }
        }
    }

    /// Counts an unanswered request. The node is removed after `limit` of them in a row.
    pub fn failed(&mut self, id: &NodeId, limit: u32) {
        let bucket = self.bucket(id);
        let Some(entry) = bucket.entries.iter_mut().find(|entry| entry.id == *id) else { return };
        entry.failures += 1;
        if entry.failures >= limit {
            self.remove(id);
        }
    }

    /// The entry of a node.
    pub fn get(&self, id: &NodeId) -> Option<&NodeEntry> {
        let bucket = self.buckets.get(self.bucket_index(id))?;
        bucket.entries.iter().find(|entry| entry.id == *id)
    }

    /// Returns the `count` nodes closest to a hash, closest first.
    pub fn closest(&self, target: &B256, count: usize) -> Vec<&NodeEntry> {
        let target = U256::from_be_bytes(target.0);
        let mut all: Vec<(U256, &NodeEntry)> =
            self.entries().map(|entry| (U256::from_be_bytes(entry.hash.0) ^ target, entry)).collect();
        all.sort_unstable_by_key(|(distance, _)| *distance);
        all.into_iter().take(count).map(|(_, entry)| entry).collect()
    }

    /// All nodes.
    pub fn entries(&self) -> impl Iterator<Item = &NodeEntry> {
        self.buckets.iter().flat_map(|bucket| &bucket.entries)
    }

    /// Returns the least recently seen node of one of the buckets that are not empty; `choice` selects the bucket.
    pub fn oldest(&self, choice: usize) -> Option<&NodeEntry> {
        let full: Vec<&Bucket> = self.buckets.iter().filter(|bucket| !bucket.entries.is_empty()).collect();
        full.get(choice.checked_rem(full.len())?)?.entries.last()
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.buckets.iter().map(|bucket| bucket.entries.len()).sum()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::b256;
    use proptest::prelude::*;

    use super::*;

    fn id(number: u16) -> NodeId {
        let mut bytes = [7; 64];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        NodeId(bytes)
    }

    fn at(ip: [u8; 4]) -> Endpoint {
        Endpoint { ip: ip.into(), udp: 30303, tcp: 30303 }
    }

    /// `docs/spec/p2p.md` 26.4.
    #[test]
    fn distance_is_the_bit_length_of_the_difference() {
        let one = b256!("a448f24c6d18e575453db13171562b71999873db5b286df957af199ec94617f7");
        let other = b256!("3eb781e508ac1fff27c06cd192e2fe526f85f8f0e266ea55064ba8aefb868fd9");
        assert_eq!((distance(&one, &other), distance(&one, &one)), (256, 0));
    }

    #[test]
    fn the_nodes_of_a_subnet_are_limited_unless_it_is_private() {
        let settings = TableSettings::default();
        let mut table = Table::new(id(0), settings.clone());
        (1..500).for_each(|number| {
            table.add(id(number), at([23, 5, 5, number as u8]), Duration::ZERO);
        });
        assert!(table.len() <= settings.subnet_in_table && !table.is_empty());

        let mut table = Table::new(id(0), settings);
        (1..150).for_each(|number| {
            table.add(id(number), at([10, 0, 0, number as u8]), Duration::ZERO);
        });
        assert_eq!(table.len(), 149);
    }

    #[test]
    fn a_replacement_takes_the_place_of_a_node_that_does_not_answer() {
        let settings = TableSettings { bucket_size: 1, buckets: 1, ..TableSettings::default() };
        let mut table = Table::new(id(0), settings);
        assert!(table.add(id(1), at([10, 0, 0, 1]), Duration::ZERO));
        assert!(!table.add(id(2), at([10, 0, 0, 2]), Duration::ZERO));

        (0..5).for_each(|_| table.failed(&id(1), 5));

        assert_eq!((table.get(&id(1)), table.get(&id(2)).map(|entry| entry.id)), (None, Some(id(2))));
    }

    proptest! {
        /// Regardless of what is added, removed or fails, no node occurs twice, and no bucket or subnet exceeds its
        /// bound.
        #[test]
        fn bounds_hold_for_any_steps(steps in proptest::collection::vec((0..3_u8, 0..60_u16, 0..4_u8, 0..2_u8), 0..300)) {
            let settings = TableSettings { bucket_size: 6, replacements: 3, buckets: 3, subnet_in_bucket: 2, subnet_in_table: 4 };
            let mut table = Table::new(id(0), settings.clone());
            for (kind, number, net, host) in steps {
                match kind {
                    0 => { table.add(id(number), at([50, 0, net, host]), Duration::ZERO); }
                    1 => table.remove(&id(number)),
                    _ => table.failed(&id(number), 2),
                }
                let mut ids: Vec<NodeId> = table.entries().map(|entry| entry.id).collect();
                let count = ids.len();
                ids.sort_unstable();
                ids.dedup();
                prop_assert_eq!(ids.len(), count);
                prop_assert!(!ids.contains(&id(0)));
                for bucket in &table.buckets {
                    prop_assert!(bucket.entries.len() <= settings.bucket_size);
                    prop_assert!(bucket.replacements.len() <= settings.replacements);
                }
                for net in 0..4 {
                    let members = table.entries().filter(|entry| subnet(entry.endpoint.ip) == Some(vec![50, 0, net])).count();
                    prop_assert!(members <= settings.subnet_in_table);
                    prop_assert_eq!(table.subnets.get(&vec![50, 0, net]).copied().unwrap_or_default(), members);
                }
            }
        }
    }
}
