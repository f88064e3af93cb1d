//! Checks a header against its parent, except gas, base fee and blobs, which have files of their own.

use tenon_api::{B64, EMPTY_OMMERS_HASH, Header, SealedHeader, U256};
use tenon_chain::{ChainSpec, Fork, require_ethereum_header};

use super::{blobs, gas};
use crate::violation::{Violation, require_equal, require_presence};

/// Maximum length of extra data on the Ethereum profile.
pub(crate) const MAX_EXTRA_DATA_BYTES: usize = 32;
/// Number of blocks from the DAO fork on with fixed extra data.
const DAO_EXTRA_RANGE: u64 = 10;
/// Extra data of those blocks on the side of the fork that moved the balances.
const DAO_EXTRA_DATA: &[u8] = b"dao-hard-fork";

/// All rules of a header before or after the merge.
pub(crate) fn verify(
    spec: &ChainSpec,
    header: &SealedHeader,
    parent: &SealedHeader,
    is_merged: bool,
) -> Result<(), Violation> {
    verify_shape(header)?;
    verify_lineage(header, parent)?;
    verify_extra_data(spec, header)?;
    gas::verify_gas_limit(spec, header, parent)?;
    gas::verify_gas_used(header)?;
    gas::verify_base_fee(spec, header, parent)?;
    if is_merged {
        verify_merged_seal(header)?;
    } else {
        verify_difficulty(spec, header, parent)?;
    }
    verify_optional_items(spec, header)?;
    blobs::verify_blob_fields(spec, header, parent)
}

fn verify_shape(header: &Header) -> Result<(), Violation> {
    require_ethereum_header(header)
        .map_err(|_| Violation::new("header shape", "the native items", "an Ethereum header"))
}

fn verify_lineage(header: &SealedHeader, parent: &SealedHeader) -> Result<(), Violation> {
    let wanted = parent.number.saturating_add(1);
    require_equal("number", header.number, wanted)?;
    require_equal("parent hash", header.parent_hash, parent.hash())?;
    if header.timestamp <= parent.timestamp {
        return Err(Violation::new("timestamp", header.timestamp, format_args!("more than {}", parent.timestamp)));
    }
    Ok(())
}

fn verify_extra_data(spec: &ChainSpec, header: &Header) -> Result<(), Violation> {
    if header.extra_data.len() > MAX_EXTRA_DATA_BYTES {
        let found = format!("{} bytes", header.extra_data.len());
        return Err(Violation::new("extra data", found, format_args!("at most {MAX_EXTRA_DATA_BYTES} bytes")));
    }
    let Some(dao_block) = spec.dao_fork_block else { return Ok(()) };
    let is_in_range = header.number >= dao_block && header.number - dao_block < DAO_EXTRA_RANGE;
    let is_marked = header.extra_data.as_ref() == DAO_EXTRA_DATA;
    if is_in_range && is_marked != spec.dao_fork_support {
        let wanted = if spec.dao_fork_support { "dao-hard-fork" } else { "anything but dao-hard-fork" };
        return Err(Violation::new("extra data at the DAO fork", &header.extra_data, wanted));
    }
    Ok(())
}

/// Checks that a header after the merge has no proof of work (EIP-3675).
fn verify_merged_seal(header: &Header) -> Result<(), Violation> {
    require_equal("difficulty after the merge", header.difficulty, U256::ZERO)?;
    require_equal("nonce after the merge", header.nonce, B64::ZERO)?;
    require_equal("ommers hash after the merge", header.ommers_hash, EMPTY_OMMERS_HASH)
}

fn verify_difficulty(spec: &ChainSpec, header: &Header, parent: &Header) -> Result<(), Violation> {
    let wanted = spec.ethash_difficulty(parent, header.timestamp);
    require_equal("difficulty", header.difficulty, wanted)
}

/// Checks the items added by forks: each is present from its fork on and never before.
fn verify_optional_items(spec: &ChainSpec, header: &Header) -> Result<(), Violation> {
    let fork = spec.fork_of(header);
    require_presence("withdrawals root", header.withdrawals_root.as_ref(), fork >= Fork::Shanghai)?;
    require_presence("parent beacon block root", header.parent_beacon_block_root.as_ref(), fork >= Fork::Cancun)?;
    require_presence("requests hash", header.requests_hash.as_ref(), fork >= Fork::Prague)
}
