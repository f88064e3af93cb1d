//! Arguments of the `eth` namespace beyond the SDK's parameters.

use tenon_plugin_eth::fuzzing::{Read, malformed_transaction, read_argument};

/// A kind by its number, then text; the seventh kind is the bytes of a transaction.
pub(crate) fn arguments(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let kind = kind % 7;
    if kind == 6 {
        return transaction(rest);
    }
    let Ok(text) = std::str::from_utf8(rest) else { return };
    // The envelope accepts no other arguments; the last two are the inside of a string.
    if kind < 4 && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return;
    }
    match read_argument(kind, text) {
        Read::Taken => {}
        Read::Key(strict, lenient) => {
            let is_native = text.get(..3).is_some_and(|prefix| prefix.eq_ignore_ascii_case("xdc"));
            assert!(is_native || strict.is_none_or(|strict| strict == lenient), "{text:?}");
        }
        Read::Filter(name) => assert_eq!(read_argument(kind, &name), Read::Filter(name.clone()), "{text:?}"),
        Read::Refused(words) => assert!(!words.is_empty()),
    }
}

/// The pool's decoder refuses everything that Go's decoder refuses. (It supports types that native chains lack.)
fn transaction(raw: &[u8]) {
    if malformed_transaction(raw).is_some() && !matches!(raw, [3 | 4, ..]) {
        assert!(tenon_chain::decode_transaction(raw).is_err());
    }
}

/// Some of every kind.
pub(crate) fn examples(transactions: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let texts = [
        (
            0,
            r#"{"fromBlock":"0x1","toBlock":"latest","address":["0x1111111111111111111111111111111111111111"],"topics":[null,["0x2222222222222222222222222222222222222222222222222222222222222222"]]}"#,
        ),
        (
            0,
            r#"{"blockHash":"0x2222222222222222222222222222222222222222222222222222222222222222","address":"xdc1111111111111111111111111111111111111111"}"#,
        ),
        (1, "\"0x10\""),
        (1, "12"),
        (2, "[0, 25.5, 100]"),
        (3, r#"{"etherbase":"0x1111111111111111111111111111111111111111"}"#),
        (4, "0x12"),
        (4, "xdc0102"),
        (5, "0x9f"),
    ];
    let texts = texts.iter().map(|(kind, text)| [&[*kind], text.as_bytes()].concat());
    texts.chain(transactions.iter().take(40).map(|raw| [&[6], raw.as_slice()].concat())).collect()
}
