//! Scans a message in one pass: checks its syntax, finds its end and the members of its requests.
//!
//! The scanner can be stopped after any byte and continued when more has arrived, so that the socket transports, whose
//! JSON values have no framing, read each byte once. It keeps offsets instead of copies: `params` is not read again
//! before its method decodes it.
//!
//! Implemented here, because a general parser does not offer what the protocol needs: raw ids, the reference's texts of
//! syntax errors, the end of a value inside a stream, member names in any case, 10,000 levels without recursion.

use super::raw_message::{RawMessage, RawRequest, Span};
use super::text::{quote_byte, read_string};

/// Maximum nesting of arrays and objects; the reference's parser has the same limit and text.
const MAX_DEPTH: usize = 10_000;

/// Why a message is not JSON, in the reference's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SyntaxError(pub(crate) String);

/// Progress of a scan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All bytes are read, the message is incomplete.
    More,
    /// A whole message.
    Complete(RawMessage),
    /// Not JSON.
    Invalid(SyntaxError),
}

/// Result of scanning a text to its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// White space or nothing.
    Empty,
    /// A message without its end.
    Truncated,
    /// A whole message: a number, which only ends with the text.
    Complete(RawMessage),
}

/// State of the scan. Checked for every byte between strings, and therefore no larger than a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Value,
    ValueOrEnd,
    KeyOrEnd,
    Key,
    AfterKey,
    AfterValue,
    Text { escape: Escape },
    Word { word: Word, next: u8 },
    Number(Number),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    None,
    Letter,
    Hex(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    True,
    False,
    Null,
}

impl Word {
    const fn text(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::False => "false",
            Self::Null => "null",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

impl Number {
    const fn may_end(self) -> bool {
        matches!(self, Self::Zero | Self::Integer | Self::Fraction | Self::ExponentDigits)
    }

    /// The state after `byte`, `None` if the number has ended before it, an error if `byte` cannot follow.
    fn step(self, byte: u8) -> Result<Option<Self>, &'static str> {
        Ok(Some(match (self, byte) {
            (Self::Minus, b'0') => Self::Zero,
            (Self::Minus, b'1'..=b'9') | (Self::Integer, b'0'..=b'9') => Self::Integer,
            (Self::Minus, _) => return Err("in numeric literal"),
            (Self::Zero | Self::Integer, b'.') => Self::Point,
            (Self::Zero | Self::Integer | Self::Fraction, b'e' | b'E') => Self::Exponent,
            (Self::Point | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Point, _) => return Err("after decimal point in numeric literal"),
            (Self::Exponent, b'+' | b'-') => Self::ExponentSign,
            (Self::Exponent | Self::ExponentSign | Self::ExponentDigits, b'0'..=b'9') => Self::ExponentDigits,
            (Self::Exponent | Self::ExponentSign, _) => return Err("in exponent of numeric literal"),
            _ => return Ok(None),
        }))
    }
}

/// A member of a request, by its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Id,
    Method,
    Params,
    Result,
    Error,
    Other,
}

impl Member {
    /// Recognises a member's name and colon at the beginning of a text. Only for names without escapes, directly
    /// followed by the colon, which nearly all clients send. Returns the member and their length. This saves a scan a
    /// quarter of its instructions.
    fn begins(text: &[u8]) -> Option<(Self, usize)> {
        // Each name is compared at its own constant length, which needs no function call.
        match text.get(1)? {
            b'p' => text.starts_with(br#""params":"#).then_some((Self::Params, 9)),
            b'm' => text.starts_with(br#""method":"#).then_some((Self::Method, 9)),
            b'i' => text.starts_with(br#""id":"#).then_some((Self::Id, 5)),
            b'j' => text.starts_with(br#""jsonrpc":"#).then_some((Self::Other, 10)),
            _ => None,
        }
    }

    /// The member of this quoted name.
    fn named(quoted: &[u8]) -> Self {
        let name = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
        if name.contains(&b'\\') {
            return Self::of(read_string(&String::from_utf8_lossy(quoted)).as_bytes());
        }
        Self::of(name)
    }

    /// The member of this name, case-insensitive.
    fn of(name: &[u8]) -> Self {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match name.len() {
            2 if is(b"id") => Self::Id,
            5 if is(b"error") => Self::Error,
            6 if is(b"method") => Self::Method,
            6 if is(b"params") => Self::Params,
            6 if is(b"result") => Self::Result,
            _ => Self::Other,
        }
    }
}

/// The open arrays and objects, one bit each: 64 levels without an allocation.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    innermost: u64,
    outer: Vec<u64>,
}

impl Nesting {
    fn open(&mut self, is_object: bool) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.innermost);
            self.innermost = 0;
        }
        self.innermost = (self.innermost << 1) | u64::from(is_object);
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.innermost >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.innermost = self.outer.pop().unwrap_or_default();
        }
    }

    const fn is_in_object(&self) -> bool {
        self.innermost & 1 == 1
    }
}

