//! Module actors: parts of the node that operators list, stop and start like plugins.
//!
//! The host knows them by name only; each defines its own start and stop. Invariant: a request to a stopped module
//! fails at once, with an error that names the module.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use tenon_api::{
    Failure, Topic,
    messages::{
        ModuleChange, ModuleFaults, ModuleInfo, ModuleKind, ModuleLimits, ModuleOperation, ModuleReport, ModuleState,
    },
    schema_entries,
};
use tokio::time::Instant;

use crate::{HostError, PluginHost, ends::now, life_cycle::micros};

/// Starts and stops a part of the node.
pub trait ActorSwitch: Send + Sync + 'static {
    /// Starts it. Called when it is stopped, or has failed.
    fn start(&self) -> BoxFuture<'_, Result<(), Failure>>;

    /// Stops it, after it has finished the accepted requests.
    fn stop(&self) -> BoxFuture<'_, Result<(), Failure>>;

    /// Why it has failed for good, if it has.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Its counted faults.
    fn faults(&self) -> ModuleFaults {
        ModuleFaults::default()
    }

    /// Whether it is still finishing requests that it accepted before it was stopped.
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
    /// Module actors that it uses. It is notified when they stop, and keeps running as well as it can.
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
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    Enabled,
    Disabled,
    Failed(String),
}

/// A module actor that the host knows.
pub(crate) struct KnownActor {
    module: ActorModule,
    /// Changed by operations only; nothing awaits under the lock.
    standing: Mutex<Standing>,
}

impl KnownActor {
    pub(crate) const fn name(&self) -> &'static str {
        self.module.name
    }

    /// Whether it should run, and whether the settings enable it.
    pub(crate) fn choice(&self) -> (bool, bool) {
        (*self.standing() != Standing::Disabled, self.module.is_wanted)
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn switch(&self) -> Result<&dyn ActorSwitch, HostError> {
        match &self.module.control {
            ActorControl::Switch(switch) => Ok(&**switch),
            ActorControl::Fixed(reason) => Err(HostError::Fixed { name: self.name().to_owned(), reason }),
        }
    }

    /// Its state, and the reason if it has failed.
    fn state(&self) -> (ModuleState, Option<String>) {
        let fallen = || self.switch().ok().and_then(ActorSwitch::failure);
        match self.standing().clone() {
            Standing::Disabled => (ModuleState::Disabled, None),
            Standing::Failed(reason) => (ModuleState::Failed, Some(reason)),
            Standing::Enabled => match fallen() {
                None => (ModuleState::Enabled, None),
                Some(reason) => (ModuleState::Failed, Some(reason)),
            },
        }
    }

    /// `panics` counts panics of its request handlers.
    fn info(&self, needed_by: Vec<String>, panics: u64) -> ModuleInfo {
        let (state, reason) = self.state();
        let fixed = match &self.module.control {
            ActorControl::Switch(_) => None,
            ActorControl::Fixed(reason) => Some((*reason).to_owned()),
        };
        ModuleInfo {
            name: self.name().to_owned(),
            state,
            reason,
            namespace: String::new(),
            version: String::new(),
            plugin: String::new(),
            built_with: String::new(),
            path: String::new(),
            content_hash: String::new(),
            isolation: "in-process".to_owned(),
            process: None,
            is_required: fixed.is_some(),
            wanted: Vec::new(),
            granted: Vec::new(),
            needs: self.module.uses.iter().map(|name| (*name).to_owned()).collect(),
            needed_by,
            methods: Vec::new(),
            subscriptions: Vec::new(),
            running_calls: 0,
            open_subscriptions: 0,
            kind: ModuleKind::Actor,
            summary: self.module.summary.to_owned(),
            fixed,
            limits: ModuleLimits::default(),
            faults: ModuleFaults { panics, ..self.switch().map(ActorSwitch::faults).unwrap_or_default() },
            warnings: Vec::new(),
            storage: None,
            until: None,
            trust: String::new(),
        }
    }

    /// Error for requests while it is stopped.
    fn stopped(&self) -> Failure {
        Failure::server(format!("module {} is stopped; it can be enabled again", self.name()))
    }
}

