//! What the clients of a family do beside its rules: which fees they suggest, and how a simulated block looks.

use alloy_primitives::{Address, U256};
use revm::context::BlockEnv;
use tenon_api::{
    Header, SealedHeader,
    messages::{BlockOverrides, BlockToSimulate},
};
use tenon_execution_interface::Fees;

/// Choices of a family that are the same for every block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conventions {
    /// The suggested tip before any block was sampled, wei.
    pub initial_tip: U256,
    /// What a block without samples counts as, as a divisor of the last suggested tip: with more than one the tip falls
    /// to the minimum on an idle chain.
    pub idle_tip_divisor: u64,
    /// Whether a fee history up to the pending block has one block less, because it ends at the head.
    pub history_lacks_pending: bool,
    /// Whether mining a simulated block pays.
    pub pays_simulated_blocks: bool,
}

/// What a family decides about simulated blocks, and about fees that are suggested. The provided methods suit a chain
/// without items of its own in headers.
pub trait SimulatedBlockFamily {
    /// The choices that are the same for every block.
    fn conventions(&self) -> &'static Conventions;

    /// Adds to the header of a simulated block the items that its fork demands. Its base fee is known.
    fn complete_simulated(&self, header: &mut Header, parent: &SealedHeader, wanted: &BlockToSimulate);

    /// Receiver of what a simulated block pays. `base` is the author of the block on which the simulation stands.
    fn simulated_author(&self, header: &Header, _wanted: Option<Address>, _base: Address) -> Address {
        header.beneficiary
    }

    /// Applies what instructions of a simulated block see beside its header.
    fn override_simulated(&self, overrides: &BlockOverrides, block: &mut BlockEnv);

    /// The fees of a simulated call without validation, which is then a message as in `eth_call`; `None` if the block
    /// treats it like any transaction.
    fn simulated_fees(&self) -> Option<Fees> {
        None
    }

    /// Minimum price of a transaction in the block after `head`, wei, where the tip is the whole price.
    fn min_tip(&self, _head: &Header) -> U256 {
        U256::ZERO
    }
}
