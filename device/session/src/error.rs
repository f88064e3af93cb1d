//! Why an exchange gave no result.

use alloy_primitives::Address;
use tenon_device_framing::FrameError;
use tenon_device_transport::LinkError;
use tenon_proto::{BodyError, registry};

use crate::Version;

/// The failure of a device that was sent a message out of its flow.
const UNEXPECTED_MESSAGE: i32 = 1;

/// What a firmware can't do. Found out before the device is touched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// A transaction of type 1, 3, 4 or younger, or of type 2 on old firmware.
    #[error("transaction type not supported")]
    TransactionType,
    /// A chain id that the firmware's messages can't express.
    #[error("chain id {0} is not supported by this device")]
    ChainId(u64),
    /// Firmware of today signs no transaction without chain id.
    #[error("transactions without chain id are not supported by this device")]
    NoChainId,
    /// A message longer than the device stores.
    #[error("a message of {length} bytes is not supported by this device: {max} are the most")]
    MessageLength {
        /// The message's length, bytes.
        length: usize,
        /// The most, bytes.
        max: usize,
    },
    /// Data longer than a device takes.
    #[error("transaction data of {length} bytes are not supported by hardware wallets: {max} are the most")]
    DataLength {
        /// The data's length, bytes.
        length: usize,
        /// The most, bytes.
        max: usize,
    },
    /// A gas price and limit that together have too many bytes.
    #[error("gas price and gas limit are too large for hardware wallets")]
    Fees,
    /// No recipient and no data.
    #[error("the creation of a contract needs data")]
    EmptyCreation,
    /// Typed data, or typed data of this form.
    #[error("typed data is not supported by this device")]
    TypedData,
    /// A path that the device does not store.
    #[error(
        "a path of {length} elements is not supported by this device: {max} are the most; a path from the root begins with m/"
    )]
    PathLength {
        /// Elements of the path.
        length: usize,
        /// The most.
        max: usize,
    },
    /// A raw hash.
    #[error("not supported")]
    Hash,
}

