//! Engine v1 (`docs/spec/consensus.md` 2): one creator per turn, a second signer from block 901 on, lists of
//! masternodes at checkpoints. The real networks no longer make such blocks; they are history that must verify.

mod checkpoint;
mod context;
mod error;
mod go_base64;
mod header;
mod penalties;
mod randomize;
mod sealing;
mod second_signer;
mod snapshot;
mod turn;

use std::sync::Arc;

use tenon_api::{Address, B256, Bytes, ChainReader, Header, SealedHeader};
use tenon_native_spec::NativeSettings;

pub use checkpoint::CheckpointLists;
pub use error::V1Error;
pub use randomize::{RandomizeEntry, draw_second_signers};
pub use second_signer::{Pairs, decode_numbers, encode_numbers, second_signer};
pub use turn::CreatorTurn;

pub(crate) use context::Context;

use super::{MasternodeSource, SignerCache, ancestry::state_after, signing::SigningIndex};
use snapshot::Snapshots;

pub(crate) use snapshot::{MAX_EARLY_MASTERNODES, NONCE_ADD, Snapshot, is_gap_block};

/// The rules of v1. Caches signers, snapshots and signing transactions, all of which can be recomputed.
pub struct V1Engine {
    settings: Arc<NativeSettings>,
    signers: Arc<SignerCache>,
    signing: Arc<SigningIndex>,
    snapshots: Snapshots,
}

impl V1Engine {
    /// The engine of a chain. `source` supplies the candidates of gap blocks.
    pub fn new(
        settings: Arc<NativeSettings>,
        signers: Arc<SignerCache>,
        source: Arc<dyn MasternodeSource>,
        signing: Arc<SigningIndex>,
    ) -> Self {
        let snapshots = Snapshots::new(Arc::clone(&settings), Arc::clone(&signers), source);
        Self { settings, signers, signing, snapshots }
    }

    fn context<'a>(&'a self, chain: &'a dyn ChainReader) -> Context<'a> {
        Context { settings: &self.settings, chain, signers: &self.signers, signing: &self.signing }
    }

    /// Checks a header against its parent (2.3). `now` is the clock, Unix time in seconds; `None` skips the checks of
    /// the time and the second signature.
    ///
    /// A checkpoint needs the states after its parent and after the gap block, so the parent must be committed.
    ///
    /// # Errors
    /// [`V1Error`] of the first broken rule.
    pub fn verify_header(
        &self,
        header: &SealedHeader,
        parent: &SealedHeader,
        chain: &dyn ChainReader,
        now: Option<u64>,
    ) -> Result<(), V1Error> {
        header::verify(self.context(chain), &self.snapshots, header, parent, now)
    }

    /// The rules that need no ancestor; see
    /// [`NativeEngine::verify_without_ancestors`](super::NativeEngine::verify_without_ancestors).
    pub(crate) fn verify_without_ancestors(
        &self,
        header: &SealedHeader,
        chain: &dyn ChainReader,
        now: Option<u64>,
    ) -> Result<super::HeaderSigners, V1Error> {
        header::verify_without_ancestors(self.context(chain), header, now)
    }

    /// The maker of a block: the signer of its extra data (`docs/spec/chain.md` 1.2).
    ///
    /// # Errors
    /// [`V1Error::MissingSeal`], [`V1Error::Signature`].
    pub fn author(&self, header: &Header) -> Result<Address, V1Error> {
        let seal = snapshot::seal_of(header)?;
        Ok(self.signers.recover(super::v1_seal_hash(header), seal)?)
    }

    /// The digests and signatures to be recovered for a header's verification: its creator's and, if it has one, its
    /// second signer's. Malformed ones are skipped, and refused on verification.
    pub(crate) fn signed_in(header: &SealedHeader) -> Vec<(B256, Bytes)> {
        let Ok(seal) = snapshot::seal_of(header) else { return Vec::new() };
        let digest = super::v1_seal_hash(header);
        let second = header.native_seal.as_ref().filter(|seal| !seal.validator.is_empty());
        let second = second.map(|seal| (digest, seal.validator.clone()));
        [(digest, Bytes::copy_from_slice(seal))].into_iter().chain(second).collect()
    }

    /// The masternodes whose turns determine the difficulty of the block after `header` (2.1, 2.4).
    ///
    /// # Errors
    /// [`V1Error::NoCheckpoint`], [`V1Error::Store`].
    pub fn masternodes(&self, header: &SealedHeader, chain: &dyn ChainReader) -> Result<Vec<Address>, V1Error> {
        header::masternodes_at(self.context(chain), header)
    }

    /// The addresses authorised to make the block after `header`, ascending (2.2); `None` if the source of candidates
    /// has no state.
    ///
    /// # Errors
    /// [`V1Error::NoCandidates`], [`V1Error::NoParentState`], [`V1Error::Store`].
    pub fn authorised(&self, header: &SealedHeader, chain: &dyn ChainReader) -> Result<Option<Vec<Address>>, V1Error> {
        let snapshot = self.snapshots.after(header, chain)?;
        Ok(snapshot.map(|snapshot| snapshot.signers().iter().copied().collect()))
    }

    /// The snapshot after `header` with its votes (2.2); `None` if the source of candidates has no state.
    ///
    /// # Errors
    /// As [`V1Engine::authorised`].
    pub(crate) fn snapshot(
        &self,
        header: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<Option<Arc<Snapshot>>, V1Error> {
        self.snapshots.after(header, chain)
    }

    /// Reads the candidates if `head` is a gap block, while its state is the newest: it may be pruned when the
    /// checkpoint needs them.
    ///
    /// # Errors
    /// Those of [`V1Engine::authorised`].
    pub fn remember_candidates(&self, head: &SealedHeader, chain: &dyn ChainReader) -> Result<(), V1Error> {
        if snapshot::is_gap_block(&self.settings, head.number) {
            self.snapshots.after(head, chain)?;
        }
        Ok(())
    }

    /// The required second signer of a block (2.5); the zero address in the first epoch.
    ///
    /// # Errors
    /// [`V1Error`].
    pub fn second_signer(
        &self,
        header: &SealedHeader,
        parent: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<Address, V1Error> {
        header::assigned_second_signer(self.context(chain), header, parent, self.author(header)?)
    }

    /// The required lists of the checkpoint after `parent` (2.6); `None` if the source of candidates has no state.
    ///
    /// # Errors
    /// [`V1Error::NoParentState`] if the state after the parent is not stored, and others of [`V1Error`].
    pub fn checkpoint_lists(
        &self,
        parent: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<Option<CheckpointLists>, V1Error> {
        let Some(signers) = self.authorised(parent, chain)? else { return Ok(None) };
        let state = state_after(chain, parent)?.ok_or(V1Error::NoParentState)?;
        checkpoint::checkpoint_lists(self.context(chain), parent, &signers, &*state).map(Some)
    }

    /// The turn of `creator` on top of `parent`: difficulty and waiting time (2.4).
    ///
    /// # Errors
    /// [`V1Error`] if the parent's creator or epoch cannot be determined.
    pub fn turn(
        &self,
        parent: &SealedHeader,
        creator: Address,
        chain: &dyn ChainReader,
    ) -> Result<CreatorTurn, V1Error> {
        let parent_creator = if parent.number == 0 { None } else { Some(self.author(parent)?) };
        Ok(CreatorTurn::new(&self.masternodes(parent, chain)?, parent_creator, creator))
    }
}

#[cfg(test)]
mod tests;
