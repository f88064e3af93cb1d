//! Module actors: parts of the node that operators list, stop and start like plugins.
//!
//! The register knows them by name only; each defines its own start and stop.

use std::fmt::Display;

use async_trait::async_trait;
use parking_lot::Mutex;
use tenon_api::{
    Topic,
    messages::{ActorDetails, ActorHealth, MailboxUse, ModuleDetails, ModuleFaults, ModuleInfo, ModuleState},
};

use crate::ModuleError;

/// Why a part of the node did not start or stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// The node is shutting down.
    #[error("the node is shutting down")]
    ShuttingDown,
    /// The part's own error.
    #[error("{0}")]
    Part(String),
}

impl SwitchError {
    /// An error of the part itself, with this text.
    pub fn new(cause: impl Display) -> Self {
        Self::Part(cause.to_string())
    }
}

/// Starts and stops a part of the node.
#[async_trait]
pub trait ActorSwitch: Send + Sync + 'static {
    /// Starts it. Called when it is stopped, or has failed.
    async fn start(&self) -> Result<(), SwitchError>;

    /// Stops it, after it has finished the accepted requests.
    async fn stop(&self) -> Result<(), SwitchError>;

    /// Why it has failed for good, if it has.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Returns whether it still works on requests that it accepted before it was stopped.
    fn is_draining(&self) -> bool {
        false
    }
}

/// When a part of the node is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActorStage {
    /// Before the plugins, which may send it requests.
    BeforePlugins,
    /// After the plugins, because it sends them requests.
    AfterPlugins,
}

/// What a part of the node reports about itself. Empty for what it does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActorReport {
    /// Its health; by default it follows from its state.
    pub health: Option<ActorHealth>,
    /// Number of restarts after failures.
    pub restarts: u64,
    /// Its last failure.
    pub last_fault: Option<String>,
    /// Its mailbox.
    pub mailbox: Option<MailboxUse>,
    /// Address at which it listens.
    pub address: Option<String>,
    /// Number of open connections.
    pub connections: Option<u64>,
}

/// Reads an [`ActorReport`]. Must not block.
pub type ActorProbe = Box<dyn Fn() -> ActorReport + Send + Sync>;

/// Whether a module actor can be stopped.
pub enum ActorControl {
    /// It can be stopped.
    Switch(Box<dyn ActorSwitch>),
    /// It cannot be stopped, for this reason: a sentence that begins with "it" and names what would break.
    Fixed(&'static str),
}

/// Description of a module actor.
pub struct ActorModule {
    /// Name for operations. No plugin can have it.
    pub name: &'static str,
    /// Its purpose, in one sentence.
    pub summary: &'static str,
    /// Module actors that it uses, including actors that cannot be stopped. If one of them is stopped, this one keeps running as
    /// well as it can, and the report of the operation names it.
    pub uses: &'static [&'static str],
    /// Requests that it answers. While it is stopped, they fail with an error that says so. Panics of their handlers
    /// count as its own.
    pub answers: &'static [Topic],
    /// When it is started.
    pub stage: ActorStage,
    /// Whether the settings enable it at the node's start.
    pub is_wanted: bool,
    /// Whether and how it can be stopped.
    pub control: ActorControl,
    /// Reads its report; `None` if it has nothing to report but its state.
    pub probe: Option<ActorProbe>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SwitchState {
    Enabled,
    Disabled,
    Failed(String),
}

/// A module actor that the host knows.
pub(crate) struct KnownActor {
    pub(crate) module: ActorModule,
    /// Changed by operations only; nothing awaits under the lock.
    pub(crate) switch_state: Mutex<SwitchState>,
}

impl KnownActor {
    pub(crate) const fn name(&self) -> &'static str {
        self.module.name
    }

    /// Whether it should run, and whether the settings enable it.
    pub(crate) fn choice(&self) -> (bool, bool) {
        (*self.switch_state.lock() != SwitchState::Disabled, self.module.is_wanted)
    }

    pub(crate) fn switch(&self) -> Result<&dyn ActorSwitch, ModuleError> {
        match &self.module.control {
            ActorControl::Switch(switch) => Ok(&**switch),
            ActorControl::Fixed(reason) => Err(ModuleError::Fixed { name: self.name().to_owned(), reason }),
        }
    }

    /// Its state, and the reason if it has failed.
    pub(crate) fn state(&self) -> (ModuleState, Option<String>) {
        let fallen = || self.switch().ok().and_then(ActorSwitch::failure);
        match self.switch_state.lock().clone() {
            SwitchState::Disabled => (ModuleState::Disabled, None),
            SwitchState::Failed(reason) => (ModuleState::Failed, Some(reason)),
            SwitchState::Enabled => match fallen() {
                None => (ModuleState::Enabled, None),
                Some(reason) => (ModuleState::Failed, Some(reason)),
            },
        }
    }

    /// `panics` counts panics of its request handlers.
    pub(crate) fn info(&self, needed_by: Vec<String>, panics: u64) -> ModuleInfo {
        let (state, reason) = self.state();
        let report = self.module.probe.as_ref().map(|probe| probe()).unwrap_or_default();
        let health = match state {
            ModuleState::Enabled => report.health.unwrap_or(ActorHealth::Running),
            ModuleState::Failed => ActorHealth::Failed,
            ModuleState::Loaded | ModuleState::Disabled | ModuleState::Unloaded => ActorHealth::Stopped,
        };
        let fixed = match &self.module.control {
            ActorControl::Switch(_) => None,
            ActorControl::Fixed(reason) => Some((*reason).to_owned()),
        };
        ModuleInfo {
            name: self.name().to_owned(),
            state,
            reason,
            needs: self.module.uses.iter().map(|name| (*name).to_owned()).collect(),
            needed_by,
            faults: ModuleFaults {
                restarts: report.restarts,
                last_end: report.last_fault,
                panics,
                ..ModuleFaults::default()
            },
            until: None,
            details: ModuleDetails::Actor(ActorDetails {
                summary: self.module.summary.to_owned(),
                fixed,
                health: Some(health),
                mailbox: report.mailbox,
                address: report.address,
                connections: report.connections,
            }),
        }
    }
}
