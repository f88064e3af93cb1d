//! Finds the error with which Go's RLP decoder refuses a transaction. The node's own decoder refuses the same bytes
//! with other texts (`docs/spec/rpc-eth.md` 12).
//!
//! It checks the bytes in the order of Go's stream decoder, field by field, and tracks the bytes left in the open
//! lists, because the order of the checks decides which of several defects is reported. It keeps no decoded value.
//!
//! Implemented here, because alloy-rlp reports other errors, in another order.

use crate::dialect::Dialect;

/// The Go type of a transaction's field.
#[derive(Clone, Copy)]
enum Kind {
    Uint64,
    BigInt,
    /// A pointer; an empty string means no address.
    Receiver,
    Bytes,
    AccessList,
}

type Field = (&'static str, Kind);

const LEGACY: [Field; 9] = [
    ("Nonce", Kind::Uint64),
    ("GasPrice", Kind::BigInt),
    ("Gas", Kind::Uint64),
    ("To", Kind::Receiver),
    ("Value", Kind::BigInt),
    ("Data", Kind::Bytes),
    ("V", Kind::BigInt),
    ("R", Kind::BigInt),
    ("S", Kind::BigInt),
];

const WITH_ACCESS_LIST: [Field; 11] = [
    ("ChainID", Kind::BigInt),
    ("Nonce", Kind::Uint64),
    ("GasPrice", Kind::BigInt),
    ("Gas", Kind::Uint64),
    ("To", Kind::Receiver),
    ("Value", Kind::BigInt),
    ("Data", Kind::Bytes),
    ("AccessList", Kind::AccessList),
    ("V", Kind::BigInt),
    ("R", Kind::BigInt),
    ("S", Kind::BigInt),
];

const WITH_DYNAMIC_FEE: [Field; 12] = [
    ("ChainID", Kind::BigInt),
    ("Nonce", Kind::Uint64),
    ("GasTipCap", Kind::BigInt),
    ("GasFeeCap", Kind::BigInt),
    ("Gas", Kind::Uint64),
    ("To", Kind::Receiver),
    ("Value", Kind::BigInt),
    ("Data", Kind::Bytes),
    ("AccessList", Kind::AccessList),
    ("V", Kind::BigInt),
    ("R", Kind::BigInt),
    ("S", Kind::BigInt),
];

/// Why Go's decoder refuses the bytes of a transaction of type 0, 1 or 2; `None` if it accepts them, and for other
/// types on Ethereum chains.
pub(crate) fn refusal(dialect: &Dialect, raw: &[u8]) -> Option<String> {
    let (list, name, fields): (_, _, &[Field]) = match raw {
        [] | [0..=0x7f] => return Some("typed transaction too short".to_owned()),
        [1, list @ ..] => (list, "types.AccessListTx", &WITH_ACCESS_LIST),
        [2, list @ ..] => (list, "types.DynamicFeeTx", &WITH_DYNAMIC_FEE),
        [0..=0x7f, ..] => return dialect.refuses_later_types.then(|| "transaction type not supported".to_owned()),
        list => (list, "types.LegacyTx", &LEGACY),
    };
    let mut stream = Stream { rest: list, lists: Lists::default() };
    let refused = stream
        .transaction(name, fields)
        .err()
        .or_else(|| (!stream.rest.is_empty()).then(|| Refusal::plain("input contains more than one value")));
    refused.map(|refusal| refusal.words(name))
}

/// A refusal of the decoder.
#[derive(Debug)]
struct Refusal {
    message: &'static str,
    /// The Go type to decode into; `None` where the decoder names none.
    of: Option<&'static str>,
    /// The transaction's field with the defect. The fields below locate the defect inside it.
    field: Option<&'static str>,
    /// Index of the element in the access list; then the member of that element.
    element: Option<usize>,
    member: Option<&'static str>,
    key: Option<usize>,
}

impl Refusal {
    const fn plain(message: &'static str) -> Self {
        Self { message, of: None, field: None, element: None, member: None, key: None }
    }

    const fn of(message: &'static str, name: &'static str) -> Self {
        Self { of: Some(name), ..Self::plain(message) }
    }

    fn words(&self, transaction: &str) -> String {
        let Some(name) = self.of else { return format!("rlp: {}", self.message) };
        let mut words = format!("rlp: {} for {name}", self.message);
        if let Some(field) = self.field {
            words.push_str(&format!(", decoding into ({transaction}).{field}"));
        }
        if let Some(element) = self.element {
            words.push_str(&format!("[{element}]"));
        }
        if let Some(member) = self.member {
            words.push_str(&format!(".{member}"));
        }
        if let Some(key) = self.key {
            words.push_str(&format!("[{key}]"));
        }
        words
    }
}

/// Why a value could not be read.
enum Stop {
    /// The list has no further value.
    EndOfList,
    Refused(Refusal),
}

impl Stop {
    const fn plain(message: &'static str) -> Self {
        Self::Refused(Refusal::plain(message))
    }
}

const NON_CANONICAL_SIZE: &str = "non-canonical size information";
const NON_CANONICAL_INTEGER: &str = "non-canonical integer (leading zero bytes)";
const EXPECTED_LIST: &str = "expected input list";
const EXPECTED_STRING: &str = "expected input string or byte";
const TOO_LONG: &str = "input string too long";
const TOO_SHORT: &str = "input string too short";
const TOO_MANY: &str = "input list has too many elements";
/// These errors name no type: they concern the bytes, not the value.
const ELEMENT_TOO_LARGE: &str = "element is larger than containing list";
const VALUE_TOO_LARGE: &str = "value size exceeds available input length";

/// The errors that name the type of the value.
fn is_named(message: &str) -> bool {
    [NON_CANONICAL_SIZE, NON_CANONICAL_INTEGER, EXPECTED_LIST, EXPECTED_STRING, TOO_LONG, TOO_MANY].contains(&message)
}

/// Bytes left in the open lists: the transaction, its access list, an element of that, its keys.
#[derive(Default)]
struct Lists {
    left: [u64; 4],
    open: usize,
}

impl Lists {
    fn innermost(&mut self) -> Option<&mut u64> {
        self.left.get_mut(self.open.checked_sub(1)?)
    }

    fn push(&mut self, size: u64) {
        if let Some(place) = self.left.get_mut(self.open) {
            *place = size;
            self.open += 1;
        }
    }
}

/// The head of a value.
enum Head {
    Byte(u8),
    String(u64),
    List(u64),
}

struct Stream<'a> {
    rest: &'a [u8],
    lists: Lists,
}

