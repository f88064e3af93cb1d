//! A strict RLP reader that tracks its offset, and the writers shared by all codecs here.

use alloy_primitives::{Address, B256, U256};
use alloy_rlp::{Encodable, Error as RlpError, Header as RlpHeader};

use super::error::{DecodeError, DecodeProblem};

/// Reads consecutive RLP items. Every error contains the offset from the start of the caller's input.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    /// Offset of the end of `rest`; the offset of its start is this minus its length.
    end: usize,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(input: &'a [u8]) -> Self {
        Self { rest: input, end: input.len() }
    }

    pub(crate) const fn offset(&self) -> usize {
        self.end - self.rest.len()
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) const fn error(&self, what: &'static str, problem: DecodeProblem) -> DecodeError {
        DecodeError::new(what, self.offset(), problem)
    }

    /// Returns whether the next item is a list; `None` at the end.
    pub(crate) fn next_is_list(&self) -> Option<bool> {
        self.rest.first().map(|byte| *byte >= 0xc0)
    }

    fn take(&mut self, what: &'static str, list: bool) -> Result<Self, DecodeError> {
        let mut after = self.rest;
        let header = RlpHeader::decode(&mut after).map_err(|error| self.error(what, problem_of(error)))?;
        if header.list != list {
            let problem = if list { DecodeProblem::UnexpectedString } else { DecodeProblem::UnexpectedList };
            return Err(self.error(what, problem));
        }
        // `RlpHeader::decode` has checked that the payload is complete.
        let (payload, rest) = after.split_at(header.payload_length);
        self.rest = rest;
        Ok(Self { rest: payload, end: self.end - rest.len() })
    }

    /// The content of the next item, which must be a list.
    pub(crate) fn list(&mut self, what: &'static str) -> Result<Self, DecodeError> {
        self.take(what, true)
    }

    /// The content of the next item, which must be a byte string, as a reader of its own.
    pub(crate) fn string(&mut self, what: &'static str) -> Result<Self, DecodeError> {
        self.take(what, false)
    }

    pub(crate) fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        Ok(self.take(what, false)?.rest)
    }

    /// The next item of any kind with its length prefix.
    pub(crate) fn raw_item(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let before = self.rest;
        let list = self.next_is_list().unwrap_or_default();
        self.take(what, list)?;
        Ok(&before[..before.len() - self.rest.len()])
    }

    /// The number of remaining items.
    pub(crate) fn count_items(&self, what: &'static str) -> Result<usize, DecodeError> {
        let mut probe = *self;
        let mut count = 0;
        while !probe.is_empty() {
            probe.raw_item(what)?;
            count += 1;
        }
        Ok(count)
    }

    pub(crate) fn fixed<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let start = *self;
        let bytes = self.bytes(what)?;
        bytes.try_into().map_err(|_| start.error(what, DecodeProblem::WrongLength { wanted: N, found: bytes.len() }))
    }

    pub(crate) fn hash(&mut self, what: &'static str) -> Result<B256, DecodeError> {
        Ok(B256::new(self.fixed(what)?))
    }

    pub(crate) fn address(&mut self, what: &'static str) -> Result<Address, DecodeError> {
        Ok(Address::new(self.fixed(what)?))
    }

    /// A byte string of a length known only at run time.
    pub(crate) fn fixed_slice(&mut self, what: &'static str, wanted: usize) -> Result<&'a [u8], DecodeError> {
        let start = *self;
        let bytes = self.bytes(what)?;
        if bytes.len() != wanted {
            return Err(start.error(what, DecodeProblem::WrongLength { wanted, found: bytes.len() }));
        }
        Ok(bytes)
    }

    /// A reader for the part after the type byte of a typed transaction.
    pub(crate) fn after_type_byte(mut self) -> Self {
        self.rest = self.rest.get(1..).unwrap_or_default();
        self
    }

    /// The bytes of an integer of at most `width` bytes, which must be in its shortest form.
    pub(crate) fn integer(&mut self, what: &'static str, width: usize) -> Result<&'a [u8], DecodeError> {
        let start = *self;
        let bytes = self.bytes(what)?;
        if bytes.first() == Some(&0) {
            return Err(start.error(what, DecodeProblem::LeadingZero));
        }
        if bytes.len() > width {
            return Err(start.error(what, DecodeProblem::TooLarge));
        }
        Ok(bytes)
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(self.integer(what, 1)?.first().copied().unwrap_or_default())
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        let bytes = self.integer(what, 8)?;
        Ok(bytes.iter().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
    }

    pub(crate) fn u256(&mut self, what: &'static str) -> Result<U256, DecodeError> {
        Ok(U256::from_be_slice(self.integer(what, 32)?))
    }

    /// Fails if input is left.
    pub(crate) fn finish(self, what: &'static str) -> Result<(), DecodeError> {
        if self.is_empty() {
            return Ok(());
        }
        Err(self.error(what, DecodeProblem::TrailingBytes { count: self.rest.len() }))
    }

    /// Fails if items are left in a list of fixed length.
    pub(crate) fn finish_list(self, what: &'static str, items: usize) -> Result<(), DecodeError> {
        if self.is_empty() {
            return Ok(());
        }
        Err(self.error(what, DecodeProblem::WrongItemCount { found: items + 1 }))
    }
}

const fn problem_of(error: RlpError) -> DecodeProblem {
    match error {
        RlpError::LeadingZero | RlpError::NonCanonicalSingleByte | RlpError::NonCanonicalSize => {
            DecodeProblem::NotMinimal
        }
        _ => DecodeProblem::TooShort,
    }
}

/// Writes a list whose items `write` appends, without knowing its length in advance.
pub(crate) fn write_list(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    write_wrapped(out, true, write);
}

/// Writes a byte string whose content `write` appends. The content must be longer than one byte.
pub(crate) fn write_string(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    write_wrapped(out, false, write);
}

fn write_wrapped(out: &mut Vec<u8>, list: bool, write: impl FnOnce(&mut Vec<u8>)) {
    // The content is written after a gap for a one-byte prefix, which suffices for most lists. The content of a longer
    // list is moved.
    let start = out.len();
    out.push(0);
    write(out);
    let payload_length = out.len() - start - 1;
    let header = RlpHeader { list, payload_length };
    let mut prefix = Vec::with_capacity(9);
    header.encode(&mut prefix);
    out.splice(start..=start, prefix);
}

pub(crate) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    bytes.encode(out);
}

/// An address, or the empty string for `None`.
pub(crate) fn write_receiver(out: &mut Vec<u8>, to: Option<Address>) {
    match to {
        Some(address) => address.encode(out),
        None => out.push(alloy_rlp::EMPTY_STRING_CODE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_offset_in_the_whole_input() {
        let encoded = [0xc4, 0x01, 0xc2, 0x82, 0x00];
        let mut outer = Reader::new(&encoded).list("outer").unwrap();
        outer.u64("first").unwrap();

        let error = outer.list("inner").unwrap().u64("number").unwrap_err();

        assert_eq!(error, DecodeError::new("number", 3, DecodeProblem::TooShort));
    }

    #[test]
    fn integers_have_one_form_and_a_maximum_width() {
        let cases: [(&[u8], Result<u64, DecodeProblem>); 7] = [
            (&[0x80], Ok(0)),
            (&[0x7f], Ok(127)),
            (&[0x81, 0x80], Ok(128)),
            (&[0x00], Err(DecodeProblem::LeadingZero)),
            (&[0x82, 0x00, 0x80], Err(DecodeProblem::LeadingZero)),
            (&[0x81, 0x7f], Err(DecodeProblem::NotMinimal)),
            (&[0x89, 1, 0, 0, 0, 0, 0, 0, 0, 0], Err(DecodeProblem::TooLarge)),
        ];
        for (encoded, wanted) in cases {
            let found = Reader::new(encoded).u64("number").map_err(|error| error.problem);
            assert_eq!(found, wanted, "{encoded:?}");
        }
    }
}
