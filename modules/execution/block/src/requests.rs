//! Execution-layer requests (EIP-7685): deposits, withdrawals, consolidations.

use alloy_primitives::{B256, b256};
use tenon_api::{Log, Receipt};
use tenon_execution_interface::RequestRules;

/// The type byte of deposits (EIP-6110).
const DEPOSIT_TYPE: u8 = 0;
/// `DepositEvent(bytes,bytes,bytes,bytes,bytes)`.
const DEPOSIT_EVENT: B256 = b256!("649bbc62d0e31342afea4e5cd82d4049e7e1ee912fc0889aa790803be39038c5");
/// Length of the data of a deposit log, bytes.
const DEPOSIT_LOG_LENGTH: usize = 576;
/// Offset and length of each dynamic field of a deposit log: public key, withdrawal credentials, amount, signature,
/// index (EIP-6110, `is_valid_deposit_event_data`).
const DEPOSIT_FIELDS: [(usize, usize); 5] = [(160, 48), (256, 32), (320, 8), (384, 96), (512, 8)];

/// The requests of a block, ascending by type; each is a type byte and a payload.
pub(crate) struct Requests(Vec<Vec<u8>>);

impl Requests {
    /// The deposits in these receipts.
    ///
    /// # Errors
    /// The problem of a log of the deposit contract.
    pub(crate) fn from_deposits(rules: &RequestRules, receipts: &[Receipt]) -> Result<Self, &'static str> {
        let mut deposits = vec![DEPOSIT_TYPE];
        if let Some(contract) = rules.deposit_contract {
            let logs = receipts.iter().flat_map(|receipt| &receipt.logs);
            for log in logs.filter(|log| log.address == contract && log.topics.first() == Some(&DEPOSIT_EVENT)) {
                deposit(log, &mut deposits)?;
            }
        }
        Ok(Self(vec![deposits]))
    }

    /// Adds the output of a system contract.
    pub(crate) fn push(&mut self, request_type: u8, payload: &[u8]) {
        self.0.push([&[request_type], payload].concat());
    }

    /// The commitment in the header.
    pub(crate) fn hash(&self) -> B256 {
        tenon_chain::requests_hash(&self.0)
    }
}

fn deposit(log: &Log, into: &mut Vec<u8>) -> Result<(), &'static str> {
    let data = log.data.as_ref();
    if data.len() != DEPOSIT_LOG_LENGTH {
        return Err("data is not 576 bytes long");
    }
    for (position, (start, length)) in DEPOSIT_FIELDS.into_iter().enumerate() {
        if word(data, position * 32) != Some(start) || word(data, start) != Some(length) {
            return Err("a field does not have its fixed place and size");
        }
        into.extend_from_slice(&data[start + 32..start + 32 + length]);
    }
    Ok(())
}

/// The big-endian number in the 32 bytes at `offset`, if it is small.
fn word(data: &[u8], offset: usize) -> Option<usize> {
    let (zeros, number) = data.get(offset..offset + 32)?.split_at(24);
    let number = u64::from_be_bytes(number.try_into().ok()?);
    zeros.iter().all(|byte| *byte == 0).then_some(usize::try_from(number).ok()?)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, hex};
    use tenon_api::{ReceiptOutcome, TransactionType};

    use super::*;

    fn rules() -> RequestRules {
        RequestRules { deposit_contract: Some(Address::ZERO), queues: [(1, Address::ZERO), (2, Address::ZERO)] }
    }

    fn deposit_log() -> Log {
        let mut data = vec![0; DEPOSIT_LOG_LENGTH];
        for (position, (start, length)) in DEPOSIT_FIELDS.into_iter().enumerate() {
            data[position * 32 + 24..position * 32 + 32].copy_from_slice(&(start as u64).to_be_bytes());
            data[start + 24..start + 32].copy_from_slice(&(length as u64).to_be_bytes());
            data[start + 32..start + 32 + length].fill(u8::try_from(position + 1).unwrap());
        }
        Log { address: Address::ZERO, topics: vec![DEPOSIT_EVENT], data: data.into() }
    }

    fn receipt(log: Log) -> Receipt {
        Receipt {
            transaction_type: TransactionType::Legacy,
            outcome: ReceiptOutcome::Status(true),
            cumulative_gas_used: 0,
            gas_used: 0,
            logs: vec![log],
        }
    }

    #[test]
    fn no_requests_hash_to_the_digest_of_empty_input() {
        let requests = Requests::from_deposits(&rules(), &[]).unwrap();

        assert_eq!(requests.hash().0, hex!("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
    }

    #[test]
    fn a_deposit_is_its_fields_without_padding() {
        let requests = Requests::from_deposits(&rules(), &[receipt(deposit_log())]).unwrap();

        let request = &requests.0[0];
        assert_eq!(request.len(), 1 + 48 + 32 + 8 + 96 + 8);
        assert_eq!([0, 1, 49, 81, 89, 185].map(|offset| request[offset]), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_deposit_log_of_another_layout_is_refused() {
        let mut log = deposit_log();
        let mut data = log.data.to_vec();
        data[31] = 161;
        log.data = data.into();

        assert!(Requests::from_deposits(&rules(), &[receipt(log)]).is_err());
    }
}
