//! Counts the blocks of an epoch that each of its masternodes signed (`docs/spec/chain.md` 4.3, "Counting signatures").

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use tenon_api::{Address, B256, ChainReader, Header, SealedHeader, U256};
use tenon_native_spec::NativeSettings;

use super::RewardError;
use crate::{
    addresses_of,
    ancestry::required,
    header_link::HeaderLink,
    signing::{MERGE_SIGN_RANGE, SigningIndex, SigningTransactionFilter},
    v1_masternodes,
};

/// Signatures by masternode. Masternodes without signatures are absent.
pub(super) type SignatureCounts = BTreeMap<Address, u64>;

/// The epoch that is rewarded from `tipUpgradeReward` on (`docs/spec/upgrades.md` 3.1).
pub(super) struct EndedEpoch {
    /// Its signatures and its first header; `None` if the chain has fewer than two epoch switches.
    pub(super) window: Option<Window>,
    /// Base fees of the blocks from the parent back to the first epoch switch, inclusive, wei: "burned" by the supply
    /// record (4), although they are paid like all fees.
    pub(super) burned: U256,
}

/// The epoch that a v2 block pays for.
pub(super) fn ended_epoch(
    settings: &NativeSettings,
    header: &Header,
    chain: &dyn ChainReader,
    signing: &SigningIndex,
) -> Result<EndedEpoch, RewardError> {
    WindowBuilder { settings, chain, signing }.two_epoch_switches(header)
}

/// The counts for the rewards paid by this block.
pub(super) fn signature_counts(
    settings: &NativeSettings,
    header: &Header,
    chain: &dyn ChainReader,
    signing: &SigningIndex,
) -> Result<SignatureCounts, RewardError> {
    let builder = WindowBuilder { settings, chain, signing };
    let window = if header.number > settings.consensus.switch_block {
        builder.two_epoch_switches(header)?.window
    } else {
        builder.two_checkpoints(header)?
    };
    Ok(window.map(|window| window.counts(settings, &window.masternodes)).unwrap_or_default())
}

/// Data collected while walking back over two epochs.
pub(super) struct Window {
    /// The masternodes of the rewarded epoch.
    pub(super) masternodes: HashSet<Address>,
    /// The penalties in the header that begins the rewarded epoch.
    pub(super) penalties: Vec<Address>,
    /// Blocks of the rewarded epoch: number and hash.
    rewarded: Vec<(u64, B256)>,
    /// Signers of each block, in both epochs.
    signatures: HashMap<B256, HashSet<Address>>,
}

impl Window {
    /// The number of counted blocks that each of these nodes signed.
    pub(super) fn counts(&self, settings: &NativeSettings, nodes: &HashSet<Address>) -> SignatureCounts {
        let mut counts = SignatureCounts::new();
        let counted = self.rewarded.iter().filter(|(number, _)| is_counted(settings, *number));
        for (_, hash) in counted {
            let Some(signers) = self.signatures.get(hash) else { continue };
            for masternode in signers.intersection(nodes) {
                *counts.entry(*masternode).or_default() += 1;
            }
        }
        counts
    }
}

/// Every 15th block, and every block before TIP2019. No v2 chain pays for blocks before TIP2019.
const fn is_counted(settings: &NativeSettings, number: u64) -> bool {
    number.is_multiple_of(MERGE_SIGN_RANGE)
        || (number <= settings.consensus.switch_block && number < settings.heights.tip2019)
}

struct WindowBuilder<'a> {
    settings: &'a NativeSettings,
    chain: &'a dyn ChainReader,
    signing: &'a SigningIndex,
}

