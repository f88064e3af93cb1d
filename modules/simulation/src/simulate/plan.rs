//! Plans the simulated blocks: heights and times in order, gaps filled, all numbers bounded.

use tenon_api::{
    Header,
    messages::{AccountOverride, BlockToSimulate, SimulationFailure},
};

use super::SimulateError;

/// Maximum number of blocks of a simulation, including those that fill gaps; go-ethereum's limit.
const MAX_BLOCKS: u64 = 256;
/// Maximum number of calls of a block; go-ethereum's limit.
const MAX_CALLS_PER_BLOCK: usize = 5_000;
/// Maximum number of calls of all blocks; go-ethereum's limit.
const MAX_CALLS: usize = 10_000;
/// Maximum number of overridden accounts and slots and of withdrawals of all blocks: each costs reads and updates of
/// the state trie, which nothing interrupts.
const MAX_CHANGES: usize = 50_000;
/// Time between two blocks if the caller gives none, seconds.
const SECONDS_BETWEEN_BLOCKS: u64 = 12;

/// A block with its height and time.
pub(super) struct PlannedBlock {
    pub(super) number: u64,
    pub(super) timestamp: u64,
    pub(super) wanted: BlockToSimulate,
}

/// Determines heights and times of blocks above `base`.
///
/// # Errors
/// An exceeded limit, or heights and times that do not ascend.
pub(super) fn plan(base: &Header, blocks: Vec<BlockToSimulate>) -> Result<Vec<PlannedBlock>, SimulateError> {
    check_size(&blocks)?;
    let mut planned: Vec<PlannedBlock> = Vec::with_capacity(blocks.len());
    let (mut number, mut timestamp) = (base.number, base.timestamp);
    for wanted in blocks {
        let target = number_of(&wanted, base, number)?;
        while number + 1 < target {
            (number, timestamp) = (number + 1, following(timestamp)?);
            planned.push(PlannedBlock { number, timestamp, wanted: BlockToSimulate::default() });
        }
        number = target;
        timestamp = match wanted.overrides.time {
            None => following(timestamp)?,
            Some(time) if time > timestamp => time,
            Some(given) => return Err(SimulationFailure::TimestampNotAscending { given, previous: timestamp }.into()),
        };
        planned.push(PlannedBlock { number, timestamp, wanted });
    }
    Ok(planned)
}

fn check_size(blocks: &[BlockToSimulate]) -> Result<(), SimulateError> {
    if blocks.is_empty() {
        return Err(SimulationFailure::NoBlocks.into());
    }
    if blocks.len() as u64 > MAX_BLOCKS {
        return Err(SimulationFailure::TooManyBlocks.into());
    }
    if let Some(calls) = blocks.iter().map(|block| block.calls.len()).find(|calls| *calls > MAX_CALLS_PER_BLOCK) {
        return Err(
            SimulationFailure::TooManyCallsInBlock { calls: calls as u64, max: MAX_CALLS_PER_BLOCK as u64 }.into()
        );
    }
    let calls: usize = blocks.iter().map(|block| block.calls.len()).sum();
    if calls > MAX_CALLS {
        return Err(SimulationFailure::TooManyCalls { calls: calls as u64, max: MAX_CALLS as u64 }.into());
    }
    let changes: usize = blocks.iter().map(changes_of).sum();
    if changes > MAX_CHANGES {
        return Err(SimulationFailure::TooManyChanges { changes: changes as u64, max: MAX_CHANGES as u64 }.into());
    }
    Ok(())
}

fn changes_of(block: &BlockToSimulate) -> usize {
    let overrides: usize = block.state_overrides.iter().map(|(_, account)| 1 + slots_of(account)).sum();
    overrides + block.withdrawals.as_ref().map_or(0, Vec::len)
}

fn slots_of(account: &AccountOverride) -> usize {
    account.state.iter().chain(&account.state_diff).map(Vec::len).sum()
}

