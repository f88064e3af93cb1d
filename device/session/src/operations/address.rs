//! Addresses.

use alloy_primitives::Address;
use tenon_device_framing::Message;
use tenon_proto::ethereum::{EthereumAddress, EthereumGetAddress};
use tenon_proto::{WireMessage as _, decode};

use crate::operations::check_path;
use crate::{DerivationPath, DeviceError, Operation, Outgoing, Progress, check};

/// Requests the address at a path.
#[derive(Clone, Debug)]
pub struct GetAddress {
    path: DerivationPath,
    is_shown: bool,
}

impl GetAddress {
    /// Creates a request for the address at a path. If `is_shown`, the device shows the address for comparison and asks
    /// for a confirmation.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] if no device accepts the path.
    pub fn new(path: DerivationPath, is_shown: bool) -> Result<Self, DeviceError> {
        check_path(&path)?;
        Ok(Self { path, is_shown })
    }
}

impl Operation for GetAddress {
    type Output = Address;

    fn request(&mut self) -> Outgoing {
        let address_n = self.path.elements().to_vec();
        Outgoing::new(&EthereumGetAddress { address_n, show_display: self.is_shown.then_some(true) })
    }

    fn expected(&self) -> &'static [u16] {
        &[EthereumAddress::ID]
    }

    fn answered(&mut self, message: &Message) -> Result<Progress<Address>, DeviceError> {
        let answer: EthereumAddress = decode(message.id, &message.body)?;
        check::address(answer.address_binary(), answer.address()).map(Progress::Done)
    }
}
