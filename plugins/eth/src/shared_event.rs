//! An event whose text is written once for all subscriptions.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tenon_sdk::{
    prelude::*,
    shapes::{JsonWriter, write_header},
};

use crate::{dialect::Dialect, feed::FeedItem, transactions::transaction_json};

/// The text of a notification.
#[derive(Debug)]
pub(crate) enum Text {
    /// Shared by all subscriptions, and counted by the event that has it.
    Shared(Arc<[u8]>),
    /// Of one subscription, because the node has no memory to keep it with the event.
    Own(JsonWriter),
}

impl Text {
    /// # Errors
    /// As [`Sink::send_written`].
    pub(crate) async fn send_to(self, sink: &Sink) -> Result<(), Failure> {
        match self {
            Self::Shared(text) => sink.send_shared(text).await,
            Self::Own(json) => sink.send_written(json).await?,
        }
        Ok(())
    }
}

/// An event that subscriptions announce in one text.
pub(crate) trait AnnouncedEvent: Event {
    /// The text.
    fn write(&self, profile: Profile) -> JsonWriter;
    /// The memory of the decoded event in bytes, without its own size.
    fn heap_bytes(&self) -> usize;
}

impl AnnouncedEvent for NewHead {
    fn write(&self, profile: Profile) -> JsonWriter {
        write_header(profile, &self.header)
    }

    fn heap_bytes(&self) -> usize {
        let seal = self.header.native_seal.as_ref();
        let seal = seal.map_or(0, |seal| seal.validators.len() + seal.validator.len() + seal.penalties.len());
        size_of::<SealedHeader>() + self.header.extra_data.len() + seal
    }
}

impl AnnouncedEvent for TransactionPending {
    fn write(&self, profile: Profile) -> JsonWriter {
        transaction_json(profile, &self.transaction, None)
    }

    fn heap_bytes(&self) -> usize {
        let transaction = &self.transaction.transaction;
        let accessed = transaction.access_list().iter();
        let accessed = accessed.map(|item| size_of_val(item) + item.storage_keys.len() * size_of::<B256>());
        let authorizations = match &transaction.payload {
            TransactionPayload::SetCode { authorization_list, .. } => size_of_val(&authorization_list[..]),
            _ => 0,
        };
        let blobs = size_of_val(transaction.blob_versioned_hashes());
        size_of::<Transaction>() + transaction.input.len() + accessed.sum::<usize>() + authorizations + blobs
    }
}

/// An event and its text.
pub(crate) struct SharedEvent<E> {
    event: E,
    profile: Profile,
    /// Written when a subscription first needs it.
    text: OnceLock<Arc<[u8]>>,
    /// Reservation for event and text. Locked while the text is written, so that it is written once; nothing awaits
    /// under the lock.
    memory: Mutex<HeldMemory>,
}

impl<E: AnnouncedEvent> FeedItem for SharedEvent<E> {
    type Event = E;

    fn bytes_of(event: &E) -> usize {
        size_of::<Self>() + event.heap_bytes()
    }

    fn new(dialect: &'static Dialect, event: E, memory: HeldMemory) -> Self {
        Self { event, profile: dialect.profile, text: OnceLock::new(), memory: Mutex::new(memory) }
    }

    fn bytes(&self) -> usize {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).bytes()
    }
}

impl<E: AnnouncedEvent> SharedEvent<E> {
    /// The event.
    pub(crate) const fn event(&self) -> &E {
        &self.event
    }

