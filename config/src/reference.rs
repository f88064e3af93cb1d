//! Generates the reference page `docs/settings.md` from the table of settings.

use std::fmt::Write as _;

use crate::settings::all_settings;
use crate::table::SettingInfo;
use crate::value::Value;

const HEAD: &str = "\
# Settings

<!-- Generated from config/src/settings: TENON_WRITE_PAGES=1 cargo test -p tenon-config -->

Every setting can be given in a settings file, in the environment or as a flag. Later ones win:

1. the default; `tenon dev` has some different defaults, which `tenon config --dev` prints
2. the settings file: `--config FILE`, or `TENON_CONFIG`, or `tenon.toml` in the data folder if there is one
3. the environment: `TENON_`, then the key in capitals with `_` for `.` and `-` (`http.port` is `TENON_HTTP_PORT`)
4. the flag

A node does not start if its settings file can be changed by every user, or belongs to a user other than root and the node's own.
A node that runs as root accepts the file of another user with a warning, because files of the host that are mounted into a
container keep their owner. A node also warns if the group can change the file, or if others can change the
data folder.

`tenon config` prints the value and the source of every setting. It then fails if `tenon run` would fail with these settings, for
example because no chain is chosen. A file looks like this:

```toml
datadir = \"/var/lib/tenon\"

[http]
port = 8545
api = [\"eth\", \"net\", \"web3\"]

[plugins.debug]
enabled = false
```

Kinds of values: a *list* is `[\"a\", \"b\"]` in a file and `a,b` elsewhere; a *duration* is `500ms`, `5s`, `1m30s`,
`3h`, or a number of seconds; a *size* is `512MiB`, `5MB`, or a number of bytes; a *switch* is `true` or `false`, and its
flag alone means `true`; a *path* may begin with `~/`. The allowed range of a number, size or duration is given after its kind; other
values are refused with an error that names the key. `database.cache` is at most the memory of the machine, or of its control group.

On SIGHUP, a running node reads its settings again. It applies changes under `[plugins.NAME]`: plugins are loaded, unloaded,
enabled, disabled, and replaced if their library, limits or settings differ. It also applies the exposure of the front-ends:
`http.api`, `http.methods.deny`, `http.corsdomain`, `http.vhosts`, `ws.api`, `ws.methods.deny`, `ws.origins` and
`auth.namespaces` take effect for every later request. All other changes take effect at the next start.
";

/// The text of `docs/settings.md`.
pub fn settings_page() -> String {
    let mut page = String::from(HEAD);
    let mut section = "";
    for row in all_settings() {
        if row.section != section {
            section = row.section;
            let help = join(row.section_help);
            let _ = write!(page, "\n## {section}\n\n{help}\n\n");
            page.push_str("| Key | Kind | Default | Flag | Meaning |\n|---|---|---|---|---|\n");
        }
        let _ = writeln!(
            page,
            "| `{}` | {}{} | {} | `--{}`{} | {} |",
            row.key,
            escape(row.kind),
            row.allowed.as_ref().map(|allowed| format!(", {allowed}")).unwrap_or_default(),
            default(&row),
            row.flag,
            old_flags(&row),
            escape(&row.help_text()),
        );
    }
    page
}

/// The lines of a doc comment, joined by `concat!` with a leading space each.
fn join(lines: &str) -> String {
    lines.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}

fn default(row: &SettingInfo) -> String {
    match &row.default {
        // The page must not contain the home folder of the user who generates it.
        _ if row.key == "datadir" => "`\"~/.tenon\"`".to_owned(),
        Value::Absent => "none".to_owned(),
        value => format!("`{value}`"),
    }
}

fn old_flags(row: &SettingInfo) -> String {
    row.old_flags.iter().fold(String::new(), |text, flag| format!("{text}, `--{flag}`"))
}

#[cfg(test)]
mod tests {
    use super::settings_page;

    #[test]
    fn keeps_the_committed_page_fresh() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/settings.md");
        if std::env::var_os("TENON_WRITE_PAGES").is_some() {
            std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs")).unwrap();
            std::fs::write(path, settings_page()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == settings_page(),
            "docs/settings.md is stale; regenerate it with: TENON_WRITE_PAGES=1 cargo test -p tenon-config"
        );
    }
}
