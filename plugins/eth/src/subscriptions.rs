//! Subscriptions: `docs/spec/rpc-eth.md` 15.
//!
//! An event stream counts the events that a slow client missed. The chain subscriptions then query the changes since
//! the last block that they announced, so that a slow client gets everything late.

use std::{collections::VecDeque, future::poll_fn, sync::Arc, task::Poll};

use tenon_sdk::{
    prelude::*,
    shapes::{JsonWriter, LOG_JSON_BYTES, write_header, write_located_log},
};

use crate::{
    EthContext,
    chain::write_sync_status,
    changes::{MAX_BLOCKS, SentLogs, chain_changes, heads_among, is_end, log_changes, logs_bytes},
    criteria::{Criteria, LastingCriteria},
    dialect::Dialect,
    event_logs::{EventLogs, Search, Step},
    feed::Feed,
};

/// Memory of a block in [`CaughtUp`], whose queue may be half empty, and in the list of changes.
const CAUGHT_UP_BLOCK_BYTES: usize = 2 * size_of::<(B256, bool)>() + size_of::<(BlockNumber, B256)>();

/// The newest blocks announced while catching up. Their events may still arrive and must not be announced again. They are
/// fewer than that: the bus and the feed keep 256 events each.
struct CaughtUp {
    /// Hash, and whether the block left the chain; at most [`MAX_BLOCKS`].
    blocks: VecDeque<(B256, bool)>,
    memory: HeldMemory,
}

impl CaughtUp {
    fn new(context: &EthContext) -> Result<Self, Failure> {
        Ok(Self { blocks: VecDeque::new(), memory: context.hold(0)? })
    }

    /// Adds the blocks that are about to be announced. Fails if the client has no memory left for them.
    fn remember(&mut self, changes: &ChainChanges) -> Result<(), Failure> {
        let removed = changes.removed.iter().map(|(_, hash)| (*hash, true));
        let new = removed.chain(changes.added.iter().map(|(_, hash)| (*hash, false)));
        let count = changes.removed.len() + changes.added.len();
        let kept = self.blocks.len().min(MAX_BLOCKS.saturating_sub(count));
        self.memory.resize((kept + count) * CAUGHT_UP_BLOCK_BYTES)?;
        self.blocks.drain(..self.blocks.len() - kept);
        self.blocks.extend(new.skip(count.saturating_sub(MAX_BLOCKS)));
        Ok(())
    }

    /// The event's blocks that have already been announced.
    fn announced_of(&mut self, blocks: &[(B256, bool)]) -> Vec<(B256, bool)> {
        blocks.iter().copied().filter(|(hash, removed)| self.has_announced(*hash, *removed)).collect()
    }

    /// Whether the block was announced while catching up. Forgets all of them at the first block that was not, because
    /// later events are new.
    fn has_announced(&mut self, hash: B256, removed: bool) -> bool {
        if self.blocks.is_empty() {
            return false;
        }
        let announced = self.blocks.contains(&(hash, removed));
        if !announced {
            self.blocks = VecDeque::new();
            // Less memory is never refused.
            let _ = self.memory.resize(0);
        }
        announced
    }
}

pub(crate) async fn new_heads(context: EthContext, sink: Sink) -> Result<(), Failure> {
    let dialect = crate::dialect(&context).await?;
    let mut events = Feed::listen(&context.head_feed, context.host(), dialect).await;
    let mut last = context.call(GetHead).await?.header.hash();
    let mut caught_up = CaughtUp::new(&context)?;
    sink.accept().await;
    while let Some(delivery) = events.next().await? {
        sink.made_of(events.position());
        match delivery {
            Delivery::Event(head) => {
                let hash = head.event().header.hash();
                if !caught_up.has_announced(hash, false) {
                    last = hash;
                    head.text().send_to(&sink).await?;
                }
            }
            Delivery::Missed(_) => loop {
                let (changes, seen) = chain_changes(&context, last).await?;
                caught_up.remember(&changes)?;
                for (_, hash) in heads_among(dialect, &changes) {
                    let stored = context.call(GetHeader { block: BlockId::hash(*hash) }).await?;
                    // The header itself is dropped here, before the wait for a slow client.
                    let text = stored.map(|stored| write_header(dialect.profile, &stored.header));
                    if let Some(text) = text {
                        sink.send_written(text).await?;
                    }
                }
                last = seen;
                if is_end(&changes) {
                    break;
                }
            },
        }
    }
    Ok(())
}