impl<'a> Stream<'a> {
    fn transaction(&mut self, name: &'static str, fields: &[Field]) -> Result<(), Refusal> {
        let opened = self.list(name).map_err(|stop| match stop {
            Stop::Refused(refusal) => refusal,
            Stop::EndOfList => Refusal::plain("EOF"),
        });
        opened?;
        for (field, kind) in fields {
            let read = match kind {
                Kind::Uint64 => self.string("uint64", 8, true),
                Kind::BigInt => self.string("*big.Int", u64::MAX, true),
                Kind::Receiver => self.receiver(),
                Kind::Bytes => self.string("[]uint8", u64::MAX, false),
                Kind::AccessList => self.access_list(),
            };
            match read {
                Ok(()) => {}
                Err(Stop::EndOfList) => return Err(Refusal::of("too few elements", name)),
                Err(Stop::Refused(refusal)) => return Err(Refusal { field: Some(field), ..refusal }),
            }
        }
        self.end_list(name)
    }

    /// Reads the head of the next value, and checks its size against the innermost list and the input.
    fn head(&mut self) -> Result<Head, Stop> {
        let limit = self.lists.innermost().map(|left| *left);
        if limit == Some(0) {
            return Err(Stop::EndOfList);
        }
        let [first] = *self.take(1)? else { return Err(Stop::plain(VALUE_TOO_LARGE)) };
        let (size, is_list) = match first {
            0..=0x7f => return Ok(Head::Byte(first)),
            0x80..=0xb7 => (u64::from(first - 0x80), false),
            0xb8..=0xbf => (self.size(first - 0xb7)?, false),
            0xc0..=0xf7 => (u64::from(first - 0xc0), true),
            0xf8..=0xff => (self.size(first - 0xf7)?, true),
        };
        if limit.is_some_and(|limit| size > limit) {
            return Err(Stop::plain(ELEMENT_TOO_LARGE));
        }
        if size > self.rest.len() as u64 {
            return Err(Stop::plain(VALUE_TOO_LARGE));
        }
        Ok(if is_list { Head::List(size) } else { Head::String(size) })
    }

