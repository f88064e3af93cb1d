//! Imports the blocks of a file while the node runs (`admin_importChain`).

use std::{fmt::Display, io::Read};

use tenon_api::BusError;
use tenon_bus::CallContext;
use tenon_chain::BlockStream;

use super::{ChainHandle, ImporterError};

/// Why the blocks of a file were not all imported.
#[derive(Debug, thiserror::Error)]
pub enum FileImportError {
    /// The file cannot be read, or its bytes are not blocks.
    #[error("{name}: {reason}")]
    Source {
        /// The file.
        name: String,
        /// The reader's error.
        reason: String,
    },
    /// The caller has disconnected, or the deadline of the request has passed.
    #[error("request timed out")]
    CallerGone,
    /// A block was not imported.
    #[error(transparent)]
    Importer(#[from] ImporterError),
}

impl From<FileImportError> for BusError {
    fn from(error: FileImportError) -> Self {
        match error {
            FileImportError::CallerGone => Self::TimedOut,
            FileImportError::Importer(error) => error.into(),
            FileImportError::Source { .. } => Self::failed(error),
        }
    }
}

impl ChainHandle {
    /// Imports concatenated RLP blocks, each separately as if from a peer. Known blocks are skipped. `source` must be
    /// buffered, `name` appears in errors. Blocks the caller's thread.
    ///
    /// # Errors
    /// [`FileImportError`]; the blocks before the refused one stay.
    pub fn import_blocks(
        &self,
        source: impl Read,
        name: &dyn Display,
        caller: &CallContext,
    ) -> Result<(), FileImportError> {
        for block in BlockStream::new(source) {
            let block =
                block.map_err(|error| FileImportError::Source { name: name.to_string(), reason: error.to_string() })?;
            if caller.is_cancelled() {
                return Err(FileImportError::CallerGone);
            }
            if block.header.number > 0 {
                self.insert_waiting(block)?;
            }
        }
        Ok(())
    }
}
