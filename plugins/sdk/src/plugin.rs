//! The trait of a plugin.

use crate::Failure;

use crate::{Host, Table};

/// One running instance of a plugin. Methods run concurrently, so mutable state needs interior mutability.
pub trait Plugin: Send + Sync + Sized + 'static {
    /// Starts an instance.
    ///
    /// `settings` is the JSON text of the plugin's own settings (`{}` if it has none); `handover` is what
    /// [`Plugin::export_state`] of the previous version returned, or empty.
    ///
    /// # Errors
    /// Why it cannot start; the message is shown to the operator.
    fn start(host: Host, settings: &str, handover: &[u8]) -> Result<Self, Failure>;

    /// State for the version that replaces this one.
    fn export_state(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Called once, after the last call and subscription have ended.
    fn stop(&self) {}
}

/// Implemented by [`export!`](crate::export) for a plugin and its table.
pub trait Exported: Plugin {
    /// The table, built once.
    fn table() -> &'static Table<Self>;
}
