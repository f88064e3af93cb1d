//! Tests of `value.rs`.

use super::*;

fn untyped(text: &str) -> Value {
    Value::Untyped(text.into())
}

#[test]
fn reads_durations_and_sizes_in_every_spelling() {
    for (text, milliseconds) in [("500ms", 500), ("5s", 5000), ("1m30s", 90_000), ("3h", 10_800_000), ("2", 2000)] {
        assert_eq!(Duration::read(&untyped(text)), Ok(Duration::from_millis(milliseconds)), "{text}");
    }
    for (text, bytes) in [("512MiB", 512 << 20), ("5MB", 5_000_000), ("5_242_880", 5_242_880), ("1 GiB", 1 << 30)] {
        assert_eq!(ByteSize::read(&untyped(text)), Ok(ByteSize(bytes)), "{text}");
    }
    for text in ["", "five", "5 parsecs", "18446744073709551615h"] {
        assert!(Duration::read(&untyped(text)).is_err(), "{text}");
    }
}

#[test]
fn values_round_trip() {
    for duration in [0, 1, 1500, 60_000, 10_800_000].map(Duration::from_millis) {
        assert_eq!(Duration::read(&duration.show()), Ok(duration));
    }
    for size in [0, 1, 1024, 5_000_000, 512 << 20].map(ByteSize) {
        assert_eq!(ByteSize::read(&size.show()), Ok(size));
    }
    for mode in [HistoryMode::Archive, HistoryMode::Pruned] {
        assert_eq!(HistoryMode::read(&mode.show()), Ok(mode));
    }
}

#[test]
fn a_percentage_is_at_most_the_whole() {
    assert_eq!(Percent::new(25).of(10_240), 2560);
    assert_eq!(Percent::new(100).of(u64::MAX), u64::MAX);
    assert_eq!(Percent::new(33).of(10), 3);
    assert_eq!(Percent::read(&Percent::new(7).show()), Ok(Percent::new(7)));
    assert_eq!(Percent::read(&untyped("101")), Err("expected a whole number from 0 to 100, found `101`".into()));
}

#[test]
fn formats_any_text_as_a_toml_string() {
    let text = "say \"hé\"\\ \t\n\r\u{7f}\u{0}";
    let line = format!("text = {}", Value::Text(text.into()));

    assert_eq!(line, "text = \"say \\\"hé\\\"\\\\ \\t\\n\\u000D\\u007F\\u0000\"");
    let table: toml::Table = line.parse().unwrap();
    assert_eq!(table["text"].as_str(), Some(text));
}

#[test]
fn errors_name_the_expected_form_and_the_value() {
    assert_eq!(
        u16::read(&Value::Text("8545".into())),
        Err("expected a whole number from 0 to 65535, found \"8545\"; write it without quotes".into())
    );
    assert_eq!(HistoryMode::read(&untyped("light")), Err("expected one of `archive`, `pruned`, found `light`".into()));
    assert_eq!(
        Vec::<String>::read(&Value::Bool(true)),
        Err("expected a list such as [\"eth\", \"net\"], found true".into())
    );
}

#[test]
fn durations_beyond_the_clocks_range_are_refused_everywhere() {
    let refused = Duration::read(&Value::Untyped("18446744073709551615ms".into())).unwrap_err();
    assert!(refused.starts_with("expected a duration of at most 876000h, found "), "{refused}");
    assert_eq!(Duration::read(&Value::Untyped("36500d".into())), Ok(MAX_DURATION));
}
