//! `evmdisTracer`: the executed instructions with their results on the stack. The instructions of a call's frame are
//! nested in the call. Numbers and bytes have the form of the reference's script engine.

use tenon_api::{
    Bytes, U256,
    messages::{DisassembledCall, DisassembledFrame, DisassembledOperation},
};

use super::JsonWriter;

const PUSH0: u8 = 0x5f;
const PUSH32: u8 = 0x7f;
const DELEGATECALL: u8 = 0xf4;
const STATICCALL: u8 = 0xfa;

/// A disassembly while it is written. Without recursion: calls are as deep as the EVM allows.
pub(super) struct DisassemblyText {
    frames: Vec<DisassembledFrame>,
    /// The frames being written, outermost first: their indices, and those of their next operations.
    open: Vec<(usize, usize)>,
}

impl DisassemblyText {
    pub(super) fn new(frames: Vec<DisassembledFrame>) -> Self {
        Self { frames, open: Vec::new() }
    }

    /// Writes until the text has `end` bytes. Returns whether the disassembly is complete.
    pub(super) fn write(&mut self, json: &mut JsonWriter, end: usize) -> bool {
        if self.open.is_empty() {
            json.begin_list();
            self.open.push((0, 0));
        }
        while json.len() < end {
            let Some((frame, next)) = self.open.last_mut() else { return true };
            let operations = self.frames.get(*frame).map(|frame| frame.operations.as_slice()).unwrap_or_default();
            let Some(operation) = operations.get(*next) else {
                json.end_list();
                self.open.pop();
                // The call operation that contains the finished list.
                let caller =
                    self.open.last().and_then(|(frame, next)| self.frames.get(*frame)?.operations.get(next - 1));
                match caller {
                    Some(caller) => end_operation(json, caller),
                    None => return true,
                }
                continue;
            };
            *next += 1;
            begin_operation(json, operation);
            match &operation.call {
                Some(call) => {
                    let frame = call.frame.and_then(|index| usize::try_from(index).ok());
                    begin_call(json, call, frame.and_then(|index| self.frames.get(index)));
                    // A frame that does not exist has no operations.
                    self.open.push((frame.unwrap_or(usize::MAX), 0));
                }
                None => end_operation(json, operation),
            }
        }
        false
    }
}

/// Writes the members before those of a call. As in the reference's script, the calls `DELEGATECALL` and `STATICCALL`
/// are given by name, all other instructions by opcode.
fn begin_operation(json: &mut JsonWriter, operation: &DisassembledOperation) {
    json.begin_object();
    match operation.opcode {
        DELEGATECALL if operation.call.is_some() => json.key("op").text("DELEGATECALL"),
        STATICCALL if operation.call.is_some() => json.key("op").text("STATICCALL"),
        opcode => json.key("op").number(opcode.into()),
    }
    json.key("depth").number(operation.depth.into());
    json.key("result").begin_list();
    operation.results.iter().for_each(|result| json.text(&format!("{result:x}")));
    json.end_list();
}

/// The members of a call, up to the list of its operations.
fn begin_call(json: &mut JsonWriter, call: &DisassembledCall, frame: Option<&DisassembledFrame>) {
    json.key("gas").raw(&script_number(call.gas));
    json.key("to").text(&format!("{:x}", call.to));
    if let Some(value) = call.value {
        json.key("value").text(&value.to_string());
    }
    write_buffer(json.key("input"), &call.input);
    match frame.and_then(|frame| frame.error.as_deref()) {
        Some(error) => json.key("error").text(error),
        None => json.key("error").null(),
    }
    match frame.and_then(|frame| frame.returned.as_ref()) {
        Some(returned) => write_buffer(json.key("return"), returned),
        None => json.key("return").null(),
    }
    json.key("ops").begin_list();
}

fn end_operation(json: &mut JsonWriter, operation: &DisassembledOperation) {
    if let Some(pc) = operation.pc {
        json.key("pc").number(pc);
    }
    if (PUSH0..=PUSH32).contains(&operation.opcode) {
        json.key("len").number(u64::from(operation.opcode - PUSH0) + 1);
    }
    json.end_object();
}

/// A number in the script engine's format: floating point.
fn script_number(number: U256) -> String {
    const MIN_WITH_EXPONENT: f64 = 1e21;
    let rounded = f64::from(number);
    if rounded < MIN_WITH_EXPONENT {
        return rounded.to_string();
    }
    format!("{rounded:e}").replace('e', "e+")
}

/// Bytes in the script engine's format of a buffer: an object by position.
fn write_buffer(json: &mut JsonWriter, bytes: &Bytes) {
    json.begin_object();
    for (at, byte) in bytes.iter().enumerate() {
        json.key(&at.to_string()).number((*byte).into());
    }
    json.end_object();
}

#[cfg(test)]
mod tests {
    use tenon_api::messages::{TraceReply, TraceResult, TraceResults, TracerDialect};

    use super::super::tests::whole_text;
    use super::*;

    fn text(frames: Vec<DisassembledFrame>) -> String {
        let results = TraceResults::Single(TraceResult::Disassembly(frames));
        whole_text(TraceReply { dialect: TracerDialect::Reference, results })
    }

    #[test]
    fn a_call_contains_the_operations_of_its_frame() {
        let operation = |opcode, depth| DisassembledOperation { opcode, depth, ..DisassembledOperation::default() };
        let call = |opcode, frame| {
            let value = (opcode == 0xf1).then_some(U256::from(300));
            let input = Bytes::from_static(&[7, 8]);
            let call = DisassembledCall { gas: U256::MAX, to: U256::from(0xab), value, input, frame };
            DisassembledOperation { call: Some(Box::new(call)), ..operation(opcode, 1) }
        };
        let frames = vec![
            DisassembledFrame {
                operations: vec![
                    DisassembledOperation { results: vec![U256::ZERO, U256::from(0x1f)], ..operation(0x60, 1) },
                    call(0xf1, Some(1)),
                    call(0xfa, None),
                    DisassembledOperation { pc: Some(9), ..operation(0x5b, 1) },
                ],
                ..DisassembledFrame::default()
            },
            DisassembledFrame {
                operations: vec![operation(0x5f, 2)],
                returned: Some(Bytes::new()),
                error: Some("(0 <=> 1)".to_owned()),
            },
        ];

        let gas = "1.157920892373162e+77";
        let expected = r#"[{"op":96,"depth":1,"result":["0","1f"],"len":2},{"op":241,"depth":1,"result":[],"#
            .to_owned()
            + &format!(r#""gas":{gas},"to":"ab","value":"300","input":{{"0":7,"1":8}},"error":"(0 <=> 1)","#)
            + r#""return":{},"ops":[{"op":95,"depth":2,"result":[],"len":1}]},"#
            + &format!(r#"{{"op":"STATICCALL","depth":1,"result":[],"gas":{gas},"to":"ab","#)
            + r#""input":{"0":7,"1":8},"error":null,"return":null,"ops":[]},"#
            + r#"{"op":91,"depth":1,"result":[],"pc":9}]"#;
        assert_eq!(text(frames), expected);
        assert_eq!(text(vec![]), "[]");
    }

    #[test]
    fn numbers_have_the_script_engines_format() {
        let cases = [
            (U256::from(50_000), "50000"),
            (U256::from(1) << 60, "1152921504606847000"),
            (U256::MAX, "1.157920892373162e+77"),
        ];
        for (number, expected) in cases {
            assert_eq!(script_number(number), expected);
        }
    }
}
