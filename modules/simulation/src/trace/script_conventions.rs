//! Differences between the clients in how scripts run, in one table each for go-ethereum and the reference client. Each
//! field names one difference and can be set independently of the others:
//!
//! - `interface`: what the process of the script decides, a table of its own.
//! - `instruction_name`: the names of instructions.
//! - `counts_whole_transaction`: whose gas the object `ctx` has.

use revm::bytecode::opcode::OpCode;
use tenon_javascript::ScriptInterface;
use tenon_simulation_interface::instruction_name;

/// How the scripts of one dialect run.
pub(super) struct ScriptConventions {
    /// The interface that a script sees.
    pub(super) interface: ScriptInterface,
    /// Name of the instruction with an opcode.
    pub(super) instruction_name: fn(u8) -> String,
    /// Whether the gas in the object `ctx` is that of the transaction. Otherwise it is that of the outermost frame.
    pub(super) counts_whole_transaction: bool,
}

impl ScriptConventions {
    /// go-ethereum's.
    pub(super) const ETHEREUM: Self = Self {
        interface: ScriptInterface::ETHEREUM,
        instruction_name: |opcode| {
            OpCode::new(opcode).map_or_else(|| instruction_name(opcode).into_owned(), |known| known.as_str().to_owned())
        },
        counts_whole_transaction: true,
    };

    /// Those of the reference.
    pub(super) const REFERENCE: Self = Self {
        interface: ScriptInterface::REFERENCE,
        instruction_name: |opcode| instruction_name(opcode).into_owned(),
        counts_whole_transaction: false,
    };
}
