//! Messages about the device itself: features, settings, setup (`docs/spec/device.md 6.2`, `6.10`).

use rand::RngCore as _;
use tenon_device_framing::Message;
use tenon_proto::bitcoin::{GetPublicKey, PublicKey};
use tenon_proto::common::Success;
use tenon_proto::management::{
    ApplyFlags, ApplySettings, ChangePin, Entropy, Features, GetEntropy, Initialize, LoadDevice, Ping, SetU2fCounter,
};
use zeroize::Zeroizing;

use crate::device::{Device, FlowResult, Stop, code, id};
use crate::keys::Node;
use crate::model::Line;
use crate::prompts::button;
use crate::reset::is_mnemonic;
use crate::storage::passphrase_state;
use crate::{Model, PassphraseSource};

/// Maximum number of bytes of entropy in one response.
const MAX_ENTROPY: u32 = 1024;

impl Device {
    /// Handles all messages that are not about Ethereum.
    pub(crate) async fn manage(&mut self, message: &Message) -> FlowResult<()> {
        match message.id {
            id::INITIALIZE => self.initialize(message).await,
            1 => self.ping(message).await,
            4 => self.change_pin(message).await,
            5 => self.wipe_device().await,
            9 => self.get_entropy(message).await,
            11 => self.get_public_key(message).await,
            13 => self.load_device(message).await,
            14 => self.reset_device(message).await,
            id::CANCEL => self.cancel(),
            24 => self.clear_session().await,
            25 => self.apply_settings(message).await,
            28 => self.apply_flags(message).await,
            34 => self.backup_device().await,
            36 => Err(Stop::Failure(code::UNEXPECTED_MESSAGE, "Not in Reset mode")),
            47 => Err(Stop::Failure(code::UNEXPECTED_MESSAGE, "Not in Recovery mode")),
            55 => {
                let features = self.features(None);
                self.send(&features).await;
                Ok(())
            }
            63 => self.set_u2f_counter(message).await,
            _ => Err(Stop::Failure(code::UNEXPECTED_MESSAGE, self.by_line("Unknown message", "Unexpected message"))),
        }
    }

    pub(crate) async fn initialize(&mut self, message: &Message) -> FlowResult<()> {
        let request: Initialize = self.read(message)?;
        let session = if self.model.has_recent_firmware() {
            Some(self.ram.select(request.state.as_deref()))
        } else {
            if !self.keeps_passphrase(request.state()) {
                self.ram.clear_sessions();
            }
            if self.model == Model::T && request.skip_passphrase() {
                self.ram.session().passphrase = Some(Zeroizing::new(String::new()));
            }
            None
        };
        let features = self.features(session);
        self.send(&features).await;
        Ok(())
    }

    /// Whether a session state matches the cached passphrase.
    fn keeps_passphrase(&mut self, state: &[u8]) -> bool {
        let Some(passphrase) = self.ram.session().passphrase.clone() else { return false };
        let Some(salt) = state.first_chunk::<32>() else { return false };
        passphrase_state(self.line, &self.storage, &passphrase, salt) == state
    }

    fn features(&self, session: Option<[u8; 32]>) -> Features {
        let (major, minor, patch) = self.model.version();
        let mut features = Features::default();
        features.vendor = Some("trezor.io".into());
        features.major_version = Some(major);
        features.minor_version = Some(minor);
        features.patch_version = Some(patch);
        features.device_id = Some(self.storage.device_id_text());
        features.pin_protection = Some(self.storage.pin.is_some());
        features.passphrase_protection = Some(self.storage.has_passphrase_protection);
        features.language = (self.line == Line::T).then(|| "english".into());
        features.label = self.storage.label.clone().map(String::into_bytes);
        features.initialized = Some(self.storage.mnemonic.is_some());
        features.revision = Some(self.by_line("simulatedsimulated00", "simulated").into());
        features.bootloader_hash = (self.line == Line::One).then(|| vec![0; 32]);
        features.imported = (self.line == Line::One && self.storage.is_imported).then_some(true);
        features.pin_cached = Some(match (self.line, self.model.has_recent_firmware()) {
            (Line::One, false) => self.ram.is_unlocked && self.storage.pin.is_some(),
            (Line::One, true) => self.ram.is_unlocked || self.storage.pin.is_none(),
            (Line::T, false) => self.storage.pin.is_some(),
            (Line::T, true) => true,
        });
        features.passphrase_cached = Some(self.ram.is_passphrase_cached());
        features.needs_backup = Some(self.storage.needs_backup);
        features.flags = if self.line == Line::T { Some(self.storage.flags.unwrap_or(0)) } else { self.storage.flags };
        features.model = Some(self.model.feature_name().into());
        features.unfinished_backup = Some(false);
        features.no_backup = Some(self.storage.has_no_backup);
        features.capabilities = self.model.capabilities().to_vec();
        features.session_id = session.map(|id| id.to_vec());
        features
    }

