//! The peer-to-peer network as a part of the node: its settings, and its module.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use tenon_config::{ByteSize, Settings};
use tenon_modules::{ActorControl, ActorModule, ActorProbe, ActorReport, ActorStage, ActorSwitch, SwitchError};
use tenon_network_discovery::Networks;
use tenon_network_identity::Enode;
use tenon_network_service::{BandwidthLimits, MIN_BYTES_PER_SECOND, Mechanism, Network, NetworkPorts, NetworkSettings};
use tenon_supervisor::{ActorState, Supervisor};

use crate::actor_reports;
use crate::exit::Stop;
use crate::opened_chain::OpenedChain;
use crate::version::client_version;

/// Folder of the node key, the known nodes and the bans, in the data folder.
const FOLDER: &str = "network";
/// The module's name.
const MODULE: &str = "network";
/// Default maximum number of concurrent handshakes (`docs/spec/p2p.md` 22).
pub(crate) const MAX_PENDING: usize = 50;

/// The network's settings; `None` on chains without a network.
///
/// # Errors
/// [`Stop::Usage`] naming the wrong setting.
pub(crate) fn settings(settings: &Settings, chain: &OpenedChain) -> Result<Option<NetworkSettings>, Stop> {
    let network_id = chain.info.network_id;
    let Some(known_bootnodes) = chain.family.bootnodes(network_id) else { return Ok(None) };
    let peers = &settings.peers;
    let bootnodes = match peers.bootnodes.as_slice() {
        [] => known_bootnodes,
        named => named,
    };
    let restrict = match peers.netrestrict.as_slice() {
        [] => None,
        networks => Some(restriction(networks)?),
    };
    Ok(Some(NetworkSettings {
        folder: settings.node.datadir.join(FOLDER),
        key_file: peers.nodekey.as_ref().map(|path| settings.in_data_folder(path)),
        listen: SocketAddr::new(peers.addr, peers.port),
        nat: mechanism(&peers.nat)?,
        name: client_version(&settings.node.identity),
        max_peers: peers.maxpeers as usize,
        max_pending: if peers.maxpendpeers == 0 { MAX_PENDING } else { peers.maxpendpeers as usize },
        is_discovering: !peers.nodiscover,
        bootnodes: enodes("p2p.bootnodes", bootnodes)?,
        statics: enodes("p2p.static", &peers.statics)?,
        trusted: enodes("p2p.trusted", &peers.trusted)?,
        restrict,
        bandwidth: bandwidth(settings)?,
        network_id,
        genesis: chain.info.genesis_hash,
    }))
}

/// Checks the settings without a chain.
///
/// # Errors
/// As [`settings`].
pub(crate) fn check(settings: &Settings) -> Result<(), Stop> {
    let peers = &settings.peers;
    mechanism(&peers.nat)?;
    bandwidth(settings)?;
    restriction(&peers.netrestrict)?;
    for (key, urls) in
        [("p2p.bootnodes", &peers.bootnodes), ("p2p.static", &peers.statics), ("p2p.trusted", &peers.trusted)]
    {
        enodes(key, urls)?;
    }
    Ok(())
}

fn enodes(key: &str, urls: &[String]) -> Result<Vec<Enode>, Stop> {
    let parse = |url: &String| url.parse().map_err(|problem| Stop::Usage(format!("{key}: {url}: {problem}")));
    urls.iter().filter(|url| !url.is_empty()).map(parse).collect()
}

fn restriction(networks: &[String]) -> Result<Networks, Stop> {
    let parse =
        |text: &String| text.parse().map_err(|problem| Stop::Usage(format!("p2p.netrestrict: {text:?} is {problem}")));
    Ok(Networks(networks.iter().map(parse).collect::<Result<_, _>>()?))
}

/// The limits on bytes per second.
fn bandwidth(settings: &Settings) -> Result<BandwidthLimits, Stop> {
    let limit = |key: &str, size: ByteSize| match size.0 {
        0 => Ok(None),
        bytes if bytes < MIN_BYTES_PER_SECOND => {
            let min = MIN_BYTES_PER_SECOND >> 10;
            Err(Stop::Usage(format!("{key}: {bytes} bytes per second; give at least {min} KiB, or 0 for no limit")))
        }
        bytes => Ok(Some(bytes)),
    };
    let peers = &settings.peers;
    Ok(BandwidthLimits {
        download: limit("p2p.download-limit", peers.download_limit)?,
        upload: limit("p2p.upload-limit", peers.upload_limit)?,
        peer_download: limit("p2p.peer-download-limit", peers.peer_download_limit)?,
        peer_upload: limit("p2p.peer-upload-limit", peers.peer_upload_limit)?,
    })
}

