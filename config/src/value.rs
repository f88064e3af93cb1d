//! Values of settings: parsing each type from a file, a variable or a flag, and formatting it.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The maximum duration of settings without other bounds, 100 years: clocks cannot count much further.
const MAX_DURATION: Duration = Duration::from_secs(100 * 365 * 86_400);

/// A value to be parsed or shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not set.
    Absent,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// A number with a fraction.
    Float(f64),
    /// Text.
    Text(String),
    /// Several values.
    List(Vec<Value>),
    /// A table of a settings file.
    Table(Vec<(String, Value)>),
    /// Text of a variable or flag, whose type depends on the setting.
    Untyped(String),
}

impl Value {
    /// The value as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Absent => serde_json::Value::Null,
            Self::Bool(value) => (*value).into(),
            Self::Integer(value) => match (u64::try_from(*value), i64::try_from(*value)) {
                (Ok(value), _) => value.into(),
                (_, Ok(value)) => value.into(),
                _ => value.to_string().into(),
            },
            Self::Float(value) => (*value).into(),
            Self::Text(value) | Self::Untyped(value) => value.clone().into(),
            Self::List(values) => values.iter().map(Self::to_json).collect(),
            Self::Table(entries) => entries.iter().map(|(key, value)| (key.clone(), value.to_json())).collect(),
        }
    }

    /// The inverse of [`Value::to_json`].
    pub(crate) fn from_json(json: &serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Absent,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => match (number.as_i128(), number.as_f64()) {
                (Some(value), _) => Self::Integer(value),
                (None, Some(value)) => Self::Float(value),
                (None, None) => Self::Text(number.to_string()),
            },
            serde_json::Value::String(text) => Self::Text(text.clone()),
            serde_json::Value::Array(values) => Self::List(values.iter().map(Self::from_json).collect()),
            serde_json::Value::Object(entries) => {
                Self::Table(entries.iter().map(|(key, value)| (key.clone(), Self::from_json(value))).collect())
            }
        }
    }
}

/// Writes a TOML key, quoted if necessary.
fn write_key(formatter: &mut fmt::Formatter<'_>, key: &str) -> fmt::Result {
    let is_bare = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_');
    if !key.is_empty() && key.bytes().all(is_bare) { formatter.write_str(key) } else { write_text(formatter, key) }
}

/// Writes a basic TOML string, on one line.
fn write_text(formatter: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    formatter.write_str("\"")?;
    for letter in text.chars() {
        match letter {
            '"' | '\\' => write!(formatter, "\\{letter}")?,
            '\n' => formatter.write_str("\\n")?,
            '\t' => formatter.write_str("\\t")?,
            _ if letter.is_ascii_control() => write!(formatter, "\\u{:04X}", u32::from(letter))?,
            _ => write!(formatter, "{letter}")?,
        }
    }
    formatter.write_str("\"")
}

/// In TOML form; an absent value as `(none)`.
impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => formatter.write_str("(none)"),
            Self::Bool(value) => value.fmt(formatter),
            Self::Integer(value) => value.fmt(formatter),
            Self::Float(value) => write!(formatter, "{value:?}"),
            Self::Text(value) | Self::Untyped(value) => write_text(formatter, value),
            Self::List(values) => {
                formatter.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    write!(formatter, "{}{value}", if index == 0 { "" } else { ", " })?;
                }
                formatter.write_str("]")
            }
            Self::Table(entries) => {
                formatter.write_str("{")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    formatter.write_str(if index == 0 { " " } else { ", " })?;
                    write_key(formatter, key)?;
                    write!(formatter, " = {value}")?;
                }
                formatter.write_str(if entries.is_empty() { "}" } else { " }" })
            }
        }
    }
}

/// A type of setting.
pub(crate) trait SettingValue: Sized {
    /// Its name on the reference page.
    const KIND: &'static str;
    /// Whether it is a switch: `--flag` alone means true.
    const IS_SWITCH: bool = false;

    /// Parses a value; the error names the expected form and the value.
    fn read(value: &Value) -> Result<Self, String>;
    /// Formats the value so that [`SettingValue::read`] accepts it.
    fn show(&self) -> Value;

