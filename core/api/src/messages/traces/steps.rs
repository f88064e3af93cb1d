//! The steps of a struct logger, as compact records in one buffer.
//!
//! A trace may have millions of steps. A list of structs would take more memory than their JSON text; a record takes
//! less than half of it. Numbers are written in groups of seven bits, words without their leading zeros, and bytes as
//! they are. The reader decodes one step at a time and copies nothing.

use alloy_primitives::{Bytes, U256};
use serde::{Deserialize, Serialize};

/// Recorded steps, in the order of execution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceSteps {
    records: Bytes,
}

/// Bytes that are not the records of [`StepRecorder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the steps of a trace are malformed")]
pub struct MalformedSteps;

/// A step. Parts that were not recorded are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceStep<'a> {
    /// Position of the instruction in the code.
    pub pc: u64,
    /// The instruction.
    pub opcode: u8,
    /// Gas before it.
    pub gas: u64,
    /// Its cost.
    pub cost: u64,
    /// 1 for the outermost frame.
    pub depth: u64,
    /// The refund counter.
    pub refund: u64,
    /// Why it failed.
    pub error: Option<&'a str>,
    /// The stack before it, top last.
    pub stack: Option<Words<'a>>,
    /// The memory before it.
    pub memory: Option<&'a [u8]>,
    /// Data that the last call returned.
    pub return_data: Option<&'a [u8]>,
    /// Slots and values that the contract has read and written so far, alternating.
    pub storage: Option<Words<'a>>,
}

/// A list of words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words<'a> {
    /// The remaining words, each as a length and its bytes.
    encoded: &'a [u8],
}

impl Iterator for Words<'_> {
    type Item = U256;

    fn next(&mut self) -> Option<U256> {
        let (length, rest) = self.encoded.split_first()?;
        let (word, rest) = rest.split_at_checked(usize::from(*length))?;
        self.encoded = rest;
        U256::try_from_be_slice(word)
    }
}

/// The parts of a record after its fixed members.
mod part {
    pub(super) const END: u8 = 0;
    pub(super) const REFUND: u8 = 1;
    pub(super) const ERROR: u8 = 2;
    pub(super) const STACK: u8 = 3;
    pub(super) const MEMORY: u8 = 4;
    pub(super) const RETURN_DATA: u8 = 5;
    pub(super) const STORAGE: u8 = 6;
}

/// Length of a step's cost. It is fixed because the cost is known only at the end of the step, and is then written into
/// the space reserved for it.
const COST_BYTES: usize = size_of::<u64>();

/// Records steps. Each begins before its instruction and ends after it, with its parts recorded in between.
#[derive(Debug, Default)]
pub struct StepRecorder {
    records: Vec<u8>,
    /// Start of the step that has not ended.
    open: Option<usize>,
}

impl StepRecorder {
    /// A step begins. A step that did not end is dropped.
    pub fn begin(&mut self, pc: u64, opcode: u8, gas: u64, depth: u64) {
        self.drop_open();
        self.open = Some(self.records.len());
        self.records.extend_from_slice(&[0; COST_BYTES]);
        self.records.push(opcode);
        for number in [pc, gas, depth] {
            self.number(number);
        }
    }

    /// Records the refund counter; zero if it is not recorded.
    pub fn refund(&mut self, refund: u64) {
        self.records.push(part::REFUND);
        self.number(refund);
    }

    /// Records the stack.
    pub fn stack(&mut self, stack: &[U256]) {
        self.words(part::STACK, stack.iter());
    }

