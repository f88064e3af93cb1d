//! `console.log` of contracts: calls to an address without code, whose selector says of which types the arguments are.

use std::collections::HashMap;
use std::sync::LazyLock;

use alloy_primitives::{Address, I256, U256, address};

use super::abi::{bytes, selector, shown, shown_bytes, shown_hex, word};

/// The address that Hardhat's and Foundry's console library calls: `console.log` in ASCII.
pub(super) const ADDRESS: Address = address!("000000000000000000636F6e736F6c652e6c6f67");

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Signed,
    Text,
    Flag,
    Account,
    Data,
    /// This many bytes.
    Fixed(usize),
}

/// The types that every combination of up to four arguments may have. Old releases of the library hashed `uint`.
const COMBINED: [(&str, Kind); 4] =
    [("uint256", Kind::Number), ("string", Kind::Text), ("bool", Kind::Flag), ("address", Kind::Account)];
/// Maximum number of arguments of such a combination.
const MAX_ARGUMENTS: usize = 4;

static SIGNATURES: LazyLock<HashMap<[u8; 4], Vec<Kind>>> = LazyLock::new(signatures);

fn signatures() -> HashMap<[u8; 4], Vec<Kind>> {
    let mut known = HashMap::new();
    let mut lists: Vec<Vec<(&str, Kind)>> = vec![Vec::new()];
    for _ in 0..=MAX_ARGUMENTS {
        let mut longer = Vec::new();
        for list in lists {
            let names: Vec<_> = list.iter().map(|(name, _)| *name).collect();
            let kinds: Vec<_> = list.iter().map(|(_, kind)| *kind).collect();
            let signature = format!("log({})", names.join(","));
            known.insert(selector(&signature.replace("uint256", "uint")), kinds.clone());
            known.insert(selector(&signature), kinds);
            longer.extend(COMBINED.map(|argument| [list.clone(), vec![argument]].concat()));
        }
        lists = longer;
    }
    let single = [("int256", Kind::Signed), ("int", Kind::Signed), ("bytes", Kind::Data)];
    for (name, kind) in single {
        known.insert(selector(&format!("log({name})")), vec![kind]);
    }
    known.insert(selector("log(string,int256)"), vec![Kind::Text, Kind::Signed]);
    for length in 1..=32 {
        known.insert(selector(&format!("log(bytes{length})")), vec![Kind::Fixed(length)]);
    }
    known
}

/// The line that a call of the library prints; `None` for other calls.
pub(super) fn decode(input: &[u8]) -> Option<String> {
    let (called, arguments) = input.split_first_chunk::<4>()?;
    let kinds = SIGNATURES.get(called)?;
    let values: Vec<String> =
        kinds.iter().enumerate().map(|(index, kind)| value(*kind, arguments, index)).collect::<Option<_>>()?;
    let is_format = kinds.first() == Some(&Kind::Text) && values.len() > 1;
    Some(shown(&if is_format { formatted(&values) } else { values.join(" ") }))
}

fn value(kind: Kind, arguments: &[u8], index: usize) -> Option<String> {
    let word = word(arguments, index)?;
    Some(match kind {
        Kind::Number => U256::from_be_slice(word).to_string(),
        Kind::Signed => I256::from_be_bytes(*word).to_string(),
        Kind::Text => shown_bytes(bytes(arguments, index)?),
        Kind::Flag => (U256::from_be_slice(word) != U256::ZERO).to_string(),
        Kind::Account => Address::from_slice(&word[12..]).to_string(),
        Kind::Data => shown_hex(bytes(arguments, index)?),
        Kind::Fixed(length) => shown_hex(word.get(..length)?),
    })
}

