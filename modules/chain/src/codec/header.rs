//! Headers of both profiles (`docs/spec/chain.md` 1.1, 1.2; `docs/spec/conformance.md` 3.1).

use alloy_primitives::{B64, Bloom, Bytes, keccak256};
use alloy_rlp::Encodable;
use tenon_api::{Header, NativeSeal, SealedHeader};

use super::error::{DecodeError, DecodeProblem};
use super::rlp::{Reader, write_list};

/// Items that every header has, `parent_hash` to `nonce`.
const COMMON_ITEMS: usize = 15;

/// A header does not have the form that the caller needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a header in the form of another family")]
pub struct OtherHeaderForm;

/// Checks that a header has the form of native headers. The codec decodes both forms; code that supports only one
/// refuses the other with this function, or with [`require_ethereum_header`].
///
/// # Errors
/// [`OtherHeaderForm`] for a header without the three native items.
pub const fn require_native_header(header: &Header) -> Result<(), OtherHeaderForm> {
    if has_native_items(header) { Ok(()) } else { Err(OtherHeaderForm) }
}

/// Checks that a header has the form of Ethereum's headers.
///
/// # Errors
/// [`OtherHeaderForm`] for a header with the three native items.
pub const fn require_ethereum_header(header: &Header) -> Result<(), OtherHeaderForm> {
    if has_native_items(header) { Err(OtherHeaderForm) } else { Ok(()) }
}

/// Whether a header has the three native items. They decide its own encoding, and whether its block can have a list of
/// withdrawals, so this is a question about the format, which only the codec asks.
pub(super) const fn has_native_items(header: &Header) -> bool {
    header.native_seal.is_some()
}

/// Decodes a header from the front of `input` and advances `input` past it.
///
/// The number of items determines the profile: 18 and 19 are native (items 16 to 18 are byte strings of any length),
/// 15, 16, 17, 20 and 21 are Ethereum. No Ethereum fork has 18 or 19 items.
///
/// # Errors
/// [`DecodeError`] for anything but the one canonical encoding; `input` is unchanged then.
pub fn decode_header(input: &mut &[u8]) -> Result<Header, DecodeError> {
    let mut reader = Reader::new(input);
    let header = read_header(&mut reader)?;
    *input = reader.rest();
    Ok(header)
}

/// Decodes a header like [`decode_header`], with its hash.
///
/// # Errors
/// See [`decode_header`].
pub fn decode_sealed_header(input: &mut &[u8]) -> Result<SealedHeader, DecodeError> {
    let mut reader = Reader::new(input);
    let header = read_sealed_header(&mut reader)?;
    *input = reader.rest();
    Ok(header)
}

pub(super) fn read_sealed_header(reader: &mut Reader<'_>) -> Result<SealedHeader, DecodeError> {
    let before = reader.rest();
    let header = read_header(reader)?;
    // Only the canonical encoding is accepted, so these bytes equal the encoding of the fields.
    let hash = keccak256(&before[..before.len() - reader.rest().len()]);
    Ok(SealedHeader::new_unchecked(header, hash))
}

pub(super) fn read_header(reader: &mut Reader<'_>) -> Result<Header, DecodeError> {
    let mut items = reader.list("header")?;
    let mut header = Header {
        parent_hash: items.hash("header parent hash")?,
        ommers_hash: items.hash("header uncle hash")?,
        beneficiary: items.address("header beneficiary")?,
        state_root: items.hash("header state root")?,
        transactions_root: items.hash("header transactions root")?,
        receipts_root: items.hash("header receipts root")?,
        logs_bloom: Bloom::new(items.fixed("header logs bloom")?),
        difficulty: items.u256("header difficulty")?,
        number: items.u64("header number")?,
        gas_limit: items.u64("header gas limit")?,
        gas_used: items.u64("header gas used")?,
        timestamp: items.u64("header timestamp")?,
        extra_data: Bytes::copy_from_slice(items.bytes("header extra data")?),
        mix_hash: items.hash("header mix hash")?,
        nonce: B64::new(items.fixed("header nonce")?),
        ..Header::default()
    };
    let extra_items = items.count_items("header")?;
    match extra_items {
        3 | 4 => read_native_items(&mut items, &mut header)?,
        0..=2 | 5 | 6 => read_ethereum_items(&mut items, &mut header)?,
        _ => {
            let problem = DecodeProblem::WrongItemCount { found: COMMON_ITEMS + extra_items };
            return Err(items.error("header", problem));
        }
    }
    items.finish("header")?;
    Ok(header)
}

