//! Stops a run whose caller has disconnected or whose time limit has passed, and pauses it while another client's job
//! runs.

use std::time::{Duration, Instant};

use tenon_bus::{CallContext, OutOfMemory};

/// Number of jumps, or their equivalent, between two reads of the clock. Reading the clock costs more than a jump.
const STRIDE: u32 = 2048;
/// [`STRIDE`] of an attempt ([`Interrupt::for_attempt`]), which has less time.
const ATTEMPT_STRIDE: u32 = 256;

/// Decides when a run must stop. Stored in the EVM's context, where instructions of loops check it.
#[derive(Clone, Default)]
pub struct Interrupt {
    /// `None` for blocks of the chain, which always run to their end.
    armed: Option<Armed>,
}

#[derive(Clone)]
struct Armed {
    caller: CallContext,
    /// Postponed by the time for which the run was paused.
    deadline: Option<Instant>,
    /// Time for which the job had been paused when this run began.
    paused_before: Duration,
    stride: u32,
    countdown: u32,
    /// The exhausted limit, if the run needed more memory than there was.
    refused: Option<OutOfMemory>,
}

/// The result of counting down to the next check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountdownResult {
    /// No check was due.
    NotYet,
    /// The run may continue.
    Continue,
    /// The run must stop.
    Stop,
}

/// Why a run was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The run's time limit has passed.
    TimedOut,
    /// The caller has disconnected, or the deadline of the request has passed.
    CallerGone,
}

impl Interrupt {
    /// The error text that distinguishes an interrupted run from other failures of the EVM.
    pub const MARK: &'static str = "interrupted";

    /// An interrupt that never stops a run.
    pub const fn never() -> Self {
        Self { armed: None }
    }

    /// An interrupt that stops a run when its caller has disconnected, or at `deadline`.
    pub fn for_caller(caller: &CallContext, deadline: Option<Instant>) -> Self {
        let (caller, paused_before) = (caller.clone(), caller.parked());
        Self {
            armed: Some(Armed { caller, deadline, paused_before, stride: STRIDE, countdown: STRIDE, refused: None }),
        }
    }

    /// An interrupt that stops an attempt at `end`, and before any single operation that would take long.
    pub fn for_attempt(caller: &CallContext, end: Instant) -> Self {
        let (stride, countdown) = (ATTEMPT_STRIDE, ATTEMPT_STRIDE);
        let (caller, paused_before) = (caller.clone(), Duration::ZERO);
        Self { armed: Some(Armed { caller, deadline: Some(end), paused_before, stride, countdown, refused: None }) }
    }

    /// Returns whether the run is an attempt: at its end time it gives up without an error, and is repeated elsewhere.
    pub fn is_attempt(&self) -> bool {
        self.armed.as_ref().is_some_and(|armed| armed.stride == ATTEMPT_STRIDE)
    }

    pub(crate) const fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// Counts down, and at intervals checks whether the run must stop. `weight` is the cost of the next operation in
    /// units of a jump. If another client's job has precedence, the run waits here.
    pub(crate) fn count_down(&mut self, weight: u32) -> CountdownResult {
        let Some(armed) = &mut self.armed else { return CountdownResult::NotYet };
        if armed.countdown >= weight {
            armed.countdown -= weight;
            return CountdownResult::NotYet;
        }
        armed.countdown = armed.stride;
        armed.caller.yield_turn(Instant::now());
        if self.reason().is_some() { CountdownResult::Stop } else { CountdownResult::Continue }
    }

    /// Makes the run stop, because its client has no memory left.
    pub(crate) fn refuse_memory(&mut self, refused: OutOfMemory) {
        if let Some(armed) = &mut self.armed {
            armed.refused = Some(refused);
        }
    }

    /// The exhausted limit, if the run had to stop for lack of memory.
    pub fn refused_memory(&self) -> Option<&OutOfMemory> {
        self.armed.as_ref()?.refused.as_ref()
    }

    /// Makes the next jump or call read the clock, because the last operation took long.
    pub(crate) const fn check_soon(&mut self) {
        if let Some(armed) = &mut self.armed {
            armed.countdown = 0;
        }
    }

    /// Why the run must stop; `None` if it may continue.
    pub fn reason(&self) -> Option<Stopped> {
        let armed = self.armed.as_ref()?;
        let parked = armed.caller.parked().saturating_sub(armed.paused_before);
        if armed.deadline.is_some_and(|deadline| Instant::now() >= deadline + parked) {
            return Some(Stopped::TimedOut);
        }
        armed.caller.is_cancelled().then_some(Stopped::CallerGone)
    }
}