/// The first value with the others in the places of its `%s`, `%d`, `%i` and `%o`; those that are left follow it.
fn formatted(values: &[String]) -> String {
    let Some((format, values)) = values.split_first() else { return String::new() };
    let mut values = values.iter();
    let mut text = String::with_capacity(format.len());
    let mut rest = format.as_str();
    while let Some(at) = rest.find('%') {
        let (before, mark) = rest.split_at(at);
        text.push_str(before);
        let is_place = matches!(mark.as_bytes().get(1), Some(b's' | b'd' | b'i' | b'o'));
        match values.as_slice().first().filter(|_| is_place) {
            Some(value) => {
                values.next();
                text.push_str(value);
                rest = &mark[2..];
            }
            None => {
                text.push('%');
                rest = &mark[1..];
            }
        }
    }
    text.push_str(rest);
    values.fold(text, |text, value| text + " " + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: u64) -> Vec<u8> {
        U256::from(number).to_be_bytes::<32>().to_vec()
    }

    fn text(text: &str) -> Vec<u8> {
        let mut bytes = number(text.len() as u64);
        bytes.extend(text.as_bytes());
        bytes.resize(32 + text.len().div_ceil(32) * 32, 0);
        bytes
    }

    fn call(signature: &str, arguments: &[Vec<u8>]) -> Option<String> {
        decode(&[selector(signature).to_vec(), arguments.concat()].concat())
    }

    #[test]
    fn knows_the_librarys_selectors() {
        // As the published library has them.
        for (hexadecimal, signature) in [
            ("51973ec9", "log()"),
            ("41304fac", "log(string)"),
            ("f82c50f1", "log(uint256)"),
            ("f5b1bba9", "log(uint)"),
            ("b60e72cc", "log(string,uint256)"),
            ("2d5b6cb9", "log(int256)"),
        ] {
            let bytes: [u8; 4] = alloy_primitives::hex::decode_to_array(hexadecimal).unwrap();
            assert_eq!(selector(signature), bytes, "{signature}");
            assert!(SIGNATURES.contains_key(&bytes), "{signature}");
        }
    }

    #[test]
    fn says_values_of_every_type() {
        let minus_one = vec![0xff; 32];
        let account = [vec![0; 12], vec![0x11; 20]].concat();
        for (said, expected) in [
            (call("log()", &[]), ""),
            (call("log(uint256)", &[number(42)]), "42"),
            (call("log(int256)", &[minus_one]), "-1"),
            (call("log(bool,bool)", &[number(1), number(0)]), "true false"),
            (call("log(address)", &[account]), "0x1111111111111111111111111111111111111111"),
            (call("log(string)", &[number(32), text("hello")]), "hello"),
            (call("log(bytes)", &[number(32), text("ab")]), "0x6162"),
            (call("log(bytes2)", &[[vec![1, 2], vec![0; 30]].concat()]), "0x0102"),
            (call("log(string,uint256)", &[number(64), number(7), text("is")]), "is 7"),
        ] {
            assert_eq!(said.as_deref(), Some(expected));
        }
    }

    #[test]
    fn puts_values_into_their_places() {
        let said = |format: &str| call("log(string,uint256)", &[number(64), number(7), text(format)]).unwrap();

        assert_eq!(said("%d items"), "7 items");
        assert_eq!(said("100% of %s %s"), "100% of 7 %s");
        assert_eq!(said("items"), "items 7");
        assert_eq!(said("at the end %"), "at the end % 7");
    }

    #[test]
    fn says_nothing_of_calls_that_are_torn_or_another_librarys() {
        for input in [&[][..], &[1, 2, 3], &[1, 2, 3, 4], &selector("log(string)"), &selector("log(uint256)")] {
            assert_eq!(decode(input), None, "{input:?}");
        }
        assert_eq!(call("log(string)", &[vec![0xff; 32]]), None);
    }

    #[test]
    fn shows_no_control_characters() {
        assert_eq!(call("log(string)", &[number(32), text("a\u{1b}]0;x\u{7}b\nc")]).as_deref(), Some("a]0;xbc"));
    }
}
