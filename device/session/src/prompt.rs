//! Prompts of a device, and the interface to the person who answers them.

use std::fmt;

use async_trait::async_trait;
use unicode_normalization::UnicodeNormalization as _;
use zeroize::Zeroizing;

use crate::DeviceError;

/// Maximum length of a passphrase, bytes.
const MAX_PASSPHRASE: usize = 50;

/// Maximum length of a text before normalisation, bytes. A longer one can't be normalised to 50 bytes, because no
/// character shrinks that much.
const MAX_TYPED: usize = 1000;

/// Maximum number of positions of a PIN.
const MAX_PIN: usize = 9;

/// The PIN that a device asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinKind {
    /// The current PIN.
    Current,
    /// Another PIN. This program never changes PINs, so a device has no reason to ask for it.
    Other,
}

/// A prompt of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Positions on the keypad at which the device shows the PIN's digits.
    Pin(PinKind),
    /// A passphrase.
    Passphrase {
        /// Whether it can be typed on the device instead.
        can_be_typed_on_device: bool,
    },
}

impl Prompt {
    /// The error that tells the caller to bring this answer with the next call.
    pub(crate) const fn needed(self) -> DeviceError {
        match self {
            Self::Pin(_) => DeviceError::PinNeeded,
            Self::Passphrase { .. } => DeviceError::PassphraseNeeded,
        }
    }
}

/// A prompt with a unique number that binds the answer to it: positions for one keypad are wrong on another, and a PIN
/// is not a passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedPrompt {
    /// Unique within the process.
    pub number: u64,
    /// The prompt.
    pub prompt: Prompt,
}

/// An answer to a prompt that an earlier call left open.
#[derive(Clone, Debug)]
pub struct PromptReply {
    /// The prompt's number.
    pub number: u64,
    /// The answer, which must be of the kind that the prompt asks for.
    pub answer: Answer,
}

/// A person's answer. It is wiped on drop, and `Debug` shows none of it.
#[derive(Clone)]
pub enum Answer {
    /// Positions `1` to `9` on the keypad.
    Pin(Zeroizing<String>),
    /// The passphrase. Empty for the standard wallet.
    Passphrase(Zeroizing<String>),
    /// The passphrase will be typed on the device.
    OnDevice,
    /// Refuses to answer, which cancels the request.
    Decline,
}

impl Answer {
    /// Checks the form, so that the device does not misread the answer.
    pub(crate) fn checked(self) -> Result<Self, DeviceError> {
        match self {
            Self::Pin(positions) => {
                let is_sound = (1..=MAX_PIN).contains(&positions.len())
                    && positions.bytes().all(|position| matches!(position, b'1'..=b'9'));
                if is_sound { Ok(Self::Pin(positions)) } else { Err(DeviceError::PinForm) }
            }
            Self::Passphrase(text) if text.len() > MAX_TYPED => {
                Err(DeviceError::PassphraseLength { length: text.len() })
            }
            Self::Passphrase(text) => {
                // A single allocation that is large enough: growing the string would leave copies behind that are not
                // wiped.
                let mut normal = Zeroizing::new(String::with_capacity(text.len().saturating_mul(18)));
                normal.extend(text.nfkd());
                if normal.len() > MAX_PASSPHRASE {
                    return Err(DeviceError::PassphraseLength { length: normal.len() });
                }
                Ok(Self::Passphrase(normal))
            }
            answer => Ok(answer),
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pin(_) => "Pin(..)",
            Self::Passphrase(_) => "Passphrase(..)",
            Self::OnDevice => "OnDevice",
            Self::Decline => "Decline",
        })
    }
}

/// The person who is asked during an exchange.
#[async_trait]
pub trait Person: Send {
    /// Asks the person. `None` if no person can be asked now; the exchange then waits for a later answer or is
    /// cancelled.
    async fn ask(&mut self, prompt: Prompt) -> Option<Answer>;

    /// Called when the device shows something and waits for a button.
    fn button(&mut self) {}
}

/// A [`Person`] that never answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPerson;

#[async_trait]
impl Person for NoPerson {
    async fn ask(&mut self, _: Prompt) -> Option<Answer> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passphrase(text: &str) -> Result<String, DeviceError> {
        match Answer::Passphrase(Zeroizing::new(text.into())).checked()? {
            Answer::Passphrase(text) => Ok(text.to_string()),
            answer => panic!("{answer:?}"),
        }
    }

    #[test]
    fn normalises_passphrases_and_counts_their_bytes() {
        assert_eq!(passphrase("\u{e9}\u{fb01}"), Ok("e\u{301}fi".into()));
        assert_eq!(passphrase(&"x".repeat(50)), Ok("x".repeat(50)));
        assert_eq!(passphrase(&"\u{e9}".repeat(17)), Err(DeviceError::PassphraseLength { length: 51 }));
    }

    #[test]
    fn takes_positions_only_for_a_pin() {
        let pin = |text: &str| Answer::Pin(Zeroizing::new(text.into())).checked().map(|_| ());

        assert_eq!(pin("123456789"), Ok(()));
        for wrong in ["", "1234567891", "0", "12a", "\u{661}"] {
            assert_eq!(pin(wrong), Err(DeviceError::PinForm), "{wrong}");
        }
    }

    #[test]
    fn shows_no_answer() {
        let shown = format!("{:?}", Answer::Pin(Zeroizing::new("1234".into())));

        assert_eq!(shown, "Pin(..)");
    }
}
