//! Error texts of `docs/spec/rpc-eth.md` 4 and `docs/spec/rpc-node.md` 1.2.

use alloy_primitives::{Address, B64, B256, Bytes, U256};
use proptest::prelude::*;
use tenon_api::{BlockId, BlockTag};

use super::*;
use crate::output::to_json;

fn decode<T: Param>(text: &str) -> Result<T, String> {
    T::decode(RawArgument::new(text)).map_err(|error| error.to_string())
}

/// Checks the error of a type's decoder for each text.
fn check_words<T: Param + fmt::Debug>(cases: &[(&str, &str)]) {
    for (text, words) in cases {
        assert_eq!(decode::<T>(text).expect_err(text), *words, "{text}");
    }
}

#[test]
fn addresses_take_both_prefixes_and_any_case() {
    let digits = "00000000000000000000000000000000deadBEEF";
    let expected = Address::left_padding_from(&[0xde, 0xad, 0xbe, 0xef]);
    for prefix in ["0x", "0X", "xdc", "XDC", "xDc"] {
        assert_eq!(decode(&format!("\"{prefix}{digits}\"")), Ok(expected), "{prefix}");
    }
}

#[test]
fn addresses_and_hashes_are_refused_with_the_texts_of_the_reference() {
    let into = "into Go value of type common.Address";
    check_words::<Address>(&[
        ("\"deadbeef\"", &format!("json: cannot unmarshal hex string without 0x prefix {into}")),
        ("\"0xabc\"", &format!("json: cannot unmarshal hex string of odd length {into}")),
        (&format!("\"0x{}\"", "z".repeat(40)), &format!("json: cannot unmarshal invalid hex string {into}")),
        ("\"0xab\"", "hex string has length 2, want 40 for common.Address"),
        ("\"\"", "hex string has length 0, want 40 for common.Address"),
        ("null", &format!("json: cannot unmarshal non-string {into}")),
        ("1", &format!("json: cannot unmarshal non-string {into}")),
    ]);
    check_words::<B256>(&[
        ("\"0xab\"", "hex string has length 2, want 64 for common.Hash"),
        ("true", "json: cannot unmarshal non-string into Go value of type common.Hash"),
    ]);
}

#[test]
fn data_takes_an_empty_string_and_whole_bytes() {
    assert_eq!(decode("\"\""), Ok(Bytes::new()));
    assert_eq!(decode("\"0x\""), Ok(Bytes::new()));
    assert_eq!(decode("\"xdc00Ff\""), Ok(Bytes::from_static(&[0, 0xff])));
    let into = "into Go value of type hexutil.Bytes";
    check_words::<Bytes>(&[
        ("\"00\"", &format!("json: cannot unmarshal hex string without 0x prefix {into}")),
        ("\"0x0\"", &format!("json: cannot unmarshal hex string of odd length {into}")),
        ("\"0xzz\"", &format!("json: cannot unmarshal invalid hex string {into}")),
        ("null", &format!("json: cannot unmarshal non-string {into}")),
    ]);
}

#[test]
fn quantities_are_minimal_and_bounded() {
    assert_eq!(decode("\"0x0\""), Ok(Quantity(0)));
    assert_eq!(decode("\"\""), Ok(Quantity(0)));
    assert_eq!(decode("\"0XfF\""), Ok(Quantity(255)));
    assert_eq!(decode(&format!("\"0x{}\"", "f".repeat(64))), Ok(U256::MAX));
    let into = "into Go value of type hexutil.Uint64";
    check_words::<Quantity>(&[
        ("\"xdc1\"", &format!("json: cannot unmarshal hex string without 0x prefix {into}")),
        ("\"0x\"", &format!("json: cannot unmarshal hex string \"0x\" {into}")),
        ("\"0x01\"", &format!("json: cannot unmarshal hex number with leading zero digits {into}")),
        ("\"0x10000000000000000\"", &format!("json: cannot unmarshal hex number > 64 bits {into}")),
        ("\"0xg\"", &format!("json: cannot unmarshal invalid hex string {into}")),
        ("\"0x+1\"", &format!("json: cannot unmarshal invalid hex string {into}")),
        ("1", &format!("json: cannot unmarshal non-string {into}")),
    ]);
    check_words::<Index>(&[("1", "json: cannot unmarshal non-string into Go value of type hexutil.Uint")]);
    check_words::<U256>(&[(
        &format!("\"0x1{}\"", "0".repeat(64)),
        "json: cannot unmarshal hex number > 256 bits into Go value of type *hexutil.Big",
    )]);
    check_words::<B64>(&[("\"0xab\"", "hex string has length 2, want 16 for BlockNonce")]);
}

