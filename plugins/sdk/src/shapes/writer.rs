//! Writes JSON text directly into a byte buffer.

use alloy_primitives::{U256, hex};
use serde::{Serialize, Serializer, ser::Error as _};
use serde_json::value::RawValue;
use tenon_api::{Account, WholeBalance, split_balance};

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A buffer to which JSON is appended. It derives commas from the last byte, so members and items are simply written
/// one after another. The caller must balance brackets; the writer does not check it.
///
/// ```
/// use tenon_sdk::shapes::JsonWriter;
///
/// let mut json = JsonWriter::with_capacity(64);
/// json.begin_object();
/// json.key("number").quantity(54);
/// json.key("data").data(&[1, 2]);
/// json.end_object();
/// assert_eq!(json.into_string(), r#"{"number":"0x36","data":"0x0102"}"#);
/// ```
#[derive(Debug, Default)]
pub struct JsonWriter {
    buffer: Vec<u8>,
}

impl JsonWriter {
    /// An empty buffer with capacity for `bytes`.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { buffer: Vec::with_capacity(bytes) }
    }

    /// Finished JSON text from elsewhere. It is not checked.
    pub fn from_json(json: String) -> Self {
        Self { buffer: json.into_bytes() }
    }

    /// The text so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.buffer
    }

    /// The text so far. Costs one pass over it: the text is UTF-8 by construction, but it is checked anyway.
    pub fn into_string(self) -> String {
        String::from_utf8(self.buffer).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Number of bytes written.
    pub const fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Number of bytes allocated.
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Whether nothing has been written.
    pub const fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Opens an object: a top-level value, or an item of a list.
    pub fn begin_object(&mut self) {
        self.separate();
        self.buffer.push(b'{');
    }

    /// Closes an object.
    pub fn end_object(&mut self) {
        self.buffer.push(b'}');
    }

    /// Opens a list.
    pub fn begin_list(&mut self) {
        self.separate();
        self.buffer.push(b'[');
    }

    /// Closes a list.
    pub fn end_list(&mut self) {
        self.buffer.push(b']');
    }

    /// Starts a member. `name` must need no escaping.
    ///
    /// Inlined because names are constants: each then becomes a few stores instead of three copies of unknown length.
    #[inline]
    pub fn key(&mut self, name: &str) -> &mut Self {
        self.separate();
        self.buffer.push(b'"');
        self.buffer.extend_from_slice(name.as_bytes());
        self.buffer.extend_from_slice(b"\":");
        self
    }

    /// A number in minimal hexadecimal, `"0x0"` for zero.
    pub fn quantity(&mut self, value: u64) {
        self.separate();
        // Written from the last character to the first.
        let mut text = *b"\"0x0000000000000000\"";
        let (mut start, mut left) = (text.len() - 1, value);
        loop {
            start -= 1;
            text[start] = DIGITS[(left & 0xf) as usize];
            left >>= 4;
            if left == 0 {
                break;
            }
        }
        start -= 3;
        text[start..start + 3].copy_from_slice(b"\"0x");
        self.buffer.extend_from_slice(&text[start..]);
    }

    /// A number of up to 256 bits in minimal hexadecimal, `"0x0"` for zero.
    pub fn quantity_256(&mut self, value: U256) {
        if let Ok(small) = u64::try_from(value) {
            return self.quantity(small);
        }
        self.separate();
        self.buffer.extend_from_slice(b"\"0x");
        let mut text = [0_u8; 64];
        let written = hex::encode_to_slice(value.to_be_bytes::<32>(), &mut text);
        debug_assert!(written.is_ok(), "the buffer has the exact length");
        self.buffer.extend_from_slice(&text[value.leading_zeros() / 4..]);
        self.buffer.push(b'"');
    }

    /// An account's balance, which may exceed 256 bits on native chains.
    pub fn balance(&mut self, account: &Account) {
        self.whole_balance(account.whole_balance());
    }

    /// A balance that may exceed 256 bits.
    pub(crate) fn whole_balance(&mut self, balance: WholeBalance) {
        match split_balance(balance) {
            (low, 0) => self.quantity_256(low),
            _ => self.string(&format!("{balance:#x}")),
        }
    }

    /// Bytes in hexadecimal, `"0x"` for none.
    pub fn data(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.separate();
        let start = self.buffer.len();
        // Resized to the final length and filled with quotes, so that memory is requested once.
        self.buffer.resize(start + bytes.len() * 2 + 4, b'"');
        let text = &mut self.buffer[start + 1..];
        text[..2].copy_from_slice(b"0x");
        let written = hex::encode_to_slice(bytes, &mut text[2..2 + bytes.len() * 2]);
        debug_assert!(written.is_ok(), "the buffer has the exact length");
    }

    /// Bytes in hexadecimal without prefix.
    pub(crate) fn bare_data(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.separate();
        let start = self.buffer.len();
        self.buffer.resize(start + bytes.len() * 2 + 2, b'"');
        let written = hex::encode_to_slice(bytes, &mut self.buffer[start + 1..start + 1 + bytes.len() * 2]);
        debug_assert!(written.is_ok(), "the buffer has the exact length");
    }

    /// Starts a member whose name is bytes in hexadecimal.
    pub(crate) fn data_key(&mut self, name: impl AsRef<[u8]>) -> &mut Self {
        self.data(name);
        self.buffer.push(b':');
        self
    }

    /// Starts a member whose name is bytes in hexadecimal without prefix.
    pub(crate) fn bare_data_key(&mut self, name: impl AsRef<[u8]>) -> &mut Self {
        self.bare_data(name);
        self.buffer.push(b':');
        self
    }

    /// A number in decimal digits.
    pub(crate) fn number(&mut self, value: u64) {
        self.separate();
        // Written from the last digit to the first.
        let (mut text, mut start, mut left) = ([0_u8; 20], 20, value);
        loop {
            start -= 1;
            text[start] = b"0123456789"[(left % 10) as usize];
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.buffer.extend_from_slice(&text[start..]);
    }

    /// Bytes in hexadecimal, or `null`.
    pub fn optional_data(&mut self, bytes: Option<impl AsRef<[u8]>>) {
        match bytes {
            Some(bytes) => self.data(bytes),
            None => self.null(),
        }
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, value: bool) {
        self.raw(if value { "true" } else { "false" });
    }

    /// `null`.
    pub fn null(&mut self) {
        self.raw("null");
    }

    /// A string with the reference's escapes.
    pub fn string(&mut self, text: &str) {
        self.separate();
        // A string always has a JSON form; if writing it ever failed, the text would still be well formed.
        let quoted = crate::output::to_json(text).unwrap_or_else(|_| b"\"\"".to_vec());
        self.buffer.extend_from_slice(&quoted);
    }

    /// A string with only the escapes that JSON requires, as in the results of traces.
    pub(crate) fn text(&mut self, text: &str) {
        self.separate();
        if text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\') || byte == b' ') {
            self.buffer.push(b'"');
            self.buffer.extend_from_slice(text.as_bytes());
            self.buffer.push(b'"');
        } else {
            self.buffer.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
        }
    }

    /// A float in its shortest form; values that JSON cannot express become `0`.
    pub fn float(&mut self, value: f64) {
        if value.is_finite() && value.fract() == 0.0 && value.abs() < 1e15 {
            self.raw(&format!("{value:.0}"));
        } else if value.is_finite() {
            self.raw(&serde_json::to_string(&value).unwrap_or_else(|_| "0".to_owned()));
        } else {
            self.raw("0");
        }
    }

    /// Finished JSON of another writer. It is not copied if nothing is written yet.
    pub(crate) fn append(&mut self, json: Self) {
        if self.buffer.is_empty() {
            self.buffer = json.buffer;
        } else {
            self.separate();
            self.buffer.extend_from_slice(&json.buffer);
        }
    }

    /// Finished JSON.
    pub fn raw(&mut self, json: &str) {
        self.separate();
        self.buffer.extend_from_slice(json.as_bytes());
    }

    /// Writes a comma unless this is the first item of a container, or the value of a member.
    #[inline]
    fn separate(&mut self) {
        if !matches!(self.buffer.last(), None | Some(b'{' | b'[' | b':')) {
            self.buffer.push(b',');
        }
    }
}

