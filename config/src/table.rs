//! The macro that generates a section's struct and its rows in the table of settings.
//!
//! Implemented here, because serde and clap know neither where a value comes from (file, environment, flag) nor its
//! bounds, and the reference page, the help and `tenon config` need both.

use crate::value::Value;

/// One row of the table of settings.
#[derive(Clone, Debug)]
pub struct SettingInfo {
    /// The section's title on the reference page.
    pub section: &'static str,
    /// Description of the section.
    pub section_help: &'static str,
    /// The key in a settings file, section included: `http.port`.
    pub key: &'static str,
    /// The flag, without dashes.
    pub flag: &'static str,
    /// Accepted spellings of other clients, not shown.
    pub old_flags: &'static [&'static str],
    /// The description, one entry per line.
    pub help: &'static [&'static str],
    /// The kind of value: `list`, `duration`.
    pub kind: &'static str,
    /// The allowed range, if it is narrower than the kind of value.
    pub allowed: Option<String>,
    /// Whether the flag alone means true.
    pub is_switch: bool,
    /// The built-in value.
    pub default: Value,
}

impl SettingInfo {
    /// The environment variable: `TENON_`, then the key in capitals with `_` for every `.` and `-`.
    pub fn environment(&self) -> String {
        format!("TENON_{}", self.key.to_uppercase().replace(['.', '-'], "_"))
    }

    /// The description as one text.
    pub fn help_text(&self) -> String {
        self.help.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }
}

/// The layers' interface to a section.
pub(crate) trait Section {
    /// Its rows.
    fn describe(rows: &mut Vec<SettingInfo>);
    /// Sets a value; `None` if the key is not in this section.
    fn put(&mut self, key: &str, value: &Value) -> Option<Result<(), String>>;
    /// The value; `None` if the key is not in this section.
    fn show(&self, key: &str) -> Option<Value>;
}

/// Writes a section's struct with its documented fields, its defaults, and its [`Section`].
///
/// A field is `name: Type = default, "key", "flag" [, old "spelling" …];` with its description above as a doc comment:
/// the same text appears in the struct's documentation, in `--help` and on the reference page.
macro_rules! section {
    (
        $title:literal;
        $(#[doc = $section_help:literal])+
        $name:ident {
            $(
                $(#[doc = $help:literal])+
                $field:ident: $type:ty = $default:expr, $key:literal, $flag:literal $(, old $($old:literal)+)?;
            )*
        }
    ) => {
        $(#[doc = $section_help])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[doc = $help])+ pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl crate::table::Section for $name {
            fn describe(rows: &mut Vec<crate::table::SettingInfo>) {
                let defaults = Self::default();
                let section_help = concat!($($section_help),+);
                $(
                    rows.push(crate::table::SettingInfo {
                        section: $title,
                        section_help,
                        key: $key,
                        flag: $flag,
                        old_flags: &[$($($old),+)?],
                        help: &[$($help),+],
                        kind: <$type as crate::value::SettingValue>::KIND,
                        allowed: crate::bounds::allowed::<$type>($key),
                        is_switch: <$type as crate::value::SettingValue>::IS_SWITCH,
                        default: crate::value::SettingValue::show(&defaults.$field),
                    });
                )*
            }

            fn put(&mut self, key: &str, value: &crate::value::Value) -> Option<Result<(), String>> {
                match key {
                    $( $key => Some(crate::bounds::read(key, value).map(|value| self.$field = value)), )*
                    _ => None,
                }
            }

            fn show(&self, key: &str) -> Option<crate::value::Value> {
                match key {
                    $( $key => Some(crate::value::SettingValue::show(&self.$field)), )*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use section;
