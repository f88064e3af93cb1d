//! The `debug` namespace: traces, raw encodings and the head.
//!
//! It owns how callers name what to trace and the text forms of blocks; traces themselves are made by the
//! node and pass through as finished JSON. What must always hold: every trace is a slow method, so that the
//! host bounds how many run; `debug_setHead` needs [`Capability::Administer`].
//!
//! Sources: `spec/rpc-node.md` 4, go-ethereum's forms for the raw getters.

#![deny(unsafe_code)]

mod print;
mod raw;
mod trace;

#[cfg(test)]
mod tests;

use tenon_sdk::prelude::*;

/// The running plugin; it keeps nothing.
#[derive(Default)]
pub struct Debug;

impl Plugin for Debug {
    fn start(_host: Host, _settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        Ok(Self)
    }
}

/// One call of this plugin.
type DebugContext = Context<Debug>;

/// Moves the head back to a canonical block. Destructive.
async fn set_head(context: DebugContext, number: Height) -> Result<(), Failure> {
    let head = context.call(GetHead).await?.number();
    if number.0 >= head.0 {
        return Err(Failure::server("not allowed to rewind to a future block"));
    }
    context.call(SetHead { number: BlockNumber(number.0) }).await
}

/// A height: the reference takes a plain number for most methods and a hexadecimal string for one, the seed
/// the other way round, so both are taken everywhere (`spec/rpc-node.md` 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Height(u64);

impl Param for Height {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        match raw.kind() {
            "string" => Quantity::decode(raw).map(|number| Self(number.0)),
            _ => Number::decode(raw).map(|number| Self(number.0)),
        }
    }
}

fn table() -> Table<Debug> {
    let capabilities = [Capability::ReadChain, Capability::CallEvm, Capability::Administer];
    let table = Table::new("debug", "1.0").capabilities(&capabilities);
    with_traces(table)
        .method("debug_getRawHeader", &["block"], "RLP of a header.", raw::header)
        .method("debug_getRawBlock", &["block"], "RLP of a block.", raw::block)
        .method("debug_getRawReceipts", &["block"], "Canonical bytes of every receipt of a block.", raw::receipts)
        .method("debug_getRawTransaction", &["hash"], "Canonical bytes of a transaction.", raw::transaction)
        .method("debug_getBlockRlp", &["number"], "RLP of a block in hexadecimal without prefix.", raw::block_rlp)
        .method("debug_printBlock", &["number"], "A block as text.", print::print_block)
        .method("debug_seedHash", &["number"], "The ethash seed of a block's epoch.", print::seed_hash)
        .slow_method("debug_setHead", &["number"], "Moves the head back to a block; destructive.", set_head)
}

fn with_traces(table: Table<Debug>) -> Table<Debug> {
    table
        .slow_method("debug_traceTransaction", &["hash", "options"], "Replays a transaction.", trace::transaction)
        .slow_method("debug_traceBlock", &["block", "options"], "Replays a block given as RLP.", trace::raw_block)
        .slow_method("debug_traceBlockByHash", &["hash", "options"], "Replays a block.", trace::block_by_hash)
        .slow_method("debug_traceBlockByNumber", &["block", "options"], "Replays a block.", trace::block_by_number)
        .slow_method("debug_traceCall", &["transaction", "block", "options"], "Traces a call.", trace::call)
}

tenon_sdk::export!(Debug, table);
