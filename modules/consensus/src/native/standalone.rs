//! What can be said of a header whose ancestors are not at hand: its form, who sealed it, who signed its certificate.

use tenon_api::{Address, ChainReader, SealedHeader};

use super::{
    engine::{NativeEngine, NativeError},
    v1::V1Error,
    v2::V2Error,
};

/// Who signed a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderSigners {
    /// Who made the block.
    pub author: Address,
    /// Whose votes its certificate holds (v2), each once, ascending; the second signer of a v1 header.
    pub others: Vec<Address>,
}

impl NativeEngine {
    /// Checks a header without its ancestors: all that it says itself, the seal, and the signatures of its
    /// certificate. Whether the signers were masternodes is checked only where the header lists them.
    ///
    /// # Errors
    /// The [`NativeError`] of the first rule that is broken.
    pub fn verify_standing_alone(
        &self,
        header: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<HeaderSigners, NativeError> {
        let now = Some(self.now());
        if self.is_v2(header.number) {
            Ok(self.v2().verify_standing_alone(header, now)?)
        } else {
            Ok(self.v1().verify_standing_alone(header, chain, now)?)
        }
    }
}

impl NativeError {
    /// Whether a header could not be judged because ancestors of it are not stored, rather than being wrong.
    pub fn is_missing_ancestor(&self) -> bool {
        match self {
            Self::V1(error) => matches!(error, V1Error::NoCheckpoint | V1Error::NoParentState | V1Error::Store(_)),
            Self::V2(error) => is_missing_in_v2(error),
            Self::Store(_) => true,
            _ => false,
        }
    }
}

fn is_missing_in_v2(error: &V2Error) -> bool {
    match error {
        V2Error::CertificateEpoch(inner) => is_missing_in_v2(inner),
        V2Error::MissingBlock { .. }
        | V2Error::NoGapBlock(_)
        | V2Error::NoSwitchBlock(_)
        | V2Error::PenaltyAncestor { .. }
        | V2Error::MissingAncestor { .. }
        | V2Error::Store(_) => true,
        _ => false,
    }
}