    /// Records slots and their values, alternating.
    pub fn storage<'w>(&mut self, slots: impl Iterator<Item = &'w U256>) {
        self.words(part::STORAGE, slots);
    }

    /// Records the memory.
    pub fn memory(&mut self, memory: &[u8]) {
        self.bytes(part::MEMORY, memory);
    }

    /// Records what the last call returned.
    pub fn return_data(&mut self, data: &[u8]) {
        self.bytes(part::RETURN_DATA, data);
    }

    /// The step ends.
    pub fn end(&mut self, cost: u64, error: Option<&str>) {
        let Some(start) = self.open.take() else { return };
        if let Some(error) = error {
            self.bytes(part::ERROR, error.as_bytes());
        }
        self.records.push(part::END);
        if let Some(place) = self.records.get_mut(start..start + COST_BYTES) {
            place.copy_from_slice(&cost.to_le_bytes());
        }
    }

    /// Bytes recorded.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes allocated.
    pub fn capacity(&self) -> usize {
        self.records.capacity()
    }

    /// The recorded steps. The buffer is not copied.
    pub fn finish(mut self) -> TraceSteps {
        self.drop_open();
        TraceSteps { records: self.records.into() }
    }

    fn drop_open(&mut self) {
        if let Some(start) = self.open.take() {
            self.records.truncate(start);
        }
    }

    fn number(&mut self, number: u64) {
        let mut left = number;
        while left >= 0x80 {
            #[allow(clippy::cast_possible_truncation, reason = "the low seven bits are wanted")]
            self.records.push(left as u8 | 0x80);
            left >>= 7;
        }
        #[allow(clippy::cast_possible_truncation, reason = "less than 128")]
        self.records.push(left as u8);
    }

    fn bytes(&mut self, part: u8, bytes: &[u8]) {
        self.records.push(part);
        self.number(bytes.len() as u64);
        self.records.extend_from_slice(bytes);
    }

    /// A list of words after its length in bytes. The length has a fixed size, because it is known only after the words
    /// are written.
    fn words<'w>(&mut self, part: u8, words: impl Iterator<Item = &'w U256>) {
        self.records.push(part);
        let start = self.records.len();
        self.records.extend_from_slice(&[0; size_of::<u32>()]);
        for word in words {
            let length = word.byte_len();
            #[allow(clippy::cast_possible_truncation, reason = "at most 32")]
            self.records.push(length as u8);
            let bytes = word.to_be_bytes::<32>();
            self.records.extend_from_slice(&bytes[bytes.len() - length..]);
        }
        // The memory of a trace is limited to less than 4 GiB.
        let length = u32::try_from(self.records.len() - start - size_of::<u32>()).unwrap_or(u32::MAX);
        if let Some(place) = self.records.get_mut(start..start + size_of::<u32>()) {
            place.copy_from_slice(&length.to_le_bytes());
        }
    }
}

impl TraceSteps {
    /// Bytes of the records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no step.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Reads the steps, beginning with the first.
    pub fn read(&self) -> StepReader {
        StepReader { records: self.records.clone(), at: 0 }
    }
}

/// Reads recorded steps one by one.
#[derive(Clone, Debug)]
pub struct StepReader {
    records: Bytes,
    at: usize,
}

impl StepReader {
    /// The next step; `None` after the last one.
    ///
    /// # Errors
    /// [`MalformedSteps`] if the bytes are not those of a [`StepRecorder`].
    pub fn next_step(&mut self) -> Result<Option<TraceStep<'_>>, MalformedSteps> {
        let Some(rest) = self.records.get(self.at..).filter(|rest| !rest.is_empty()) else { return Ok(None) };
        let mut input = Input(rest);
        let step = input.step().ok_or(MalformedSteps)?;
        self.at += rest.len() - input.0.len();
        Ok(Some(step))
    }
}