#[test]
fn blocks_by_number_or_tag() {
    for (text, tag) in [
        ("latest", BlockTag::Latest),
        ("earliest", BlockTag::Earliest),
        ("pending", BlockTag::Pending),
        ("finalized", BlockTag::Finalized),
        ("committed", BlockTag::Finalized),
        ("safe", BlockTag::Safe),
    ] {
        assert_eq!(decode(&format!("\"{text}\"")), Ok(BlockNumberParam(BlockId::Tag(tag))), "{text}");
        assert_eq!(decode(&format!("\"{text}\"")), Ok(BlockParam::named(Some(BlockId::Tag(tag)))), "{text}");
    }
    assert_eq!(decode("\"0x10\""), Ok(BlockNumberParam(BlockId::number(16))));
    let no_prefix = "hex string without 0x prefix";
    check_words::<BlockNumberParam>(&[
        ("\"Latest\"", no_prefix),
        ("\"12\"", no_prefix),
        ("12", no_prefix),
        ("latest", no_prefix),
        ("{}", no_prefix),
        ("null", no_prefix),
        ("\"\"", "empty hex string"),
        ("\"0x010\"", "hex number with leading zero digits"),
        ("\"0x10000000000000000\"", "hex number > 64 bits"),
        ("\"0x8000000000000000\"", "block number larger than int64"),
    ]);
}

#[test]
fn blocks_by_number_or_hash() {
    let hash = B256::repeat_byte(0xab);
    let by_hash =
        |require_canonical| Ok(BlockParam { block: Some(BlockId::Hash { hash, require_canonical }), is_object: true });
    assert_eq!(decode(&format!("\"{hash}\"")), Ok(BlockParam::named(Some(BlockId::hash(hash)))));
    assert_eq!(decode(&format!("{{\"blockHash\":\"{hash}\"}}")), by_hash(false));
    assert_eq!(decode(&format!("{{ \"BLOCKHASH\" : \"{hash}\" , \"requireCanonical\":true}}")), by_hash(true));
    let in_xdc = hash.to_string().replace("0x", "xdc");
    assert_eq!(decode(&format!("{{\"blockHash\":\"{in_xdc}\"}}")), by_hash(false));
    assert_eq!(
        decode("{\"blockNumber\":\"0x1\"}"),
        Ok(BlockParam { block: Some(BlockId::number(1)), is_object: true })
    );
    assert_eq!(decode("{}"), Ok(BlockParam { block: None, is_object: true }));
    assert_eq!(decode("null"), Ok(BlockParam::named(None)));
    assert_eq!(
        BlockParam::named(None).id().unwrap_err().message,
        "invalid arguments; neither block nor hash specified"
    );
    check_words::<BlockParam>(&[
        (
            &format!("{{\"blockNumber\":\"0x1\",\"blockHash\":\"{hash}\"}}"),
            "cannot specify both BlockHash and BlockNumber, choose one or the other",
        ),
        ("{\"blockHash\":1}", "json: cannot unmarshal object into Go value of type string"),
        ("1", "json: cannot unmarshal number into Go value of type string"),
        ("true", "json: cannot unmarshal bool into Go value of type string"),
        ("[]", "json: cannot unmarshal array into Go value of type string"),
        ("\"0x8000000000000000\"", "blocknumber too high"),
        (&format!("\"{in_xdc}\""), "hex string without 0x prefix"),
    ]);
}

