//! What there is while devices are switched on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenon_accounts::AccountsError;
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

/// The hub with what runs beside it.
pub(crate) struct Running {
    pub(crate) hub: Hub,
    pub(crate) bus: Bus,
    pub(crate) discoveries: Discoveries,
    /// How long a request waits for its turn where its caller has no deadline: as long as another's prompt may take.
    prompt: Duration,
    stopped: watch::Sender<bool>,
    /// Where searches run: lists are asked for on any thread.
    runtime: Handle,
    /// Looks for devices. Nothing awaits under the lock.
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Running {
    /// Begins to look for devices, on the runtime that this is called on.
    pub(crate) fn start(hub: Hub, bus: Bus, prompt: Duration) -> Arc<Self> {
        let (stopped, _) = watch::channel(false);
        let (discoveries, task) = Default::default();
        let runtime = Handle::current();
        let running = Arc::new(Self { hub, bus, discoveries, prompt, stopped, runtime, task });
        // From before the first look.
        let events = running.hub.events();
        let task = running.runtime.spawn(Arc::clone(&running).follow(events));
        running.exchange(Some(task));
        running
    }

    /// Ends every request, and closes all wallets.
    pub(crate) async fn stop(&self) {
        self.stopped.send_replace(true);
        if let Some(task) = self.exchange(None) {
            task.abort();
            // An error says that it was aborted, which is what was wanted.
            let _ = task.await;
        }
        self.hub.close().await;
    }

    fn exchange(&self, task: Option<JoinHandle<()>>) -> Option<JoinHandle<()>> {
        std::mem::replace(&mut *self.task.lock().unwrap_or_else(PoisonError::into_inner), task)
    }

    /// Whether what looks for devices has fallen over.
    pub(crate) fn has_failed(&self) -> bool {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Requests of this caller.
    pub(crate) fn caller(&self, context: &CallContext) -> Caller {
        let deadline = context.deadline().map_or_else(|| Instant::now() + self.prompt, Instant::from_std);
        Caller { deadline, stopped: self.stopped.subscribe() }
    }

    async fn follow(self: Arc<Self>, events: broadcast::Receiver<HubEvent>) {
        tokio::join!(self.hub.follow(), self.tell(events));
    }

    async fn tell(self: &Arc<Self>, mut events: broadcast::Receiver<HubEvent>) {
        loop {
            match events.recv().await {
                Ok(HubEvent::Arrived { url }) => self.arrived(url),
                Ok(HubEvent::Departed { url }) => {
                    self.discoveries.forget(&url);
                    self.bus.publish(WalletChanged { change: WalletChange::Dropped, url });
                }
                Err(RecvError::Lagged(count)) => tracing::warn!(count, "arrivals of hardware wallets went by unseen"),
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
            let telling = running.tell_states(&url, handle.clone());
            // The reference opens each device by itself, so that one without protection needs no call (10.3).
            let person = EventPerson::boxed(&running.bus, &url);
            let opening = caller.wait(handle.open(None, person, caller.deadline));
            tokio::join!(async { log_opening(&url, opening.await) }, telling);
        });
    }

    /// Publishes when a wallet opens and closes, for as long as it is there, and looks for its accounts.
    async fn tell_states(self: &Arc<Self>, url: &str, handle: WalletHandle) {
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

    /// Looks for used accounts of an open wallet, beside everything else.
    pub(crate) fn discover(self: &Arc<Self>, url: &str, handle: &WalletHandle) {
        let Some(turn) = self.discoveries.turn(url) else { return };
        let caller = self.caller(&CallContext::new());
        let (running, url, handle) = (Arc::clone(self), url.to_owned(), handle.clone());
        self.runtime.spawn(async move {
            let searched = caller.wait(turn.search(&running, &url, &handle)).await;
            if let Err(error) = searched {
                tracing::debug!(url, %error, "accounts of a hardware wallet could not be looked for");
            }
        });
    }
}

/// Warns if a wallet derived an account that another one had first. Two devices may have the same seed; if not, one tells
/// an address that is not its own, and could never sign for it.
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

/// Says why a device that arrived is not open.
fn log_opening(url: &str, opened: Result<(), DeviceError>) {
    match opened {
        // A call was faster.
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

/// Who waits, and for how long.
pub(crate) struct Caller {
    /// After this a request is not begun any more.
    pub(crate) deadline: Instant,
    stopped: watch::Receiver<bool>,
}

impl Caller {
    /// Waits for work unless the devices are switched off first.
    pub(crate) async fn wait<T>(&self, work: impl Future<Output = Result<T, DeviceError>>) -> Result<T, DeviceError> {
        let mut stopped = self.stopped.clone();
        tokio::select! {
            biased;
            result = work => result,
            _ = stopped.wait_for(|is_stopped| *is_stopped) => Err(DeviceError::Closed),
        }
    }
}

/// An error of a device in the words that clients know.
pub(crate) fn failed(error: DeviceError) -> AccountsError {
    match error {
        DeviceError::UnknownAccount => AccountsError::UnknownAccount,
        DeviceError::UnknownWallet => AccountsError::UnknownWallet,
        error => AccountsError::Wallet(error.to_string()),
    }
}
