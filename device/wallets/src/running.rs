//! The state that exists while devices are started.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenon_api::Address;
use tenon_api::messages::{WalletChange, WalletChanged};
use tenon_bus::{Bus, CallContext};
use tenon_device_session::{DeviceError, Hub, HubEvent, OpenState, WalletHandle};
use tokio::runtime::Handle;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::discovery::Discoveries;
use crate::person::EventPerson;

/// The hub and its tasks.
pub(crate) struct Running {
    pub(crate) hub: Hub,
    pub(crate) bus: Bus,
    pub(crate) discoveries: Discoveries,
    /// Time for which a request without deadline waits for its turn: as long as another request's prompt may take.
    prompt: Duration,
    stopped: watch::Sender<bool>,
    /// Runtime for searches, which are started by listings on any thread.
    runtime: Handle,
    /// The task that looks for devices. Not locked across an await.
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Running {
    /// Starts looking for devices, on the current runtime.
    pub(crate) fn start(hub: Hub, bus: Bus, prompt: Duration) -> Arc<Self> {
        let (stopped, _) = watch::channel(false);
        let (discoveries, task) = Default::default();
        let runtime = Handle::current();
        let running = Arc::new(Self { hub, bus, discoveries, prompt, stopped, runtime, task });
        // Subscribes before the first listing, so that no event is missed.
        let events = running.hub.events();
        let task = running.runtime.spawn(Arc::clone(&running).follow(events));
        running.exchange(Some(task));
        running
    }

    /// Cancels all requests and closes all wallets.
    pub(crate) async fn stop(&self) {
        self.stopped.send_replace(true);
        if let Some(task) = self.exchange(None) {
            task.abort();
            // The error only reports the abort.
            let _ = task.await;
        }
        self.hub.close().await;
    }

    fn exchange(&self, task: Option<JoinHandle<()>>) -> Option<JoinHandle<()>> {
        std::mem::replace(&mut *self.task.lock(), task)
    }

    /// Whether the task that looks for devices has ended.
    pub(crate) fn has_failed(&self) -> bool {
        self.task.lock().as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// The deadline and stop signal for requests of this caller.
    pub(crate) fn caller(&self, context: &CallContext) -> Caller {
        let deadline = context.deadline().map_or_else(|| Instant::now() + self.prompt, Instant::from_std);
        Caller { deadline, stopped: self.stopped.subscribe() }
    }

    async fn follow(self: Arc<Self>, events: broadcast::Receiver<HubEvent>) {
        tokio::join!(self.hub.follow(), self.publish_events(events));
    }

    async fn publish_events(self: &Arc<Self>, mut events: broadcast::Receiver<HubEvent>) {
        loop {
            match events.recv().await {
                Ok(HubEvent::Arrived { url }) => self.arrived(url),
                Ok(HubEvent::Departed { url }) => {
                    self.discoveries.forget(&url);
                    self.bus.publish(WalletChanged { change: WalletChange::Dropped, url });
                }
                Err(RecvError::Lagged(count)) => tracing::warn!(count, "missed events of hardware wallets"),
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn arrived(self: &Arc<Self>, url: String) {
        let Some(handle) = self.hub.wallet(&url) else { return };
        self.bus.publish(WalletChanged { change: WalletChange::Arrived, url: url.clone() });
        let running = Arc::clone(self);
        self.runtime.spawn(async move {
            let caller = running.caller(&CallContext::new());
            let telling = running.publish_states(&url, handle.clone());
            // Like the reference, opens each device on arrival, so that an unprotected one needs no call (10.3).
            let person = EventPerson::boxed(&running.bus, &url);
            let opening = caller.wait(handle.open(None, person, caller.deadline));
            tokio::join!(async { log_opening(&url, opening.await) }, telling);
        });
    }

    /// Publishes when a wallet opens and closes, and discovers its accounts, until the wallet is gone.
    async fn publish_states(self: &Arc<Self>, url: &str, handle: WalletHandle) {
        let caller = self.caller(&CallContext::new());
        let mut status = handle.watch_status();
        let mut was_open = false;
        loop {
            let is_open = status.borrow_and_update().state == OpenState::Open;
            match (was_open, is_open) {
                (false, true) => {
                    tracing::info!(url, "a hardware wallet is open");
                    self.bus.publish(WalletChanged { change: WalletChange::Opened, url: url.to_owned() });
                    self.discoveries.forget(url);
                    self.discover(url, &handle);
                }
                (true, false) => {
                    self.bus.publish(WalletChanged { change: WalletChange::Locked, url: url.to_owned() });
                }
                _ => {}
            }
            was_open = is_open;
            let changed = async { status.changed().await.map_err(|_| DeviceError::SessionFailed) };
            if caller.wait(changed).await.is_err() {
                return;
            }
        }
    }

    /// Discovers used accounts of an open wallet in the background.
    pub(crate) fn discover(self: &Arc<Self>, url: &str, handle: &WalletHandle) {
        let Some(permit) = self.discoveries.begin_search(url) else { return };
        let caller = self.caller(&CallContext::new());
        let (running, url, handle) = (Arc::clone(self), url.to_owned(), handle.clone());
        self.runtime.spawn(async move {
            let searched = caller.wait(permit.search(&running, &url, &handle)).await;
            if let Err(error) = searched {
                tracing::debug!(url, %error, "could not search for accounts of a hardware wallet");
            }
        });
    }
}

/// Warns if a wallet derived an account that another wallet had first. Two devices may have the same seed; if not, one
/// of them reports an address that is not its own and could never sign for it.
pub(crate) fn warn_of_second(hub: &Hub, url: &str, account: Address) {
    if let Some((first, _)) = hub.with_account(account).into_iter().next().filter(|(first, _)| first != url) {
        tracing::warn!(
            %account,
            first,
            second = url,
            "two hardware wallets have the same account; the first one signs for it while it is connected"
        );
    }
}

/// Logs why a device is not open after its arrival.
fn log_opening(url: &str, opened: Result<(), DeviceError>) {
    match opened {
        // A call opened it first.
        Ok(()) | Err(DeviceError::AlreadyOpen) => {}
        Err(error @ (DeviceError::PinNeeded | DeviceError::PassphraseNeeded)) => {
            tracing::info!(
                url,
                "New wallet appeared, {error}: open it with `personal_openWallet`, or `tenon signer open` at a signing service"
            );
        }
        Err(error) => tracing::warn!(url, %error, "New wallet appeared, failed to open"),
    }
}

/// Deadline and stop signal of a request.
pub(crate) struct Caller {
    /// A request that has not started at this time fails.
    pub(crate) deadline: Instant,
    stopped: watch::Receiver<bool>,
}

impl Caller {
    /// Waits for `work` unless the devices are stopped first.
    pub(crate) async fn wait<T>(&self, work: impl Future<Output = Result<T, DeviceError>>) -> Result<T, DeviceError> {
        let mut stopped = self.stopped.clone();
        tokio::select! {
            biased;
            result = work => result,
            _ = stopped.wait_for(|is_stopped| *is_stopped) => Err(DeviceError::Closed),
        }
    }
}
