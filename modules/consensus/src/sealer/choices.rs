//! Changes by operators to the parameters of blocks while the sealer runs.

use std::sync::Arc;

use parking_lot::RwLock;
use tenon_api::{Address, Bytes, messages::SealingChange};

use crate::rules::header::MAX_EXTRA_DATA_BYTES;

/// Changes that apply until the node ends. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct SealChoices {
    /// Locked only to copy the values.
    choices: Arc<RwLock<Choices>>,
}

/// Values that were set; `None` means the sealer's options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Choices {
    pub(super) etherbase: Option<Address>,
    pub(super) gas_limit: Option<u64>,
    pub(super) extra_data: Option<Bytes>,
}

/// Extra data longer than a header's maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the extra data has {found} bytes, but a header may have at most {MAX_EXTRA_DATA_BYTES}")]
pub struct TooLong {
    /// Length given.
    pub found: usize,
}

impl SealChoices {
    /// Applies a change, for the next block.
    ///
    /// # Errors
    /// [`TooLong`]; nothing is changed then.
    pub fn change(&self, change: SealingChange) -> Result<(), TooLong> {
        let mut choices = self.choices.write();
        match change {
            SealingChange::Etherbase(address) => choices.etherbase = Some(address),
            SealingChange::GasLimit(limit) => choices.gas_limit = Some(limit),
            SealingChange::ExtraData(data) if data.len() > MAX_EXTRA_DATA_BYTES => {
                return Err(TooLong { found: data.len() });
            }
            SealingChange::ExtraData(data) => choices.extra_data = Some(data),
        }
        Ok(())
    }

    /// The account that was set; `None` if none was.
    pub fn etherbase(&self) -> Option<Address> {
        self.choices.read().etherbase
    }

    pub(super) fn current(&self) -> Choices {
        self.choices.read().clone()
    }
}
