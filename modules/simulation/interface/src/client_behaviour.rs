//! Behaviour of a family's clients beyond its rules: which fees they suggest, and what a simulated block looks like.

use alloy_primitives::{Address, U256};
use revm::context::BlockEnv;
use tenon_api::{
    Header, SealedHeader,
    messages::{BlockOverrides, BlockToSimulate},
};
use tenon_execution_interface::Fees;

/// Behaviour that is the same for every block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientBehaviour {
    /// The suggested tip before any block was sampled, wei.
    pub initial_tip: U256,
    /// The value of a block without samples is the last suggested tip divided by this. With a divisor above one, the
    /// tip falls to the minimum on an idle chain.
    pub idle_tip_divisor: u64,
    /// Whether a fee history up to the pending block has one block less, because it ends at the head.
    pub history_lacks_pending: bool,
    /// Whether simulated blocks pay mining rewards.
    pub pays_simulated_blocks: bool,
}

/// The decisions of a family about simulated blocks and suggested fees. The provided methods suit a chain without
/// header items of its own.
pub trait SimulatedBlockFamily {
    /// The choices that are the same for every block.
    fn client_behaviour(&self) -> &'static ClientBehaviour;

    /// Adds the items that the fork requires to the header of a simulated block. Its base fee is already set.
    fn complete_simulated(&self, header: &mut Header, parent: &SealedHeader, wanted: &BlockToSimulate);

    /// The receiver of a simulated block's fees and rewards. `base` is the author of the block on which the simulation
    /// builds.
    fn simulated_author(&self, header: &Header, _wanted: Option<Address>, _base: Address) -> Address {
        header.beneficiary
    }

    /// Applies overrides to parts of a simulated block's environment that do not come from its header.
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
