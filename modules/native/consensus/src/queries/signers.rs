//! The signers of a block (`docs/spec/rpc-eth.md` 17).

use std::collections::HashSet;

use tenon_api::{Address, BlockId, SealedHeader, StoreError, messages::BlockSigners};

use super::{Queries, QueryError};
use crate::{MERGE_SIGN_RANGE, SigningTransactionFilter, recover, v1_seal_hash};

/// Number of blocks after a signed block in which signing transactions for it count.
const SIGNING_WINDOW: u64 = 30;

impl Queries {
    /// A block's signers and finality. For most blocks the next block with a number that is a multiple of 15 counts:
    /// only those are signed.
    pub(super) fn block_signers(&self, block: BlockId) -> Result<BlockSigners, QueryError> {
        let none = BlockSigners { signers: Some(Vec::new()), finality: 0 };
        let Some(header) = tenon_chain::resolve_block(&*self.chain, block)? else { return Ok(none) };
        let heights = &self.settings.heights;
        let of_epoch = match self.canonical_header(self.next_signed(header.number, heights.tip2019))? {
            Some(counted) => self.masternodes_of(&counted)?,
            None => Vec::new(),
        };
        if of_epoch.is_empty() || header.number == 0 {
            return Ok(none);
        }
        let Some(signed) = self.canonical_header(self.next_signed(header.number, heights.tip_signing))? else {
            return Ok(none);
        };
        let signers = self.signers(&signed)?;
        let is_on_same_branch = self.canonical_header(header.number)?.is_some_and(|own| own.hash() == header.hash());
        let count = if is_on_same_branch { signers.len() as u64 } else { 0 };
        let finality = 100 * count / of_epoch.len() as u64;
        Ok(BlockSigners { signers: (!signers.is_empty()).then_some(signers), finality })
    }

    /// Number of the block whose signatures count for this one: the next multiple of [`MERGE_SIGN_RANGE`], or the block
    /// itself if that multiple is not below the head, or if the block is older than `since`.
    fn next_signed(&self, number: u64, since: u64) -> u64 {
        let next = number + (MERGE_SIGN_RANGE - number % MERGE_SIGN_RANGE);
        if next >= self.chain.head().header.number || number < since { number } else { next }
    }

    /// The masternodes that signed this block, in their order.
    fn signers(&self, block: &SealedHeader) -> Result<Vec<Address>, StoreError> {
        let masternodes = self.masternodes_of(block)?;
        let mut missing: HashSet<Address> = masternodes.iter().copied().collect();
        let mut found = HashSet::new();
        let last = (block.number + SIGNING_WINDOW).min(self.chain.head().header.number);
        for number in block.number + 1..=last {
            if missing.is_empty() {
                break;
            }
            let Some(hash) = self.chain.canonical_hash(number.into())? else { break };
            for signing in &*self.engine.signing().of(hash, SigningTransactionFilter::All, &*self.chain)? {
                if signing.block == block.hash() && missing.remove(&signing.signer) {
                    found.insert(signing.signer);
                }
            }
        }
        found.extend(self.sealers(block));
        Ok(masternodes.into_iter().filter(|masternode| found.contains(masternode)).collect())
    }

    /// Creator and second signer of a v1 block. A v2 block has neither in this form.
    fn sealers(&self, block: &SealedHeader) -> Vec<Address> {
        if self.engine.is_v2(block.number) {
            return Vec::new();
        }
        let second = block.native_seal.as_ref().and_then(|seal| <[u8; 65]>::try_from(&seal.validator[..]).ok());
        let second = second.and_then(|seal| recover(v1_seal_hash(block), &seal).ok());
        self.engine.v1().author(block).ok().into_iter().chain(second).collect()
    }
}
