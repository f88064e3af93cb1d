//! The devices that are connected, each with its wallet: arrivals and departures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::Address;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tenon_device_transport::{Change, Connected, Found, Transport};
use tenon_supervisor::{ActorOptions, Supervisor};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::{Timeouts, Wallet, WalletActor, WalletHandle, WalletStatus};

/// In front of a device's path in the URL of its wallet.
const URL_SCHEME: &str = "trezor://";

/// The names of the wallets' actors. There are as many wallets at most; further devices wait until one departs.
const ACTORS: [&str; 8] =
    ["device 1", "device 2", "device 3", "device 4", "device 5", "device 6", "device 7", "device 8"];

/// Requests that may wait for one device. Each waits for a person, so that more would not be served in time.
const WAITING_REQUESTS: usize = 64;

/// How often the hub looks for devices.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long one device has to answer that it is there.
const BEAT_LIMIT: Duration = Duration::from_secs(5);

/// How long the actor of a device that departed has to end. Its link has failed by then.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// Events that a slow listener may fall behind.
const WAITING_EVENTS: usize = 64;

/// A device came or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HubEvent {
    /// It is connected, and its wallet is closed.
    Arrived {
        /// The wallet's URL.
        url: String,
    },
    /// It is gone, and its wallet with it.
    Departed {
        /// The wallet's URL.
        url: String,
    },
}

struct Entry {
    actor: &'static str,
    handle: WalletHandle,
}

/// The connected devices. It looks for them while [`Hub::follow`] is polled.
pub struct Hub {
    transports: Vec<Arc<dyn Transport>>,
    /// None once the hub is closed. Locked to read or change it; nothing awaits under it.
    supervisor: Mutex<Option<Arc<Supervisor>>>,
    runtime: Handle,
    timeouts: Timeouts,
    /// By URL. Locked to read or change the list; nothing awaits under it.
    entries: Mutex<BTreeMap<String, Entry>>,
    /// Held during a look, so that there is one at a time.
    connected: tokio::sync::Mutex<Connected>,
    events: broadcast::Sender<HubEvent>,
}

impl Hub {
    /// A hub over these transports. The wallets' actors live under `supervisor`, their exchanges run on `runtime`.
    pub fn new(
        transports: Vec<Arc<dyn Transport>>,
        supervisor: Arc<Supervisor>,
        runtime: Handle,
        timeouts: Timeouts,
    ) -> Self {
        let (entries, connected) = (Mutex::default(), tokio::sync::Mutex::default());
        let (events, _) = broadcast::channel(WAITING_EVENTS);
        let supervisor = Mutex::new(Some(supervisor));
        Self { transports, supervisor, runtime, timeouts, entries, connected, events }
    }

    /// The wallets by URL. Waits for nothing.
    pub fn wallets(&self) -> Vec<(String, WalletHandle)> {
        self.lock().iter().map(|(url, entry)| (url.clone(), entry.handle.clone())).collect()
    }

    /// The wallet with this URL.
    pub fn wallet(&self, url: &str) -> Option<WalletHandle> {
        self.lock().get(url).map(|entry| entry.handle.clone())
    }

    /// The wallets that have an account, with their URLs: in front the one that had it first.
    pub fn with_account(&self, address: Address) -> Vec<(String, WalletHandle)> {
        let since = |(url, handle): (String, WalletHandle)| Some((handle.account_since(address)?, url, handle));
        let mut found: Vec<_> = self.wallets().into_iter().filter_map(since).collect();
        found.sort_by_key(|(since, ..)| *since);
        found.into_iter().map(|(_, url, handle)| (url, handle)).collect()
    }

    /// Arrivals and departures from now on.
    pub fn events(&self) -> broadcast::Receiver<HubEvent> {
        self.events.subscribe()
    }

    /// Looks for devices twice a second, and asks open wallets that are idle whether theirs is still there. Never ends.
    pub async fn follow(&self) {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A device that is slow to answer holds up neither the next look nor the other devices.
        let (mut asking, mut asked) = (FuturesUnordered::new(), BTreeSet::new());
        loop {
            tokio::select! {
                _ = looks.tick() => {
                    self.look().await;
                    for (url, handle) in self.wallets() {
                        if handle.is_open() && !handle.is_busy() && asked.insert(url.clone()) {
                            asking.push(beat(url, handle));
                        }
                    }
                }
                Some(url) = asking.next() => {
                    asked.remove(&url);
                }
            }
        }
    }

