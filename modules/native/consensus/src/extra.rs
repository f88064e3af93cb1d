//! The extra data of both engines (`docs/spec/consensus.md` 2.1, 3.2).

use alloy_rlp::{Decodable, RlpDecodable, RlpEncodable};
use tenon_api::{Address, Bytes};

use super::messages::QuorumCertificate;

/// Length of the vanity at the start of v1 extra data.
pub(crate) const VANITY_BYTES: usize = 32;
/// Length of the creator's signature at the end of v1 extra data.
pub(crate) const SEAL_BYTES: usize = 65;
/// Maximum length of v2 extra data.
const MAX_EXTRA_BYTES: usize = 20_000;
/// First byte of v2 extra data.
const V2_VERSION: u8 = 2;

/// Why v2 extra data cannot be decoded (3.2).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExtraProblem {
    /// It is empty.
    #[error("the extra data is empty")]
    Empty,
    /// More than 20,000 bytes.
    #[error("the extra data has more than {MAX_EXTRA_BYTES} bytes")]
    TooLong,
    /// The first byte is not 2.
    #[error("the extra data has version {0} instead of {V2_VERSION}")]
    Version(u8),
    /// Malformed RLP after the version byte, or trailing bytes.
    #[error("the extra data is not valid RLP: {0}")]
    Rlp(alloy_rlp::Error),
}

/// The contents of v2 extra data: the block's own round and the certificate of its parent.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct ExtraFields {
    /// Round of the block.
    pub round: u64,
    /// Certifies the parent.
    pub quorum: QuorumCertificate,
}

impl ExtraFields {
    /// Decodes `0x02 ‖ RLP([round, certificate])` without trailing bytes.
    ///
    /// # Errors
    /// [`ExtraProblem`].
    pub fn decode(extra: &[u8]) -> Result<Self, ExtraProblem> {
        if extra.len() > MAX_EXTRA_BYTES {
            return Err(ExtraProblem::TooLong);
        }
        let (version, mut rest) = extra.split_first().ok_or(ExtraProblem::Empty)?;
        if *version != V2_VERSION {
            return Err(ExtraProblem::Version(*version));
        }
        let fields = <Self as Decodable>::decode(&mut rest).map_err(ExtraProblem::Rlp)?;
        if rest.is_empty() { Ok(fields) } else { Err(ExtraProblem::Rlp(alloy_rlp::Error::UnexpectedLength)) }
    }

    /// The encoded extra data.
    pub fn encode(&self) -> Bytes {
        let mut extra = vec![V2_VERSION];
        alloy_rlp::Encodable::encode(self, &mut extra);
        extra.into()
    }
}

/// The addresses in a header item, 20 bytes each. A shorter tail is ignored, as in the reference (6).
pub fn addresses_of(item: &[u8]) -> Vec<Address> {
    item.chunks_exact(Address::len_bytes()).map(Address::from_slice).collect()
}

/// The masternodes in the extra data of a v1 checkpoint or of the genesis; empty if it is too short.
pub fn v1_masternodes(extra: &[u8]) -> Vec<Address> {
    let end = extra.len().saturating_sub(SEAL_BYTES);
    addresses_of(extra.get(VANITY_BYTES..end).unwrap_or_default())
}

/// Compares lengths and sorted contents: duplicates count (14.2).
pub(crate) fn is_same_multiset(left: &[Address], right: &[Address]) -> bool {
    let sorted = |list: &[Address]| {
        let mut list = list.to_vec();
        list.sort_unstable();
        list
    };
    left.len() == right.len() && sorted(left) == sorted(right)
}
