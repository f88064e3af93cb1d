//! Attempts: short calls run at once on the caller's own task.
//!
//! Waking a pool thread costs 15 to 80 µs, more than most calls take. An attempt runs where the request is read and
//! gives up before it has cost more than a few reads may; the pool then repeats the whole call. It is bounded by the
//! clock, which is read at every jump, call, copy and hash (`block/evm.rs`) and at every read of the state (here); by
//! allowing only cheap precompiled contracts; and by the form of the request ([`is_small`]).

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{
    Account, BlockNumber, Failure, StateReader, StoreError,
    messages::{BlockOverrides, Call},
};
use tenon_bus::CallContext;

use super::{CallEnd, Calls};
use crate::block::Interrupt;

/// Time limit of an attempt: a few of the longer wake-ups that it avoids.
const TIME: Duration = Duration::from_micros(150);
/// Maximum gas limit of an attempted call: memory is paid for with gas, and expanding it is a single instruction.
pub(super) const MAX_GAS: u64 = 100_000_000;
/// Maximum call data of an attempted call, bytes.
const MAX_INPUT: usize = 16 << 10;
/// Number of calls recorded as long: somewhat more than a node's clients make at a time.
const REMEMBERED: usize = 1_024;

/// Calls that were recently too long for an attempt, so that they are not attempted in vain again. Two calls with the
/// same place replace one another, at the cost of one attempt.
#[derive(Clone)]
pub(crate) struct LongCalls {
    // Atomics without a lock: a lost update costs no more than that either.
    places: Arc<[AtomicU64]>,
    hasher: RandomState,
}

impl LongCalls {
    pub(crate) fn new() -> Self {
        Self { places: (0..REMEMBERED).map(|_| AtomicU64::new(0)).collect(), hasher: RandomState::new() }
    }

    /// A call's mark, which is never zero, and its place. Calls of the same function of the same contract share both.
    fn place(&self, call: &Call) -> Option<(u64, &AtomicU64)> {
        let selector = call.request.input.get(..4);
        let mark = self.hasher.hash_one((call.request.to, selector)) | 1;
        Some((mark, self.places.get((mark >> 32) as usize % REMEMBERED)?))
    }

    fn knows(&self, call: &Call) -> bool {
        self.place(call).is_some_and(|(mark, place)| place.load(Ordering::Relaxed) == mark)
    }

    fn remember(&self, call: &Call) {
        if let Some((mark, place)) = self.place(call) {
            place.store(mark, Ordering::Relaxed);
        }
    }

    fn forget(&self, call: &Call) {
        if let Some((mark, place)) = self.place(call) {
            let _ = place.compare_exchange(mark, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Returns whether the work around the run is small: no creation, whose code is in the call, no overrides, no lists
/// that must be read or recovered before the run.
fn is_small(call: &Call) -> bool {
    let request = &call.request;
    request.to.is_some()
        && request.input.len() <= MAX_INPUT
        && request.access_list.as_ref().is_none_or(Vec::is_empty)
        && request.blob_versioned_hashes.is_none()
        && request.authorization_list.is_none()
        && call.state_overrides.is_empty()
        && call.block_overrides == BlockOverrides::default()
}

impl Calls {
    /// `eth_call`, if it ends in time; `None` means that the pool must run it.
    pub(crate) fn attempt(&self, call: &Call, caller: &CallContext) -> Option<Result<Bytes, Failure>> {
        if !is_small(call) || self.long_calls.knows(call) || caller.is_cancelled() {
            return None;
        }
        let end = Instant::now().checked_add(TIME)?;
        let outcome =
            self.base_through(call.block, |state| Arc::new(StateInTime { state, end })).map_err(CallEnd::from);
        let interrupt = Interrupt::attempt(caller, end);
        match outcome.and_then(|(header, state)| self.run(call, &header, state, interrupt)) {
            Ok(output) => Some(Ok(output)),
            Err(CallEnd::Failed(failure)) => Some(Err(failure)),
            Err(CallEnd::GaveUp) => {
                self.long_calls.remember(call);
                None
            }
        }
    }

    /// `eth_call`: the output of the call.
    pub(crate) fn call(&self, call: &Call, caller: &CallContext) -> Result<Bytes, Failure> {
        let begun = Instant::now();
        let (header, state) = self.base(call.block, caller)?;
        let output = self.run(call, &header, state, self.interrupt(caller)).map_err(|end| match end {
            CallEnd::Failed(failure) => failure,
            CallEnd::GaveUp => Failure::limit("request timed out"),
        });
        // It was long only because of a cache miss or a context switch: attempt it again.
        if begun.elapsed() < TIME / 2 {
            self.long_calls.forget(call);
        }
        output
    }
}

/// A state that is readable until the end of an attempt.
struct StateInTime {
    state: Arc<dyn StateReader>,
    end: Instant,
}

impl StateInTime {
    /// The error is never shown: the pool repeats every read that fails in an attempt.
    fn state(&self) -> Result<&dyn StateReader, StoreError> {
        if Instant::now() >= self.end {
            return Err(StoreError::Engine("a call was not over at once".to_owned()));
        }
        Ok(&*self.state)
    }
}

impl StateReader for StateInTime {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        self.state()?.account(address)
    }

    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError> {
        self.state()?.storage(address, slot)
    }

    fn code(&self, code_hash: B256) -> Result<Option<Bytes>, StoreError> {
        self.state()?.code(code_hash)
    }

    fn block_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        self.state()?.block_hash(number)
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::address;
    use tenon_api::{
        BlockId,
        messages::{AccountOverride, CallRequest},
    };

    use super::*;

    fn call(to: Address, input: &'static [u8]) -> Call {
        let request = CallRequest { to: Some(to), input: Bytes::from_static(input), ..CallRequest::default() };
        Call { request, block: BlockId::LATEST, state_overrides: vec![], block_overrides: BlockOverrides::default() }
    }

    #[test]
    fn a_long_call_is_recorded_by_contract_and_function() {
        let long = LongCalls::new();
        let contract = address!("0x00000000000000000000000000000000000000aa");
        let (asked, same, other) =
            (call(contract, &[1, 2, 3, 4, 5]), call(contract, &[1, 2, 3, 4, 6]), call(contract, &[1, 2, 3, 5]));

        long.remember(&asked);
        assert_eq!((long.knows(&asked), long.knows(&same)), (true, true));
        // They share a place in one of a thousand runs, but not the mark.
        assert!(!long.knows(&other));

        long.forget(&other);
        assert!(long.knows(&asked));
        long.forget(&same);
        assert!(!long.knows(&asked));
    }

    #[test]
    fn only_small_calls_are_attempted() {
        let small = call(Address::ZERO, &[]);
        let with = |change: fn(&mut Call)| {
            let mut changed = small.clone();
            change(&mut changed);
            changed
        };
        assert!(is_small(&small));
        for large in [
            with(|call| call.request.to = None),
            with(|call| call.request.input = vec![0; MAX_INPUT + 1].into()),
            with(|call| call.request.access_list = Some(vec![Default::default()])),
            with(|call| call.request.blob_versioned_hashes = Some(vec![])),
            with(|call| call.request.authorization_list = Some(vec![])),
            with(|call| call.state_overrides = vec![(Address::ZERO, AccountOverride::default())]),
            with(|call| call.block_overrides.time = Some(1)),
        ] {
            assert!(!is_small(&large), "{large:?}");
        }
    }
}
