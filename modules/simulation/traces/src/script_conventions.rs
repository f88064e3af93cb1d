//! Differences between the families in how scripts run, in one table for each family. Each field is one difference and
//! can be set independently of the others:
//!
//! - `interface`: what the process of the script decides, a table of its own.
//! - `instruction_name`: the names of instructions.
//! - `counts_whole_transaction`: whose gas the object `ctx` has.

use tenon_javascript::ScriptInterface;

/// How the scripts of one family run.
pub struct ScriptConventions {
    /// The interface that a script sees.
    pub interface: ScriptInterface,
    /// Name of the instruction with an opcode.
    pub instruction_name: fn(u8) -> String,
    /// Whether the gas in the object `ctx` is that of the transaction. Otherwise it is that of the outermost frame.
    pub counts_whole_transaction: bool,
}
