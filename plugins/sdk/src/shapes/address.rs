//! Addresses in the spelling of the reference or in that of the interface document (`docs/spec/rpc-eth.md` 4.1, 17).

use alloy_primitives::Address;
use tenon_api::messages::Spelling;

/// An address as a member name or inside a text: EIP-55 digits after `0x`, or after `xdc` in the reference's spelling.
pub fn spelled_address(spelling: Spelling, address: Address) -> String {
    let text = address.to_checksum(None);
    match spelling {
        Spelling::Own => text,
        Spelling::Reference => text.replacen("0x", "xdc", 1),
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::address;

    use super::*;

    #[test]
    fn both_spellings_have_the_digits_of_eip_55() {
        let address = address!("f39fd6e51aad88f6f4ce6ab8827279cfffb92266");

        assert_eq!(spelled_address(Spelling::Own, address), "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        assert_eq!(spelled_address(Spelling::Reference, address), "xdcf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
    }
}
