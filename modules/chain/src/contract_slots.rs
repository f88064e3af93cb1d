//! Storage slots of system contracts that clients read (`docs/spec/chain.md` 10): Solidity's layout, and the look-up
//! that both fees and rewards need.

use alloy_primitives::{Address, B256, U256, address, keccak256};

/// The voting contract: candidates, their stakes and owners.
pub const VALIDATOR_CONTRACT: Address = address!("0000000000000000000000000000000000000088");

/// `validatorsState` of the voting contract: the records of candidates (`docs/spec/chain.md` 10.1).
const VALIDATORS_STATE: U256 = U256::ONE;

/// The slot of a variable at this position.
pub fn variable_slot(position: u64) -> B256 {
    B256::from(U256::from(position))
}

/// The slot of `map[key]` for a mapping at this position.
pub fn mapping_slot(key: B256, position: U256) -> B256 {
    keccak256([key, B256::from(position)].concat())
}

/// The slot of an element of a dynamic array at this position.
pub fn element_slot(position: B256, index: u64) -> B256 {
    U256::from_be_bytes(keccak256(position).0).wrapping_add(U256::from(index)).into()
}

/// The address in the low 20 bytes of a word.
pub fn address_in(word: U256) -> Address {
    Address::from_word(word.into())
}

/// The first slot of the voting contract's record of a candidate, which contains the owner.
pub fn candidate_record(candidate: Address) -> B256 {
    mapping_slot(candidate.into_word(), VALIDATORS_STATE)
}

/// The owner of a masternode, who receives its payments (`docs/spec/chain.md` 4.2, 4.3). Zero if it is not a candidate.
/// `read` returns a slot of a contract in the relevant state.
///
/// # Errors
/// Those of `read`.
pub fn masternode_owner<E>(
    masternode: Address,
    read: impl FnOnce(Address, B256) -> Result<U256, E>,
) -> Result<Address, E> {
    read(VALIDATOR_CONTRACT, candidate_record(masternode)).map(address_in)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{b256, uint};

    use super::*;

    // `docs/spec/chain.md` 11.
    #[test]
    fn slots_of_the_voting_contract_match_the_specification() {
        let candidate = address!("25c65b4b379ac37cf78357c4915f73677022eaff");
        let record = b256!("f4dd36495f675c407ac8f8d6dd8cc40162c854dba3ce4ce8919af34d0b1ed47c");
        assert_eq!(candidate_record(candidate), record);
        let candidates = B256::from(uint!(8_U256));
        let first = b256!("f3f7a9fe364faab93b216da50a3214154f22a0a2b415b23a84c8169e8b636ee3");
        assert_eq!(element_slot(candidates, 0), first);
        assert_eq!(element_slot(candidates, 2), B256::from(U256::from_be_bytes(first.0) + uint!(2_U256)));
    }

    #[test]
    fn the_owner_is_the_low_part_of_the_first_word_of_the_record() {
        let (masternode, owner) = (Address::repeat_byte(7), Address::repeat_byte(9));
        let word = U256::from_be_bytes(owner.into_word().0) | (U256::ONE << 160);
        let read = |contract, slot| {
            assert_eq!((contract, slot), (VALIDATOR_CONTRACT, candidate_record(masternode)));
            Ok::<_, ()>(word)
        };
        assert_eq!(masternode_owner(masternode, read), Ok(owner));
    }
}
