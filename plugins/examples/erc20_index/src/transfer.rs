//! The content of a `Transfer` log.

use tenon_sdk::{api::LocatedLog, prelude::*};

use crate::keys::TransferPosition;

/// keccak256 of `Transfer(address,address,uint256)`.
pub(crate) fn topic() -> B256 {
    keccak256("Transfer(address,address,uint256)")
}

/// A transfer of an ERC-20 token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) token: Address,
    pub(crate) position: TransferPosition,
    pub(crate) transaction: B256,
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) value: U256,
}

impl Transfer {
    /// `None` if the log is not an ERC-20 transfer; those of other kinds of tokens have a fourth topic.
    pub(crate) fn of_log(located: &LocatedLog) -> Option<Self> {
        let [event, from, to] = located.log.topics.as_slice() else { return None };
        if *event != topic() || located.log.data.len() != 32 {
            return None;
        }
        Some(Self {
            token: located.log.address,
            position: TransferPosition { block: located.block_number.0, log: located.log_index },
            transaction: located.transaction_hash,
            from: Address::from_word(*from),
            to: Address::from_word(*to),
            value: U256::from_be_slice(&located.log.data),
        })
    }

    /// The record's value; the rest of the transfer is in its key.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let value = self.value.to_be_bytes::<32>();
        [self.transaction.as_slice(), self.from.as_slice(), self.to.as_slice(), &value].concat()
    }

    pub(crate) fn decode(token: Address, position: TransferPosition, record: &[u8]) -> Option<Self> {
        let (transaction, rest) = record.split_first_chunk::<32>()?;
        let (from, rest) = rest.split_first_chunk::<20>()?;
        let (to, value) = rest.split_first_chunk::<20>()?;
        Some(Self {
            token,
            position,
            transaction: B256::from(*transaction),
            from: Address::from(*from),
            to: Address::from(*to),
            value: U256::from_be_bytes::<32>(value.try_into().ok()?),
        })
    }

    /// Its accounts. The zero address represents minting and burning and has no balance.
    pub(crate) fn holders(&self) -> impl Iterator<Item = Address> {
        let second = (self.to != self.from).then_some(self.to);
        [Some(self.from), second].into_iter().flatten().filter(|holder| !holder.is_zero())
    }
}
