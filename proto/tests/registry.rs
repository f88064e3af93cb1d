//! Compares the registry with its document (`tests/data/device-wire-registry.md`).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;

use tenon_proto::{Entry, Flag, LimitKind, MessageType, registry};

const DOCUMENT: &str = include_str!("data/device-wire-registry.md");

/// The document's letters for a flag.
fn letters(flag: Flag) -> &'static str {
    match flag {
        Flag::WireIn => "I",
        Flag::WireOut => "O",
        Flag::WireDebugIn => "DI",
        Flag::WireDebugOut => "DO",
        Flag::WireTiny => "T",
        Flag::WireBootloader => "B",
        Flag::WireNoFsm => "N",
    }
}

/// The full form of an entry in the document: `MessageType_Name=id [flags]`.
fn line(entry: &Entry) -> String {
    let flags: Vec<_> = entry.flags.iter().map(|flag| letters(*flag)).collect();
    format!("{}={} [{}]", entry.document_name(), entry.id, flags.join(","))
}

/// Every entry of the document in that form, by id.
fn document_lines() -> BTreeMap<u16, String> {
    let mut lines = BTreeMap::new();
    let mut add = |family: Option<&str>, text: &str, flags_of_all: Option<&str>| {
        for word in text.replace("; ", "\n").replace(". ", "\n").replace(" and ", "\n").lines() {
            let Some((name, rest)) = word.split_once('=') else { continue };
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            let Ok(id) = digits.parse::<u16>() else { continue };
            let flags = flags_of_all.unwrap_or_else(|| {
                let (_, flags) = rest.split_once('[').expect("flags");
                flags.split_once(']').expect("an end of the flags").0
            });
            let name = name.rsplit(' ').next().expect("a name").trim_matches('`');
            let name = name.strip_prefix("MessageType_").unwrap_or(name);
            let is_full = name.contains('<');
            let family = family.filter(|_| !is_full).map(|label| format!("<{label}>")).unwrap_or_default();
            let line = format!("MessageType_{family}{name}={id} [{flags}]");
            assert!(lines.insert(id, line).is_none(), "{id} stands twice in the document");
        }
    };
    let (_, entries) = DOCUMENT.split_once("## Endpoints").expect("the list of entries");
    let mut is_family_f10 = false;
    for text in entries.lines() {
        is_family_f10 |= text == "### Family F10";
        if let Some(row) = text.strip_prefix("| F") {
            let (number, row) = row.split_once(" | ").expect("two columns");
            add(Some(&format!("F{number}")), row, None);
        } else if let Some(list) = text.strip_prefix("All [O]: ") {
            add(Some("F10"), list, Some("O"));
        } else if is_family_f10 {
            add(Some("F10"), text, None);
        } else if text.contains("=") && !text.contains('`') {
            add(None, text, None);
        }
    }
    lines
}

#[test]
fn equals_the_document_line_by_line() {
    let document = document_lines();

    let ours: BTreeMap<u16, String> = registry::entries().iter().map(|entry| (entry.id, line(entry))).collect();

    assert_eq!(document.len(), 193, "entries of the document");
    assert_eq!(registry::entries().len(), 193);
    for (id, expected) in &document {
        assert_eq!(ours.get(id), Some(expected), "entry {id}");
    }
    assert_eq!(ours, document);
}

#[test]
fn has_the_documents_option_numbers() {
    for flag in Flag::ALL {
        let row = format!("| {} | {} |", flag.name(), flag as u16);
        assert!(DOCUMENT.contains(&row), "{row}");
        assert!(DOCUMENT.contains(&format!("{} = {}", letters(flag), flag.name())), "{flag:?}");
    }
    assert_eq!(Flag::ALL.map(|flag| flag as u16), [50002, 50003, 50004, 50005, 50006, 50007, 50008]);
}

#[test]
fn unassigned_ids_have_no_entry() {
    for id in [219, 300, 301, 302, 16, 999, u16::MAX] {
        assert!(registry::by_id(id).is_none(), "{id}");
        assert!(MessageType::try_from(i32::from(id)).is_err(), "{id}");
    }
}

#[test]
fn finds_every_entry_by_its_number() {
    for entry in registry::entries() {
        let message_type = MessageType::try_from(i32::from(entry.id)).unwrap();

        assert_eq!(registry::by_id(entry.id).unwrap().name, entry.name);
        assert_eq!(message_type.as_str_name(), entry.name);
        assert_eq!(entry.body.rsplit('.').next(), entry.name.strip_prefix("MessageType_"));
    }
}

#[test]
fn keeps_the_flags_that_name_the_wrong_direction() {
    let ripple = registry::by_id(403).unwrap();
    assert_eq!((ripple.name, ripple.flags), ("MessageType_RippleSignedTx", [Flag::WireIn].as_slice()));
    for id in (501..=517).chain(530..=535) {
        assert_eq!(registry::by_id(id).unwrap().flags, [Flag::WireOut], "{id}");
    }
    assert!(registry::by_id(27).unwrap().has(Flag::WireNoFsm));
}

#[test]
fn keeps_later_messages_apart_from_the_registry() {
    let numbers: Vec<u16> = registry::later().iter().map(|entry| entry.id).collect();

    assert_eq!(numbers, [452, 464, 465, 466, 467, 468, 469, 470]);
    for entry in registry::later() {
        assert!(registry::by_id(entry.id).is_none(), "{}", entry.name);
        assert_eq!(registry::known(entry.id).unwrap().name, entry.name);
    }
    assert_eq!(registry::known(58).unwrap().name, "MessageType_EthereumSignTx");
}

#[test]
fn knows_the_limits_of_model_one_on_a_field() {
    let limits = registry::by_id(64).unwrap().limits;

    assert_eq!(limits.len(), 2);
    assert_eq!((limits[0].field, limits[0].kind, limits[0].max), (1, LimitKind::Items, 8));
    assert_eq!((limits[1].field, limits[1].kind, limits[1].max), (2, LimitKind::Bytes, 1024));
    assert_eq!(registry::by_id(42).unwrap().limits[0].kind, LimitKind::Text);
}

#[test]
fn knows_the_family_of_an_entry() {
    let family = |id| registry::by_id(id).unwrap().family();

    assert_eq!(family(0), None);
    assert_eq!(family(11), None, "the unspent-output chain group has no label");
    assert_eq!(family(56), Some("F1"));
    assert_eq!(family(546), Some("F10"), "its name begins with Debug");
    assert_eq!(family(709), Some("F12"));
    assert_eq!(registry::by_id(546).unwrap().document_name(), "MessageType_Debug<F10>DiagRequest");
    assert_eq!(registry::by_id(356).unwrap().document_name(), "MessageType_<F8>SignWithdraw");
    assert_eq!(registry::by_id(100).unwrap().document_name(), "MessageType_DebugLinkDecision");
}
