//! A scanned message: the positions of its requests and of their members in its text.

use std::borrow::Cow;

use super::text::read_string;

/// A range of the message, in bytes from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    /// This range of `text`; empty if `text` is not the one that was scanned.
    pub(crate) fn of(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or_default()
    }

    /// Its byte range.
    pub(crate) const fn range(self) -> std::ops::Range<usize> {
        self.start..self.end
    }

    /// The range of a string without its quotation marks.
    pub(crate) const fn without_quotes(self) -> Self {
        Self { start: self.start + 1, end: self.end.saturating_sub(1) }
    }
}

/// The positions of one request's members. If a member occurs more than once, the last counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawRequest {
    /// False for any other value in place of a request, such as `1`, `null` or `[]`.
    pub(crate) is_object: bool,
    pub(crate) id: Option<Span>,
    /// Only if it is a string; with its quotation marks.
    pub(crate) method: Option<Span>,
    /// Whether the method's text contains escapes.
    pub(crate) method_has_escapes: bool,
    pub(crate) params: Option<Span>,
    /// Whether there is a `result`, or an `error` other than `null`.
    pub(crate) has_outcome: bool,
}

impl RawRequest {
    /// The name of its method in the scanned text.
    pub(crate) fn method_in<'a>(&self, text: &'a str) -> Option<Cow<'a, str>> {
        let method = self.method?;
        Some(match self.method_has_escapes {
            true => read_string(method.of(text)),
            false => Cow::Borrowed(method.without_quotes().of(text)),
        })
    }

    /// The bytes of its method's name, for scanned text that need not be UTF-8.
    pub(crate) fn method_in_bytes<'a>(&self, text: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let method = self.method?;
        if self.method_has_escapes {
            let quoted = String::from_utf8_lossy(text.get(method.range())?);
            return Some(Cow::Owned(read_string(&quoted).into_owned().into_bytes()));
        }
        text.get(method.without_quotes().range()).map(Cow::Borrowed)
    }
}

/// One message: a request or a batch of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawMessage {
    /// The first byte after the message.
    pub(crate) end: usize,
    pub(crate) is_batch: bool,
    /// The request, if it is not a batch.
    pub(crate) single: RawRequest,
    /// The requests of a batch, up to the scanner's limit.
    pub(crate) items: Vec<RawRequest>,
    /// Number of items of the batch, kept or not.
    pub(crate) item_count: usize,
}
