//! The `debug` namespace: traces, raw encodings and the head.
//!
//! It owns the arguments of traces and the text forms of blocks; the node makes the traces, from typed options, and the
//! SDK writes their typed results as JSON. Invariants: every trace is a slow method, so that the host limits how many
//! run; `debug_setHead` needs [`Capability::Administer`].
//!
//! Sources: `docs/spec/rpc-node.md` 4, go-ethereum's forms for the raw getters.

#![deny(unsafe_code)]

mod bad_blocks;
mod base64;
mod database;
mod print;
mod process;
mod profiles;
mod raw;
mod reexecution;
mod state;
mod trace;
mod trace_chain;

#[cfg(test)]
mod tests;

use tenon_sdk::{param::ParamDescription, prelude::*, shapes::schema};

/// The running plugin; it keeps no data.
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

/// A height: a plain number or a hexadecimal string. The reference takes a number for most methods and a string for
/// one, the interface document the reverse, so every method accepts both. Any other value is refused as not a number
/// (`docs/spec/rpc-node.md` 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Height(u64);

impl Param for Height {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        match raw.kind() {
            "string" => {
                let not_a_number = ArgumentError::mismatch("string", "uint64");
                let quantity = Quantity::decode(raw).ok().filter(|_| raw.as_str() != "\"\"");
                quantity.map(|number| Self(number.0)).ok_or(not_a_number)
            }
            _ => Number::decode(raw).map(|number| Self(number.0)),
        }
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":["integer","string","null"]}"#)
    }
}

/// Schema of `debug_accountRange`.
const ACCOUNT_RANGE: &str = concat!(
    r#"{"type":"object","required":["root","accounts"],"properties":{"#,
    r#""root":{"type":"string","pattern":"^[0-9a-f]{64}$"},"#,
    r#""accounts":{"type":"object","additionalProperties":{"type":"object","#,
    r#""required":["balance","nonce","root","codeHash","address","key"]}},"next":{"type":"string"}}}"#
);

/// Schema of `debug_executionWitness`.
const EXECUTION_WITNESS: &str = concat!(
    r#"{"type":"object","required":["headers","codes","state","keys"],"properties":{"#,
    r#""headers":{"type":"array","items":{"type":"object"}},"#,
    r#""codes":{"type":"array","items":{"type":"string"}},"state":{"type":"array","items":{"type":"string"}},"#,
    r#""keys":{"type":"null"}}}"#
);

