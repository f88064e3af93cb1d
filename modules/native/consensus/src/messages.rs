//! Messages and certificates of engine v2, which the network needs as well: their types live in `modules/chain`.

pub use tenon_chain::round_messages::{
    BlockInfo, QuorumCertificate, SyncInfo, Timeout, TimeoutCertificate, Vote, timeout_digest, vote_digest,
};
