//! Transactions that devices can sign.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rlp::{Encodable, Header};

use crate::{DeviceInfo, Signature, Unsupported};

/// Maximum length of data that a device accepts, bytes.
const MAX_DATA: usize = 16_000_000;

/// Maximum length of gas price and gas limit together, bytes.
const MAX_FEE_BYTES: usize = 30;

/// An address and storage slots in the access list of a transaction of type 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessListItem {
    /// The contract.
    pub address: Address,
    /// The contract's storage slots.
    pub storage_keys: Vec<B256>,
}

/// The fees of a transaction, by transaction type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fees {
    /// Type 0.
    Legacy {
        /// Wei per unit of gas.
        gas_price: U256,
    },
    /// Type 2.
    FeeMarket {
        /// Maximum total fee, wei per unit of gas.
        max_fee: U256,
        /// Maximum part of it for the block's proposer, wei per unit of gas.
        max_priority_fee: U256,
        /// The access list.
        access_list: Vec<AccessListItem>,
    },
}

/// An unsigned transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The chain id; `None` for a transaction that is valid on all chains.
    pub chain_id: Option<u64>,
    /// The sender's nonce.
    pub nonce: u64,
    /// The gas limit.
    pub gas_limit: u64,
    /// The recipient; `None` creates a contract.
    pub to: Option<Address>,
    /// The value in wei.
    pub value: U256,
    /// The call data.
    pub data: Bytes,
    /// The transaction type and its fees.
    pub fees: Fees,
}

impl Transaction {
    /// The hash to sign.
    pub fn signing_hash(&self) -> B256 {
        let mut list = self.members();
        if let (Fees::Legacy { .. }, Some(chain_id)) = (&self.fees, self.chain_id) {
            [chain_id, 0, 0].iter().for_each(|member| member.encode(&mut list));
        }
        keccak256(self.envelope(&list))
    }

    /// Encodes the transaction with its signature, in the network format.
    pub fn signed(&self, signature: &Signature) -> Vec<u8> {
        let mut list = self.members();
        let bit = u128::from(signature.is_odd);
        let v = match (&self.fees, self.chain_id) {
            (Fees::FeeMarket { .. }, _) => bit,
            (Fees::Legacy { .. }, None) => 27 + bit,
            // In 128 bits, because twice a chain id may not fit into 64.
            (Fees::Legacy { .. }, Some(chain_id)) => 35 + 2 * u128::from(chain_id) + bit,
        };
        v.encode(&mut list);
        U256::from_be_bytes(signature.r).encode(&mut list);
        U256::from_be_bytes(signature.s).encode(&mut list);
        self.envelope(&list)
    }

    /// Encodes the members before the signature.
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

    /// Wraps encoded members into a list, with the type byte before it.
    fn envelope(&self, members: &[u8]) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(members.len() + 10);
        if matches!(self.fees, Fees::FeeMarket { .. }) {
            encoded.push(2);
        }
        Header { list: true, payload_length: members.len() }.encode(&mut encoded);
        encoded.extend(members);
        encoded
    }

    /// Checks whether the device can sign it.
    pub(crate) fn check(&self, info: &DeviceInfo) -> Result<(), Unsupported> {
        let price = match &self.fees {
            Fees::Legacy { gas_price } => gas_price,
            Fees::FeeMarket { .. } if !info.has_recent_firmware() => return Err(Unsupported::TransactionType),
            Fees::FeeMarket { max_fee, .. } => max_fee,
        };
        match self.chain_id {
            None if info.has_recent_firmware() || matches!(self.fees, Fees::FeeMarket { .. }) => {
                return Err(Unsupported::NoChainId);
            }
            Some(id) if id == 0 || (!info.has_recent_firmware() && u32::try_from(id).is_err()) => {
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

/// Encodes a number for the device: big-endian without leading zeros, empty for zero.
pub(crate) fn minimal(number: U256) -> Vec<u8> {
    number.to_be_bytes_trimmed_vec()
}
