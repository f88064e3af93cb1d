//! `callTracer`: calls nested in their callers.

use tenon_api::messages::{CallFrame, TracedLog, TracerDialect};

use super::{JsonWriter, tree::TreeFrame};

impl TreeFrame for CallFrame {
    type Form = TracerDialect;

    fn depth(&self) -> u32 {
        self.depth
    }

    fn begin(&self, json: &mut JsonWriter, form: &TracerDialect) {
        match form {
            TracerDialect::Ethereum => begin_ethereum(json, self),
            TracerDialect::Reference => begin_reference(json, self),
        }
    }

    fn logs_after_calls(&self, form: &TracerDialect) -> &[TracedLog] {
        match form {
            TracerDialect::Ethereum => &self.logs,
            TracerDialect::Reference => &[],
        }
    }

    fn end(&self, json: &mut JsonWriter, form: &TracerDialect) {
        if *form == TracerDialect::Ethereum {
            if let Some(value) = self.value {
                json.key("value").whole_balance(value);
            }
            json.key("type").text(self.kind.name());
        }
        json.end_object();
    }
}

/// A creation that was refused before it began leaves an empty call.
pub(super) const NO_CALL: &str = r#"{"type":"","from":"","gas":"","gasUsed":"","input":""}"#;

/// The members before the inner calls.
fn begin_ethereum(json: &mut JsonWriter, frame: &CallFrame) {
    json.begin_object();
    json.key("from").data(frame.from);
    json.key("gas").quantity(frame.gas);
    json.key("gasUsed").quantity(frame.gas_used);
    if let Some(gas) = &frame.gas_by_kind {
        json.key("executionGasUsed").quantity(gas.execution);
        json.key("stateGasUsed").quantity(gas.state);
        json.key("gasRefund").quantity(gas.refund);
    }
    if let Some(to) = frame.to {
        json.key("to").data(to);
    }
    json.key("input").data(&frame.input);
    if let Some(output) = &frame.output {
        json.key("output").data(output);
    }
    if let Some(error) = &frame.error {
        json.key("error").text(error);
    }
    if let Some(reason) = &frame.revert_reason {
        json.key("revertReason").text(reason);
    }
}

