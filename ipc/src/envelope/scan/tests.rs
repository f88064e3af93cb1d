//! Tests of the scanner.

use super::*;

fn scan(text: &str) -> Progress {
    Scanner::new(100).advance(text.as_bytes())
}

fn message(text: &str) -> RawMessage {
    match scan(text) {
        Progress::Complete(message) => message,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn finds_the_members_in_any_case_and_order() {
    let text = r#" {"PARAMS":[{"id":9,"method":"x"}],"m\u0065thod":"a_b","Id": 1.5e3 ,"jsonrpc":2} tail"#;

    let request = message(text).single;

    assert_eq!(request.id.unwrap().of(text), "1.5e3");
    assert_eq!(request.method.unwrap().of(text), r#""a_b""#);
    assert_eq!(request.params.unwrap().of(text), r#"[{"id":9,"method":"x"}]"#);
    assert!(!request.has_outcome);
}

#[test]
fn finds_the_same_members_wherever_the_input_is_cut_and_however_their_names_are_written() {
    let usual = r#" {"jsonrpc":"2.0","id":1.5e3,"method":"a_\"b","params":[{"id":2,"method":"x"}],"error":null}"#;
    let same = [
        usual.to_owned(),
        usual.replace(r#""method":"a"#, r#""mETHod":"a"#).replace(r#""params""#, r#""PARAMS""#),
        // The same length as the text with its escape.
        usual.replace(r#""jsonrpc":"#, r#""\u006ac":"#),
    ];
    let expected = message(usual);
    assert_eq!(expected.single.id.unwrap().of(usual), "1.5e3");
    for text in same {
        for cut in 0..text.len() {
            let mut scanner = Scanner::new(1);
            assert_eq!(scanner.advance(&text.as_bytes()[..cut]), Progress::More, "{text} cut at {cut}");
            assert_eq!(scanner.advance(text.as_bytes()), Progress::Complete(expected.clone()), "{text} cut at {cut}");
        }
    }
}

#[test]
fn compact_requests_are_read_as_spaced_ones_and_wherever_they_are_cut() {
    let members = |text: &str, request: &RawRequest| {
        let of = |span: Option<Span>| span.map(|span| span.of(text).to_owned());
        (of(request.id), of(request.method), of(request.params), request.method_has_escapes, request.has_outcome)
    };
    let params =
        [r#"["0x1","latest"]"#, r#"["a",{"b":["c","d"]},"e\n","f"]"#, "[]", r#""text""#, "7", r#"[["a","b"],1,"c"]"#];
    for (params, id) in
        params.iter().flat_map(|params| ["1", "0", "90", r#""x""#, r#""\n""#, "-1", "1.5"].map(|id| (params, id)))
    {
        for method in ["eth_call", r"eth\u005fcall"] {
            let compact = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
            let spaced =
                format!(r#"{{ "jsonrpc" : "2.0" , "id" : {id} , "method" : "{method}" , "params" : {params} }}"#);
            let expected = members(&spaced, &message(&spaced).single);
            let batch = format!("[{compact},{compact}]");
            for text in [&compact, &batch] {
                let whole = message(text);
                let requests = if whole.is_batch { &whole.items[..] } else { std::slice::from_ref(&whole.single) };
                assert!(requests.iter().all(|request| members(text, request) == expected), "{text}");
                for cut in 0..text.len() {
                    let mut scanner = Scanner::new(2);
                    assert_eq!(scanner.advance(&text.as_bytes()[..cut]), Progress::More, "{text} cut at {cut}");
                    assert_eq!(
                        scanner.advance(text.as_bytes()),
                        Progress::Complete(whole.clone()),
                        "{text} cut at {cut}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_last_of_repeated_members_counts_but_only_strings_are_methods() {
    let text = r#"{"id":1,"method":"a","method":5,"id":"2","error":null}"#;

    let request = message(text).single;

    assert_eq!(request.id.unwrap().of(text), r#""2""#);
    assert_eq!(request.method.unwrap().of(text), r#""a""#);
    assert!(!request.has_outcome);
}

#[test]
fn ends_where_the_value_ends() {
    for (text, end) in [("{}{}", 2), ("[1] 2", 3), (" null,", 5), ("\"a\"b", 3), ("12 3", 2), ("1]", 1)] {
        assert_eq!(message(text).end, end, "{text}");
    }
}

#[test]
fn counts_batch_items_beyond_its_bound_without_keeping_them() {
    let text = format!("[{}1]", "{\"id\":1},".repeat(500));

    let message = message(&text);

    assert_eq!((message.is_batch, message.items.len(), message.item_count), (true, 100, 501));
}

#[test]
fn syntax_errors_have_the_texts_of_the_reference() {
    for (text, expected) in [
        ("x", "invalid character 'x' looking for beginning of value"),
        ("}", "invalid character '}' looking for beginning of value"),
        ("{'a':1}", r"invalid character '\'' looking for beginning of object key string"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        ("{\"a\":1 \"b\"}", "invalid character '\"' after object key:value pair"),
        ("{\"a\":1]", "invalid character ']' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1}", "invalid character '}' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        ("[01]", "invalid character '1' after array element"),
        ("[-a]", "invalid character 'a' in numeric literal"),
        ("[1.a]", "invalid character 'a' after decimal point in numeric literal"),
        ("[1e+]", "invalid character ']' in exponent of numeric literal"),
        ("nul\n", r"invalid character '\n' in literal null (expecting 'l')"),
        ("[trux]", "invalid character 'x' in literal true (expecting 'e')"),
        (r#"["\x"]"#, "invalid character 'x' in string escape code"),
        (r#"["\u00g0"]"#, r"invalid character 'g' in \u hexadecimal character escape"),
        ("[\"a\u{1}\"]", r"invalid character '\x01' in string literal"),
        ("\u{feff}{}", "invalid character 'ï' looking for beginning of value"),
    ] {
        assert_eq!(scan(text), Progress::Invalid(SyntaxError(expected.to_owned())), "{text}");
    }
}

#[test]
fn a_special_byte_is_found_at_every_position() {
    for byte in 0..=u8::MAX {
        for around in [b' ', b'a', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xa2, 0xdc, 0xff] {
            for length in 0..20 {
                for at in 0..length {
                    let mut text = vec![around; length];
                    text[at] = byte;
                    let is_special = byte < 0x20 || byte == b'"' || byte == b'\\';
                    let expected = if is_special { at } else { length };
                    assert_eq!(ordinary_bytes(&text), expected, "{byte:#x} at {at} of {length} times {around:#x}");
                }
            }
        }
    }
}

#[test]
fn half_a_message_has_no_result() {
    for (text, expected) in
        [("", true), (" \n", true), ("{", false), ("[1", false), ("\"", false), ("nul", false), ("-", false)]
    {
        let mut scanner = Scanner::new(1);
        assert_eq!(scanner.advance(text.as_bytes()), Progress::More);
        assert_eq!(scanner.finish() == Ending::Empty, expected, "{text:?}");
    }
    let mut scanner = Scanner::new(1);
    assert_eq!(scanner.advance(b" 12"), Progress::More);
    assert!(matches!(scanner.finish(), Ending::Complete(RawMessage { end: 3, .. })));
}

#[test]
fn survives_ten_thousand_levels_and_refuses_one_more() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));

    assert!(matches!(scan(&deep(10_000)), Progress::Complete(_)));
    assert_eq!(scan(&deep(10_001)), Progress::Invalid(SyntaxError("exceeded max depth".to_owned())));
    let mixed = format!("{}1{}", "[{\"a\":".repeat(150), "}]".repeat(150));
    assert!(matches!(scan(&mixed), Progress::Complete(_)));
}

proptest::proptest! {
    #[test]
    fn agrees_with_serde_json_wherever_the_input_is_cut(
        bytes in proptest::collection::vec(proptest::sample::select(br#"{}[]",:\u0019aeEdtrufalsn.+- x"#.to_vec()), 0..40),
        cut in 0usize..40,
    ) {
        let whole = Scanner::new(8).advance(&bytes);
        let mut resumed = Scanner::new(8);
        let first = resumed.advance(&bytes[..cut.min(bytes.len())]);
        let second = if first == Progress::More { resumed.advance(&bytes) } else { first };
        proptest::prop_assert_eq!(&whole, &second);
        let mut values = serde_json::Deserializer::from_slice(&bytes).into_iter::<&serde_json::value::RawValue>();
        let theirs = values.next();
        match whole {
            Progress::Complete(_) => proptest::prop_assert!(matches!(theirs, Some(Ok(_))) || bytes.len() > 1),
            Progress::Invalid(_) => proptest::prop_assert!(matches!(theirs, Some(Err(_)))),
            Progress::More => {}
        }
    }

    #[test]
    fn never_panics_on_any_bytes(bytes: Vec<u8>) {
        let mut scanner = Scanner::new(2);
        if scanner.advance(&bytes) == Progress::More {
            scanner.finish();
        }
    }
}
