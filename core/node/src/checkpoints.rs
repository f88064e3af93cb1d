//! Copies of the database that a running node makes for `tenon db backup`.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tenon_api::Failure;
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
        let _making = making.lock().unwrap_or_else(PoisonError::into_inner);
        if context.is_cancelled() {
            return Err(Failure::server("the client that requested the copy is gone"));
        }
        make(&store, &place).map_err(|error| Failure::server(error.to_string()))?;
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
