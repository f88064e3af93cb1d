//! The settings of one plugin.

use std::path::PathBuf;

use tenon_api::{Capability, SpaceLimits};
use tenon_isolation::{Isolation, PluginLimits};

/// The settings of one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginPlan {
    /// Its name in operations.
    pub name: String,
    /// Its library.
    pub path: PathBuf,
    /// Whether it is started with the node.
    pub is_enabled: bool,
    /// Whether the node refuses to start without it.
    pub is_required: bool,
    /// JSON text of its own settings.
    pub settings: String,
    /// Granted capabilities among the requested ones. `None` means all for a build that is built in or vouched for,
    /// nothing for a foreign one.
    pub capabilities: Option<Vec<Capability>>,
    /// SHA-256 (hex) of the build that the operator vouched for at run time, if one was.
    pub vouched: Option<String>,
    /// Whether a foreign build may start in its process even if the kernel cannot close the sandbox.
    pub may_run_unsandboxed: bool,
    /// Its storage limit; `None` means [`ModuleOptions::space_limits`](crate::ModuleOptions::space_limits).
    pub storage: Option<SpaceLimits>,
    /// Where it runs. `None` means in this process if its build is built in or vouched for, otherwise in its own.
    pub isolation: Option<Isolation>,
    /// Its limits.
    pub limits: PluginLimits,
}

impl PluginPlan {
    /// An enabled plugin without settings.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            path: path.into(),
            is_enabled: true,
            is_required: false,
            settings: "{}".to_owned(),
            capabilities: None,
            vouched: None,
            may_run_unsandboxed: false,
            storage: None,
            isolation: None,
            limits: PluginLimits::default(),
        }
    }
}
