//! Why a hardware wallet fails or refuses.

use alloy_primitives::Address;
use serde::{Deserialize, Serialize};

/// Why a hardware wallet fails or refuses. Texts from a device are safe to show; none contains a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum DeviceProblem {
    /// The PIN must be entered; the next call can bring it.
    #[error("the PIN must be entered")]
    PinNeeded,
    /// The passphrase must be entered; the next call can bring it.
    #[error("the passphrase must be entered")]
    PassphraseNeeded,
    /// The wallet is already open.
    #[error("the wallet is already open")]
    AlreadyOpen,
    /// The wallet is not open.
    #[error("the wallet is not open")]
    Closed,
    /// The device sent a message that is not expected at this point.
    #[error("expected a message {}, got {got}", expected.join(" or "))]
    UnexpectedMessage {
        /// Names of the expected messages.
        expected: Vec<String>,
        /// Name of the received message.
        got: String,
    },
    /// The response has no signature.
    #[error("the response has no signature")]
    NoSignature,
    /// The signature is by another key or over other data.
    #[error("expected a signature of {expected}, got one of {got}")]
    OtherSigner {
        /// The account that should have signed.
        expected: Address,
        /// The account recovered from the signature and the requested hash.
        got: Address,
    },
    /// The response has no address.
    #[error("the response has no address")]
    NoAddress,
    /// The device does not sign transactions of this type.
    #[error("the device does not sign transactions of this type")]
    TransactionType,
    /// Devices do not sign a hash of which they do not have the data.
    #[error("devices do not sign a hash without its data")]
    RawHash,
    /// The device cannot fulfil the request for another reason.
    #[error("{0}")]
    Unsupported(String),
    /// The device reported a failure, in its own words, or the exchange with it failed.
    #[error("{0}")]
    Failed(String),
}
