//! Inserting the blocks of a file while the node runs (`admin_importChain`).

use std::{fs::File, io::BufReader, path::Path};

use tenon_api::Failure;
use tenon_bus::CallContext;
use tenon_chain::BlockStream;

use super::ChainHandle;

impl ChainHandle {
    /// Inserts the blocks of a file, RLP one after another, each by itself as if a peer had sent it. Those that are there
    /// already are passed over. Blocks the caller's thread.
    ///
    /// # Errors
    /// The file cannot be read, holds something else, or a block is refused; the blocks before it stay.
    pub fn import_file(&self, path: &Path, caller: &CallContext) -> Result<(), Failure> {
        let named = |what: &dyn std::fmt::Display| Failure::server(format!("{}: {what}", path.display()));
        let file = File::open(path).map_err(|error| named(&error))?;
        for block in BlockStream::new(BufReader::new(file)) {
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
