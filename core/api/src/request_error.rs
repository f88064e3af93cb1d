//! What a module reports over the bus if it cannot answer a request.

use alloy_primitives::Bytes;

/// Why a module cannot answer a request. A caller can tell the variants apart; the text is for its user.
///
/// Each module has an error enum of its own and converts it into a [`BusError`](crate::BusError) where it answers
/// requests. `From<BusError> for Failure` gives each variant its JSON-RPC code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Something that the request names is unknown, an action is refused, or something that the module needs has
    /// failed.
    #[error("{0}")]
    Failed(String),
    /// An argument is wrong.
    #[error("{0}")]
    InvalidArgument(String),
    /// A limit of this node is reached: memory, queue, time or size.
    #[error("{0}")]
    LimitReached(String),
    /// A call was executed and reverted.
    #[error("{message}")]
    Reverted {
        /// Says that the call reverted, and why, if the output has a reason.
        message: String,
        /// The output of the call.
        output: Bytes,
    },
    /// A simulated block or one of its transactions is not valid.
    #[error("{message}")]
    Simulation {
        /// The broken rule.
        rule: SimulationRule,
        /// How it is broken, with the value found and the value expected.
        message: String,
    },
}

/// A rule for simulated blocks and their transactions. Clients know each by go-ethereum's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimulationRule {
    /// The nonce was used before.
    NonceTooLow,
    /// The nonce leaves a gap.
    NonceTooHigh,
    /// The transaction pays less than the block's base fee.
    BaseFeeTooLow,
    /// The gas limit does not cover the gas that every such transaction uses.
    IntrinsicGas,
    /// The sender cannot pay for value and gas.
    InsufficientFunds,
    /// The transactions need more gas than the block has.
    BlockGasLimit,
    /// The heights of the blocks do not rise.
    BlockNumber,
    /// The times of the blocks do not rise.
    BlockTimestamp,
    /// The init code is too long.
    InitCodeSize,
    /// The simulation is larger than this node computes for a client.
    ClientLimit,
}
