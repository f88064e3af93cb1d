//! The context in which instructions and precompiled contracts run.

use revm::{
    Context, Journal,
    context::{
        BlockEnv, CfgEnv, TxEnv,
        result::{EVMError, InvalidTransaction},
    },
    interpreter::{InstructionContext, interpreter::EthInterpreter},
};

use super::interrupt::Interrupt;
use crate::state::{BlockState, StateError};

/// The context of instructions.
pub type BlockContext = Context<BlockEnv, TxEnv, CfgEnv, BlockState, Journal<BlockState>, Interrupt>;

/// The argument of an instruction.
pub type Step<'a> = InstructionContext<'a, BlockContext, EthInterpreter>;

/// Why the EVM returned no result: the transaction is not valid, or the state could not be read.
pub type EvmFailure = EVMError<StateError, InvalidTransaction>;
