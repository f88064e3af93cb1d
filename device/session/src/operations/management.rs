//! Operations on the device itself.

use tenon_device_framing::Message;
use tenon_proto::WireMessage as _;
use tenon_proto::common::Success;
use tenon_proto::decode;
use tenon_proto::management::{
    Features, GetFeatures as GetFeaturesMessage, Initialize as InitializeMessage, Ping as PingMessage,
};
use zeroize::Zeroizing;

use crate::{DeviceError, DeviceInfo, Operation, Outgoing, Progress};

/// Requests the device's features, and resumes or discards its session.
#[derive(Clone, Default)]
pub struct Initialize {
    /// The session state or session id that the device returned earlier.
    pub state: Option<Zeroizing<Vec<u8>>>,
}

impl Operation for Initialize {
    /// The device's features, and the session id if the device has sessions.
    type Output = (DeviceInfo, Option<Zeroizing<Vec<u8>>>);

    fn request(&mut self) -> Outgoing {
        let mut message = InitializeMessage::default();
        message.state = self.state.as_deref().cloned();
        Outgoing::new(&message)
    }

    fn expected(&self) -> &'static [u16] {
        &[Features::ID]
    }

    fn may_need_person(&self) -> bool {
        false
    }

    fn answered(&mut self, message: &Message) -> Result<Progress<Self::Output>, DeviceError> {
        let mut features: Features = decode(message.id, &message.body)?;
        let info = DeviceInfo::new(&features)?;
        let session = features.session_id.take().map(Zeroizing::new).filter(|id| id.len() <= MAX_STATE);
        Ok(Progress::Done((info, session)))
    }
}

/// Maximum length of a stored state or session id, bytes.
const MAX_STATE: usize = 64;

/// Checks whether the device is present and still the same. Unlike `Ping` it does not count as use, so it does not
/// postpone auto-lock (checked in the firmware, `legacy/v1.8.1` and `legacy/v1.12.1`: only the home screen restarts
/// that timer).
#[derive(Clone, Copy, Debug, Default)]
pub struct GetFeatures;

impl Operation for GetFeatures {
    type Output = DeviceInfo;

    fn request(&mut self) -> Outgoing {
        Outgoing::new(&GetFeaturesMessage {})
    }

    fn expected(&self) -> &'static [u16] {
        &[Features::ID]
    }

    fn may_need_person(&self) -> bool {
        false
    }

    fn answered(&mut self, message: &Message) -> Result<Progress<DeviceInfo>, DeviceError> {
        DeviceInfo::new(&decode(message.id, &message.body)?).map(Progress::Done)
    }
}

/// Checks whether the device is present, optionally unlocking it.
#[derive(Clone, Debug, Default)]
pub struct Ping {
    /// Whether to ask for the PIN.
    pub is_pin_wanted: bool,
    /// Whether to ask for the passphrase.
    pub is_passphrase_wanted: bool,
    /// Text for the device to echo.
    pub text: Option<String>,
}

impl Operation for Ping {
    /// The echoed text.
    type Output = Vec<u8>;

    fn request(&mut self) -> Outgoing {
        let message = PingMessage {
            message: self.text.clone(),
            button_protection: None,
            pin_protection: self.is_pin_wanted.then_some(true),
            passphrase_protection: self.is_passphrase_wanted.then_some(true),
        };
        Outgoing::new(&message)
    }

    fn expected(&self) -> &'static [u16] {
        &[Success::ID]
    }

    fn may_need_person(&self) -> bool {
        self.is_pin_wanted || self.is_passphrase_wanted
    }

    fn answered(&mut self, message: &Message) -> Result<Progress<Vec<u8>>, DeviceError> {
        let success: Success = decode(message.id, &message.body)?;
        Ok(Progress::Done(success.message.unwrap_or_default()))
    }
}
