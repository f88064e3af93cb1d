//! A router that maps ports.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::NonZeroU16,
    time::Duration,
};

use crab_nat::{
    InternetProtocol, MappingFailure, PortMapping, PortMappingOptions, PortMappingType, TimeoutConfig, natpmp,
};
use igd_next::{
    AddPortError, PortMappingProtocol, SearchOptions,
    aio::{Gateway, tokio::Tokio},
};

use crate::{
    gateway::{default_gateway, local_address},
    mechanism::Mechanism,
    port_mapper::NatSettings,
};

/// Time for a search by UPnP.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(6);
/// Time for one device that answers the search to describe itself.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(3);
/// Requests to a port control server: 0.25 s, 0.5 s and 1 s.
const ATTEMPTS: TimeoutConfig =
    TimeoutConfig { initial_timeout: Duration::from_millis(250), max_retries: 2, max_retry_timeout: None };

/// Transport of a mapped port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
pub enum Transport {
    /// TCP.
    #[display("TCP")]
    Tcp,
    /// UDP.
    #[display("UDP")]
    Udp,
}

/// A port of this machine. The same number is requested for the external port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MappedPort {
    /// Its transport.
    pub transport: Transport,
    /// Its number.
    pub port: NonZeroU16,
    /// Description shown in the router's list.
    pub label: &'static str,
}

