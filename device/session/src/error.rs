//! Errors of an exchange with a device.

use alloy_primitives::Address;
use tenon_api::{AccountRefusal, DeviceProblem};
use tenon_device_framing::FrameError;
use tenon_device_transport::LinkError;
use tenon_proto::{BodyError, registry};

use crate::Version;

/// The failure code for a message that the device did not expect.
const UNEXPECTED_MESSAGE: i32 = 1;

/// A request that the firmware can't fulfil. It is refused before the device is contacted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// A transaction of type 1, 3, 4 or a later type, or of type 2 on old firmware.
    #[error("transaction type not supported")]
    TransactionType,
    /// A chain id that the firmware's messages can't express.
    #[error("chain id {0} is not supported by this device")]
    ChainId(u64),
    /// Current firmware signs no transaction without a chain id.
    #[error("transactions without chain id are not supported by this device")]
    NoChainId,
    /// A message longer than the device can store.
    #[error("a message of {length} bytes is not supported by this device, which allows at most {max}")]
    MessageLength {
        /// The message's length, bytes.
        length: usize,
        /// Maximum length, bytes.
        max: usize,
    },
    /// Data longer than a device accepts.
    #[error("transaction data of {length} bytes are not supported by hardware wallets, which allow at most {max}")]
    DataLength {
        /// The data's length, bytes.
        length: usize,
        /// Maximum length, bytes.
        max: usize,
    },
    /// Gas price and gas limit together have too many bytes.
    #[error("gas price and gas limit are too large for hardware wallets")]
    Fees,
    /// No recipient and no data.
    #[error("the creation of a contract needs data")]
    EmptyCreation,
    /// Typed data, or this kind of typed data.
    #[error("typed data is not supported by this device")]
    TypedData,
    /// A path longer than the device can store.
    #[error(
        "a path of {length} elements is not supported by this device, which allows at most {max}; a path from the \
         root begins with m/"
    )]
    PathLength {
        /// Number of elements of the path.
        length: usize,
        /// Maximum number.
        max: usize,
    },
    /// A raw hash.
    #[error("not supported")]
    Hash,
}

