//! Traces: `docs/spec/rpc-node.md` 4.2. The node makes them; this module selects their subject, reads their options,
//! and writes their results.

use std::{future::poll_fn, task::Poll};

use tenon_sdk::{
    param::ParamDescription,
    prelude::*,
    shapes::{BlockOverridesArgument, CallArguments, JsonWriter, StateOverridesArgument, TraceText, trace_options},
};

use crate::{DebugContext, base64::decode_base64};

/// The options object, with members of the right types. How it is read depends on the chain's family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TraceArgument {
    /// The object's JSON text; empty without one.
    json: String,
}

impl TraceArgument {
    /// The options.
    ///
    /// # Errors
    /// Those of [`trace_options`].
    pub(crate) async fn options(&self, context: &DebugContext) -> Result<TraceOptions, Failure> {
        if self.json.is_empty() {
            return Ok(TraceOptions::default());
        }
        trace_options(&self.json, context.call(GetChainInfo).await?.profile)
    }
}

impl Param for TraceArgument {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        check_types(&Object::decode(raw, "eth.TraceConfig")?, "TraceConfig")?;
        Ok(Self { json: raw.as_str().to_owned() })
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"object"}"#)
    }
}

/// Expected type of a member of the options.
#[derive(Clone, Copy)]
enum Expected {
    Flag,
    Text,
    Integer,
    NaturalNumber,
}

/// Members of the options: name, the reference's field, type.
const MEMBERS: [(&str, &str, Expected); 9] = [
    ("enableMemory", "LogConfig.EnableMemory", Expected::Flag),
    ("disableStack", "LogConfig.DisableStack", Expected::Flag),
    ("disableStorage", "LogConfig.DisableStorage", Expected::Flag),
    ("enableReturnData", "LogConfig.EnableReturnData", Expected::Flag),
    ("debug", "LogConfig.Debug", Expected::Flag),
    ("limit", "LogConfig.Limit", Expected::Integer),
    ("tracer", "Tracer", Expected::Text),
    ("timeout", "Timeout", Expected::Text),
    ("reexec", "Reexec", Expected::NaturalNumber),
];

/// Finds the first member of a wrong type, and returns the reference's error for it.
fn check_types(options: &Object<'_>, structure: &str) -> Result<(), ArgumentError> {
    for (name, value) in options.members().filter(|(_, value)| !value.is_null()) {
        let known = MEMBERS.iter().find(|(member, ..)| member.eq_ignore_ascii_case(name));
        let Some((_, place, expected)) = known else { continue };
        let (kind, text) = (value.kind(), value.as_str());
        let (is_right, type_name) = match expected {
            Expected::Flag => (kind == "bool", "bool"),
            Expected::Text => (kind == "string", "string"),
            Expected::Integer => (kind == "number" && text.parse::<i64>().is_ok(), "int"),
            Expected::NaturalNumber => (kind == "number" && text.parse::<u64>().is_ok(), "uint64"),
        };
        if !is_right {
            let is_number_wanted = matches!(expected, Expected::Integer | Expected::NaturalNumber);
            let shown = if kind == "number" && is_number_wanted { format!("number {text}") } else { kind.to_owned() };
            return Err(ArgumentError::text(format!(
                "json: cannot unmarshal {shown} into Go struct field {structure}.{place} of type {type_name}"
            )));
        }
    }
    Ok(())
}

/// Options of a call's trace: those of a trace, and overrides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallTraceOptions {
    trace: TraceArgument,
    state_overrides: StateOverridesArgument,
    block_overrides: BlockOverridesArgument,
    transaction_index: Option<u64>,
}

impl Param for CallTraceOptions {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let object = Object::decode(raw, "eth.TraceCallConfig")?;
        check_types(&object, "TraceCallConfig.TraceConfig")?;
        Ok(Self {
            trace: TraceArgument { json: raw.as_str().to_owned() },
            state_overrides: object.optional("stateOverrides")?.unwrap_or_default(),
            block_overrides: object.optional("blockOverrides")?.unwrap_or_default(),
            transaction_index: object.optional::<Index>("txIndex")?.map(|index| index.0),
        })
    }

    fn description() -> ParamDescription {
        TraceArgument::description()
    }
}

/// A hexadecimal text of at most this length, `0x` included, holds one byte at most, so no RLP list with an item.
const MAX_HEX_BELOW_BLOCK: usize = 4;

/// The RLP of a block: hexadecimal with `0x`, or base64 or a list of bytes, as in the reference. Base64 of a block
/// never starts with `0x`. A text of at most [`MAX_HEX_BELOW_BLOCK`] characters cannot be the hexadecimal form of a block and is
/// decoded as base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockBytes(Bytes);

