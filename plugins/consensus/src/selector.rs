//! Callers' notation of blocks (`docs/spec/rpc-node.md` 1.2, 2.2).

use tenon_sdk::{param::ParamDescription, prelude::*};

/// A block by height or tag. `safe` is an Ethereum tag and not accepted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Selector(BlockNumberParam);

impl Selector {
    /// The block's number in the reference's texts; tags have negative numbers.
    const fn number(self) -> i64 {
        match self.0.0 {
            BlockId::Tag(BlockTag::Finalized | BlockTag::Safe) => -3,
            BlockId::Tag(BlockTag::Latest) | BlockId::Hash { .. } => -2,
            BlockId::Tag(BlockTag::Pending) => -1,
            BlockId::Tag(BlockTag::Earliest) => 0,
            // Greater heights are refused when they are decoded.
            BlockId::Number(number) => number.0.cast_signed(),
        }
    }
}

impl Param for Selector {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let block = BlockNumberParam::decode(raw)?;
        if block.0 == BlockId::Tag(BlockTag::Safe) {
            return Err(ArgumentError::text("hex string without 0x prefix"));
        }
        Ok(Self(block))
    }

    fn description() -> ParamDescription {
        BlockNumberParam::description()
    }
}

/// A chosen block; `None` means the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChosenBlock(Option<Selector>);

impl ChosenBlock {
    /// The block. There is no pending block, so that tag means the head.
    pub(crate) fn block(self) -> BlockId {
        match self.0 {
            None => BlockId::LATEST,
            Some(Selector(BlockNumberParam(BlockId::Tag(BlockTag::Pending)))) => BlockId::LATEST,
            Some(selector) => selector.0.0,
        }
    }

    /// The block, for methods that accept the last committed one.
    ///
    /// # Errors
    /// `invalid block number -1` for the pending block.
    pub(crate) fn or_committed(self) -> Result<BlockId, Failure> {
        match self.0 {
            None => Ok(BlockId::LATEST),
            Some(selector) if selector.number() == -1 => Err(invalid(selector)),
            Some(selector) => Ok(selector.0.0),
        }
    }

    /// The block, for methods that accept only heights and the head.
    ///
    /// # Errors
    /// `invalid block number <n>` for the pending and the last committed block.
    pub(crate) fn height(self) -> Result<BlockId, Failure> {
        match self.0 {
            Some(selector) if matches!(selector.number(), -1 | -3) => Err(invalid(selector)),
            _ => self.or_committed(),
        }
    }

    /// Its number in error texts; `None` if no block was chosen.
    pub(crate) fn number(self) -> Option<i64> {
        self.0.map(Selector::number)
    }
}

fn invalid(selector: Selector) -> Failure {
    Failure::server(format!("invalid block number {}", selector.number()))
}

impl Param for ChosenBlock {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        Option::decode(raw).map(Self)
    }

    fn missing() -> Option<Self> {
        Some(Self(None))
    }

    fn description() -> ParamDescription {
        Option::<Selector>::description()
    }
}
