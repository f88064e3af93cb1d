//! Settings: what an operator can choose, where each choice came from, and the networks that this program
//! knows by name.
//!
//! It owns the one table of settings ([`all_settings`]): key, flag, older spellings, default, unit and
//! explanation of each, from which the flags of the program, the environment names, the checks of the
//! settings file and the reference page `docs/settings.md` are all made. Layers, later ones winning:
//! defaults, the command's own defaults, the TOML file, the environment (`TENON_…`), flags.
//!
//! What must always hold: every value can say where it came from ([`Origin`]); a key, variable or flag that
//! is not understood is named together with its place and the nearest one that exists; the defaults are safe
//! (`design.md` 8). The crate starts nothing, opens no database and knows no module.
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
pub use mnemonic::Mnemonic;
pub use networks::{DevGenesis, Network};
pub use reference::settings_page;
pub use settings::{
    AccountSettings, AuthSettings, DatabaseSettings, DevSettings, HealthSettings, HttpSettings, IpcSettings,
    LogSettings, NodeSettings, PluginEntry, PluginLimits, PluginSettings, PoolSettings, RecoverySettings, RpcSettings,
    Settings, WsSettings, all_settings,
};
pub use suggestion::nearest;
pub use table::SettingInfo;
pub use value::{ByteSize, DevProfile, Durability, HistoryMode, LogFormat, LogRotation, Percent, Value};
