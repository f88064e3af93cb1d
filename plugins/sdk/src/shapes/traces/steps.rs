//! The struct logger: every instruction with gas, stack, memory and storage. go-ethereum's form has all numbers with
//! `0x` and leaves empty or zero members out; the reference has kept an older one.

use crate::Failure;
use tenon_api::messages::{StepReader, StructLog, TraceStep, TracerDialect, Words};

use super::JsonWriter;

/// A struct log while it is written.
pub(super) struct StepsText {
    dialect: TracerDialect,
    steps: StepReader,
    /// Names of the instructions, by their opcodes.
    names: Vec<Box<str>>,
    /// The members before the steps, until they are written.
    head: Option<StructLog>,
}

impl StepsText {
    pub(super) fn new(mut log: StructLog, dialect: TracerDialect) -> Self {
        let mut names = vec![Box::default(); usize::from(u8::MAX) + 1];
        for (opcode, name) in std::mem::take(&mut log.names) {
            if let Some(place) = names.get_mut(usize::from(opcode)) {
                *place = name.into_boxed_str();
            }
        }
        Self { dialect, steps: log.steps.read(), names, head: Some(log) }
    }

    /// Writes until the text has `end` bytes. Returns whether the log is complete.
    ///
    /// # Errors
    /// The steps are malformed.
    pub(super) fn write(&mut self, json: &mut JsonWriter, end: usize) -> Result<bool, Failure> {
        if let Some(log) = self.head.take() {
            json.begin_object();
            json.key("gas").number(log.gas);
            json.key("failed").boolean(log.has_failed);
            match self.dialect {
                TracerDialect::Ethereum => json.key("returnValue").data(&log.output),
                TracerDialect::Reference => json.key("returnValue").bare_data(&log.output),
            }
            json.key("structLogs").begin_list();
        }
        let malformed = |error: tenon_api::messages::MalformedSteps| Failure::server(error.to_string());
        while json.len() < end {
            let Some(step) = self.steps.next_step().map_err(malformed)? else {
                json.end_list();
                json.end_object();
                return Ok(true);
            };
            let name = self.names.get(usize::from(step.opcode)).map_or("", |name| name);
            write_step(json, self.dialect, name, step);
        }
        Ok(false)
    }
}

fn write_step(json: &mut JsonWriter, dialect: TracerDialect, name: &str, step: TraceStep<'_>) {
    let is_ethereum = dialect == TracerDialect::Ethereum;
    json.begin_object();
    json.key("pc").number(step.pc);
    json.key("op").text(name);
    json.key("gas").number(step.gas);
    json.key("gasCost").number(step.cost);
    json.key("depth").number(step.depth);
    if is_ethereum && step.refund > 0 {
        json.key("refund").number(step.refund);
    }
    match step.error {
        Some(error) if is_ethereum => json.key("error").text(&format!("Some({error})")),
        // The error itself is lost in the reference's encoding.
        Some(_) => json.key("error").raw("{}"),
        None => {}
    }
    if let Some(stack) = step.stack {
        json.key("stack").begin_list();
        stack.for_each(|item| json.quantity_256(item));
        json.end_list();
    }
    if let Some(data) = step.return_data {
        json.key("returnData").data(data);
    }
    if let Some(memory) = step.memory {
        json.key("memory").begin_list();
        // The EVM's memory grows in whole words.
        for word in memory.chunks(32) {
            if is_ethereum { json.data(word) } else { json.bare_data(word) }
        }
        json.end_list();
    }
    if let Some(slots) = step.storage {
        json.key("storage").begin_object();
        write_slots(json, slots, is_ethereum);
        json.end_object();
    }
    json.end_object();
}

