//! Where Solidity keeps variables (`spec/chain.md` 10).

use alloy_primitives::{Address, B256, U256, keccak256};

/// The slot of `map[key]` for a mapping at this position.
pub(super) fn mapping_slot(key: Address, position: u64) -> U256 {
    let words = [key.into_word(), B256::from(U256::from(position))].concat();
    keccak256(words).into()
}

/// The slot of an element of a dynamic array at this position.
pub(super) fn element_slot(position: u64, index: u64) -> U256 {
    let first: U256 = keccak256(B256::from(U256::from(position))).into();
    first.wrapping_add(U256::from(index))
}

/// The address in the low 20 bytes of a word.
pub(super) fn address_in(word: U256) -> Address {
    Address::from_word(word.into())
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{address, uint};

    use super::*;

    // `spec/chain.md` 11.
    #[test]
    fn slots_of_the_voting_contract_are_where_the_specification_says() {
        let candidate = address!("25c65b4b379ac37cf78357c4915f73677022eaff");
        assert_eq!(
            mapping_slot(candidate, 1),
            uint!(0xf4dd36495f675c407ac8f8d6dd8cc40162c854dba3ce4ce8919af34d0b1ed47c_U256)
        );
        assert_eq!(element_slot(8, 0), uint!(0xf3f7a9fe364faab93b216da50a3214154f22a0a2b415b23a84c8169e8b636ee3_U256));
    }
}