    /// The number to compare with its bounds; `None` if the type has none.
    fn as_number(&self) -> Option<u64> {
        None
    }

    /// Shows such a number as a value of this type.
    fn show_number(number: u64) -> Value {
        Value::Integer(number.into())
    }
}

/// The common error: the expected form, and the value.
fn expected(what: &str, found: &Value) -> String {
    match found {
        Value::Untyped(text) => format!("expected {what}, found `{text}`"),
        other => format!("expected {what}, found {other}"),
    }
}

impl SettingValue for bool {
    const KIND: &'static str = "switch";
    const IS_SWITCH: bool = true;

    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Bool(value) => Ok(*value),
            Value::Untyped(text) => match text.as_str() {
                "true" | "1" | "yes" | "on" => Ok(true),
                "false" | "0" | "no" | "off" => Ok(false),
                _ => Err(expected("true or false", value)),
            },
            other => Err(expected("true or false", other)),
        }
    }

    fn show(&self) -> Value {
        Value::Bool(*self)
    }
}

/// Parses an integer, `_` between digits allowed.
fn read_integer(value: &Value, what: &str) -> Result<i128, String> {
    match value {
        Value::Integer(value) => Ok(*value),
        Value::Untyped(text) => text.replace('_', "").parse().map_err(|_| expected(what, value)),
        Value::Text(text) if text.parse::<i128>().is_ok() => {
            Err(format!("{}; write it without quotes", expected(what, value)))
        }
        other => Err(expected(what, other)),
    }
}

macro_rules! integer_value {
    ($($type:ty: $what:literal),*) => {$(
        impl SettingValue for $type {
            const KIND: &'static str = "whole number";

            fn read(value: &Value) -> Result<Self, String> {
                Self::try_from(read_integer(value, $what)?).map_err(|_| expected($what, value))
            }

            fn show(&self) -> Value {
                Value::Integer(i128::from(*self))
            }

            fn as_number(&self) -> Option<u64> {
                Some(u64::from(*self))
            }
        }
    )*};
}
integer_value! {
    u8: "a whole number from 0 to 255",
    u16: "a whole number from 0 to 65535",
    u32: "a whole number from 0 to 4294967295",
    u64: "a whole number, not negative"
}

impl SettingValue for f64 {
    const KIND: &'static str = "number";

    fn read(value: &Value) -> Result<Self, String> {
        let what = "a number, not negative";
        let number = match value {
            Value::Integer(value) => Some(*value as Self),
            Value::Float(value) => Some(*value),
            Value::Untyped(text) => text.parse().ok(),
            _ => None,
        };
        number.filter(|number| number.is_finite() && *number >= 0.0).ok_or_else(|| expected(what, value))
    }

    fn show(&self) -> Value {
        Value::Float(*self)
    }
}

impl SettingValue for String {
    const KIND: &'static str = "text";

    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Text(text) | Value::Untyped(text) => Ok(text.clone()),
            other => Err(expected("text in quotes", other)),
        }
    }

    fn show(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl SettingValue for PathBuf {
    const KIND: &'static str = "path";

    fn read(value: &Value) -> Result<Self, String> {
        let text = String::read(value).map_err(|_| expected("a path in quotes", value))?;
        if text.is_empty() {
            return Err("expected a path, found nothing".into());
        }
        match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
            (Some(rest), Some(home)) => Ok(Self::from(home).join(rest)),
            _ => Ok(Self::from(text)),
        }
    }

    fn show(&self) -> Value {
        Value::Text(self.display().to_string())
    }
}

impl<T: SettingValue> SettingValue for Option<T> {
    const KIND: &'static str = T::KIND;

    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Absent => Ok(None),
            Value::Text(text) | Value::Untyped(text) if text.is_empty() => Ok(None),
            other => T::read(other).map(Some),
        }
    }

    fn show(&self) -> Value {
        self.as_ref().map_or(Value::Absent, T::show)
    }

    fn as_number(&self) -> Option<u64> {
        self.as_ref().and_then(T::as_number)
    }

    fn show_number(number: u64) -> Value {
        T::show_number(number)
    }
}