fn write_slots(json: &mut JsonWriter, mut slots: Words<'_>, with_prefix: bool) {
    while let (Some(slot), Some(value)) = (slots.next(), slots.next()) {
        let (slot, value) = (slot.to_be_bytes::<32>(), value.to_be_bytes::<32>());
        if with_prefix {
            json.data_key(slot).data(value);
        } else {
            json.bare_data_key(slot).bare_data(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{
        Bytes, U256,
        messages::{StepRecorder, TraceReply, TraceResult, TraceResults, TraceSteps},
    };

    use super::super::{PIECE_BYTES, TraceText, tests::whole_text};
    use super::*;

    fn reply(dialect: TracerDialect, steps: TraceSteps) -> TraceReply {
        let names = vec![(0x55, "SSTORE".to_owned()), (0x5b, "JUMPDEST".to_owned())];
        let log = StructLog { gas: 21_000, has_failed: false, output: Bytes::from_static(&[7]), names, steps };
        TraceReply { dialect, results: TraceResults::Single(TraceResult::StructLog(log)) }
    }

    fn steps() -> TraceSteps {
        let mut recorder = StepRecorder::default();
        recorder.begin(0, 0x5b, 50, 1);
        recorder.stack(&[]);
        recorder.memory(&[]);
        recorder.end(1, None);
        recorder.begin(1, 0x55, 49, 2);
        recorder.refund(4_800);
        recorder.stack(&[U256::ZERO, U256::MAX]);
        recorder.memory(&[0xee; 64]);
        recorder.return_data(&[1, 2]);
        recorder.storage([U256::from(1), U256::from(0xab)].iter());
        recorder.end(20_000, Some("OutOfGas"));
        recorder.finish()
    }

    #[test]
    fn steps_have_the_members_of_their_dialect_in_its_order() {
        let (word, zeros, f) = ("ee".repeat(32), "0".repeat(62), "f".repeat(64));

        let ethereum = r#"{"gas":21000,"failed":false,"returnValue":"0x07","structLogs":["#.to_owned()
            + r#"{"pc":0,"op":"JUMPDEST","gas":50,"gasCost":1,"depth":1,"stack":[],"memory":[]},"#
            + r#"{"pc":1,"op":"SSTORE","gas":49,"gasCost":20000,"depth":2,"refund":4800,"error":"Some(OutOfGas)","#
            + &format!(r#""stack":["0x0","0x{f}"],"returnData":"0x0102","memory":["0x{word}","0x{word}"],"#)
            + &format!(r#""storage":{{"0x{zeros}01":"0x{zeros}ab"}}}}]}}"#);
        assert_eq!(whole_text(reply(TracerDialect::Ethereum, steps())), ethereum);

        let reference = r#"{"gas":21000,"failed":false,"returnValue":"07","structLogs":["#.to_owned()
            + r#"{"pc":0,"op":"JUMPDEST","gas":50,"gasCost":1,"depth":1,"stack":[],"memory":[]},"#
            + r#"{"pc":1,"op":"SSTORE","gas":49,"gasCost":20000,"depth":2,"error":{},"#
            + &format!(r#""stack":["0x0","0x{f}"],"returnData":"0x0102","memory":["{word}","{word}"],"#)
            + &format!(r#""storage":{{"{zeros}01":"{zeros}ab"}}}}]}}"#);
        assert_eq!(whole_text(reply(TracerDialect::Reference, steps())), reference);
    }

    #[test]
    fn a_long_log_is_written_in_pieces() {
        let mut recorder = StepRecorder::default();
        for step in 0..50_000 {
            recorder.begin(step, 0x5b, 1, 1);
            recorder.end(1, None);
        }
        let mut text = TraceText::new(reply(TracerDialect::Ethereum, recorder.finish()));
        let mut before = 0;
        while !text.write_some().unwrap() {
            let piece = text.len() - before;
            assert!((PIECE_BYTES..PIECE_BYTES + 200).contains(&piece), "{piece}");
            before = text.len();
        }

        let json = text.finish().into_string();

        assert_eq!((json.matches("JUMPDEST").count(), json.ends_with("}]}")), (50_000, true));
    }
}
