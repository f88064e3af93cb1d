//! Parameters of methods: decoding JSON text into typed values.

use alloy_primitives::{Address, B64, B256, Bytes, U256};
use serde::de::IgnoredAny;
use tenon_sdk::shapes::{BlockOverridesArgument, CallArguments, StateOverridesArgument};
use tenon_sdk::{ArgumentError, BlockNumberParam, BlockParam, Index, Json, Number, Param, Quantity, RawArgument};

type Decode = fn(RawArgument<'_>) -> Result<(), ArgumentError>;

fn decode<T: Param>(raw: RawArgument<'_>) -> Result<(), ArgumentError> {
    T::decode(raw).map(drop)
}

/// Every kind of parameter in the SDK, and those of its shapes.
const KINDS: [Decode; 20] = [
    decode::<Address>,
    decode::<B64>,
    decode::<B256>,
    decode::<Bytes>,
    decode::<U256>,
    decode::<Quantity>,
    decode::<Index>,
    decode::<Number>,
    decode::<bool>,
    decode::<String>,
    decode::<Vec<f64>>,
    decode::<Vec<Address>>,
    decode::<Vec<B256>>,
    decode::<Vec<Bytes>>,
    decode::<BlockParam>,
    decode::<BlockNumberParam>,
    decode::<CallArguments>,
    decode::<StateOverridesArgument>,
    decode::<BlockOverridesArgument>,
    decode::<Json<serde_json::Value>>,
];

/// A kind of parameter by its number, then JSON text; the envelope accepts nothing else.
pub(crate) fn values(input: &[u8]) {
    let Some((kind, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return;
    }
    let raw = RawArgument::new(text);
    if let Err(error) = KINDS[usize::from(*kind) % KINDS.len()](raw) {
        assert!(!error.to_string().is_empty());
    }
    let count = raw.array().map(Iterator::count);
    let counted = serde_json::from_str::<Vec<IgnoredAny>>(text).ok().map(|values| values.len());
    assert_eq!(count, counted, "the values of an array are split where they end");
    for kind in KINDS {
        let _ = kind(raw);
    }
}

/// The inside of a JSON string: accepted and refused hexadecimal values.
pub(crate) fn hex_values(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let quoted = format!("\"{text}\"");
    let raw = RawArgument::new(&quoted);
    if raw.quoted() != Some(text) {
        return;
    }
    let data = data_of(text);
    let taken = [
        (20, Address::decode(raw).ok().map(|value| value.to_vec())),
        (32, B256::decode(raw).ok().map(|value| value.to_vec())),
    ];
    for (length, value) in taken {
        assert_eq!(value, data.clone().filter(|data| data.len() == length), "{text}");
    }
    if let Ok(bytes) = Bytes::decode(raw) {
        assert_eq!(Some(bytes.to_vec()), data, "{text}");
    }
    let number = U256::decode(raw);
    if let Ok(number) = number
        && !text.is_empty()
    {
        assert_eq!(format!("{number:#x}"), text.to_lowercase(), "a quantity is minimal");
    }
    if let Ok(small) = Quantity::decode(raw) {
        assert_eq!(number.ok(), Some(U256::from(small.0)), "{text}");
        assert_eq!(Index::decode(raw).ok().map(|index| index.0), Some(small.0));
    }
}

/// The bytes of the text, decoded by other means: `0x` or `xdc`, then two digits per byte.
fn data_of(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let lower = text.to_ascii_lowercase();
    let digits = lower.strip_prefix("0x").or_else(|| lower.strip_prefix("xdc"))?;
    hex::decode(digits).ok()
}
