//! Copies of the database that a running node makes for `tenon db backup`.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tenon_api::BusError;
use tenon_api::messages::MakeCheckpoint;
use tenon_bus::{Bus, CallContext, WorkPool};
use tenon_storage::Store;

use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::front_ends::absolute;

/// Answers [`MakeCheckpoint`]. Removes the copy of a node that was killed.
///
/// # Errors
/// [`Stop`] if another module already answers it, or the copy can't be removed.
pub(crate) fn register(bus: &Bus, work: &WorkPool, folder: &DataFolder, store: Arc<Store>) -> Result<(), Stop> {
    let place = absolute(&folder.checkpoint());
    remove(&place).map_err(|error| Stop::DataFolder(format!("{}: {error}", place.display())))?;
    // Several requests can run at the same time, for example one of a command that was killed.
    let making = Mutex::new(());
    bus.handle_work(work, move |_: MakeCheckpoint, context: &CallContext| {
        let _making = making.lock();
        if context.is_cancelled() {
            return Err(BusError::failed("the client that requested the copy is gone"));
        }
        make(&store, &place).map_err(BusError::failed)?;
        Ok(place.display().to_string())
    })?;
    Ok(())
}

/// Makes a copy, replacing the previous one.
///
/// # Errors
/// [`Stop::Failure`].
pub(crate) fn make(store: &Store, place: &Path) -> Result<(), Stop> {
    remove(place).map_err(|error| Stop::Failure(format!("{}: {error}", place.display())))?;
    store.make_checkpoint(place)?;
    tracing::info!(path = %place.display(), "checkpoint made");
    Ok(())
}

/// Removes a copy if there is one.
pub(crate) fn remove(place: &Path) -> io::Result<()> {
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use tenon_config::{DatabaseSettings, DevGenesis};

    use super::*;
    use crate::opened_chain::store_options;

    #[test]
    fn copies_that_are_requested_at_the_same_time_are_made_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let genesis =
            DevGenesis { chain_id: 7, gas_limit: 1_000_000, accounts: Vec::new(), balance: tenon_api::U256::ZERO };
        let commit = tenon_chain::Genesis::from_json(&genesis.to_json()).unwrap().commit().unwrap();
        let store = Store::open(&folder.path().join("db"), store_options(&DatabaseSettings::default())).unwrap();
        store.initialise(&commit, 7).unwrap();
        let (bus, work) = (Bus::new(), WorkPool::new("test", 4, 16));
        register(&bus, &work, &DataFolder::create(folder.path()).unwrap(), Arc::clone(&store)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();

        let copies: Vec<_> = runtime.block_on(async {
            let context = CallContext::default();
            futures_util::future::join_all((0..12).map(|_| bus.call(MakeCheckpoint, &context))).await
        });

        for copy in copies {
            assert!(Path::new(&copy.unwrap()).join("CURRENT").exists());
        }
    }
}