impl SettingValue for IpAddr {
    const KIND: &'static str = "IP address";

    fn read(value: &Value) -> Result<Self, String> {
        let what = "an IP address such as 127.0.0.1, 0.0.0.0 or ::1";
        match value {
            Value::Text(text) | Value::Untyped(text) if text == "localhost" => Ok(Self::from([127, 0, 0, 1])),
            Value::Text(text) | Value::Untyped(text) => text.parse().map_err(|_| expected(what, value)),
            other => Err(expected(what, other)),
        }
    }

    fn show(&self) -> Value {
        Value::Text(self.to_string())
    }
}

impl SettingValue for Vec<String> {
    const KIND: &'static str = "list";

    fn read(value: &Value) -> Result<Self, String> {
        match value {
            Value::Untyped(text) => Ok(split_list(text)),
            // A single text is treated like a flag, so that a value can be copied from a script.
            Value::Text(text) => Ok(split_list(text)),
            Value::List(values) => values
                .iter()
                .map(|value| match value {
                    Value::Text(text) => Ok(text.clone()),
                    other => Err(expected("texts in quotes", other)),
                })
                .collect(),
            other => Err(expected("a list such as [\"eth\", \"net\"]", other)),
        }
    }

    fn show(&self) -> Value {
        Value::List(self.iter().cloned().map(Value::Text).collect())
    }
}

fn split_list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Parses `12unit34unit`; a bare number counts in `units[0]`.
fn read_scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '_').unwrap_or(rest.len());
        let number: u64 = rest[..digits].replace('_', "").parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let unit = rest[..letters].trim();
        rest = &rest[letters..];
        let scale = if unit.is_empty() { units.first()?.1 } else { units.iter().find(|(name, _)| *name == unit)?.1 };
        total = total.checked_add(number.checked_mul(scale)?)?;
    }
    Some(total)
}

const DURATION_UNITS: &[(&str, u64)] = &[("s", 1000), ("ms", 1), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl SettingValue for Duration {
    const KIND: &'static str = "duration";

    fn read(value: &Value) -> Result<Self, String> {
        let what = "a duration such as \"500ms\", \"5s\", \"1m30s\" or \"3h\"";
        let milliseconds = match value {
            Value::Integer(seconds) => u64::try_from(*seconds).ok().and_then(|seconds| seconds.checked_mul(1000)),
            Value::Text(text) | Value::Untyped(text) => read_scaled(text, DURATION_UNITS),
            _ => None,
        };
        let duration = milliseconds.map(Self::from_millis).ok_or_else(|| expected(what, value))?;
        if duration > MAX_DURATION {
            return Err(expected(&format!("a duration of at most {}h", MAX_DURATION.as_secs() / 3600), value));
        }
        Ok(duration)
    }

    fn as_number(&self) -> Option<u64> {
        Some(u64::try_from(self.as_millis()).unwrap_or(u64::MAX))
    }

    fn show_number(number: u64) -> Value {
        Self::from_millis(number).show()
    }

    fn show(&self) -> Value {
        let milliseconds = u64::try_from(self.as_millis()).unwrap_or(u64::MAX);
        let (scale, unit) = match milliseconds {
            0 => (1000, "s"),
            value if value.is_multiple_of(3_600_000) => (3_600_000, "h"),
            value if value.is_multiple_of(60_000) => (60_000, "m"),
            value if value.is_multiple_of(1000) => (1000, "s"),
            _ => (1, "ms"),
        };
        Value::Text(format!("{}{unit}", milliseconds / scale))
    }
}

/// A number of bytes, written `512MiB`, `5MB` or plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// This many mebibytes.
    pub const fn mebibytes(count: u64) -> Self {
        Self(count << 20)
    }

    /// The number as a length in memory, saturating.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Not the crate `bytesize`: it prints rounded numbers, which would not read back as the same value. Durations are read by
/// the same function.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1000),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

impl SettingValue for ByteSize {
    const KIND: &'static str = "size";

    fn read(value: &Value) -> Result<Self, String> {
        let what = "a size such as \"512MiB\", \"5MB\" or a number of bytes";
        let bytes = match value {
            Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            Value::Text(text) | Value::Untyped(text) => read_scaled(text, SIZE_UNITS),
            _ => None,
        };
        bytes.map(Self).ok_or_else(|| expected(what, value))
    }

    fn as_number(&self) -> Option<u64> {
        Some(self.0)
    }

    fn show_number(number: u64) -> Value {
        Self(number).show()
    }

    fn show(&self) -> Value {
        for (unit, scale) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("MB", 1_000_000)] {
            if self.0 > 0 && self.0.is_multiple_of(scale) {
                return Value::Text(format!("{}{unit}", self.0 / scale));
            }
        }
        Value::Text(format!("{}B", self.0))
    }
}

