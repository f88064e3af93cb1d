//! The time and memory that a request grants to work done on its behalf.

use std::sync::{Mutex, PoisonError};

use tenon_api::{Allowance, StoreError};

use crate::{CallContext, ClientMemory, MemoryBudget, MemoryUse, Reservation};

/// Minimum size of a reservation, bytes. Each one updates counters that all requests share, so small ones are avoided.
const STEP: usize = 1 << 20;

/// The time of a request, and the memory of its client.
pub struct CallerAllowance {
    context: CallContext,
    client: ClientMemory,
    /// The reservations, and the number of their bytes that are still unused.
    taken: Mutex<(Vec<Reservation>, usize)>,
}

impl CallerAllowance {
    /// The allowance of a call: it ends with the call, and what it takes is charged to the client.
    pub fn new(memory: &MemoryBudget, context: &CallContext) -> Self {
        let client = memory.client(context.origin().client);
        Self { context: context.clone(), client, taken: Mutex::default() }
    }
}

impl Allowance for CallerAllowance {
    fn should_stop(&self) -> bool {
        self.context.is_cancelled()
    }

    fn take(&self, bytes: usize) -> Result<(), StoreError> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = taken.1.checked_sub(bytes) {
            taken.1 = left;
            return Ok(());
        }
        let more = bytes.max(STEP);
        let reserved = self.client.reserve(MemoryUse::Answers, more);
        taken.0.push(reserved.map_err(|refused| StoreError::OutOfMemory { reason: refused.to_string() })?);
        taken.1 += more - bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryLimits;

    #[test]
    fn memory_is_taken_from_the_client_and_given_back() {
        let memory = MemoryBudget::new(MemoryLimits { total: 16 << 20, client: 4 << 20 });
        let allowance = CallerAllowance::new(&memory, &CallContext::default());

        for _ in 0..3 {
            allowance.take(STEP / 2).unwrap();
        }
        assert!(matches!(allowance.take(4 << 20), Err(StoreError::OutOfMemory { .. })));
        drop(allowance);

        CallerAllowance::new(&memory, &CallContext::default()).take(4 << 20).unwrap();
    }

    #[test]
    fn work_stops_when_the_callers_time_is_over() {
        let memory = MemoryBudget::unbounded();
        let over = CallContext::with_timeout(std::time::Duration::ZERO);
        assert!(CallerAllowance::new(&memory, &over).should_stop());
        assert!(!CallerAllowance::new(&memory, &CallContext::default()).should_stop());
    }
}
