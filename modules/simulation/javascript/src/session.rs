//! The state of the run in the script's process: mirrors of stacks and memories, the current step and frames.

use alloy_primitives::{Bytes, U256};

use crate::protocol::{CallFacts, FrameFacts, ResultFacts, StepFacts};

/// Maximum memory that is mirrored for all open frames together, bytes. A frame with that much costs half a billion
/// gas.
pub(crate) const MAX_MEMORY: u64 = 16 << 20;

/// Why a step cannot be shown to the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("the open frames have more than {} MiB of memory, the limit for a script", MAX_MEMORY >> 20)]
    TooMuchMemory,
    #[error("the node's events are inconsistent")]
    Inconsistent,
}

/// Stack and memory of an open frame.
#[derive(Default)]
struct FrameContents {
    call: CallFacts,
    stack: Vec<U256>,
    memory: Vec<u8>,
}

/// The script's view of the run.
#[derive(Default)]
pub(crate) struct Session {
    /// Open frames, newest last.
    mirrors: Vec<FrameContents>,
    pub(crate) step: StepFacts,
    /// Error of the current step.
    pub(crate) error: Option<String>,
    pub(crate) frame: FrameFacts,
    pub(crate) result: ResultFacts,
}

impl Session {
    /// Sets the frame of the following steps at its depth.
    pub(crate) fn begin_frame(&mut self, call: CallFacts) {
        self.mirrors.truncate((call.depth as usize).saturating_sub(1));
        self.mirrors.push(FrameContents { call, ..FrameContents::default() });
    }

    /// Makes a step the current one.
    ///
    /// # Errors
    /// The step contradicts the known state of its frame, or the memory is too large.
    pub(crate) fn step(&mut self, mut step: StepFacts) -> Result<(), SessionError> {
        self.mirrors.truncate(step.depth as usize);
        let others: usize = self.mirrors.iter().rev().skip(1).map(|mirror| mirror.memory.len()).sum();
        let Some(mirror) = self.mirrors.last_mut() else { return Err(SessionError::Inconsistent) };
        if step.memory.saturating_add(others as u64) > MAX_MEMORY {
            return Err(SessionError::TooMuchMemory);
        }
        if step.kept as usize > mirror.stack.len() {
            return Err(SessionError::Inconsistent);
        }
        mirror.stack.truncate(step.kept as usize);
        mirror.stack.append(&mut step.pushed);
        mirror.memory.resize(usize::try_from(step.memory).unwrap_or_default(), 0);
        for write in std::mem::take(&mut step.writes) {
            let start = usize::try_from(write.offset).unwrap_or(usize::MAX);
            let end = start.saturating_add(write.bytes.len());
            let place = mirror.memory.get_mut(start..end).ok_or(SessionError::Inconsistent)?;
            place.copy_from_slice(&write.bytes);
        }
        self.error = step.error.take();
        self.step = step;
        Ok(())
    }

    pub(crate) fn stack(&self) -> &[U256] {
        self.mirrors.last().map_or(&[], |mirror| &mirror.stack)
    }

    pub(crate) fn memory(&self) -> &[u8] {
        self.mirrors.last().map_or(&[], |mirror| &mirror.memory)
    }

    pub(crate) fn contract(&self) -> CallFacts {
        self.mirrors.last().map(|mirror| mirror.call.clone()).unwrap_or_default()
    }

    pub(crate) fn input(&self) -> Bytes {
        self.mirrors.last().map(|mirror| mirror.call.input.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Write;

    #[test]
    fn changes_add_up_to_stack_and_memory_of_each_frame() {
        let mut session = Session::default();
        session.begin_frame(CallFacts { depth: 1, ..CallFacts::default() });
        let one = |number: u64| U256::from(number);
        let first = StepFacts { depth: 1, pushed: vec![one(1), one(2)], ..StepFacts::default() };
        let bytes = Bytes::from_static(&[7, 8]);
        let writes = vec![Write { offset: 1, bytes }];
        let second = StepFacts { depth: 1, kept: 1, pushed: vec![one(3)], memory: 4, writes, ..StepFacts::default() };
        session.step(first).unwrap();
        session.step(second).unwrap();
        assert_eq!((session.stack(), session.memory()), (&[one(1), one(3)][..], &[0, 7, 8, 0][..]));

        session.begin_frame(CallFacts { depth: 2, ..CallFacts::default() });
        session.step(StepFacts { depth: 2, pushed: vec![one(9)], ..StepFacts::default() }).unwrap();
        assert_eq!(session.stack(), [one(9)]);

        session.step(StepFacts { depth: 1, kept: 2, memory: 4, ..StepFacts::default() }).unwrap();
        assert_eq!((session.stack(), session.memory()), (&[one(1), one(3)][..], &[0, 7, 8, 0][..]));
    }

    #[test]
    fn steps_that_do_not_fit_are_refused() {
        let call = || CallFacts { depth: 1, ..CallFacts::default() };
        let writes = vec![Write { offset: 1, bytes: Bytes::from_static(&[1]) }];
        let steps = [
            StepFacts { depth: 1, kept: 1, ..StepFacts::default() },
            StepFacts { depth: 1, memory: MAX_MEMORY + 1, ..StepFacts::default() },
            StepFacts { depth: 1, memory: 1, writes, ..StepFacts::default() },
        ];
        for step in steps {
            let mut session = Session::default();
            session.begin_frame(call());
            assert!(session.step(step).is_err());
        }
        assert!(Session::default().step(StepFacts { depth: 1, ..StepFacts::default() }).is_err());
    }
}
