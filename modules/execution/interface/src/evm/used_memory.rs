//! Measures the memory that the EVM of a run holds ([`RunMemory`]).

use revm::{
    context::{JournalEntry, LocalContextTr as _},
    state::{Account, EvmStorageSlot},
};
use tenon_bus::OutOfMemory;

use super::context::BlockContext;
use crate::run_memory::{Measured, RunMemory};

/// Tables and vectors grow by doubling: the old allocation exists beside the new one, and the allocator keeps it for a
/// while.
const GROWTH_FACTOR: usize = 2;
/// An EVM frame: its stack of 32 KiB, and the rest.
const FRAME_BYTES: usize = 36 << 10;
/// A slot of transient storage: key, value, and its share of a table that is seven eighths full.
const TRANSIENT_SLOT_BYTES: usize = 76;
/// A slot of storage: key, value, and its share of a table that is seven eighths full.
const SLOT_BYTES: usize = size_of::<EvmStorageSlot>() + 44;
/// An account in a table, without its slots.
const ACCOUNT_BYTES: usize = size_of::<Account>() + 24;
/// Slots are summed once in `accounts / ACCOUNTS_PER_CHECK` checks, so that a sum costs about as much as the checks
/// between two sums.
const ACCOUNTS_PER_CHECK: usize = 64;

/// Counts what the EVM holds now, and `more` bytes that it is about to allocate.
///
/// # Errors
/// The client's share is exhausted.
pub(super) fn count(memory: &RunMemory, context: &BlockContext, more: usize) -> Result<(), OutOfMemory> {
    memory.set_run(|measured| measured.bytes_of(context).saturating_add(more))
}

impl Measured {
    /// Bytes that the EVM holds besides its state.
    fn bytes_of(&mut self, context: &BlockContext) -> usize {
        let journal = &context.journaled_state.inner;
        self.depth = self.depth.max(journal.depth);
        self.add_slots(context);
        self.add_logs(context);
        let accounts = (journal.state.capacity() + journal.transient_storage.capacity()) * ACCOUNT_BYTES;
        let buffer = context.local.shared_memory_buffer().try_borrow().map_or(0, |buffer| buffer.capacity());
        [
            journal.journal.capacity() * size_of::<JournalEntry>() * GROWTH_FACTOR,
            accounts * GROWTH_FACTOR,
            self.slots,
            self.logs.1,
            self.depth * FRAME_BYTES,
            buffer * GROWTH_FACTOR,
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }

    /// Sums up slots by the capacity of their tables. Nothing else counts the slots of contracts that the run creates.
    /// A revert removes them from the journal, but their table keeps its memory. Transient storage has a table for each
    /// account.
    fn add_slots(&mut self, context: &BlockContext) {
        let journal = &context.journaled_state.inner;
        self.checks += 1;
        if self.checks * ACCOUNTS_PER_CHECK < journal.state.len() + journal.transient_storage.len() {
            return;
        }
        self.checks = 0;
        let slots: usize = journal.state.values().map(|account| account.storage.capacity()).sum();
        let transient: usize = journal.transient_storage.values().map(|slots| slots.capacity()).sum();
        self.slots = (slots * SLOT_BYTES + transient * TRANSIENT_SLOT_BYTES) * GROWTH_FACTOR;
    }

    fn add_logs(&mut self, context: &BlockContext) {
        let logs = &context.journaled_state.inner.logs;
        let (counted, bytes) = if self.logs.0 <= logs.len() { self.logs } else { (0, 0) };
        let size =
            |log: &revm::primitives::Log| size_of_val(log) * 2 + 32 * log.data.topics().len() + log.data.data.len();
        let new: usize = logs.iter().skip(counted).map(size).sum();
        self.logs = (logs.len(), bytes.saturating_add(new));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use revm::{Context, primitives::hardfork::SpecId};
    use tenon_api::{Address, U256};
    use tenon_memory_chain::FixedState;

    use super::*;
    use crate::{BlockState, CodeCache};

    #[test]
    fn slots_of_transient_storage_are_counted_in_every_account() {
        let slots = 10_000;
        for accounts in [1, 100] {
            let state = BlockState::new(Arc::new(FixedState::default()), CodeCache::default());
            let mut context: BlockContext = Context::new(state, SpecId::CANCUN);
            for slot in 1..=slots {
                let account = Address::with_last_byte((slot % accounts) as u8);
                context.journaled_state.inner.tstore(account, U256::from(slot), U256::ONE);
            }
            let in_tables: usize =
                slots as usize * size_of::<(U256, U256)>() + slots as usize * size_of::<JournalEntry>();

            let mut measured = Measured::default();

            // A check may omit slots, in proportion to the number of accounts.
            let bytes =
                (0..=accounts as usize / ACCOUNTS_PER_CHECK).map(|_| measured.bytes_of(&context)).max().unwrap();
            assert!(bytes > in_tables, "{accounts} accounts: {bytes} bytes of {in_tables}");
        }
    }
}
