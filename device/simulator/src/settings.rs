//! Settings of a simulated device.

use zeroize::Zeroizing;

use crate::Model;

/// How prompts of the device are decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approval {
    /// Everything is confirmed as soon as the host has acknowledged the prompt.
    #[default]
    Always,
    /// Everything is rejected.
    Never,
    /// Decided over the debug link or by [`Simulator::decide`](crate::Simulator::decide).
    Asked,
}

/// Where the passphrase of a Model T with early firmware is typed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PassphraseSource {
    /// The person chooses, which takes a button request.
    #[default]
    Ask,
    /// On the device.
    Device,
    /// On the host.
    Host,
}

/// Settings of a simulated device. `Debug` shows no secret.
#[derive(Clone, derive_more::Debug)]
#[debug("SimulatorSettings({model:?})")]
pub struct SimulatorSettings {
    /// The model and firmware.
    pub model: Model,
    /// The mnemonic; `None` for a device that is not set up.
    pub mnemonic: Option<Zeroizing<String>>,
    /// The PIN: one to nine digits from 1 to 9.
    pub pin: Option<Zeroizing<String>>,
    /// Whether the device asks for a passphrase.
    pub has_passphrase_protection: bool,
    /// The label.
    pub label: Option<String>,
    /// How prompts are decided.
    pub approval: Approval,
    /// Where the passphrase is typed on a Model T.
    pub passphrase_source: PassphraseSource,
    /// The passphrase that the person types on the device.
    pub passphrase_on_device: Zeroizing<String>,
    /// Factor for delays: 1 waits as long as a real device, 0 does not wait.
    pub time_scale: f64,
    /// Whether Model One 1.8.1 omits the first digit of lengths 10, 100 and 1000 of messages that it signs
    /// (`docs/spec/device.md 6.9`).
    pub has_message_length_bug: bool,
    /// Whether every failure text begins with a file and a line, as in debug builds of Model One.
    pub has_debug_texts: bool,
}

impl SimulatorSettings {
    /// A device of this model with this mnemonic, and without PIN and passphrase.
    pub fn new(model: Model, mnemonic: &str) -> Self {
        Self {
            model,
            mnemonic: Some(Zeroizing::new(mnemonic.to_owned())),
            pin: None,
            has_passphrase_protection: false,
            label: None,
            approval: Approval::Always,
            passphrase_source: PassphraseSource::Ask,
            passphrase_on_device: Zeroizing::new(String::new()),
            time_scale: 1.0,
            has_message_length_bug: false,
            has_debug_texts: false,
        }
    }
}