pub(crate) async fn logs(
    context: EthContext,
    sink: Sink,
    LastingCriteria(mut criteria): LastingCriteria,
) -> Result<(), Failure> {
    let dialect = crate::dialect(&context).await?;
    criteria.check_watchable(dialect)?;
    criteria.sort_values();
    let mut events = Feed::listen(&context.log_feed, context.host(), dialect).await;
    let mut last = context.call(GetHead).await?.header.hash();
    let mut caught_up = CaughtUp::new(&context)?;
    let mut delivered = SentLogs::default();
    let mut memory = context.hold(criteria.heap_bytes())?;
    sink.accept().await;
    while let Some(delivery) = events.next().await? {
        sink.made_of(events.position());
        if memory.resize(criteria.heap_bytes() + delivered.bytes()).is_err() {
            // Removals of these logs may be missing then, as for logs that were delivered long ago.
            delivered = SentLogs::default();
        }
        match delivery {
            Delivery::Event(event) => {
                let announced = caught_up.announced_of(event.blocks());
                if let Some((hash, removed)) = event.blocks().iter().rfind(|block| !announced.contains(block)) {
                    last = block_after(&context, *hash, *removed).await?;
                }
                send_wanted(&sink, &event, &criteria, &announced, &mut delivered).await?;
            }
            Delivery::Missed(_) => loop {
                let (changes, seen) = chain_changes(&context, last).await?;
                caught_up.remember(&changes)?;
                let logs = log_changes(&context, &changes, &criteria, &delivered).await?;
                // Each subscription has its own list; if there is no memory for it, the subscription ends with that
                // error.
                let _memory = context.hold(logs_bytes(&logs))?;
                for log in &logs {
                    send_log(&sink, dialect.profile, log).await?;
                    delivered.note([log]);
                }
                last = seen;
                if is_end(&changes) {
                    break;
                }
            },
        }
    }
    Ok(())
}

/// Sends the matching logs of an event, from the texts that all subscriptions share.
async fn send_wanted(
    sink: &Sink,
    event: &Arc<EventLogs>,
    criteria: &Criteria,
    announced: &[(B256, bool)],
    delivered: &mut SentLogs,
) -> Result<(), Failure> {
    let mut search = Search::new(Arc::clone(event), criteria);
    // Only as many as are remembered: recording thousands of logs would cost as much as sending them.
    let mut newest = VecDeque::new();
    loop {
        match search.step(criteria, announced) {
            Step::Found(position) => {
                let (Some(log), Some(text)) = (event.log(position), event.text(position)) else { break };
                text.send_to(sink).await?;
                if log.removed {
                    delivered.note([log]);
                    continue;
                }
                if newest.len() == SentLogs::MAX_LOGS {
                    newest.pop_front();
                }
                newest.push_back(log);
            }
            Step::Pause => pause().await,
            Step::End => break,
        }
    }
    delivered.note(newest);
    Ok(())
}

