//! The settings: one struct per section, with a description of every field.
//!
//! | File | Sections |
//! |---|---|
//! | `node.rs` | node, database |
//! | `front_ends.rs` | HTTP, WebSocket, Unix socket, authentication, requests |
//! | `chain.rs` | block verification, signer recovery, transaction pool, development network |
//! | `plugins.rs` | plugins, and the table of each plugin |
//! | `peers.rs` | peers |
//! | `keys.rs` | masternode, accounts, hardware wallets, signing service |
//! | `monitoring.rs` | metrics, health, log |

mod chain;
mod front_ends;
mod keys;
mod monitoring;
mod node;
mod peers;
mod plugins;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

pub use self::chain::{DevSettings, PoolSettings, RecoverySettings, SyncSettings};
pub use self::front_ends::{AuthSettings, HttpSettings, IpcSettings, RpcSettings, WsSettings};
pub use self::keys::{AccountSettings, DeviceSettings, MasternodeSettings, SignerSettings};
use self::monitoring::MetricsSettings;
pub use self::monitoring::{HealthSettings, LogSettings};
pub use self::node::{DatabaseSettings, NodeSettings};
pub use self::peers::PeerSettings;
pub use self::plugins::{PluginEntry, PluginLimits, PluginSettings};
use crate::table::{Section, SettingInfo};
use crate::value::Value;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Every setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The node as a whole.
    pub node: NodeSettings,
    /// The database.
    pub database: DatabaseSettings,
    /// HTTP.
    pub http: HttpSettings,
    /// WebSocket.
    pub ws: WsSettings,
    /// Unix socket.
    pub ipc: IpcSettings,
    /// Bearer token.
    pub auth: AuthSettings,
    /// Cost limits of one request.
    pub rpc: RpcSettings,
    /// Verification of blocks.
    pub sync: SyncSettings,
    /// Signers of transactions, headers and votes.
    pub recovery: RecoverySettings,
    /// Transaction pool.
    pub pool: PoolSettings,
    /// Development network.
    pub dev: DevSettings,
    /// Plugins.
    pub plugins: PluginSettings,
    /// Metrics.
    pub metrics: MetricsSettings,
    /// The peer-to-peer network.
    pub peers: PeerSettings,
    /// A masternode's key.
    pub masternode: MasternodeSettings,
    /// Keys.
    pub accounts: AccountSettings,
    /// Hardware wallets.
    pub device: DeviceSettings,
    /// Signing service.
    pub signer: SignerSettings,
    /// Thresholds of health.
    pub health: HealthSettings,
    /// The log.
    pub log: LogSettings,
    /// `[plugins.NAME]` of the settings file.
    pub plugin_entries: BTreeMap<String, PluginEntry>,
}

impl Settings {
    fn sections(&mut self) -> [&mut dyn SectionObject; 20] {
        [
            &mut self.node,
            &mut self.database,
            &mut self.http,
            &mut self.ws,
            &mut self.ipc,
            &mut self.auth,
            &mut self.rpc,
            &mut self.sync,
            &mut self.recovery,
            &mut self.pool,
            &mut self.dev,
            &mut self.plugins,
            &mut self.metrics,
            &mut self.peers,
            &mut self.masternode,
            &mut self.accounts,
            &mut self.device,
            &mut self.signer,
            &mut self.health,
            &mut self.log,
        ]
    }

    /// Sets a value; `None` if there is no such setting.
    pub(crate) fn put(&mut self, key: &str, value: &Value) -> Option<Result<(), String>> {
        self.sections().into_iter().find_map(|section| section.put_value(key, value))
    }

    /// The value of a setting as written in files; `None` if there is no such setting.
    pub fn show(&self, key: &str) -> Option<Value> {
        // `sections` only returns mutable references; the copy avoids a second list.
        self.clone().sections().into_iter().find_map(|section| section.show_value(key))
    }

    /// The path of a setting: a bare name is inside the data folder, others are taken as they are.
    pub fn in_data_folder(&self, path: &std::path::Path) -> PathBuf {
        let is_bare_name = path.components().count() == 1 && !path.is_absolute();
        if is_bare_name { self.node.datadir.join(path) } else { path.to_owned() }
    }
}

/// [`Section`] without its associated function, so that it is object-safe.
trait SectionObject {
    fn put_value(&mut self, key: &str, value: &Value) -> Option<Result<(), String>>;
    fn show_value(&self, key: &str) -> Option<Value>;
}

impl<S: Section> SectionObject for S {
    fn put_value(&mut self, key: &str, value: &Value) -> Option<Result<(), String>> {
        self.put(key, value)
    }

    fn show_value(&self, key: &str) -> Option<Value> {
        self.show(key)
    }
}

/// The table of settings, in the order of the reference page.
pub fn all_settings() -> Vec<SettingInfo> {
    let mut rows = Vec::new();
    NodeSettings::describe(&mut rows);
    DatabaseSettings::describe(&mut rows);
    HttpSettings::describe(&mut rows);
    WsSettings::describe(&mut rows);
    IpcSettings::describe(&mut rows);
    AuthSettings::describe(&mut rows);
    RpcSettings::describe(&mut rows);
    SyncSettings::describe(&mut rows);
    RecoverySettings::describe(&mut rows);
    PoolSettings::describe(&mut rows);
    DevSettings::describe(&mut rows);
    PluginSettings::describe(&mut rows);
    MetricsSettings::describe(&mut rows);
    PeerSettings::describe(&mut rows);
    MasternodeSettings::describe(&mut rows);
    AccountSettings::describe(&mut rows);
    DeviceSettings::describe(&mut rows);
    SignerSettings::describe(&mut rows);
    HealthSettings::describe(&mut rows);
    LogSettings::describe(&mut rows);
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_setting_has_a_unique_key_and_flags() {
        let rows = all_settings();
        let keys: BTreeSet<_> = rows.iter().map(|row| row.key).collect();
        let flags: Vec<_> =
            rows.iter().flat_map(|row| std::iter::once(row.flag).chain(row.old_flags.iter().copied())).collect();

        assert_eq!(keys.len(), rows.len());
        assert_eq!(flags.iter().collect::<BTreeSet<_>>().len(), flags.len());
    }

    #[test]
    fn every_default_parses_as_a_value() {
        let mut settings = Settings::default();
        for row in all_settings() {
            assert_eq!(settings.put(row.key, &row.default), Some(Ok(())), "{}", row.key);
            assert_eq!(settings.show(row.key), Some(row.default.clone()), "{}", row.key);
        }
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn serves_only_the_safe_namespaces_on_loopback_by_default() {
        let settings = Settings::default();
        assert!(settings.http.addr.is_loopback() && settings.ws.addr.is_loopback());
        assert_eq!(settings.http.api, ["eth", "net", "web3"]);
        assert_eq!(settings.ws.api, ["eth", "net", "web3"]);
        assert!(settings.http.corsdomain.is_empty() && settings.ws.origins.is_empty());
    }
}