    /// The text. If the node has no memory for it, it is not kept, and every subscription has its own.
    pub(crate) fn text(&self) -> Text {
        if let Some(text) = self.text.get() {
            return Text::Shared(Arc::clone(text));
        }
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = self.text.get() {
            return Text::Shared(Arc::clone(text));
        }
        let json = self.event.write(self.profile);
        let wanted = memory.bytes() + json.len();
        if memory.resize(wanted).is_err() {
            return Text::Own(json);
        }
        Text::Shared(Arc::clone(self.text.get_or_init(|| json.into_bytes().into())))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tenon_sdk::testing::{Chain, Started, TestBlock, TestSubscription};

    use super::*;
    use crate::Eth;

    const SUBSCRIPTIONS: usize = 50;
    const INPUT: usize = 100_000;

    fn transaction(number: u8) -> TransactionPending {
        let transaction = Transaction {
            hash: B256::repeat_byte(number),
            chain_id: None,
            nonce: 0,
            gas_limit: 3_000_000,
            to: Some(Address::ZERO),
            value: U256::ZERO,
            input: vec![number; INPUT].into(),
            payload: TransactionPayload::Legacy { gas_price: U256::from(1) },
            signature: TransactionSignature { v: 27, r: U256::from(1), s: U256::from(1) },
        };
        let transaction = RecoveredTransaction { transaction: transaction.into(), sender: Address::ZERO };
        TransactionPending { transaction }
    }

    fn subscribe(eth: &Started<Eth>, params: &str, kind: &str) -> TestSubscription {
        let mut opened = eth.subscribe(kind, params).expect("a subscription");
        assert_eq!(opened.items(), [Ok(String::new())], "accepted");
        opened
    }

    /// The addresses of the texts that every subscription sends.
    fn addresses(subscriptions: &mut [TestSubscription], count: usize) -> Vec<BTreeSet<*const u8>> {
        let bodies = subscriptions.iter_mut().map(|subscription| subscription.bodies().into_iter().collect());
        let bodies: Vec<Vec<_>> = bodies.collect::<Result<_, Failure>>().expect("no error");
        assert!(bodies.iter().all(|bodies| bodies.len() == count));
        (0..count).map(|item| bodies.iter().map(|bodies| bodies[item].as_ref().as_ptr()).collect()).collect()
    }

    #[test]
    fn a_pending_transaction_is_written_once_and_its_memory_does_not_grow_with_the_subscriptions() {
        let chain = Chain::new();
        let eth = chain.start::<Eth>("{}").expect("it starts");
        let mut subscriptions: Vec<_> =
            (0..SUBSCRIPTIONS).map(|_| subscribe(&eth, "[true]", "newPendingTransactions")).collect();

        chain.announce_pending(&transaction(1));
        chain.announce_pending(&transaction(2));
        let first = addresses(&mut subscriptions[..1], 2);
        let held = chain.held(0);
        let (one, all) = (3 * INPUT, 2 * (3 * INPUT + 4_000));
        assert!(held > 2 * one && held < all, "{held} bytes: both with their texts, for the other subscriptions");
        let others = addresses(&mut subscriptions[1..], 2);

        assert!(others.iter().all(|addresses| addresses.len() == 1), "one text for all: {others:?}");
        assert_eq!(others, first, "the one that the first subscription has sent");
        assert_eq!(chain.held(0), 0, "all have read it");
    }

    #[test]
    fn a_header_is_written_once_for_all_subscriptions() {
        let chain = Chain::new();
        let eth = chain.start::<Eth>("{}").expect("it starts");
        let mut subscriptions: Vec<_> = (0..SUBSCRIPTIONS).map(|_| subscribe(&eth, "[]", "newHeads")).collect();
        chain.add(TestBlock::new());
        chain.add(TestBlock::new());

        let addresses = addresses(&mut subscriptions, 2);

        assert!(addresses.iter().all(|addresses| addresses.len() == 1), "{addresses:?}");
        assert_eq!(chain.held(0), 0);
    }

    #[test]
    fn hashes_of_pending_transactions_need_no_text() {
        let chain = Chain::new();
        let eth = chain.start::<Eth>("{}").expect("it starts");
        let mut hashes = subscribe(&eth, "[]", "newPendingTransactions");
        let _unread = subscribe(&eth, "[true]", "newPendingTransactions");

        chain.announce_pending(&transaction(7));

        assert_eq!(hashes.items(), [Ok(format!("\"{}\"", B256::repeat_byte(7)))]);
        assert!(chain.held(0) < INPUT + 2_000, "the event without its text");
    }

    #[test]
    fn without_memory_for_more_events_only_subscriptions_that_are_behind_miss_any() {
        let chain = Chain::new();
        let eth = chain.start::<Eth>("{}").expect("it starts");
        let [mut fast, mut slow] = [(); 2].map(|()| subscribe(&eth, "[]", "newPendingTransactions"));
        chain.memory(3 * INPUT);

        for number in 1..=10 {
            chain.announce_pending(&transaction(number));
            assert_eq!(fast.items().len(), 1, "transaction {number}");
        }

        assert_eq!(slow.items().len(), 2, "the newest, which fit");
    }

    #[test]
    fn without_memory_for_the_plugin_and_for_the_client_a_subscription_ends_before_it_keeps_a_text() {
        let chain = Chain::new();
        let eth = chain.start::<Eth>("{}").expect("it starts");
        let mut subscription = subscribe(&eth, "[true]", "newPendingTransactions");
        chain.memory(INPUT + 2_000);

        chain.announce_pending(&transaction(1));

        let items = subscription.items();
        assert!(matches!(&items[..], [Err(failure)] if failure.code == FailureCode::LIMIT_EXCEEDED), "{items:?}");
    }
}
