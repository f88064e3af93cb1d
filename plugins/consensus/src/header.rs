//! A header as an argument (`docs/spec/rpc-node.md` 2.4, 4.3).

use base64::{
    DecodeError, Engine as _, alphabet,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use tenon_sdk::{
    api::primitives::Bloom,
    param::{Object, ParamDescription},
    prelude::*,
};

/// Base64 as Go's JSON decoder reads it: padding is required, unused bits of the last character may be set.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// A header of a native chain. Every member except the base fee is required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeaderArgument(pub(crate) Box<Header>);

impl Param for HeaderArgument {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let object = Object::decode(raw, "types.Header")?;
        let header = Header {
            parent_hash: object.required("parentHash")?,
            ommers_hash: object.required("sha3Uncles")?,
            beneficiary: object.required("miner")?,
            state_root: object.required("stateRoot")?,
            transactions_root: object.required("transactionsRoot")?,
            receipts_root: object.required("receiptsRoot")?,
            logs_bloom: object.required::<BloomText>("logsBloom")?.0,
            difficulty: object.required("difficulty")?,
            number: object.required::<BigNumber>("number")?.0,
            gas_limit: object.required::<Quantity>("gasLimit")?.0,
            gas_used: object.required::<Quantity>("gasUsed")?.0,
            timestamp: object.required::<BigNumber>("timestamp")?.0,
            extra_data: object.required("extraData")?,
            mix_hash: object.required("mixHash")?,
            nonce: object.required("nonce")?,
            native_seal: Some(NativeSeal {
                validators: object.required::<Base64>("validators")?.0,
                validator: object.required::<Base64>("validator")?.0,
                penalties: object.required::<Base64>("penalties")?.0,
            }),
            base_fee_per_gas: object.optional::<BigNumber>("baseFeePerGas")?.map(|fee| fee.0),
            ..Header::default()
        };
        Ok(Self(Box::new(header)))
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"object"}"#)
    }
}

/// The error for a header without any member.
pub(crate) fn missing_header_members() -> Failure {
    Failure::invalid_argument(0, "missing required field 'parentHash' for Header")
}

/// A number that the reference reads with up to 256 bits. Values above 64 bits are refused: no header has them.
struct BigNumber(u64);

impl Param for BigNumber {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let above = |_| ArgumentError::text("hex number > 64 bits");
        U256::decode(raw)?.try_into().map(Self).map_err(above)
    }
}

struct BloomText(Bloom);

impl Param for BloomText {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let bytes = Bytes::decode(raw)?;
        let length = |_| ArgumentError::text(format!("hex string has length {}, want 512 for Bloom", 2 * bytes.len()));
        Bloom::try_from(&bytes[..]).map(Self).map_err(length)
    }
}

/// Bytes as in Go's JSON: base64, or a list of numbers.
struct Base64(Bytes);

impl Param for Base64 {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        if let Some(mut values) = raw.array() {
            let byte = |value: RawArgument<'_>| {
                value.as_str().parse::<u8>().map_err(|_| ArgumentError::mismatch(value.kind(), "uint8"))
            };
            let bytes: Vec<u8> = values.by_ref().map(byte).collect::<Result<_, _>>()?;
            return Ok(Self(bytes.into()));
        }
        let text = raw.string().ok_or(ArgumentError::mismatch(raw.kind(), "[]uint8"))?;
        let characters: Vec<u8> = text.bytes().filter(|character| !matches!(character, b'\r' | b'\n')).collect();
        let position = |error| match error {
            DecodeError::InvalidByte(position, _) | DecodeError::InvalidLastSymbol(position, _) => position,
            DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => characters.len(),
        };
        let bytes = BASE64.decode(&characters);
        let bytes = bytes
            .map_err(|error| ArgumentError::text(format!("illegal base64 data at input byte {}", position(error))))?;
        Ok(Self(bytes.into()))
    }
}
