//! Reads a settings file, with the line of every value.

use std::io::Read as _;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::bounds;
use crate::error::{Origin, SettingsError};
use crate::settings::{PluginEntry, PluginLimits, all_settings};
use crate::suggestion::nearest;
use crate::value::{SettingValue, Value};

/// Contents of a file: values by key, and entries of plugins by name.
#[derive(Debug, Default)]
pub(crate) struct FileContent {
    pub values: Vec<(&'static str, Value, Origin)>,
    pub plugins: Vec<(String, PluginEntry)>,
}

/// State of reading a file.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    /// Every key and, for tables, every prefix of one.
    keys: Vec<&'static str>,
    content: FileContent,
}

/// Reads a settings file.
pub(crate) fn read_file(path: &Path) -> Result<FileContent, SettingsError> {
    let text = text_of(path).map_err(|source| SettingsError::Unreadable { path: path.to_owned(), source })?;
    let keys = all_settings().iter().map(|row| row.key).collect();
    let mut reader = Reader { path, text: &text, keys, content: FileContent::default() };
    let table = DeTable::parse(&text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let (line, column) = reader.position(offset);
        SettingsError::Syntax { path: path.to_owned(), line, column, message: error.message().trim().to_owned() }
    })?;
    reader.read_table("", table.get_ref())?;
    Ok(reader.content)
}

/// The text of a settings file, bounded, so that an endless or wrong file does not exhaust memory.
fn text_of(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_LENGTH + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_LENGTH {
        return Err(std::io::Error::other(format!("it is longer than {MAX_LENGTH} bytes")));
    }
    Ok(text)
}

/// Maximum length of a settings file, bytes: a hundred times all settings with their comments.
const MAX_LENGTH: u64 = 4 << 20;

