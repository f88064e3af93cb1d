//! The purpose of an exchange.

use tenon_device_framing::Message;

use crate::{DeviceError, Outgoing};

/// What follows a response.
#[derive(Debug)]
pub enum Progress<T> {
    /// Send this message to the device.
    Send(Outgoing),
    /// The result.
    Done(T),
}

/// One request and its messages, except for prompts. It does no I/O.
pub trait Operation: Send {
    /// Type of the result.
    type Output: Send;

    /// Returns the request.
    fn request(&mut self) -> Outgoing;

    /// Ids of the messages that it accepts as responses.
    fn expected(&self) -> &'static [u16];

    /// Whether a person may be needed for a button, a PIN or a passphrase. If not, a prompt of the device means that
    /// host and device are out of step.
    fn may_need_person(&self) -> bool {
        true
    }

    /// Handles a response with one of the expected ids.
    ///
    /// # Errors
    /// The response is not valid, has a wrong value, or requests data that does not exist.
    fn answered(&mut self, message: &Message) -> Result<Progress<Self::Output>, DeviceError>;
}