/// Why a port was not mapped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RouterError {
    #[error("no router answered by {0}")]
    NotFound(&'static str),
    #[error("UPnP: {0}")]
    Add(#[from] AddPortError),
    #[error("UPnP: {0}")]
    Remove(#[from] igd_next::RemovePortError),
    #[error(transparent)]
    PortControl(#[from] MappingFailure),
}

/// A router that answers.
pub(crate) enum Router {
    Upnp {
        gateway: Box<Gateway<Tokio>>,
        /// This machine, as the router sees it.
        own: IpAddr,
    },
    PortControl {
        gateway: IpAddr,
        own: IpAddr,
        /// By port. PCP removes a mapping only with the nonce with which it was made, which is kept here.
        mappings: HashMap<MappedPort, PortMapping>,
    },
}

impl Router {
    /// Searches for a router.
    pub(crate) async fn find(settings: &NatSettings) -> Result<Self, RouterError> {
        match settings.mechanism {
            Mechanism::Off | Mechanism::External(_) => Err(RouterError::NotFound("no mechanism")),
            Mechanism::Upnp => Self::find_upnp(settings).await.ok_or(RouterError::NotFound("UPnP")),
            Mechanism::PortControl(gateway) => {
                Self::find_port_control(gateway).await.ok_or(RouterError::NotFound("NAT-PMP or PCP"))
            }
            Mechanism::Any => {
                let (upnp, port_control) = (Self::find_upnp(settings), Self::find_port_control(None));
                tokio::pin!(upnp, port_control);
                tokio::select! {
                    Some(router) = &mut upnp => Ok(router),
                    Some(router) = &mut port_control => Ok(router),
                    else => Err(RouterError::NotFound("UPnP, NAT-PMP or PCP")),
                }
            }
        }
    }

    async fn find_upnp(settings: &NatSettings) -> Option<Self> {
        let mut options = SearchOptions::default();
        options.bind_addr = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        options.broadcast_address = settings.ssdp;
        options.allowed_gateway_ips.clone_from(&settings.trusted_routers);
        options.timeout = Some(SEARCH_TIMEOUT);
        options.single_search_timeout = Some(DEVICE_TIMEOUT);
        let gateway = igd_next::aio::tokio::search_gateway(options).await;
        let gateway = gateway.inspect_err(|error| tracing::debug!(%error, "no UPnP router")).ok()?;
        let own = local_address(gateway.addr.ip()).await?;
        Some(Self::Upnp { gateway: Box::new(gateway), own })
    }

    async fn find_port_control(gateway: Option<IpAddr>) -> Option<Self> {
        let gateway = match gateway {
            Some(gateway) => gateway,
            None => default_gateway().await?,
        };
        let own = local_address(gateway).await?;
        match natpmp::external_address(gateway.into(), Some(ATTEMPTS)).await {
            Err(error @ (natpmp::Failure::Timeout | natpmp::Failure::Socket(_))) => {
                tracing::debug!(%error, %gateway, "no NAT-PMP or PCP router");
                None
            }
            // An error is an answer as well: a server that speaks only PCP sends one.
            Ok(_) | Err(_) => Some(Self::PortControl { gateway, own, mappings: HashMap::new() }),
        }
    }

    /// Maps a port, or renews its mapping. Returns the external port, which only NAT-PMP and PCP choose themselves.
    pub(crate) async fn map(&mut self, port: MappedPort, lifetime: Duration) -> Result<u16, RouterError> {
        let seconds = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX);
        match self {
            Self::Upnp { gateway, own } => {
                let (own, number) = (SocketAddr::new(*own, port.port.get()), port.port.get());
                let protocol = upnp_protocol(port.transport);
                match gateway.add_port(protocol, number, own, seconds, port.label).await {
                    Err(AddPortError::OnlyPermanentLeasesSupported) => {
                        gateway.add_port(protocol, number, own, 0, port.label).await?;
                    }
                    added => added?,
                }
                Ok(number)
            }
            Self::PortControl { gateway, own, mappings } => {
                if let Some(mapping) = mappings.get_mut(&port) {
                    match mapping.renew().await {
                        Ok(()) => return Ok(mapping.external_port().get()),
                        Err(error) => tracing::debug!(%error, "mapping not renewed; it will be requested again"),
                    }
                }
                let options = PortMappingOptions {
                    external_port: Some(port.port),
                    lifetime_seconds: Some(seconds),
                    timeout_config: Some(ATTEMPTS),
                };
                let (gateway, protocol) = ((*gateway).into(), control_protocol(port.transport));
                let mapped = match PortMapping::new(gateway, *own, protocol, port.port, options).await {
                    // Some servers that speak only NAT-PMP do not answer PCP requests.
                    Err(MappingFailure::Pcp(_)) => {
                        natpmp::port_mapping(gateway, protocol, port.port, options).await.map_err(MappingFailure::from)
                    }
                    mapped => mapped,
                }?;
                let outside = mapped.external_port().get();
                mappings.insert(port, mapped);
                Ok(outside)
            }
        }
    }

    /// Removes the mapping of a port.
    pub(crate) async fn unmap(&mut self, port: MappedPort) -> Result<(), RouterError> {
        match self {
            Self::Upnp { gateway, .. } => {
                Ok(gateway.remove_port(upnp_protocol(port.transport), port.port.get()).await?)
            }
            Self::PortControl { mappings, .. } => match mappings.remove(&port) {
                Some(mapping) => mapping.try_drop().await.map_err(|(error, _)| error.into()),
                None => Ok(()),
            },
        }
    }

    /// The external address, if the router reports one that is not unspecified, multicast or loopback.
    pub(crate) async fn external_address(&self) -> Option<IpAddr> {
        let said = match self {
            Self::Upnp { gateway, .. } => gateway.get_external_ip().await.ok()?,
            Self::PortControl { gateway, mappings, .. } => {
                let by_pcp = mappings.values().find_map(|mapping| match mapping.mapping_type() {
                    PortMappingType::Pcp { external_ip, .. } => Some(external_ip),
                    PortMappingType::NatPmp => None,
                });
                match by_pcp {
                    Some(address) => address,
                    None => natpmp::external_address((*gateway).into(), Some(ATTEMPTS)).await.ok()?.into(),
                }
            }
        };
        let is_usable = !(said.is_unspecified() || said.is_multicast() || said.is_loopback());
        is_usable.then_some(said)
    }

    /// The name of the protocol, for log lines.
    pub(crate) const fn protocol(&self) -> &'static str {
        match self {
            Self::Upnp { .. } => "UPnP",
            Self::PortControl { .. } => "NAT-PMP or PCP",
        }
    }
}

const fn upnp_protocol(transport: Transport) -> PortMappingProtocol {
    match transport {
        Transport::Tcp => PortMappingProtocol::TCP,
        Transport::Udp => PortMappingProtocol::UDP,
    }
}

const fn control_protocol(transport: Transport) -> InternetProtocol {
    match transport {
        Transport::Tcp => InternetProtocol::Tcp,
        Transport::Udp => InternetProtocol::Udp,
    }
}
