//! The actor trait, and how other code sees an actor.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use actix::{Recipient, dev::SendError};
use parking_lot::Mutex;
use tenon_api::ActorError;

use crate::supervised_actor::Envelope;

/// Owns state and changes it, one message at a time, on a thread of its own. It may block.
pub trait Actor: Send + 'static {
    /// The actor's message type. A sender that wants an answer puts a `tokio::sync::oneshot::Sender` into the message;
    /// if the actor drops it unanswered, the receiver learns that the actor failed.
    type Message: Send + 'static;

    /// Called once before the first message, and again after each restart.
    fn started(&mut self) {}

    /// Handles one message.
    fn handle(&mut self, message: Self::Message);

    /// Called once after the last message when the node stops. Not called after a panic.
    fn stopping(&mut self) {}
}

/// How often an actor may fail, and how long it pauses before a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// The pause before the first restart; it doubles with each further one in the same window.
    pub first_pause: Duration,
    /// The longest pause.
    pub max_pause: Duration,
    /// Maximum number of restarts within `window`. One more failure, and the actor has failed for good.
    pub ceiling: u32,
    /// Failures longer ago than this are forgotten.
    pub window: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_millis(50),
            max_pause: Duration::from_secs(5),
            ceiling: 8,
            window: Duration::from_secs(60),
        }
    }
}

/// How an actor is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActorOptions {
    /// Capacity of the mailbox. Further messages are refused.
    pub mailbox_capacity: usize,
    /// What happens after a panic.
    pub restart: RestartPolicy,
}

impl Default for ActorOptions {
    fn default() -> Self {
        Self { mailbox_capacity: 1024, restart: RestartPolicy::default() }
    }
}

/// The state of an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActorState {
    /// Handles messages.
    Running,
    /// Failed, and pauses before it is rebuilt.
    Restarting,
    /// Failed too often, or could not be rebuilt: refuses messages.
    Failed {
        /// The last failure.
        reason: String,
    },
    /// Stopped by the node.
    Stopped,
}

/// An actor's health, as shown to an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorHealth {
    /// Its name.
    pub name: &'static str,
    /// Its state.
    pub state: ActorState,
    /// Number of restarts.
    pub restarts: u64,
    /// The last panic's text.
    pub last_panic: Option<String>,
    /// Number of messages in its mailbox: at most `capacity`, and one more for each sender.
    pub waiting: usize,
    /// Capacity of its mailbox.
    pub capacity: usize,
}

/// The health of one actor, written by its thread and read by any other.
///
/// The lock is held for a copy only; nothing awaits under it.
#[derive(Clone, Debug)]
pub(crate) struct HealthCell {
    health: Arc<Mutex<ActorHealth>>,
    /// Number of messages in the mailbox. Not under the lock, because every message changes it.
    waiting: Arc<AtomicUsize>,
}

impl HealthCell {
    pub(crate) fn new(name: &'static str, capacity: usize) -> Self {
        let state = ActorState::Running;
        let health = ActorHealth { name, state, restarts: 0, last_panic: None, waiting: 0, capacity };
        Self { health: Arc::new(Mutex::new(health)), waiting: Arc::default() }
    }

    pub(crate) fn get(&self) -> ActorHealth {
        ActorHealth { waiting: self.waiting.load(Ordering::Relaxed), ..self.health.lock().clone() }
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut ActorHealth)) {
        change(&mut self.health.lock());
    }

    /// Counts a message as waiting until the result is dropped.
    fn count_waiting(&self) -> WaitingGuard {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        WaitingGuard(Arc::clone(&self.waiting))
    }
}

/// Counts one waiting message. In the message itself, so that it is dropped with one that is refused, and with the
/// mailbox.
pub(crate) struct WaitingGuard(Arc<AtomicUsize>);

impl Drop for WaitingGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Pause between two attempts to send to a full mailbox.
const FULL_MAILBOX_PAUSE: Duration = Duration::from_millis(5);

/// The sending end of an actor's mailbox. Clones share it.
#[derive(derive_more::Debug)]
#[debug("Mailbox({name:?})")]
pub struct Mailbox<M: Send + 'static> {
    pub(crate) name: &'static str,
    pub(crate) recipient: Recipient<Envelope<M>>,
    pub(crate) health: HealthCell,
}

impl<M: Send + 'static> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self { name: self.name, recipient: self.recipient.clone(), health: self.health.clone() }
    }
}

impl<M: Send + 'static> Mailbox<M> {
    /// Puts a message into the mailbox.
    ///
    /// # Errors
    /// [`ActorError`], at once: the mailbox is full, or the actor has failed for good or was stopped.
    pub fn try_send(&self, message: M) -> Result<(), ActorError> {
        self.put(message)?.map_err(|_| ActorError::MailboxFull { actor: self.name })
    }

    /// Puts a message into the mailbox; waits while it is full. For messages that must not be lost. Messages that wait may
    /// overtake one another.
    ///
    /// # Errors
    /// [`ActorError`]: the actor has failed for good or was stopped.
    pub async fn send(&self, mut message: M) -> Result<(), ActorError> {
        while let Err(returned) = self.put(message)? {
            message = returned;
            tokio::time::sleep(FULL_MAILBOX_PAUSE).await;
        }
        Ok(())
    }

    /// Puts a message into the mailbox, or returns it if the mailbox is full.
    fn put(&self, message: M) -> Result<Result<(), M>, ActorError> {
        if matches!(self.health.get().state, ActorState::Failed { .. } | ActorState::Stopped) {
            return Err(self.gone());
        }
        let envelope = Envelope::Message(message, tenon_bus::waits::wait_began(), self.health.count_waiting());
        match self.recipient.try_send(envelope) {
            Err(SendError::Full(Envelope::Message(message, ..))) => Ok(Err(message)),
            Err(SendError::Closed(_)) => Err(self.gone()),
            // Only a message is sent here, so only a message is returned.
            Ok(()) | Err(SendError::Full(Envelope::Stop(_))) => Ok(Ok(())),
        }
    }

    fn gone(&self) -> ActorError {
        match self.health.get().state {
            ActorState::Failed { reason } => ActorError::Failed { actor: self.name, reason },
            _ => ActorError::Stopped { actor: self.name },
        }
    }
}
