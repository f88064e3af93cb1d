//! Enode URLs, by which operators name peers.

// By its file: two plugins in one program would both export the symbol by which a plugin is found.
#[path = "../../../plugins/admin/src/enode.rs"]
mod grammar;

use grammar::{Address, Enode};

/// What is understood is understood in the same way when it is written in full.
pub(crate) fn url(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Enode::parse(text) {
        Ok(enode) => {
            let full = in_full(&enode);
            assert_eq!(Enode::parse(&full), Ok(enode), "{text:?} is {full}");
        }
        Err(words) => assert!(!words.is_empty(), "{text:?}"),
    }
}

fn in_full(enode: &Enode) -> String {
    let key: String = enode.id.iter().map(|byte| format!("{byte:02x}")).collect();
    match enode.address {
        None => format!("enode://{key}"),
        Some(Address { ip, tcp, udp }) if ip.is_ipv6() => format!("enode://{key}@[{ip}]:{tcp}?discport={udp}"),
        Some(Address { ip, tcp, udp }) => format!("enode://{key}@{ip}:{tcp}?discport={udp}"),
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
