//! The background work: catching up, following the head, and undoing reorganised blocks.

use tenon_sdk::{FailureCode, Step, api::LocatedLog, prelude::*};

use crate::{
    Erc20Index, Settings,
    keys::{self, Cursor, TransferPosition},
    ledger::{self, Direction},
    transfer::{self, Transfer},
};

/// Maximum number of blocks per step while catching up.
const MAX_STEP: u64 = 1_024;
/// Maximum number of transfers per step, because a batch is limited in size. A step with more is repeated with fewer
/// blocks.
const MAX_TRANSFERS: usize = 4_000;
/// Number of records removed per batch when the index restarts.
const REMOVED_PER_BATCH: u64 = 5_000;

type FollowContext = Context<Erc20Index>;

/// Follows the chain until the plugin is removed. The host restarts it after an error.
pub(crate) async fn follow(context: FollowContext) -> Result<(), Failure> {
    *context.problem() = None;
    let outcome = follow_from_the_cursor(&context).await;
    if let Err(failure) = &outcome {
        *context.problem() = Some(failure.message.clone());
    }
    outcome
}

async fn follow_from_the_cursor(context: &FollowContext) -> Result<(), Failure> {
    let storage = context.storage();
    let mut cursor = begin(context, &storage).await?;
    let mut follower = Follower::new(context.host(), cursor.hash);
    let mut largest = MAX_STEP;
    loop {
        let step = follower.next(largest).await?;
        let taken = match step.removed.is_empty() {
            true => count(context, &storage, cursor, &step).await?,
            false => undo(context, &storage, cursor, &step).await?,
        };
        match taken {
            StepOutcome::Reached(reached) => {
                cursor = reached;
                largest = largest.saturating_mul(2).min(MAX_STEP);
            }
            StepOutcome::TooMuch => largest = (step.added.len() as u64 / 2).max(1),
            StepOutcome::Reorganised => {}
            // Another build of this plugin, which replaces this one or is replaced by it, was faster.
            StepOutcome::Overtaken => cursor = read_cursor(&storage).await?.ok_or_else(cursor_gone)?,
        }
        follower.set_known(cursor.hash);
    }
}

fn cursor_gone() -> Failure {
    Failure::server("the index was removed while it was followed")
}

/// Outcome of a step.
enum StepOutcome {
    /// Everything up to this block is counted.
    Reached(Cursor),
    /// More transfers than fit into one batch: repeat with fewer blocks.
    TooMuch,
    /// The chain changed during reading: repeat the step.
    Reorganised,
    /// Another build has moved the cursor.
    Overtaken,
}

async fn read_cursor(storage: &Storage) -> Result<Option<Cursor>, Failure> {
    Ok(storage.get(keys::CURSOR).await?.and_then(|record| Cursor::decode(&record)))
}

/// The cursor to continue from; the configured start if there is no index yet, or one of other tokens.
async fn begin(context: &FollowContext, storage: &Storage) -> Result<Cursor, Failure> {
    let fingerprint = fingerprint(&context.settings);
    let settings = storage.get(keys::SETTINGS).await?;
    let is_ours = settings.is_some_and(|settings| *settings == *fingerprint.as_slice());
    if let Some(cursor) = read_cursor(storage).await?.filter(|_| is_ours) {
        return Ok(cursor);
    }
    let from = context.settings.from;
    let first = context.header(BlockNumber(from)).await?;
    let first = first.ok_or_else(|| Failure::server(format!("settings: the chain has no block {from} yet")))?;
    context.host().log(LogLevel::Info, &format!("the index starts again after block {from}"));
    // The cursor is deleted first, so that the rest of the old index is never used as an index.
    storage.delete(keys::CURSOR).await?;
    remove_all(storage).await?;
    let cursor = Cursor { number: from, hash: first.header.hash() };
    let mut batch = Batch::new();
    batch.put(keys::SETTINGS, fingerprint.as_slice());
    batch.put(keys::CURSOR, &cursor.encode());
    storage.commit(batch).await?;
    Ok(cursor)
}

fn fingerprint(settings: &Settings) -> B256 {
    let tokens = settings.tokens.iter().flat_map(|token| token.to_vec());
    keccak256(settings.from.to_be_bytes().into_iter().chain(tokens).collect::<Vec<_>>())
}