/// The rest of the records.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn step(&mut self) -> Option<TraceStep<'a>> {
        let mut step = TraceStep { cost: u64::from_le_bytes(self.array()?), ..TraceStep::default() };
        [step.opcode] = self.array()?;
        (step.pc, step.gas, step.depth) = (self.number()?, self.number()?, self.number()?);
        loop {
            match self.array()? {
                [part::END] => return Some(step),
                [part::REFUND] => step.refund = self.number()?,
                [part::ERROR] => step.error = Some(std::str::from_utf8(self.bytes()?).ok()?),
                [part::STACK] => step.stack = Some(self.words()?),
                [part::MEMORY] => step.memory = Some(self.bytes()?),
                [part::RETURN_DATA] => step.return_data = Some(self.bytes()?),
                [part::STORAGE] => step.storage = Some(self.words()?),
                _ => return None,
            }
        }
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    fn words(&mut self) -> Option<Words<'a>> {
        let length = usize::try_from(u32::from_le_bytes(self.array()?)).ok()?;
        Some(Words { encoded: self.take(length)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> TraceSteps {
        let mut recorder = StepRecorder::default();
        recorder.begin(0, 0x60, u64::MAX, 1);
        recorder.stack(&[]);
        recorder.end(3, None);
        recorder.begin(300, 0x55, 127, 1024);
        recorder.refund(4_800);
        recorder.stack(&[U256::ZERO, U256::MAX, U256::from(0x100)]);
        recorder.memory(&[0; 200]);
        recorder.return_data(&[7]);
        recorder.storage([U256::from(1), U256::from(2)].iter());
        recorder.end(u64::MAX, Some("OutOfGas"));
        recorder.finish()
    }

    #[test]
    fn steps_come_back_as_they_were_recorded() {
        let steps = recorded();
        let mut reader = steps.read();

        let first = reader.next_step().unwrap().unwrap();
        let stack = Some(Words::default());
        assert_eq!(first, TraceStep { opcode: 0x60, gas: u64::MAX, cost: 3, depth: 1, stack, ..TraceStep::default() });

        let second = reader.next_step().unwrap().unwrap();
        assert_eq!((second.pc, second.opcode, second.gas, second.depth), (300, 0x55, 127, 1024));
        assert_eq!((second.cost, second.refund, second.error), (u64::MAX, 4_800, Some("OutOfGas")));
        let words = |words: Option<Words<'_>>| words.unwrap().collect::<Vec<_>>();
        assert_eq!(words(second.stack), [U256::ZERO, U256::MAX, U256::from(0x100)]);
        assert_eq!(words(second.storage), [U256::from(1), U256::from(2)]);
        assert_eq!((second.memory, second.return_data), (Some(&[0; 200][..]), Some(&[7][..])));

        assert_eq!(reader.next_step(), Ok(None));
    }

    #[test]
    fn a_step_that_did_not_end_is_dropped() {
        let mut recorder = StepRecorder::default();
        recorder.begin(1, 2, 3, 4);
        recorder.memory(&[1]);
        recorder.begin(5, 6, 7, 8);
        recorder.end(9, None);
        recorder.begin(1, 2, 3, 4);

        let steps = recorder.finish();

        let mut reader = steps.read();
        assert_eq!(reader.next_step().unwrap().map(|step| step.pc), Some(5));
        assert_eq!(reader.next_step(), Ok(None));
    }

    #[test]
    fn cut_records_are_an_error_and_changed_ones_end() {
        let records = recorded().records;
        for length in 1..records.len() {
            let mut reader = TraceSteps { records: records.slice(..length) }.read();
            let mut outcome = Ok(true);
            while outcome == Ok(true) {
                outcome = reader.next_step().map(|step| step.is_some());
            }
            // Cut between two records: the first one is whole.
            assert_eq!(outcome.is_ok(), reader.at == length, "{length}");
        }
        for place in 0..records.len() {
            let mut changed = records.to_vec();
            changed[place] ^= 0xff;
            let mut reader = TraceSteps { records: changed.into() }.read();
            // It ends, without a panic.
            while let Ok(Some(step)) = reader.next_step() {
                assert!(step.stack.into_iter().flatten().count() <= records.len());
            }
        }
    }

    // A looping program with a small stack, the most frequent large trace: 78 bytes of JSON for a step.
    #[test]
    fn a_record_takes_less_than_half_of_its_json() {
        let mut recorder = StepRecorder::default();
        for step in 0..1000_u64 {
            recorder.begin(step % 4, 0x5b, 1_000_000 - step, 1);
            recorder.stack(&[U256::from(step)]);
            recorder.end(8, None);
        }
        let json = r#"{"pc":0,"op":"JUMPDEST","gas":1000000,"gasCost":8,"depth":1,"stack":["0x3e8"]},"#;
        assert!(recorder.len() < 1000 * json.len() / 2, "{} bytes", recorder.len());
    }
}
