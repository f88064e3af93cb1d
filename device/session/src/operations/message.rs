//! Messages.

use alloy_primitives::{Address, eip191_hash_message};
use tenon_device_framing::Message;
use tenon_proto::ethereum::{EthereumMessageSignature, EthereumSignMessage};
use tenon_proto::{WireMessage as _, decode};

use crate::operations::check_path;
use crate::{DerivationPath, DeviceError, DeviceInfo, Operation, Outgoing, Progress, Signature, Unsupported, check};

/// Requests the signature of a message (EIP-191).
#[derive(Clone, Debug)]
pub struct SignMessage {
    path: DerivationPath,
    account: Address,
    message: Vec<u8>,
}

impl SignMessage {
    /// Creates a request to sign `message` with `account`, which is at `path`.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if the device can't sign it.
    pub fn new(
        info: &DeviceInfo,
        path: DerivationPath,
        account: Address,
        message: Vec<u8>,
    ) -> Result<Self, DeviceError> {
        check_path(&path)?;
        if message.len() > info.max_message() {
            let (length, max) = (message.len(), info.max_message());
            return Err(Unsupported::MessageLength { length, max }.into());
        }
        Ok(Self { path, account, message })
    }
}

impl Operation for SignMessage {
    type Output = Signature;

    fn request(&mut self) -> Outgoing {
        let address_n = self.path.elements().to_vec();
        Outgoing::new(&EthereumSignMessage { address_n, message: Some(self.message.clone()) })
    }

    fn expected(&self) -> &'static [u16] {
        &[EthereumMessageSignature::ID]
    }

    fn answered(&mut self, message: &Message) -> Result<Progress<Signature>, DeviceError> {
        let answer: EthereumMessageSignature = decode(message.id, &message.body)?;
        if answer.signature().is_empty() {
            return Err(DeviceError::LacksSignature);
        }
        let address = check::address(answer.address_binary(), answer.address())?;
        let hash = eip191_hash_message(&self.message);
        check::signature_of_65(answer.signature(), Some(address), hash, self.account).map(Progress::Done)
    }
}
