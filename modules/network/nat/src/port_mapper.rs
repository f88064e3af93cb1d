//! Keeps ports mapped.

use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    mechanism::Mechanism,
    router::{MappedPort, Router},
};

/// Where UPnP devices listen for searches.
const SSDP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(239, 255, 255, 250)), 1900);
/// Time for the mappings to be removed.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(3);

/// Times of the mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatTiming {
    /// Lifetime of a mapping in the router.
    pub lifetime: Duration,
    /// Interval at which it is renewed.
    pub renewal: Duration,
    /// Interval between two searches for a router.
    pub retry: Duration,
}

/// The times of the reference client (`docs/spec/p2p.md` 22).
impl Default for NatTiming {
    fn default() -> Self {
        Self {
            lifetime: Duration::from_secs(20 * 60),
            renewal: Duration::from_secs(15 * 60),
            retry: Duration::from_secs(5 * 60),
        }
    }
}

/// What to map, and how.
#[derive(Clone, Debug)]
pub struct NatSettings {
    /// How the router is asked.
    pub mechanism: Mechanism,
    /// The ports.
    pub ports: Vec<MappedPort>,
    /// Lifetime, renewal and retry times.
    pub timing: NatTiming,
    /// Where UPnP devices listen for searches.
    pub ssdp: SocketAddr,
    /// Addresses that a UPnP router may have in addition to the source address of its answer. Loopback addresses (in
    /// tests) are accepted only if they are listed here.
    pub trusted_routers: Vec<IpAddr>,
}

impl NatSettings {
    /// The standard times and addresses.
    pub fn new(mechanism: Mechanism, ports: Vec<MappedPort>) -> Self {
        Self { mechanism, ports, timing: NatTiming::default(), ssdp: SSDP, trusted_routers: Vec::new() }
    }
}

/// Maps ports in a task of its own, until it is stopped.
#[derive(Debug)]
pub struct PortMapper {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl PortMapper {
    /// Starts the task and returns immediately. Calls `on_address` with the external address whenever the router
    /// reports a new one.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(settings: NatSettings, on_address: impl Fn(IpAddr) + Send + Sync + 'static) -> Self {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(keep_mapped(settings, on_address, stopped));
        Self { stop, task }
    }

    /// Removes the mappings and ends the task, within three seconds.
    pub async fn stop(mut self) {
        // Fails only if the task has already ended.
        let _ = self.stop.send(());
        if timeout(REMOVAL_TIMEOUT, &mut self.task).await.is_err() {
            tracing::warn!("the router did not remove the mapped ports in time; they will expire");
            self.task.abort();
        }
    }
}

async fn keep_mapped(settings: NatSettings, on_address: impl Fn(IpAddr), mut stopped: oneshot::Receiver<()>) {
    let mut has_warned = false;
    loop {
        let found = tokio::select! {
            biased;
            _ = &mut stopped => return,
            found = Router::find(&settings) => found,
        };
        match found {
            Ok(router) => {
                let mut mapping = Mapping { settings: &settings, router, mapped: HashSet::new(), address: None };
                if mapping.renew_until_stopped(&on_address, &mut stopped).await == Ending::Stopped {
                    return;
                }
            }
            Err(error) if !has_warned => {
                has_warned = true;
                tracing::warn!(%error, mechanism = %settings.mechanism, "no ports are mapped; the search is repeated periodically");
            }
            Err(error) => tracing::debug!(%error, "no ports are mapped"),
        }
        tokio::select! {
            biased;
            _ = &mut stopped => return,
            () = sleep(settings.timing.retry) => {}
        }
    }
}

#[derive(PartialEq, Eq)]
enum Ending {
    Stopped,
    /// The router no longer maps any port.
    Lost,
}

/// The mappings in one router.
struct Mapping<'a> {
    settings: &'a NatSettings,
    router: Router,
    mapped: HashSet<MappedPort>,
    address: Option<IpAddr>,
}

impl Mapping<'_> {
    async fn renew_until_stopped(
        &mut self,
        on_address: &impl Fn(IpAddr),
        stopped: &mut oneshot::Receiver<()>,
    ) -> Ending {
        loop {
            // Completed before `stopped` is checked, so that every mapping made here is removed again. Each request has
            // a time limit.
            self.map_all().await;
            if self.mapped.is_empty() {
                return Ending::Lost;
            }
            if let Some(address) = self.router.external_address().await
                && self.address.replace(address) != Some(address)
            {
                tracing::info!(%address, protocol = self.router.protocol(), "the router reported the address of this \
                    node");
                on_address(address);
            }
            tokio::select! {
                biased;
                _ = &mut *stopped => {
                    self.unmap_all().await;
                    return Ending::Stopped;
                }
                () = sleep(self.settings.timing.renewal) => {}
            }
        }
    }

    async fn map_all(&mut self) {
        for port in &self.settings.ports {
            let (transport, number) = (port.transport, port.port);
            match self.router.map(*port, self.settings.timing.lifetime).await {
                Ok(outside) if self.mapped.insert(*port) => {
                    let protocol = self.router.protocol();
                    tracing::info!(%transport, port = number, outside, protocol, "port mapped in the router");
                    if outside != number.get() {
                        tracing::warn!(%transport, port = number, outside, "the router mapped another port, so this \
                            node announces the wrong one to peers");
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    self.mapped.remove(port);
                    tracing::warn!(%transport, port = number, %error, "port not mapped in the router");
                }
            }
        }
    }

    async fn unmap_all(&mut self) {
        for port in std::mem::take(&mut self.mapped) {
            if let Err(error) = self.router.unmap(port).await {
                tracing::debug!(%error, transport = %port.transport, port = port.port, "mapping not removed");
            }
        }
    }
}
