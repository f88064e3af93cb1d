//! Refused blocks: `docs/spec/rpc-node.md` 4.3.

use tenon_sdk::{
    prelude::*,
    shapes::{JsonWriter, write_header_by_seal},
};

use crate::DebugContext;

/// `debug_getBadBlocks`: hash and header of each, oldest first.
pub(crate) async fn list(context: DebugContext) -> Result<JsonWriter, Failure> {
    let blocks = context.call(GetBadBlocks).await?;
    let mut json = JsonWriter::with_capacity(2 + blocks.len() * 2048);
    json.begin_list();
    for header in &blocks {
        json.begin_object();
        json.key("hash").data(header.hash());
        json.key("header");
        // In the form that `newHeads` announces, because the reference encodes both with the same function.
        json.raw(&write_header_by_seal(header).into_string());
        json.end_object();
    }
    json.end_list();
    Ok(json)
}
