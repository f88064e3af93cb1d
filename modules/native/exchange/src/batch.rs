//! Batches of orders in transactions to 0x91 (`docs/spec/chain.md` 6.1).

use alloy_primitives::Bytes;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A batch in the form written by miners.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "time and hash must be well formed; nothing reads them")]
struct Batch {
    #[serde(rename = "Data")]
    data: Vec<Item>,
    #[serde(rename = "Timestamp")]
    timestamp: i64,
    #[serde(rename = "TxHash")]
    hash: alloy_primitives::B256,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    #[serde(rename = "Order")]
    order: String,
}

/// A batch that the reference might decode differently: its decoder accepts other spellings of names, duplicates and
/// more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AmbiguousBatch;

/// The RLP of each order of a batch, without the orders that the reference skips.
pub(super) fn orders_in(input: &[u8]) -> Result<Vec<Bytes>, AmbiguousBatch> {
    if !may_hold_orders(input) {
        return Ok(Vec::new());
    }
    let batch: Batch = serde_json::from_slice(input).map_err(|_| AmbiguousBatch)?;
    let decoded =
        batch.data.iter().map(|item| STANDARD.decode(&item.order).map(Bytes::from).map_err(|_| AmbiguousBatch));
    decoded.collect()
}

/// Returns whether a batch may contain orders. The reference skips batches that it cannot decode. Returns false only
/// for input that is not a JSON object, and for objects whose list is missing or empty.
pub(super) fn may_hold_orders(input: &[u8]) -> bool {
    if input.trim_ascii_start().first() != Some(&b'{') {
        return false;
    }
    let Ok(batch) = serde_json::from_slice::<Map<String, Value>>(input) else { return true };
    batch.iter().filter(|(name, _)| name.eq_ignore_ascii_case("data")).any(|(_, list)| match list {
        Value::Null => false,
        Value::Array(orders) => !orders.is_empty(),
        _ => true,
    })
}