impl Param for BlockBytes {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        if raw.is_null() {
            return Ok(Self(Bytes::new()));
        }
        if let Some(values) = raw.array() {
            // In the reference, `null` is the zero value of every type.
            let byte = |value: RawArgument<'_>| match value.is_null() {
                true => Ok(0),
                false => value.as_str().parse().map_err(|_| not_a_byte(value)),
            };
            return values.map(byte).collect::<Result<Vec<u8>, _>>().map(|bytes| Self(bytes.into()));
        }
        let text = raw.string().ok_or(ArgumentError::mismatch(raw.kind(), "[]uint8"))?;
        let is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
        if is_hexadecimal && text.len() > MAX_HEX_BELOW_BLOCK {
            return Bytes::decode(raw).map(Self);
        }
        let illegal = |position| ArgumentError::text(format!("illegal base64 data at input byte {position}"));
        decode_base64(text.as_bytes()).map(|bytes| Self(bytes.into())).map_err(illegal)
    }

    fn description() -> ParamDescription {
        ParamDescription::required(
            r#"{"type":["string","array","null"],"items":{"type":["integer","null"],"minimum":0,"maximum":255}}"#,
        )
    }
}

fn not_a_byte(value: RawArgument<'_>) -> ArgumentError {
    match value.kind() {
        "number" => {
            let number = value.as_str();
            ArgumentError::text(format!("json: cannot unmarshal number {number} into Go value of type uint8"))
        }
        kind => ArgumentError::mismatch(kind, "uint8"),
    }
}

pub(crate) async fn transaction(
    context: DebugContext,
    hash: B256,
    options: Option<TraceArgument>,
) -> Result<JsonWriter, Failure> {
    trace(&context, TraceTarget::Transaction(hash), options.unwrap_or_default()).await
}

pub(crate) async fn block_by_hash(
    context: DebugContext,
    hash: B256,
    options: Option<TraceArgument>,
) -> Result<JsonWriter, Failure> {
    trace(&context, TraceTarget::Block(BlockId::hash(hash)), options.unwrap_or_default()).await
}

pub(crate) async fn block_by_number(
    context: DebugContext,
    block: BlockNumberParam,
    options: Option<TraceArgument>,
) -> Result<JsonWriter, Failure> {
    trace(&context, TraceTarget::Block(block.0), options.unwrap_or_default()).await
}

pub(crate) async fn raw_block(
    context: DebugContext,
    block: BlockBytes,
    options: Option<TraceArgument>,
) -> Result<JsonWriter, Failure> {
    trace(&context, TraceTarget::RawBlock(block.0), options.unwrap_or_default()).await
}

/// Maximum length of a file with a block, in bytes: several times the longest block.
const MAX_BLOCK_FILE: u64 = 32 << 20;

/// Traces a block from a file in the folders of the node's setting `rpc.files`. The file contains the block's RLP, as
/// `admin_exportChain` writes it; blocks after the first are ignored.
pub(crate) async fn block_from_file(
    context: DebugContext,
    file: String,
    options: Option<TraceArgument>,
) -> Result<JsonWriter, Failure> {
    // Covers the buffer in which the file is unpacked, which doubles when it grows.
    let reading = context.hold(2 * MAX_BLOCK_FILE as usize)?;
    let block = context.call(ReadRequestFile { name: file, limit: MAX_BLOCK_FILE }).await?;
    drop(reading);
    let _memory = context.hold(block.len())?;
    trace(&context, TraceTarget::RawBlock(block), options.unwrap_or_default()).await
}

/// The block is required, as in the reference and go-ethereum.
pub(crate) async fn trace_call(
    context: DebugContext,
    arguments: CallArguments,
    block: BlockParam,
    options: Option<CallTraceOptions>,
) -> Result<JsonWriter, Failure> {
    let block = block.id()?;
    let options = options.unwrap_or_default();
    let target = TraceTarget::Call {
        request: Box::new(arguments.into_unchecked_request()),
        block,
        transaction_index: options.transaction_index,
        state_overrides: options.state_overrides.as_written(),
        block_overrides: Box::new(options.block_overrides.0),
    };
    trace(&context, target, options.trace).await
}

async fn trace(context: &DebugContext, target: TraceTarget, argument: TraceArgument) -> Result<JsonWriter, Failure> {
    let options = argument.options(context).await?;
    let reply = context.call(Trace { target, options }).await.or_failure()?;
    written(context, TraceText::new(reply)).await.map(|(json, _)| json)
}

