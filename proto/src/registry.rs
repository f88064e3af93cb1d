//! The registry's entries: id, name, flags and type of each message.

use std::borrow::Cow;

use zeroize::Zeroizing;

use crate::{BodyError, labels};

pub use crate::generated::Flag;

/// Decodes a body of one type and encodes it again.
pub(crate) type Canonical = fn(&[u8]) -> Result<Zeroizing<Vec<u8>>, BodyError>;

/// The registry's entry for a message type.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Message id.
    pub id: u16,
    /// The full public name, `MessageType_…`.
    pub name: &'static str,
    /// Who may send it, and in which mode it is handled, as listed. Some directions are wrong (`docs/spec/device.md
    /// 2.3`).
    pub flags: &'static [Flag],
    /// The full name of the body's type in the definitions.
    pub body: &'static str,
    /// Limits of Model One 1.8.1 on the fields. It rejects a message that exceeds one.
    pub limits: &'static [Limit],
    pub(crate) canonical: Canonical,
}

/// The limit of Model One 1.8.1 on a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Field number.
    pub field: u32,
    /// What the limit counts.
    pub kind: LimitKind,
    /// Maximum value.
    pub max: u32,
}

/// What a [`Limit`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// Length of a `bytes` value in bytes.
    Bytes,
    /// Length of a `string` value in bytes.
    Text,
    /// Number of items of a repeated field.
    Items,
}

impl Entry {
    /// Whether the entry has `flag`.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// The label of the chain family in the registry's document, `F1` to `F12`; `None` if the message belongs to no
    /// family.
    pub fn family(&self) -> Option<&'static str> {
        labels::family(self.name).map(|family| family.label)
    }

    /// The name in the registry's document: with `<F1>` to `<F12>` in place of the family's name.
    pub fn document_name(&self) -> Cow<'static, str> {
        labels::document_name(self.name)
    }

    /// Decodes a body and encodes it again: in the order of field numbers, without unknown fields.
    ///
    /// # Errors
    /// [`BodyError::Malformed`] if the bytes are not a body of this type.
    pub fn canonical(&self, body: &[u8]) -> Result<Zeroizing<Vec<u8>>, BodyError> {
        (self.canonical)(body)
    }
}

/// All entries, by id.
pub fn entries() -> &'static [Entry] {
    &crate::generated::ENTRIES
}

/// The entry with this id; `None` if the id is not assigned, such as 219 and 300 to 302.
pub fn by_id(id: u16) -> Option<&'static Entry> {
    entries().binary_search_by_key(&id, |entry| entry.id).ok().map(|at| &entries()[at])
}

/// The messages that are later than the registry, by id (`docs/spec/device.md 6.8`). They have no flags.
pub fn later() -> &'static [Entry] {
    &crate::generated::LATER
}

/// The entry or later message with this id.
pub fn known(id: u16) -> Option<&'static Entry> {
    by_id(id).or_else(|| later().iter().find(|entry| entry.id == id))
}
