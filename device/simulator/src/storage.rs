//! State of a device, persistent and volatile.

use rand::RngCore as _;
use zeroize::Zeroizing;

use crate::keys::{Seed, hmac_sha256};
use crate::model::Line;
use crate::{PassphraseSource, SimulatorSettings};

/// Maximum number of sessions of later firmware, each with a passphrase.
const MAX_SESSIONS: usize = 10;

/// Persistent state.
pub(crate) struct Storage {
    pub(crate) device_id: [u8; 12],
    pub(crate) mnemonic: Option<Zeroizing<String>>,
    pub(crate) pin: Option<Zeroizing<String>>,
    pub(crate) failed_pins: u32,
    pub(crate) has_passphrase_protection: bool,
    pub(crate) passphrase_source: PassphraseSource,
    pub(crate) label: Option<String>,
    pub(crate) flags: Option<u32>,
    pub(crate) is_imported: bool,
    pub(crate) needs_backup: bool,
    pub(crate) has_no_backup: bool,
    pub(crate) u2f_counter: u32,
}

impl Storage {
    pub(crate) fn new(settings: &SimulatorSettings) -> Self {
        Self {
            mnemonic: settings.mnemonic.clone(),
            pin: settings.pin.clone(),
            has_passphrase_protection: settings.has_passphrase_protection,
            passphrase_source: settings.passphrase_source,
            label: settings.label.clone(),
            is_imported: settings.mnemonic.is_some(),
            ..Self::wiped()
        }
    }

    /// The factory state, with a new id.
    pub(crate) fn wiped() -> Self {
        let mut device_id = [0; 12];
        rand::rng().fill_bytes(&mut device_id);
        Self {
            device_id,
            mnemonic: None,
            pin: None,
            failed_pins: 0,
            has_passphrase_protection: false,
            passphrase_source: PassphraseSource::Ask,
            label: None,
            flags: None,
            is_imported: false,
            needs_backup: false,
            has_no_backup: false,
            u2f_counter: 0,
        }
    }

    /// 24 hexadecimal digits, as reported by `Features`.
    pub(crate) fn device_id_text(&self) -> String {
        hex::encode_upper(self.device_id)
    }
}

/// A passphrase and the values derived from it.
#[derive(Default)]
pub(crate) struct Session {
    pub(crate) id: [u8; 32],
    pub(crate) passphrase: Option<Zeroizing<String>>,
    pub(crate) seed: Option<Seed>,
}

/// Volatile state, which is lost with power.
pub(crate) struct Ram {
    pub(crate) is_unlocked: bool,
    /// The current session comes first. Early firmware has only one.
    sessions: Vec<Session>,
}

impl Ram {
    /// The state after power-on.
    pub(crate) fn new(is_unlocked: bool) -> Self {
        Self { is_unlocked, sessions: Vec::new() }
    }

    /// The current session.
    pub(crate) fn session(&mut self) -> &mut Session {
        if self.sessions.is_empty() {
            self.sessions.push(Session::default());
        }
        &mut self.sessions[0]
    }

    pub(crate) fn is_passphrase_cached(&self) -> bool {
        self.sessions.first().is_some_and(|session| session.passphrase.is_some())
    }

    /// Drops passphrases and seeds.
    pub(crate) fn clear_sessions(&mut self) {
        self.sessions.clear();
    }

    /// Selects the session with this id, or a new one; returns its id.
    pub(crate) fn select(&mut self, id: Option<&[u8]>) -> [u8; 32] {
        let known = self.sessions.iter().position(|session| Some(session.id.as_slice()) == id && session.id != [0; 32]);
        let session = match known {
            Some(at) => self.sessions.remove(at),
            None => {
                let mut session = Session::default();
                rand::rng().fill_bytes(&mut session.id);
                session
            }
        };
        let id = session.id;
        self.sessions.insert(0, session);
        self.sessions.truncate(MAX_SESSIONS);
        id
    }
}

/// The 64 bytes that prove knowledge of a passphrase without revealing it: a salt and its HMAC.
pub(crate) fn passphrase_state(line: Line, storage: &Storage, passphrase: &str, salt: &[u8; 32]) -> Vec<u8> {
    let text = storage.device_id_text();
    let device_id = match line {
        Line::One => storage.device_id.as_slice(),
        Line::T => text.as_bytes(),
    };
    [salt.as_slice(), &hmac_sha256(passphrase.as_bytes(), &[salt, device_id])].concat()
}
