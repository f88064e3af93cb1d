//! Starts, stops and lists module actors.
//!
//! Invariant: a request to a stopped module fails at once, with an error that names the module.

use std::sync::Arc;

use parking_lot::Mutex;
use tenon_api::{
    messages::{ModuleChange, ModuleInfo, ModuleOperation, ModuleReport, ModuleState},
    schema_entries,
};
use tokio::time::Instant;

use crate::{
    ModuleError, ModuleRegister,
    actor::{ActorControl, ActorModule, ActorStage, ActorSwitch, KnownActor, SwitchState},
    end_times::now,
    reports::micros,
};

impl ModuleRegister {
    /// Registers a module actor. [`ModuleRegister::start_actors`] starts them in the order of registration. All are
    /// registered before the plugins, which therefore can't take their names.
    ///
    /// # Errors
    /// [`ModuleError::WrongState`] when the name is taken.
    pub fn add_actor(&self, module: ActorModule) -> Result<(), ModuleError> {
        if self.actor(module.name).is_some() || self.modules.lock().by_name.contains_key(module.name) {
            let problem = "already exists".to_owned();
            return Err(ModuleError::WrongState { name: module.name.to_owned(), problem });
        }
        let switch_state = match module.control {
            ActorControl::Switch(_) => SwitchState::Disabled,
            ActorControl::Fixed(_) => SwitchState::Enabled,
        };
        self.actors.lock().push(Arc::new(KnownActor { module, switch_state: Mutex::new(switch_state) }));
        Ok(())
    }

    /// Starts the stoppable module actors of one stage, except those that the settings or the operator disabled.
    ///
    /// # Errors
    /// [`ModuleError::Actor`] of the first one that does not start; [`ModuleError::Choices`] when the choices can't be read.
    pub async fn start_actors(&self, stage: ActorStage) -> Result<(), ModuleError> {
        let choices = self.read_choices()?;
        for actor in self.known_actors().into_iter().filter(|actor| actor.module.stage == stage) {
            let Ok(switch) = actor.switch() else { continue };
            let is_wanted = choices.wants(actor.name(), actor.module.is_wanted);
            let end = choices.end_of(actor.name(), Some(actor.module.is_wanted)).filter(|_| is_wanted);
            if !is_wanted || end.is_some_and(|end| end <= now()) {
                self.bus.suspend(actor.module.answers, actor.name());
                if actor.module.is_wanted {
                    tracing::warn!(
                        module = actor.name(),
                        "not started: it was disabled; `tenon module enable` starts it"
                    );
                }
                continue;
            }
            self.set_end(actor.name(), end);
            switch.start().await.map_err(|error| ModuleError::Actor { name: actor.name().to_owned(), error })?;
            *actor.switch_state.lock() = SwitchState::Enabled;
        }
        Ok(())
    }

    /// Stops the module actors in reverse order of their start.
    pub(crate) async fn stop_actors(&self) {
        let actors = std::mem::take(&mut *self.actors.lock());
        for actor in actors.iter().rev() {
            let Ok(switch) = actor.switch() else { continue };
            if std::mem::replace(&mut *actor.switch_state.lock(), SwitchState::Disabled) == SwitchState::Disabled {
                continue;
            }
            if let Err(error) = switch.stop().await {
                tracing::warn!(module = actor.name(), %error, "did not stop cleanly");
            }
        }
    }

