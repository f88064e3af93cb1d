//! What a chain family implements for precompiled contracts of its own.

use alloy_primitives::{Address, Bytes};
use revm::interpreter::{CallInputs, InterpreterResult};
use tenon_api::StoreError;

use super::context::BlockContext;

/// Precompiled contracts in addition to those of a fork.
pub trait ExtraPrecompiles: Sync {
    /// Their addresses.
    fn addresses(&self) -> &'static [Address];

    /// Returns whether the contract answers from the chain's records ([`ContractRecords`]).
    fn reads_records(&self, contract: Address) -> bool;

    /// Runs one of these contracts. `records` are the records that it may read, if any.
    ///
    /// # Errors
    /// The name of a contract that this node cannot execute, for which the block is refused; or `Interrupt::MARK` if
    /// the run must stop. If a record cannot be read, the error is set in the context, and ends the run.
    fn run(
        &self,
        contract: Address,
        context: &mut BlockContext,
        inputs: &CallInputs,
        records: Option<&dyn ContractRecords>,
    ) -> Result<InterpreterResult, String>;

    /// The reference's text for the failure of one of these contracts on this input; `None` for other contracts.
    fn failure_text(&self, contract: Address, input: &[u8]) -> Option<&'static str>;
}

/// Chain data other than the state that precompiled contracts of a family read.
pub trait ContractRecords: Send + Sync {
    /// The contract's answer to an input.
    ///
    /// # Errors
    /// The database failed, or is damaged.
    fn answer(&self, contract: Address, input: &[u8]) -> Result<Bytes, StoreError>;
}