impl WindowBuilder<'_> {
    /// v1 (`docs/spec/chain.md` 4.3, left column): the epoch before the last one, with signatures from both; its
    /// masternodes are in the checkpoint before it.
    fn two_checkpoints(&self, header: &Header) -> Result<Option<Window>, RewardError> {
        let distance = self.settings.consensus.reward_checkpoint;
        let Some(opened_at) = header.number.checked_sub(2 * distance) else { return Ok(None) };
        let mut window = self.empty_window();
        let mut current = self.parent_of(header)?;
        while current.number > opened_at {
            if current.number <= header.number - distance {
                window.rewarded.push((current.number, current.hash()));
            }
            // Before tipSigning these were ordinary calls, which could fail.
            let filter = if current.number < self.settings.heights.tip_signing {
                SigningTransactionFilter::Successful
            } else {
                SigningTransactionFilter::All
            };
            self.collect(&mut window, current.hash(), filter)?;
            current = self.parent_of(&current)?;
        }
        window.masternodes = v1_masternodes(&current.extra_data).into_iter().collect();
        Ok(Some(window))
    }

    /// v2 (right column; `docs/spec/consensus.md` 11): between the second and the first epoch switch before the block.
    /// The first v2 block does not count as one; v1 checkpoints do. `None` if the chain has fewer, because the walk
    /// ends at the genesis block.
    fn two_epoch_switches(&self, header: &Header) -> Result<EndedEpoch, RewardError> {
        let mut window = self.empty_window();
        let (mut switches, mut burned) = (0, U256::ZERO);
        let mut current = self.link(header.parent_hash, header.number.saturating_sub(1))?;
        loop {
            if switches == 0 {
                burned = burned.saturating_add(current.base_fees);
            }
            if self.counts_as_switch(&current)? {
                switches += 1;
                if switches == 2 {
                    let switch = required(self.chain, current.hash)?;
                    window.masternodes = self.masternodes_of(&switch).into_iter().collect();
                    window.penalties =
                        switch.native_seal.as_ref().map(|seal| addresses_of(&seal.penalties)).unwrap_or_default();
                    return Ok(EndedEpoch { window: Some(window), burned });
                }
            } else if switches == 1 {
                window.rewarded.push((current.number, current.hash));
            }
            self.collect(&mut window, current.hash, SigningTransactionFilter::All)?;
            if current.number == 0 {
                return Ok(EndedEpoch { window: None, burned });
            }
            current = self.link(current.parent_hash, current.number - 1)?;
        }
    }

    fn counts_as_switch(&self, header: &HeaderLink) -> Result<bool, RewardError> {
        let consensus = &self.settings.consensus;
        if header.number < consensus.switch_block {
            return Ok(header.number.is_multiple_of(consensus.epoch));
        }
        Ok(header.number != consensus.switch_block.saturating_add(1)
            && header.is_epoch_switch(consensus, self.chain)?)
    }

    fn masternodes_of(&self, epoch_switch: &Header) -> Vec<Address> {
        if epoch_switch.number <= self.settings.consensus.switch_block {
            return v1_masternodes(&epoch_switch.extra_data);
        }
        epoch_switch.native_seal.as_ref().map(|seal| addresses_of(&seal.validators)).unwrap_or_default()
    }

    fn collect(&self, window: &mut Window, hash: B256, filter: SigningTransactionFilter) -> Result<(), RewardError> {
        for transaction in self.signing.of(hash, filter, self.chain)?.iter() {
            window.signatures.entry(transaction.block).or_default().insert(transaction.signer);
        }
        Ok(())
    }

    fn link(&self, hash: B256, number: u64) -> Result<HeaderLink, RewardError> {
        self.signing.link(hash, self.chain)?.ok_or(RewardError::MissingHeader { number, hash })
    }

    fn parent_of(&self, header: &Header) -> Result<Arc<SealedHeader>, RewardError> {
        let (hash, number) = (header.parent_hash, header.number.saturating_sub(1));
        self.chain.header(hash)?.ok_or(RewardError::MissingHeader { number, hash })
    }

    fn empty_window(&self) -> Window {
        Window { masternodes: HashSet::new(), penalties: Vec::new(), rewarded: Vec::new(), signatures: HashMap::new() }
    }
}
