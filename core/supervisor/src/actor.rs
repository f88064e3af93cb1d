//! What an actor is, and how the others see it.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use actix::Recipient;
use tenon_api::Failure;

use crate::guarded::Envelope;

/// Something that owns state and changes it, one message at a time, on a thread of its own. It may block.
pub trait Actor: Send + 'static {
    /// What it is told. Whoever wants an answer puts a `tokio::sync::oneshot::Sender` into the message; a sender
    /// dropped without answer tells the asker that the actor failed.
    type Message: Send + 'static;

    /// Called once before the first message, and again after each restart.
    fn started(&mut self) {}

    /// Handles one message.
    fn handle(&mut self, message: Self::Message);

    /// Called once after the last message when the node stops. Not called after a panic.
    fn stopping(&mut self) {}
}

/// How often an actor may fail, and how long it rests in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// The pause before the first restart; doubles with each further one in the same window.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// Restarts within `window` after which the actor is given up.
    pub ceiling: u32,
    /// A failure longer ago than this is forgotten.
    pub window: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_millis(50),
            longest_pause: Duration::from_secs(5),
            ceiling: 8,
            window: Duration::from_secs(60),
        }
    }
}

/// How an actor is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActorOptions {
    /// Messages that may wait. More are refused.
    pub mailbox_capacity: usize,
    /// What happens after a panic.
    pub restart: RestartPolicy,
}

impl Default for ActorOptions {
    fn default() -> Self {
        Self { mailbox_capacity: 1024, restart: RestartPolicy::default() }
    }
}

/// Where an actor is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActorState {
    /// Handles messages.
    Running,
    /// Failed, and rests before it is built anew.
    Restarting,
    /// Failed too often, or could not be built anew: refuses messages.
    Failed {
        /// What happened last.
        reason: String,
    },
    /// The node has stopped it.
    Stopped,
}

/// An actor as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorHealth {
    /// Its name.
    pub name: &'static str,
    /// Where it is in its life.
    pub state: ActorState,
    /// How often it was built anew.
    pub restarts: u64,
    /// The last panic's text.
    pub last_panic: Option<String>,
}

/// The health of one actor, written by its thread and read by everybody.
///
/// The lock is held for a copy only; nobody awaits under it.
#[derive(Clone, Debug)]
pub(crate) struct HealthCell(Arc<Mutex<ActorHealth>>);

impl HealthCell {
    pub(crate) fn new(name: &'static str) -> Self {
        let state = ActorState::Running;
        Self(Arc::new(Mutex::new(ActorHealth { name, state, restarts: 0, last_panic: None })))
    }

    pub(crate) fn get(&self) -> ActorHealth {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut ActorHealth)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Where messages to an actor go. Cloning it gives another handle to the same mailbox.
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

impl<M: Send + 'static> fmt::Debug for Mailbox<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Mailbox").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<M: Send + 'static> Mailbox<M> {
    /// Leaves a message.
    ///
    /// # Errors
    /// At once, with the message lost: code `-32005` when the mailbox is full, `-32000` when the actor has failed
    /// for good or was stopped.
    pub fn try_send(&self, message: M) -> Result<(), Failure> {
        if matches!(self.health.get().state, ActorState::Failed { .. } | ActorState::Stopped) {
            return Err(self.gone());
        }
        self.recipient.try_send(Envelope::Message(message)).map_err(|error| match error {
            actix::dev::SendError::Full(_) => Failure::limit(format!("{} is busy: its mailbox is full", self.name)),
            actix::dev::SendError::Closed(_) => self.gone(),
        })
    }

    fn gone(&self) -> Failure {
        match self.health.get().state {
            ActorState::Failed { reason } => Failure::server(format!("{} has failed: {reason}", self.name)),
            _ => Failure::server(format!("{} has been stopped", self.name)),
        }
    }
}
