//! Traces: `spec/rpc-node.md` 4.2. The node makes them; this module only says of what.

use tenon_sdk::{
    param::ParamDescription,
    prelude::*,
    shapes::{BlockOverridesArgument, CallArguments, JsonWriter, StateOverridesArgument},
};

use crate::DebugContext;

/// The options object as it stands: the node reads it, because tracers have options of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceOptions {
    json: String,
}

impl TraceOptions {
    fn text(options: Option<Self>) -> String {
        options.map_or_else(|| "{}".to_owned(), |options| options.json)
    }
}

impl Param for TraceOptions {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        // Says now what is no object; what is in it is the node's to judge.
        Object::decode(raw, "tracers.TraceConfig")?;
        Ok(Self { json: raw.as_str().to_owned() })
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"object"}"#)
    }
}

/// Options of a call's trace: those of a trace, and what to pretend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallTraceOptions {
    json: String,
    state_overrides: StateOverridesArgument,
    block_overrides: BlockOverridesArgument,
    transaction_index: Option<u64>,
}

impl Param for CallTraceOptions {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let object = Object::decode(raw, "tracers.TraceCallConfig")?;
        Ok(Self {
            json: raw.as_str().to_owned(),
            state_overrides: object.optional("stateOverrides")?.unwrap_or_default(),
            block_overrides: object.optional("blockOverrides")?.unwrap_or_default(),
            transaction_index: object.optional::<Index>("txIndex")?.map(|index| index.0),
        })
    }

    fn description() -> ParamDescription {
        TraceOptions::description()
    }
}

/// The RLP of a block: hexadecimal with `0x`, or base64 as the reference takes it. The base64 of a list never
/// begins with `0x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockBytes(Bytes);

impl Param for BlockBytes {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let text = raw.string().ok_or(ArgumentError::mismatch(raw.kind(), "[]uint8"))?;
        if text.starts_with("0x") || text.starts_with("0X") {
            return Bytes::decode(raw).map(Self);
        }
        decode_base64(&text).map(|bytes| Self(bytes.into())).map_err(ArgumentError::text)
    }
}

/// Standard alphabet, padding optional.
fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut collected, mut bits) = (0_u32, 0);
    for (position, digit) in digits.iter().enumerate() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(format!("illegal base64 data at input byte {position}")),
        };
        collected = (collected << 6 | u32::from(value)) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((collected >> bits & 0xff) as u8);
        }
    }
    Ok(bytes)
}

pub(crate) async fn transaction(
    context: DebugContext,
    hash: B256,
    options: Option<TraceOptions>,
) -> Result<JsonWriter, Failure> {
    trace(&context, TraceTarget::Transaction(hash), TraceOptions::text(options)).await
}

pub(crate) async fn block_by_hash(
    context: DebugContext,
    hash: B256,
    options: Option<TraceOptions>,
) -> Result<JsonWriter, Failure> {
    trace(&context, TraceTarget::Block(BlockId::hash(hash)), TraceOptions::text(options)).await
}

pub(crate) async fn block_by_number(
    context: DebugContext,
    block: BlockNumberParam,
    options: Option<TraceOptions>,
) -> Result<JsonWriter, Failure> {
    trace(&context, TraceTarget::Block(block.0), TraceOptions::text(options)).await
}

pub(crate) async fn raw_block(
    context: DebugContext,
    block: BlockBytes,
    options: Option<TraceOptions>,
) -> Result<JsonWriter, Failure> {
    trace(&context, TraceTarget::RawBlock(block.0), TraceOptions::text(options)).await
}

/// The seed demands the block; go-ethereum too. Left out it is the head, as for `eth_call`.
pub(crate) async fn call(
    context: DebugContext,
    arguments: CallArguments,
    block: Option<BlockParam>,
    options: Option<CallTraceOptions>,
) -> Result<JsonWriter, Failure> {
    let block = block.map_or(Ok(BlockId::LATEST), BlockParam::id)?;
    if block == BlockId::Tag(BlockTag::Pending) {
        return Err(Failure::server("tracing on top of pending is not supported"));
    }
    let options = options.unwrap_or_else(|| CallTraceOptions { json: "{}".to_owned(), ..Default::default() });
    let target = TraceTarget::Call {
        request: Box::new(arguments.into_request()?),
        block,
        transaction_index: options.transaction_index,
        state_overrides: options.state_overrides.into_overrides()?,
        block_overrides: Box::new(options.block_overrides.0),
    };
    trace(&context, target, options.json).await
}

async fn trace(context: &DebugContext, target: TraceTarget, options: String) -> Result<JsonWriter, Failure> {
    let reply = context.call(Trace { target, options }).await?;
    Ok(JsonWriter::from_json(reply.json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_bytes_come_in_hexadecimal_or_base64() {
        let decode = |json: &str| BlockBytes::decode(RawArgument::new(json)).map(|bytes| bytes.0.to_vec());

        assert_eq!(decode(r#""0xf90102""#), Ok(vec![0xf9, 1, 2]));
        assert_eq!(decode(r#""+QEC""#), Ok(vec![0xf9, 1, 2]));
        assert_eq!(decode(r#""+QECAw==""#), Ok(vec![0xf9, 1, 2, 3]));
        let refused = decode(r#""+Q*""#).map_err(|error| error.to_string());
        assert_eq!(refused, Err("illegal base64 data at input byte 2".to_owned()));
    }
}
