//! Addresses in native rules (`docs/spec/chain.md` 3.1).

use alloy_primitives::{Address, address};

/// The block signers' contract, which receives signing transactions.
pub(super) const BLOCK_SIGNERS: Address = address!("0000000000000000000000000000000000000089");
/// Randomize contract.
pub(super) const RANDOMIZE: Address = address!("0000000000000000000000000000000000000090");
/// Returns whether the fee of a transaction to this receiver is burned, without the base fee as minimum
/// (`docs/spec/chain.md` 3.10).
pub fn is_exempt_receiver(receiver: Option<Address>) -> bool {
    receiver.is_some_and(|receiver| receiver == BLOCK_SIGNERS || receiver == RANDOMIZE)
}

/// An address in the reference's text form: `xdc` and the digits in EIP-55 case.
pub fn as_text(address: Address) -> String {
    address.to_checksum(None).replacen("0x", "xdc", 1)
}