/// The mechanism of `p2p.nat` (`docs/spec/p2p.md` 22).
fn mechanism(nat: &str) -> Result<Mechanism, Stop> {
    nat.parse().map_err(|error| Stop::Usage(format!("p2p.nat: {error}")))
}

/// The network as a module; `None` on chains without a network.
///
/// # Errors
/// As [`settings`].
pub(crate) fn module(
    network: &Arc<Network>,
    supervisor: &Arc<Supervisor>,
    ports: NetworkPorts,
    chain: &OpenedChain,
    from: &Settings,
) -> Result<Option<ActorModule>, Stop> {
    let Some(settings) = settings(from, chain)? else {
        return match from.peers.enabled {
            true => Err(Stop::Usage("p2p.enabled: only native chains have a peer-to-peer network".to_owned())),
            false => Ok(None),
        };
    };
    let is_wanted = from.peers.enabled && settings.max_peers > 0;
    let switch = Switch { network: Arc::clone(network), supervisor: Arc::downgrade(supervisor), settings, ports };
    Ok(Some(ActorModule {
        name: MODULE,
        summary: "Connects to peers, follows their chain and serves them.",
        uses: &["storage", "execution", "pool"],
        answers: &[],
        stage: ActorStage::AfterPlugins,
        is_wanted,
        control: ActorControl::Switch(Box::new(switch)),
        probe: Some(probe(network, supervisor)),
    }))
}

/// Reports the actor, with the address at which the network listens and the number of peers.
fn probe(network: &Arc<Network>, supervisor: &Arc<Supervisor>) -> ActorProbe {
    let network = Arc::clone(network);
    let actor = actor_reports::probe(supervisor, &[tenon_network_service::ACTOR]);
    Box::new(move || ActorReport {
        address: network.listen_address(),
        connections: Some(network.connected_peers()),
        ..actor()
    })
}

struct Switch {
    network: Arc<Network>,
    /// Weak: the node stops its supervisor itself, as its only owner.
    supervisor: Weak<Supervisor>,
    settings: NetworkSettings,
    ports: NetworkPorts,
}

#[async_trait]
impl ActorSwitch for Switch {
    async fn start(&self) -> Result<(), SwitchError> {
        let supervisor = self.supervisor.upgrade().ok_or(SwitchError::ShuttingDown)?;
        // Removes what is left of a failed network.
        self.network.stop(&supervisor).await;
        let started = self.network.start(&supervisor, &self.settings, &self.ports).await;
        started.map_err(SwitchError::new)
    }

    async fn stop(&self) -> Result<(), SwitchError> {
        let Some(supervisor) = self.supervisor.upgrade() else { return Ok(()) };
        if self.network.stop(&supervisor).await {
            return Ok(());
        }
        Err(SwitchError::new("the network did not stop in time; its connections were closed"))
    }

    fn failure(&self) -> Option<String> {
        match Network::health(&*self.supervisor.upgrade()?)?.state {
            ActorState::Failed { reason } => Some(reason),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mechanism_is_parsed_and_an_unknown_one_names_its_setting() {
        assert_eq!(mechanism("none").unwrap(), Mechanism::Off);
        assert_eq!(mechanism("extip:1.2.3.4").unwrap(), Mechanism::External([1, 2, 3, 4].into()));
        let refused = |nat| mechanism(nat).unwrap_err().to_string();
        assert!(refused("extip:").contains("p2p.nat: missing IP address"));
        assert!(refused("magic").contains("p2p.nat: unknown mechanism"));
    }

    #[test]
    fn limits_are_parsed_and_a_too_low_one_names_its_setting() {
        let mut settings = Settings::default();
        settings.peers.upload_limit = ByteSize(1 << 20);
        let limits = bandwidth(&settings).unwrap();
        assert_eq!(limits, BandwidthLimits { upload: Some(1 << 20), ..BandwidthLimits::default() });
        settings.peers.peer_download_limit = ByteSize(1_000);
        let refused = bandwidth(&settings).unwrap_err().to_string();
        assert!(refused.contains("p2p.peer-download-limit: 1000 bytes per second"), "{refused}");
    }

    #[test]
    fn a_stopped_network_reports_no_address_and_no_connections() {
        let network = Network::new(&tenon_bus::Bus::new()).unwrap();

        let report = probe(&network, &Arc::new(Supervisor::new().unwrap()))();

        assert_eq!((report.address, report.connections), (None, Some(0)));
    }

    #[test]
    fn wrong_nodes_and_networks_name_their_setting() {
        let refused = enodes("p2p.static", &["enode://01@1.2.3.4:5".to_owned()]).unwrap_err().to_string();
        assert!(refused.contains("p2p.static") && refused.contains("128 hexadecimal digits"), "{refused}");
        assert!(restriction(&["10.0.0.0/33".to_owned()]).unwrap_err().to_string().contains("p2p.netrestrict"));
    }
}