    /// Looks for devices once. One whose request runs is left as it is: it may have no time to say that it is there.
    pub async fn look(&self) {
        let mut connected = self.connected.lock().await;
        let mut busy = self.busy();
        let listed = join_all(self.transports.iter().map(|transport| transport.list())).await;
        // A request may have begun meanwhile.
        busy.extend(self.busy());
        let mut now = Vec::new();
        for (transport, listed) in self.transports.iter().zip(listed) {
            match listed {
                Ok(found) => now.extend(found),
                Err(error) => {
                    tracing::debug!(transport = transport.name(), %error, "devices can't be listed");
                    // Nothing is known of these: they stay as they were.
                    now.extend(connected.devices().filter(|known| known.transport == transport.name()).cloned());
                }
            }
        }
        now.retain(|found| !busy.contains(&url(found)));
        now.extend(connected.devices().filter(|known| busy.contains(&url(known))).cloned());
        for change in connected.update(now) {
            match change {
                Change::Departed(found) => self.depart(&found).await,
                Change::Arrived(found) if found.is_bootloader => {
                    tracing::warn!(path = found.path, "a hardware wallet is in bootloader mode and can't be used");
                }
                Change::Arrived(_) => {}
            }
        }
        // Among them those for which there was no place before.
        for found in connected.devices().filter(|found| !found.is_bootloader) {
            if self.wallet(&url(found)).is_none() {
                self.arrive(found.clone());
            }
        }
    }

    /// Has every wallet closed and its actor ended, as if all devices departed. None arrives any more.
    pub async fn close(&self) {
        let mut connected = self.connected.lock().await;
        for change in connected.update(Vec::new()) {
            if let Change::Departed(found) = change {
                self.depart(&found).await;
            }
        }
        drop(self.supervisor.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn supervisor(&self) -> Option<Arc<Supervisor>> {
        self.supervisor.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn arrive(&self, found: Found) {
        let mut entries = self.lock();
        let is_free = |name: &&&str| !entries.values().any(|entry| entry.actor == **name);
        let Some(actor) = ACTORS.iter().find(is_free).copied() else {
            tracing::debug!(path = found.path, "a hardware wallet waits for another one to be disconnected");
            return;
        };
        let Some(transport) = self.transports.iter().find(|each| each.name() == found.transport).cloned() else {
            return;
        };
        let Some(supervisor) = self.supervisor() else { return };
        let (send, status) = watch::channel(WalletStatus::default());
        let (path, timeouts, runtime) = (found.path.clone(), self.timeouts, self.runtime.clone());
        let make = move || {
            let wallet = Wallet::new(transport.clone(), path.clone(), timeouts, send.clone());
            Ok(WalletActor::new(wallet, runtime.clone()))
        };
        let options = ActorOptions { mailbox_capacity: WAITING_REQUESTS, ..ActorOptions::default() };
        match supervisor.spawn(actor, options, make) {
            Ok(mailbox) => {
                let url = url(&found);
                entries.insert(url.clone(), Entry { actor, handle: WalletHandle::new(mailbox, status) });
                drop(entries);
                // Nobody listens otherwise.
                let _ = self.events.send(HubEvent::Arrived { url });
            }
            Err(error) => tracing::error!(path = found.path, %error, "a hardware wallet can't be used"),
        }
    }

    async fn depart(&self, found: &Found) {
        let url = url(found);
        let Some(entry) = self.lock().remove(&url) else { return };
        let Some(supervisor) = self.supervisor() else { return };
        if !supervisor.stop_one(entry.actor, STOP_GRACE).await {
            tracing::warn!(url, "the session with a hardware wallet that is gone still runs");
        }
        // Nobody listens otherwise.
        let _ = self.events.send(HubEvent::Departed { url });
    }

    /// URLs of the wallets of which a request runs.
    fn busy(&self) -> BTreeSet<String> {
        self.lock().iter().filter(|(_, entry)| entry.handle.is_busy()).map(|(url, _)| url.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks a wallet whether its device is still there; gives its URL. What it found out stands in the wallet's status.
/// Dropped, the question is cancelled.
fn beat(url: String, handle: WalletHandle) -> BoxFuture<'static, String> {
    Box::pin(async move {
        let _ = timeout(BEAT_LIMIT, handle.heartbeat(Instant::now() + LOOK_EVERY)).await;
        url
    })
}

fn url(found: &Found) -> String {
    format!("{URL_SCHEME}{}", found.path)
}
