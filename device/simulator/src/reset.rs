//! Generating a seed and showing its mnemonic (`docs/spec/device.md 6.10`).

use coins_bip39::{English, Mnemonic, Wordlist as _};
use rand::RngCore as _;
use sha2::{Digest as _, Sha256};
use tenon_device_framing::Message;
use tenon_proto::common::Success;
use tenon_proto::management::{EntropyAck, EntropyRequest, ResetDevice};
use zeroize::Zeroizing;

use crate::device::{Device, DeviceInput, FlowResult, Mode, Stop, code, id};
use crate::model::Line;
use crate::prompts::button;

/// Number of bits per mnemonic word.
const WORD_BITS: usize = 11;

/// Id of `EntropyAck`.
const ENTROPY_ACK: u16 = 36;

impl Device {
    pub(crate) async fn reset_device(&mut self, message: &Message) -> FlowResult<()> {
        let mut request: ResetDevice = self.read(message)?;
        if self.storage.mnemonic.is_some() {
            let text = self.by_line("Device is already initialized. Use Wipe first.", "Already initialized");
            return Err(Stop::Failure(code::UNEXPECTED_MESSAGE, text));
        }
        // As measured, Model One does not use the declared default.
        let default = if self.line == Line::One { 128 } else { 256 };
        let strength = request.strength.unwrap_or(default);
        if !matches!(strength, 128 | 192 | 256) {
            return Err(match self.line {
                Line::One => Stop::Failure(code::DATA_ERROR, "Invalid seed strength"),
                Line::T => {
                    let text = "Invalid strength (has to be 128, 192 or 256 bits)";
                    Stop::Failure(code::PROCESS_ERROR, text)
                }
            });
        }
        let has_backup = !request.skip_backup() && !request.no_backup();
        if request.display_random() && !has_backup {
            let text = "Can't show internal entropy when backup is skipped";
            return Err(Stop::Failure(code::PROCESS_ERROR, text));
        }
        self.confirm(if self.line == Line::One { button::PROTECT_CALL } else { button::RESET_DEVICE }).await?;
        let mut internal = Zeroizing::new([0; 32]);
        rand::rng().fill_bytes(internal.as_mut_slice());
        if request.display_random() {
            self.confirm(button::RESET_DEVICE).await?;
        }
        let pin =
            if request.pin_protection() && self.line == Line::One { Some(self.ask_new_pin().await?) } else { None };
        let external = self.ask_entropy().await?;
        let mixed = Sha256::new().chain_update(internal.as_slice()).chain_update(external.entropy()).finalize();
        let words = words(&mixed[..strength as usize / 8]);
        if has_backup {
            self.show_words(&words).await?;
        }
        self.storage.mnemonic = Some(words);
        self.storage.pin = pin;
        self.storage.has_passphrase_protection = request.passphrase_protection();
        self.storage.label = request.label.take();
        self.storage.needs_backup = request.skip_backup() && !request.no_backup();
        self.storage.has_no_backup = request.no_backup();
        self.ram.clear_sessions();
        self.succeed("Device successfully initialized", "Initialized").await;
        Ok(())
    }

    /// Asks the host for entropy. A real Model One would also handle other requests in the meantime; here they end the
    /// flow.
    async fn ask_entropy(&mut self) -> FlowResult<EntropyAck> {
        self.send(&EntropyRequest {}).await;
        loop {
            let mode = if self.line == Line::One { Mode::Normal } else { Mode::Prompt(&[ENTROPY_ACK]) };
            match self.receive(mode).await? {
                DeviceInput::Message(message) if message.id == ENTROPY_ACK => return self.read_answer(&message),
                DeviceInput::Message(message) if message.id == id::CANCEL => {
                    return Err(Stop::Failure(code::ACTION_CANCELLED, "Action cancelled by user"));
                }
                DeviceInput::Message(message) => return Err(Stop::Replaced(message)),
                DeviceInput::Decided(_) => {}
            }
        }
    }

    /// Shows the words: Model One shows each one twice, a simulated Model T all of them at once.
    async fn show_words(&mut self, words: &str) -> FlowResult<()> {
        let screens = if self.line == Line::One { 2 * words.split(' ').count() } else { 1 };
        let kind = if self.line == Line::One { button::CONFIRM_WORD } else { button::RESET_DEVICE };
        for _ in 0..screens {
            self.confirm(kind).await?;
        }
        Ok(())
    }

    pub(crate) async fn backup_device(&mut self) -> FlowResult<()> {
        let words = self.words()?;
        self.check_pin().await?;
        if !self.storage.needs_backup {
            return Err(Stop::Failure(code::UNEXPECTED_MESSAGE, "Seed already backed up"));
        }
        self.show_words(&words).await?;
        self.storage.needs_backup = false;
        self.send(&Success { message: Some(b"Seed successfully backed up".to_vec()) }).await;
        Ok(())
    }
}

/// Whether the words are a mnemonic with a valid checksum.
pub(crate) fn is_mnemonic(words: &str) -> bool {
    Mnemonic::<English>::new_from_phrase(words).is_ok()
}

/// The BIP-39 mnemonic for 16, 24 or 32 bytes.
fn words(entropy: &[u8]) -> Zeroizing<String> {
    let checksum = Sha256::digest(entropy)[0];
    let bytes = [entropy, &[checksum]].concat();
    let bit = |at: usize| usize::from(bytes[at / 8] >> (7 - at % 8) & 1);
    let count = entropy.len() * 8 / 32 * 3;
    let index = |word: usize| (0..WORD_BITS).fold(0, |index, at| index << 1 | bit(word * WORD_BITS + at));
    let words: Vec<&str> = (0..count).filter_map(|word| English::get(index(word)).ok()).collect();
    Zeroizing::new(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_the_words_of_the_vectors_of_bip_39() {
        let first = words(&[0; 16]);
        let last = words(&[0xff; 32]);

        assert_eq!(first.as_str(), format!("{} about", ["abandon"; 11].join(" ")));
        assert_eq!(last.as_str(), format!("{} vote", ["zoo"; 23].join(" ")));
        assert!(is_mnemonic(&first) && is_mnemonic(&last) && !is_mnemonic(&["zoo"; 12].join(" ")));
    }
}
