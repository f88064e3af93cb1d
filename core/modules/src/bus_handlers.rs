//! The register's answers on the bus.

use std::sync::Arc;

use tenon_api::{
    BusError,
    messages::{ChangeModule, GetModule, ListModules, ListNamespaceVersions, ListNamespaces, PurgeSpace},
};
use tenon_bus::{Bus, CallContext, RegisterError};

use crate::{ModuleError, ModuleRegister};

/// Registers bus handlers for the list of namespaces and for the module operations.
///
/// # Errors
/// If the bus already has a handler for one of them.
pub fn register(bus: &Bus, host: &Arc<ModuleRegister>) -> Result<(), RegisterError> {
    let router = host.router();
    bus.handle_read(move |_: ListNamespaces, _: &CallContext| Ok(router.namespaces()))?;
    let router = host.router();
    bus.handle_read(move |_: ListNamespaceVersions, _: &CallContext| Ok(router.versions()))?;
    let of_list = Arc::clone(host);
    bus.handle_read(move |_: ListModules, _: &CallContext| Ok(of_list.list()))?;
    let of_info = Arc::clone(host);
    bus.handle_read(move |request: GetModule, _: &CallContext| Ok(of_info.info(&request.name)?))?;
    let of_purge = Arc::clone(host);
    bus.handle(move |request: PurgeSpace, _: CallContext| {
        let host = Arc::clone(&of_purge);
        async move {
            let purged = tokio::task::spawn_blocking(move || host.purge_space(&request)).await;
            purged.unwrap_or(Err(ModuleError::Crashed)).map_err(BusError::from)
        }
    })?;
    let of_change = Arc::clone(host);
    bus.handle(move |request: ChangeModule, _: CallContext| {
        let host = Arc::clone(&of_change);
        async move { host.change(&request.name, request.change, request.waits_for_drain).await.map_err(BusError::from) }
    })
}
