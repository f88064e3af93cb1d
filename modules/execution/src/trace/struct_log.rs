//! The struct logger's result in go-ethereum's form: everything with `0x`, absent instead of empty or zero.

use std::fmt::Write;

use alloy_rpc_types_trace::geth::{DefaultFrame, StructLog};

/// The JSON text of a struct-logger result.
pub(super) fn struct_log_json(frame: &DefaultFrame) -> String {
    // A step without memory takes some 150 bytes.
    let mut json = String::with_capacity(128 + frame.struct_logs.len() * 160);
    // A failed run has no return value unless it reverted, and then the data of the revert.
    append(&mut json, format_args!("{{\"gas\":{},\"failed\":{}", frame.gas, frame.failed));
    append(&mut json, format_args!(",\"returnValue\":\"{}\",\"structLogs\":[", frame.return_value));
    for (index, step) in frame.struct_logs.iter().enumerate() {
        if index > 0 {
            json.push(',');
        }
        append_step(&mut json, step);
    }
    json.push_str("]}");
    json
}

fn append_step(json: &mut String, step: &StructLog) {
    append(json, format_args!("{{\"pc\":{},\"op\":\"{}\"", step.pc, step.op));
    append(json, format_args!(",\"gas\":{},\"gasCost\":{},\"depth\":{}", step.gas, step.gas_cost, step.depth));
    if let Some(refund) = step.refund_counter.filter(|refund| *refund > 0) {
        append(json, format_args!(",\"refund\":{refund}"));
    }
    if let Some(error) = &step.error {
        append(json, format_args!(",\"error\":{}", serde_json::Value::from(error.as_str())));
    }
    if let Some(stack) = &step.stack {
        append_list(json, "stack", stack.iter().map(|item| format!("{item:#x}")));
    }
    if let Some(data) = step.return_data.as_ref().filter(|data| !data.is_empty()) {
        append(json, format_args!(",\"returnData\":\"{data}\""));
    }
    if let Some(memory) = step.memory.as_ref().filter(|memory| !memory.is_empty()) {
        let word = |word: &String| format!("0x{}", word.trim_start_matches("0x"));
        append_list(json, "memory", memory.iter().map(word));
    }
    if let Some(storage) = step.storage.as_ref().filter(|storage| !storage.is_empty()) {
        json.push_str(",\"storage\":{");
        for (index, (slot, value)) in storage.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            append(json, format_args!("{comma}\"{slot}\":\"{value}\""));
        }
        json.push('}');
    }
    json.push('}');
}

fn append_list(json: &mut String, name: &str, items: impl Iterator<Item = String>) {
    append(json, format_args!(",\"{name}\":["));
    for (index, item) in items.enumerate() {
        let comma = if index > 0 { "," } else { "" };
        append(json, format_args!("{comma}\"{item}\""));
    }
    json.push(']');
}

fn append(json: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = json.write_fmt(text);
}
