//! Transactions.

use alloy_primitives::{Address, B256, U256};
use tenon_device_framing::Message;
use tenon_proto::ethereum::{EthereumSignTx, EthereumTxAck, EthereumTxRequest};
use tenon_proto::later::EthereumSignTxEip1559;
use tenon_proto::later::ethereum_sign_tx_eip1559::EthereumAccessList;
use tenon_proto::{WireMessage as _, decode};

use crate::operations::check_path;
use crate::transaction::minimal;
use crate::{
    DerivationPath, DeviceError, DeviceInfo, Fees, Operation, Outgoing, Progress, Signature, Transaction, check,
};

/// Maximum number of data bytes in one message.
const MAX_CHUNK: usize = 1024;

/// Requests the signature of a transaction.
#[derive(Clone, Debug)]
pub struct SignTransaction {
    path: DerivationPath,
    account: Address,
    transaction: Transaction,
    hash: B256,
    /// Number of data bytes sent so far.
    sent: usize,
}

impl SignTransaction {
    /// Creates a request to sign `transaction` with `account`, which is at `path`.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device can't sign it.
    pub fn new(
        info: &DeviceInfo,
        path: DerivationPath,
        account: Address,
        transaction: Transaction,
    ) -> Result<Self, DeviceError> {
        check_path(&path)?;
        transaction.check(info)?;
        let hash = transaction.signing_hash();
        Ok(Self { path, account, transaction, hash, sent: 0 })
    }

    /// Takes the next bytes of the data.
    fn take_data(&mut self, count: usize) -> Vec<u8> {
        let chunk = self.transaction.data[self.sent..][..count].to_vec();
        self.sent += count;
        chunk
    }

    /// The recipient: always `0x` and 40 digits, even on chains with another address format.
    fn recipient(&self) -> Option<String> {
        self.transaction.to.map(|to| to.to_string())
    }

    fn legacy(&mut self, gas_price: U256) -> Outgoing {
        let first = self.take_data(self.transaction.data.len().min(MAX_CHUNK));
        let transaction = &self.transaction;
        Outgoing::new(&EthereumSignTx {
            address_n: self.path.elements().to_vec(),
            nonce: Some(minimal(U256::from(transaction.nonce))),
            gas_price: Some(minimal(gas_price)),
            gas_limit: Some(minimal(U256::from(transaction.gas_limit))),
            // Firmware before 1.8.0 and 2.1.0 reads the bytes, later firmware the text.
            to_binary: transaction.to.map(|to| to.to_vec()),
            value: Some(minimal(transaction.value)),
            data_initial_chunk: (!first.is_empty()).then_some(first),
            data_length: u32::try_from(transaction.data.len()).ok(),
            chain_id: transaction.chain_id,
            tx_type: None,
            to: self.recipient(),
        })
    }

    fn fee_market(&mut self, max_fee: U256, max_priority_fee: U256) -> Outgoing {
        let first = self.take_data(self.transaction.data.len().min(MAX_CHUNK));
        let transaction = &self.transaction;
        let items = match &transaction.fees {
            Fees::FeeMarket { access_list, .. } => access_list.as_slice(),
            Fees::Legacy { .. } => &[],
        };
        let item = |item: &crate::AccessListItem| EthereumAccessList {
            address: Some(item.address.to_string()),
            storage_keys: item.storage_keys.iter().map(|key| key.to_vec()).collect(),
        };
        Outgoing::new(&EthereumSignTxEip1559 {
            address_n: self.path.elements().to_vec(),
            nonce: Some(minimal(U256::from(transaction.nonce))),
            max_gas_fee: Some(minimal(max_fee)),
            max_priority_fee: Some(minimal(max_priority_fee)),
            gas_limit: Some(minimal(U256::from(transaction.gas_limit))),
            to: self.recipient(),
            value: Some(minimal(transaction.value)),
            data_initial_chunk: (!first.is_empty()).then_some(first),
            data_length: u32::try_from(transaction.data.len()).ok(),
            chain_id: transaction.chain_id,
            access_list: items.iter().map(item).collect(),
        })
    }

    /// The parity bit that v encodes (`docs/spec/device.md 6.7`).
    fn recovery_bit(&self, v: u32) -> Option<u64> {
        let v = u64::from(v);
        if v <= 1 {
            return Some(v);
        }
        match (&self.transaction.fees, self.transaction.chain_id) {
            (Fees::FeeMarket { .. }, _) => None,
            (Fees::Legacy { .. }, None) => v.checked_sub(27),
            (Fees::Legacy { .. }, Some(chain_id)) => {
                chain_id.checked_mul(2).and_then(|double| v.checked_sub(35)?.checked_sub(double))
            }
        }
    }
}

impl Operation for SignTransaction {
    type Output = Signature;

    fn request(&mut self) -> Outgoing {
        self.sent = 0;
        match self.transaction.fees {
            Fees::Legacy { gas_price } => self.legacy(gas_price),
            Fees::FeeMarket { max_fee, max_priority_fee, .. } => self.fee_market(max_fee, max_priority_fee),
        }
    }

    fn expected(&self) -> &'static [u16] {
        &[EthereumTxRequest::ID]
    }

    fn answered(&mut self, message: &Message) -> Result<Progress<Signature>, DeviceError> {
        let answer: EthereumTxRequest = decode(message.id, &message.body)?;
        let left = self.transaction.data.len() - self.sent;
        if left > 0 {
            let asked = answer.data_length();
            let count = asked as usize;
            if count == 0 || count > left || count > MAX_CHUNK {
                return Err(DeviceError::DataRequest { asked, left });
            }
            let data_chunk = Some(self.take_data(count));
            return Ok(Progress::Send(Outgoing::new(&EthereumTxAck { data_chunk })));
        }
        let (Some(v), Some(r), Some(s)) = (answer.signature_v, &answer.signature_r, &answer.signature_s) else {
            if answer.data_length() > 0 {
                return Err(DeviceError::DataRequest { asked: answer.data_length(), left });
            }
            return Err(DeviceError::LacksSignature);
        };
        let bit = self.recovery_bit(v).ok_or(DeviceError::InvalidSignature)?;
        check::signature(r, s, bit, self.hash, self.account).map(Progress::Done)
    }
}
