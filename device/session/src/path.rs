//! Derivation paths in their textual form (`docs/spec/device.md 10.6`).

use std::fmt;
use std::str::FromStr;

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

/// Why a text is not a path. The texts are those of the reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The text is empty.
    #[error("empty derivation path")]
    Empty,
    /// The text begins with a slash.
    #[error("ambiguous path: use 'm/' prefix for absolute paths, or no leading '/' for relative ones")]
    Ambiguous,
    /// A component is not a number.
    #[error("invalid component: {0}")]
    Component(String),
    /// A number is too large.
    #[error("component {0} out of allowed range [0, 4294967295]")]
    Range(u128),
    /// A number is too large to be hardened.
    #[error("component {0} out of allowed hardened range [0, 2147483647]")]
    HardenedRange(u128),
    /// The path has more elements than any device accepts.
    #[error("a path has at most 16 elements")]
    TooLong,
}

impl FromStr for DerivationPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let components: Vec<&str> = text.split('/').collect();
        if components.len() > MAX_ELEMENTS + 1 {
            return Err(PathError::TooLong);
        }
        let (mut elements, components) = match components.as_slice() {
            [] | [""] => return Err(PathError::Empty),
            [first, ..] if first.trim().is_empty() => return Err(PathError::Ambiguous),
            [first, rest @ ..] if first.trim() == "m" => (Vec::new(), rest),
            all => (ROOT.to_vec(), all),
        };
        if components.is_empty() {
            return Err(PathError::Empty);
        }
        for component in components {
            elements.push(element(component.trim())?);
        }
        Ok(Self(elements))
    }
}

fn element(component: &str) -> Result<u32, PathError> {
    let (digits, is_hardened) = match component.strip_suffix('\'') {
        Some(digits) => (digits.trim(), true),
        None => (component, false),
    };
    let number = number(digits).ok_or_else(|| PathError::Component(component.chars().take(64).collect()))?;
    match (u32::try_from(number), is_hardened) {
        (Ok(number), true) if number < HARDENED => Ok(number | HARDENED),
        (_, true) => Err(PathError::HardenedRange(number)),
        (Ok(number), false) => Ok(number),
        (Err(_), false) => Err(PathError::Range(number)),
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

    fn canonical(text: &str) -> Result<String, String> {
        text.parse::<DerivationPath>().map(|path| path.to_string()).map_err(|error| error.to_string())
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
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refuses_what_the_reference_refuses() {
        for (text, expected) in [
            ("", "empty derivation path"),
            ("m", "empty derivation path"),
            ("/44'", "ambiguous path: use 'm/' prefix for absolute paths, or no leading '/' for relative ones"),
            ("m/", "invalid component: "),
            ("m/x", "invalid component: x"),
            ("m/-1'", "invalid component: -1'"),
            ("m/4294967296", "component 4294967296 out of allowed range [0, 4294967295]"),
            ("m/2147483648'", "component 2147483648 out of allowed hardened range [0, 2147483647]"),
        ] {
            assert_eq!(canonical(text), Err(expected.into()), "{text}");
        }
        assert_eq!(canonical(&"0/".repeat(100)), Err("a path has at most 16 elements".into()));
    }

    #[test]
    fn knows_the_default_accounts() {
        assert_eq!(DerivationPath::account(7).to_string(), "m/44'/60'/0'/0/7");
    }
}