/// Scans one message; use [`Scanner::new`] for the next one.
#[derive(Debug)]
pub(crate) struct Scanner {
    state: State,
    position: usize,
    nesting: Nesting,
    /// Depth of requests: 0, or 1 in a batch.
    base: usize,
    has_begun: bool,
    text_is_key: bool,
    key_start: usize,
    /// The member whose value is being read.
    member: Member,
    value_start: usize,
    value_first: u8,
    /// Whether the value being read has a backslash.
    has_escapes: bool,
    request: RawRequest,
    message: RawMessage,
    max_items: usize,
}

impl Scanner {
    /// Creates a scanner that keeps at most `max_items` requests of a batch and counts the others.
    pub(crate) fn new(max_items: usize) -> Self {
        Self {
            state: State::Value,
            position: 0,
            nesting: Nesting::default(),
            base: 0,
            has_begun: false,
            text_is_key: false,
            key_start: 0,
            member: Member::Other,
            value_start: 0,
            value_first: 0,
            has_escapes: false,
            request: RawRequest::default(),
            message: RawMessage::default(),
            max_items,
        }
    }

    /// Continues the scan. `input` is everything from the beginning of the message, including what was scanned before.
    pub(crate) fn advance(&mut self, input: &[u8]) -> Progress {
        while let Some(byte) = input.get(self.position).copied() {
            match self.step(input, byte) {
                Ok(false) => {}
                Ok(true) => return Progress::Complete(self.take_message()),
                Err(error) => return Progress::Invalid(error),
            }
        }
        Progress::More
    }

    /// Whether nothing but white space has been read.
    pub(crate) const fn has_not_begun(&self) -> bool {
        !self.has_begun
    }

    /// The result if no bytes follow those that were scanned.
    pub(crate) fn finish(&mut self) -> Ending {
        if !self.has_begun {
            return Ending::Empty;
        }
        match self.state {
            State::Number(number) if self.nesting.depth == 0 && number.may_end() => {
                Ending::Complete(self.take_message())
            }
            _ => Ending::Truncated,
        }
    }

    fn take_message(&mut self) -> RawMessage {
        self.message.end = self.position;
        self.message.single = self.request;
        std::mem::take(&mut self.message)
    }