/// Lets a method return written JSON inside other values. The text is parsed to check it. A method's own result, and a
/// notification of [`Sink::send_written`](crate::Sink::send_written), are passed on unchecked.
impl Serialize for JsonWriter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value: &RawValue = serde_json::from_slice(&self.buffer).map_err(S::Error::custom)?;
        value.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_can_return_written_json() {
        let mut json = JsonWriter::default();
        json.begin_list();
        json.quantity(1);
        json.string("<");
        json.end_list();

        let text = crate::output::to_json(&json).expect("JSON");

        assert_eq!(text, br#"["0x1","\u003c"]"#);
    }

    fn written(write: impl FnOnce(&mut JsonWriter)) -> String {
        let mut json = JsonWriter::default();
        write(&mut json);
        json.into_string()
    }

    #[test]
    fn a_balance_has_as_many_digits_as_it_needs() {
        let balance = |low, balance_high| {
            let account = Account { balance: low, balance_high, ..Account::default() };
            written(|json| json.balance(&account))
        };
        assert_eq!(balance(U256::from(16), 0), "\"0x10\"");
        assert_eq!(balance(U256::MAX, 0), format!("\"0x{}\"", "f".repeat(64)));
        assert_eq!(balance(U256::ZERO, 1), format!("\"0x1{}\"", "0".repeat(64)));
        assert_eq!(balance(U256::from(0xab), 0x2_0000), format!("\"0x20000{}ab\"", "0".repeat(62)));
    }

    #[test]
    fn quantities_have_no_leading_zeros() {
        let cases = [
            (U256::ZERO, "0x0"),
            (U256::from(1), "0x1"),
            (U256::from(16), "0x10"),
            (U256::from(0xfff), "0xfff"),
            (U256::from(u64::MAX), "0xffffffffffffffff"),
            (U256::from(1) << 64, "0x10000000000000000"),
            (U256::MAX, "0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"),
        ];

        for (value, expected) in cases {
            assert_eq!(written(|json| json.quantity_256(value)), format!("\"{expected}\""));
        }
    }

    #[test]
    fn numbers_and_names_of_members_need_no_other_text() {
        for number in [0, 7, 10, 1_234_567_890, u64::MAX] {
            assert_eq!(written(|json| json.number(number)), number.to_string());
        }
        let text = written(|json| {
            json.begin_object();
            json.data_key([1]).number(2);
            json.bare_data_key([3]).bare_data([4, 0]);
            json.key("a").text("<b> \"\n\u{7f}é");
            json.end_object();
        });
        assert_eq!(text, "{\"0x01\":2,\"03\":\"0400\",\"a\":\"<b> \\\"\\n\u{7f}é\"}");
    }

    #[test]
    fn data_keeps_its_leading_zeros_and_may_be_empty() {
        assert_eq!(written(|json| json.data([0, 1, 0xab])), r#""0x0001ab""#);
        assert_eq!(written(|json| json.data([])), r#""0x""#);
        assert_eq!(written(|json| json.optional_data(None::<[u8; 1]>)), "null");
    }

    #[test]
    fn commas_separate_members_and_items_only() {
        let text = written(|json| {
            json.begin_object();
            json.key("a");
            json.begin_list();
            json.quantity(1);
            json.null();
            json.begin_object();
            json.end_object();
            json.boolean(true);
            json.end_list();
            json.key("b").string("x\"y:{[");
            json.key("c").float(0.5);
            json.key("d").float(1.0);
            json.end_object();
        });

        assert_eq!(text, r#"{"a":["0x1",null,{},true],"b":"x\"y:{[","c":0.5,"d":1}"#);
    }
}
