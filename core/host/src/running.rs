//! A started plugin and the calls and subscriptions in flight in it.

use std::{
    future::Future,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tenon_api::messages::{ModuleFaults, ModuleLimits};
use tenon_bus::FairQueue;
use tenon_sdk::Failure;
use tokio::{
    runtime::Handle,
    sync::watch,
    task::AbortHandle,
    time::{Instant, timeout_at},
};

use crate::{
    Manifest,
    calls::MethodCalls,
    faults::{Fault, Faults},
    gate::{Entry, Gate, Kind},
    plugin_interface::PluginInstance,
    stream::Slot,
};

/// Polling interval for a plugin whose last call has just ended, before it is stopped.
const STOP_POLL: Duration = Duration::from_millis(1);
/// Time limit for the last reference to a drained instance to be dropped.
pub const LAST_REFERENCE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for cancelled calls to end. Only code that neither answers nor yields takes longer.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(500);

/// The pause before a plugin's background work restarts after its first error.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Maximum pause.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// A started plugin. Every caller holds an `Arc` of it; it is stopped when the last one is dropped.
pub struct RunningPlugin {
    /// Its name in the host, which may differ from the one in its manifest.
    pub name: String,
    /// Its manifest.
    pub manifest: Manifest,
    /// Its code.
    pub instance: Box<dyn PluginInstance>,
    /// Call counters of its methods, in their order.
    pub(crate) calls: Box<[Arc<MethodCalls>]>,
    /// Counts its calls and streams, and refuses or delays new ones.
    pub gate: Gate,
    /// The queue of its slow calls, created by the first of them.
    pub(crate) slow: OnceLock<FairQueue>,
    /// Its fault counts.
    pub(crate) faults: Faults,
    /// The limits that apply to it.
    pub limits: ModuleLimits,
    /// Protections of the node that are not in force.
    pub warnings: Vec<String>,
    /// Set to the reason once running calls must end.
    cancelled: watch::Sender<Option<Failure>>,
    /// Its subscriptions, some of which may have ended. Locked when one opens and by the life cycle; nothing awaits
    /// under the lock.
    slots: Mutex<Vec<Weak<Slot>>>,
    /// The task that polls the plugin's background work, if it has any.
    background: Mutex<Option<AbortHandle>>,
}

/// Result of draining a plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Calls that were cancelled at the end of the grace period.
    pub cancelled: u64,
    /// Calls that did not end after they were cancelled. The plugin is stopped once they have ended.
    pub abandoned: u64,
}

impl RunningPlugin {
    pub(crate) fn new(
        name: String,
        manifest: Manifest,
        instance: Box<dyn PluginInstance>,
        places: Box<[Arc<MethodCalls>]>,
        limits: ModuleLimits,
        mut warnings: Vec<String>,
    ) -> Self {
        warnings.extend(instance.warnings());
        let calls = limits.calls.and_then(|calls| u32::try_from(calls).ok());
        Self {
            name,
            manifest,
            instance,
            calls: places,
            gate: Gate::for_calls(calls),
            slow: OnceLock::new(),
            faults: Faults::default(),
            limits,
            warnings,
            cancelled: watch::Sender::new(None),
            slots: Mutex::default(),
            background: Mutex::default(),
        }
    }

    /// Waits for `work` in this plugin. Returns an error if the plugin's running calls are cancelled before it is done.
    pub(crate) async fn unless_cancelled<T>(&self, work: impl Future<Output = T>) -> Result<T, Failure> {
        let mut cancelled = self.cancelled.subscribe();
        let reason = async move {
            // An error would mean that the sender is gone, but it is owned here.
            let reason = cancelled.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
            reason.unwrap_or_else(|| Failure::server("call cancelled"))
        };
        tokio::select! {
            biased;
            answer = work => Ok(answer),
            reason = reason => Err(reason),
        }
    }

    /// The error for a call beyond the limit.
    pub(crate) fn refuse(&self) -> Failure {
        self.faults.note_refused();
        let max = self.limits.calls.unwrap_or_default();
        Failure::limit(format!("plugin {} has the maximum number of calls ({max}); try again later", self.name))
    }

    /// Counts the failure of a call if it is the plugin's fault. Logs the first, second, fourth, eighth and so on call
    /// that timed out: nothing else records them.
    pub(crate) fn note_failure(&self, method: u32, failure: &Failure) {
        if self.faults.note(failure) != Fault::TimedOut {
            return;
        }
        let count = self.faults.timed_out();
        if count.is_power_of_two() {
            let method = self.manifest.methods.get(method as usize).map(|method| method.name.as_str());
            tracing::warn!(plugin = self.name, method, count, "calls were not answered in time");
        }
    }

