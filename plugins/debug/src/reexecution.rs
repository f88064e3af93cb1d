//! Results of executing blocks again, and ranges of accounts, in go-ethereum's current forms. The interface document
//! and the reference do not have these methods.

use tenon_sdk::{
    prelude::*,
    shapes::{JsonWriter, base64, write_header_by_seal},
};

use crate::{
    DebugContext,
    state::{Integer, digits, stored_value},
    trace::TraceArgument,
};

/// Maximum number of accounts in one answer, as in go-ethereum.
const MAX_ACCOUNTS: u64 = 256;

/// `debug_intermediateRoots`: the state root after each transaction of a block. The options are those of a trace and
/// have no effect; go-ethereum accepts them too.
pub(crate) async fn intermediate_roots(
    context: DebugContext,
    block: B256,
    _options: Option<TraceArgument>,
) -> Result<Vec<B256>, Failure> {
    context.call(GetIntermediateRoots { block }).await.or_failure()
}

/// `debug_executionWitness`. `keys` is null, as in go-ethereum, which declares it and never fills it.
pub(crate) async fn execution_witness(context: DebugContext, block: BlockParam) -> Result<JsonWriter, Failure> {
    let block = block.id()?;
    if block == BlockId::Tag(BlockTag::Pending) {
        return Err(Failure::invalid_params("the pending block has not been executed: name another block"));
    }
    let witness = context.call(GetExecutionWitness { block }).await.or_failure()?;
    let bytes: usize = witness.codes.iter().chain(&witness.nodes).map(|item| 2 * item.len() + 5).sum();
    let length = bytes + witness.headers.len() * 2048 + 64;
    // Covers the JSON text and the witness itself, which has one byte for two hex digits of the text.
    let _memory = context.hold(length.saturating_add(bytes / 2))?;
    let mut json = JsonWriter::with_capacity(length);
    json.begin_object();
    json.key("headers").begin_list();
    for header in &witness.headers {
        json.raw(&write_header_by_seal(header).into_string());
    }
    json.end_list();
    for (name, items) in [("codes", &witness.codes), ("state", &witness.nodes)] {
        json.key(name).begin_list();
        for item in items {
            json.data(item);
        }
        json.end_list();
    }
    json.key("keys").null();
    json.end_object();
    Ok(json)
}

/// `debug_accountRange`: accounts in the order of the state trie. `_incompletes` requests accounts whose address is
/// unknown; this node knows all addresses.
pub(crate) async fn account_range(
    context: DebugContext,
    block: BlockParam,
    start: Bytes,
    limit: Integer,
    no_code: Option<bool>,
    no_storage: Option<bool>,
    _incompletes: Option<bool>,
) -> Result<JsonWriter, Failure> {
    let limit = u64::try_from(limit.0).unwrap_or_default();
    let range = context
        .call(GetAccountRange {
            block: block.id()?,
            start,
            limit: if (1..=MAX_ACCOUNTS).contains(&limit) { limit } else { MAX_ACCOUNTS },
            with_code: !no_code.unwrap_or_default(),
            with_storage: !no_storage.unwrap_or_default(),
        })
        .await?;
    let mut json = JsonWriter::with_capacity(1 << 16);
    json.begin_object();
    json.key("root").string(&digits(range.root));
    json.key("accounts").begin_object();
    for account in &range.accounts {
        write_account(&mut json, account);
    }
    json.end_object();
    if let Some(next) = range.next {
        json.key("next").string(&base64(next.as_slice()));
    }
    json.end_object();
    Ok(json)
}

/// An account of a range. Empty code and storage are omitted.
fn write_account(json: &mut JsonWriter, dumped: &DumpedAccount) {
    let account = &dumped.account;
    json.key(&dumped.address.to_checksum(None)).begin_object();
    json.key("balance").string(&account.whole_balance().to_string());
    json.key("nonce").raw(&account.nonce.to_string());
    json.key("root").data(account.storage_root);
    json.key("codeHash").data(account.code_hash);
    if !dumped.code.is_empty() {
        json.key("code").data(&dumped.code);
    }
    if !dumped.slots.is_empty() {
        json.key("storage").begin_object();
        for (slot, value) in &dumped.slots {
            json.key(&slot.to_string()).string(&digits(stored_value(*value)));
        }
        json.end_object();
    }
    json.key("address").data(dumped.address);
    json.key("key").data(keccak256(dumped.address));
    json.end_object();
}
