//! Module actors: parts of the node that operators list, stop and start like plugins.
//!
//! The host knows them by name only; what starting and stopping one means is its own. What must always hold: a request
//! to a stopped one is answered at once, with an error that names it.

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

    /// Stops it, after it has finished what it had accepted.
    fn stop(&self) -> BoxFuture<'_, Result<(), Failure>>;

    /// Why it has fallen over for good, if it has.
    fn failure(&self) -> Option<String> {
        None
    }

    /// What went wrong in it.
    fn faults(&self) -> ModuleFaults {
        ModuleFaults::default()
    }

    /// Whether what it had accepted before it was stopped is still being finished.
    fn is_draining(&self) -> bool {
        false
    }
}

/// When a part of the node is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActorStage {
    /// Before the plugins, which may ask it.
    BeforePlugins,
    /// After them: it brings them requests.
    AfterPlugins,
}

/// Whether a part of the node can be stopped.
pub enum ActorControl {
    /// It can.
    Switch(Box<dyn ActorSwitch>),
    /// It cannot, for this reason: a sentence that begins with "it" and names what would break.
    Fixed(&'static str),
}

/// A part of the node, as it introduces itself.
pub struct ActorModule {
    /// The name that operations take; no plugin can have it.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Names of module actors that it makes use of. It is told when they stop, and goes on as well as it can.
    pub uses: &'static [&'static str],
    /// Requests that it answers: while it is stopped, their callers are told so. Panics of their handlers are its own.
    pub answers: &'static [Topic],
    /// When it is started.
    pub stage: ActorStage,
    /// Whether the settings want it started with the node.
    pub is_wanted: bool,
    /// Whether and how it is stopped.
    pub control: ActorControl,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    Enabled,
    Disabled,
    Failed(String),
}

/// A part of the node that the host knows.
pub(crate) struct KnownActor {
    module: ActorModule,
    /// Changed by operations only; nothing awaits under the lock.
    standing: Mutex<Standing>,
}

impl KnownActor {
    pub(crate) const fn name(&self) -> &'static str {
        self.module.name
    }

    /// Whether it should run, and whether the settings want it to.
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

    /// Where it stands, and why it has failed if it has.
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

    /// `panics` are those of the handlers of what it answers.
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

    /// What callers are told while it is stopped.
    fn stopped(&self) -> Failure {
        Failure::server(format!("module {} is stopped; it can be enabled again", self.name()))
    }
}

impl PluginHost {
    /// Makes a part of the node known. It is started by [`PluginHost::start_actors`], in the order of these calls; known
    /// are all of them before the plugins are, which can't take their names.
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

    /// Starts the parts of the node of one stage that can be stopped, except those that the settings or the operator do
    /// not want.
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

    /// Stops the parts of the node, the last that was started first.
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

    /// One step of a part of the node.
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
                // What is left of the one that fell over.
                let _ = switch.stop().await;
            }
            self.start_again(actor, switch).await?;
        } else {
            if state == ModuleState::Disabled {
                return Err(wrong("is disabled already"));
            }
            // Callers are refused first, so that no call waits for a module that stops.
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

    /// Enabled modules that may ask something of this one.
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

    /// All parts of the node, by name.
    pub(crate) fn list_actors(&self) -> Vec<ModuleInfo> {
        let mut actors = self.known_actors();
        actors.sort_by_key(|actor| actor.name());
        actors.iter().map(|actor| self.info_of_actor(actor)).collect()
    }

    /// An error that lists what can be named instead, with the parts of the node among it.
    pub(crate) fn naming_parts(&self, error: HostError) -> HostError {
        let HostError::Unknown { name, known } = error else { return error };
        let mut parts: Vec<_> = self.known_actors().iter().map(|actor| actor.name().to_owned()).collect();
        parts.sort();
        let known = [vec![known], parts].concat().into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>();
        HostError::Unknown { name, known: known.join(", ") }
    }

    /// One part of the node, if the name is one's.
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
