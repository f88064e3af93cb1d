//! Derivation paths in their textual form (`docs/spec/device.md 10.6`).

use std::fmt;
use std::str::FromStr;

use tenon_api::PathProblem;

/// Offset of hardened elements.
const HARDENED: u32 = 0x8000_0000;

/// Base of relative paths: `m/44'/60'/0'/0`.
const ROOT: [u32; 4] = [44 | HARDENED, 60 | HARDENED, HARDENED, 0];

/// Maximum number of elements of a path.
const MAX_ELEMENTS: usize = 16;

/// The derivation path from the seed to a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::From)]
pub struct DerivationPath(Vec<u32>);

impl DerivationPath {
    /// The account with this index below the default base, `m/44'/60'/0'/0/index`.
    pub fn account(index: u32) -> Self {
        let mut elements = ROOT.to_vec();
        elements.push(index);
        Self(elements)
    }

    /// The elements. Hardened ones have their highest bit set.
    pub fn elements(&self) -> &[u32] {
        &self.0
    }
}

impl fmt::Display for DerivationPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("m")?;
        for element in &self.0 {
            let mark = if element & HARDENED == 0 { "" } else { "'" };
            write!(f, "/{}{mark}", element & !HARDENED)?;
        }
        Ok(())
    }
}

impl FromStr for DerivationPath {
    type Err = PathProblem;

    fn from_str(text: &str) -> Result<Self, PathProblem> {
        let components: Vec<&str> = text.split('/').collect();
        if components.len() > MAX_ELEMENTS + 1 {
            return Err(PathProblem::TooLong);
        }
        let (mut elements, components) = match components.as_slice() {
            [] | [""] => return Err(PathProblem::Empty),
            [first, ..] if first.trim().is_empty() => return Err(PathProblem::Ambiguous),
            [first, rest @ ..] if first.trim() == "m" => (Vec::new(), rest),
            all => (ROOT.to_vec(), all),
        };
        if components.is_empty() {
            return Err(PathProblem::Empty);
        }
        for component in components {
            elements.push(element(component.trim())?);
        }
        Ok(Self(elements))
    }
}

fn element(component: &str) -> Result<u32, PathProblem> {
    let (digits, is_hardened) = match component.strip_suffix('\'') {
        Some(digits) => (digits.trim(), true),
        None => (component, false),
    };
    let number = number(digits).ok_or_else(|| PathProblem::Component(component.chars().take(64).collect()))?;
    match (u32::try_from(number), is_hardened) {
        (Ok(number), true) if number < HARDENED => Ok(number | HARDENED),
        (_, true) => Err(PathProblem::HardenedRange(number)),
        (Ok(number), false) => Ok(number),
        (Err(_), false) => Err(PathProblem::Range(number)),
    }
}

/// Parses a number in Go's syntax: decimal, `0x`, `0o`, `0b`, or octal after a leading zero.
fn number(digits: &str) -> Option<u128> {
    let prefixed = |radix, prefix: [&str; 2]| {
        prefix.iter().find_map(|prefix| digits.strip_prefix(prefix)).map(|digits| (digits, radix))
    };
    let (digits, radix) = prefixed(16, ["0x", "0X"])
        .or_else(|| prefixed(8, ["0o", "0O"]))
        .or_else(|| prefixed(2, ["0b", "0B"]))
        .or_else(|| digits.strip_prefix('0').filter(|rest| !rest.is_empty()).map(|rest| (rest, 8)))
        .unwrap_or((digits, 10));
    if digits.starts_with('+') {
        return None;
    }
    u128::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Result<String, PathProblem> {
        text.parse::<DerivationPath>().map(|path| path.to_string())
    }

    #[test]
    fn reads_paths_as_the_reference_does() {
        for (text, expected) in [
            ("m/44'/60'/0'/0", "m/44'/60'/0'/0"),
            ("m/44'/60'/0'/128", "m/44'/60'/0'/128"),
            ("m/2147483692/2147483708/2147483648/0", "m/44'/60'/0'/0"),
            ("0", "m/44'/60'/0'/0/0"),
            ("128'", "m/44'/60'/0'/0/128'"),
            (" m  /   44            '\n/\n   60\t'/0'/0 ", "m/44'/60'/0'/0"),
            ("m/0x2C'/0x3c'/0x00'/0x00", "m/44'/60'/0'/0"),
            ("m/054'/0b1/0o7", "m/44'/1/7"),
        ] {
            assert_eq!(canonical(text), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn refuses_what_the_reference_refuses() {
        for (text, expected) in [
            ("", PathProblem::Empty),
            ("m", PathProblem::Empty),
            ("/44'", PathProblem::Ambiguous),
            ("m/", PathProblem::Component(String::new())),
            ("m/x", PathProblem::Component("x".to_owned())),
            ("m/-1'", PathProblem::Component("-1'".to_owned())),
            ("m/4294967296", PathProblem::Range(4_294_967_296)),
            ("m/2147483648'", PathProblem::HardenedRange(2_147_483_648)),
        ] {
            assert_eq!(canonical(text), Err(expected), "{text}");
        }
        assert_eq!(canonical(&"0/".repeat(100)), Err(PathProblem::TooLong));
    }

    #[test]
    fn knows_the_default_accounts() {
        assert_eq!(DerivationPath::account(7).to_string(), "m/44'/60'/0'/0/7");
    }
}