#[test]
fn epochs_by_number() {
    assert_eq!(decode("\"latest\""), Ok(EpochParam(None)));
    assert_eq!(decode("\"0xb\""), Ok(EpochParam(Some(11))));
    check_words::<EpochParam>(&[
        ("\"finalized\"", "hex string without 0x prefix"),
        ("11", "hex string without 0x prefix"),
        ("\"\"", "empty hex string"),
        ("\"0x0b\"", "hex number with leading zero digits"),
        ("\"0x8000000000000000\"", "EpochNumber too high"),
    ]);
}

#[test]
fn plain_values() {
    assert_eq!(decode("null"), Ok(false));
    assert_eq!(decode("\"a\\u0062\""), Ok("ab".to_owned()));
    assert_eq!(decode("null"), Ok(String::new()));
    assert_eq!(decode("[1, 2.5,1e2]"), Ok(vec![1.0, 2.5, 100.0]));
    assert_eq!(decode("7"), Ok(Number(7)));
    assert_eq!(decode("{\"a\":1}"), Ok(Json(serde_json::json!({"a": 1}))));
    check_words::<bool>(&[("\"x\"", "json: cannot unmarshal string into Go value of type bool")]);
    check_words::<String>(&[("1", "json: cannot unmarshal number into Go value of type string")]);
    check_words::<Number>(&[
        ("\"1\"", "json: cannot unmarshal string into Go value of type uint64"),
        ("1.5", "json: cannot unmarshal number 1.5 into Go value of type uint64"),
    ]);
    check_words::<Vec<f64>>(&[("[true]", "json: cannot unmarshal bool into Go value of type float64")]);
}

