//! What is asked of the device itself.

use tenon_device_framing::Message;
use tenon_proto::WireMessage as _;
use tenon_proto::common::Success;
use tenon_proto::decode;
use tenon_proto::management::{
    Features, GetFeatures as GetFeaturesMessage, Initialize as InitializeMessage, Ping as PingMessage,
};
use zeroize::Zeroizing;

use crate::{DeviceError, DeviceInfo, Operation, Outgoing, Progress};

/// Asks who the device is, and has it go on with a session or forget it.
#[derive(Clone, Default)]
pub struct Initialize {
    /// The state or session id of earlier, as the device gave it.
    pub state: Option<Zeroizing<Vec<u8>>>,
}

impl Operation for Initialize {
    /// What the device is, and the id of its session if it has sessions.
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

/// The longest state or session id that is kept, bytes.
const MAX_STATE: usize = 64;

/// Asks whether the device is there, and whether it is the same. Unlike `Ping` it does not count as use: the device locks itself in
/// its time (checked in the firmware, `legacy/v1.8.1` and `legacy/v1.12.1`: only the home screen restarts that time).
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

/// Asks whether the device is there; has it unlocked on the way.
#[derive(Clone, Debug, Default)]
pub struct Ping {
    /// Whether the PIN is to be entered.
    pub is_pin_wanted: bool,
    /// Whether the passphrase is to be entered.
    pub is_passphrase_wanted: bool,
    /// What the device is to repeat.
    pub text: Option<String>,
}

impl Operation for Ping {
    /// What the device repeated.
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