/// JSON schemas of the results that methods write themselves.
const RESULTS: &[(&str, &str)] = &[
    ("debug_storageRangeAt", schema::OBJECT),
    ("debug_dumpBlock", schema::OBJECT),
    ("debug_memStats", schema::OBJECT),
    ("debug_gcStats", schema::OBJECT),
    ("debug_traceBlock", schema::OBJECTS),
    ("debug_traceBlockFromFile", schema::OBJECTS),
    ("debug_traceBlockByHash", schema::OBJECTS),
    ("debug_traceBlockByNumber", schema::OBJECTS),
    ("debug_getBadBlocks", schema::OBJECTS),
    ("debug_accountRange", ACCOUNT_RANGE),
    ("debug_executionWitness", EXECUTION_WITNESS),
    ("debug_getRawReceipts", r#"{"type":"array","items":{"type":"string"}}"#),
    // Depends on the tracer: an object for most, a list or a number for some.
    ("debug_traceTransaction", r#"{"type":["object","array","number","null"]}"#),
    ("debug_traceCall", r#"{"type":["object","array","number","null"]}"#),
];

fn table() -> Table<Debug> {
    let capabilities = [Capability::ReadChain, Capability::CallEvm, Capability::ReadNode, Capability::Administer];
    let table = Table::new("debug", "1.0").capabilities(&capabilities);
    with_profiles(with_process(with_states(with_traces(table))))
        .subscription("traceChain", trace_chain::subscription)
        .read("debug_getRawHeader", &["block"], "RLP of a header.", raw::header)
        .read("debug_getRawBlock", &["block"], "RLP of a block.", raw::block)
        .read("debug_getRawReceipts", &["block"], "Canonical bytes of every receipt of a block.", raw::receipts)
        .read("debug_getRawTransaction", &["hash"], "Canonical bytes of a transaction.", raw::transaction)
        .read("debug_getBlockRlp", &["number"], "RLP of a block in hexadecimal without prefix.", raw::block_rlp)
        .read("debug_printBlock", &["number"], "A block as text.", print::print_block)
        .read("debug_seedHash", &["number"], "The ethash seed of a block's epoch.", print::seed_hash)
        .slow_method("debug_setHead", &["number"], "Moves the head back to a block; destructive.", set_head)
        .results(RESULTS)
}

fn with_states(table: Table<Debug>) -> Table<Debug> {
    let range = ["blockHash", "txIndex", "contractAddress", "keyStart", "maxResult"];
    table
        .slow_read(
            "debug_storageRangeAt",
            &range,
            "Slots of a contract before a transaction of a block.",
            state::storage_range,
        )
        .slow_read("debug_dumpBlock", &["block"], "All accounts after a block.", state::dump_block)
        .slow_read(
            "debug_getModifiedAccountsByNumber",
            &["start", "end"],
            "Accounts that blocks changed.",
            state::modified_by_number,
        )
        .slow_read(
            "debug_getModifiedAccountsByHash",
            &["start", "end"],
            "Accounts that blocks changed.",
            state::modified_by_hash,
        )
        .slow_read(
            "debug_accountRange",
            &["block", "start", "maxResults", "noCode", "noStorage", "incompletes"],
            "Accounts after a block, in the order of the state trie.",
            reexecution::account_range,
        )
        .slow_read("debug_preimage", &["hash"], "The data with this keccak256 hash.", state::preimage)
        .read("debug_getBadBlocks", &[], "The newest blocks that were refused.", bad_blocks::list)
        .read("debug_dbGet", &["key"], "A record by the reference's key.", database::get)
        .read("debug_chaindbProperty", &["property"], "A property of the database.", database::property)
        .slow_method("debug_chaindbCompact", &[], "Rewrites the database without deleted records.", database::compact)
}

fn with_process(table: Table<Debug>) -> Table<Debug> {
    table
        .read("debug_memStats", &[], "Memory of the node, with Go's member names.", process::memory)
        .read(
            "debug_gcStats",
            &[],
            "Garbage collections: always zero, because there is no collector.",
            process::collections,
        )
        .read("debug_stacks", &[], "States of the node's threads.", process::stacks)
        .method(
            "debug_freeOSMemory",
            &[],
            "Does nothing: unused memory is returned to the system automatically.",
            process::free_memory,
        )
        .method(
            "debug_setGCPercent",
            &["percent"],
            "Refused: there is no garbage collector.",
            process::set_collector_target,
        )
        .method("debug_verbosity", &["level"], "Sets the log level, 0 to 5.", process::set_verbosity)
        .method("debug_vmodule", &["patterns"], "Sets the log levels of parts of the program.", process::set_modules)
}

fn with_profiles(table: Table<Debug>) -> Table<Debug> {
    const FILE: [&str; 1] = ["file"];
    const TIMED: [&str; 2] = ["file", "seconds"];
    // The timed methods only wait, so they must not occupy a place of the slow methods.
    table
        .method("debug_startCPUProfile", &FILE, "Starts a CPU profile.", profiles::start_cpu)
        .slow_method("debug_stopCPUProfile", &[], "Ends the CPU profile and writes it.", profiles::stop_cpu)
        .method("debug_cpuProfile", &TIMED, "Writes a CPU profile of the given number of seconds.", profiles::cpu)
        .method("debug_startGoTrace", &FILE, "Starts to record spans of the node's threads.", profiles::start_spans)
        .slow_method(
            "debug_stopGoTrace",
            &[],
            "Ends the recording of spans and writes it as trace events.",
            profiles::stop_spans,
        )
        .method("debug_goTrace", &TIMED, "Writes the spans of the given number of seconds.", profiles::spans)
        .slow_method("debug_writeMemProfile", &FILE, "Writes a profile of allocated memory.", profiles::write_heap)
        .method(
            "debug_blockProfile",
            &TIMED,
            "Writes a profile of all waits of the given number of seconds.",
            profiles::blocking,
        )
        .method(
            "debug_mutexProfile",
            &TIMED,
            "Writes a profile of all waits for locks of the given number of seconds.",
            profiles::locks,
        )
        .slow_method(
            "debug_writeBlockProfile",
            &FILE,
            "Writes a profile of the sampled waits.",
            profiles::write_blocking,
        )
        .slow_method(
            "debug_writeMutexProfile",
            &FILE,
            "Writes a profile of the sampled waits for locks.",
            profiles::write_locks,
        )
        .method(
            "debug_setBlockProfileRate",
            &["rate"],
            "Samples one wait per `rate` nanoseconds of waiting.",
            profiles::set_blocking_rate,
        )
        .method(
            "debug_setMutexProfileFraction",
            &["rate"],
            "Samples one of `rate` waits for locks.",
            profiles::set_lock_fraction,
        )
}

fn with_traces(table: Table<Debug>) -> Table<Debug> {
    table
        .slow_read("debug_traceTransaction", &["hash", "options"], "Replays a transaction.", trace::transaction)
        .slow_read("debug_traceBlock", &["block", "options"], "Replays a block given as RLP.", trace::raw_block)
        .slow_read(
            "debug_traceBlockFromFile",
            &["file", "options"],
            "Replays a block given as RLP in a file; the file must be in a folder of `rpc.files`.",
            trace::block_from_file,
        )
        .slow_read("debug_traceBlockByHash", &["hash", "options"], "Replays a block.", trace::block_by_hash)
        .slow_read("debug_traceBlockByNumber", &["block", "options"], "Replays a block.", trace::block_by_number)
        .slow_read(
            "debug_intermediateRoots",
            &["hash", "options"],
            "State roots after each transaction of a block.",
            reexecution::intermediate_roots,
        )
        .slow_read(
            "debug_executionWitness",
            &["block"],
            "Headers, code and trie nodes that executing a block reads.",
            reexecution::execution_witness,
        )
        .slow_read("debug_traceCall", &["transaction", "block", "options"], "Traces a call.", trace::trace_call)
}

tenon_sdk::export!(Debug, table);