async fn remove_all(storage: &Storage) -> Result<(), Failure> {
    loop {
        let page = storage.range(&[], None, REMOVED_PER_BATCH).await?;
        let mut batch = Batch::new();
        page.records.iter().for_each(|(key, _)| batch.delete(key));
        storage.commit(batch).await?;
        if !page.has_more {
            return Ok(());
        }
    }
}

/// Applies the added blocks.
async fn count(
    context: &FollowContext,
    storage: &Storage,
    cursor: Cursor,
    step: &Step,
) -> Result<StepOutcome, Failure> {
    let (Some((first, _)), Some((last, last_hash))) = (step.added.first(), step.added.last()) else {
        return Ok(StepOutcome::Reorganised);
    };
    let can_be_smaller = step.added.len() > 1;
    let wanted = LogFilter { addresses: context.settings.tokens.clone(), topics: vec![vec![transfer::topic()]] };
    // The head may have been moved back below the index's first block.
    let first = first.0.max(context.settings.from.saturating_add(1));
    let found = if first > last.0 { Ok(Vec::new()) } else { context.logs(first, last.0, wanted).await };
    let logs = match found {
        Err(failure) if failure.code == FailureCode::LIMIT_EXCEEDED && can_be_smaller => {
            return Ok(StepOutcome::TooMuch);
        }
        logs => logs?,
    };
    if logs.len() > MAX_TRANSFERS && can_be_smaller {
        return Ok(StepOutcome::TooMuch);
    }
    // Blocks were listed by hash and logs by number: they are consistent if the last block is still the same.
    let is_same = context.header(*last).await?.is_some_and(|header| header.header.hash() == *last_hash);
    if !is_same || logs.iter().any(|log| !is_listed(step, log)) {
        return Ok(StepOutcome::Reorganised);
    }
    let transfers: Vec<_> = logs.iter().filter_map(Transfer::of_log).collect();
    let reached = Cursor { number: last.0, hash: *last_hash };
    commit(storage, &transfers, Direction::Apply, cursor, reached).await
}

fn is_listed(step: &Step, log: &LocatedLog) -> bool {
    let first = step.common.0.next();
    let position = log.block_number.0.checked_sub(first.0).and_then(|position| usize::try_from(position).ok());
    position.and_then(|position| step.added.get(position)).is_some_and(|(_, hash)| *hash == log.block_hash)
}

/// Undoes removed blocks, newest first, as many as fit into a batch; the next step undoes the rest.
async fn undo(context: &FollowContext, storage: &Storage, cursor: Cursor, step: &Step) -> Result<StepOutcome, Failure> {
    let mut transfers = Vec::new();
    let mut reached = cursor;
    let parents = step.removed.iter().skip(1).chain([&step.common]);
    for ((number, _), (parent, parent_hash)) in step.removed.iter().zip(parents) {
        for token in &context.settings.tokens {
            read_block(storage, *token, number.0, &mut transfers).await?;
        }
        reached = Cursor { number: parent.0, hash: *parent_hash };
        if transfers.len() > MAX_TRANSFERS {
            break;
        }
    }
    commit(storage, &transfers, Direction::Undo, cursor, reached).await
}

/// The indexed transfers of a token in one block.
async fn read_block(
    storage: &Storage,
    token: Address,
    block: u64,
    transfers: &mut Vec<Transfer>,
) -> Result<(), Failure> {
    let mut from = keys::transfer(token, TransferPosition { block, log: 0 });
    let end = keys::transfer(token, TransferPosition { block: block.saturating_add(1), log: 0 });
    loop {
        let page = storage.range(&from, Some(&end), u64::MAX).await?;
        for (key, record) in &page.records {
            let position =
                key.get(key.len().saturating_sub(TransferPosition::LENGTH)..).and_then(TransferPosition::decode);
            let transfer = position.and_then(|position| Transfer::decode(token, position, record));
            transfers.push(transfer.ok_or_else(|| Failure::server("the index is damaged: a transfer"))?);
        }
        match page.records.last() {
            Some((last, _)) if page.has_more => from = [last, [0].as_slice()].concat(),
            _ => return Ok(()),
        }
    }
}

async fn commit(
    storage: &Storage,
    transfers: &[Transfer],
    direction: Direction,
    cursor: Cursor,
    reached: Cursor,
) -> Result<StepOutcome, Failure> {
    let batch = ledger::batch(storage, transfers, direction, cursor, reached).await?;
    let outcome = storage.commit(batch).await?;
    Ok(if outcome.is_applied { StepOutcome::Reached(reached) } else { StepOutcome::Overtaken })
}
