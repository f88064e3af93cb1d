//! `flatCallTracer`: calls as a list, in Parity's form.

use std::vec;

use tenon_api::messages::{FlatAction, FlatCall, FlatOutput};

use super::JsonWriter;

/// A list of calls while it is written.
pub(super) struct FlatText {
    calls: vec::IntoIter<FlatCall>,
    has_begun: bool,
}

impl FlatText {
    pub(super) fn new(calls: Vec<FlatCall>) -> Self {
        Self { calls: calls.into_iter(), has_begun: false }
    }

    /// Writes until the text has `end` bytes. Returns whether the list is complete.
    pub(super) fn write(&mut self, json: &mut JsonWriter, end: usize) -> bool {
        if !self.has_begun {
            self.has_begun = true;
            json.begin_list();
        }
        while json.len() < end {
            let Some(call) = self.calls.next() else {
                json.end_list();
                return true;
            };
            write_call(json, &call);
        }
        false
    }
}

fn write_call(json: &mut JsonWriter, call: &FlatCall) {
    json.begin_object();
    let kind = write_action(json, &call.action);
    if let Some(hash) = call.block_hash {
        json.key("blockHash").data(hash);
    }
    if let Some(number) = call.block_number {
        json.key("blockNumber").number(number);
    }
    if let Some(error) = &call.error {
        json.key("error").text(error);
    }
    json.key("result");
    match &call.output {
        Some(output) => write_output(json, output),
        None => json.null(),
    }
    json.key("subtraces").number(call.inner_calls);
    json.key("traceAddress").begin_list();
    call.place.iter().for_each(|index| json.number(*index));
    json.end_list();
    json.key("transactionHash").optional_data(call.transaction_hash);
    json.key("transactionPosition");
    match call.transaction_index {
        Some(index) => json.number(index),
        None => json.null(),
    }
    json.key("type").text(kind);
    json.end_object();
}

/// The member `action`. Returns Parity's word for it.
fn write_action(json: &mut JsonWriter, action: &FlatAction) -> &'static str {
    json.key("action").begin_object();
    let word = match action {
        FlatAction::Call { kind, from, to, gas, input, value } => {
            json.key("from").data(from);
            json.key("callType").text(&kind.name().to_ascii_lowercase());
            json.key("gas").quantity(*gas);
            json.key("input").data(input);
            json.key("to").data(to);
            json.key("value").quantity_256(*value);
            "call"
        }
        FlatAction::Create { kind, from, gas, init, value } => {
            json.key("from").data(from);
            json.key("gas").quantity(*gas);
            json.key("init").data(init);
            json.key("value").quantity_256(*value);
            json.key("creationMethod").text(&kind.name().to_ascii_lowercase());
            "create"
        }
        FlatAction::Destroy { address, receiver, balance } => {
            json.key("address").data(address);
            json.key("balance").quantity_256(*balance);
            json.key("refundAddress").data(receiver);
            "suicide"
        }
    };
    json.end_object();
    word
}

fn write_output(json: &mut JsonWriter, output: &FlatOutput) {
    json.begin_object();
    match output {
        FlatOutput::Call { gas_used, output } => {
            json.key("gasUsed").quantity(*gas_used);
            json.key("output").data(output);
        }
        FlatOutput::Create { address, code, gas_used } => {
            json.key("address").data(address);
            json.key("code").data(code);
            json.key("gasUsed").quantity(*gas_used);
        }
    }
    json.end_object();
}

#[cfg(test)]
mod tests {
    use tenon_api::{
        Address, B256, Bytes, U256,
        messages::{FrameKind, TraceReply, TraceResult, TraceResults, TracerDialect},
    };

    use super::super::tests::whole_text;
    use super::*;

    #[test]
    fn each_action_has_its_members_and_its_word() {
        let (zero, hash) = (Address::ZERO, B256::ZERO);
        let call = |action, output| FlatCall {
            action,
            block_hash: None,
            block_number: None,
            error: None,
            output,
            inner_calls: 0,
            place: Vec::new(),
            transaction_hash: None,
            transaction_index: None,
        };
        let value = U256::from(5);
        let kind = FrameKind::DelegateCall;
        let called = FlatAction::Call { kind, from: zero, to: zero, gas: 1, input: Bytes::new(), value };
        let kind = FrameKind::Create2;
        let created = FlatAction::Create { kind, from: zero, gas: 1, init: Bytes::new(), value };
        let destroyed = FlatAction::Destroy { address: zero, receiver: zero, balance: value };
        let calls = vec![
            FlatCall {
                block_hash: Some(hash),
                block_number: Some(2),
                error: Some("Reverted".to_owned()),
                inner_calls: 3,
                place: vec![0, 4],
                transaction_hash: Some(hash),
                transaction_index: Some(6),
                ..call(called, Some(FlatOutput::Call { gas_used: 7, output: Bytes::new() }))
            },
            call(created, Some(FlatOutput::Create { address: zero, code: Bytes::new(), gas_used: 8 })),
            call(destroyed, None),
        ];
        let results = TraceResults::Single(TraceResult::FlatCalls(calls));

        let text = whole_text(TraceReply { dialect: TracerDialect::Ethereum, results });

        let (zero, hash) = (format!("0x{}", "0".repeat(40)), format!("0x{}", "0".repeat(64)));
        let place = r#""subtraces":0,"traceAddress":[],"transactionHash":null,"transactionPosition":null"#;
        let expected = format!(r#"[{{"action":{{"from":"{zero}","callType":"delegatecall","gas":"0x1","input":"0x","#)
            + &format!(r#""to":"{zero}","value":"0x5"}},"blockHash":"{hash}","blockNumber":2,"error":"Reverted","#)
            + r#""result":{"gasUsed":"0x7","output":"0x"},"subtraces":3,"traceAddress":[0,4],"#
            + &format!(r#""transactionHash":"{hash}","transactionPosition":6,"type":"call"}},"#)
            + &format!(r#"{{"action":{{"from":"{zero}","gas":"0x1","init":"0x","value":"0x5","#)
            + &format!(r#""creationMethod":"create2"}},"result":{{"address":"{zero}","code":"0x","gasUsed":"0x8"}},"#)
            + &format!(r#"{place},"type":"create"}},{{"action":{{"address":"{zero}","balance":"0x5","#)
            + &format!(r#""refundAddress":"{zero}"}},"result":null,{place},"type":"suicide"}}]"#);
        assert_eq!(text, expected);
    }
}