impl PluginHost {
    /// Registers a module actor. [`PluginHost::start_actors`] starts them in the order of registration. All are
    /// registered before the plugins, which therefore can't take their names.
    ///
    /// # Errors
    /// [`HostError::WrongState`] when the name is taken.
    pub fn add_actor(&self, module: ActorModule) -> Result<(), HostError> {
        if self.actor(module.name).is_some() || self.modules().by_name.contains_key(module.name) {
            let problem = "is known already".to_owned();
            return Err(HostError::WrongState { name: module.name.to_owned(), problem });
        }
        let standing = match module.control {
            ActorControl::Switch(_) => Standing::Disabled,
            ActorControl::Fixed(_) => Standing::Enabled,
        };
        self.actors().push(Arc::new(KnownActor { module, standing: Mutex::new(standing) }));
        Ok(())
    }

    /// Starts the stoppable module actors of one stage, except those that the settings or the operator disabled.
    ///
    /// # Errors
    /// [`HostError::Actor`] of the first one that does not start; [`HostError::Choices`] when the choices can't be read.
    pub async fn start_actors(&self, stage: ActorStage) -> Result<(), HostError> {
        let choices = self.read_choices()?;
        for actor in self.known_actors().into_iter().filter(|actor| actor.module.stage == stage) {
            let Ok(switch) = actor.switch() else { continue };
            let is_wanted = choices.wants(actor.name(), actor.module.is_wanted);
            let end = choices.end_of(actor.name(), Some(actor.module.is_wanted)).filter(|_| is_wanted);
            if !is_wanted || end.is_some_and(|end| end <= now()) {
                self.bus.suspend(actor.module.answers, &actor.stopped());
                if actor.module.is_wanted {
                    tracing::warn!(
                        module = actor.name(),
                        "not started: it was disabled; `tenon module enable` starts it"
                    );
                }
                continue;
            }
            self.set_end(actor.name(), end);
            switch.start().await.map_err(|failure| HostError::Actor { name: actor.name().to_owned(), failure })?;
            *actor.standing() = Standing::Enabled;
        }
        Ok(())
    }

    /// Stops the module actors in reverse order of their start.
    pub(crate) async fn stop_actors(&self) {
        let actors = std::mem::take(&mut *self.actors());
        for actor in actors.iter().rev() {
            let Ok(switch) = actor.switch() else { continue };
            if std::mem::replace(&mut *actor.standing(), Standing::Disabled) == Standing::Disabled {
                continue;
            }
            if let Err(failure) = switch.stop().await {
                tracing::warn!(module = actor.name(), %failure, "did not stop in order");
            }
        }
    }

    /// Performs one operation on a module actor.
    pub(crate) async fn change_actor(
        &self,
        actor: &KnownActor,
        change: &ModuleChange,
        started: Instant,
    ) -> Result<ModuleReport, HostError> {
        let wrong =
            |problem: &str| HostError::WrongState { name: actor.name().to_owned(), problem: problem.to_owned() };
        let (state, _) = actor.state();
        let (operation, new_state) = match change {
            ModuleChange::Enable if state == ModuleState::Enabled => return Err(wrong("is enabled already")),
            ModuleChange::Enable => (ModuleOperation::Enable, ModuleState::Enabled),
            ModuleChange::Disable => (ModuleOperation::Disable, ModuleState::Disabled),
            _ => return Err(wrong("is a part of the node: it can be enabled and disabled, and nothing else")),
        };
        let switch = actor.switch()?;
        let begun = Instant::now();
        if operation == ModuleOperation::Enable {
            if state == ModuleState::Failed {
                // Removes the remains of the failed one.
                let _ = switch.stop().await;
            }
            self.start_again(actor, switch).await?;
        } else {
            if state == ModuleState::Disabled {
                return Err(wrong("is disabled already"));
            }
            // Refuse requests first, so that none waits for a module that stops.
            self.bus.suspend(actor.module.answers, &actor.stopped());
            *actor.standing() = Standing::Disabled;
            if let Err(failure) = switch.stop().await {
                tracing::warn!(module = actor.name(), %failure, "did not stop in order");
            }
        }
        let drain_micros = if operation == ModuleOperation::Disable { micros(begun.elapsed()) } else { 0 };
        let dependants = self.dependants(actor);
        if !dependants.is_empty() {
            tracing::info!(
                module = actor.name(),
                operation = operation.name(),
                dependants = dependants.join(", "),
                "told"
            );
        }
        let report = self.report(actor.name(), operation, new_state, started);
        Ok(ModuleReport { drain_micros, dependants, is_draining: switch.is_draining(), ..report })
    }