    /// Its fault counts.
    pub fn faults(&self) -> ModuleFaults {
        ModuleFaults {
            failed_calls: self.faults.failed(),
            panics: self.faults.panics(),
            refused_calls: self.faults.refused(),
            ..self.instance.faults()
        }
    }

    /// Registers a subscription.
    pub fn add_slot(&self, slot: &Arc<Slot>) {
        let mut slots = self.slots.lock();
        if slots.len() == slots.capacity() {
            slots.retain(|slot| slot.strong_count() > 0);
        }
        slots.push(Arc::downgrade(slot));
    }

    /// The open subscriptions.
    pub fn open_slots(&self) -> Vec<Arc<Slot>> {
        let slots = self.slots.lock();
        slots.iter().filter_map(Weak::upgrade).filter(|slot| slot.is_open()).collect()
    }

    /// Starts polling the plugin's background work. Its task holds an `Arc` of it until [`RunningPlugin::end_background`].
    pub fn begin_background(self: &Arc<Self>) {
        if !self.manifest.has_background {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            tracing::warn!(plugin = self.name, "no async runtime: the plugin's background work does not run");
            return;
        };
        let task = runtime.spawn(work_in_background(Arc::clone(self)));
        *self.background.lock() = Some(task.abort_handle());
    }

    /// Stops the plugin's background work at its next wait.
    pub fn end_background(&self) {
        if let Some(task) = self.background.lock().take() {
            task.abort();
        }
    }

    /// Refuses new calls, and closes the subscriptions with a notice. Returns the number of closed subscriptions.
    pub fn close(&self, notice: &str) -> u64 {
        self.end_background();
        self.gate.close();
        let slots = self.open_slots();
        for slot in &slots {
            slot.close(Failure::server(format!("subscription closed: {notice}")));
        }
        slots.len() as u64
    }

    /// Waits until all calls and streams have ended; after the grace period, cancels the rest with `reason`.
    pub async fn drain(&self, deadline: Instant, reason: &str) -> Drained {
        let mut outcome = Drained::default();
        if timeout_at(deadline, self.gate.drained()).await.is_ok() {
            return outcome;
        }
        outcome.cancelled = self.gate.calls();
        self.cancelled.send_replace(Some(Failure::server(format!("call cancelled: {reason}"))));
        if timeout_at(Instant::now() + CANCEL_TIMEOUT, self.gate.drained()).await.is_err() {
            outcome.abandoned = self.gate.calls() + self.gate.streams();
        }
        outcome
    }

    /// Stops a closed plugin once no other reference to it is left. Returns false if there still is one at the deadline;
    /// then dropping the last one stops it.
    pub async fn stop(self: Arc<Self>, deadline: Instant) -> bool {
        let mut plugin = self;
        loop {
            // A look-up that was just refused entry may still hold a reference briefly.
            match Arc::try_unwrap(plugin) {
                Ok(last) => {
                    // The plugin's own code runs, and may block.
                    let _ = tokio::task::spawn_blocking(move || drop(last)).await;
                    return true;
                }
                Err(_) if Instant::now() >= deadline => return false,
                Err(shared) => plugin = shared,
            }
            tokio::time::sleep(STOP_POLL).await;
        }
    }
}

/// Runs a plugin's background work until it reports that there is no more. Restarts it after an error, with a pause
/// that grows with successive errors.
async fn work_in_background(running: Arc<RunningPlugin>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let begun = Instant::now();
        let Err(failure) = running.instance.background().await else { return };
        running.faults.note(&failure);
        if begun.elapsed() > MAX_PAUSE {
            pause = FIRST_PAUSE;
        }
        tracing::warn!(plugin = running.name, %failure, ?pause, "the plugin's background work failed and will be \
            restarted");
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(MAX_PAUSE);
    }
}

/// One call or stream in flight. On drop it leaves the gate before it drops its reference.
pub(crate) struct Ticket {
    pub(crate) plugin: Arc<RunningPlugin>,
    kind: Kind,
}

impl Ticket {
    pub(crate) fn take(plugin: &Arc<RunningPlugin>, kind: Kind) -> Result<Self, Entry> {
        match plugin.gate.enter(kind) {
            Entry::Inside => Ok(Self { plugin: Arc::clone(plugin), kind }),
            refused => Err(refused),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.plugin.gate.leave(self.kind);
    }
}
