//! The context of v1's rules.

use tenon_api::{Address, ChainReader, Header};
use tenon_native_spec::NativeSettings;

use super::{V1Error, snapshot::seal_of};
use crate::{SignerCache, signing::SigningIndex, v1_seal_hash};

/// The inputs of v1's rules other than the header being checked.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// The chain's rules.
    pub(crate) settings: &'a NativeSettings,
    /// The stored chain.
    pub(crate) chain: &'a dyn ChainReader,
    /// Recovers signers.
    pub(crate) signers: &'a SignerCache,
    /// Signing transactions by block.
    pub(crate) signing: &'a SigningIndex,
}

impl Context<'_> {
    /// Blocks of an epoch.
    pub(crate) const fn epoch(&self) -> u64 {
        self.settings.consensus.epoch
    }

    /// Returns whether the height is a checkpoint's.
    pub(crate) const fn is_checkpoint(&self, number: u64) -> bool {
        number.is_multiple_of(self.epoch())
    }

    /// The maker of a block ("m1"): the signer of the last 65 bytes of its extra data (2.1).
    pub(crate) fn creator(&self, header: &Header) -> Result<Address, V1Error> {
        let seal = seal_of(header)?;
        Ok(self.signers.recover(v1_seal_hash(header), seal)?)
    }
}
