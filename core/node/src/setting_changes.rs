//! The differences between two readings of the settings.

use tenon_api::messages::ChangedSetting;
use tenon_config::{Settings, Value, all_settings};

/// The differences between two readings of the settings.
pub(crate) fn differences(
    running: &Settings,
    wanted: &Settings,
    is_included: impl Fn(&str) -> bool,
) -> Vec<ChangedSetting> {
    let text = |settings: &Settings, key: &str| {
        settings.show(key).filter(|value| *value != Value::Absent).map(|value| value.to_string())
    };
    let of_key = |key: &'static str| {
        let (running, wanted) = (text(running, key), text(wanted, key));
        (running != wanted).then(|| ChangedSetting { key: key.to_owned(), running, wanted })
    };
    all_settings().iter().filter(|row| is_included(row.key)).filter_map(|row| of_key(row.key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_settings_that_differ_as_in_a_file() {
        let (running, mut wanted) = (Settings::default(), Settings::default());
        assert_eq!(differences(&running, &wanted, |_| true), []);

        wanted.http.port = 9000;
        wanted.plugins.dir = Some("/opt/plugins".into());

        let change = |key: &str, running: Option<&str>, wanted: Option<&str>| ChangedSetting {
            key: key.to_owned(),
            running: running.map(str::to_owned),
            wanted: wanted.map(str::to_owned),
        };
        let expected =
            [change("http.port", Some("8545"), Some("9000")), change("plugins.dir", None, Some("\"/opt/plugins\""))];
        assert_eq!(differences(&running, &wanted, |_| true), expected);
        assert_eq!(differences(&running, &wanted, |key| key == "ws.port"), []);
    }
}
