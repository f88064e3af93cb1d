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
use tenon_api::StoreError;
use tenon_bus::{MemoryBudget, MemoryUse, Origin, OutOfMemory, Reservation};

/// Bytes that a run may take without a reservation: the memory reserved for a call covers most of them.
const UNCOUNTED: usize = 64 << 10;
/// Minimum increment of a run's reservation.
const STEP: usize = 256 << 10;
/// Up to this gas limit, a single instruction can allocate only a few megabytes: 100 million gas pay for 7 MB.
const MODERATE_GAS: u64 = 100_000_000;

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

/// The reservation, and the results of the last measurement.
#[derive(Default)]
struct LastCheck {
    reservation: Option<Reservation>,
    measured: Measured,
}

/// Results that a measurement of the EVM's memory keeps for the next one.
#[derive(Default)]
pub(crate) struct Measured {
    /// Checks since the slots of storage and transient storage were last summed.
    pub(crate) checks: usize,
    /// Bytes of these slots at that time.
    pub(crate) slots: usize,
    /// Number of counted logs, and their bytes.
    pub(crate) logs: (usize, usize),
    /// Maximum depth of frames so far.
    pub(crate) depth: usize,
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

    /// Counts what the EVM holds now, as `measure` finds.
    ///
    /// # Errors
    /// The client's share is exhausted.
    pub(crate) fn set_run(&self, measure: impl FnOnce(&mut Measured) -> usize) -> Result<(), OutOfMemory> {
        let run = measure(&mut self.inner.last_check.lock().measured);
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

#[cfg(test)]
mod tests {
    use tenon_bus::MemoryLimits;

    use super::*;

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
