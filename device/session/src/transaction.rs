//! Transactions that devices sign.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rlp::{Encodable, Header};

use crate::{DeviceInfo, Signature, Unsupported};

/// The longest data that a device takes, bytes.
const MAX_DATA: usize = 16_000_000;

/// The bytes of gas price and gas limit together.
const MAX_FEE_BYTES: usize = 30;

/// An address and the storage slots that a transaction of type 2 announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessListItem {
    /// The contract.
    pub address: Address,
    /// Its slots.
    pub storage_keys: Vec<B256>,
}

/// What a transaction pays, by its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fees {
    /// Type 0.
    Legacy {
        /// Wei for each unit of gas.
        gas_price: U256,
    },
    /// Type 2.
    FeeMarket {
        /// The most wei for each unit of gas.
        max_fee: U256,
        /// The most wei of it for the block's maker.
        max_priority_fee: U256,
        /// What is announced.
        access_list: Vec<AccessListItem>,
    },
}

/// A transaction without signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The chain; none for a transaction that is valid on all of them.
    pub chain_id: Option<u64>,
    /// The sender's count of transactions.
    pub nonce: u64,
    /// The most gas.
    pub gas_limit: u64,
    /// The recipient; none for the creation of a contract.
    pub to: Option<Address>,
    /// Wei.
    pub value: U256,
    /// Data.
    pub data: Bytes,
    /// The type with its fees.
    pub fees: Fees,
}

impl Transaction {
    /// The hash that a signature is over.
    pub fn signing_hash(&self) -> B256 {
        let mut list = self.members();
        if let (Fees::Legacy { .. }, Some(chain_id)) = (&self.fees, self.chain_id) {
            [chain_id, 0, 0].iter().for_each(|member| member.encode(&mut list));
        }
        keccak256(self.envelope(&list))
    }

    /// The transaction with its signature, as nodes take it.
    pub fn signed(&self, signature: &Signature) -> Vec<u8> {
        let mut list = self.members();
        let bit = u128::from(signature.is_odd);
        let v = match (&self.fees, self.chain_id) {
            (Fees::FeeMarket { .. }, _) => bit,
            (Fees::Legacy { .. }, None) => 27 + bit,
            // In 128 bits: twice a chain id may not fit 64.
            (Fees::Legacy { .. }, Some(chain_id)) => 35 + 2 * u128::from(chain_id) + bit,
        };
        v.encode(&mut list);
        U256::from_be_bytes(signature.r).encode(&mut list);
        U256::from_be_bytes(signature.s).encode(&mut list);
        self.envelope(&list)
    }

    /// The members in front of the signature.
    fn members(&self) -> Vec<u8> {
        let to: &[u8] = self.to.as_ref().map_or(&[], |to| to.as_slice());
        let mut list = Vec::new();
        match &self.fees {
            Fees::Legacy { gas_price } => {
                let members: [&dyn Encodable; 6] =
                    [&self.nonce, gas_price, &self.gas_limit, &to, &self.value, &self.data];
                members.iter().for_each(|member| member.encode(&mut list));
            }
            Fees::FeeMarket { max_fee, max_priority_fee, access_list } => {
                let chain_id = self.chain_id.unwrap_or_default();
                let members: [&dyn Encodable; 8] =
                    [&chain_id, &self.nonce, max_priority_fee, max_fee, &self.gas_limit, &to, &self.value, &self.data];
                members.iter().for_each(|member| member.encode(&mut list));
                encode_access_list(access_list, &mut list);
            }
        }
        list
    }

    /// A list of members with what stands in front of it.
    fn envelope(&self, members: &[u8]) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(members.len() + 10);
        if matches!(self.fees, Fees::FeeMarket { .. }) {
            encoded.push(2);
        }
        Header { list: true, payload_length: members.len() }.encode(&mut encoded);
        encoded.extend(members);
        encoded
    }

    /// Finds out whether the device can sign it.
    pub(crate) fn check(&self, info: &DeviceInfo) -> Result<(), Unsupported> {
        let price = match &self.fees {
            Fees::Legacy { gas_price } => gas_price,
            Fees::FeeMarket { .. } if !info.is_later() => return Err(Unsupported::TransactionType),
            Fees::FeeMarket { max_fee, .. } => max_fee,
        };
        match self.chain_id {
            None if info.is_later() || matches!(self.fees, Fees::FeeMarket { .. }) => {
                return Err(Unsupported::NoChainId);
            }
            Some(id) if id == 0 || (!info.is_later() && u32::try_from(id).is_err()) => {
                return Err(Unsupported::ChainId(id));
            }
            _ => {}
        }
        if self.to.is_none() && self.data.is_empty() {
            return Err(Unsupported::EmptyCreation);
        }
        if self.data.len() > MAX_DATA {
            return Err(Unsupported::DataLength { length: self.data.len(), max: MAX_DATA });
        }
        if price.byte_len() + U256::from(self.gas_limit).byte_len() > MAX_FEE_BYTES {
            return Err(Unsupported::Fees);
        }
        Ok(())
    }
}

fn encode_access_list(items: &[AccessListItem], out: &mut Vec<u8>) {
    let mut entries = Vec::new();
    for item in items {
        let mut members = Vec::new();
        item.address.encode(&mut members);
        item.storage_keys.encode(&mut members);
        Header { list: true, payload_length: members.len() }.encode(&mut entries);
        entries.extend(members);
    }
    Header { list: true, payload_length: entries.len() }.encode(out);
    out.extend(entries);
}

/// A number as devices take it: big endian, without leading zeros, empty for zero.
pub(crate) fn minimal(number: U256) -> Vec<u8> {
    number.to_be_bytes_trimmed_vec()
}
