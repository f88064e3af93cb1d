//! How a simulated device is set up.

use std::fmt;

use zeroize::Zeroizing;

use crate::Model;

/// Who decides at the prompts of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Approval {
    /// Everything is confirmed as soon as the host has seen the prompt.
    #[default]
    Always,
    /// Everything is rejected.
    Never,
    /// The debug link, or [`Simulator::decide`](crate::Simulator::decide).
    Asked,
}

/// Where a Model T of the era has a passphrase typed.
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

/// A simulated device. `Debug` shows no secret.
#[derive(Clone)]
pub struct SimulatorSettings {
    /// The model with its firmware.
    pub model: Model,
    /// The words of its seed; none on a device that was not set up.
    pub mnemonic: Option<Zeroizing<String>>,
    /// The PIN, one to nine digits 1 to 9.
    pub pin: Option<Zeroizing<String>>,
    /// Whether a passphrase is asked for.
    pub has_passphrase_protection: bool,
    /// The label.
    pub label: Option<String>,
    /// Who decides at prompts.
    pub approval: Approval,
    /// Where a Model T has the passphrase typed.
    pub passphrase_source: PassphraseSource,
    /// What the person types on the device itself.
    pub passphrase_on_device: Zeroizing<String>,
    /// What waiting is multiplied by: 1 waits as long as a real device, 0 does not wait.
    pub time_scale: f64,
    /// Whether Model One 1.8.1 loses the first digit of lengths 10, 100 and 1000 of messages that it signs
    /// (`docs/spec/device.md 6.9`).
    pub has_message_length_bug: bool,
    /// Whether every failure's text begins with a file and a line, as those of debug builds of Model One do.
    pub has_debug_texts: bool,
}

impl SimulatorSettings {
    /// A device of this model, set up with these words, without PIN and passphrase.
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

impl fmt::Debug for SimulatorSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatorSettings").field("model", &self.model).finish_non_exhaustive()
    }
}