impl Reader<'_> {
    /// Line and column, both counted from 1.
    fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    fn origin(&self, offset: usize) -> Origin {
        Origin::File { path: self.path.to_owned(), line: self.position(offset).0 }
    }

    fn read_table(&mut self, prefix: &str, table: &DeTable<'_>) -> Result<(), SettingsError> {
        for (name, value) in table {
            let offset = name.span().start;
            let key =
                if prefix.is_empty() { name.get_ref().to_string() } else { format!("{prefix}.{}", name.get_ref()) };
            if let Some(known) = self.keys.iter().find(|known| **known == key).copied() {
                let origin = self.origin(offset);
                self.content.values.push((known, to_value(value.get_ref()), origin));
                continue;
            }
            let section = format!("{key}.");
            match value.get_ref() {
                DeValue::Table(inner) if prefix == "plugins" => self.read_plugin(name.get_ref(), inner)?,
                DeValue::Table(inner) if self.keys.iter().any(|known| known.starts_with(&section)) => {
                    self.read_table(&key, inner)?;
                }
                _ => return Err(self.unknown(key, offset)),
            }
        }
        Ok(())
    }

    fn read_plugin(&mut self, name: &str, table: &DeTable<'_>) -> Result<(), SettingsError> {
        let mut entry = PluginEntry::default();
        for (field, value) in table {
            let offset = field.span().start;
            let key = format!("plugins.{name}.{}", field.get_ref());
            let bad =
                |problem: String| SettingsError::BadValue { origin: self.origin(offset), key: key.clone(), problem };
            let found = to_value(value.get_ref());
            match field.get_ref().as_ref() {
                "path" => entry.path = SettingValue::read(&found).map_err(bad)?,
                "enabled" => entry.is_enabled = SettingValue::read(&found).map_err(bad)?,
                "required" => entry.is_required = SettingValue::read(&found).map_err(bad)?,
                "isolation" => {
                    let isolation: String = SettingValue::read(&found).map_err(bad)?;
                    if !matches!(isolation.as_str(), "in-process" | "process") {
                        return Err(bad(format!("expected `in-process` or `process`, found `{isolation}`")));
                    }
                    entry.isolation = Some(isolation);
                }
                "capabilities" => entry.capabilities = Some(SettingValue::read(&found).map_err(bad)?),
                "limits" => match value.get_ref() {
                    DeValue::Table(limits) => entry.limits = self.read_limits(&key, limits)?,
                    _ => return Err(bad(format!("expected a table, found {found}"))),
                },
                "settings" => match found {
                    Value::Table(_) => entry.settings_json = found.to_json().to_string(),
                    other => return Err(bad(format!("expected a table, found {other}"))),
                },
                _ => {
                    let fix =
                        "a plugin has `path`, `enabled`, `required`, `isolation`, `capabilities` and tables `limits` and `settings`".to_owned();
                    let line = self.position(offset).0;
                    return Err(SettingsError::UnknownKey { path: self.path.to_owned(), line, key, fix });
                }
            }
        }
        self.content.plugins.push((name.to_owned(), entry));
        Ok(())
    }

    fn read_limits(&self, prefix: &str, table: &DeTable<'_>) -> Result<PluginLimits, SettingsError> {
        let mut limits = PluginLimits::default();
        for (field, value) in table {
            let offset = field.span().start;
            let key = format!("{prefix}.{}", field.get_ref());
            let bad =
                |problem: String| SettingsError::BadValue { origin: self.origin(offset), key: key.clone(), problem };
            let found = to_value(value.get_ref());
            match field.get_ref().as_ref() {
                "memory" => limits.memory = Some(bounds::read("limits.memory", &found).map_err(bad)?),
                "call-time" => limits.call_time = Some(bounds::read("limits.call-time", &found).map_err(bad)?),
                "calls" => limits.calls = Some(bounds::read("limits.calls", &found).map_err(bad)?),
                "restarts" => limits.restarts = Some(bounds::read("limits.restarts", &found).map_err(bad)?),
                "log-lines" => limits.log_lines = Some(bounds::read("limits.log-lines", &found).map_err(bad)?),
                "storage" => limits.storage = Some(bounds::read("limits.storage", &found).map_err(bad)?),
                "storage-records" => {
                    limits.storage_records = Some(bounds::read("limits.storage-records", &found).map_err(bad)?)
                }
                _ => {
                    let fix = "limits are `memory`, `call-time`, `calls`, `restarts`, `log-lines`, `storage` and `storage-records`"
                        .to_owned();
                    let line = self.position(offset).0;
                    return Err(SettingsError::UnknownKey { path: self.path.to_owned(), line, key, fix });
                }
            }
        }
        Ok(limits)
    }

    fn unknown(&self, key: String, offset: usize) -> SettingsError {
        let sections = self.keys.iter().filter_map(|known| known.split_once('.').map(|(section, _)| section));
        let candidates: Vec<&str> = self.keys.iter().copied().chain(sections).collect();
        let flags = all_settings();
        let by_flag = flags.iter().find(|row| row.flag == key || row.old_flags.contains(&key.as_str()));
        let fix = match (by_flag, nearest(&key, candidates)) {
            (Some(row), _) => format!("`{key}` is the flag; in a file it is `{}`", row.key),
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => "docs/settings.md lists all keys".to_owned(),
        };
        SettingsError::UnknownKey { path: self.path.to_owned(), line: self.position(offset).0, key, fix }
    }
}

fn to_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::Text(number.as_str().to_owned()), Value::Integer),
        DeValue::Float(number) => {
            number.as_str().parse().map_or_else(|_| Value::Text(number.as_str().to_owned()), Value::Float)
        }
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(moment) => Value::Text(moment.to_string()),
        DeValue::Array(values) => Value::List(values.iter().map(|value| to_value(value.get_ref())).collect()),
        DeValue::Table(table) => Value::Table(
            table
                .iter()
                .map(|(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
                    (key.get_ref().to_string(), to_value(value.get_ref()))
                })
                .collect(),
        ),
    }
}
