//! The members of the shapes by family of chains, one table per family. No other file of the shapes asks for the
//! family.

use tenon_api::{Header, messages::Profile};

/// The members in which families differ.
#[derive(Debug)]
pub(super) struct FamilyMembers {
    /// Whether headers have the three native items: validator, validators and penalties.
    pub(super) has_native_items: bool,
    /// Whether blocks and headers have the total difficulty.
    pub(super) has_total_difficulty: bool,
    /// Whether announced headers have the members of Shanghai, Cancun and Prague.
    pub(super) announces_later_roots: bool,
    /// Whether logs and transactions have the time of their block.
    pub(super) has_block_timestamp: bool,
    /// Whether a protected transaction of type 0 has its chain id.
    pub(super) legacy_has_chain_id: bool,
    /// Whether the signature of a typed transaction has `yParity` in addition to `v`.
    pub(super) has_y_parity: bool,
}

impl FamilyMembers {
    /// go-ethereum's, and those of the public suite (`docs/spec/conformance.md` 3.2).
    const ETHEREUM: Self = Self {
        has_native_items: false,
        has_total_difficulty: false,
        announces_later_roots: true,
        has_block_timestamp: true,
        legacy_has_chain_id: true,
        has_y_parity: true,
    };

    /// The reference's (`docs/spec/rpc-eth.md` 6).
    const NATIVE: Self = Self {
        has_native_items: true,
        has_total_difficulty: true,
        announces_later_roots: false,
        has_block_timestamp: false,
        legacy_has_chain_id: false,
        has_y_parity: false,
    };

    /// The table of a family.
    pub(super) const fn of(profile: Profile) -> &'static Self {
        match profile {
            Profile::Ethereum => &Self::ETHEREUM,
            Profile::Native => &Self::NATIVE,
        }
    }
}

/// The family of a header: only native ones have a seal of their own.
pub(super) const fn profile_of(header: &Header) -> Profile {
    if header.native_seal.is_some() { Profile::Native } else { Profile::Ethereum }
}
