//! What the node says about itself on the bus: its name, its peers, how far behind it is.

use std::path::Path;

use tenon_api::messages::{GetClientVersion, GetDataFolder, GetNetworkStatus, GetSyncStatus, NetworkStatus};
use tenon_bus::{Bus, CallContext, RegisterError};

use crate::front_ends;
use crate::version::client_version;

/// Answers [`GetClientVersion`], [`GetDataFolder`], [`GetNetworkStatus`] and [`GetSyncStatus`]. Until the network module
/// takes the latter two over, the node has no peers and is never behind.
///
/// # Errors
/// [`RegisterError`] when another module answers one of them already.
pub(crate) fn register(bus: &Bus, identity: &str, data_folder: &Path) -> Result<(), RegisterError> {
    let name = client_version(identity);
    bus.handle_read(move |_: GetClientVersion, _: &CallContext| Ok(name.clone()))?;
    let folder = front_ends::absolute(data_folder).display().to_string();
    bus.handle_read(move |_: GetDataFolder, _: &CallContext| Ok(folder.clone()))?;
    bus.handle_read(|_: GetNetworkStatus, _: &CallContext| Ok(NetworkStatus { is_listening: false, peers: 0 }))?;
    bus.handle_read(|_: GetSyncStatus, _: &CallContext| Ok(None))
}
