//! The transactions that each peer knows, and the messages with transactions that a peer does not know (`docs/spec/p2p.md` 16.2).

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::B256;
use tenon_api::Transaction;
use tenon_network_identity::NodeId;
use tenon_network_sync::BoundedSet;
use tenon_network_wire::{Kind, encode_list};

use crate::link::Outgoing;

/// A message is complete once its transactions reach this number of bytes.
const PACK_BYTES: usize = 102_400;
/// Maximum number of remembered transactions of a peer.
const MAX_KNOWN: usize = 32_768;

/// A transaction for peers, encoded as an item of a list.
#[derive(Clone, Debug)]
pub(crate) struct GossipItem {
    hash: B256,
    item: Arc<Vec<u8>>,
}

impl GossipItem {
    pub(crate) fn new(transaction: &Transaction) -> Self {
        let mut item = Vec::new();
        tenon_chain::encode_list_transaction(transaction, &mut item);
        Self { hash: transaction.hash, item: Arc::new(item) }
    }
}

/// The transactions that each peer knows.
#[derive(Debug, Default)]
pub(crate) struct TransactionGossip {
    /// Sorted, so that messages leave in the same order in every run of a simulation.
    known: BTreeMap<NodeId, BoundedSet<B256>>,
}

impl TransactionGossip {
    pub(crate) fn joined(&mut self, peer: NodeId) {
        self.known.entry(peer).or_insert_with(|| BoundedSet::new(MAX_KNOWN));
    }

    pub(crate) fn left(&mut self, peer: &NodeId) {
        self.known.remove(peer);
    }

    /// Records that a peer knows transactions, because it sent them.
    pub(crate) fn received(&mut self, peer: &NodeId, transactions: &[Arc<Transaction>]) {
        if let Some(known) = self.known.get_mut(peer) {
            for transaction in transactions {
                known.insert(transaction.hash);
            }
        }
    }

    /// For each peer, the messages with the transactions that it does not know.
    pub(crate) fn messages_for_all(&mut self, transactions: &[GossipItem]) -> Vec<(NodeId, Vec<Outgoing>)> {
        self.known.iter_mut().map(|(peer, known)| (*peer, packs(known, transactions))).collect()
    }

    /// The messages with the transactions that one peer does not know.
    pub(crate) fn messages_for(&mut self, peer: &NodeId, transactions: &[GossipItem]) -> Vec<Outgoing> {
        self.known.get_mut(peer).map_or_else(Vec::new, |known| packs(known, transactions))
    }
}

/// Messages of at least 102,400 bytes each, except the last.
fn packs(known: &mut BoundedSet<B256>, transactions: &[GossipItem]) -> Vec<Outgoing> {
    let mut packs = Vec::new();
    let (mut items, mut bytes) = (Vec::new(), 0);
    let mut close = |items: &mut Vec<&[u8]>| {
        let payload = Arc::new(encode_list(std::mem::take(items)));
        packs.push(Outgoing { kind: Kind::Transactions, payload });
    };
    for transaction in transactions {
        if !known.insert(transaction.hash) {
            continue;
        }
        bytes += transaction.item.len();
        items.push(transaction.item.as_slice());
        if bytes >= PACK_BYTES {
            bytes = 0;
            close(&mut items);
        }
    }
    if !items.is_empty() {
        close(&mut items);
    }
    packs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(number: u8, bytes: usize) -> GossipItem {
        GossipItem { hash: B256::repeat_byte(number), item: Arc::new(vec![0; bytes]) }
    }

    #[test]
    fn each_peer_gets_unknown_transactions_once_in_batches() {
        let mut gossip = TransactionGossip::default();
        let (first, second) = (NodeId([1; 64]), NodeId([2; 64]));
        gossip.joined(first);
        gossip.joined(second);
        assert!(gossip.known.get_mut(&second).unwrap().insert(B256::repeat_byte(1)));

        let news = [item(1, 60_000), item(2, 60_000), item(3, 10)];
        let count = |peer: NodeId, all: &[(NodeId, Vec<Outgoing>)]| {
            all.iter()
                .find(|(id, _)| *id == peer)
                .map(|(_, packs)| packs.iter().map(|pack| pack.payload.len()).collect())
        };
        let all = gossip.messages_for_all(&news);
        assert_eq!(count(first, &all), Some(vec![120_004, 11]));
        assert_eq!(count(second, &all), Some(vec![60_013]));
        assert!(gossip.messages_for_all(&news).iter().all(|(_, packs)| packs.is_empty()));
        assert!(gossip.messages_for(&NodeId([3; 64]), &news).is_empty(), "not a peer");
    }
}
