//! The command line: one file per subcommand in `commands/`, with the settings as flags of each.

use std::fs::Metadata;

use clap::{ArgMatches, Command};
use tenon_config::{Layers, Resolved, SettingInfo, resolve};
use tenon_file_access::{check_unchangeable, check_unchangeable_except_by_group};

use crate::commands;
use crate::exit::Stop;
use crate::machine;
use crate::version::version;

const EXAMPLES: &str = "\
Examples:
  tenon dev                                       a development network with funded accounts
  tenon import --genesis genesis.json chain.rlp   import a recorded chain into the data folder
  tenon run --http.port 8545                      serve the chain of the data folder
  tenon config                                    print the settings and their sources

Settings: docs/settings.md   Exit codes: 0 done, 1 failed, 2 wrong arguments or settings,
3 data folder refused, 130 interrupted";

/// The whole command line.
pub(crate) fn definition() -> Command {
    Command::new("tenon")
        .version(version())
        .about("A blockchain full node in which every RPC namespace is a plugin")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(commands::dev::definition())
        .subcommand(commands::run::definition())
        .subcommand(commands::import::definition())
        .subcommand(commands::export::definition())
        .subcommand(commands::db::definition())
        .subcommand(commands::snapshot::definition())
        .subcommand(commands::genesis::definition())
        .subcommand(commands::verify_headers::definition())
        .subcommand(commands::account::definition())
        .subcommand(commands::module::definition())
        .subcommand(commands::peers::definition())
        .subcommand(commands::device::definition())
        .subcommand(commands::signer::definition())
        .subcommand(commands::config::definition())
        .subcommand(commands::completions::definition())
}

/// Runs the requested command.
///
/// # Errors
/// [`Stop`], with the text for the operator and the exit code for the shell.
pub(crate) fn dispatch(matches: &ArgMatches) -> Result<(), Stop> {
    match matches.subcommand() {
        Some(("dev", matches)) => commands::dev::execute(matches),
        Some(("run", matches)) => commands::run::execute(matches),
        Some(("import", matches)) => commands::import::execute(matches),
        Some(("export", matches)) => commands::export::execute(matches),
        Some(("db", matches)) => commands::db::execute(matches),
        Some(("snapshot", matches)) => commands::snapshot::execute(matches),
        Some(("genesis", matches)) => commands::genesis::execute(matches),
        Some(("verify-headers", matches)) => commands::verify_headers::execute(matches),
        Some(("account", matches)) => commands::account::execute(matches),
        Some(("module", matches)) => commands::module::execute(matches),
        Some(("peers", matches)) => commands::peers::execute(matches),
        Some(("device", matches)) => commands::device::execute(matches),
        Some(("signer", matches)) => commands::signer::execute(matches),
        Some(("config", matches)) => commands::config::execute(matches),
        Some(("completions", matches)) => commands::completions::execute(matches),
        _ => Err(Stop::Usage("no command given; `tenon --help` lists them".into())),
    }
}

/// The settings of a command: its own defaults, then the settings file, the environment and the flags.
///
/// # Errors
/// [`Stop::Usage`] naming the value that can't be used.
pub(crate) fn settings(layers: Layers, matches: &ArgMatches) -> Result<Resolved, Stop> {
    let layers = layers
        .environment(std::env::vars_os())
        .flags(tenon_config::given_flags(matches))
        .file(matches.get_one::<String>("config").map(Into::into));
    let resolved = resolve(layers)?;
    machine::check_memory(&resolved)?;
    Ok(resolved)
}

/// Checks the settings file of a starting node, because a user who can change it can make the node run any code. A file
/// that the group can change is used with a warning.
///
/// # Errors
/// [`Stop::Usage`] if every user can change it, or if it belongs neither to root nor to the user of this process.
pub(crate) fn check_settings_file(mut resolved: Resolved) -> Result<Resolved, Stop> {
    let Some(path) = &resolved.file else { return Ok(resolved) };
    // A missing file was refused when it was read, and a pipe or `/dev/null` has no content to change.
    let Some(metadata) = std::fs::metadata(path).ok().filter(Metadata::is_file) else { return Ok(resolved) };
    let named = |exposed| format!("settings file {}: {exposed}", path.display());
    check_unchangeable_except_by_group(&metadata).map_err(|exposed| Stop::Usage(named(exposed)))?;
    if let Err(exposed) = check_unchangeable(&metadata) {
        let warning = named(exposed);
        resolved.warnings.push(warning);
    }
    Ok(resolved)
}

/// Settings of commands that work on the database without serving it.
pub(crate) fn is_database_setting(row: &SettingInfo) -> bool {
    matches!(row.section, "Node" | "Database" | "Log") && !matches!(row.key, "identity" | "grace")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_a_valid_definition() {
        definition().debug_assert();
    }

    #[test]
    fn a_settings_file_that_any_user_can_change_is_refused_and_one_of_the_group_is_used_with_a_warning() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tenon.toml");
        std::fs::write(&path, "").unwrap();
        let warnings = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let resolved = resolve(Layers::new("run").file(Some(path.clone()))).unwrap();
            check_settings_file(resolved).map(|resolved| resolved.warnings.len())
        };

        assert_eq!([0o600, 0o644, 0o664].map(|mode| warnings(mode).unwrap()), [0, 0, 1]);
        let refused = warnings(0o666).unwrap_err().to_string();
        assert!(refused.ends_with("tenon.toml: others can change it: run chmod go-w on it"), "{refused}");
    }

    #[test]
    fn accepts_the_reference_clients_older_spellings() {
        let matches = definition()
            .try_get_matches_from([
                "tenon",
                "run",
                "--http-port",
                "1",
                "--rpcaddr",
                "0.0.0.0",
                "--rpc",
                "--ws-api=eth",
                "--wsport",
                "2",
                "--rpcapi",
                "eth,net",
                "--http-corsdomain",
                "*",
                "--rpcvhosts",
                "*",
                "--wsorigins",
                "*",
                "--ipcdisable",
                "--rpc-gascap",
                "7",
                "--gcmode",
                "archive",
                "--verbosity",
                "4",
                "--txpool-pricebump",
                "20",
            ])
            .unwrap();
        let matches = matches.subcommand_matches("run").unwrap();

        let resolved = resolve(Layers::new("run").flags(tenon_config::given_flags(matches))).unwrap();

        let settings = &resolved.settings;
        assert_eq!((settings.http.port, settings.ws.port), (1, 2));
        assert_eq!(settings.http.api, ["eth", "net"]);
        assert_eq!(settings.ws.api, ["eth"]);
        assert_eq!(settings.ws.origins.to_vec(), ["*"]);
        assert!(settings.http.enabled && settings.ipc.disabled);
        assert_eq!(settings.pool.price_bump, 20);
        assert_eq!(settings.rpc.gas_cap, 7);
        assert_eq!(resolved.origin("http.port").to_string(), "flag --http.port");
    }

    #[test]
    fn turns_a_switch_off_on_request() {
        let matches = definition().try_get_matches_from(["tenon", "run", "--http=false", "--ws=false"]).unwrap();
        let matches = matches.subcommand_matches("run").unwrap();

        let settings = resolve(Layers::new("run").flags(tenon_config::given_flags(matches))).unwrap().settings;

        assert!(!settings.http.enabled && !settings.ws.enabled);
    }

    #[test]
    fn keeps_old_spellings_out_of_the_help() {
        let mut command = definition();
        let help = command.find_subcommand_mut("run").unwrap().render_long_help().to_string();

        assert!(help.contains("--http.port") && !help.contains("--rpcport"), "{help}");
    }
}
