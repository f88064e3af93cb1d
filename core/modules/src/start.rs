//! Starts the plugins with the node: those in their own processes in parallel, within a common time limit.
//!
//! Invariants: no plugin, however slow, delays the start beyond [`ModuleOptions::start_time`], and none is started
//! before the plugins that it needs.
//!
//! [`ModuleOptions::start_time`]: crate::ModuleOptions::start_time

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, VecDeque},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tenon_api::messages::ModuleInfo;
use tenon_host::NoCallbacks;
use tenon_isolation::Isolation;
use tokio::runtime::Handle;

use crate::{
    ModuleError, ModuleRegister, PluginPlan,
    candidates::{Candidate, CheckedCandidate},
    end_times::now,
    plugin_module::{KnownPlugin, NeedsStatus, SpaceLack, State},
};

/// Maximum number of processes started at a time.
const MAX_AT_ONCE: usize = 16;

/// A plugin that is about to start.
struct Waiting<T> {
    plan: PluginPlan,
    stage: T,
}

/// The instant until which plugins may start.
#[derive(Clone, Copy)]
struct Deadline {
    end: Instant,
    whole: Duration,
}

impl Deadline {
    fn left(self, plan: &PluginPlan) -> Result<Duration, ModuleError> {
        match self.end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ModuleError::NoTimeLeft { name: plan.name.clone(), whole: self.whole }),
            left => Ok(left),
        }
    }
}

impl ModuleRegister {
    /// Starts the plugins in the settings, as changed by the operator's run-time choices, each after those that it
    /// needs. One that cannot be started is recorded as failed. Blocks.
    ///
    /// # Errors
    /// [`ModuleError`] of the first required plugin that cannot be started; [`ModuleError::Choices`] if the choices can't
    /// be read.
    pub fn start(&self, plans: &[PluginPlan]) -> Result<Vec<ModuleInfo>, ModuleError> {
        let _operation = self.operation.try_lock().map_err(|_| ModuleError::Busy)?;
        let whole = self.options.start_time;
        let deadline = Deadline { end: Instant::now() + whole, whole };
        let waiting = self.note_plans(plans)?;
        let waiting = self.open_all(waiting, deadline)?;
        self.start_in_order(waiting, deadline)?;
        // Copies that the previous process had mapped, or left incomplete when it was killed.
        let copies = self.modules.lock().copies();
        self.libraries.remove_unused(&copies);
        Ok(self.list())
    }

    /// Registers the modules; returns those to start, and whether their paths come from the settings.
    fn note_plans(&self, plans: &[PluginPlan]) -> Result<Vec<Waiting<bool>>, ModuleError> {
        let choices = self.read_choices()?;
        let (configured, chosen) = choices.apply(plans);
        *self.configured.lock() = plans.iter().map(|plan| (plan.name.clone(), plan.clone())).collect();
        let mut waiting = Vec::new();
        for mut plan in configured.into_iter().chain(chosen) {
            let wanted = plans.iter().find(|known| known.name == plan.name).map(|known| known.is_enabled);
            match choices.end_of(&plan.name, wanted).filter(|_| plan.is_enabled) {
                Some(end) if end <= now() => plan.is_enabled = false,
                end => self.set_end(&plan.name, end),
            }
            let is_path_configured = plans.iter().any(|known| known.path == plan.path);
            let mut state = State::Disabled;
            if plan.is_enabled && self.actor(&plan.name).is_some() {
                state = failed(&plan, ModuleError::name_of_actor(&plan.name))?;
            } else if plan.is_enabled {
                waiting.push(Waiting { plan: plan.clone(), stage: is_path_configured });
            }
            let name = plan.name.clone();
            let module = KnownPlugin { plan, is_path_configured, build: None, granted: Vec::new(), state };
            self.modules.lock().by_name.insert(name, module);
        }
        Ok(waiting)
    }

    /// Opens all libraries.
    fn open_all(
        &self,
        waiting: Vec<Waiting<bool>>,
        deadline: Deadline,
    ) -> Result<Vec<Waiting<Candidate>>, ModuleError> {
        let check = |plan: &PluginPlan, is_path_configured| {
            self.check_candidate(self.check_and_copy(plan, is_path_configured, &NoCallbacks)?, plan, false)
        };
        let checked = waiting.into_iter().map(|Waiting { plan, stage }| (check(&plan, stage), plan));
        let checked: Vec<(Result<CheckedCandidate, ModuleError>, PluginPlan)> = checked.collect();
        let is_process = |checked: &Result<CheckedCandidate, ModuleError>| {
            checked.as_ref().is_ok_and(|checked| checked.isolation == Isolation::Process)
        };
        let open = |(checked, plan): (Result<CheckedCandidate, ModuleError>, PluginPlan)| {
            let opened = checked.and_then(|checked| self.open_checked(checked, &plan, deadline.left(&plan)?));
            (plan, opened)
        };
        let mut opened = Vec::new();
        for (plan, outcome) in run_local_then_parallel(checked, |(checked, _)| is_process(checked), open) {
            match outcome {
                Ok(candidate) => {
                    self.modules.lock().get_mut(&plan.name)?.build = Some(candidate.build.clone());
                    opened.push(Waiting { plan, stage: candidate });
                }
                Err(error) => self.note_not_started(&plan, error)?,
            }
        }
        Ok(opened)
    }