    /// Reads a byte, or as many as belong to a string, number or common name. Returns true if the message is complete.
    fn step(&mut self, input: &[u8], byte: u8) -> Result<bool, SyntaxError> {
        match self.state {
            State::Text { escape: Escape::None } => self.in_text(input),
            State::Text { escape } => {
                self.state = State::Text { escape: after_escape(escape, byte)? };
                self.position += 1;
                Ok(false)
            }
            State::Word { word, next } => self.in_word(word, next, byte),
            State::Number(number) => self.in_number(input, number),
            _ if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') => {
                self.position += 1;
                Ok(false)
            }
            _ => self.structure(input, byte),
        }
    }

    /// Reads a byte between values.
    fn structure(&mut self, input: &[u8], byte: u8) -> Result<bool, SyntaxError> {
        match (self.state, byte) {
            (State::ValueOrEnd, b']') | (State::KeyOrEnd, b'}') => return Ok(self.close()),
            (State::Value | State::ValueOrEnd, b'"') if self.is_in_parameters() && self.plain_strings(input) => {
                return Ok(false);
            }
            (State::Value | State::ValueOrEnd, _) => return self.begin_value(input, byte),
            (State::Key | State::KeyOrEnd, b'"') => {
                if self.is_at_members() {
                    if let Some((member, length)) = input.get(self.position..).and_then(Member::begins) {
                        self.member = member;
                        self.state = State::Value;
                        self.position += length;
                        self.plain_member(input);
                        return Ok(false);
                    }
                    self.key_start = self.position;
                }
                self.text_is_key = true;
                self.state = State::Text { escape: Escape::None };
            }
            (State::Key | State::KeyOrEnd, _) => {
                return Err(invalid(byte, "looking for beginning of object key string"));
            }
            (State::AfterKey, b':') => self.state = State::Value,
            (State::AfterKey, _) => return Err(invalid(byte, "after object key")),
            (_, b',') => self.state = if self.nesting.is_in_object() { State::Key } else { State::Value },
            (_, b'}') if self.nesting.is_in_object() => return Ok(self.close()),
            (_, b']') if !self.nesting.is_in_object() => return Ok(self.close()),
            (_, _) if self.nesting.is_in_object() => return Err(invalid(byte, "after object key:value pair")),
            (_, _) => return Err(invalid(byte, "after array element")),
        }
        self.position += 1;
        Ok(false)
    }

    /// Whether the scan is directly inside a request. Deeper values must not change its members.
    const fn is_at_members(&self) -> bool {
        self.nesting.depth == self.base + 1 && self.request.is_object
    }

    /// Whether the scan is inside an array of a request, whose values the envelope ignores.
    const fn is_in_parameters(&self) -> bool {
        self.nesting.depth > self.base && !self.nesting.is_in_object()
    }

    /// Reads the whole value of a member, and the comma after it, if it is a string without escapes or an integer, as
    /// `id`, `method` and `jsonrpc` mostly are. Reads nothing of any other or incomplete value.
    fn plain_member(&mut self, input: &[u8]) {
        self.skip_space(input);
        let rest = &input[self.position..];
        let length = match rest.first() {
            Some(b'"') => plain_string(rest),
            Some(b'0') => Some(1),
            Some(b'1'..=b'9') => rest.iter().position(|byte| !byte.is_ascii_digit()),
            _ => None,
        };
        let Some(length) = length else { return };
        let Some(after @ (b',' | b'}')) = rest.get(length) else { return };
        (self.value_start, self.value_first, self.has_escapes) = (self.position, rest[0], false);
        self.position += length;
        self.end_member();
        self.state = State::AfterValue;
        if *after == b',' {
            self.position += 1;
            self.state = State::Key;
            self.skip_space(input);
        }
    }

    /// Skips one space, which Python's clients write after each colon and comma.
    fn skip_space(&mut self, input: &[u8]) {
        self.position += usize::from(input.get(self.position) == Some(&b' '));
    }

    /// Reads successive strings without escapes in an array, as most parameters are, with the commas between them.
    /// Returns false, and reads nothing, if the first value is another or incomplete.
    fn plain_strings(&mut self, input: &[u8]) -> bool {
        let before = self.position;
        while let Some(length) = plain_string(&input[self.position..]) {
            self.position += length;
            self.state = State::AfterValue;
            if input.get(self.position) != Some(&b',') {
                return true;
            }
            self.position += 1;
            self.state = State::Value;
            self.skip_space(input);
        }
        self.position > before
    }

    fn begin_value(&mut self, input: &[u8], byte: u8) -> Result<bool, SyntaxError> {
        let state = match byte {
            b'{' => State::KeyOrEnd,
            b'[' => State::ValueOrEnd,
            b'"' => State::Text { escape: Escape::None },
            b'-' => State::Number(Number::Minus),
            b'0' => State::Number(Number::Zero),
            b'1'..=b'9' => State::Number(Number::Integer),
            b't' => State::Word { word: Word::True, next: 1 },
            b'f' => State::Word { word: Word::False, next: 1 },
            b'n' => State::Word { word: Word::Null, next: 1 },
            _ => return Err(invalid(byte, "looking for beginning of value")),
        };
        let depth = self.nesting.depth;
        if !self.has_begun {
            self.has_begun = true;
            self.message.is_batch = byte == b'[';
            self.base = usize::from(self.message.is_batch);
        }
        if depth == self.base {
            self.request = RawRequest { is_object: byte == b'{', ..RawRequest::default() };
        } else if self.is_at_members() {
            self.value_start = self.position;
            self.value_first = byte;
            self.has_escapes = false;
        }
        if matches!(byte, b'{' | b'[') {
            if depth >= MAX_DEPTH {
                return Err(SyntaxError("exceeded max depth".to_owned()));
            }
            self.nesting.open(byte == b'{');
        }
        self.text_is_key = false;
        self.state = state;
        self.position += 1;
        if byte == b'"' { self.in_text(input) } else { Ok(false) }
    }

    fn close(&mut self) -> bool {
        self.position += 1;
        self.nesting.close();
        self.end_value()
    }

    /// Ends the value before this position. Returns true if the message is complete.
    fn end_value(&mut self) -> bool {
        self.state = State::AfterValue;
        let depth = self.nesting.depth;
        if self.is_at_members() {
            self.end_member();
        } else if depth == self.base && self.message.is_batch {
            self.message.item_count += 1;
            if self.message.items.len() < self.max_items {
                self.message.items.push(self.request);
            }
        }
        depth == 0
    }

    fn end_member(&mut self) {
        let value = Span { start: self.value_start, end: self.position };
        let request = &mut self.request;
        match (self.member, self.value_first) {
            (Member::Id, _) => request.id = Some(value),
            (Member::Method, b'"') => {
                request.method = Some(value);
                request.method_has_escapes = self.has_escapes;
            }
            (Member::Params, _) => request.params = Some(value),
            (Member::Error, b'n') => {}
            (Member::Result | Member::Error, _) => request.has_outcome = true,
            // A method that is not a string does not override one before it.
            (Member::Method | Member::Other, _) => {}
        }
    }

    /// Inside a string: skips to its next quotation mark or backslash.
    fn in_text(&mut self, input: &[u8]) -> Result<bool, SyntaxError> {
        let rest = &input[self.position..];
        let ordinary = ordinary_bytes(rest);
        self.position += ordinary;
        match rest.get(ordinary) {
            None => return Ok(false),
            Some(b'"') => self.position += 1,
            Some(b'\\') => {
                self.position += 1;
                self.has_escapes = true;
                self.state = State::Text { escape: Escape::Letter };
                return Ok(false);
            }
            Some(control) => return Err(invalid(*control, "in string literal")),
        }
        if self.text_is_key {
            if self.is_at_members() {
                self.member = Member::named(&input[self.key_start..self.position]);
            }
            self.state = State::AfterKey;
            return Ok(false);
        }
        Ok(self.end_value())
    }

    /// Inside a number: reads to its end.
    fn in_number(&mut self, input: &[u8], mut number: Number) -> Result<bool, SyntaxError> {
        while let Some(byte) = input.get(self.position).copied() {
            match number.step(byte).map_err(|context| invalid(byte, context))? {
                Some(next) => number = next,
                // The byte belongs to the next token.
                None => return Ok(self.end_value()),
            }
            self.position += 1;
        }
        self.state = State::Number(number);
        Ok(false)
    }

    fn in_word(&mut self, word: Word, next: u8, byte: u8) -> Result<bool, SyntaxError> {
        let text = word.text();
        let expected = text.as_bytes().get(usize::from(next)).copied().unwrap_or_default();
        if byte != expected {
            let context = format!("in literal {text} (expecting {})", quote_byte(expected));
            return Err(invalid(byte, &context));
        }
        self.position += 1;
        if usize::from(next) + 1 < text.len() {
            self.state = State::Word { word, next: next + 1 };
            return Ok(false);
        }
        Ok(self.end_value())
    }
}

