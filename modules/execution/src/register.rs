//! Registers this crate's handlers.

use tenon_api::messages::{GetBadBlocks, SetHead};
use tenon_bus::{Bus, RegisterError};

use crate::ChainHandle;

/// Answers which blocks were refused, and the command to move the head.
///
/// # Errors
/// [`RegisterError`] if one of these messages already has a handler.
pub fn register(bus: &Bus, writer: ChainHandle) -> Result<(), RegisterError> {
    let reader = writer.clone();
    bus.handle(move |_: GetBadBlocks, _| {
        let reader = reader.clone();
        async move { Ok(reader.refused_blocks().await?) }
    })?;
    bus.handle(move |request: SetHead, _| {
        let writer = writer.clone();
        async move { Ok(writer.set_head(request.number).await?) }
    })
}