    /// Performs one operation on a module actor.
    pub(crate) async fn change_actor(
        &self,
        actor: &KnownActor,
        change: &ModuleChange,
        started: Instant,
    ) -> Result<ModuleReport, ModuleError> {
        let wrong =
            |problem: &str| ModuleError::WrongState { name: actor.name().to_owned(), problem: problem.to_owned() };
        let (state, _) = actor.state();
        let (operation, new_state) = match change {
            ModuleChange::Enable if state == ModuleState::Enabled => return Err(wrong("is enabled already")),
            ModuleChange::Enable => (ModuleOperation::Enable, ModuleState::Enabled),
            ModuleChange::Disable => (ModuleOperation::Disable, ModuleState::Disabled),
            _ => return Err(wrong("is a part of the node, which cannot be loaded, replaced or unloaded")),
        };
        let switch = actor.switch()?;
        let begun = Instant::now();
        if operation == ModuleOperation::Enable {
            if state == ModuleState::Failed {
                // Removes what is left of the failed actor.
                let _ = switch.stop().await;
            }
            self.start_again(actor, switch).await?;
        } else {
            if state == ModuleState::Disabled {
                return Err(wrong("is disabled already"));
            }
            // Refuse requests first, so that none waits for a module that stops.
            self.bus.suspend(actor.module.answers, actor.name());
            *actor.switch_state.lock() = SwitchState::Disabled;
            if let Err(error) = switch.stop().await {
                tracing::warn!(module = actor.name(), %error, "did not stop cleanly");
            }
        }
        let drain_micros = if operation == ModuleOperation::Disable { micros(begun.elapsed()) } else { 0 };
        let dependants = self.dependants(actor);
        if !dependants.is_empty() {
            tracing::info!(
                module = actor.name(),
                operation = operation.name(),
                dependants = dependants.join(", "),
                "this operation affects enabled modules that depend on the module"
            );
        }
        let report = self.report(actor.name(), operation, new_state, started);
        Ok(ModuleReport { drain_micros, dependants, is_draining: switch.is_draining(), ..report })
    }

    async fn start_again(&self, actor: &KnownActor, switch: &dyn ActorSwitch) -> Result<(), ModuleError> {
        match switch.start().await {
            Ok(()) => {
                *actor.switch_state.lock() = SwitchState::Enabled;
                self.bus.resume(actor.module.answers);
                Ok(())
            }
            Err(error) => {
                *actor.switch_state.lock() = SwitchState::Failed(error.to_string());
                Err(ModuleError::Actor { name: actor.name().to_owned(), error })
            }
        }
    }

    /// Enabled modules that use this one: parts of the node that name it, and plugins that may send requests to it.
    fn dependants(&self, actor: &KnownActor) -> Vec<String> {
        let name = actor.name();
        let uses = |other: &KnownActor| other.state().0 == ModuleState::Enabled && other.module.uses.contains(&name);
        let known = self.known_actors();
        let actors = known.iter().filter(|other| uses(other)).map(|other| other.name().to_owned());
        let asked = schema_entries().iter().filter(|entry| actor.module.answers.contains(&entry.topic));
        let capabilities: Vec<_> = asked.map(|entry| entry.capability).collect();
        let modules = self.modules.lock();
        let may_ask = modules.by_name.iter().filter(|(_, module)| {
            module.running().is_some() && module.granted.iter().any(|granted| capabilities.contains(granted))
        });
        actors.chain(may_ask.map(|(name, _)| name.clone())).collect()
    }

    /// All module actors, by name.
    pub(crate) fn list_actors(&self) -> Vec<ModuleInfo> {
        let mut actors = self.known_actors();
        actors.sort_by_key(|actor| actor.name());
        actors.iter().map(|actor| self.info_of_actor(actor)).collect()
    }

    /// Adds the names of the module actors to an error that lists the known modules, unless they are in it.
    pub(crate) fn with_actor_names(&self, error: ModuleError) -> ModuleError {
        let ModuleError::Unknown { name, known } = error else { return error };
        let actors = self.known_actors();
        let mut missing: Vec<_> = actors.iter().map(|actor| actor.name()).collect();
        missing.retain(|actor| !known.split(", ").any(|known| known == *actor));
        missing.sort_unstable();
        let all = std::iter::once(&*known).chain(missing).filter(|name| !name.is_empty());
        ModuleError::Unknown { known: all.collect::<Vec<_>>().join(", "), name }
    }

    /// The module actor of this name, if there is one.
    pub(crate) fn actor_info(&self, name: &str) -> Option<ModuleInfo> {
        self.actor(name).map(|actor| self.info_of_actor(&actor))
    }

    fn info_of_actor(&self, actor: &KnownActor) -> ModuleInfo {
        let info = actor.info(self.dependants(actor), self.bus.panics(actor.module.answers));
        ModuleInfo { until: self.end_of(actor.name()), ..info }
    }
}
