//! Attempts: short calls that run immediately on the caller's own task.
//!
//! Waking a pool thread costs 15 to 80 µs, more than most calls take. An attempt runs where the request is read, and
//! gives up before it costs more than a few database reads; the pool then repeats the whole call. Three things bound
//! it:
//!
//! - the clock, which is read at every jump, call, copy and hash (`modules/execution/interface/src/evm/block_evm.rs`)
//!   and at every read of the state (here);
//! - only cheap precompiled contracts are allowed;
//! - the form of the request ([`is_small`]).

use std::{
    hash::BuildHasher as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use alloy_primitives::{Address, B256, Bytes, U256};
use foldhash::fast::RandomState;
use tenon_api::{
    Account, BlockId, BlockNumber, SealedHeader, StateReader, StoreError,
    messages::{
        AccessListReply, AccountOverride, BlockOverrides, Call, CallRequest, CreateAccessList, EstimateGas, Trace,
        TraceReply, TraceTarget,
    },
};
use tenon_bus::CallContext;
use tenon_execution_interface::{BlockState, Interrupt};
use tenon_simulation_interface::{CallEnd, CallError};

use super::Calls;

/// Maximum call data of an attempted call, bytes.
const MAX_INPUT: usize = 16 << 10;
/// Number of calls recorded as long: somewhat more than a node's clients make at a time.
const LONG_CALL_CACHE_SIZE: usize = 1_024;

/// The kind of an attempted request.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Kind {
    Call,
    Estimate,
    AccessList,
    Trace,
}

/// Recent calls that were too long for an attempt, so that they are not attempted again. A table with one call per
/// slot: two calls with the same slot replace one another, which costs an extra attempt.
#[derive(Clone)]
pub(crate) struct LongCalls {
    // Atomics without a lock: a lost update also costs one attempt only.
    places: Arc<[AtomicU64]>,
    hasher: RandomState,
}

impl LongCalls {
    pub(crate) fn new() -> Self {
        Self { places: (0..LONG_CALL_CACHE_SIZE).map(|_| AtomicU64::new(0)).collect(), hasher: RandomState::default() }
    }

    /// A call's hash, which is never zero, and its slot in the table. Calls of the same kind and function of the same
    /// contract share both.
    fn place(&self, kind: Kind, request: &CallRequest) -> Option<(u64, &AtomicU64)> {
        let selector = request.input.get(..4);
        let mark = self.hasher.hash_one((kind, request.to, selector)) | 1;
        Some((mark, self.places.get((mark >> 32) as usize % LONG_CALL_CACHE_SIZE)?))
    }

    fn knows(&self, kind: Kind, request: &CallRequest) -> bool {
        self.place(kind, request).is_some_and(|(mark, place)| place.load(Ordering::Relaxed) == mark)
    }

    fn remember(&self, kind: Kind, request: &CallRequest) {
        if let Some((mark, place)) = self.place(kind, request) {
            place.store(mark, Ordering::Relaxed);
        }
    }

