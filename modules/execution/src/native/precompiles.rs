//! The precompiled contracts that only native chains have (`spec/chain.md` 5.4).

use alloy_primitives::{Address, Bytes, address};
use revm::interpreter::{CallInputs, Gas, InstructionResult, InterpreterResult};

use crate::block::BlockContext;

const RING_SIGNATURE: Address = address!("000000000000000000000000000000000000001e");
const BULLETPROOF: Address = address!("0000000000000000000000000000000000000028");
const LAST_PRICE: Address = address!("0000000000000000000000000000000000000029");
const EPOCH_PRICE: Address = address!("000000000000000000000000000000000000002a");

/// Where they stand.
pub(crate) const EXTRA_PRECOMPILES: [Address; 4] = [RING_SIGNATURE, BULLETPROOF, LAST_PRICE, EPOCH_PRICE];

/// Gas of a look at a price of the exchange.
const PRICE_GAS: u64 = 1;

/// Runs one of them.
///
/// # Errors
/// The name of a contract that this node cannot execute: its caller's block is refused.
pub(crate) fn run_extra_precompile(
    contract: Address,
    context: &mut BlockContext,
    inputs: &CallInputs,
) -> Result<InterpreterResult, String> {
    let _ = context;
    match contract {
        // Blocks with a trading state are refused (`exchange`), so there is never a price to be known.
        LAST_PRICE | EPOCH_PRICE => Ok(finished(inputs.gas_limit, PRICE_GAS, Some(Bytes::from_static(&[0; 32])))),
        RING_SIGNATURE => Err("precompiled contract 0x1e (ring signature) is not executed by this node".to_owned()),
        _ => Err("precompiled contract 0x28 (bulletproof) is not executed by this node".to_owned()),
    }
}

/// The result of a contract that costs `cost` and gave this output, or failed.
fn finished(gas_limit: u64, cost: u64, output: Option<Bytes>) -> InterpreterResult {
    let mut gas = Gas::new(gas_limit);
    let (result, output) = match output {
        _ if !gas.record_regular_cost(cost) => (InstructionResult::PrecompileOOG, Bytes::new()),
        Some(output) => (InstructionResult::Return, output),
        None => (InstructionResult::PrecompileError, Bytes::new()),
    };
    if result != InstructionResult::Return {
        gas.spend_all();
    }
    InterpreterResult::new(result, output, gas)
}
