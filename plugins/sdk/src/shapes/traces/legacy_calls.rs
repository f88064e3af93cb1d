//! `callTracerLegacy`: calls nested in their callers; members that the tracer could not determine are omitted.

use std::time::Duration;

use tenon_api::{
    duration_text,
    messages::{FrameKind, LegacyCallFrame},
};

use super::{JsonWriter, tree::TreeFrame};

impl TreeFrame for LegacyCallFrame {
    /// How long the trace took.
    type Form = Duration;

    fn depth(&self) -> u32 {
        self.depth
    }

    fn begin(&self, json: &mut JsonWriter, time: &Duration) {
        json.begin_object();
        json.key("type").text(self.kind.map_or("", FrameKind::name));
        json.key("from").data(self.from);
        if let Some(to) = self.to {
            json.key("to").data(to);
        }
        if let Some(value) = self.value {
            json.key("value").whole_balance(value);
        }
        if let Some(gas) = self.gas {
            json.key("gas").quantity(gas);
        }
        if let Some(gas) = self.gas_used {
            let sign = if gas < 0 { "-" } else { "" };
            json.key("gasUsed").text(&format!("0x{sign}{:x}", gas.unsigned_abs()));
        }
        if let Some(input) = &self.input {
            json.key("input").data(input);
        }
        if let Some(output) = &self.output {
            json.key("output").data(output);
        }
        if let Some(error) = &self.error {
            json.key("error").text(error);
        }
        if self.depth == 0 {
            json.key("time").text(&duration_text(*time));
        }
    }

    fn end(&self, json: &mut JsonWriter, _: &Duration) {
        json.end_object();
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{
        Address, Bytes, WholeBalance,
        messages::{LegacyCalls, TraceReply, TraceResult, TraceResults, TracerDialect},
    };

    use super::super::tests::whole_text;
    use super::*;

    #[test]
    fn calls_contain_the_recorded_members() {
        let outermost = LegacyCallFrame {
            kind: Some(FrameKind::Call),
            to: Some(Address::ZERO),
            value: Some(WholeBalance::from(16)),
            gas: Some(0),
            gas_used: Some(255),
            input: Some(Bytes::new()),
            output: Some(Bytes::from_static(&[1])),
            error: Some("(0 <=> 1)".to_owned()),
            ..LegacyCallFrame::default()
        };
        let inner = LegacyCallFrame { depth: 1, gas_used: Some(-16), ..LegacyCallFrame::default() };
        let calls = LegacyCalls { frames: vec![outermost, inner], time: Duration::from_micros(1500) };
        let results = TraceResults::Single(TraceResult::LegacyCalls(calls));

        let text = whole_text(TraceReply { dialect: TracerDialect::Reference, results });

        let zero = format!("0x{}", "0".repeat(40));
        let expected = format!(r#"{{"type":"CALL","from":"{zero}","to":"{zero}","value":"0x10","gas":"0x0","#)
            + r#""gasUsed":"0xff","input":"0x","output":"0x01","error":"(0 <=> 1)","time":"1ms","#
            + &format!(r#""calls":[{{"type":"","from":"{zero}","gasUsed":"0x-10"}}]}}"#);
        assert_eq!(text, expected);
    }
}
