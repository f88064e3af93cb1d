//! Stopping a run whose caller has gone or whose time is over, and pausing it while it is another client's turn.

use std::time::{Duration, Instant};

use tenon_bus::CallContext;

/// How many jumps, or what takes as long as they, pass between two looks at the clock, which costs more than a jump.
const STRIDE: u32 = 2048;
/// The same in an attempt, whose time is shorter.
const ATTEMPT_STRIDE: u32 = 256;

/// When a run must stop. Lives in the EVM's context, where the instructions of loops look at it.
#[derive(Clone, Default)]
pub(crate) struct Interrupt {
    /// None for blocks of the chain, which always run to their end.
    armed: Option<Armed>,
}

#[derive(Clone)]
struct Armed {
    caller: CallContext,
    /// Later by the time in which the run was paused.
    deadline: Option<Instant>,
    /// How long the job had been paused when this run began.
    parked_before: Duration,
    stride: u32,
    countdown: u32,
}

/// Why a run was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The run's own time is over.
    TimedOut,
    /// Nobody waits for the answer any more.
    CallerGone,
}

impl Interrupt {
    /// The text by which an interrupted run is told from other failures of the EVM.
    pub(crate) const MARK: &'static str = "interrupted";

    /// Never stops.
    pub(crate) const fn never() -> Self {
        Self { armed: None }
    }

    /// Stops when the caller is gone or at `deadline`.
    pub(crate) fn when(caller: &CallContext, deadline: Option<Instant>) -> Self {
        let (caller, parked_before) = (caller.clone(), caller.parked());
        Self { armed: Some(Armed { caller, deadline, parked_before, stride: STRIDE, countdown: STRIDE }) }
    }

    /// Stops a run that is only attempted, at `end`, and before anything that would take long by itself.
    pub(crate) fn attempt(caller: &CallContext, end: Instant) -> Self {
        let (stride, countdown) = (ATTEMPT_STRIDE, ATTEMPT_STRIDE);
        let (caller, parked_before) = (caller.clone(), Duration::ZERO);
        Self { armed: Some(Armed { caller, deadline: Some(end), parked_before, stride, countdown }) }
    }

    pub(crate) fn is_attempt(&self) -> bool {
        self.armed.as_ref().is_some_and(|armed| armed.stride == ATTEMPT_STRIDE)
    }

    pub(crate) const fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// Whether the run must stop now; looks only every so often. `weight` is how many jumps take as long as what the run does
    /// next. While it is another client's turn, the run waits here.
    pub(crate) fn is_due(&mut self, weight: u32) -> bool {
        let Some(armed) = &mut self.armed else { return false };
        if armed.countdown >= weight {
            armed.countdown -= weight;
            return false;
        }
        armed.countdown = armed.stride;
        armed.caller.give_way(Instant::now());
        self.reason().is_some()
    }

    /// Looks at the next jump or call: what the run has just done took long.
    pub(crate) const fn look_soon(&mut self) {
        if let Some(armed) = &mut self.armed {
            armed.countdown = 0;
        }
    }

    /// Why the run must stop, if it must.
    pub(crate) fn reason(&self) -> Option<Stopped> {
        let armed = self.armed.as_ref()?;
        let parked = armed.caller.parked().saturating_sub(armed.parked_before);
        if armed.deadline.is_some_and(|deadline| Instant::now() >= deadline + parked) {
            return Some(Stopped::TimedOut);
        }
        armed.caller.is_cancelled().then_some(Stopped::CallerGone)
    }
}