fn read_native_items(items: &mut Reader<'_>, header: &mut Header) -> Result<(), DecodeError> {
    header.native_seal = Some(NativeSeal {
        validators: Bytes::copy_from_slice(items.bytes("header validators")?),
        validator: Bytes::copy_from_slice(items.bytes("header validator")?),
        penalties: Bytes::copy_from_slice(items.bytes("header penalties")?),
    });
    header.base_fee_per_gas = optional(items, |items| items.u64("header base fee"))?;
    Ok(())
}

fn read_ethereum_items(items: &mut Reader<'_>, header: &mut Header) -> Result<(), DecodeError> {
    header.base_fee_per_gas = optional(items, |items| items.u64("header base fee"))?;
    header.withdrawals_root = optional(items, |items| items.hash("header withdrawals root"))?;
    header.blob_gas_used = optional(items, |items| items.u64("header blob gas used"))?;
    header.excess_blob_gas = optional(items, |items| items.u64("header excess blob gas"))?;
    header.parent_beacon_block_root = optional(items, |items| items.hash("header parent beacon root"))?;
    header.requests_hash = optional(items, |items| items.hash("header requests hash"))?;
    Ok(())
}

fn optional<'a, T>(
    items: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    if items.is_empty() { Ok(None) } else { read(items).map(Some) }
}

/// Appends the header's RLP.
///
/// The optional items are written up to the first absent one; a header with a later item but not an earlier one has no
/// encoding, and its later items are left out.
pub fn encode_header(header: &Header, out: &mut Vec<u8>) {
    out.reserve(700 + header.extra_data.len());
    write_list(out, |out| {
        encode_common_items(header, out);
        match &header.native_seal {
            Some(seal) => {
                seal.validators.encode(out);
                seal.validator.encode(out);
                seal.penalties.encode(out);
                if let Some(base_fee) = header.base_fee_per_gas {
                    base_fee.encode(out);
                }
            }
            None => {
                encode_ethereum_items(header, out);
            }
        }
    });
}

/// Appends the RLP of a header's items up to the extra data, without a list header: the data that every seal signs.
pub fn encode_items_before_extra(header: &Header, out: &mut Vec<u8>) {
    header.parent_hash.encode(out);
    header.ommers_hash.encode(out);
    header.beneficiary.encode(out);
    header.state_root.encode(out);
    header.transactions_root.encode(out);
    header.receipts_root.encode(out);
    header.logs_bloom.encode(out);
    header.difficulty.encode(out);
    header.number.encode(out);
    header.gas_limit.encode(out);
    header.gas_used.encode(out);
    header.timestamp.encode(out);
}

fn encode_common_items(header: &Header, out: &mut Vec<u8>) {
    encode_items_before_extra(header, out);
    header.extra_data.encode(out);
    header.mix_hash.encode(out);
    header.nonce.encode(out);
}

/// Appends the optional items up to the first absent one, where it returns `None`: no later item may follow.
fn encode_ethereum_items(header: &Header, out: &mut Vec<u8>) -> Option<()> {
    header.base_fee_per_gas?.encode(out);
    header.withdrawals_root?.encode(out);
    // Blob gas used alone would make the item count ambiguous with the native form, so all three are written or none.
    let (used, excess, root) = (header.blob_gas_used?, header.excess_blob_gas?, header.parent_beacon_block_root?);
    used.encode(out);
    excess.encode(out);
    root.encode(out);
    header.requests_hash?.encode(out);
    Some(())
}

/// Computes the block hash and joins it to the header.
pub fn seal(header: Header) -> SealedHeader {
    let mut encoded = Vec::new();
    encode_header(&header, &mut encoded);
    SealedHeader::new_unchecked(header, keccak256(encoded))
}