/// Maximum length of an answer, bytes; below the largest frame that crosses the plugin boundary.
const MAX_ANSWER: usize = 240 << 20;

/// Writes a trace, and returns it with its memory reservation. After each piece of a long trace it reserves memory for
/// the next ones and yields, so that other calls run and the host can end a call that was cancelled or timed out.
///
/// # Errors
/// The text is too long, or there is no memory for it.
pub(crate) async fn written(context: &DebugContext, mut text: TraceText) -> Result<(JsonWriter, HeldMemory), Failure> {
    let mut memory = context.hold(0)?;
    while !text.write_some()? {
        if text.len() > MAX_ANSWER {
            return Err(Failure::limit(format!("the trace is longer than {MAX_ANSWER} bytes")));
        }
        memory.resize(growth(text.len(), text.capacity()))?;
        let mut has_yielded = false;
        poll_fn(|task| {
            if std::mem::replace(&mut has_yielded, true) {
                return Poll::Ready(());
            }
            task.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
    Ok((text.finish(), memory))
}

/// Memory to reserve for a growing text: its capacity. Beyond three quarters of it, also the next allocation of twice
/// the size, because both exist while the text is copied.
const fn growth(length: usize, capacity: usize) -> usize {
    if length > capacity / 4 * 3 { capacity.saturating_mul(3) } else { capacity }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(json: &str) -> Result<Vec<u8>, String> {
        let decoded = BlockBytes::decode(RawArgument::new(json));
        decoded.map(|bytes| bytes.0.to_vec()).map_err(|error| error.to_string())
    }

    #[test]
    fn block_bytes_come_in_hexadecimal_base64_or_as_a_list() {
        let cases = [
            (r#""0xf90102""#, vec![0xf9, 1, 2]),
            (r#""+QEC""#, vec![0xf9, 1, 2]),
            (r#""0xc0""#, vec![0xd3, 0x17, 0x34]),
            (r#""+QECAw==""#, vec![0xf9, 1, 2, 3]),
            (r#""+QECAwQ=""#, vec![0xf9, 1, 2, 3, 4]),
            ("[249, 1, 2]", vec![0xf9, 1, 2]),
            ("[192, null]", vec![0xc0, 0]),
            (r#""""#, vec![]),
            ("null", vec![]),
        ];
        for (json, expected) in cases {
            assert_eq!(bytes(json), Ok(expected), "{json}");
        }
    }

    // The positions that Go's decoder gives.
    #[test]
    fn bad_block_bytes_are_refused_at_the_position_that_go_names() {
        let cases = [
            (r#""+Q*""#, 2),
            (r#""+QEC+Q""#, 4),
            (r#""f90dcaf90""#, 8),
            (r#""0x""#, 0),
            (r#""+QE""#, 0),
            (r#""+Q==x""#, 4),
            (r#""=""#, 0),
            (r#"" +QEC""#, 0),
        ];
        for (json, position) in cases {
            assert_eq!(bytes(json), Err(format!("illegal base64 data at input byte {position}")), "{json}");
        }
        let refused = "json: cannot unmarshal number 256 into Go value of type uint8".to_owned();
        assert_eq!(bytes("[256]"), Err(refused));
    }

    #[test]
    fn options_of_a_wrong_type_are_refused_with_the_texts_of_the_reference() {
        let cases = [
            (r#"{"limit": "x"}"#, "string into Go struct field TraceConfig.LogConfig.Limit of type int"),
            (r#"{"limit": 1.5}"#, "number 1.5 into Go struct field TraceConfig.LogConfig.Limit of type int"),
            (r#"{"tracer": []}"#, "array into Go struct field TraceConfig.Tracer of type string"),
            (r#"{"DisableStack": "x"}"#, "string into Go struct field TraceConfig.LogConfig.DisableStack of type bool"),
            (r#"{"tracer": 1}"#, "number into Go struct field TraceConfig.Tracer of type string"),
            (r#"[]"#, "array into Go value of type eth.TraceConfig"),
        ];
        for (json, expected) in cases {
            let refused = TraceArgument::decode(RawArgument::new(json)).err().map(|error| error.to_string());
            assert_eq!(refused, Some(format!("json: cannot unmarshal {expected}")), "{json}");
        }
        let refused = CallTraceOptions::decode(RawArgument::new(r#"{"tracer": true}"#)).err();
        let text = "json: cannot unmarshal bool into Go struct field TraceCallConfig.TraceConfig.Tracer of type string";
        assert_eq!(refused.map(|error| error.to_string()), Some(text.to_owned()));
    }
}
