//! Prompts: buttons, PIN and passphrase (`docs/spec/device.md 6.3` to `6.5`).

use std::time::Duration;

use rand::RngCore as _;
use rand::seq::SliceRandom as _;
use tenon_device_framing::Message;
use tenon_proto::common::{
    ButtonRequest, PassphraseAck, PassphraseRequest, PassphraseStateRequest, PinMatrixAck, PinMatrixRequest,
};
use tokio::time::{Instant, sleep_until};
use zeroize::Zeroizing;

use crate::PassphraseSource;
use crate::device::{Device, DeviceInput, FlowResult, Mode, Stop, code, id};
use crate::keys::{self, Seed};
use crate::model::Line;
use crate::storage::{Storage, passphrase_state};

/// Maximum length of a passphrase, bytes.
const MAX_PASSPHRASE: usize = 50;

/// Number of wrong PINs after which the storage is wiped.
const MAX_FAILED_PINS: u32 = 16;

/// Kinds of button requests.
pub(crate) mod button {
    pub(crate) const OTHER: i32 = 1;
    pub(crate) const RESET_DEVICE: i32 = 4;
    pub(crate) const CONFIRM_WORD: i32 = 5;
    pub(crate) const WIPE_DEVICE: i32 = 6;
    pub(crate) const PROTECT_CALL: i32 = 7;
    pub(crate) const SIGN_TX: i32 = 8;
    pub(crate) const ADDRESS: i32 = 10;
    pub(crate) const PUBLIC_KEY: i32 = 11;
    pub(crate) const PASSPHRASE_TYPE: i32 = 14;
    pub(crate) const UNKNOWN_PATH: i32 = 15;
    pub(crate) const PASSPHRASE_ENTRY: i32 = 16;
}

/// The PIN to enter.
#[derive(Clone, Copy)]
enum PinKind {
    Current = 1,
    New = 2,
    Repeated = 3,
}

impl Device {
    /// Shows a screen and waits for the person's confirmation.
    pub(crate) async fn confirm(&mut self, kind: i32) -> FlowResult<()> {
        if self.press(kind).await? {
            self.shared.observe(|observed| observed.confirmations += 1);
            return Ok(());
        }
        Err(Stop::Failure(code::ACTION_CANCELLED, self.by_line("Action cancelled by user", "Cancelled")))
    }

    /// Shows a screen; returns the person's decision. It takes effect only after the host's acknowledgement.
    async fn press(&mut self, kind: i32) -> FlowResult<bool> {
        self.send(&ButtonRequest { code: Some(kind) }).await;
        let mut decision = self.standing_decision();
        let mut is_acknowledged = false;
        loop {
            if let Some(is_confirmed) = decision.filter(|_| is_acknowledged) {
                return Ok(is_confirmed);
            }
            match self.receive(Mode::Prompt(&[id::BUTTON_ACK])).await? {
                DeviceInput::Decided(is_confirmed) => decision = Some(is_confirmed),
                DeviceInput::Message(message) if message.id == id::BUTTON_ACK => is_acknowledged = true,
                DeviceInput::Message(message) if message.id == id::CANCEL => {
                    return Err(Stop::Failure(code::ACTION_CANCELLED, "Action cancelled by user"));
                }
                // Another message that is allowed during a prompt. Model One accepts it and keeps waiting.
                DeviceInput::Message(_) => {}
            }
        }
    }

    /// Asks for the PIN if there is one and the device is locked.
    pub(crate) async fn unlock(&mut self) -> FlowResult<()> {
        if self.line == Line::T || self.ram.is_unlocked {
            return Ok(());
        }
        self.check_pin().await
    }

    /// Asks for the PIN if there is one.
    pub(crate) async fn check_pin(&mut self) -> FlowResult<()> {
        let Some(pin) = self.storage.pin.clone().filter(|_| self.line == Line::One) else {
            self.ram.is_unlocked = true;
            return Ok(());
        };
        let entered = self.ask_pin(PinKind::Current).await?;
        self.back_off().await?;
        if entered.as_ref() == Some(&pin) {
            self.storage.failed_pins = 0;
            self.ram.is_unlocked = true;
            return Ok(());
        }
        self.storage.failed_pins += 1;
        if self.storage.failed_pins >= MAX_FAILED_PINS {
            self.wipe();
        }
        Err(Stop::Failure(code::PIN_INVALID, "PIN invalid"))
    }

    pub(crate) fn wipe(&mut self) {
        self.storage = Storage::wiped();
        self.shared.set_device_id(self.storage.device_id_text());
        self.ram.clear_sessions();
        self.ram.is_unlocked = self.line == Line::T;
    }

    /// Asks for a new PIN twice.
    pub(crate) async fn ask_new_pin(&mut self) -> FlowResult<Zeroizing<String>> {
        let first = self.ask_pin(PinKind::New).await?;
        let second = self.ask_pin(PinKind::Repeated).await?;
        match first {
            Some(pin) if second.as_ref() == Some(&pin) => Ok(pin),
            _ => Err(Stop::Failure(code::PIN_MISMATCH, "PIN mismatch")),
        }
    }

