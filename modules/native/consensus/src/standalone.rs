//! Checks a header without its ancestors: its form, its sealer, the signers of its certificate.

use tenon_api::{ChainReader, SealedHeader};

use super::{
    engine::{NativeEngine, NativeError},
    signers::HeaderSigners,
    v1::V1Error,
    v2::V2Error,
};

impl NativeEngine {
    /// Checks a header without its ancestors: its own items, the seal, and the signatures of its certificate. Whether
    /// the signers are masternodes is checked only if the header lists the masternodes.
    ///
    /// # Errors
    /// The [`NativeError`] of the first broken rule.
    pub fn verify_without_ancestors(
        &self,
        header: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<HeaderSigners, NativeError> {
        let now = Some(self.now());
        if self.is_v2(header.number) {
            Ok(self.v2().verify_without_ancestors(header, now)?)
        } else {
            Ok(self.v1().verify_without_ancestors(header, chain, now)?)
        }
    }
}

impl NativeError {
    /// Returns whether a header could not be checked because ancestors are not stored, rather than because it is
    /// invalid.
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
