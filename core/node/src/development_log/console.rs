//! `console.log` of contracts: calls to an address without code, whose selector gives the types of the arguments.

use std::collections::HashMap;
use std::sync::LazyLock;

use alloy_dyn_abi::{DynSolType, DynSolValue};
use alloy_primitives::{Address, address};

use super::abi::{selector, shown, shown_hex};

/// The address that Hardhat's and Foundry's console library calls: `console.log` in ASCII.
pub(super) const ADDRESS: Address = address!("000000000000000000636F6e736F6c652e6c6f67");

/// The types that every combination of up to four arguments may have.
const COMBINED: [&str; 4] = ["uint256", "string", "bool", "address"];
/// Maximum number of arguments of such a combination.
const MAX_ARGUMENTS: usize = 4;

/// The types of the arguments of each function of the library.
static SIGNATURES: LazyLock<HashMap<[u8; 4], DynSolType>> = LazyLock::new(signatures);

fn signatures() -> HashMap<[u8; 4], DynSolType> {
    let mut known = HashMap::new();
    let mut add = |types: &str| {
        let Ok(arguments) = format!("({types})").parse::<DynSolType>() else { return };
        // Old releases of the library hashed `uint`.
        known.insert(selector(&format!("log({})", types.replace("uint256", "uint"))), arguments.clone());
        known.insert(selector(&format!("log({types})")), arguments);
    };
    let mut lists = vec![Vec::new()];
    for _ in 0..=MAX_ARGUMENTS {
        lists.iter().for_each(|list: &Vec<&str>| add(&list.join(",")));
        lists = lists.iter().flat_map(|list| COMBINED.map(|next| [&list[..], &[next]].concat())).collect();
    }
    ["int256", "int", "bytes", "string,int256"].into_iter().for_each(&mut add);
    (1..=32).for_each(|length| add(&format!("bytes{length}")));
    known
}

/// The line logged by a call of the library; `None` if it is not such a call.
pub(super) fn decode(input: &[u8]) -> Option<String> {
    let (called, arguments) = input.split_first_chunk::<4>()?;
    let values = SIGNATURES.get(called)?.abi_decode_params(arguments).ok()?;
    let values = values.as_fixed_seq()?;
    let texts: Vec<String> = values.iter().map(text).collect();
    let is_format = values.len() > 1 && values[0].as_str().is_some();
    Some(shown(&if is_format { formatted(&texts) } else { texts.join(" ") }))
}

fn text(value: &DynSolValue) -> String {
    match value {
        DynSolValue::Uint(number, _) => number.to_string(),
        DynSolValue::Int(number, _) => number.to_string(),
        DynSolValue::String(text) => shown(text),
        DynSolValue::Bool(flag) => flag.to_string(),
        DynSolValue::Address(account) => account.to_string(),
        DynSolValue::Bytes(data) => shown_hex(data),
        DynSolValue::FixedBytes(word, length) => shown_hex(word.get(..*length).unwrap_or_default()),
        // No function of the library has other types.
        _ => String::new(),
    }
}

/// The first value with the others inserted at its `%s`, `%d`, `%i` and `%o`; the rest are appended.
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
    use alloy_primitives::U256;

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
        // From the published library.
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
    fn shows_values_of_every_type() {
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
    fn inserts_values_into_the_format() {
        let said = |format: &str| call("log(string,uint256)", &[number(64), number(7), text(format)]).unwrap();

        assert_eq!(said("%d items"), "7 items");
        assert_eq!(said("100% of %s %s"), "100% of 7 %s");
        assert_eq!(said("items"), "items 7");
        assert_eq!(said("at the end %"), "at the end % 7");
    }

    #[test]
    fn ignores_truncated_calls_and_calls_of_other_libraries() {
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
