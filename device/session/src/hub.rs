//! The connected devices, each with its wallet, and their arrival and departure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::Address;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use parking_lot::Mutex;
use tenon_device_transport::{Change, Connected, Found, Transport};
use tenon_supervisor::{ActorOptions, Supervisor};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::{Timeouts, Wallet, WalletActor, WalletHandle, WalletStatus};

/// Precedes a device's path in the URL of its wallet.
const URL_SCHEME: &str = "trezor://";

/// Names of the wallets' actors in the supervisor. Their number limits the number of wallets: further devices have no wallet until one
/// departs.
pub const ACTORS: [&str; 8] =
    ["device 1", "device 2", "device 3", "device 4", "device 5", "device 6", "device 7", "device 8"];

/// Maximum number of requests that wait for one device. Each one waits for a person, so more could not be served in
/// time.
const WAITING_REQUESTS: usize = 64;

/// Interval at which the hub lists devices.
const LIST_INTERVAL: Duration = Duration::from_millis(500);

/// Time limit for a device's response to a heartbeat.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for the actor of a departed device to end. Its link has already failed.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// Number of events by which a slow subscriber may lag.
const WAITING_EVENTS: usize = 64;

/// A device arrived or departed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HubEvent {
    /// The device is connected, and its wallet is closed.
    Arrived {
        /// The wallet's URL.
        url: String,
    },
    /// The device is gone, together with its wallet.
    Departed {
        /// The wallet's URL.
        url: String,
    },
}

struct Entry {
    actor: &'static str,
    handle: WalletHandle,
}

/// The connected devices. [`Hub::follow`] must be polled for it to find them.
pub struct Hub {
    transports: Vec<Arc<dyn Transport>>,
    /// `None` once the hub is closed. Not locked across an await.
    supervisor: Mutex<Option<Arc<Supervisor>>>,
    runtime: Handle,
    timeouts: Timeouts,
    /// Keyed by URL. Not locked across an await.
    entries: Mutex<BTreeMap<String, Entry>>,
    /// Held during [`Hub::scan`] and [`Hub::close`], so that only one of them runs at a time.
    connected: tokio::sync::Mutex<Connected>,
    events: broadcast::Sender<HubEvent>,
}

impl Hub {
    /// Creates a hub over these transports. `supervisor` runs the wallets' actors, and `runtime` their exchanges.
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

    /// The wallets by URL. Never waits.
    pub fn wallets(&self) -> Vec<(String, WalletHandle)> {
        self.entries.lock().iter().map(|(url, entry)| (url.clone(), entry.handle.clone())).collect()
    }

    /// The wallet with this URL.
    pub fn wallet(&self, url: &str) -> Option<WalletHandle> {
        self.entries.lock().get(url).map(|entry| entry.handle.clone())
    }

    /// The wallets that contain the account, with their URLs. The first to have had it comes first.
    pub fn with_account(&self, address: Address) -> Vec<(String, WalletHandle)> {
        let since = |(url, handle): (String, WalletHandle)| Some((handle.account_since(address)?, url, handle));
        let mut found: Vec<_> = self.wallets().into_iter().filter_map(since).collect();
        found.sort_by_key(|(since, ..)| *since);
        found.into_iter().map(|(_, url, handle)| (url, handle)).collect()
    }

    /// Subscribes to arrivals and departures from now on.
    pub fn events(&self) -> broadcast::Receiver<HubEvent> {
        self.events.subscribe()
    }

    /// Lists devices twice a second, and sends a heartbeat to open, idle wallets. Never returns.
    pub async fn follow(&self) {
        let mut checks = interval(LIST_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Heartbeats run concurrently, so that a slow device delays neither the listing nor other devices.
        let (mut asking, mut asked) = (FuturesUnordered::new(), BTreeSet::new());
        loop {
            tokio::select! {
                _ = checks.tick() => {
                    self.scan().await;
                    for (url, handle) in self.wallets() {
                        if handle.is_open() && !handle.is_busy() && asked.insert(url.clone()) {
                            asking.push(send_heartbeat(url, handle));
                        }
                    }
                }
                Some(url) = asking.next() => {
                    asked.remove(&url);
                }
            }
        }
    }

    /// Lists devices once. A device with a running request is left as it is, because it may be unable to respond to the
    /// listing.
    pub async fn scan(&self) {
        let mut connected = self.connected.lock().await;
        let mut busy = self.busy();
        let listed = join_all(self.transports.iter().map(|transport| transport.list())).await;
        // Requests may have started during the listing.
        busy.extend(self.busy());
        let mut now = Vec::new();
        for (transport, listed) in self.transports.iter().zip(listed) {
            match listed {
                Ok(found) => now.extend(found),
                Err(error) => {
                    tracing::debug!(transport = transport.name(), %error, "devices can't be listed");
                    // Devices of a failed transport keep their state.
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
        // Includes devices for which there was no free actor before.
        for found in connected.devices().filter(|found| !found.is_bootloader) {
            if self.wallet(&url(found)).is_none() {
                self.arrive(found.clone());
            }
        }
    }

    /// Closes all wallets and ends their actors, as if all devices had departed. No devices arrive afterwards.
    pub async fn close(&self) {
        let mut connected = self.connected.lock().await;
        for change in connected.update(Vec::new()) {
            if let Change::Departed(found) = change {
                self.depart(&found).await;
            }
        }
        drop(self.supervisor.lock().take());
    }

    fn supervisor(&self) -> Option<Arc<Supervisor>> {
        self.supervisor.lock().clone()
    }

    fn arrive(&self, found: Found) {
        let mut entries = self.entries.lock();
        let is_free = |name: &&&str| !entries.values().any(|entry| entry.actor == **name);
        let Some(actor) = ACTORS.iter().find(is_free).copied() else {
            tracing::debug!(path = found.path, "a hardware wallet cannot be used until another one is disconnected");
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
                // There may be no subscriber.
                let _ = self.events.send(HubEvent::Arrived { url });
            }
            Err(error) => tracing::error!(path = found.path, %error, "a hardware wallet can't be used"),
        }
    }

    async fn depart(&self, found: &Found) {
        let url = url(found);
        let Some(entry) = self.entries.lock().remove(&url) else { return };
        let Some(supervisor) = self.supervisor() else { return };
        if !supervisor.stop_one(entry.actor, STOP_GRACE).await {
            tracing::warn!(url, "the session with a disconnected hardware wallet has not ended yet");
        }
        // There may be no subscriber.
        let _ = self.events.send(HubEvent::Departed { url });
    }

    /// URLs of the wallets with a running request.
    fn busy(&self) -> BTreeSet<String> {
        self.entries.lock().iter().filter(|(_, entry)| entry.handle.is_busy()).map(|(url, _)| url.clone()).collect()
    }
}

/// Sends a heartbeat to a wallet and returns its URL. The result is in the wallet's status. Dropping the future cancels
/// the heartbeat.
fn send_heartbeat(url: String, handle: WalletHandle) -> BoxFuture<'static, String> {
    Box::pin(async move {
        let _ = timeout(HEARTBEAT_TIMEOUT, handle.heartbeat(Instant::now() + LIST_INTERVAL)).await;
        url
    })
}

fn url(found: &Found) -> String {
    format!("{URL_SCHEME}{}", found.path)
}