    /// The size in a head of several bytes.
    fn size(&mut self, digits: u8) -> Result<u64, Stop> {
        let digits = self.take(u64::from(digits))?;
        let size = digits.iter().fold(0_u64, |size, digit| size << 8 | u64::from(*digit));
        // A single digit of zero is below 56 too.
        if digits.first() == Some(&0) || size < 56 {
            return Err(Stop::plain(NON_CANONICAL_SIZE));
        }
        Ok(size)
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], Stop> {
        if let Some(left) = self.lists.innermost() {
            *left = left.checked_sub(count).ok_or(Stop::plain(ELEMENT_TOO_LARGE))?;
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Stop::plain(VALUE_TOO_LARGE))?;
        self.rest = rest;
        Ok(taken)
    }

    fn list(&mut self, name: &'static str) -> Result<u64, Stop> {
        match self.head() {
            Ok(Head::List(size)) => {
                if let Some(left) = self.lists.innermost() {
                    // The size wraps around if a list ends one byte after its outer list, as in Go.
                    *left = left.wrapping_sub(size);
                }
                self.lists.push(size);
                Ok(size)
            }
            Ok(_) => Err(Stop::Refused(Refusal::of(EXPECTED_LIST, name))),
            Err(stop) => Err(named(stop, name)),
        }
    }

    fn end_list(&mut self, name: &'static str) -> Result<(), Refusal> {
        if self.lists.innermost().is_some_and(|left| *left > 0) {
            return Err(Refusal::of(TOO_MANY, name));
        }
        self.lists.open = self.lists.open.saturating_sub(1);
        Ok(())
    }

    /// A value that is not a list, of at most `max` bytes.
    fn string(&mut self, name: &'static str, max: u64, is_integer: bool) -> Result<(), Stop> {
        let refused = |message| Err(Stop::Refused(Refusal::of(message, name)));
        match self.head().map_err(|stop| named(stop, name))? {
            Head::Byte(0) if is_integer => refused(NON_CANONICAL_INTEGER),
            Head::Byte(_) => Ok(()),
            Head::String(size) if size > max => refused(TOO_LONG),
            Head::String(size) => match self.take(size).map_err(|stop| named(stop, name))? {
                // Also a single zero byte of an integer: its size is not minimal.
                [single] if *single < 0x80 => refused(NON_CANONICAL_SIZE),
                [0, ..] if is_integer => refused(NON_CANONICAL_INTEGER),
                _ => Ok(()),
            },
            Head::List(_) => refused(EXPECTED_STRING),
        }
    }

    fn receiver(&mut self) -> Result<(), Stop> {
        const POINTER: &str = "*common.Address";
        match self.head().map_err(|stop| named(stop, POINTER))? {
            Head::String(0) => Ok(()),
            Head::List(0) => {
                let message = "wrong kind of empty value (got List, want String)";
                Err(Stop::Refused(Refusal::of(message, POINTER)))
            }
            head => self.fixed(head, 20, "common.Address"),
        }
    }

