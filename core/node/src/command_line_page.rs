//! `docs/command-line.md`, generated from the definition of the command line.

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use clap::Command;
    use tenon_api::SpaceLimits;
    use tenon_isolation::IsolationOptions;
    use tenon_simulation::CallLimits;

    use crate::command_line::definition;
    use crate::peer_network::MAX_PENDING;

    const HEAD: &str = "\
# Command line

<!-- Generated from core/node/src/commands/: TENON_WRITE_PAGES=1 cargo test -p tenon-node --bin tenon -->

`tenon help COMMAND`, or `tenon COMMAND --help`, shows all flags of a command. Flags that are settings can also
be given in a settings file or in the environment; [settings.md](settings.md) explains each of them. Older spellings of other
clients (`--rpcport`, `--http-api`, …) are accepted and listed there.

| Exit code | Meaning |
|---|---|
| 0 | done, or stopped cleanly by SIGINT or SIGTERM (`dev`, `run`), also during the start |
| 1 | failed while running |
| 2 | wrong arguments or settings |
| 3 | the data folder was refused: in use by another node, of another chain, of a newer format, or not accessible |
| 130 | interrupted: `import`, `export` and `db` by the first signal, after a complete block; every command by the second one |

Log lines go to standard error, results to standard output. A running node writes the addresses on which it listens to
`endpoints.json` in its data folder:

```json
{
  \"pid\": 4242,
  \"http\": \"http://127.0.0.1:8545\",
  \"ws\": \"ws://127.0.0.1:8546\",
  \"ipc\": \"/var/lib/tenon/tenon.ipc\"
}
```

The first line of its log gives version, chain, head and its age, mode and data folder. The last line of the start gives the
addresses on which it serves. `--log.file` also writes the log to files; `log.rotation` says when a
new one is started, by default every day.

Commands that use the socket (`tenon module …`) find the running node of the current user if neither `--datadir` nor
`--ipcpath` is given; if several run, they list them. For this, every node puts a small file into `$XDG_RUNTIME_DIR/tenon`, or
into `tenon-UID` in the temporary folder. A command sends nothing to a process of another user, with two exceptions: the user is
root, or only root and that user can change the folder of the socket and the folders above it.

Commands and start-up flags of the reference client and of go-ethereum that Tenon does not have (`init`, `attach`,
`--syncmode`, `--ethstats`, …) are refused with an error that names the replacement.

The node notifies a service manager when it serves, reloads and stops, and of its status:

```ini
[Service]
Type=notify-reload
ExecStart=/opt/tenon/tenon run --network mainnet --p2p --datadir /var/lib/tenon
WatchdogSec=60
Restart=on-failure
TimeoutStopSec=45
```
";

    /// Omits the flags that every command with a data folder has: settings.md explains them.
    fn describe(page: &mut String, parents: &str, command: &Command) {
        let name = format!("{parents} {}", command.get_name());
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = write!(page, "\n{} `{name}`\n\n{about}.\n", if parents == "tenon" { "##" } else { "###" });
        let own: Vec<_> = command
            .get_arguments()
            .filter(|argument| argument.get_help_heading().is_none() && argument.get_id() != "help")
            .collect();
        if !own.is_empty() {
            page.push_str("\n| Argument | Meaning |\n|---|---|\n");
        }
        for argument in own {
            let value = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
            let value = value.filter(|_| argument.get_action().takes_values()).unwrap_or_default();
            let spelling = match argument.get_long() {
                Some(long) => format!("--{long} {value}"),
                None => value,
            };
            let mut help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let default = argument.get_default_values().first().filter(|_| argument.get_action().takes_values());
            if let Some(default) = default.filter(|_| !help.contains("[default: ")) {
                let _ = write!(help, " [default: {}]", default.to_string_lossy());
            }
            let escaped = |text: &str| text.replace('|', "\\|");
            let _ = writeln!(page, "| `{}` | {} |", escaped(spelling.trim()), escaped(&help));
        }
        let sections: std::collections::BTreeSet<_> =
            command.get_arguments().filter_map(|argument| argument.get_help_heading()).collect();
        if !sections.is_empty() {
            let links: Vec<String> = sections
                .iter()
                .map(|title| format!("[{title}](settings.md#{})", title.to_lowercase().replace(' ', "-")))
                .collect();
            let _ = write!(page, "\nSettings: {}.\n", links.join(", "));
        }
        if let Some(examples) = command.get_after_help() {
            let lines: Vec<String> = examples.to_string().lines().skip(1).map(as_shell).collect();
            let _ = write!(page, "\n```sh\n{}\n```\n", lines.join("\n"));
        }
        for inner in command.get_subcommands().filter(|inner| is_shown(inner)) {
            describe(page, &name, inner);
        }
    }

    /// Omits the `help` commands, which clap adds at every level: the page explains them once.
    fn is_shown(command: &Command) -> bool {
        !command.is_hide_set() && command.get_name() != "help"
    }

    /// An example of a help text, with its explanation as a comment.
    fn as_shell(example: &str) -> String {
        let example = example.trim();
        match example.split_once("  ") {
            Some((command, explanation)) => format!("{command}  # {}", explanation.trim()),
            // A note after the examples.
            None if example.ends_with('.') => format!("# {example}"),
            None => example.to_owned(),
        }
    }

    fn page() -> String {
        let mut page = String::from(HEAD);
        let mut command = definition();
        command.build();
        for command in command.get_subcommands().filter(|command| is_shown(command)) {
            describe(&mut page, "tenon", command);
        }
        page
    }

    /// The texts are in `config`, which knows no module.
    #[test]
    fn help_states_the_limits_that_modules_set_themselves() {
        let rows = tenon_config::all_settings();
        let row = |key| rows.iter().find(|row| row.key == key).unwrap();
        let (processes, storage) = (IsolationOptions::of_this_program(), SpaceLimits::default());
        for stated in [
            format!("`memory` (default {} MiB)", processes.memory >> 20),
            format!("`call-time` (processor time of one call, default {} s)", processes.processor_time.as_secs()),
            format!("`restarts` (of its process, per minute, default {})", processes.restarts),
            format!("`log-lines` (per second, default {} in a process of its own)", processes.log_lines),
            format!("`storage` (bytes in the database of the node, default {} GiB)", storage.bytes >> 30),
            format!("`storage-records` (default {} million)", storage.records / 1_000_000),
        ] {
            assert!(row("plugins.dir").section_help.contains(&stated), "{stated}");
        }

        let longest = CallLimits::MAX_TRACE_TIMEOUT.as_secs() / 60;
        for (key, stated) in [
            ("rpc.tracetimeout", format!("callers may give up to {longest} minutes")),
            ("p2p.maxpendpeers", format!("0 means {MAX_PENDING}")),
        ] {
            assert!(row(key).help_text().contains(&stated), "{stated}");
        }
    }

    #[test]
    fn keeps_the_committed_page_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command-line.md");
        if std::env::var_os("TENON_WRITE_PAGES").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == page(),
            "docs/command-line.md is stale; write it again with: TENON_WRITE_PAGES=1 cargo test -p tenon-node --bin tenon"
        );
    }
}
