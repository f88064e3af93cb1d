//! Registers this crate's handlers.

use tenon_api::messages::{GetBadBlocks, SetHead};
use tenon_bus::{Bus, RegisterError};

use crate::ChainHandle;

/// Answers which blocks were refused, and the command to move the head.
///
/// # Errors
/// [`RegisterError`] if one of these messages already has a handler.
pub fn register(bus: &Bus, importer: ChainHandle) -> Result<(), RegisterError> {
    let reader = importer.clone();
    bus.handle(move |_: GetBadBlocks, _| {
        let reader = reader.clone();
        async move { Ok(reader.refused_blocks().await?) }
    })?;
    bus.handle(move |request: SetHead, _| {
        let importer = importer.clone();
        async move { Ok(importer.set_head(request.number).await?) }
    })
}
