//! Copies of the database that a running node makes for `tenon db backup`.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tenon_api::Failure;
use tenon_api::messages::MakeCheckpoint;
use tenon_bus::{Bus, CallContext, WorkPool};
use tenon_storage::Store;

use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::front_ends::absolute;

/// Answers [`MakeCheckpoint`]. The copy of a node that was killed is removed.
///
/// # Errors
/// [`Stop`] when another module answers it already, or the copy can't be removed.
pub(crate) fn register(bus: &Bus, work: &WorkPool, folder: &DataFolder, store: Arc<Store>) -> Result<(), Stop> {
    let place = absolute(&folder.checkpoint());
    remove(&place).map_err(|error| Stop::DataFolder(format!("{}: {error}", place.display())))?;
    bus.handle_work(work, move |_: MakeCheckpoint, _: &CallContext| {
        make(&store, &place).map_err(|error| Failure::server(error.to_string()))?;
        Ok(place.display().to_string())
    })?;
    Ok(())
}

/// Makes a copy, and replaces the previous one.
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