    /// A value of a fixed number of bytes, after its head.
    fn fixed(&mut self, head: Head, length: u64, name: &'static str) -> Result<(), Stop> {
        let refused = |message| Err(Stop::Refused(Refusal::of(message, name)));
        match head {
            Head::Byte(_) => refused(TOO_SHORT),
            Head::String(size) if size > length => refused(TOO_LONG),
            Head::String(size) if size < length => refused(TOO_SHORT),
            Head::String(size) => self.take(size).map(drop),
            Head::List(_) => refused(EXPECTED_STRING),
        }
    }

    fn access_list(&mut self) -> Result<(), Stop> {
        const NAME: &str = "types.AccessList";
        self.list(NAME)?;
        for element in 0.. {
            match self.access_list_element() {
                Ok(()) => {}
                Err(Stop::EndOfList) => break,
                Err(Stop::Refused(refusal)) => {
                    return Err(Stop::Refused(Refusal { element: Some(element), ..refusal }));
                }
            }
        }
        self.end_list(NAME).map_err(Stop::Refused)
    }

    fn access_list_element(&mut self) -> Result<(), Stop> {
        const NAME: &str = "types.AccessTuple";
        self.list(NAME)?;
        let address = self.head().and_then(|head| self.fixed(head, 20, "common.Address"));
        member_read(address, "Address", NAME)?;
        let keys = self.storage_keys();
        member_read(keys, "StorageKeys", NAME)?;
        self.end_list(NAME).map_err(Stop::Refused)
    }

    fn storage_keys(&mut self) -> Result<(), Stop> {
        const NAME: &str = "[]common.Hash";
        self.list(NAME)?;
        for key in 0.. {
            match self.head().and_then(|head| self.fixed(head, 32, "common.Hash")) {
                Ok(()) => {}
                Err(Stop::EndOfList) => break,
                Err(Stop::Refused(refusal)) => return Err(Stop::Refused(Refusal { key: Some(key), ..refusal })),
            }
        }
        self.end_list(NAME).map_err(Stop::Refused)
    }
}

/// Adds the Go type to an error of a head or a size, where Go does.
fn named(stop: Stop, name: &'static str) -> Stop {
    match stop {
        Stop::Refused(refusal) if refusal.of.is_none() && is_named(refusal.message) => {
            Stop::Refused(Refusal { of: Some(name), ..refusal })
        }
        stop => stop,
    }
}

/// Adds the member of the access list's element to an error.
fn member_read(read: Result<(), Stop>, member: &'static str, element: &'static str) -> Result<(), Stop> {
    match read {
        Err(Stop::EndOfList) => Err(Stop::Refused(Refusal::of("too few elements", element))),
        Err(Stop::Refused(refusal)) => Err(Stop::Refused(Refusal { member: Some(member), ..refusal })),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use tenon_sdk::prelude::Bytes;

    use super::*;

    /// Recorded from the reference, v2.7.0, over `eth_sendRawTransaction`.
    #[test]
    fn transactions_are_refused_with_the_texts_of_the_reference() {
        let recorded = include_str!("../tests/data/refused_transactions.txt");
        let mut count = 0;
        for line in recorded.lines().filter(|line| !line.starts_with('#')) {
            let (raw, words) = line.split_once(' ').expect("a case is bytes and words");
            let raw: Bytes = format!("0x{raw}").parse().expect("bytes");
            assert_eq!(refusal(&Dialect::NATIVE, &raw).as_deref(), Some(words), "{raw:02x?}");
            count += 1;
        }
        assert!(count > 100, "{count}");
    }

    #[test]
    fn transactions_of_newer_types_are_left_to_the_nodes_decoder_on_ethereum() {
        assert_eq!(refusal(&Dialect::ETHEREUM, &[3, 0xc0]), None);
        assert_eq!(
            refusal(&Dialect::ETHEREUM, &[2, 0xc0]).as_deref(),
            Some("rlp: too few elements for types.DynamicFeeTx")
        );
    }
}