    async fn ping(&mut self, message: &Message) -> FlowResult<()> {
        let request: Ping = self.read(message)?;
        if request.button_protection() {
            self.confirm(button::PROTECT_CALL).await?;
        }
        // From 1.9.0 and 2.3.0 on, a `Ping` never asks for PIN or passphrase, so even a locked device responds to it
        // (checked in the firmware, `legacy/v1.9.0` and `core/v2.6.4`).
        let can_ask = !self.model.has_recent_firmware();
        if can_ask && request.pin_protection() {
            self.unlock().await?;
        }
        if can_ask && request.passphrase_protection() {
            let passphrase = self.passphrase((code::ACTION_CANCELLED, "Action cancelled by user")).await?;
            // As measured, a Model T does not keep it.
            if self.line == Line::One {
                self.ram.session().passphrase = Some(passphrase);
            }
        }
        self.send(&Success { message: request.message.map(String::into_bytes) }).await;
        Ok(())
    }

    fn cancel(&mut self) -> FlowResult<()> {
        self.signing = None;
        Err(Stop::Failure(code::ACTION_CANCELLED, self.by_line("Action cancelled by user", "Cancelled")))
    }

    async fn change_pin(&mut self, message: &Message) -> FlowResult<()> {
        let request: ChangePin = self.read(message)?;
        if request.remove() && self.storage.pin.is_none() {
            self.succeed("PIN removed", "PIN removed").await;
            return Ok(());
        }
        self.confirm(if self.line == Line::One { button::PROTECT_CALL } else { button::OTHER }).await?;
        self.check_pin().await?;
        if request.remove() {
            self.storage.pin = None;
            self.succeed("PIN removed", "PIN removed").await;
            return Ok(());
        }
        // On a Model T the PIN is entered on the device; the simulated person always enters the same one.
        let pin = match self.line {
            Line::One => self.ask_new_pin().await?,
            Line::T => Zeroizing::new("1234".to_owned()),
        };
        self.storage.pin = Some(pin);
        self.succeed("PIN changed", "PIN changed").await;
        Ok(())
    }

    async fn wipe_device(&mut self) -> FlowResult<()> {
        self.confirm(button::WIPE_DEVICE).await?;
        self.wipe();
        self.succeed("Device wiped", "Device wiped").await;
        Ok(())
    }

    async fn get_entropy(&mut self, message: &Message) -> FlowResult<()> {
        let request: GetEntropy = self.read(message)?;
        self.confirm(button::PROTECT_CALL).await?;
        let mut entropy = vec![0; request.size().min(MAX_ENTROPY) as usize];
        rand::rng().fill_bytes(&mut entropy);
        let mut answer = Entropy::default();
        answer.entropy = Some(entropy);
        self.send(&answer).await;
        Ok(())
    }

    async fn get_public_key(&mut self, message: &Message) -> FlowResult<()> {
        let request: GetPublicKey = self.read(message)?;
        if request.ecdsa_curve_name.as_deref().is_some_and(|curve| curve != "secp256k1") {
            return Err(Stop::Failure(code::DATA_ERROR, "Unknown curve"));
        }
        let seed = self.seed().await?;
        let node = Node::at(&seed, &request.address_n)
            .ok_or(Stop::Failure(code::PROCESS_ERROR, "Failed to derive private key"))?;
        if request.show_display() {
            self.confirm(button::PUBLIC_KEY).await?;
        }
        let mut answer = PublicKey::default();
        answer.node = Some(node.to_message());
        answer.xpub = Some(node.xpub());
        self.send(&answer).await;
        Ok(())
    }

