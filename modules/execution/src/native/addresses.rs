//! Addresses in native rules (`docs/spec/chain.md` 3.1).

use alloy_primitives::{Address, address};

/// Block signers: signing transactions go there.
pub(super) const BLOCK_SIGNERS: Address = address!("0000000000000000000000000000000000000089");
/// Randomize contract.
pub(super) const RANDOMIZE: Address = address!("0000000000000000000000000000000000000090");
/// Batches of the exchange's orders.
pub(super) const TRADING: Address = address!("0000000000000000000000000000000000000091");
/// Roots of the exchange's states.
pub(super) const EXCHANGE_ROOTS: Address = address!("0000000000000000000000000000000000000092");
/// Batches of lending.
pub(super) const LENDING: Address = address!("0000000000000000000000000000000000000093");
/// Finalized trades of lending.
pub(super) const LENDING_FINALIZED: Address = address!("0000000000000000000000000000000000000094");

/// Returns whether the fee of a transaction to this receiver is burned, without the base fee as minimum
/// (`docs/spec/chain.md` 3.10).
pub(crate) fn is_exempt_receiver(receiver: Option<Address>) -> bool {
    receiver.is_some_and(|receiver| receiver == BLOCK_SIGNERS || receiver == RANDOMIZE)
}

/// An address in the reference's text form: `xdc` and the digits in EIP-55 case.
pub(crate) fn as_text(address: Address) -> String {
    address.to_checksum(None).replacen("0x", "xdc", 1)
}
