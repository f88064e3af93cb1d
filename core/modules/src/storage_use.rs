//! The stored data of modules: its size, and its removal.

use tenon_api::{
    Capability, SpaceLimits,
    messages::{ModuleDetails, ModuleInfo, PurgeSpace, SpaceUsage},
};
use tenon_host::Space;
use tenon_sdk::Failure;

use crate::{ModuleError, ModuleRegister};

impl ModuleRegister {
    /// Adds the storage use of modules that may store something, or have stored something. Reads the database.
    pub(crate) fn with_storage(&self, mut info: ModuleInfo, limits: Option<SpaceLimits>) -> ModuleInfo {
        let ModuleDetails::Plugin(details) = &mut info.details else { return info };
        let limits = limits.unwrap_or(self.options.space_limits);
        let usage = self.options.spaces.as_ref().and_then(|spaces| {
            let usage = spaces.usage(&info.name);
            usage
                .inspect_err(|error| {
                    tracing::warn!(module = info.name, %error, "could not read the storage use of \
                a module")
                })
                .ok()
        });
        let may_store = details.granted.contains(&Capability::Storage);
        let shown = usage.filter(|(records, _)| may_store || *records > 0);
        details.storage = shown.map(|(records, bytes)| SpaceUsage::of(records, bytes, limits));
        info
    }

    /// Removes a module's stored data, and returns its former size. Blocks.
    ///
    /// # Errors
    /// [`ModuleError::WrongState`] while it is enabled, [`ModuleError::Space`] if there is no storage or it fails.
    pub fn purge_space(&self, request: &PurgeSpace) -> Result<SpaceUsage, ModuleError> {
        let name = request.module.as_str();
        let _operation = self.operation.try_lock().map_err(|_| ModuleError::Busy)?;
        if self.modules.lock().by_name.get(name).is_some_and(|module| module.running().is_some()) {
            let problem = "is enabled; disable or unload it before its storage is removed".to_owned();
            return Err(ModuleError::WrongState { name: name.to_owned(), problem });
        }
        let failed = |failure| ModuleError::Space { name: name.to_owned(), failure };
        let space = Space::new(name, self.options.space_limits, self.options.spaces.as_ref());
        let purged = space.spaces().and_then(|spaces| spaces.purge(name).map_err(Failure::from)).map_err(failed)?;
        tracing::info!(module = name, records = purged.0, bytes = purged.1, "storage of a module removed");
        Ok(SpaceUsage::of(purged.0, purged.1, self.options.space_limits))
    }
}
