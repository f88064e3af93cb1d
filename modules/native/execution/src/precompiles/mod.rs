//! The precompiled contracts of native chains only (`docs/spec/chain.md` 5.4): two verify proofs, two return prices of
//! the exchange. Verification checks the run's interrupt between its parts, and caches results by input.

mod bulletproof;
mod curve;
mod prices;
mod ring_signature;
mod verdicts;

pub use prices::PriceRecords;

use alloy_primitives::{Address, Bytes, address};
use revm::interpreter::{CallInputs, Gas, InstructionResult, InterpreterResult};

use ProofError::{Abandoned, Invalid, Undefined};
use tenon_execution_interface::{BlockContext, ContractRecords, ExtraPrecompiles, Interrupt};

const RING_SIGNATURE: Address = address!("000000000000000000000000000000000000001e");
const BULLETPROOF: Address = address!("0000000000000000000000000000000000000028");
const LAST_PRICE: Address = address!("0000000000000000000000000000000000000029");
const EPOCH_PRICE: Address = address!("000000000000000000000000000000000000002a");

/// Their addresses.
pub(super) const EXTRA_PRECOMPILES: [Address; 4] = [RING_SIGNATURE, BULLETPROOF, LAST_PRICE, EPOCH_PRICE];

/// Gas of a proof of any size, as in the reference.
const PROOF_GAS: u64 = 100_000;

/// Why a proof was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProofError {
    /// It is invalid.
    Invalid,
    /// The reference's behaviour is undefined.
    Undefined(&'static str),
    /// The caller has disconnected, or the run's time limit has passed.
    Abandoned,
}

/// Called before each part of a proof that takes several microseconds.
///
/// # Errors
/// [`ProofError::Abandoned`].
fn check_interrupt(interrupt: &Interrupt) -> Result<(), ProofError> {
    if interrupt.reason().is_some() { Err(Abandoned) } else { Ok(()) }
}

/// The contracts of native chains, as extras of a block's precompiled contracts.
pub(super) struct NativePrecompiles;

impl ExtraPrecompiles for NativePrecompiles {
    fn addresses(&self) -> &'static [Address] {
        &EXTRA_PRECOMPILES
    }

    fn reads_records(&self, contract: Address) -> bool {
        is_price_contract(contract)
    }

    fn run(
        &self,
        contract: Address,
        context: &mut BlockContext,
        inputs: &CallInputs,
        records: Option<&dyn ContractRecords>,
    ) -> Result<InterpreterResult, String> {
        run_extra_precompile(contract, context, inputs, records)
    }

    fn failure_text(&self, contract: Address, input: &[u8]) -> Option<&'static str> {
        extra_failure_text(contract, input)
    }
}

/// Returns whether the contract returns prices of the exchange.
fn is_price_contract(contract: Address) -> bool {
    [LAST_PRICE, EPOCH_PRICE].contains(&contract)
}

/// Runs one of them. `prices` are the exchange's prices for contracts, if any.
///
/// # Errors
/// The name of a contract that this node cannot execute: its caller's block is refused. [`Interrupt::MARK`] if the run
/// must stop. A price that cannot be read ends the run with the context's error.
fn run_extra_precompile(
    contract: Address,
    context: &mut BlockContext,
    inputs: &CallInputs,
    prices: Option<&dyn ContractRecords>,
) -> Result<InterpreterResult, String> {
    if is_price_contract(contract) {
        return Ok(prices::run(contract, context, inputs, prices));
    }
    let input = inputs.input.as_bytes(context);
    let verified = match inputs.gas_limit < PROOF_GAS {
        true => Err(Invalid),
        false => verify(contract, &input, &context.chain),
    };
    let is_valid = match verified {
        Ok(()) => true,
        Err(Invalid) => false,
        Err(Undefined(what)) => return Err(format!("precompiled contract 0x28 is not executed on {what}")),
        Err(Abandoned) => return Err(Interrupt::MARK.to_owned()),
    };
    Ok(finished(inputs.gas_limit, PROOF_GAS, is_valid.then(Bytes::new)))
}

fn verify(contract: Address, input: &[u8], interrupt: &Interrupt) -> Result<(), ProofError> {
    verdicts::get_or_verify(contract, input, || match contract {
        RING_SIGNATURE => ring_signature::verify(input, interrupt),
        _ => bulletproof::verify(input, interrupt),
    })
}

/// Why one of them failed on this input, with the reference's text; `None` for other contracts.
fn extra_failure_text(contract: Address, input: &[u8]) -> Option<&'static str> {
    match contract {
        // The reference verifies the signature while decoding it, so the step afterwards never fails.
        RING_SIGNATURE => Some("fail to deserialize proof"),
        BULLETPROOF if !bulletproof::is_readable(input) => Some("failed to deserialize bulletproofs"),
        BULLETPROOF => Some("failed to verify bulletproof"),
        _ => None,
    }
}

/// For the fuzz targets: whether the contract for ring signatures (`is_ring`), or the one for range proofs, accepts an
/// input. Checks that a refusal has a reason.
#[cfg(feature = "fuzzing")]
pub(crate) fn proof_is_valid(is_ring: bool, input: &[u8]) -> bool {
    let (contract, is_valid) = match is_ring {
        true => (RING_SIGNATURE, ring_signature::verify(input, &Interrupt::never()).is_ok()),
        false => (BULLETPROOF, bulletproof::verify(input, &Interrupt::never()).is_ok()),
    };
    debug_assert!(is_valid || extra_failure_text(contract, input).is_some());
    is_valid
}

/// The result of a contract that costs `cost` and returned this output, or failed.
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

/// Proofs for one of the contracts that the reference accepts.
#[cfg(test)]
fn recorded_proofs(contract: &str) -> Vec<Vec<u8>> {
    let lines = include_str!("../../../../../tests/data/native/proofs.txt").lines();
    lines
        .filter_map(|line| line.strip_prefix(contract)?.strip_prefix(" valid "))
        .map(|digits| alloy_primitives::hex::decode(digits).unwrap())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tenon_bus::CallContext;

    use super::*;

    #[test]
    fn verification_stops_when_the_time_of_the_call_is_over() {
        let over = Interrupt::for_caller(&CallContext::new(), Some(Instant::now()));
        for proof in recorded_proofs("0x1e") {
            assert_eq!(ring_signature::verify(&proof, &Interrupt::never()), Ok(()));
            assert_eq!(ring_signature::verify(&proof, &over), Err(Abandoned));
        }
        for proof in recorded_proofs("0x28") {
            assert_eq!(bulletproof::verify(&proof, &Interrupt::never()), Ok(()));
            assert_eq!(bulletproof::verify(&proof, &over), Err(Abandoned));
        }
    }

    #[test]
    fn refused_proofs_have_the_references_texts() {
        let cases = [(0x1e, "fail to deserialize proof"), (0x28, "failed to deserialize bulletproofs")];
        for (contract, expected) in cases {
            let found = NativePrecompiles.failure_text(Address::with_last_byte(contract), &[1; 8]);
            assert_eq!(found, Some(expected), "{contract:#x}");
        }
    }

    #[test]
    fn a_proof_is_verified_once() {
        let over = Interrupt::for_caller(&CallContext::new(), Some(Instant::now()));
        for (contract, name) in [(RING_SIGNATURE, "0x1e"), (BULLETPROOF, "0x28")] {
            for proof in recorded_proofs(name) {
                assert_eq!(verify(contract, &proof, &Interrupt::never()), Ok(()));
                // There is no time left to verify it.
                assert_eq!(verify(contract, &proof, &over), Ok(()));
            }
        }
    }
}
