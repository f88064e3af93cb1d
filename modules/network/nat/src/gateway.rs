//! The router of this machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tokio::net::UdpSocket;

/// The kernel's table of routes.
const ROUTES: &str = "/proc/net/route";
/// Maximum size of the table that is read, in bytes.
const MAX_ROUTES: usize = 1 << 20;
/// An address reserved for documentation (RFC 5737): nothing is sent to it.
const TEST_NET_1: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// The system's default gateway. If the system names none, the first address of this machine's network, which most home
/// routers use.
pub(crate) async fn default_gateway() -> Option<IpAddr> {
    let routes = tokio::task::spawn_blocking(|| std::fs::read(ROUTES)).await.ok().and_then(Result::ok);
    let routes = routes.filter(|routes| routes.len() <= MAX_ROUTES);
    let named = routes.and_then(|routes| gateway_of(&String::from_utf8_lossy(&routes)));
    if let Some(gateway) = named {
        return Some(gateway.into());
    }
    match local_address(IpAddr::V4(TEST_NET_1)).await? {
        IpAddr::V4(own) if own.is_private() => {
            let [a, b, c, _] = own.octets();
            Some(Ipv4Addr::new(a, b, c, 1).into())
        }
        _ => None,
    }
}

/// The gateway of the default route in the kernel's table, whose numbers are in the machine's byte order. Does not use
/// procfs-core, which rejects the whole table if a route has a negative metric; the kernel writes metrics as signed
/// numbers.
fn gateway_of(routes: &str) -> Option<Ipv4Addr> {
    routes.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (destination, gateway) = (fields.next()?, fields.next()?);
        let number = |digits: &str| u32::from_str_radix(digits, 16).ok();
        let gateway = Ipv4Addr::from(number(gateway)?.to_ne_bytes());
        (number(destination)? == 0 && !gateway.is_unspecified()).then_some(gateway)
    })
}

/// The local address from which this machine sends packets to `there`. Nothing is sent.
pub(crate) async fn local_address(there: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if there.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await.ok()?;
    socket.connect(SocketAddr::new(there, 9)).await.ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_of_the_default_route_is_found() {
        let number = u32::from_ne_bytes([192, 168, 7, 254]);
        let table = format!(
            "Iface\tDestination\tGateway \tFlags\n\
             eth1\t0007A8C0\t00000000\t0001\n\
             tun0\t00000000\t00000000\t0001\n\
             eth0\t00000000\t{number:08X}\t0003\n"
        );
        assert_eq!(gateway_of(&table), Some(Ipv4Addr::new(192, 168, 7, 254)));
        for nothing in ["", "Iface\tDestination\tGateway\n", "x\neth0\n", "x\neth0\t00000000\tzz\n"] {
            assert_eq!(gateway_of(nothing), None, "{nothing:?}");
        }
    }
}
