//! Follows the canonical chain block by block, through reorganisations.

use crate::Failure;
use alloy_primitives::B256;
use futures_util::future::{Either, select};
use tenon_api::{
    BlockNumber,
    messages::{BlocksUnwound, NewHead},
};

use crate::{Events, Host, Node};

/// Changes of the canonical chain since a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Blocks that left it, newest first.
    pub removed: Vec<(BlockNumber, B256)>,
    /// The last known block that is still canonical: the known block itself if nothing was removed.
    pub common: (BlockNumber, B256),
    /// Blocks that joined it, oldest first, without a gap after `common`.
    pub added: Vec<(BlockNumber, B256)>,
}

impl Step {
    /// The block up to which the chain is known after this step.
    pub fn reached(&self) -> (BlockNumber, B256) {
        self.added.last().copied().unwrap_or(self.common)
    }
}

/// Reports how the canonical chain changed since the block that the plugin knows: first the whole history, then new
/// blocks. A missed event loses nothing: events only trigger the next request to the node, whose reply has all changes.
///
/// ```
/// use tenon_sdk::{Follower, prelude::*, testing::{Chain, TestBlock}};
///
/// async fn follow(host: Host, genesis: B256) -> Result<Vec<u64>, Failure> {
///     let mut follower = Follower::new(&host, genesis);
///     let mut seen = Vec::new();
///     while seen.len() < 3 {
///         let step = follower.next(100).await?;
///         seen.retain(|number| *number <= step.common.0.0);
///         seen.extend(step.added.iter().map(|(number, _)| number.0));
///         follower.set_known(step.reached().1);
///     }
///     Ok(seen)
/// }
///
/// let chain = Chain::new();
/// let genesis = chain.head().hash();
/// (0..3).for_each(|_| { chain.add(TestBlock::new()); });
/// assert_eq!(chain.run(follow(chain.host(), genesis)), Ok(vec![1, 2, 3]));
/// ```
pub struct Follower {
    host: Host,
    known: B256,
    heads: Events<NewHead>,
    unwound: Events<BlocksUnwound>,
}

impl Follower {
    /// Starts after this block, which need not be canonical any more. The genesis block's hash is in
    /// [`Node::chain_info`].
    pub fn new(host: &Host, known: B256) -> Self {
        Self { host: host.clone(), known, heads: host.events(), unwound: host.events() }
    }

    /// Waits until the chain differs from the known block, and returns the difference, with at most `limit` added
    /// blocks. Returns the same difference again until [`Follower::set_known`].
    ///
    /// # Errors
    /// If the node does not know the block, or stops announcing because the plugin is being stopped.
    pub async fn next(&mut self, limit: u64) -> Result<Step, Failure> {
        loop {
            let changes = self.host.changes_since(self.known, limit).await?;
            if !(changes.removed.is_empty() && changes.added.is_empty()) {
                let oldest = changes.removed.last().map_or(self.known, |(_, hash)| *hash);
                let header = self.host.header(oldest).await?.ok_or_else(|| Failure::server("unknown block"))?.header;
                let common = match changes.removed.is_empty() {
                    true => (BlockNumber(header.number), oldest),
                    false => (BlockNumber(header.number.saturating_sub(1)), header.parent_hash),
                };
                return Ok(Step { removed: changes.removed, common, added: changes.added });
            }
            let (head, unwound) = (Box::pin(self.heads.next()), Box::pin(self.unwound.next()));
            let goes_on = match select(head, unwound).await {
                Either::Left((head, _)) => head?.is_some(),
                Either::Right((unwound, _)) => unwound?.is_some(),
            };
            if !goes_on {
                return Err(Failure::server("the node announces no more blocks"));
            }
        }
    }

    /// Sets the known block: the one that a step reached, or another.
    pub const fn set_known(&mut self, known: B256) {
        self.known = known;
    }
}
