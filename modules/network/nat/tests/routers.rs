//! Ports mapped in scripted routers on the loopback interface: UPnP, NAT-PMP and PCP.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure fails the test")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tenon_network_nat::{MappedPort, Mechanism, NatSettings, NatTiming, PortMapper, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// The address that the routers name.
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
/// Port of NAT-PMP and PCP.
const CONTROL_PORT: u16 = 5351;

/// The requests that a router received.
#[derive(Default)]
struct Router {
    /// Lifetime in seconds, by transport (`TCP`, `UDP`) and port.
    mapped: Mutex<BTreeMap<(&'static str, u16), u32>>,
    requests: AtomicUsize,
}

impl Router {
    fn mapped(&self) -> BTreeMap<(&'static str, u16), u32> {
        self.mapped.lock().clone()
    }

    fn change(&self, transport: &'static str, port: u16, lifetime: Option<u32>) {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let mut mapped = self.mapped.lock();
        match lifetime {
            Some(lifetime) => mapped.insert((transport, port), lifetime),
            None => mapped.remove(&(transport, port)),
        };
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RouterProtocol {
    /// NAT-PMP; PCP is refused by version.
    NatPmp,
    /// NAT-PMP; PCP gets no answer.
    NatPmpSilently,
    Pcp,
}

/// A server of NAT-PMP or PCP at an address of its own.
async fn control_server(host: u8, speaks: RouterProtocol) -> (IpAddr, Arc<Router>, JoinHandle<()>) {
    let address = IpAddr::V4(Ipv4Addr::new(127, 90, std::process::id().to_le_bytes()[0], host));
    let socket = UdpSocket::bind(SocketAddr::new(address, CONTROL_PORT)).await.unwrap();
    let router = Arc::new(Router::default());
    let asked = Arc::clone(&router);
    let task = tokio::spawn(async move {
        let mut buffer = [0; 1100];
        loop {
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            if let Some(answer) = control_answer(&buffer[..length], speaks, &asked) {
                socket.send_to(&answer, from).await.unwrap();
            }
        }
    });
    (address, router, task)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().unwrap()
}

fn control_answer(request: &[u8], speaks: RouterProtocol, router: &Router) -> Option<Vec<u8>> {
    let epoch = 1_000_u32.to_be_bytes();
    match (request[0], speaks) {
        (2, RouterProtocol::NatPmpSilently) => None,
        // RFC 6886 3.5: unsupported version.
        (2, RouterProtocol::NatPmp) => Some([&[0, 128, 0, 1], &epoch[..]].concat()),
        (2, RouterProtocol::Pcp) => {
            // RFC 6887 7.2, 11.1: lifetime, nonce, protocol, ports.
            let lifetime = u32::from_be_bytes(number(request, 4));
            let transport = if request[36] == 6 { "TCP" } else { "UDP" };
            let port = u16::from_be_bytes(number(request, 40));
            router.change(transport, port, (lifetime > 0).then_some(lifetime));
            let mut answer = vec![2, 0x81, 0, 0];
            answer.extend(lifetime.to_be_bytes());
            answer.extend(epoch);
            answer.extend([0; 12]);
            answer.extend(&request[24..42]);
            answer.extend(port.to_be_bytes());
            answer.extend(OUTSIDE.to_ipv6_mapped().octets());
            Some(answer)
        }
        // RFC 6887 appendix A: a PCP server refuses version 0 in its own form.
        (_, RouterProtocol::Pcp) => Some([&[2, 128 | request[1], 0, 1, 0, 0, 0, 0], &epoch[..], &[0; 12]].concat()),
        (_, _) if request[1] == 0 => Some([&[0, 128, 0, 0], &epoch[..], &OUTSIDE.octets()].concat()),
        (_, _) => {
            let transport = if request[1] == 2 { "TCP" } else { "UDP" };
            let (port, lifetime) = (u16::from_be_bytes(number(request, 4)), u32::from_be_bytes(number(request, 8)));
            router.change(transport, port, (lifetime > 0).then_some(lifetime));
            let outside = if lifetime > 0 { port } else { 0 };
            let ports = [port.to_be_bytes(), outside.to_be_bytes()].concat();
            Some([&[0, 128 | request[1], 0, 0], &epoch[..], &ports, &lifetime.to_be_bytes()].concat())
        }
    }
}

const DEVICE: &str = r#"<?xml version="1.0"?><root xmlns="urn:schemas-upnp-org:device-1-0"><device>
<deviceType>urn:schemas-upnp-org:device:InternetGatewayDevice:1</deviceType><deviceList><device>
<deviceType>urn:schemas-upnp-org:device:WANDevice:1</deviceType><deviceList><device>
<deviceType>urn:schemas-upnp-org:device:WANConnectionDevice:1</deviceType><serviceList><service>
<serviceType>urn:schemas-upnp-org:service:WANIPConnection:1</serviceType>
<controlURL>/control</controlURL><SCPDURL>/actions.xml</SCPDURL></service></serviceList>
</device></deviceList></device></deviceList></device></root>"#;

fn actions() -> String {
    let action = |name: &str, arguments: &[&str]| {
        let arguments: String = arguments
            .iter()
            .map(|name| format!("<argument><name>{name}</name><direction>in</direction></argument>"))
            .collect();
        format!("<action><name>{name}</name><argumentList>{arguments}</argumentList></action>")
    };
    let port = ["NewRemoteHost", "NewExternalPort", "NewProtocol"];
    let whole = ["NewInternalPort", "NewInternalClient", "NewEnabled", "NewPortMappingDescription", "NewLeaseDuration"];
    format!(
        r#"<?xml version="1.0"?><scpd xmlns="urn:schemas-upnp-org:service-1-0"><actionList>{}{}{}</actionList></scpd>"#,
        action("AddPortMapping", &[&port[..], &whole].concat()),
        action("DeletePortMapping", &port),
        action("GetExternalIPAddress", &[]),
    )
}

/// The text of an element.
fn text<'a>(body: &'a str, name: &str) -> &'a str {
    body.split(&format!("<{name}>")).nth(1).and_then(|rest| rest.split("</").next()).unwrap_or_default()
}

/// A UPnP router; with `is_permanent` it refuses mappings with a lifetime.
async fn upnp_router(is_permanent: bool) -> (SocketAddr, Arc<Router>, Vec<JoinHandle<()>>) {
    let router = Arc::new(Router::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http = listener.local_addr().unwrap();
    let search = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let ssdp = search.local_addr().unwrap();
    let answering = tokio::spawn(async move {
        let mut buffer = [0; 1500];
        loop {
            let (length, from) = search.recv_from(&mut buffer).await.unwrap();
            assert!(buffer[..length].starts_with(b"M-SEARCH * HTTP/1.1"));
            let answer =
                format!("HTTP/1.1 200 OK\r\nST: upnp:rootdevice\r\nLOCATION: http://{http}/device.xml\r\n\r\n");
            search.send_to(answer.as_bytes(), from).await.unwrap();
        }
    });
    let asked = Arc::clone(&router);
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let asked = Arc::clone(&asked);
            tokio::spawn(async move {
                let mut request = Vec::new();
                let body = loop {
                    if stream.read_buf(&mut request).await.unwrap() == 0 {
                        return;
                    }
                    let text = String::from_utf8_lossy(&request).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head.to_ascii_lowercase();
                    let length = length.lines().find_map(|line| line.strip_prefix("content-length:"));
                    if body.len() >= length.map_or(0, |length| length.trim().parse().unwrap()) {
                        break body.to_owned();
                    }
                };
                let (status, answer) = upnp_answer(&String::from_utf8_lossy(&request), &body, is_permanent, &asked);
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}",
                    answer.len()
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    (ssdp, router, vec![answering, serving])
}

fn upnp_answer(request: &str, body: &str, is_permanent: bool, router: &Router) -> (&'static str, String) {
    let soap = |inner: &str| {
        let envelope = "http://schemas.xmlsoap.org/soap/envelope/";
        format!(r#"<?xml version="1.0"?><s:Envelope xmlns:s="{envelope}"><s:Body>{inner}</s:Body></s:Envelope>"#)
    };
    let done = |action: &str, inner: &str| {
        let service = "urn:schemas-upnp-org:service:WANIPConnection:1";
        ("200 OK", soap(&format!(r#"<u:{action}Response xmlns:u="{service}">{inner}</u:{action}Response>"#)))
    };
    let transport = if text(body, "NewProtocol") == "TCP" { "TCP" } else { "UDP" };
    let port = || text(body, "NewExternalPort").parse().unwrap();
    if request.starts_with("GET /device.xml") {
        ("200 OK", DEVICE.to_owned())
    } else if request.starts_with("GET /actions.xml") {
        ("200 OK", actions())
    } else if body.contains("AddPortMapping") {
        let lease: u32 = text(body, "NewLeaseDuration").parse().unwrap();
        if is_permanent && lease > 0 {
            let fault = "<s:Fault><faultcode>s:Client</faultcode><faultstring>UPnPError</faultstring><detail>\
                         <UPnPError xmlns=\"urn:schemas-upnp-org:control-1-0\"><errorCode>725</errorCode>\
                         <errorDescription>OnlyPermanentLeasesSupported</errorDescription></UPnPError></detail></s:Fault>";
            return ("500 Internal Server Error", soap(fault));
        }
        assert_eq!(text(body, "NewInternalClient"), "127.0.0.1");
        assert_eq!(text(body, "NewInternalPort"), text(body, "NewExternalPort"));
        router.change(transport, port(), Some(lease));
        done("AddPortMapping", "")
    } else if body.contains("DeletePortMapping") {
        router.change(transport, port(), None);
        done("DeletePortMapping", "")
    } else {
        done("GetExternalIPAddress", &format!("<NewExternalIPAddress>{OUTSIDE}</NewExternalIPAddress>"))
    }
}

fn ports() -> Vec<MappedPort> {
    let port = NonZeroU16::new(30_303).unwrap();
    vec![
        MappedPort { transport: Transport::Tcp, port, label: "ethereum p2p" },
        MappedPort { transport: Transport::Udp, port, label: "ethereum discovery" },
    ]
}

fn settings(mechanism: Mechanism) -> NatSettings {
    let timing = NatTiming {
        lifetime: Duration::from_secs(1_200),
        renewal: Duration::from_millis(300),
        retry: Duration::from_millis(200),
    };
    // Nothing listens at port 9.
    let ssdp = SocketAddr::from(([127, 0, 0, 1], 9));
    let trusted_routers = vec![Ipv4Addr::LOCALHOST.into()];
    NatSettings { timing, ssdp, trusted_routers, ..NatSettings::new(mechanism, ports()) }
}

fn start(settings: NatSettings) -> (PortMapper, UnboundedReceiver<IpAddr>) {
    let (tell, told) = unbounded_channel();
    let port_mapper = PortMapper::start(settings, move |address| {
        // The test may be over.
        let _ = tell.send(address);
    });
    (port_mapper, told)
}

async fn until(what: impl Fn() -> bool) {
    let waiting = async {
        while !what() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), waiting).await.expect("in time");
}

/// Checks that both ports are mapped, the address is reported once, the mappings are renewed, and removed at the end.
async fn keeps(settings: NatSettings, router: &Router, lifetime: u32) {
    let (port_mapper, mut told) = start(settings);
    let address = timeout(Duration::from_secs(20), told.recv()).await.expect("in time");
    assert_eq!(address, Some(OUTSIDE.into()));
    let both = BTreeMap::from([(("TCP", 30_303), lifetime), (("UDP", 30_303), lifetime)]);
    assert_eq!(router.mapped(), both);
    let before = router.requests();
    until(|| router.requests() >= before + 4).await;
    assert_eq!(router.mapped(), both);
    assert!(told.try_recv().is_err(), "told once");

    port_mapper.stop().await;

    assert_eq!(router.mapped(), BTreeMap::new());
}

#[tokio::test]
async fn nat_pmp_maps_renews_and_removes() {
    let (gateway, router, _server) = control_server(1, RouterProtocol::NatPmp).await;
    keeps(settings(Mechanism::PortControl(Some(gateway))), &router, 1_200).await;
}

#[tokio::test]
async fn nat_pmp_of_a_router_that_does_not_answer_pcp_maps_renews_and_removes() {
    let (gateway, router, _server) = control_server(2, RouterProtocol::NatPmpSilently).await;
    keeps(settings(Mechanism::PortControl(Some(gateway))), &router, 1_200).await;
}

#[tokio::test]
async fn pcp_maps_renews_and_removes() {
    let (gateway, router, _server) = control_server(3, RouterProtocol::Pcp).await;
    keeps(settings(Mechanism::PortControl(Some(gateway))), &router, 1_200).await;
}

#[tokio::test]
async fn upnp_maps_renews_and_removes() {
    let (ssdp, router, _servers) = upnp_router(false).await;
    keeps(NatSettings { ssdp, ..settings(Mechanism::Upnp) }, &router, 1_200).await;
}

#[tokio::test]
async fn a_upnp_router_with_permanent_mappings_alone_gets_those_and_they_are_removed() {
    let (ssdp, router, _servers) = upnp_router(true).await;
    keeps(NatSettings { ssdp, ..settings(Mechanism::Upnp) }, &router, 0).await;
}

#[tokio::test]
async fn any_takes_the_router_that_answers() {
    let (ssdp, router, _servers) = upnp_router(false).await;
    keeps(NatSettings { ssdp, ..settings(Mechanism::Any) }, &router, 1_200).await;
}

/// Starting never waits for a router, and stopping does not wait for a search.
#[tokio::test]
async fn does_not_wait_for_a_missing_router_and_finds_a_later_one() {
    let address = IpAddr::V4(Ipv4Addr::new(127, 90, std::process::id().to_le_bytes()[0], 4));
    let begun = std::time::Instant::now();
    let (port_mapper, mut told) = start(settings(Mechanism::PortControl(Some(address))));
    assert!(begun.elapsed() < Duration::from_millis(500));
    sleep(Duration::from_secs(1)).await;
    assert!(told.try_recv().is_err());

    let (_, router, _server) = control_server(4, RouterProtocol::NatPmp).await;

    assert_eq!(timeout(Duration::from_secs(20), told.recv()).await.expect("in time"), Some(OUTSIDE.into()));
    assert_eq!(router.mapped().len(), 2);
    port_mapper.stop().await;
    let (port_mapper, _) =
        start(NatSettings { ssdp: SocketAddr::from(([127, 0, 0, 1], 9)), ..settings(Mechanism::Upnp) });
    sleep(Duration::from_millis(100)).await;
    let begun = std::time::Instant::now();
    port_mapper.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// Arbitrary answers are never taken for a mapping.
#[tokio::test]
async fn wrong_answers_map_nothing() {
    let address = Ipv4Addr::new(127, 90, std::process::id().to_le_bytes()[0], 5);
    let socket = UdpSocket::bind((address, CONTROL_PORT)).await.unwrap();
    let answers: [&[u8]; 4] = [&[], &[0], &[0xff; 1_100], &[0, 130, 0, 0, 0, 0]];
    let _server = tokio::spawn(async move {
        let mut buffer = [0; 1_100];
        for answer in answers.iter().cycle() {
            let (_, from) = socket.recv_from(&mut buffer).await.unwrap();
            socket.send_to(answer, from).await.unwrap();
        }
    });
    let (port_mapper, mut told) = start(settings(Mechanism::PortControl(Some(address.into()))));
    sleep(Duration::from_secs(3)).await;
    assert!(told.try_recv().is_err());
    port_mapper.stop().await;
}
