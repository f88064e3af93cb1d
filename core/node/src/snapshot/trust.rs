//! Why a snapshot's head is trusted.

use tenon_api::B256;

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