/// Number of bytes before the first quotation mark, backslash or control character.
///
/// Eight at a time: strings of requests are short, and setting up a vector search for each cost more than the rest of
/// the scan.
fn ordinary_bytes(text: &[u8]) -> usize {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    const HIGHEST: u64 = EACH << 7;
    // Sets the highest bit of bytes below `bound`. A borrow can set one too many, but only above a correct one, and
    // only the lowest is used.
    let below = |word: u64, bound: u64| word.wrapping_sub(EACH * bound) & !word;
    let (words, rest) = text.as_chunks::<8>();
    for (position, bytes) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*bytes);
        let quote = below(word ^ (EACH * u64::from(b'"')), 1);
        let backslash = below(word ^ (EACH * u64::from(b'\\')), 1);
        let found = (quote | backslash | below(word, 0x20)) & HIGHEST;
        if found != 0 {
            return position * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    words.len() * 8 + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// The length of the string at the beginning of a text, including its quotation marks; `None` if it is another value,
/// has escapes or control characters, or is incomplete.
fn plain_string(text: &[u8]) -> Option<usize> {
    let inside = text.strip_prefix(b"\"")?;
    let length = ordinary_bytes(inside);
    (inside.get(length) == Some(&b'"')).then_some(length + 2)
}

fn after_escape(escape: Escape, byte: u8) -> Result<Escape, SyntaxError> {
    match (escape, byte) {
        (Escape::Letter, b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => Ok(Escape::None),
        (Escape::Letter, b'u') => Ok(Escape::Hex(4)),
        (Escape::Letter | Escape::None, _) => Err(invalid(byte, "in string escape code")),
        (Escape::Hex(1), _) if byte.is_ascii_hexdigit() => Ok(Escape::None),
        (Escape::Hex(left), _) if byte.is_ascii_hexdigit() => Ok(Escape::Hex(left - 1)),
        (Escape::Hex(_), _) => Err(invalid(byte, "in \\u hexadecimal character escape")),
    }
}

fn invalid(byte: u8, context: &str) -> SyntaxError {
    SyntaxError(format!("invalid character {} {context}", quote_byte(byte)))
}

#[cfg(test)]
mod tests;
