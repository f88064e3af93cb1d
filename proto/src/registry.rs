//! The registry's entries: number, name, flags and type of each message.

use std::borrow::Cow;

use zeroize::Zeroizing;

use crate::{BodyError, labels};

pub use crate::generated::Flag;

/// Reads a body of one type and writes it again.
pub(crate) type Canonical = fn(&[u8]) -> Result<Zeroizing<Vec<u8>>, BodyError>;

/// What the registry says about one message type.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The number on the wire.
    pub id: u16,
    /// The full public name, `MessageType_…`.
    pub name: &'static str,
    /// Who may send it and in which mode it is handled, as listed: the direction of some is wrong
    /// (`docs/spec/device.md 2.3`).
    pub flags: &'static [Flag],
    /// The full name of the body's type in the definitions.
    pub body: &'static str,
    /// What Model One 1.8.1 stores of the fields; it refuses a message with more.
    pub limits: &'static [Limit],
    pub(crate) canonical: Canonical,
}

/// How much of a field Model One 1.8.1 stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The field's number.
    pub field: u32,
    /// What is counted.
    pub kind: LimitKind,
    /// The most.
    pub max: u32,
}

/// What a [`Limit`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// Bytes of a value that is bytes.
    Bytes,
    /// Bytes of a value that is text.
    Text,
    /// Items of a field that is repeated.
    Items,
}

impl Entry {
    /// Whether the entry carries `flag`.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// The label of the chain family in the registry's document, `F1` to `F12`; none outside the families.
    pub fn family(&self) -> Option<&'static str> {
        labels::family(self.name).map(|family| family.label)
    }

    /// The name as the registry's document writes it: with `<F1>` to `<F12>` in place of the family's own name.
    pub fn document_name(&self) -> Cow<'static, str> {
        labels::document_name(self.name)
    }

    /// Reads a body and writes what was understood in the order of the fields' numbers, without unknown fields.
    ///
    /// # Errors
    /// [`BodyError::Malformed`] when the bytes are no such body.
    pub fn canonical(&self, body: &[u8]) -> Result<Zeroizing<Vec<u8>>, BodyError> {
        (self.canonical)(body)
    }
}

/// All entries, by their numbers.
pub fn entries() -> &'static [Entry] {
    &crate::generated::ENTRIES
}

/// The entry with this number. `None` for numbers that are not assigned, among them 219 and 300 to 302.
pub fn by_id(id: u16) -> Option<&'static Entry> {
    entries().binary_search_by_key(&id, |entry| entry.id).ok().map(|at| &entries()[at])
}

/// The messages that are younger than the registry, by their numbers (`docs/spec/device.md 6.8`). They carry no flags.
pub fn later() -> &'static [Entry] {
    &crate::generated::LATER
}

/// The entry or the younger message with this number.
pub fn known(id: u16) -> Option<&'static Entry> {
    by_id(id).or_else(|| later().iter().find(|entry| entry.id == id))
}
