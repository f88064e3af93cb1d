//! Transactions between the network and the pool.

use std::sync::Arc;

use alloy_primitives::Bytes;
use futures_util::FutureExt as _;
use tenon_api::messages::TransactionPending;
use tenon_api::{PeerTransactions, RecoveredTransaction, Transaction};
use tenon_bus::{Bus, Delivery};
use tenon_chain::encode_transaction;
use tenon_supervisor::Mailbox;

use crate::input::Input;
use crate::transactions::GossipItem;

/// Maximum number of transactions that are announced together.
const MAX_GOSSIP: usize = 1024;

/// Submits transactions of a peer to the pool, on a thread that may block.
pub(crate) fn offer(pool: &dyn PeerTransactions, transactions: &[Arc<Transaction>]) {
    let raw: Vec<Bytes> = transactions.iter().map(|transaction| Bytes::from(encode_transaction(transaction))).collect();
    pool.offer(&raw);
}

/// Sends new pending transactions to the actor until it is aborted.
pub(crate) async fn follow(bus: Bus, pool: Arc<dyn PeerTransactions>, mailbox: Mailbox<Input>) {
    let mut pending = bus.subscribe::<TransactionPending>();
    while let Some(delivery) = pending.next().await {
        let mut transactions: Vec<RecoveredTransaction> = Vec::new();
        let mut next = Some(delivery);
        while let Some(delivery) = next {
            match delivery {
                Delivery::Event(event) => transactions.push(event.transaction.clone()),
                // Missed transactions are in the pool.
                Delivery::Missed(_) => transactions.extend(pool.pending()),
            }
            next = if transactions.len() < MAX_GOSSIP { pending.next().now_or_never().flatten() } else { None };
        }
        let items = transactions.iter().map(|pending| GossipItem::new(&pending.transaction)).collect();
        // A busy actor does not announce them; peers receive them from other nodes.
        drop(mailbox.try_send(Input::Pending(items)));
    }
}