    async fn start_again(&self, actor: &KnownActor, switch: &dyn ActorSwitch) -> Result<(), HostError> {
        match switch.start().await {
            Ok(()) => {
                *actor.standing() = Standing::Enabled;
                self.bus.resume(actor.module.answers);
                Ok(())
            }
            Err(failure) => {
                *actor.standing() = Standing::Failed(failure.message.clone());
                Err(HostError::Actor { name: actor.name().to_owned(), failure })
            }
        }
    }

    /// Enabled modules that may send requests to this one.
    fn dependants(&self, actor: &KnownActor) -> Vec<String> {
        let name = actor.name();
        let uses = |other: &KnownActor| other.state().0 == ModuleState::Enabled && other.module.uses.contains(&name);
        let known = self.known_actors();
        let actors = known.iter().filter(|other| uses(other)).map(|other| other.name().to_owned());
        // Actors that cannot be stopped are not announced.
        let can_stop = matches!(actor.module.control, ActorControl::Switch(_));
        let asked = schema_entries().iter().filter(|entry| can_stop && actor.module.answers.contains(&entry.topic));
        let capabilities: Vec<_> = asked.map(|entry| entry.capability).collect();
        let modules = self.modules();
        let may_ask = modules.by_name.iter().filter(|(_, module)| {
            module.running().is_some() && module.granted.iter().any(|granted| capabilities.contains(granted))
        });
        actors.chain(may_ask.map(|(name, _)| name.clone())).collect()
    }

    pub(crate) fn actor(&self, name: &str) -> Option<Arc<KnownActor>> {
        self.actors().iter().find(|actor| actor.name() == name).cloned()
    }

    /// All module actors, by name.
    pub(crate) fn list_actors(&self) -> Vec<ModuleInfo> {
        let mut actors = self.known_actors();
        actors.sort_by_key(|actor| actor.name());
        actors.iter().map(|actor| self.info_of_actor(actor)).collect()
    }

    /// Adds the names of the module actors to an error that lists the known modules.
    pub(crate) fn naming_parts(&self, error: HostError) -> HostError {
        let HostError::Unknown { name, known } = error else { return error };
        let mut parts: Vec<_> = self.known_actors().iter().map(|actor| actor.name().to_owned()).collect();
        parts.sort();
        let known = [vec![known], parts].concat().into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>();
        HostError::Unknown { name, known: known.join(", ") }
    }

    /// The module actor of this name, if there is one.
    pub(crate) fn actor_info(&self, name: &str) -> Option<ModuleInfo> {
        self.actor(name).map(|actor| self.info_of_actor(&actor))
    }

    fn info_of_actor(&self, actor: &KnownActor) -> ModuleInfo {
        let info = actor.info(self.dependants(actor), self.bus.panics(actor.module.answers));
        ModuleInfo { until: self.end_of(actor.name()), ..info }
    }

    pub(crate) fn known_actors(&self) -> Vec<Arc<KnownActor>> {
        self.actors().clone()
    }

    fn actors(&self) -> MutexGuard<'_, Vec<Arc<KnownActor>>> {
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
