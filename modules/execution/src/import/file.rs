//! Imports the blocks of a file while the node runs (`admin_importChain`).

use std::{fmt::Display, io::Read};

use tenon_api::Failure;
use tenon_bus::CallContext;
use tenon_chain::BlockStream;

use super::ChainHandle;

impl ChainHandle {
    /// Imports concatenated RLP blocks, each separately as if from a peer. Known blocks are skipped. `source` must be
    /// buffered, `name` appears in errors. Blocks the caller's thread.
    ///
    /// # Errors
    /// The source cannot be read, has other contents, or a block is refused; the blocks before it stay.
    pub fn import_blocks(&self, source: impl Read, name: &dyn Display, caller: &CallContext) -> Result<(), Failure> {
        let named = |what: &dyn Display| Failure::server(format!("{name}: {what}"));
        for block in BlockStream::new(source) {
            let block = block.map_err(|error| named(&error))?;
            if caller.is_cancelled() {
                return Err(Failure::limit("request timed out"));
            }
            if block.header.number > 0 {
                self.insert_waiting(block)?;
            }
        }
        Ok(())
    }
}