fn begin_reference(json: &mut JsonWriter, frame: &CallFrame) {
    json.begin_object();
    json.key("type").text(frame.kind.name());
    json.key("from").data(frame.from);
    if let Some(to) = frame.to {
        json.key("to").data(to);
    }
    if let Some(value) = frame.value {
        json.key("value").whole_balance(value);
    }
    json.key("gas").quantity(frame.gas);
    json.key("gasUsed").quantity(frame.gas_used);
    json.key("input").data(&frame.input);
    if let Some(output) = &frame.output {
        json.key("output").data(output);
    }
    if let Some(error) = &frame.error {
        json.key("error").text(error);
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{
        Address, B256, Bytes, WholeBalance,
        messages::{FrameKind, GasByKind, TraceReply, TraceResult, TraceResults},
    };

    use super::super::{TraceText, tests::whole_text};
    use super::*;

    fn frame(depth: u32) -> CallFrame {
        CallFrame {
            depth,
            kind: FrameKind::Call,
            from: Address::repeat_byte(0xaa),
            to: None,
            value: None,
            gas: u64::from(depth),
            gas_used: 0,
            gas_by_kind: None,
            input: Bytes::new(),
            output: None,
            error: None,
            revert_reason: None,
            logs: Vec::new(),
        }
    }

    fn full() -> CallFrame {
        CallFrame {
            kind: FrameKind::Create2,
            to: Some(Address::repeat_byte(0xbb)),
            value: Some(WholeBalance::from(1) << 256),
            gas: 0x10,
            gas_used: 0x9,
            gas_by_kind: Some(GasByKind { execution: 1, state: 2, refund: 3 }),
            input: Bytes::from_static(&[1]),
            output: Some(Bytes::from_static(&[2])),
            error: Some("stack underflow (0 <=> 2)".to_owned()),
            revert_reason: Some("a \"quote\"".to_owned()),
            logs: vec![TracedLog {
                address: Address::repeat_byte(0xcc),
                topics: vec![B256::repeat_byte(0xdd)],
                data: Bytes::from_static(&[3]),
                position: 4,
                index: 5,
            }],
            ..frame(0)
        }
    }

    fn reply(dialect: TracerDialect, frames: Vec<CallFrame>) -> TraceReply {
        TraceReply { dialect, results: TraceResults::Single(TraceResult::Calls(frames)) }
    }

    #[test]
    fn a_frame_has_the_members_of_its_dialect_in_its_order() {
        let (from, to) = ("aa".repeat(20), "bb".repeat(20));
        let big = format!("0x1{}", "0".repeat(64));
        let log = format!(
            r#"{{"address":"0x{}","topics":["0x{}"],"data":"0x03","position":"0x4","index":"0x5"}}"#,
            "cc".repeat(20),
            "dd".repeat(32)
        );
        let ethereum = format!(
            r#"{{"from":"0x{from}","gas":"0x10","gasUsed":"0x9","executionGasUsed":"0x1","stateGasUsed":"0x2","#
        ) + &format!(r#""gasRefund":"0x3","to":"0x{to}","input":"0x01","output":"0x02","#)
            + r#""error":"stack underflow (0 <=> 2)","revertReason":"a \"quote\"","#
            + &format!(r#""logs":[{log}],"value":"{big}","type":"CREATE2"}}"#);
        let reference = format!(r#"{{"type":"CREATE2","from":"0x{from}","to":"0x{to}","value":"{big}","gas":"0x10","#)
            + r#""gasUsed":"0x9","input":"0x01","output":"0x02","error":"stack underflow (0 <=> 2)"}"#;

        assert_eq!(whole_text(reply(TracerDialect::Ethereum, vec![full()])), ethereum);
        assert_eq!(whole_text(reply(TracerDialect::Reference, vec![full()])), reference);
    }

    #[test]
    fn calls_are_nested_by_their_depth() {
        let frames = [0, 1, 2, 2, 1, 1, 2].map(frame).to_vec();

        let text = whole_text(reply(TracerDialect::Reference, frames));

        let shape: String = text.chars().filter(|character| "{}[]".contains(*character)).collect();
        assert_eq!(shape, "{[{[{}{}]}{}{[{}]}]}");
        assert_eq!(whole_text(reply(TracerDialect::Reference, vec![])), NO_CALL);
    }

    #[test]
    fn the_logs_of_a_call_are_written_in_pieces() {
        let log = full().logs.remove(0);
        let frames = vec![CallFrame { logs: vec![log; 5_000], ..frame(0) }, frame(1)];
        let mut text = TraceText::new(reply(TracerDialect::Ethereum, frames));
        let (mut pieces, mut before) = (1, 0);
        while !text.write_some().unwrap() {
            assert!(text.len() < before + super::super::PIECE_BYTES + 1024);
            before = text.len();
            pieces += 1;
        }

        let json = text.finish().into_string();

        assert!(pieces > 3);
        assert_eq!(json.matches(r#","logs":["#).count(), 1);
        assert_eq!(json.matches(r#""position":"0x4""#).count(), 5_000);
        assert!(json.ends_with(r#","index":"0x5"}],"type":"CALL"}"#));
    }

    #[test]
    fn a_deep_and_long_tree_is_written_in_pieces_and_without_recursion() {
        let frames: Vec<CallFrame> = (0..10_000).map(frame).collect();
        let mut text = TraceText::new(reply(TracerDialect::Ethereum, frames));
        let mut pieces = 1;
        while !text.write_some().unwrap() {
            pieces += 1;
        }

        let json = text.finish().into_string();

        assert_eq!(pieces, json.len().div_ceil(super::super::PIECE_BYTES));
        assert_eq!(json.matches(r#""calls":["#).count(), 9_999);
        assert!(json.ends_with(r#""type":"CALL"}],"type":"CALL"}"#));
    }
}
