//! Blocks that were refused: `spec/rpc-node.md` 4.3.

use tenon_sdk::{prelude::*, shapes::JsonWriter};

use crate::{DebugContext, base64::encode_base64};

/// `debug_getBadBlocks`: hash and header of each, oldest first.
pub(crate) async fn list(context: DebugContext) -> Result<JsonWriter, Failure> {
    let blocks = context.call(GetBadBlocks).await?;
    let mut json = JsonWriter::with_capacity(2 + blocks.len() * 2048);
    json.begin_list();
    for header in &blocks {
        json.begin_object();
        json.key("hash").data(header.hash());
        json.key("header");
        write_header(&mut json, header);
        json.end_object();
    }
    json.end_list();
    Ok(json)
}

/// A header as Go's encoder writes it, with the native items in base64.
fn write_header(json: &mut JsonWriter, header: &SealedHeader) {
    json.begin_object();
    json.key("parentHash").data(header.parent_hash);
    json.key("sha3Uncles").data(header.ommers_hash);
    json.key("miner").data(header.beneficiary);
    json.key("stateRoot").data(header.state_root);
    json.key("transactionsRoot").data(header.transactions_root);
    json.key("receiptsRoot").data(header.receipts_root);
    json.key("logsBloom").data(header.logs_bloom);
    json.key("difficulty").quantity_256(header.difficulty);
    json.key("number").quantity(header.number);
    json.key("gasLimit").quantity(header.gas_limit);
    json.key("gasUsed").quantity(header.gas_used);
    json.key("timestamp").quantity(header.timestamp);
    json.key("extraData").data(&header.extra_data);
    json.key("mixHash").data(header.mix_hash);
    json.key("nonce").data(header.nonce);
    if let Some(seal) = &header.native_seal {
        json.key("validators").string(&encode_base64(&seal.validators));
        json.key("validator").string(&encode_base64(&seal.validator));
        json.key("penalties").string(&encode_base64(&seal.penalties));
    }
    match header.base_fee_per_gas {
        Some(base_fee) => json.key("baseFeePerGas").quantity(base_fee),
        None => json.key("baseFeePerGas").null(),
    }
    json.key("hash").data(header.hash());
    json.end_object();
}
