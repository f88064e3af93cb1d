use tenon_api::Failure;

use crate::{Host, Table};

/// One running instance of a plugin. Methods run concurrently, so what changes needs interior mutability.
pub trait Plugin: Send + Sync + Sized + 'static {
    /// Starts an instance.
    ///
    /// `settings` is the JSON text of the plugin's own settings (`{}` when it has none); `handover` what
    /// [`Plugin::export_state`] of the version before gave, or empty.
    ///
    /// # Errors
    /// Why it cannot start; the operator sees the message.
    fn start(host: Host, settings: &str, handover: &[u8]) -> Result<Self, Failure>;

    /// State for the version that replaces this one.
    fn export_state(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Called once, after the last call and subscription are gone.
    fn stop(&self) {}
}

/// Written by [`export!`](crate::export): a plugin whose table is known.
pub trait Exported: Plugin {
    /// The table, built once.
    fn table() -> &'static Table<Self>;
}
