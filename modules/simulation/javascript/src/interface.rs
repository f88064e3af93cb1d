//! Differences between the clients in what a script sees: one table for each client.
//!
//! No other file of this crate checks the client: the others read the fields of [`ScriptInterface`]. Each field names one
//! difference and can be set independently of the others:
//!
//! - `calls_setup`: the script's `setup` gets the configuration.
//! - `checks_result_first`: which missing function an error names.
//! - `bounds_stack`: `log.stack.peek` beyond the stack is an error.
//! - `bounds_memory_words`: `log.memory.getUint` beyond the memory is an error.
//! - `pads_memory_slices`: `log.memory.slice` beyond the memory gets zeros, up to a limit.
//! - `bounds_slices`: `slice` beyond its bytes is an error.

use serde::{Deserialize, Serialize};

/// What a client decides about the interface of scripts (`docs/spec/rpc-node.md` 4.2). The node sends it to the process
/// with the script.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ScriptInterface {
    /// Whether the function `setup` of a script is called with the configuration. Otherwise it is ignored.
    pub calls_setup: bool,
    /// Whether `result` is checked before `fault`, so that the error names it if both are missing.
    pub checks_result_first: bool,
    /// Whether `log.stack.peek` throws if there is no such item. Otherwise it returns zero.
    pub bounds_stack: bool,
    /// Whether `log.memory.getUint` throws if the word is not in memory. Otherwise it returns zero.
    pub bounds_memory_words: bool,
    /// Whether `log.memory.slice` appends zeros if the memory is too short, and throws if too many are missing or the range
    /// is not one. Otherwise it returns no bytes in these cases.
    pub pads_memory_slices: bool,
    /// Whether the global function `slice` throws if the range is not in its bytes. Otherwise it returns no bytes.
    pub bounds_slices: bool,
}

impl ScriptInterface {
    /// go-ethereum's.
    pub const ETHEREUM: Self = Self {
        calls_setup: true,
        checks_result_first: true,
        bounds_stack: true,
        bounds_memory_words: true,
        pads_memory_slices: true,
        bounds_slices: true,
    };

    /// That of the reference client of native chains.
    pub const REFERENCE: Self = Self {
        calls_setup: false,
        checks_result_first: false,
        bounds_stack: false,
        bounds_memory_words: false,
        pads_memory_slices: false,
        bounds_slices: false,
    };
}
