//! Why a snapshot's head is trusted.

use std::path::Path;
use std::sync::Arc;

use tenon_api::{B256, ChainReader as _};
use tenon_chain::ChainSpec;
use tenon_storage::Store;

use crate::exit::Stop;
use crate::family::family_of;

/// Why a head is trusted.
#[derive(Debug, PartialEq, Eq, derive_more::Display)]
pub(crate) enum Trust {
    /// Its hash is the one given by the operator.
    #[display("the hash {_0} of the head, which the operator gave")]
    Hash(B256),
    /// It has a certificate of a quorum of its epoch's masternodes for its parent, and is sealed by one of them.
    #[display(
        "the {masternodes} masternodes that block {epoch_switch} {epoch_switch_hash} of the snapshot lists: {signatures} \
         of them signed block {certified} {hash}, and one the head. Whether this block belongs to the network is not \
         checked: compare its hash with another source, or give the hash of the head with --trust-hash"
    )]
    Certificate {
        /// Height of the certified block.
        certified: u64,
        /// Its hash.
        hash: B256,
        /// Signatures in the certificate.
        signatures: usize,
        /// Masternodes of the epoch.
        masternodes: usize,
        /// Height of the block that opened the epoch and lists them.
        epoch_switch: u64,
        /// Its hash.
        epoch_switch_hash: B256,
    },
    /// It is sealed by the rules of engine v1.
    #[display(
        "the signers of engine v1 that the snapshot itself lists. Compare the hash of the head with another source, or \
         give it with --trust-hash"
    )]
    Seal,
    /// Nothing in the chain proves it: the chain has another engine, or the head is the genesis block.
    #[display(
        "the maker of the snapshot: nothing in this chain certifies its head. Compare the hash of the head with another \
         source, or give it with --trust-hash"
    )]
    Maker,
}

impl Trust {
    /// Checks the head of a snapshot: against the given hash, or by its certificate (`docs/spec/consensus.md` 5.6, 6).
    ///
    /// # Errors
    /// [`Stop::Failure`] if it fails.
    pub(super) fn of(
        source: &Path,
        spec: &Arc<ChainSpec>,
        store: &Arc<Store>,
        hash: Option<B256>,
    ) -> Result<Self, Stop> {
        let head = store.head();
        let found = head.header.hash();
        if let Some(wanted) = hash {
            if wanted == found {
                return Ok(Self::Hash(wanted));
            }
            return Err(Stop::Failure(format!(
                "snapshot {}: its head is block {} {found}, not the trusted {wanted}; use another snapshot",
                source.display(),
                head.header.number
            )));
        }
        family_of(spec).trust_in_head(source, store)
    }
}