    /// Shows the digits in a new arrangement; returns those at the host's positions. `None` if a position is not on the
    /// keypad.
    async fn ask_pin(&mut self, kind: PinKind) -> FlowResult<Option<Zeroizing<String>>> {
        let mut matrix = *b"123456789";
        matrix.shuffle(&mut rand::rng());
        self.pin_matrix = Some(matrix);
        self.shared.show(Some(keypad(&matrix, self.storage.pin.as_ref())));
        self.send(&PinMatrixRequest { r#type: Some(kind as i32) }).await;
        let answer = self.receive_pin().await;
        self.pin_matrix = None;
        self.shared.show(None);
        let positions = answer?;
        let digit = |position: u8| match position {
            b'1'..=b'9' => Some(char::from(matrix[usize::from(position - b'1')])),
            _ => None,
        };
        let digits: Option<String> = positions.pin().bytes().map(digit).collect();
        Ok(digits.filter(|digits| !digits.is_empty()).map(Zeroizing::new))
    }

    async fn receive_pin(&mut self) -> FlowResult<PinMatrixAck> {
        loop {
            match self.receive(Mode::Prompt(&[id::PIN_MATRIX_ACK])).await? {
                DeviceInput::Message(message) if message.id == id::PIN_MATRIX_ACK => return self.read_answer(&message),
                DeviceInput::Message(message) if message.id == id::CANCEL => {
                    return Err(Stop::Failure(code::PIN_CANCELLED, "PIN cancelled"));
                }
                DeviceInput::Message(_) | DeviceInput::Decided(_) => {}
            }
        }
    }

    /// Waits 2^f - 1 seconds after f wrong PINs. Messages that arrive in the meantime get a response in addition to the
    /// result.
    async fn back_off(&mut self) -> FlowResult<()> {
        let seconds = (1u64 << self.storage.failed_pins.min(MAX_FAILED_PINS)) - 1;
        let until = Instant::now() + Duration::from_secs(seconds).mul_f64(self.settings.time_scale.clamp(0.0, 10.0));
        loop {
            tokio::select! {
                biased;
                heard = self.receive(Mode::Prompt(&[])), if Instant::now() < until => match heard {
                    Ok(DeviceInput::Message(message)) if message.id == id::CANCEL => {
                        self.fail(code::PIN_CANCELLED, "PIN cancelled").await;
                        return Err(Stop::Failure(code::PIN_INVALID, "PIN invalid"));
                    }
                    Err(Stop::Replaced(message)) => {
                        self.initialize(&message).await?;
                        return Err(Stop::Failure(code::PIN_INVALID, "PIN invalid"));
                    }
                    Ok(_) => {}
                    Err(stop) => return Err(stop),
                },
                () = sleep_until(until) => return Ok(()),
            }
        }
    }

    /// The seed, after asking for PIN and passphrase as needed.
    pub(crate) async fn seed(&mut self) -> FlowResult<Seed> {
        let words = self.words()?;
        self.unlock().await?;
        if let Some(seed) = &self.ram.session().seed {
            return Ok(seed.clone());
        }
        let cancelled =
            (code::NOT_INITIALIZED, "Device not initialized or passphrase request cancelled or unsupported curve");
        let passphrase = self.passphrase(cancelled).await?;
        let seed = keys::seed(&words, &passphrase);
        let session = self.ram.session();
        session.passphrase = Some(passphrase);
        session.seed = Some(seed.clone());
        Ok(seed)
    }

    /// The mnemonic. Fails if the device is not set up.
    pub(crate) fn words(&self) -> FlowResult<Zeroizing<String>> {
        self.storage.mnemonic.clone().ok_or(match self.line {
            Line::One => Stop::Failure(code::NOT_INITIALIZED, "Device not initialized"),
            Line::T => Stop::Failure(code::PROCESS_ERROR, "Device is not initialized"),
        })
    }

    /// The passphrase: cached, entered, or empty if not used. `cancelled` is Model One's failure.
    pub(crate) async fn passphrase(&mut self, cancelled: (u32, &'static str)) -> FlowResult<Zeroizing<String>> {
        if let Some(passphrase) = &self.ram.session().passphrase {
            return Ok(passphrase.clone());
        }
        if !self.storage.has_passphrase_protection {
            return Ok(Zeroizing::new(String::new()));
        }
        match (self.line, self.model.has_recent_firmware()) {
            (Line::One, _) => self.passphrase_of_one(cancelled).await,
            (Line::T, false) => self.passphrase_of_early_t().await,
            (Line::T, true) => self.passphrase_of_later_t().await,
        }
    }

    async fn passphrase_of_one(&mut self, cancelled: (u32, &'static str)) -> FlowResult<Zeroizing<String>> {
        self.send(&PassphraseRequest { on_device: None }).await;
        loop {
            match self.receive(Mode::Prompt(&[id::PASSPHRASE_ACK])).await? {
                DeviceInput::Message(message) if message.id == id::PASSPHRASE_ACK => {
                    match self.read_answer::<PassphraseAck>(&message) {
                        Ok(mut answer) => return Ok(Zeroizing::new(answer.passphrase.take().unwrap_or_default())),
                        // The device sends this failure and keeps waiting.
                        Err(Stop::Failure(code, text)) => self.fail(code, text).await,
                        Err(stop) => return Err(stop),
                    }
                }
                DeviceInput::Message(message) if message.id == id::CANCEL => {
                    return Err(Stop::Failure(cancelled.0, cancelled.1));
                }
                DeviceInput::Message(_) | DeviceInput::Decided(_) => {}
            }
        }
    }

    async fn passphrase_of_early_t(&mut self) -> FlowResult<Zeroizing<String>> {
        let is_on_device = match self.storage.passphrase_source {
            PassphraseSource::Device => true,
            PassphraseSource::Host => false,
            PassphraseSource::Ask => {
                self.confirm(button::PASSPHRASE_TYPE).await.map_err(passphrase_cancelled)?;
                !self.settings.passphrase_on_device.is_empty()
            }
        };
        self.send(&PassphraseRequest { on_device: Some(is_on_device) }).await;
        let message = self.await_answer(id::PASSPHRASE_ACK).await.map_err(passphrase_cancelled)?;
        let mut answer: PassphraseAck = self.read_answer(&message)?;
        let passphrase = match (is_on_device, answer.passphrase.take()) {
            (true, Some(_)) => {
                return Err(Stop::Failure(code::PROCESS_ERROR, "Passphrase provided when it should not be"));
            }
            (true, None) => self.settings.passphrase_on_device.clone(),
            (false, Some(passphrase)) => Zeroizing::new(passphrase),
            (false, None) => return Err(Stop::Failure(code::PROCESS_ERROR, "Passphrase not provided")),
        };
        let mut salt = [0; 32];
        match answer.state().first_chunk::<32>() {
            Some(given) => salt = *given,
            None => rand::rng().fill_bytes(&mut salt),
        }
        let mut request = PassphraseStateRequest::default();
        request.state = Some(passphrase_state(self.line, &self.storage, &passphrase, &salt));
        self.send(&request).await;
        // As measured, a `Cancel` counts as the acknowledgement.
        self.receive_either(id::PASSPHRASE_STATE_ACK, id::CANCEL).await?;
        check_length(passphrase)
    }

    async fn passphrase_of_later_t(&mut self) -> FlowResult<Zeroizing<String>> {
        self.send(&PassphraseRequest { on_device: None }).await;
        let message = self.await_answer(id::PASSPHRASE_ACK).await.map_err(passphrase_cancelled)?;
        let mut answer: PassphraseAck = self.read_answer(&message)?;
        if answer.on_device() {
            if answer.passphrase.is_some() {
                return Err(Stop::Failure(code::DATA_ERROR, "Passphrase provided when it should not be"));
            }
            self.confirm(button::PASSPHRASE_ENTRY).await?;
            return check_length(self.settings.passphrase_on_device.clone());
        }
        let Some(passphrase) = answer.passphrase.take() else {
            return Err(Stop::Failure(code::DATA_ERROR, "Passphrase not provided"));
        };
        let passphrase = check_length(Zeroizing::new(passphrase))?;
        if !passphrase.is_empty() {
            self.confirm(button::OTHER).await?;
        }
        Ok(passphrase)
    }

    /// Waits for a particular response on a Model T.
    pub(crate) async fn await_answer(&mut self, wanted: u16) -> FlowResult<Message> {
        self.receive_either(wanted, wanted).await
    }

    async fn receive_either(&mut self, one: u16, other: u16) -> FlowResult<Message> {
        loop {
            if let DeviceInput::Message(message) = self.receive(Mode::Prompt(&[one, other])).await? {
                return Ok(message);
            }
        }
    }
}

/// The keypad that the device shows, and the positions of the PIN where it has one. Position 7 is on the top left.
fn keypad(matrix: &[u8; 9], pin: Option<&Zeroizing<String>>) -> String {
    let row = |first: usize| {
        let digits = matrix.iter().skip(first).take(3).map(|digit| char::from(*digit).to_string());
        digits.collect::<Vec<_>>().join(" ")
    };
    let mut text =
        format!("the device shows:  {}\n                   {}\n                   {}\n", row(6), row(3), row(0));
    if let Some(pin) = pin {
        let position = |digit: u8| matrix.iter().zip("123456789".chars()).find(|(shown, _)| **shown == digit);
        let positions: String = pin.bytes().filter_map(position).map(|(_, position)| position).collect();
        text += &format!("its PIN is at the positions {positions}\n");
    }
    text
}

fn check_length(passphrase: Zeroizing<String>) -> FlowResult<Zeroizing<String>> {
    if passphrase.len() > MAX_PASSPHRASE {
        return Err(Stop::Failure(code::DATA_ERROR, "Maximum passphrase length is 50"));
    }
    Ok(passphrase)
}

/// On a Model T, the failure text names what was cancelled.
fn passphrase_cancelled(stop: Stop) -> Stop {
    match stop {
        Stop::Failure(code::ACTION_CANCELLED, _) => Stop::Failure(code::ACTION_CANCELLED, "Passphrase cancelled"),
        stop => stop,
    }
}
