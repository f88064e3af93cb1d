//! Lists modules and their details.

use tenon_api::messages::ModuleInfo;

use crate::{ModuleError, ModuleRegister, plugin_module::KnownPlugin};

impl ModuleRegister {
    /// All modules: plugins by name, then module actors by name.
    pub fn list(&self) -> Vec<ModuleInfo> {
        let modules: Vec<_> = {
            let modules = self.modules.lock();
            let known = modules.by_name.iter();
            known.map(|(name, module)| (module.info(modules.needing(name)), module.plan.storage)).collect()
        };
        let mut list: Vec<_> = modules.into_iter().map(|(info, limits)| self.with_storage(info, limits)).collect();
        list.iter_mut().for_each(|info| info.until = self.end_of(&info.name));
        list.extend(self.list_actors());
        list
    }

    /// One module.
    ///
    /// # Errors
    /// [`ModuleError::Unknown`].
    pub fn info(&self, name: &str) -> Result<ModuleInfo, ModuleError> {
        if let Some(actor) = self.actor_info(name) {
            return Ok(actor);
        }
        let (info, limits) = {
            let modules = self.modules.lock();
            let module = modules.get(name).map_err(|error| self.with_actor_names(error))?;
            (module.info(modules.needing(name)), module.plan.storage)
        };
        Ok(ModuleInfo { until: self.end_of(name), ..self.with_storage(info, limits) })
    }

    /// Bytes that the node holds for each plugin in its own process: unread answers, running requests, and items that
    /// wait for its subscribers.
    pub fn held_for_processes(&self) -> Vec<(String, usize)> {
        let modules = self.modules.lock();
        let held = |(name, module): (&String, &KnownPlugin)| {
            let instance = &module.running()?.instance;
            instance.process().map(|_| (name.clone(), instance.held_bytes()))
        };
        modules.by_name.iter().filter_map(held).collect()
    }
}