    async fn load_device(&mut self, message: &Message) -> FlowResult<()> {
        let mut request: LoadDevice = self.read(message)?;
        if self.storage.mnemonic.is_some() {
            let text = self.by_line("Device is already initialized. Use Wipe first.", "Already initialized");
            return Err(Stop::Failure(code::UNEXPECTED_MESSAGE, text));
        }
        self.confirm(if self.line == Line::One { button::PROTECT_CALL } else { button::OTHER }).await?;
        let words = Zeroizing::new(request.mnemonic.take().unwrap_or_default());
        if !request.skip_checksum() && !is_mnemonic(&words) {
            return Err(match self.line {
                Line::One => Stop::Failure(code::DATA_ERROR, "Mnemonic with wrong checksum provided"),
                Line::T => Stop::Failure(code::PROCESS_ERROR, "Mnemonic is not valid"),
            });
        }
        self.storage.mnemonic = Some(words);
        self.storage.pin = request.pin.take().filter(|pin| !pin.is_empty()).map(Zeroizing::new);
        self.storage.has_passphrase_protection = request.passphrase_protection();
        self.storage.label = request.label.take();
        self.storage.is_imported = true;
        self.storage.u2f_counter = request.u2f_counter();
        self.ram.clear_sessions();
        self.succeed("Device loaded", "Device loaded").await;
        Ok(())
    }

    async fn clear_session(&mut self) -> FlowResult<()> {
        match (self.line, self.model.has_recent_firmware()) {
            (Line::One, _) => {
                self.ram.clear_sessions();
                self.ram.is_unlocked = false;
            }
            (Line::T, false) => self.ram.session().seed = None,
            (Line::T, true) => {}
        }
        self.succeed("Session cleared", "Session cleared").await;
        Ok(())
    }

    async fn apply_settings(&mut self, message: &Message) -> FlowResult<()> {
        let request: ApplySettings = self.read(message)?;
        let count = [
            request.label.is_some(),
            request.use_passphrase.is_some(),
            request.homescreen.is_some(),
            request.passphrase_source.is_some(),
            request.language.is_some(),
            request.auto_lock_delay_ms.is_some(),
            request.display_rotation.is_some(),
        ];
        let count = count.into_iter().filter(|is_set| *is_set).count();
        if count == 0 {
            let code = if self.line == Line::One { code::DATA_ERROR } else { code::PROCESS_ERROR };
            return Err(Stop::Failure(code, "No setting provided"));
        }
        for _ in 0..count {
            self.confirm(button::PROTECT_CALL).await?;
        }
        self.unlock().await?;
        if request.label.is_some() {
            self.storage.label.clone_from(&request.label);
        }
        if let Some(is_on) = request.use_passphrase {
            self.storage.has_passphrase_protection = is_on;
            self.ram.clear_sessions();
        }
        self.storage.passphrase_source = match request.passphrase_source {
            Some(1) => PassphraseSource::Device,
            Some(2) => PassphraseSource::Host,
            Some(_) => PassphraseSource::Ask,
            None => self.storage.passphrase_source,
        };
        self.succeed("Settings applied", "Settings applied").await;
        Ok(())
    }

    async fn apply_flags(&mut self, message: &Message) -> FlowResult<()> {
        let request: ApplyFlags = self.read(message)?;
        // Flags can be set but not cleared.
        self.storage.flags = Some(self.storage.flags.unwrap_or(0) | request.flags());
        self.succeed("Flags applied", "Flags applied").await;
        Ok(())
    }

    async fn set_u2f_counter(&mut self, message: &Message) -> FlowResult<()> {
        let request: SetU2fCounter = self.read(message)?;
        self.confirm(button::PROTECT_CALL).await?;
        self.storage.u2f_counter = request.u2f_counter();
        self.succeed("U2F counter set", "U2F counter set").await;
        Ok(())
    }
}