/// The height of a block after one at `previous`.
fn number_of(wanted: &BlockToSimulate, base: &Header, previous: u64) -> Result<u64, SimulateError> {
    let Some(given) = wanted.overrides.number else { return number_within(base, previous.saturating_add(1)) };
    let given: u64 = given.saturating_to();
    if given <= previous {
        return Err(SimulationFailure::NumberNotAscending { given, previous }.into());
    }
    number_within(base, given)
}

fn number_within(base: &Header, number: u64) -> Result<u64, SimulateError> {
    if number == u64::MAX || number - base.number > MAX_BLOCKS {
        return Err(SimulationFailure::TooManyBlocks.into());
    }
    Ok(number)
}

fn following(timestamp: u64) -> Result<u64, SimulateError> {
    timestamp.checked_add(SECONDS_BETWEEN_BLOCKS).ok_or_else(|| SimulationFailure::TimestampTooLarge.into())
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, B256, U256};
    use tenon_api::messages::{BlockOverrides, CallRequest};

    use super::*;

    fn base() -> Header {
        Header { number: 54, timestamp: 540, ..Header::default() }
    }

    fn at(number: Option<u64>, time: Option<u64>) -> BlockToSimulate {
        let overrides = BlockOverrides { number: number.map(U256::from), time, ..BlockOverrides::default() };
        BlockToSimulate { overrides, ..BlockToSimulate::default() }
    }

    fn places(blocks: Vec<BlockToSimulate>) -> Result<Vec<(u64, u64)>, SimulationFailure> {
        match plan(&base(), blocks) {
            Ok(planned) => Ok(planned.iter().map(|block| (block.number, block.timestamp)).collect()),
            Err(SimulateError::Failed(failure)) => Err(failure),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn gaps_are_filled_with_blocks_that_follow_every_twelve_seconds() {
        let blocks = vec![at(None, None), at(Some(58), None), at(None, Some(1_000))];

        assert_eq!(places(blocks), Ok(vec![(55, 552), (56, 564), (57, 576), (58, 588), (59, 1_000)]));
    }

    #[test]
    fn heights_and_times_must_ascend() {
        let number = |given, previous| Err(SimulationFailure::NumberNotAscending { given, previous });
        let time = |given, previous| Err(SimulationFailure::TimestampNotAscending { given, previous });

        assert_eq!(places(vec![at(Some(54), None)]), number(54, 54));
        assert_eq!(places(vec![at(None, None), at(Some(55), None)]), number(55, 55));
        assert_eq!(places(vec![at(None, Some(540))]), time(540, 540));
        assert_eq!(places(vec![at(Some(57), Some(560))]), time(560, 564), "the gap before it takes its time");
        let beyond = places(vec![at(None, Some(u64::MAX)), at(None, None)]);
        assert_eq!(beyond, Err(SimulationFailure::TimestampTooLarge));
    }

    #[test]
    fn numbers_of_everything_are_bounded() {
        let with_calls = |calls| BlockToSimulate { calls: vec![CallRequest::default(); calls], ..at(None, None) };
        let slots = vec![(B256::ZERO, B256::ZERO); MAX_CHANGES];
        let account = AccountOverride { state_diff: Some(slots), ..AccountOverride::default() };
        let overridden = BlockToSimulate { state_overrides: vec![(Address::ZERO, account)], ..at(None, None) };
        let cases = [
            (vec![], SimulationFailure::NoBlocks),
            (vec![at(None, None); 257], SimulationFailure::TooManyBlocks),
            (vec![at(Some(54 + 257), None)], SimulationFailure::TooManyBlocks),
            (vec![at(Some(u64::MAX), None)], SimulationFailure::TooManyBlocks),
            (vec![with_calls(5_001)], SimulationFailure::TooManyCallsInBlock { calls: 5001, max: 5000 }),
            (vec![with_calls(4_000); 3], SimulationFailure::TooManyCalls { calls: 12_000, max: 10_000 }),
            (vec![overridden], SimulationFailure::TooManyChanges { changes: 50_001, max: 50_000 }),
        ];

        for (blocks, failure) in cases {
            assert_eq!(places(blocks), Err(failure));
        }
        assert_eq!(places(vec![at(Some(54 + 256), None)]).unwrap().len(), 256);
    }
}