/// A percentage, at most 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u8);

impl Percent {
    /// This percentage; more than 100 counts as 100.
    pub const fn new(percent: u8) -> Self {
        Self(if percent > 100 { 100 } else { percent })
    }

    /// This percentage of a number, rounded down.
    pub const fn of(self, whole: u64) -> u64 {
        // Divides first, so that the product cannot overflow; the rest is below a hundred.
        whole / 100 * self.0 as u64 + whole % 100 * self.0 as u64 / 100
    }
}

impl SettingValue for Percent {
    const KIND: &'static str = "per cent";

    fn read(value: &Value) -> Result<Self, String> {
        let what = "a whole number from 0 to 100";
        match u8::try_from(read_integer(value, what)?) {
            Ok(percent @ 0..=100) => Ok(Self(percent)),
            _ => Err(expected(what, value)),
        }
    }

    fn show(&self) -> Value {
        Value::Integer(i128::from(self.0))
    }
}

/// A setting with a fixed set of words.
macro_rules! choice {
    (
        $(#[$meta:meta])* $name:ident, $kind:literal {
            $( $(#[$variant_meta:meta])* $variant:ident = $word:literal $(| $other:literal)* ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant, )*
        }

        impl SettingValue for $name {
            const KIND: &'static str = $kind;

            fn read(value: &Value) -> Result<Self, String> {
                match value {
                    Value::Text(text) | Value::Untyped(text) => match text.as_str() {
                        $( $word $(| $other)* => Ok(Self::$variant), )*
                        _ => Err(expected(concat!("one of ", $kind), value)),
                    },
                    other => Err(expected(concat!("one of ", $kind), other)),
                }
            }

            fn show(&self) -> Value {
                Value::Text(match self { $( Self::$variant => $word, )* }.to_owned())
            }
        }
    };
}

choice! {
    /// How much state history the database keeps.
    HistoryMode, "`archive`, `pruned`" {
        /// Everything.
        Archive = "archive",
        /// The state of the last blocks only; `full` is go-ethereum's word for it.
        Pruned = "pruned" | "full",
    }
}

choice! {
    /// Durability of a committed block.
    Durability, "`process`, `block`" {
        /// A committed block survives the death of the process. A power failure may lose the last few blocks, but never
        /// consistency.
        Process = "process",
        /// Every block is on the disk before it is announced.
        Block = "block",
    }
}

choice! {
    /// Which certificates of imported blocks are verified.
    CertificateChecks, "`all`, `sampled`" {
        /// Every one.
        All = "all",
        /// Those that no later block of the epoch binds by hash, and a sample of the others.
        Sampled = "sampled",
    }
}

choice! {
    /// Which family of rules a development network has.
    DevProfile, "`ethereum`, `native`, `native-v1`" {
        /// Ethereum's rules, as of Osaka.
        Ethereum = "ethereum",
        /// Those of networks 50, 51 and 551 as of v2.7.0 of the reference: engine v2 from block 1.
        Native = "native",
        /// The same with engine v1 and its epochs of 900 blocks.
        NativeV1 = "native-v1",
    }
}

choice! {
    /// When the next log file is started.
    LogRotation, "`daily`, `hourly`, `never`" {
        /// At midnight, UTC.
        Daily = "daily",
        /// At every full hour.
        Hourly = "hourly",
        /// Never.
        Never = "never",
    }
}

choice! {
    /// The shape of log lines.
    LogFormat, "`text`, `json`" {
        /// Readable text; coloured on a terminal.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

#[cfg(test)]
mod tests;
