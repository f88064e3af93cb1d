//! Enode URLs, by which operators name peers.

use tenon_network_identity::{Endpoint, Enode};

/// A parsed URL parses to the same value after it was written in full.
pub(crate) fn url(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match text.parse::<Enode>() {
        Ok(enode) => {
            let full = in_full(&enode);
            assert_eq!(full.parse(), Ok(enode), "{text:?} is {full}");
        }
        Err(problem) => assert!(!problem.to_string().is_empty(), "{text:?}"),
    }
}

fn in_full(enode: &Enode) -> String {
    let key = enode.id;
    match enode.endpoint {
        None => format!("enode://{key}"),
        Some(Endpoint { ip, tcp, udp }) if ip.is_ipv6() => format!("enode://{key}@[{ip}]:{tcp}?discport={udp}"),
        Some(Endpoint { ip, tcp, udp }) => format!("enode://{key}@{ip}:{tcp}?discport={udp}"),
    }
}

/// URLs of every kind, and keys alone.
pub(crate) fn urls() -> Vec<Vec<u8>> {
    let key = "1f".repeat(64);
    [
        format!("enode://{key}"),
        format!("enode://{key}@10.3.58.6:30303?discport=30301"),
        format!("enode://{key}@[2001:db8::1]:30303"),
        format!("ENODE://0x{key}@127.0.0.1:0"),
        key,
    ]
    .map(String::into_bytes)
    .to_vec()
}
