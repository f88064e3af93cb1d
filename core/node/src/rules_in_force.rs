//! The rules of a folder's chain are stored in its database. A chain continues only under these rules. Other rules at
//! or below the head would give its blocks another state, and a difference would only show when a later block is
//! refused.

use tenon_api::{BlockNumber, ChainReader, U256};
use tenon_chain::{BlockPlace, ChainSpec, RuleChange, Rules};
use tenon_storage::Store;

use crate::exit::Stop;
use crate::family::NodeFamily;

/// New rules for a folder.
pub(crate) struct AcceptedRules {
    rules: Rules,
    /// The first height at which the rules differ; `None` if none were stored. The store removes the side-branch blocks
    /// from there on, which were checked under the old rules.
    first: Option<u64>,
}

impl AcceptedRules {
    /// Stores them as the folder's rules.
    ///
    /// # Errors
    /// [`Stop::Failure`] if they can't be written.
    pub(crate) fn keep(&self, store: &Store) -> Result<(), Stop> {
        store.write_rules(&self.rules.to_bytes().map_err(Stop::failure)?, self.first).map_err(Stop::from)
    }
}

/// Compares the configured rules with the folder's. If they differ, they replace the folder's as long as no block of
/// its chain is affected. That is so in a new folder, in a folder of a release that stored no rules, and if a fork is
/// scheduled above the head.
///
/// # Errors
/// [`Stop::DataFolder`] naming every rule that differs for a block of the chain, and the block to unwind to.
pub(crate) fn compare(spec: &ChainSpec, family: &dyn NodeFamily, store: &Store) -> Result<Option<AcceptedRules>, Stop> {
    let configured = spec.rules();
    let Some(kept) = store.rules()? else { return Ok(Some(AcceptedRules { rules: configured, first: None })) };
    let kept = Rules::from_bytes(&kept).map_err(|error| {
        Stop::DataFolder(format!(
            "the rules of the chain in this folder can't be read: {error}; use the release that wrote it, or import the \
             chain into a new folder"
        ))
    })?;
    let changes = configured.changed_since(&kept);
    if changes.is_empty() {
        return Ok(None);
    }
    let chain = Chain { family, store };
    let head = store.head().header.number;
    let mut concerned = Vec::new();
    for change in &changes {
        let first = chain.first_with(change, head)?;
        if let Some(first) = first
            && change.concerns(&chain.place(first)?)
        {
            concerned.push((first, change));
        }
    }
    if let Some(lowest) = concerned.iter().map(|(first, _)| *first).min() {
        return Err(refusal(&concerned, lowest, head));
    }
    for change in &changes {
        tracing::info!(%change, "rule change applied; it affects no existing block");
    }
    // Side-branch blocks may be above the head.
    Ok(Some(AcceptedRules { rules: configured, first: Some(head.saturating_add(1)) }))
}

fn refusal(concerned: &[(u64, &RuleChange)], lowest: u64, head: u64) -> Stop {
    let named: Vec<_> =
        concerned.iter().map(|(first, change)| format!("{change} (block {first} is the first)")).collect();
    Stop::DataFolder(format!(
        "the chain in this folder was made with other rules: {}; its head is block {head}. Configure the rules that \
         it was made with, or run `tenon db unwind {}` and start again: the blocks above are then imported with the \
         new rules",
        named.join("; "),
        lowest.saturating_sub(1),
    ))
}

/// Access to the blocks of the folder's chain.
struct Chain<'a> {
    family: &'a dyn NodeFamily,
    store: &'a Store,
}

impl Chain<'_> {
    /// The first block affected by a change of rules; `None` if there is none up to the head. Found by bisection,
    /// because times, rounds and total difficulties only grow with the height.
    fn first_with(&self, change: &RuleChange, head: u64) -> Result<Option<u64>, Stop> {
        if head == 0 || !change.is_reached(&self.place(head)?) {
            return Ok(None);
        }
        let (mut without, mut with) = (0, head);
        while with - without > 1 {
            let middle = without + (with - without) / 2;
            if change.is_reached(&self.place(middle)?) {
                with = middle;
            } else {
                without = middle;
            }
        }
        Ok(Some(with))
    }

    fn place(&self, number: u64) -> Result<BlockPlace, Stop> {
        let missing = || Stop::failure(format!("block {number} is missing; run `tenon db verify`"));
        let hash = self.store.canonical_hash(BlockNumber(number))?.ok_or_else(missing)?;
        let header = self.store.header(hash)?.ok_or_else(missing)?;
        let round = self.family.round_of(&header);
        let parent_total_difficulty = match number {
            0 => U256::ZERO,
            _ => self.store.total_difficulty(header.parent_hash)?.unwrap_or_default(),
        };
        Ok(BlockPlace { number, timestamp: header.timestamp, parent_total_difficulty, round })
    }
}