#[test]
fn members_are_found_in_any_case_and_named_in_errors() {
    let text = RawArgument::new(r#"{"FROM":"0xabc","value":null,"to":{"a":[1,"}"]},"unknown":1}"#);
    let object = Object::decode(text, "ethapi.TransactionArgs").unwrap();

    assert_eq!(
        object.optional::<Address>("from").unwrap_err().to_string(),
        "json: cannot unmarshal hex string of odd length into Go struct field TransactionArgs.from of type common.Address"
    );
    assert_eq!(object.optional::<U256>("value"), Ok(None));
    assert_eq!(object.raw("to").unwrap().as_str(), r#"{"a":[1,"}"]}"#);
    assert_eq!(
        object.required::<Address>("address").unwrap_err().to_string(),
        "missing required field 'address' for TransactionArgs"
    );
    assert_eq!(
        Object::decode(RawArgument::new("\"x\""), "ethapi.TransactionArgs").unwrap_err().to_string(),
        "json: cannot unmarshal string into Go value of type ethapi.TransactionArgs"
    );
}

fn two_arguments(params: &str) -> Result<(Quantity, Option<bool>), String> {
    let decode = || {
        let mut arguments = Arguments::new(params.as_bytes(), 2)?;
        let values = (arguments.next()?, arguments.next()?);
        arguments.finish()?;
        Ok(values)
    };
    decode().map_err(|failure: Failure| failure.message)
}

#[test]
fn arguments_are_counted_as_the_reference_counts() {
    let cases = [
        ("[\"0x1\"]", Ok((Quantity(1), None))),
        (" [ \"0x1\" , null ] ", Ok((Quantity(1), None))),
        ("[\"0x1\",true]", Ok((Quantity(1), Some(true)))),
        ("", Err("missing value for required argument 0")),
        ("null", Err("missing value for required argument 0")),
        ("[]", Err("missing value for required argument 0")),
        ("[\"0x1\",true,3]", Err("too many arguments, want at most 2")),
        ("[\"0x1\",3]", Err("invalid argument 1: json: cannot unmarshal number into Go value of type bool")),
        ("{}", Err("non-array args")),
        ("\"x\"", Err("non-array args")),
        ("[\"0x1\"", Err("parse error")),
    ];
    for (params, expected) in cases {
        assert_eq!(two_arguments(params), expected.map_err(str::to_owned), "{params}");
    }
}

/// Types whose names must not reach clients.
#[derive(Debug, serde::Deserialize)]
#[allow(dead_code, reason = "only errors are compared")]
struct Options {
    depth: Option<Unit>,
    range: Option<Pair>,
    order: Option<Order>,
    either: Option<Either>,
    names: Option<Vec<String>>,
}
#[derive(Debug, serde::Deserialize)]
struct Unit;
#[derive(Debug, serde::Deserialize)]
#[allow(dead_code, reason = "only errors are compared")]
struct Pair(u8, u8);
#[derive(Debug, serde::Deserialize)]
#[serde(untagged)]
#[allow(dead_code, reason = "only errors are compared")]
enum Either {
    Text(String),
    Switch(bool),
}
#[derive(Debug, serde::Deserialize)]
enum Order {
    Ascending,
    #[allow(dead_code, reason = "only errors are compared")]
    By {
        key: u8,
    },
}

#[test]
fn errors_about_objects_name_no_types_of_the_program() {
    check_words::<Json<Options>>(&[
        ("\"x\"", "json: invalid type: string \"x\", expected an object at line 1 column 3"),
        ("{\"depth\":1}", "json: invalid type: integer `1`, expected null at line 1 column 10"),
        ("{\"range\":1}", "json: invalid type: integer `1`, expected an array at line 1 column 10"),
        (
            "{\"range\":[1,-2]}",
            "json: invalid value: integer `-2`, expected a whole number from 0 to 255 at line 1 column 14",
        ),
        ("{\"names\":1}", "json: invalid type: integer `1`, expected an array at line 1 column 10"),
        ("{\"range\":[1]}", "json: invalid length 1, expected an array with 2 elements at line 1 column 12"),
        ("{\"order\":{\"By\":1}}", "json: invalid type: integer `1`, expected an object at line 1 column 16"),
        ("{\"either\":1}", "json: the value has none of the possible forms at line 1 column 12"),
        ("{", "json: EOF while parsing an object at line 1 column 1"),
    ]);
    let long = decode::<Json<Options>>(&format!("{:?}", "x".repeat(1 << 20))).unwrap_err();
    let beginning = "x".repeat(200 - "invalid type: string \"".len());
    let place = "line 1 column 1048578";
    assert_eq!(long, format!("json: invalid type: string \"{beginning}…, expected an object at {place}"));
}

proptest! {
    #[test]
    fn quantities_survive_a_round_trip(number: u64) {
        let json = String::from_utf8(to_json(&Quantity(number)).unwrap()).unwrap();
        prop_assert_eq!(decode(&json), Ok(Quantity(number)));
    }

    #[test]
    fn data_survives_a_round_trip(bytes: Vec<u8>) {
        let json = String::from_utf8(to_json(&crate::Data::from(bytes.clone())).unwrap()).unwrap();
        prop_assert_eq!(decode(&json), Ok(Bytes::from(bytes)));
    }

    #[test]
    fn no_text_makes_a_decoder_panic(text in ".{0,60}|[\\[\\]{}\",:\\\\0x]{0,40}") {
        let _ = two_arguments(&text);
        let raw = RawArgument::new(&text);
        let _ = (Address::decode(raw), Bytes::decode(raw), U256::decode(raw), String::decode(raw));
        let _ = (BlockNumberParam::decode(raw), BlockParam::decode(raw), Vec::<f64>::decode(raw));
        let _ = Object::decode(raw, "x.Y").map(|object| object.members().count());
    }
}
