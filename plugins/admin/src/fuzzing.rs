//! The grammar of enode URLs, as the fuzz targets see it (`fuzz/`). Not for others.

use crate::enode::{Address, Enode};

/// Reads an enode URL or a key, and writes what was understood in full.
///
/// # Errors
/// What is wrong with it.
pub fn canonical_enode(text: &str) -> Result<String, String> {
    let Enode { id, address } = Enode::parse(text)?;
    let key: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(match address {
        None => format!("enode://{key}"),
        Some(Address { ip, tcp, udp }) if ip.is_ipv6() => format!("enode://{key}@[{ip}]:{tcp}?discport={udp}"),
        Some(Address { ip, tcp, udp }) => format!("enode://{key}@{ip}:{tcp}?discport={udp}"),
    })
}
