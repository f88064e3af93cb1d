//! The actor that keeps the pool in step with the chain, and the task that sends it the chain's events.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tenon_api::{
    BlockCommit, RecoveredBlock,
    messages::{BlockCommitted, BlocksUnwound},
};
use tenon_bus::{Delivery, Subscription};
use tenon_supervisor::{Actor, ActorOptions, Mailbox, SpawnError, Supervisor};
use tokio::time::MissedTickBehavior;

use crate::Pool;

/// The actor's name.
pub const ACTOR: &str = "pool";

/// A block takes the actor some hundred microseconds. While the mailbox is full, events wait in the subscriptions.
const MAILBOX_CAPACITY: usize = 64;

/// Interval for expiring old transactions and rotating the journal, unless their lifetime is shorter.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(300);
/// Minimum of that interval for every lifetime.
const MIN_MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);

/// A message for the pool's actor.
pub(crate) enum PoolMessage {
    /// A block became the head.
    Committed(Arc<BlockCommit>),
    /// These blocks left the chain, newest first.
    Unwound(Arc<Vec<Arc<RecoveredBlock>>>),
    /// Events were missed: reads the head again.
    Resync,
    /// Evicts old transactions and rotates the journal.
    Maintain,
}

/// Applies the chain's changes to the pool. Submissions and reads do not go through it.
struct PoolActor {
    pool: Pool,
    /// Whether the previous actor panicked.
    follows_panic: bool,
}

impl Actor for PoolActor {
    type Message = PoolMessage;

    fn started(&mut self) {
        // The message of the actor that panicked is lost, and the change that it began is unfinished.
        if self.follows_panic {
            self.pool.rebuild_indices();
            self.pool.note(self.pool.resync());
        }
    }

    fn handle(&mut self, message: PoolMessage) {
        let pool = &self.pool;
        match message {
            PoolMessage::Committed(commit) => pool.note(pool.on_committed(&commit)),
            PoolMessage::Unwound(blocks) => pool.note(pool.on_unwound(&blocks)),
            PoolMessage::Resync => pool.note(pool.resync()),
            PoolMessage::Maintain => pool.evict_and_rotate(Instant::now()),
        }
    }
}

/// Sends the chain's events to the pool's actor. The node runs [`PoolFeed::run`] as a task and drops it to stop.
#[derive(derive_more::Debug)]
#[debug("PoolFeed({mailbox:?})")]
pub struct PoolFeed {
    mailbox: Mailbox<PoolMessage>,
    committed: Subscription<BlockCommitted>,
    unwound: Subscription<BlocksUnwound>,
    maintenance_interval: Duration,
}

impl PoolFeed {
    /// Sends events until the bus is closed, or the actor has failed for good or was stopped. Waits while the mailbox
    /// is full; if a subscription misses events meanwhile, the actor reads the head again.
    pub async fn run(mut self) {
        let interval = self.maintenance_interval;
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let message = tokio::select! {
                delivery = self.unwound.next() => match delivery {
                    Some(Delivery::Event(event)) => PoolMessage::Unwound(event.blocks),
                    Some(Delivery::Missed(_)) => PoolMessage::Resync,
                    None => return,
                },
                delivery = self.committed.next() => match delivery {
                    Some(Delivery::Event(event)) => PoolMessage::Committed(event.commit),
                    Some(Delivery::Missed(_)) => PoolMessage::Resync,
                    None => return,
                },
                _ = ticks.tick() => PoolMessage::Maintain,
            };
            if self.mailbox.send(message).await.is_err() {
                return;
            }
        }
    }
}

/// Brings the pool to the current head, and starts its actor under supervision. Run the returned feed to send it later
/// events.
///
/// # Errors
/// Those of [`Supervisor::spawn`].
pub fn spawn_pool(supervisor: &Supervisor, pool: &Pool) -> Result<PoolFeed, SpawnError> {
    let committed = pool.inner.bus.subscribe();
    let unwound = pool.inner.bus.subscribe();
    // Blocks may have arrived between the opening and the subscriptions.
    pool.note(pool.resync());
    let maintenance_interval = pool.inner.options.lifetime.clamp(MIN_MAINTENANCE_INTERVAL, MAINTENANCE_INTERVAL);
    let pool = pool.clone();
    let mut follows_panic = false;
    let make = move || {
        let actor = PoolActor { pool: pool.clone(), follows_panic };
        follows_panic = true;
        Ok(actor)
    };
    let options = ActorOptions { mailbox_capacity: MAILBOX_CAPACITY, ..ActorOptions::default() };
    let mailbox = supervisor.spawn(ACTOR, options, make)?;
    Ok(PoolFeed { mailbox, committed, unwound, maintenance_interval })
}

#[cfg(test)]
mod tests;