/// Why an exchange with a device failed. No variant contains a secret, and texts from the device are made safe to show.
/// The texts here are for logs. Clients receive a [`DeviceProblem`], whose texts plugins write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The connection failed.
    #[error("{0}")]
    Link(#[from] LinkError),
    /// The received packets are not a message.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// A message's body can't be decoded.
    #[error("{0}")]
    Body(#[from] BodyError),
    /// The device reported a failure.
    #[error("{text}")]
    Refused {
        /// The failure code, if there is one.
        code: Option<i32>,
        /// The device's text.
        text: String,
    },
    /// The device sent a message that is not expected at this point.
    #[error("expected reply types [{}], got {}", names(expected).join(" "), name(*got))]
    Unexpected {
        /// Ids of the expected messages.
        expected: &'static [u16],
        /// Id of the received message.
        got: u16,
    },
    /// The device speaks only the encrypted protocol of newer devices.
    #[error("this device only supports a newer protocol, which is not supported here")]
    NewerProtocol,
    /// The device runs its bootloader.
    #[error("the device is in bootloader mode")]
    Bootloader,
    /// The device reports an unknown vendor.
    #[error("the device reports an unknown vendor")]
    Vendor,
    /// The device is not the one with which the wallet was opened.
    #[error("another device is connected instead of the device of this wallet")]
    OtherDevice,
    /// A PIN must be entered, and no person could be asked.
    #[error("pin needed")]
    PinNeeded,
    /// A passphrase must be entered, and no person could be asked.
    #[error("passphrase needed")]
    PassphraseNeeded,
    /// The PIN is not one to nine positions from 1 to 9.
    #[error("a PIN is one to nine positions 1 to 9")]
    PinForm,
    /// The passphrase is longer than devices accept.
    #[error("the passphrase has {length} bytes; at most 50 are allowed")]
    PassphraseLength {
        /// Its length after normalisation, bytes.
        length: usize,
    },
    /// The person declined, or the caller dropped the request.
    #[error("cancelled")]
    Cancelled,
    /// A prompt was not answered in time.
    #[error("the prompt was not answered in time")]
    PromptTimeout,
    /// The device did not answer in time.
    #[error("the device does not answer")]
    AnswerTimeout,
    /// The device requested too many buttons.
    #[error("the device requested more than {max} button presses")]
    TooManyButtons {
        /// Maximum number in one exchange.
        max: u32,
    },
    /// The device sent too many session states, or too many notices that a passphrase is typed on it.
    #[error("the device sent more than {max} messages about its session in one exchange")]
    TooManyStates {
        /// Maximum number in one exchange.
        max: u32,
    },
    /// The device requested more data than is left.
    #[error("the device asked for {asked} bytes of data while {left} are left")]
    DataRequest {
        /// Requested bytes.
        asked: u32,
        /// Remaining bytes.
        left: usize,
    },
    /// The device requested a value that the typed data does not contain.
    #[error("the device asked for typed data that the request does not have")]
    TypedDataRequest,
    /// The response has no signature.
    #[error("reply lacks signature")]
    LacksSignature,
    /// The signature is malformed: r or s out of range, s in the upper half, or a v that is no parity.
    #[error("the device returned an invalid signature")]
    InvalidSignature,
    /// The signature is by another key or over other data.
    #[error("signer mismatch: expected {expected}, got {got}")]
    SignerMismatch {
        /// The account that should have signed.
        expected: Address,
        /// The account recovered from the signature and the requested hash.
        got: Address,
    },
    /// The response has no address.
    #[error("missing derived address")]
    MissingAddress,
    /// The address is not valid.
    #[error("the device returned an invalid address")]
    InvalidAddress,
    /// The wallet is not open.
    #[error("wallet closed")]
    Closed,
    /// The wallet is already open.
    #[error("wallet already open")]
    AlreadyOpen,
    /// No wallet has this URL.
    #[error("unknown wallet")]
    UnknownWallet,
    /// The account is not one of the wallet's.
    #[error("unknown account")]
    UnknownAccount,
    /// Too many callers wait for the device.
    #[error("too many requests wait for the device")]
    Busy,
    /// The deadline passed while other requests used the device.
    #[error("the device was busy with other requests until the deadline")]
    DeadlineWhileWaiting,
    /// The session failed and is being restarted.
    #[error("the session with the device failed; open the wallet again")]
    SessionFailed,
    /// The firmware can't fulfil the request.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The firmware is older than the oldest supported version.
    #[error("firmware {found} is too old; the oldest supported version is {oldest}")]
    OldFirmware {
        /// The device's version.
        found: Version,
        /// The oldest supported version.
        oldest: Version,
    },
}

impl DeviceError {
    /// Whether host and device may be out of step, so that they must be resynchronised before the next request.
    pub const fn has_lost_step(&self) -> bool {
        match self {
            // The device did not expect the message, so it is at another point of the flow.
            Self::Refused { code, .. } => matches!(code, Some(UNEXPECTED_MESSAGE)),
            Self::Unsupported(_) | Self::NewerProtocol => false,
            _ => true,
        }
    }

    /// Whether the connection can no longer be used.
    pub const fn is_lost(&self) -> bool {
        matches!(self, Self::Link(_) | Self::OtherDevice | Self::NewerProtocol | Self::Bootloader | Self::Vendor)
    }
}

impl From<DeviceError> for DeviceProblem {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::PinNeeded => Self::PinNeeded,
            DeviceError::PassphraseNeeded => Self::PassphraseNeeded,
            DeviceError::AlreadyOpen => Self::AlreadyOpen,
            DeviceError::Closed => Self::Closed,
            DeviceError::Unexpected { expected, got } => {
                Self::UnexpectedMessage { expected: names(expected), got: name(got) }
            }
            DeviceError::LacksSignature => Self::NoSignature,
            DeviceError::SignerMismatch { expected, got } => Self::OtherSigner { expected, got },
            DeviceError::MissingAddress => Self::NoAddress,
            DeviceError::Unsupported(Unsupported::TransactionType) => Self::TransactionType,
            DeviceError::Unsupported(Unsupported::Hash) => Self::RawHash,
            DeviceError::Unsupported(reason) => Self::Unsupported(reason.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<DeviceError> for AccountRefusal {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::UnknownAccount => Self::UnknownAccount,
            DeviceError::UnknownWallet => Self::UnknownWallet,
            error => Self::Device(error.into()),
        }
    }
}

/// The name of a message without the common prefix.
fn name(id: u16) -> String {
    let known = registry::known(id).map(|entry| entry.name.trim_start_matches("MessageType_"));
    known.map_or_else(|| id.to_string(), str::to_owned)
}

fn names(ids: &[u16]) -> Vec<String> {
    ids.iter().map(|id| name(*id)).collect()
}
