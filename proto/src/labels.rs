//! Names in the registry's document, which writes `<F1>` to `<F12>` in place of the chain names in the public names.

use std::borrow::Cow;

/// A chain family.
pub(crate) struct Family {
    /// The label in the document.
    pub(crate) label: &'static str,
    /// The prefix of the public names.
    prefix: &'static str,
}

const fn family_named(label: &'static str, prefix: &'static str) -> Family {
    Family { label, prefix }
}

const FAMILIES: [Family; 12] = [
    family_named("F1", "Ethereum"),
    family_named("F2", "NEM"),
    family_named("F3", "Lisk"),
    family_named("F4", "Tezos"),
    family_named("F5", "Stellar"),
    family_named("F6", "Tron"),
    family_named("F7", "Cardano"),
    family_named("F8", "Ontology"),
    family_named("F9", "Ripple"),
    family_named("F10", "Monero"),
    family_named("F11", "Eos"),
    family_named("F12", "Binance"),
];

/// The part after the family's name, in public and in the document, where the two differ (`docs/spec/device.md 2.1`).
const OTHER_SUFFIXES: [(&str, &str); 6] = [
    ("SignWithdrawOng", "SignWithdraw"),
    ("SignedWithdrawOng", "SignedWithdraw"),
    ("SignOntIdRegister", "SignIdRegister"),
    ("SignedOntIdRegister", "SignedIdRegister"),
    ("SignOntIdAddAttributes", "SignIdAddAttributes"),
    ("SignedOntIdAddAttributes", "SignedIdAddAttributes"),
];

/// Prefix of all names.
const ENUMERATION: &str = "MessageType_";

/// Prefix of the two debugging messages of family F10.
const DEBUG: &str = "Debug";

/// Splits a full public name at the family's name into the part before it, the family and the part after it.
fn split(name: &str) -> Option<(&str, &'static Family, &str)> {
    let own = name.strip_prefix(ENUMERATION)?;
    FAMILIES.iter().find_map(|family| {
        let start = if own.starts_with(family.prefix) { 0 } else { DEBUG.len() };
        let is_debug = start > 0 && own.starts_with(DEBUG);
        let suffix = own.get(start..).filter(|_| start == 0 || is_debug)?.strip_prefix(family.prefix)?;
        Some((&own[..start], family, suffix))
    })
}

/// The family of a full public name.
pub(crate) fn family(name: &str) -> Option<&'static Family> {
    split(name).map(|(_, family, _)| family)
}

/// The document's form of a full public name.
pub(crate) fn document_name(name: &'static str) -> Cow<'static, str> {
    let Some((front, family, suffix)) = split(name) else { return Cow::Borrowed(name) };
    let other = OTHER_SUFFIXES.iter().find(|(public, _)| *public == suffix);
    let suffix = other.map_or(suffix, |(_, document)| document);
    Cow::Owned(format!("{ENUMERATION}{front}<{}>{suffix}", family.label))
}
