//! Consensus encodings: go-ethereum's raw getters, and `debug_getBlockRlp` of the reference.

use tenon_sdk::{prelude::*, shapes::JsonWriter};

use crate::{DebugContext, Height};

pub(crate) async fn header(context: DebugContext, block: BlockParam) -> Result<Data, Failure> {
    let block = block.id()?;
    single(&context, GetRaw::Header(block), || not_found("header", block)).await
}

pub(crate) async fn block(context: DebugContext, block: BlockParam) -> Result<Data, Failure> {
    let block = block.id()?;
    single(&context, GetRaw::Block(block), || not_found("block", block)).await
}

pub(crate) async fn receipts(context: DebugContext, block: BlockParam) -> Result<JsonWriter, Failure> {
    let block = block.id()?;
    let Some(receipts) = context.call(GetRaw::Receipts(block)).await? else {
        return Err(not_found("block", block));
    };
    let bytes: usize = receipts.iter().map(|receipt| receipt.len()).sum();
    let mut json = JsonWriter::with_capacity(bytes * 2 + receipts.len() * 5 + 2);
    json.begin_list();
    for receipt in &receipts {
        json.data(receipt);
    }
    json.end_list();
    Ok(json)
}

/// A transaction of the chain or the pool; `null` if it is unknown.
pub(crate) async fn transaction(context: DebugContext, hash: B256) -> Result<Option<Data>, Failure> {
    let of_the_chain = context.call(GetRaw::Transaction(hash)).await?.and_then(|list| list.into_iter().next());
    let found = match of_the_chain {
        Some(found) => Some(found),
        None => context.call(GetRawPoolTransaction { hash }).await?,
    };
    Ok(found.map(Data))
}

/// Hexadecimal without prefix, as in the reference.
pub(crate) async fn block_rlp(context: DebugContext, number: Height) -> Result<String, Failure> {
    let request = GetRaw::Block(BlockId::number(number.0));
    let block = single(&context, request, || Failure::server(format!("block #{} not found", number.0))).await?;
    // `{:x}` of bytes writes the prefix, which this method omits.
    Ok(format!("{:x}", block.0).trim_start_matches("0x").to_owned())
}

async fn single(context: &DebugContext, request: GetRaw, missing: impl Fn() -> Failure) -> Result<Data, Failure> {
    let found = context.call(request).await?;
    found.and_then(|list| list.into_iter().next()).map(Data).ok_or_else(missing)
}

fn not_found(what: &str, block: BlockId) -> Failure {
    let name = match block {
        BlockId::Number(number) => number.to_string(),
        BlockId::Hash { hash, .. } => format!("{hash:#x}"),
        BlockId::Tag(tag) => format!("{tag:?}").to_lowercase(),
    };
    Failure::server(format!("{what} #{name} not found"))
}
