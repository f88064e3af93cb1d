//! Settings: the operator's choices, the source of each, and the networks known by name.
//!
//! It owns the table of settings ([`all_settings`]): key, flag, older spellings, default, unit and description of each,
//! from which the program's flags, the environment names, the checks of the settings file and the reference page
//! `docs/settings.md` are generated. Layers, later ones winning: defaults, the command's own defaults, the TOML file,
//! the environment (`TENON_…`), flags.
//!
//! Invariants:
//!
//! - every value has a source ([`Origin`]);
//! - an unknown key, variable or flag is reported with its position and the nearest known one;
//! - the defaults are safe.
//!
//! The crate starts nothing, opens no database and knows no module.
//!
//! ```
//! use tenon_config::{Layers, resolve};
//!
//! let resolved = resolve(Layers::new("run").environment([("TENON_HTTP_PORT".into(), "9545".into())]))?;
//! assert_eq!(resolved.settings.http.port, 9545);
//! assert_eq!(resolved.origin("http.port").to_string(), "environment TENON_HTTP_PORT");
//! # Ok::<(), tenon_config::SettingsError>(())
//! ```

#![forbid(unsafe_code)]

mod aliases;
mod bounds;
mod error;
mod file;
mod flags;
mod layers;
mod lists;
mod misfit;
mod mnemonic;
mod networks;
mod reference;
mod settings;
mod suggestion;
mod table;
mod value;

pub use aliases::NamespaceNames;
pub use error::{Origin, SettingsError};
pub use flags::{add_flags, given_flags};
pub use layers::{Layers, Resolved, resolve};
pub use lists::{MethodPatterns, OriginList, parse_duration};
pub use mnemonic::{DEVELOPMENT_MNEMONIC, Mnemonic};
pub use networks::{DevGenesis, Network};
pub use reference::settings_page;
pub use settings::{
    AccountSettings, AuthSettings, DatabaseSettings, DevSettings, DeviceSettings, HealthSettings, HttpSettings,
    IpcSettings, LogSettings, MasternodeSettings, NodeSettings, PeerSettings, PluginEntry, PluginLimits,
    PluginSettings, PoolSettings, RecoverySettings, RpcSettings, Settings, SignerSettings, SyncSettings, WsSettings,
    all_settings,
};
pub use suggestion::nearest;
pub use table::SettingInfo;
pub use value::{
    ByteSize, CertificateChecks, DevProfile, Durability, HistoryMode, LogFormat, LogRotation, Percent, Value,
};