    /// Starts each plugin once the plugins that it needs are enabled.
    fn start_in_order(&self, mut waiting: Vec<Waiting<Candidate>>, deadline: Deadline) -> Result<(), ModuleError> {
        while !waiting.is_empty() {
            let (ready, postponed) = self.next_wave(waiting);
            if ready.is_empty() {
                return self.note_unmet(postponed);
            }
            let is_process = |waiting: &Waiting<Candidate>| waiting.stage.build.isolation == Isolation::Process;
            let enable = |Waiting { plan, stage }: Waiting<Candidate>| {
                let outcome = deadline.left(&plan).and_then(|left| self.enable(&plan, stage, left));
                (plan, outcome)
            };
            for (plan, outcome) in run_local_then_parallel(ready, is_process, enable) {
                if let Err(error) = outcome {
                    self.note_not_started(&plan, error)?;
                }
            }
            waiting = postponed;
        }
        Ok(())
    }

    /// The plugins that can start now, in parallel: all that they need is enabled, and no two of them have the same
    /// namespace.
    fn next_wave(&self, waiting: Vec<Waiting<Candidate>>) -> (Vec<Waiting<Candidate>>, Vec<Waiting<Candidate>>) {
        let modules = self.modules.lock();
        let mut claimed = BTreeSet::new();
        waiting.into_iter().partition(|Waiting { plan, stage }| {
            let manifest = &stage.build.manifest;
            modules.check_needs(&plan.name, manifest).is_ok() && claimed.insert(manifest.namespace.clone())
        })
    }

    /// Records plugins whose needs are not met.
    fn note_unmet(&self, mut waiting: Vec<Waiting<Candidate>>) -> Result<(), ModuleError> {
        let status = |waiting: &Waiting<Candidate>| {
            self.modules.lock().needs_status(&waiting.plan.name, &waiting.stage.build.manifest)
        };
        let next_awaiting = |waiting: &[Waiting<Candidate>]| {
            waiting.iter().enumerate().find_map(|(place, each)| match status(each) {
                NeedsStatus::AwaitSpace { error, modules } => Some((place, error, modules)),
                NeedsStatus::Met | NeedsStatus::Unmet(_) => None,
            })
        };
        // First the modules that wait for space, one by one, because other modules may need them.
        while let Some((place, error, modules)) = next_awaiting(&waiting) {
            let plan = waiting.remove(place).plan;
            let failed = failed(&plan, error)?;
            self.modules.lock().get_mut(&plan.name)?.state = match failed {
                State::Failed(reason) => State::LacksSpace(SpaceLack::of_needs(&plan.name, &reason, &modules)),
                state => state,
            };
        }
        for each in waiting {
            if let NeedsStatus::Unmet(error) = status(&each) {
                self.note_not_started(&each.plan, error)?;
            }
        }
        Ok(())
    }

    fn note_not_started(&self, plan: &PluginPlan, error: ModuleError) -> Result<(), ModuleError> {
        let own_copy_did_not_fit = error.lacks_space();
        let state = match failed(plan, error)? {
            State::Failed(reason) if own_copy_did_not_fit => {
                let is_built_in = self.options.built_ins.has_name(&plan.name);
                State::LacksSpace(SpaceLack::of_own_copy(&plan.name, &reason, is_built_in))
            }
            state => state,
        };
        self.modules.lock().get_mut(&plan.name)?.state = state;
        Ok(())
    }
}

/// The state of a plugin that did not start, or the error if the plugin is required.
fn failed(plan: &PluginPlan, error: ModuleError) -> Result<State, ModuleError> {
    if plan.is_required {
        return Err(error);
    }
    tracing::error!(module = plan.name, %error, "module not started");
    Ok(State::Failed(error.to_string()))
}

/// Runs the work on all items: first sequentially on those that run in this process, then in parallel on the others.
/// The outcomes of each kind are in the order of the items.
fn run_local_then_parallel<T: Send, R: Send>(
    items: Vec<T>,
    is_other: impl Fn(&T) -> bool,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let (others, first): (Vec<T>, Vec<T>) = items.into_iter().partition(is_other);
    let mut outcomes: Vec<R> = first.into_iter().map(&work).collect();
    outcomes.extend(run_in_parallel(others, &work));
    outcomes
}

/// Runs the work on several items at a time, each on its own thread with this thread's runtime.
fn run_in_parallel<T: Send, R: Send>(items: Vec<T>, work: &(impl Fn(T) -> R + Sync)) -> Vec<R> {
    let helpers = items.len().min(MAX_AT_ONCE).saturating_sub(1);
    // Locked only to take an item or to store an outcome.
    let queue: Mutex<VecDeque<(usize, T)>> = Mutex::new(items.into_iter().enumerate().collect());
    let outcomes = Mutex::new(Vec::new());
    let runtime = Handle::try_current().ok();
    let run = || {
        let _runtime = runtime.as_ref().map(Handle::enter);
        loop {
            let next = queue.lock().pop_front();
            let Some((place, item)) = next else { return };
            let outcome = work(item);
            outcomes.lock().push((place, outcome));
        }
    };
    thread::scope(|scope| {
        for _ in 0..helpers {
            // If this thread cannot start, the others do its part.
            let _ = thread::Builder::new().name("modules".to_owned()).spawn_scoped(scope, run);
        }
        run();
    });
    let mut outcomes = outcomes.into_inner();
    outcomes.sort_by_key(|(place, _)| *place);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}
