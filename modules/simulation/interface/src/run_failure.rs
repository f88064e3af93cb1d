//! Why a run of the EVM has no result.

use revm::context::result::{EVMError, InvalidTransaction};
use tenon_api::StoreError;
use tenon_bus::OutOfMemory;
use tenon_execution_interface::{EvmFailure, Interrupt, StateError, Stopped};

/// Why a run returned no result.
#[derive(Debug)]
pub enum RunFailure {
    /// It was stopped.
    Stopped(Stopped),
    /// The message is not valid.
    Message(InvalidTransaction),
    /// The message is not valid; this is the final text.
    Refused(String),
    /// It needed more memory, and the client's share is used up.
    OutOfMemory(OutOfMemory),
    /// The database failed, or the client's memory has no room for what was read.
    Store(StoreError),
    /// Another error of the EVM.
    Other(String),
}

impl RunFailure {
    /// Why a run of the EVM returned no result.
    pub fn from_evm(failure: EvmFailure, interrupt: &Interrupt) -> Self {
        if let Some(refused) = interrupt.refused_memory() {
            return Self::OutOfMemory(*refused);
        }
        match failure {
            EVMError::Transaction(invalid) => Self::Message(invalid),
            EVMError::Database(StateError(error)) => Self::Store(error),
            EVMError::Custom(text) if text == Interrupt::MARK => {
                Self::Stopped(interrupt.reason().unwrap_or(Stopped::CallerGone))
            }
            failure => Self::Other(failure.to_string()),
        }
    }

    /// Returns whether more gas could help, because the limit does not cover the intrinsic gas.
    pub const fn is_intrinsic_gas(&self) -> bool {
        matches!(
            self,
            Self::Message(
                InvalidTransaction::CallGasCostMoreThanGasLimit { .. }
                    | InvalidTransaction::GasFloorMoreThanGasLimit { .. }
            )
        )
    }
}
