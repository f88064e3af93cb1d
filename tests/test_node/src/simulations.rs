//! Builders of simulations: calls among a few accounts, in blocks with overrides.

use alloy_primitives::{Address, Bytes, U256, address};
use tenon_api::{
    BlockId,
    messages::{AccountOverride, BlockToSimulate, CallRequest, Simulate, SimulatedBlock, SimulatedCall},
};

pub const RICH: Address = address!("c000000000000000000000000000000000000000");
pub const POOR: Address = address!("c100000000000000000000000000000000000000");
pub const CONTRACT: Address = address!("c200000000000000000000000000000000000000");

/// A transfer from the rich account to the poor one.
pub fn transfer(value: u64) -> CallRequest {
    CallRequest { from: Some(RICH), to: Some(POOR), value: Some(U256::from(value)), ..CallRequest::default() }
}

/// A call of the contract by the rich account.
pub fn to_contract() -> CallRequest {
    CallRequest { from: Some(RICH), to: Some(CONTRACT), ..CallRequest::default() }
}

/// A block of these calls.
pub fn block(calls: Vec<CallRequest>) -> BlockToSimulate {
    BlockToSimulate { calls, ..BlockToSimulate::default() }
}

/// An account's override.
pub fn account(address: Address, change: impl FnOnce(&mut AccountOverride)) -> (Address, AccountOverride) {
    let mut account = AccountOverride::default();
    change(&mut account);
    (address, account)
}

/// Makes the rich account rich.
pub fn rich() -> (Address, AccountOverride) {
    account(RICH, |account| account.balance = Some(U256::from(1_000_000_000_000_000_000_u64)))
}

/// The contract with this code.
pub fn with_code(code: &[u8]) -> (Address, AccountOverride) {
    account(CONTRACT, |account| account.code = Some(Bytes::copy_from_slice(code)))
}

/// The block with these overrides.
pub fn with_overrides(block: BlockToSimulate, overrides: Vec<(Address, AccountOverride)>) -> BlockToSimulate {
    BlockToSimulate { state_overrides: overrides, ..block }
}

/// A simulation of these blocks on the head, without validation.
pub fn simulation(blocks: Vec<BlockToSimulate>) -> Simulate {
    Simulate { base: BlockId::LATEST, blocks, traces_transfers: false, validates: false }
}

/// The calls of all blocks.
pub fn calls(blocks: &[SimulatedBlock]) -> Vec<&SimulatedCall> {
    blocks.iter().flat_map(|block| &block.calls).collect()
}
