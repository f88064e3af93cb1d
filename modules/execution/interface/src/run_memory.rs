//! Counts the memory of a run for a client, and reserves it from the client's share of the node's memory.
//!
//! Gas limits the memory of one run, but not that of many runs together; with `rpc.gascap` 0 it limits nothing. State
//! that was read or overridden is counted where it is stored ([`crate::BlockState`]); the EVM's other memory is summed
//! up where a run checks the clock anyway.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use revm::{
    context::{JournalEntry, LocalContextTr as _},
    state::{Account, EvmStorageSlot},
};
use tenon_api::StoreError;
use tenon_bus::{MemoryBudget, MemoryUse, Origin, OutOfMemory, Reservation};

use crate::evm::BlockContext;

/// Bytes that a run may take without a reservation: the memory reserved for a call covers most of them.
const UNCOUNTED: usize = 64 << 10;
/// Minimum increment of a run's reservation.
const STEP: usize = 256 << 10;
/// Up to this gas limit, a single instruction can allocate only a few megabytes: 100 million gas pay for 7 MB.
const MODERATE_GAS: u64 = 100_000_000;
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

/// The memory of one run. Clones share it.
#[derive(Clone)]
pub struct RunMemory {
    inner: Arc<Inner>,
}

struct Inner {
    budget: MemoryBudget,
    origin: Origin,
    asks_before_growth: bool,
    /// Bytes of state that was read or overridden.
    state: AtomicUsize,
    /// Bytes held by the EVM at the last check.
    run: AtomicUsize,
    /// Bytes that the run may take under its reservation. Outside the lock, because it is read for every account and
    /// slot.
    granted: AtomicUsize,
    /// Used only by the run's own thread, at each check; nothing awaits under the lock.
    last_check: Mutex<LastCheck>,
}

/// The reservation, and results that a check keeps for the next one.
#[derive(Default)]
struct LastCheck {
    reservation: Option<Reservation>,
    /// Checks since the slots of storage and transient storage were last summed.
    checks: usize,
    /// Bytes of these slots at that time.
    slots: usize,
    /// Number of counted logs, and their bytes.
    logs: (usize, usize),
    /// Maximum depth of frames so far.
    depth: usize,
}

impl RunMemory {
    /// The memory of a run for a client, with this gas limit; 0 means unlimited. Reserves nothing until the run is
    /// large.
    pub fn new(budget: MemoryBudget, origin: Origin, gas: u64) -> Self {
        let asks_before_growth = gas == 0 || gas > MODERATE_GAS;
        let (state, run, granted) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(UNCOUNTED));
        Self {
            inner: Arc::new(Inner {
                budget,
                origin,
                asks_before_growth,
                state,
                run,
                granted,
                last_check: Mutex::default(),
            }),
        }
    }

    /// Whether the gas limit lets a single instruction allocate more memory than may stay uncounted between two checks.
    pub(crate) fn asks_before_growth(&self) -> bool {
        self.inner.asks_before_growth
    }

    /// Counts additional state.
    ///
    /// # Errors
    /// [`StoreError::OutOfMemory`] if the client's share is exhausted.
    pub(crate) fn add_state(&self, bytes: usize) -> Result<(), StoreError> {
        let state = self.inner.state.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let total = state.saturating_add(self.inner.run.load(Ordering::Relaxed));
        self.grow(total).map_err(|refused| StoreError::OutOfMemory { reason: refused.to_string() })
    }

    /// Counts what the EVM holds now, and `more` bytes that it is about to allocate.
    ///
    /// # Errors
    /// The client's share is exhausted.
    pub(crate) fn check(&self, context: &BlockContext, more: usize) -> Result<(), OutOfMemory> {
        let run = self.inner.last_check.lock().bytes_of(context).saturating_add(more);
        self.inner.run.store(run, Ordering::Relaxed);
        self.grow(run.saturating_add(self.inner.state.load(Ordering::Relaxed)))
    }

    fn grow(&self, total: usize) -> Result<(), OutOfMemory> {
        if total <= self.inner.granted.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (mut last_check, wanted) = (self.inner.last_check.lock(), total.saturating_add(STEP));
        match &mut last_check.reservation {
            Some(reservation) => reservation.resize(wanted)?,
            none => {
                let client = self.inner.budget.client(self.inner.origin.client);
                *none = Some(client.reserve(MemoryUse::Calls, wanted)?);
            }
        }
        self.inner.granted.store(wanted, Ordering::Relaxed);
        Ok(())
    }
}

impl LastCheck {
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
    use revm::{Context, primitives::hardfork::SpecId};
    use tenon_api::{Account as StoredAccount, Address, B256, BlockNumber, Bytes, StateReader, U256};
    use tenon_bus::MemoryLimits;

    use super::*;
    use crate::{BlockState, CodeCache};

    struct EmptyState;

    impl StateReader for EmptyState {
        fn account(&self, _: Address) -> Result<Option<StoredAccount>, StoreError> {
            Ok(None)
        }

        fn storage(&self, _: Address, _: B256) -> Result<U256, StoreError> {
            Ok(U256::ZERO)
        }

        fn code(&self, _: B256) -> Result<Option<Bytes>, StoreError> {
            Ok(None)
        }

        fn block_hash(&self, _: BlockNumber) -> Result<Option<B256>, StoreError> {
            Ok(None)
        }
    }

    #[test]
    fn slots_of_transient_storage_are_counted_in_every_account() {
        let slots = 10_000;
        for accounts in [1, 100] {
            let state = BlockState::new(Arc::new(EmptyState), CodeCache::default());
            let mut context: BlockContext = Context::new(state, SpecId::CANCUN);
            for slot in 1..=slots {
                let account = Address::with_last_byte((slot % accounts) as u8);
                context.journaled_state.inner.tstore(account, U256::from(slot), U256::ONE);
            }
            let in_tables: usize =
                slots as usize * size_of::<(U256, U256)>() + slots as usize * size_of::<JournalEntry>();

            let mut last_check = LastCheck::default();

            // A check may omit slots, in proportion to the number of accounts.
            let bytes =
                (0..=accounts as usize / ACCOUNTS_PER_CHECK).map(|_| last_check.bytes_of(&context)).max().unwrap();
            assert!(bytes > in_tables, "{accounts} accounts: {bytes} bytes of {in_tables}");
        }
    }

    #[test]
    fn a_run_takes_nothing_while_it_is_small_and_gives_all_back_at_its_end() {
        let budget = MemoryBudget::new(MemoryLimits { total: 1 << 22, client: 1 << 20 });
        let held = || budget.usage().held[MemoryUse::Calls as usize];
        let memory = RunMemory::new(budget.clone(), Origin::default(), 1);

        assert_eq!((memory.add_state(UNCOUNTED), held()), (Ok(()), 0));
        assert_eq!(memory.add_state(1), Ok(()));
        assert!((UNCOUNTED..UNCOUNTED + 2 * STEP).contains(&held()), "{}", held());
        let refused = memory.add_state(1 << 20);
        assert!(
            matches!(&refused, Err(StoreError::OutOfMemory { reason }) if reason.contains("memory")),
            "{refused:?}"
        );

        drop(memory);
        assert_eq!(held(), 0);
    }
}