/// Lets the host poll other tasks before it polls this subscription again.
async fn pause() {
    let mut has_paused = false;
    poll_fn(|task| {
        if std::mem::replace(&mut has_paused, true) {
            return Poll::Ready(());
        }
        task.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The block from which to continue after a block's logs were announced: the block itself, or its parent if the block
/// left the chain.
async fn block_after(context: &EthContext, hash: B256, removed: bool) -> Result<B256, Failure> {
    if !removed {
        return Ok(hash);
    }
    let stored = context.call(GetHeader { block: BlockId::hash(hash) }).await?;
    Ok(stored.map_or(hash, |stored| stored.header.parent_hash))
}

async fn send_log(sink: &Sink, profile: Profile, log: &LocatedLog) -> Result<(), Failure> {
    let mut json = JsonWriter::with_capacity(LOG_JSON_BYTES + log.log.data.len() * 2);
    write_located_log(&mut json, profile, log);
    sink.send_written(json).await
}

/// Hashes, or whole transactions if `full`. A client that is behind can query the pool for the transactions that it missed,
/// so nothing is repeated.
pub(crate) async fn new_pending_transactions(
    context: EthContext,
    sink: Sink,
    full: Option<bool>,
) -> Result<(), Failure> {
    let dialect = crate::dialect(&context).await?;
    let mut events = Feed::listen(&context.pending_feed, context.host(), dialect).await;
    sink.accept().await;
    while let Some(delivery) = events.next().await? {
        sink.made_of(events.position());
        let Delivery::Event(pending) = delivery else { continue };
        if full.unwrap_or_default() {
            pending.text().send_to(&sink).await?;
        } else {
            sink.send(&pending.event().transaction.transaction.hash).await?;
        }
    }
    Ok(())
}

/// Announces the start and the end of synchronising, not the steps between.
pub(crate) async fn syncing(context: EthContext, sink: Sink) -> Result<(), Failure> {
    let dialect = crate::dialect(&context).await?;
    let mut events = context.events::<SyncChanged>();
    let mut is_syncing = context.call(GetSyncStatus).await?.is_some();
    sink.accept().await;
    while let Some(delivery) = events.next().await? {
        let status = match delivery {
            Delivery::Event(event) => event.status,
            Delivery::Missed(_) => context.call(GetSyncStatus).await?,
        };
        if status.is_some() == is_syncing {
            continue;
        }
        is_syncing = status.is_some();
        match status {
            Some(status) => sink.send_written(sync_started(dialect, &status)).await?,
            None => sink.send(&false).await?,
        }
    }
    Ok(())
}

/// The status as the subscription announces it.
fn sync_started(dialect: &Dialect, status: &SyncStatus) -> JsonWriter {
    let mut json = JsonWriter::with_capacity(200);
    json.begin_object();
    json.key("syncing").boolean(true);
    json.key("status");
    if dialect.announces_sync_as_struct {
        json.begin_object();
        json.key("StartingBlock").raw(&status.starting.0.to_string());
        json.key("CurrentBlock").raw(&status.current.0.to_string());
        json.key("HighestBlock").raw(&status.highest.0.to_string());
        json.key("PulledStates").raw("0");
        json.key("KnownStates").raw("0");
        json.end_object();
    } else {
        write_sync_status(&mut json, dialect, status);
    }
    json.end_object();
    json
}

#[cfg(test)]
mod tests {
    use tenon_sdk::testing::{Chain, TestBlock};

    use super::*;
    use crate::Eth;

    #[test]
    fn blocks_announced_while_catching_up_are_counted_until_a_newer_one_arrives() {
        for kind in ["newHeads", "logs"] {
            let chain = Chain::new();
            let eth = chain.start::<Eth>("{}").expect("it starts");
            let params = if kind == "logs" { "[{}]" } else { "[]" };
            let [mut first, mut starved] = [(); 2].map(|()| eth.subscribe(kind, params).expect("a subscription"));
            assert_eq!((first.items().len(), starved.items().len()), (1, 1), "accepted");
            let add = || chain.add(TestBlock::new().log(Address::ZERO, &[], &[]));
            chain.miss(1);
            for _ in 0..3 {
                add();
            }

            let announced = first.items().len();
            let held = chain.held(0);
            chain.memory(held);
            let refused = starved.items();
            chain.memory(1 << 20);
            add();
            let newer = first.items().len();

            assert_eq!((announced, newer), (3, 1), "{kind}");
            assert!(held >= 3 * CAUGHT_UP_BLOCK_BYTES, "{kind}: {held}");
            assert!(chain.held(0) < held, "{kind}: {}", chain.held(0));
            let ends = refused.iter().filter_map(|item| item.as_ref().err()).map(|failure| failure.code);
            assert_eq!(ends.collect::<Vec<_>>(), [FailureCode::LIMIT_EXCEEDED], "{kind}");
        }
    }
}
