//! Tracers that count instructions: `opcountTracer`, `unigramTracer`, `bigramTracer`, `trigramTracer`.

use std::{borrow::Cow, collections::HashMap, hash::Hash};

use tenon_api::messages::{SequenceLength, TraceResult};
use tenon_execution_interface::StateError;
use tenon_simulation_interface::instruction_name;
use tenon_traces::{Accounts, Run, Step, Tracer, TracerFailure};

/// Counts of values, in order of first appearance.
pub(super) struct Counts<T> {
    places: HashMap<T, usize>,
    counts: Vec<(T, u64)>,
}

impl<T> Default for Counts<T> {
    fn default() -> Self {
        Self { places: HashMap::new(), counts: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Counts<T> {
    pub(super) fn add(&mut self, value: T) {
        if let Some((_, count)) = self.places.get(&value).and_then(|place| self.counts.get_mut(*place)) {
            *count += 1;
            return;
        }
        self.places.insert(value.clone(), self.counts.len());
        self.counts.push((value, 1));
    }

    /// The values with their counts.
    pub(super) fn take(&mut self) -> Vec<(T, u64)> {
        std::mem::take(&mut self.counts)
    }

    pub(super) fn held_bytes(&self) -> usize {
        128 * self.counts.len()
    }
}

/// Counts instructions.
#[derive(Default)]
pub(super) struct CountTracer {
    count: u64,
}

impl Tracer for CountTracer {
    fn step(&mut self, _step: &Step<'_>, _accounts: &mut dyn Accounts) -> Result<(), StateError> {
        self.count += 1;
        Ok(())
    }

    fn result(&mut self, _run: &Run<'_>, _accounts: &mut dyn Accounts) -> Result<TraceResult, TracerFailure> {
        Ok(TraceResult::InstructionCount(self.count))
    }
}

/// Counts every sequence of this many instructions.
pub(super) struct SequenceTracer {
    length: SequenceLength,
    counts: Counts<String>,
    before: Cow<'static, str>,
    before_that: Cow<'static, str>,
    depth: usize,
}

impl SequenceTracer {
    pub(super) fn new(length: SequenceLength) -> Self {
        let nothing = Cow::Borrowed("");
        Self { length, counts: Counts::default(), before: nothing.clone(), before_that: nothing, depth: 0 }
    }

    /// Counts a pair of consecutive instructions if both ran at the same depth. After a change of depth, the
    /// instruction only begins the next pair.
    fn pair(&mut self, step: &Step<'_>, name: Cow<'static, str>) {
        if step.depth == self.depth {
            self.counts.add(format!("{}-{name}", self.before));
        }
        self.before = name;
        self.depth = step.depth;
    }

    /// Counts the instruction with the two before it. The first instruction at another depth is not counted, and clears
    /// these two.
    fn count_triple(&mut self, step: &Step<'_>, name: Cow<'static, str>) {
        if step.depth != self.depth {
            self.depth = step.depth;
            (self.before, self.before_that) = (Cow::Borrowed(""), Cow::Borrowed(""));
            return;
        }
        self.counts.add(format!("{}-{}-{name}", self.before_that, self.before));
        self.before_that = std::mem::replace(&mut self.before, name);
    }
}

impl Tracer for SequenceTracer {
    fn step(&mut self, step: &Step<'_>, _accounts: &mut dyn Accounts) -> Result<(), StateError> {
        let name = instruction_name(step.opcode);
        match self.length {
            SequenceLength::One => self.counts.add(name.into_owned()),
            SequenceLength::Two => self.pair(step, name),
            SequenceLength::Three => self.count_triple(step, name),
        }
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.counts.held_bytes()
    }

    fn result(&mut self, _run: &Run<'_>, _accounts: &mut dyn Accounts) -> Result<TraceResult, TracerFailure> {
        Ok(TraceResult::Sequences(self.counts.take()))
    }
}
