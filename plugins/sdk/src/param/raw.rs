//! Splits JSON text into the texts of its values.

use std::borrow::Cow;

/// The JSON text of one value, without surrounding whitespace. Its content has not been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawArgument<'a>(&'a str);

impl<'a> RawArgument<'a> {
    /// Takes JSON text.
    pub fn new(text: &'a str) -> Self {
        Self(text.trim_ascii())
    }

    /// The text.
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// Whether it is `null`.
    pub fn is_null(self) -> bool {
        self.0 == "null"
    }

    /// The text between the quotes of a string, with escapes unchanged; `None` if it is not a string.
    pub fn quoted(self) -> Option<&'a str> {
        if self.0.len() < 2 { None } else { self.0.strip_prefix('"')?.strip_suffix('"') }
    }

    /// The string's value, with escapes resolved; `None` if it is not a string.
    pub fn string(self) -> Option<Cow<'a, str>> {
        let inside = self.quoted()?;
        if inside.contains('\\') {
            return serde_json::from_str::<String>(self.0).ok().map(Cow::Owned);
        }
        Some(Cow::Borrowed(inside))
    }

    /// The reference's word for the kind of value.
    pub fn kind(self) -> &'static str {
        match self.0.as_bytes().first() {
            Some(b'"') => "string",
            Some(b'{') => "object",
            Some(b'[') => "array",
            Some(b't' | b'f') => "bool",
            Some(b'n') => "null",
            _ => "number",
        }
    }

    /// Returns whether the text has at most `max` JSON values, nested ones included. An empty array or object may count as
    /// two. A tree of values takes up to a hundred times the memory of its text, so this is asked before one is built.
    pub fn has_at_most_values(self, max: usize) -> bool {
        let bytes = self.0.as_bytes();
        let (mut count, mut at) = (1, 0);
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => match end_of_string(bytes, at) {
                    Some(end) => {
                        at = end;
                        continue;
                    }
                    None => return true,
                },
                b',' | b'[' | b'{' => count += 1,
                _ => {}
            }
            if count > max {
                return false;
            }
            at += 1;
        }
        true
    }

    /// The values of an array; `None` if it is not an array.
    pub fn array(self) -> Option<impl Iterator<Item = RawArgument<'a>>> {
        let mut values = Values::of_array(self.0)?;
        Some(std::iter::from_fn(move || values.next().ok().flatten()))
    }
}

/// The text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotJson;

/// Iterates over the values of an array or the members of an object.
pub(crate) struct Values<'a> {
    /// The unread rest, without leading whitespace.
    rest: &'a str,
    close: char,
    is_first: bool,
}

impl<'a> Values<'a> {
    pub(crate) fn of_array(text: &'a str) -> Option<Self> {
        Self::of(text, '[', ']')
    }

    pub(crate) fn of_object(text: &'a str) -> Option<Self> {
        Self::of(text, '{', '}')
    }

    fn of(text: &'a str, open: char, close: char) -> Option<Self> {
        let rest = text.strip_prefix(open)?.trim_ascii_start();
        Some(Self { rest, close, is_first: true })
    }

    /// The next value of an array.
    pub(crate) fn next(&mut self) -> Result<Option<RawArgument<'a>>, NotJson> {
        if !self.advance()? {
            return Ok(None);
        }
        self.value().map(Some)
    }

    /// The next member of an object.
    pub(crate) fn next_member(&mut self) -> Result<Option<(Cow<'a, str>, RawArgument<'a>)>, NotJson> {
        if !self.advance()? {
            return Ok(None);
        }
        let name = self.value()?.string().ok_or(NotJson)?;
        self.rest = self.rest.strip_prefix(':').ok_or(NotJson)?.trim_ascii_start();
        Ok(Some((name, self.value()?)))
    }

    /// Skips the comma before the next value; returns false at the end.
    fn advance(&mut self) -> Result<bool, NotJson> {
        if let Some(after) = self.rest.strip_prefix(self.close) {
            return if after.trim_ascii().is_empty() { Ok(false) } else { Err(NotJson) };
        }
        if !std::mem::replace(&mut self.is_first, false) {
            self.rest = self.rest.strip_prefix(',').ok_or(NotJson)?.trim_ascii_start();
        }
        Ok(true)
    }

    fn value(&mut self) -> Result<RawArgument<'a>, NotJson> {
        let end = end_of_value(self.rest.as_bytes()).ok_or(NotJson)?;
        let (value, rest) = self.rest.split_at_checked(end).ok_or(NotJson)?;
        self.rest = rest.trim_ascii_start();
        Ok(RawArgument(value))
    }
}

/// The end of the value that starts at 0.
fn end_of_value(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        b'"' => end_of_string(bytes, 0),
        b'[' | b'{' => {
            let mut depth = 0_usize;
            let mut at = 0;
            while at < bytes.len() {
                match bytes[at] {
                    b'"' => {
                        at = end_of_string(bytes, at)?;
                        continue;
                    }
                    b'[' | b'{' => depth += 1,
                    b']' | b'}' => {
                        depth -= 1;
                        if depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
            None
        }
        _ => {
            let end = bytes
                .iter()
                .position(|byte| matches!(byte, b',' | b']' | b'}' | b':') || byte.is_ascii_whitespace())
                .unwrap_or(bytes.len());
            (end > 0).then_some(end)
        }
    }
}

/// The end of the string whose opening quote is at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}
