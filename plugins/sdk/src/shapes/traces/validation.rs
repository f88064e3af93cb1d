//! `erc7562Tracer`: calls nested in their callers, with the facts that ERC-7562 restricts in the validation of a user
//! operation.

use tenon_api::{
    B256,
    messages::{AccessedSlots, TracedLog, ValidationFrame},
};

use super::{JsonWriter, tree::TreeFrame};

impl TreeFrame for ValidationFrame {
    type Form = ();

    fn depth(&self) -> u32 {
        self.depth
    }

    fn begin(&self, json: &mut JsonWriter, (): &()) {
        json.begin_object();
        json.key("type").text(self.kind.name());
        json.key("from").data(self.from);
        json.key("gas").quantity(self.gas);
        json.key("gasUsed").quantity(self.gas_used);
        if let Some(to) = self.to {
            json.key("to").data(to);
        }
        json.key("input").data(&self.input);
        if let Some(output) = &self.output {
            json.key("output").data(output);
        }
        if let Some(error) = &self.error {
            json.key("error").text(error);
        }
        if let Some(reason) = &self.revert_reason {
            json.key("revertReason").text(reason);
        }
    }

    fn logs_before_calls(&self) -> &[TracedLog] {
        &self.logs
    }

    fn before_calls(&self, json: &mut JsonWriter) {
        if let Some(value) = self.value {
            json.key("value").quantity_256(value);
        }
        write_slots(json, &self.accessed_slots);
        json.key("extCodeAccessInfo").begin_list();
        self.inspected_code.iter().for_each(|address| json.text(address));
        json.end_list();
        json.key("usedOpcodes").begin_object();
        for (opcode, count) in &self.opcodes {
            json.key(&format!("{opcode:#x}")).number(*count);
        }
        json.end_object();
        json.key("contractSize").begin_object();
        for (contract, size) in &self.contract_sizes {
            json.data_key(contract).begin_object();
            json.key("contractSize").number(size.length);
            json.key("opcode").number(size.opcode.into());
            json.end_object();
        }
        json.end_object();
        json.key("outOfGas").boolean(self.is_out_of_gas);
        if !self.hashed.is_empty() {
            json.key("keccak").begin_list();
            self.hashed.iter().for_each(|input| json.data(input));
            json.end_list();
        }
    }

    fn end(&self, json: &mut JsonWriter, (): &()) {
        json.end_object();
    }
}

fn write_slots(json: &mut JsonWriter, slots: &AccessedSlots) {
    json.key("accessedSlots").begin_object();
    json.key("reads").begin_object();
    for (slot, values) in &slots.reads {
        json.data_key(slot).begin_list();
        values.iter().for_each(|value| json.data(value));
        json.end_list();
    }
    json.end_object();
    write_counts(json, "writes", &slots.writes);
    write_counts(json, "transientReads", &slots.transient_reads);
    write_counts(json, "transientWrites", &slots.transient_writes);
    json.end_object();
}

fn write_counts(json: &mut JsonWriter, name: &str, counts: &[(B256, u64)]) {
    json.key(name).begin_object();
    for (slot, count) in counts {
        json.data_key(slot).number(*count);
    }
    json.end_object();
}

#[cfg(test)]
mod tests {
    use tenon_api::{
        Address, Bytes, U256,
        messages::{ContractSize, FrameKind, TraceReply, TraceResult, TraceResults, TracerDialect},
    };

    use super::super::tests::whole_text;
    use super::*;

    #[test]
    fn a_frame_has_all_members_in_the_order_of_the_library_that_records() {
        let slot = |byte| B256::with_last_byte(byte);
        let frame = |depth| ValidationFrame {
            depth,
            kind: FrameKind::StaticCall,
            from: Address::ZERO,
            to: Some(Address::ZERO),
            value: Some(U256::from(1)),
            gas: 2,
            gas_used: 3,
            input: Bytes::new(),
            output: Some(Bytes::new()),
            error: Some("e".to_owned()),
            revert_reason: Some("r".to_owned()),
            logs: Vec::new(),
            accessed_slots: AccessedSlots {
                reads: vec![(slot(1), vec![slot(2)])],
                writes: vec![(slot(3), 4)],
                transient_reads: vec![(slot(5), 6)],
                transient_writes: vec![(slot(7), 8)],
            },
            inspected_code: vec!["0xa".to_owned()],
            opcodes: vec![(0x5b, 9)],
            contract_sizes: vec![(Address::ZERO, ContractSize { length: 10, opcode: 11 })],
            is_out_of_gas: true,
            hashed: vec![Bytes::from_static(&[12])],
        };
        let results = TraceResults::Single(TraceResult::Validation(vec![frame(0), frame(1)]));

        let text = whole_text(TraceReply { dialect: TracerDialect::Ethereum, results });

        let (zero, zeros) = (format!("0x{}", "0".repeat(40)), "0".repeat(63));
        let members = format!(r#""type":"STATICCALL","from":"{zero}","gas":"0x2","gasUsed":"0x3","to":"{zero}","#)
            + r#""input":"0x","output":"0x","error":"e","revertReason":"r","value":"0x1","accessedSlots":{"#
            + &format!(r#""reads":{{"0x{zeros}1":["0x{zeros}2"]}},"writes":{{"0x{zeros}3":4}},"#)
            + &format!(r#""transientReads":{{"0x{zeros}5":6}},"transientWrites":{{"0x{zeros}7":8}}}},"#)
            + r#""extCodeAccessInfo":["0xa"],"usedOpcodes":{"0x5b":9},"contractSize":{"#
            + &format!(r#""{zero}":{{"contractSize":10,"opcode":11}}}},"outOfGas":true,"keccak":["0x0c"]"#);
        assert_eq!(text, format!(r#"{{{members},"calls":[{{{members}}}]}}"#));
    }
}
