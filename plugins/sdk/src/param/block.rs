//! Callers' notation of blocks (`docs/spec/rpc-eth.md` 4.4, 4.5).

use crate::Failure;
use alloy_primitives::B256;
use tenon_api::{BlockId, BlockNumber, BlockTag};

use super::{
    ArgumentError, Object, Param, ParamDescription, RawArgument,
    hex::{decode_fixed, parse_64_bits, quantity_digits},
};

/// The reference treats heights from here on as nonexistent.
const HEIGHT_LIMIT: u64 = 1 << 63;

/// A block by tag or height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockNumberParam(pub BlockId);

/// A block by tag, height or hash. An empty object names no block: the method must report that (`docs/spec/rpc-eth.md`
/// 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockParam {
    /// The block; `None` for an empty object or `null`.
    pub block: Option<BlockId>,
    /// Whether it was given in an object: for a wrong tag the reference then reports that the object is not a string.
    pub is_object: bool,
}

impl BlockParam {
    /// The head of the chain.
    pub const LATEST: Self = Self::named(Some(BlockId::LATEST));

    /// A block named by a string; `None` for `null`.
    pub const fn named(block: Option<BlockId>) -> Self {
        Self { block, is_object: false }
    }

    const fn in_object(block: Option<BlockId>) -> Self {
        Self { block, is_object: true }
    }

    /// The named block.
    ///
    /// # Errors
    /// `-32000` if neither height nor hash was given.
    pub fn id(self) -> Result<BlockId, Failure> {
        self.block.ok_or_else(|| Failure::server("invalid arguments; neither block nor hash specified"))
    }
}

/// An epoch of a native chain by number; `None` means the current one (`docs/spec/rpc-eth.md` 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochParam(pub Option<u64>);

/// `safe` is an Ethereum tag that the reference does not know. It is accepted everywhere, because clients send it.
fn tag(text: &str) -> Option<BlockTag> {
    match text {
        "latest" => Some(BlockTag::Latest),
        "earliest" => Some(BlockTag::Earliest),
        "pending" => Some(BlockTag::Pending),
        "finalized" | "committed" => Some(BlockTag::Finalized),
        "safe" => Some(BlockTag::Safe),
        _ => None,
    }
}

/// `above` is the error for a height that is too large.
fn tag_or_height(text: &str, above: &str) -> Result<BlockId, ArgumentError> {
    if let Some(tag) = tag(text) {
        return Ok(BlockId::Tag(tag));
    }
    if text.is_empty() {
        return Err(ArgumentError::text("empty hex string"));
    }
    let number = quantity_digits(text).and_then(parse_64_bits).map_err(ArgumentError::text)?;
    if number >= HEIGHT_LIMIT {
        return Err(ArgumentError::text(above));
    }
    Ok(BlockId::Number(BlockNumber(number)))
}

const TAGS_AND_HEIGHTS: &str = r#"{"anyOf":[{"type":"string","enum":["earliest","finalized","safe","latest","pending"]},{"type":"string","pattern":"^0x(0|[1-9a-f][0-9a-f]{0,15})$"}]}"#;

impl Param for BlockNumberParam {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        // The reference strips quotes if there are any and continues with the rest.
        let text = raw.quoted().unwrap_or(raw.as_str());
        let is_bare_tag = raw.quoted().is_none() && tag(text).is_some();
        if is_bare_tag {
            return Err(ArgumentError::text("hex string without 0x prefix"));
        }
        tag_or_height(text, "block number larger than int64").map(Self)
    }

    fn description() -> ParamDescription {
        ParamDescription::required(TAGS_AND_HEIGHTS)
    }
}

impl Param for BlockParam {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        if raw.is_null() {
            return Ok(Self::named(None));
        }
        if raw.kind() == "object" {
            return decode_object(raw);
        }
        let not_string = ArgumentError::mismatch(raw.kind(), "string");
        let text = raw.string().ok_or(not_string)?;
        if text.len() == 66 && tag(&text).is_none() {
            return match decode_fixed(&text, "common.Hash") {
                Ok(hash) => Ok(Self::named(Some(BlockId::hash(B256::new(hash))))),
                // The value is not decoded from JSON here: the reference returns the bare reason.
                Err(ArgumentError::Mismatch { reason, .. }) => Err(ArgumentError::text(reason)),
                Err(other) => Err(other),
            };
        }
        match tag_or_height(&text, "blocknumber too high") {
            Ok(id) => Ok(Self::named(Some(id))),
            Err(error) => Err(error),
        }
    }

    fn description() -> ParamDescription {
        ParamDescription::required(
            r#"{"anyOf":[{"type":"string"},{"type":"object","properties":{"blockNumber":{"type":"string"},"blockHash":{"type":"string"},"requireCanonical":{"type":"boolean"}}}]}"#,
        )
    }
}

impl Param for EpochParam {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let text = raw.quoted().unwrap_or(raw.as_str());
        if raw.quoted().is_some() && text == "latest" {
            return Ok(Self(None));
        }
        if text.is_empty() {
            return Err(ArgumentError::text("empty hex string"));
        }
        let number = quantity_digits(text).and_then(parse_64_bits).map_err(ArgumentError::text)?;
        if number >= HEIGHT_LIMIT {
            return Err(ArgumentError::text("EpochNumber too high"));
        }
        Ok(Self(Some(number)))
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"string","pattern":"^(latest|0x(0|[1-9a-f][0-9a-f]{0,15}))$"}"#)
    }
}

fn decode_object(raw: RawArgument<'_>) -> Result<BlockParam, ArgumentError> {
    // After any error inside the object, the reference tries to read a string and reports that failure instead.
    let lost = |_| ArgumentError::mismatch("object", "string");
    let object = Object::decode(raw, "rpc.BlockNumberOrHash").map_err(lost)?;
    let number = object.optional::<BlockNumberParam>("blockNumber").map_err(lost)?;
    let hash = object.optional::<B256>("blockHash").map_err(lost)?;
    let require_canonical = object.optional::<bool>("requireCanonical").map_err(lost)?.unwrap_or(false);
    match (number, hash) {
        (Some(_), Some(_)) => {
            Err(ArgumentError::text("cannot specify both BlockHash and BlockNumber, choose one or the other"))
        }
        (Some(number), None) => Ok(BlockParam::in_object(Some(number.0))),
        (None, Some(hash)) => Ok(BlockParam::in_object(Some(BlockId::Hash { hash, require_canonical }))),
        (None, None) => Ok(BlockParam::in_object(None)),
    }
}
