//! What an exchange is for.

use tenon_device_framing::Message;

use crate::{DeviceError, Outgoing};

/// What follows an answer.
#[derive(Debug)]
pub enum Progress<T> {
    /// The next message to the device.
    Send(Outgoing),
    /// The result.
    Done(T),
}

/// One request with all messages that belong to it, but for the prompts. It does no I/O.
pub trait Operation: Send {
    /// What it gives.
    type Output: Send;

    /// The request.
    fn request(&mut self) -> Outgoing;

    /// Numbers of the messages that it takes for answers.
    fn expected(&self) -> &'static [u16];

    /// Whether a person may be needed: for a button, a PIN or a passphrase. A device that asks for one all the same has lost step.
    fn may_need_person(&self) -> bool {
        true
    }

    /// Takes an answer, one of those that it expects.
    ///
    /// # Errors
    /// When the answer is none, is wrong, or asks for what there is not.
    fn answered(&mut self, message: &Message) -> Result<Progress<Self::Output>, DeviceError>;
}
