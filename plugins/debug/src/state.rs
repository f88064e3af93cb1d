//! States and their differences: `docs/spec/rpc-node.md` 4.3.

use tenon_sdk::{error_texts::missing_state_text, param::ParamDescription, prelude::*, rlp, shapes::JsonWriter};

use crate::{DebugContext, Height};

/// Accounts or slots per page of a dump.
const PAGE: u64 = 20_000;

/// Maximum length of a dump, in bytes. The whole dump is built in memory before it is sent.
const MAX_DUMP: usize = 128 << 20;

/// A signed JSON integer, such as the reference's counts and positions; `null` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Integer(pub(crate) i64);

impl Param for Integer {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        match raw.kind() {
            "null" => Ok(Self(0)),
            "number" => raw.as_str().parse().map(Self).map_err(|_| {
                let number = raw.as_str();
                ArgumentError::text(format!("json: cannot unmarshal number {number} into Go value of type int"))
            }),
            kind => Err(ArgumentError::mismatch(kind, "int")),
        }
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":["integer","null"]}"#)
    }
}

/// `debug_storageRangeAt`.
pub(crate) async fn storage_range(
    context: DebugContext,
    block: B256,
    transaction_index: Integer,
    contract: Address,
    start: Bytes,
    limit: Integer,
) -> Result<JsonWriter, Failure> {
    let request = GetStorageRange { block, transaction_index: transaction_index.0, contract, start, limit: limit.0 };
    let range = context.call(request).await.or_failure()?;
    let mut json = JsonWriter::with_capacity(64 + range.slots.len() * 230);
    json.begin_object();
    json.key("storage").begin_object();
    for slot in &range.slots {
        json.key(&slot.hash.to_string()).begin_object();
        json.key("key").data(slot.slot);
        json.key("value").data(B256::from(slot.value));
        json.end_object();
    }
    json.end_object();
    json.key("nextKey").optional_data(range.next);
    json.end_object();
    Ok(json)
}

/// `debug_dumpBlock`.
pub(crate) async fn dump_block(context: DebugContext, block: BlockNumberParam) -> Result<JsonWriter, Failure> {
    let id = block.0;
    let header = context.call(GetHeader { block: id }).await?;
    let header = header.ok_or_else(|| Failure::server(format!("block #{} not found", named(id))))?;
    // By its hash from here on, so that all pages of the dump are from one block.
    let block = BlockId::hash(header.header.hash());
    let mut json = JsonWriter::with_capacity(1 << 16);
    json.begin_object();
    json.key("root").string(&digits(header.header.state_root));
    json.key("accounts").begin_object();
    let mut from = Some(Address::ZERO);
    while let Some(first) = from {
        let page = context.call(DumpAccounts { block, from: first, limit: PAGE }).await?;
        for account in &page.accounts {
            write_account(&mut json, account);
        }
        if json.len() > MAX_DUMP {
            return Err(Failure::limit(format!("the state is too large to dump: more than {MAX_DUMP} bytes")));
        }
        from = page.next;
    }
    json.end_object();
    json.end_object();
    Ok(json)
}

fn write_account(json: &mut JsonWriter, dumped: &DumpedAccount) {
    let account = &dumped.account;
    json.key(&digits(dumped.address)).begin_object();
    json.key("balance").string(&account.whole_balance().to_string());
    json.key("nonce").raw(&account.nonce.to_string());
    json.key("root").string(&digits(account.storage_root));
    json.key("codeHash").string(&digits(account.code_hash));
    json.key("code").string(&digits(&dumped.code));
    json.key("storage").begin_object();
    for (slot, value) in &dumped.slots {
        // As stored in the storage trie.
        json.key(&digits(slot)).string(&digits(rlp::encode(value)));
    }
    json.end_object();
    json.end_object();
}

/// Hexadecimal without prefix.
pub(crate) fn digits(bytes: impl AsRef<[u8]>) -> String {
    let nibbles = bytes.as_ref().iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    nibbles.filter_map(|nibble| char::from_digit(nibble.into(), 16)).collect()
}

/// A slot's value as bytes without leading zeros.
pub(crate) fn stored_value(value: U256) -> Vec<u8> {
    value.to_be_bytes_trimmed_vec()
}

fn named(id: BlockId) -> String {
    match id {
        BlockId::Number(number) => number.to_string(),
        BlockId::Hash { hash, .. } => format!("{hash:x}"),
        BlockId::Tag(tag) => format!("{tag:?}").to_lowercase(),
    }
}

/// `debug_getModifiedAccountsByNumber`: between a block and its parent, or between two blocks.
pub(crate) async fn modified_by_number(
    context: DebugContext,
    start: Height,
    end: Option<Height>,
) -> Result<Vec<Address>, Failure> {
    let first = canonical(&context, BlockId::number(start.0)).await?;
    let first = first.ok_or_else(|| Failure::server(format!("start block {:x} not found", start.0)))?;
    let last = match end {
        None => None,
        Some(end) => {
            let last = canonical(&context, BlockId::number(end.0)).await?;
            Some(last.ok_or_else(|| Failure::server(format!("end block {} not found", end.0)))?)
        }
    };
    modified(&context, first, last).await
}

/// `debug_getModifiedAccountsByHash`.
pub(crate) async fn modified_by_hash(
    context: DebugContext,
    start: B256,
    end: Option<B256>,
) -> Result<Vec<Address>, Failure> {
    let first = canonical(&context, BlockId::hash(start)).await?;
    let first = first.ok_or_else(|| Failure::server(format!("start block {start:x} not found")))?;
    let last = match end {
        None => None,
        Some(end) => {
            let last = canonical(&context, BlockId::hash(end)).await?;
            Some(last.ok_or_else(|| Failure::server(format!("end block {end:x} not found")))?)
        }
    };
    modified(&context, first, last).await
}

async fn canonical(context: &DebugContext, block: BlockId) -> Result<Option<StoredHeader>, Failure> {
    let found = context.call(GetHeader { block }).await?;
    match found {
        // States of other branches are not stored.
        Some(found) if !found.is_canonical => Err(Failure::server(missing_state_text(found.header.state_root))),
        found => Ok(found),
    }
}

async fn modified(
    context: &DebugContext,
    first: StoredHeader,
    last: Option<StoredHeader>,
) -> Result<Vec<Address>, Failure> {
    let (from, to) = match last {
        Some(last) => (first.header.number, last.header.number),
        None => {
            let number = first.header.number;
            let parent = number.checked_sub(1);
            (parent.ok_or_else(|| Failure::server(format!("block {number:x} has no parent")))?, number)
        }
    };
    if from >= to {
        return Err(Failure::server(format!("start block height ({from}) must be less than end block height ({to})")));
    }
    context.call(GetModifiedAccounts { from: BlockNumber(from), to: BlockNumber(to) }).await
}

/// `debug_preimage`.
pub(crate) async fn preimage(context: DebugContext, hash: B256) -> Result<Data, Failure> {
    let found = context.call(GetPreimage { hash }).await?;
    found.map(Data).ok_or_else(|| Failure::server("unknown preimage"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_encoded_as_in_the_trie() {
        let cases = [(0_u64, "80"), (1, "01"), (0x7f, "7f"), (0x80, "8180"), (0x0400, "820400")];
        for (number, expected) in cases {
            assert_eq!(digits(rlp::encode(U256::from(number))), expected);
        }
        assert_eq!(rlp::encode(U256::MAX).len(), 33);
    }
}