/// Why an exchange with a device gave no result. No variant carries a secret, and texts of the device are made fit to
/// show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The connection failed.
    #[error("trezor: {0}")]
    Link(#[from] LinkError),
    /// What came is no message.
    #[error("trezor: {0}")]
    Frame(#[from] FrameError),
    /// A message's body does not decode.
    #[error("trezor: {0}")]
    Body(#[from] BodyError),
    /// The device failed the request.
    #[error("trezor: {text}")]
    Refused {
        /// The number of the failure's kind, if it has one.
        code: Option<i32>,
        /// The device's text.
        text: String,
    },
    /// Another message than the flow knows.
    #[error("trezor: expected reply types [{}], got {}", names(expected), name(*got))]
    Unexpected {
        /// Numbers of the messages that the flow goes on with.
        expected: &'static [u16],
        /// The number that came.
        got: u16,
    },
    /// The device speaks only the encrypted protocol of newer devices.
    #[error("trezor: this device speaks a newer protocol only, which is not supported")]
    NewerProtocol,
    /// The device runs its bootloader.
    #[error("trezor: the device is in bootloader mode")]
    Bootloader,
    /// The vendor that the device tells is another.
    #[error("trezor: the device is of another vendor")]
    Vendor,
    /// Another device answers than the one that the wallet was opened with.
    #[error("trezor: another device is connected in place of this wallet's")]
    OtherDevice,
    /// A PIN must be entered, and nobody could be asked.
    #[error("trezor: pin needed")]
    PinNeeded,
    /// A passphrase must be entered, and nobody could be asked.
    #[error("trezor: passphrase needed")]
    PassphraseNeeded,
    /// A PIN that is not one to nine positions 1 to 9.
    #[error("trezor: a PIN is one to nine positions 1 to 9")]
    PinForm,
    /// A passphrase longer than devices take.
    #[error("trezor: the passphrase has {length} bytes, 50 are the most")]
    PassphraseLength {
        /// Its length after normalisation, bytes.
        length: usize,
    },
    /// The person declined, or the caller left.
    #[error("trezor: cancelled")]
    Cancelled,
    /// Nobody answered a prompt in time.
    #[error("trezor: nobody answered the prompt in time")]
    PromptTimeout,
    /// The device did not answer in time.
    #[error("trezor: the device does not answer")]
    AnswerTimeout,
    /// A device that asks for buttons without end.
    #[error("trezor: the device asked for more than {max} buttons")]
    TooManyButtons {
        /// The most in one exchange.
        max: u32,
    },
    /// A device that tells of states, or of passphrases typed on it, without end.
    #[error("trezor: the device sent more than {max} messages about its session in one exchange")]
    TooManyStates {
        /// Maximum number in one exchange.
        max: u32,
    },
    /// A device that asks for data that there are not.
    #[error("trezor: the device asked for {asked} bytes of data while {left} are left")]
    DataRequest {
        /// Bytes asked for.
        asked: u32,
        /// Bytes left.
        left: usize,
    },
    /// A device that asks for a value that the typed data do not have.
    #[error("trezor: the device asked for typed data that the request does not have")]
    TypedDataRequest,
    /// No signature where one was to come.
    #[error("reply lacks signature")]
    LacksSignature,
    /// A signature of a wrong form: r or s out of range, s in the upper half, or a v that fits no bit.
    #[error("trezor: the device gave an invalid signature")]
    InvalidSignature,
    /// A signature by another key or of other data.
    #[error("signer mismatch: expected {expected}, got {got}")]
    SignerMismatch {
        /// The account that was to sign.
        expected: Address,
        /// The account that signed what was asked for, by the signature.
        got: Address,
    },
    /// No address where one was to come.
    #[error("missing derived address")]
    MissingAddress,
    /// An address that is none.
    #[error("trezor: the device gave an address that is none")]
    InvalidAddress,
    /// The wallet is not open.
    #[error("wallet closed")]
    Closed,
    /// The wallet is open.
    #[error("wallet already open")]
    AlreadyOpen,
    /// No wallet has this URL.
    #[error("unknown wallet")]
    UnknownWallet,
    /// The wallet's account is unknown.
    #[error("unknown account")]
    UnknownAccount,
    /// Too many callers wait for the device.
    #[error("trezor: too many requests wait for the device")]
    Busy,
    /// The deadline passed while other requests held the device.
    #[error("trezor: the device was busy with other requests until the deadline")]
    DeadlineWhileWaiting,
    /// The session failed and starts again.
    #[error("trezor: the session with the device failed; open the wallet again")]
    SessionFailed,
    /// The firmware can't do it.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// Firmware older than the oldest that is supported.
    #[error("trezor: firmware {found} is too old: {oldest} is the oldest that is supported")]
    OldFirmware {
        /// The device's.
        found: Version,
        /// The oldest that will do.
        oldest: Version,
    },
}

impl DeviceError {
    /// Whether the two sides may have lost step, so that they are brought into step again before the next request.
    pub const fn has_lost_step(&self) -> bool {
        match self {
            // A message that the device did not expect: it is somewhere else in the flow.
            Self::Refused { code, .. } => matches!(code, Some(UNEXPECTED_MESSAGE)),
            Self::Unsupported(_) | Self::NewerProtocol => false,
            _ => true,
        }
    }

    /// Whether the connection is of no further use.
    pub const fn is_lost(&self) -> bool {
        matches!(self, Self::Link(_) | Self::OtherDevice | Self::NewerProtocol | Self::Bootloader | Self::Vendor)
    }
}

/// The name of a message without what stands in front of all.
fn name(id: u16) -> String {
    let known = registry::known(id).map(|entry| entry.name.trim_start_matches("MessageType_"));
    known.map_or_else(|| id.to_string(), str::to_owned)
}

fn names(ids: &[u16]) -> String {
    ids.iter().map(|id| name(*id)).collect::<Vec<_>>().join(" ")
}