    fn forget(&self, kind: Kind, request: &CallRequest) {
        if let Some((mark, place)) = self.place(kind, request) {
            let _ = place.compare_exchange(mark, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// Returns whether the work around the run is small. A creation, whose code is in the call, is not small; neither are
/// overrides, nor lists that must be decoded or whose signers must be recovered before the run.
fn is_small(
    request: &CallRequest,
    state_overrides: &[(Address, AccountOverride)],
    block_overrides: &BlockOverrides,
) -> bool {
    request.to.is_some()
        && request.input.len() <= MAX_INPUT
        && request.access_list.as_ref().is_none_or(Vec::is_empty)
        && request.blob_versioned_hashes.is_none()
        && request.authorization_list.is_none()
        && state_overrides.is_empty()
        && *block_overrides == BlockOverrides::default()
}

impl Calls {
    /// `eth_call`, if it ends in time; `None` means that the pool must run it.
    pub(crate) fn attempt(&self, call: &Call, caller: &CallContext) -> Option<Result<Bytes, CallError>> {
        let is_small = is_small(&call.request, &call.state_overrides, &call.block_overrides);
        if !is_small || self.long_calls.knows(Kind::Call, &call.request) {
            return None;
        }
        let end = Instant::now().checked_add(self.limits.attempt_time)?;
        let interrupt = Interrupt::for_attempt(caller, end);
        let base = self.base_in_time(call.block, end).map_err(CallEnd::from);
        match base.and_then(|(header, state)| self.run(call, &header, state, interrupt)) {
            Ok(output) => Some(Ok(output)),
            Err(CallEnd::Failed(error)) => Some(Err(error)),
            Err(CallEnd::GaveUp) => {
                self.long_calls.remember(Kind::Call, &call.request);
                None
            }
        }
    }

    /// `eth_estimateGas`, if it finds the gas in time; `None` means that the pool must run it. After an error the pool
    /// runs it, too, because a stopped run looks like an error.
    pub(crate) fn attempt_estimate(&self, estimate: &EstimateGas, caller: &CallContext) -> Option<u64> {
        let EstimateGas { request, state_overrides, block_overrides, .. } = estimate;
        if !is_small(request, state_overrides, block_overrides) {
            return None;
        }
        self.attempt_kind(Kind::Estimate, request, |end| -> Result<u64, CallEnd> {
            let (header, state) = self.base_in_time(estimate.block, end)?;
            self.estimate_over(estimate, &header, state, Interrupt::for_attempt(caller, end))
        })
    }

    /// `eth_createAccessList`, likewise.
    pub(crate) fn attempt_access_list(
        &self,
        request: &CreateAccessList,
        caller: &CallContext,
    ) -> Option<AccessListReply> {
        if !is_small(&request.request, &request.state_overrides, &BlockOverrides::default()) {
            return None;
        }
        self.attempt_kind(Kind::AccessList, &request.request, |end| -> Result<AccessListReply, CallEnd> {
            let (header, state) = self.base_in_time(request.block, end)?;
            self.access_list_over(request, &header, state, Interrupt::for_attempt(caller, end))
        })
    }

    /// `debug_traceCall` with a tracer that records only calls: recorded steps would soon fill the memory.
    pub(crate) fn attempt_trace(&self, trace: &Trace, caller: &CallContext) -> Option<TraceReply> {
        let TraceTarget::Call { request, transaction_index: None, state_overrides, block_overrides, .. } =
            &trace.target
        else {
            return None;
        };
        if !is_small(request, state_overrides, block_overrides) {
            return None;
        }
        self.attempt_kind(Kind::Trace, request, |end| self.trace_in_time(trace, caller, end))
    }

    /// Runs an attempt, unless a similar one took too long before. After an error the pool runs the call.
    fn attempt_kind<T, E>(
        &self,
        kind: Kind,
        request: &CallRequest,
        run: impl FnOnce(Instant) -> Result<T, E>,
    ) -> Option<T> {
        if self.long_calls.knows(kind, request) {
            return None;
        }
        let answer = run(Instant::now().checked_add(self.limits.attempt_time)?).ok();
        if answer.is_none() {
            self.long_calls.remember(kind, request);
        }
        answer
    }

    /// Called after a run of the pool that began at `begun`. If the run was short, the call is attempted again next
    /// time: the attempt was slow only because of a cache miss or a context switch.
    pub(crate) fn forget_if_short(&self, kind: Kind, request: &CallRequest, begun: Instant) {
        if begun.elapsed() < self.limits.attempt_time / 2 {
            self.long_calls.forget(kind, request);
        }
    }

    /// `eth_estimateGas`.
    pub(crate) fn estimate_gas(&self, estimate: &EstimateGas, caller: &CallContext) -> Result<u64, CallError> {
        let begun = Instant::now();
        let (header, state) = self.base(estimate.block, caller)?;
        let gas = self.estimate_over(estimate, &header, state, self.interrupt(caller))?;
        self.forget_if_short(Kind::Estimate, &estimate.request, begun);
        Ok(gas)
    }

    /// A block, and the state after it, which is readable until `end`.
    pub(crate) fn base_in_time(
        &self,
        block: BlockId,
        end: Instant,
    ) -> Result<(Arc<SealedHeader>, BlockState), CallError> {
        self.base_through(block, |state| Arc::new(TimeLimitedState { state, end }))
    }

    /// `eth_call`: the output of the call.
    pub(crate) fn run_call(&self, call: &Call, caller: &CallContext) -> Result<Bytes, CallError> {
        let begun = Instant::now();
        let (header, state) = self.base(call.block, caller)?;
        let output = self.run(call, &header, state, self.interrupt(caller)).map_err(CallError::from);
        self.forget_if_short(Kind::Call, &call.request, begun);
        output
    }
}

/// A state that is readable until the end of an attempt.
struct TimeLimitedState {
    state: Arc<dyn StateReader>,
    end: Instant,
}

impl TimeLimitedState {
    /// The error is never reported: the pool repeats every call that fails in an attempt.
    fn state(&self) -> Result<&dyn StateReader, StoreError> {
        if Instant::now() >= self.end {
            return Err(StoreError::Engine("a call was not over at once".to_owned()));
        }
        Ok(&*self.state)
    }
}

impl StateReader for TimeLimitedState {
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
    use super::*;
    use alloy_primitives::address;

    fn call(to: Address, input: &'static [u8]) -> CallRequest {
        CallRequest { to: Some(to), input: Bytes::from_static(input), ..CallRequest::default() }
    }

    #[test]
    fn a_long_call_is_recorded_by_contract_and_function() {
        let long = LongCalls::new();
        let contract = address!("0x00000000000000000000000000000000000000aa");
        let (asked, same, other) =
            (call(contract, &[1, 2, 3, 4, 5]), call(contract, &[1, 2, 3, 4, 6]), call(contract, &[1, 2, 3, 5]));

        long.remember(Kind::Call, &asked);
        assert_eq!((long.knows(Kind::Call, &asked), long.knows(Kind::Call, &same)), (true, true));
        // They share a place in one of a thousand runs, but not the mark.
        assert!(!long.knows(Kind::Call, &other));
        assert!(!long.knows(Kind::Estimate, &asked));

        long.forget(Kind::Call, &other);
        assert!(long.knows(Kind::Call, &asked));
        long.forget(Kind::Call, &same);
        assert!(!long.knows(Kind::Call, &asked));
    }

    #[test]
    fn only_small_calls_are_attempted() {
        let small = call(Address::ZERO, &[]);
        let with = |change: fn(&mut CallRequest)| {
            let mut changed = small.clone();
            change(&mut changed);
            changed
        };
        let usual = BlockOverrides::default();
        assert!(is_small(&small, &[], &usual));
        for large in [
            with(|request| request.to = None),
            with(|request| request.input = vec![0; MAX_INPUT + 1].into()),
            with(|request| request.access_list = Some(vec![Default::default()])),
            with(|request| request.blob_versioned_hashes = Some(vec![])),
            with(|request| request.authorization_list = Some(vec![])),
        ] {
            assert!(!is_small(&large, &[], &usual), "{large:?}");
        }
        assert!(!is_small(&small, &[(Address::ZERO, AccountOverride::default())], &usual));
        assert!(!is_small(&small, &[], &BlockOverrides { time: Some(1), ..usual }));
    }
}
