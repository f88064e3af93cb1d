//! Signing with an account of a device (`docs/spec/device.md 10.8`).

use async_trait::async_trait;
use tenon_accounts::{AccountsError, HashSignature, Signable, Signer};
use tenon_api::{AccountRefusal, Address, Transaction, TransactionPayload, U256};
use tenon_bus::Bus;
use tenon_device_session::{AccessListItem, DeviceError, Fees, Signature, Unsupported, WalletHandle};

use crate::person::EventPerson;
use crate::read_typed_data;
use crate::running::Caller;

/// An account of a device, for one caller.
pub(crate) struct DeviceSigner {
    pub(crate) bus: Bus,
    pub(crate) url: String,
    pub(crate) handle: WalletHandle,
    pub(crate) account: Address,
    pub(crate) caller: Caller,
}

impl DeviceSigner {
    async fn ask(&self, what: Signable<'_>) -> Result<Signature, AccountsError> {
        let (account, deadline) = (self.account, self.caller.deadline);
        let person = EventPerson::boxed(&self.bus, &self.url);
        let signed = match what {
            Signable::Message(message) => {
                self.caller.wait(self.handle.sign_message(account, message.to_vec(), person, deadline)).await
            }
            Signable::Transaction(transaction) => {
                let transaction = unsigned(transaction).map_err(refused)?;
                self.caller.wait(self.handle.sign_transaction(account, transaction, person, deadline)).await
            }
            Signable::TypedData { domain, message, data } => {
                let text = data.ok_or_else(|| refused(Unsupported::TypedData))?;
                let data = read_typed_data(text, domain, message);
                let data = data.map_err(|error| AccountsError::Wallet(error.to_string()))?;
                self.caller.wait(self.handle.sign_typed_data(account, data, person, deadline)).await
            }
            Signable::Block(_) => return Err(refused(Unsupported::Hash).into()),
        };
        if let Err(DeviceError::SignerMismatch { expected, got }) = &signed {
            let url = &self.url;
            tracing::warn!(url, account = %expected, by = %got, "a hardware wallet signed with the key of another \
                account; no other wallet is tried");
        }
        Ok(signed.map_err(AccountRefusal::from)?)
    }
}

#[async_trait]
impl Signer for DeviceSigner {
    async fn sign(&self, what: Signable<'_>) -> Result<HashSignature, AccountsError> {
        let Signature { r, s, is_odd } = self.ask(what).await?;
        Ok(HashSignature { r: U256::from_be_bytes(r), s: U256::from_be_bytes(s), y_parity: is_odd })
    }
}

/// The refusal of a request that the firmware can't fulfil.
fn refused(reason: Unsupported) -> AccountRefusal {
    DeviceError::from(reason).into()
}

/// A transaction in the form that devices accept.
fn unsigned(transaction: &Transaction) -> Result<tenon_device_session::Transaction, Unsupported> {
    let fees = match &transaction.payload {
        TransactionPayload::Legacy { gas_price } => Fees::Legacy { gas_price: *gas_price },
        TransactionPayload::DynamicFee { max_fee_per_gas, max_priority_fee_per_gas, access_list } => {
            let item = |item: &tenon_api::AccessListItem| AccessListItem {
                address: item.address,
                storage_keys: item.storage_keys.clone(),
            };
            Fees::FeeMarket {
                max_fee: *max_fee_per_gas,
                max_priority_fee: *max_priority_fee_per_gas,
                access_list: access_list.iter().map(item).collect(),
            }
        }
        TransactionPayload::AccessList { .. }
        | TransactionPayload::Blob { .. }
        | TransactionPayload::SetCode { .. } => {
            return Err(Unsupported::TransactionType);
        }
    };
    Ok(tenon_device_session::Transaction {
        chain_id: transaction.chain_id,
        nonce: transaction.nonce,
        gas_limit: transaction.gas_limit,
        to: transaction.to,
        value: transaction.value,
        data: transaction.input.clone(),
        fees,
    })
}
