//! Commands and flags of the reference client and of go-ethereum that Tenon does not have, and their replacements.
//!
//! clap would suggest the nearest word that it knows, which is a wrong guess: `--syncmode` is not a mistyped
//! `--gcmode`.

use clap::error::{ContextKind, ContextValue, ErrorKind};

const NO_NETWORK: &str = "--p2p turns the network on, and the section Peers of docs/settings.md lists its settings; \
    `tenon import FILE` or admin_importChain imports blocks";
const NO_KEY_ON_LINES: &str = "other users of the machine can read a command line: write the key to a file (mode \
    600) and give it with --nodekey";
const NO_SMART_CARDS: &str =
    "smart cards are not supported: use key files (--keystore) or a signing service (--signer)";
const DEVICES: &str = "--device.enabled looks for hardware wallets; without it they are not used";
const NO_CONSOLE: &str = "there is no JavaScript console: `tenon module` administers a running node, and any JSON-RPC client \
                          opens its Unix socket, tenon.ipc of the data folder";
const NO_MINING: &str = "`tenon dev` makes blocks, and `tenon run` follows a chain";
const NO_PROFILES: &str = "--metrics serves figures of the running node; debug_cpuProfile, debug_goTrace and \
    debug_memStats profile it";
const ONE_CACHE: &str = "--cache is the only setting for the memory of caches";
const ONE_EXCHANGE: &str = "the exchange has no database of its own: everything is in --datadir";

/// Missing commands and their replacements.
const COMMANDS: &[(&[&str], &str)] = &[
    (&["init"], "the first start takes the genesis: tenon run --genesis FILE --datadir DIR, or --network mainnet"),
    (&["wallet"], "tenon account import FILE also reads presale wallets"),
    (&["attach", "console", "js"], NO_CONSOLE),
    (&["version"], "tenon --version prints it"),
    (&["version-check"], "tenon --version prints the release"),
    (&["license"], "Apache-2.0 or MIT, as you choose"),
    (&["dumpconfig", "show-config"], "tenon config prints the settings and their sources"),
    (&["dumpgenesis"], "tenon genesis show NAME --json"),
    (&["dump"], "debug_dumpBlock of a running node"),
    (&["removedb"], "stop the node and remove the folder `db` of its data folder"),
    (&["copydb"], "stop the node and copy its data folder"),
    (&["upgradedb"], "a start converts an older data folder automatically"),
    (&["monitor"], NO_PROFILES),
    (&["makecache", "makedag"], "there is no proof of work"),
    (&["bug", "help-all"], "tenon --help lists the commands"),
    (&["verkle"], "the latest state is always stored flat; tenon db stats shows its size"),
    (&["rollback"], "tenon db unwind NUMBER --datadir DIR"),
];

/// Missing flags and their replacements. A name that ends in `*` matches all flags with that prefix.
const FLAGS: &[(&[&str], &str)] = &[
    (
        &["syncmode", "fast", "light", "lightserv", "lightpeers", "light.*", "exitwhensynced"],
        "every block is executed; --gcmode chooses how much history is kept",
    ),
    (&["bootnodesv5", "v5disc", "discovery.*", "discovery*", "announce-txs", "whitelist"], NO_NETWORK),
    (&["nodekeyhex"], NO_KEY_ON_LINES),
    (&["ethstats"], "--metrics serves figures for Prometheus, and GET /health reports the state of the node"),
    (&["nousb", "usb"], DEVICES),
    (&["pcscdpath"], NO_SMART_CARDS),
    (
        &[
            "mine",
            "mine.*",
            "miner*",
            "etherbase",
            "targetgaslimit",
            "extradata",
            "stake-enable",
            "stake-threads",
            "stakerthreads",
        ],
        NO_MINING,
    ),
    (&["gasprice"], "--txpool.pricelimit is the minimum tip that the pool accepts"),
    (&["store-reward"], "eth_getRewardByHash returns the rewards of every epoch without it"),
    (&["xdcx*", "tomox*"], ONE_EXCHANGE),
    (&["mainnet", "xinfin"], "--network mainnet"),
    (&["testnet", "apothem"], "--network testnet"),
    (&["devnet"], "--network devnet-5551, or --network devnet for the one up to v2.7.0 (chain 551)"),
    (
        &["rinkeby", "ropsten", "goerli", "sepolia", "holesky", "hoodi"],
        "--network accepts mainnet, testnet, devnet, devnet-5551, or the path of a genesis file",
    ),
    (&["dev"], "`tenon dev` starts a development network"),
    (&["vmodule"], "--log.filter sets levels by module, as in tenon_storage=debug,warn"),
    (&["log.json", "log-json"], "--log.format json"),
    (&["log.rotate", "log.max*", "log.compress"], "--log.rotation and --log.keep"),
    (
        &["debug", "backtrace", "backtrace*", "log.backtrace"],
        "--verbosity 4 logs more; RUST_BACKTRACE=1 adds traces of panics",
    ),
    (&["pprof*", "memprofile*", "cpuprofile", "blockprofile*", "trace", "go-execution-trace"], NO_PROFILES),
    (&["metrics.*", "metrics-*"], "--metrics, --metrics.addr and --metrics.port serve figures for Prometheus"),
    (&["cache.*", "cache-*", "trie-cache-gens", "fdlimit"], ONE_CACHE),
    (
        &["snapshot", "snapshot.*", "state.*", "db.engine", "db.*"],
        "the database has one layout; --gcmode chooses history",
    ),
    (&["datadir.*", "datadir-*", "ancient*"], ONE_FOLDER),
    (
        &["txlookuplimit", "history.*"],
        "every transaction of the chain can be found by its hash; --history.state bounds the state history",
    ),
    (
        &[
            "txpool.nolocals",
            "txpool.locals",
            "txpool.rejournal",
            "txpool.accountqueue",
            "txpool.globalqueue",
            "blobpool.*",
        ],
        "--txpool.accountslots and --txpool.globalslots bound the pool, --txpool.journal keeps transactions across \
         restarts",
    ),
    (&["ipcapi", "ipc.api"], "the Unix socket serves every namespace"),
    (&["authrpc.*"], "there is no engine API; --authrpc.jwtsecret gives the file with the secret of bearer tokens"),
    (&["preload", "exec", "jspath"], NO_CONSOLE),
    (&["graphql*"], "there is no GraphQL; --http.api and --ws.api serve JSON-RPC"),
    (&["http.rpcprefix", "ws.rpcprefix"], "HTTP is always served at /"),
    (&["rollback"], "tenon db unwind NUMBER --datadir DIR"),
    (&["gpo*"], "eth_gasPrice needs no settings"),
    (&["enable-0x-prefix"], "addresses are written with 0x"),
    (&["fakepow", "ethash*", "nocompaction", "override.*"], "Tenon has no such choice"),
];

const ONE_FOLDER: &str = "everything is in --datadir";

/// The error for a word of another client, instead of clap's guess; `None` for any other error.
pub(crate) fn answer(error: &clap::Error, first: Option<&str>) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand)?;
            Some(format!("there is no command `{word}`: {}", find(COMMANDS, word)?))
        }
        ErrorKind::UnknownArgument => {
            let flag = text(ContextKind::InvalidArg)?.split('=').next().unwrap_or_default();
            let word = flag.trim_start_matches('-');
            if let Some(instead) = find(FLAGS, word) {
                return Some(format!("there is no flag `{flag}`: {instead}"));
            }
            // `tenon --datadir DIR`, as the reference is started.
            let is_setting =
                tenon_config::all_settings().iter().any(|row| row.flag == word || row.old_flags.contains(&word));
            let is_without_command = first.is_some_and(|first| first.starts_with('-'));
            (is_setting && is_without_command).then(|| {
                format!(
                    "`{flag}` needs a command before it: write `tenon run {flag} …`; `tenon --help` lists \
                    commands"
                )
            })
        }
        _ => None,
    }
}

fn find(table: &[(&[&str], &'static str)], word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    let is_meant = |name: &&str| match name.strip_suffix('*') {
        Some(beginning) => word.starts_with(beginning),
        None => word == *name,
    };
    table.iter().find(|(names, _)| names.iter().any(is_meant)).map(|(_, answer)| *answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::definition;

    fn said(arguments: &[&str]) -> Option<String> {
        let error = definition().try_get_matches_from([&["tenon"][..], arguments].concat()).unwrap_err();
        answer(&error, arguments.first().copied())
    }

    #[test]
    fn names_the_replacements_of_other_clients_commands() {
        for (word, wanted) in [
            ("init", "tenon run --genesis FILE --datadir DIR"),
            ("wallet", "tenon account import FILE"),
            ("attach", "`tenon module` administers a running node"),
            ("console", "any JSON-RPC client opens its Unix socket"),
            ("version", "tenon --version"),
            ("removedb", "remove the folder `db`"),
        ] {
            let said = said(&[word, "x"]).unwrap();
            assert!(said.starts_with(&format!("there is no command `{word}`: ")) && said.contains(wanted), "{said}");
        }
    }

    #[test]
    fn names_the_replacements_of_other_clients_flags() {
        for (flag, wanted) in [
            ("--syncmode", "--gcmode chooses how much history is kept"),
            ("--v5disc", "--p2p turns the network on"),
            ("--nodekeyhex", "--nodekey"),
            ("--ethstats", "--metrics serves figures for Prometheus"),
            ("--usb", "--device.enabled looks for hardware wallets"),
            ("--pcscdpath", "smart cards are not supported"),
            ("--store-reward", "eth_getRewardByHash"),
            ("--XDCx.datadir", "everything is in --datadir"),
            ("--apothem", "--network testnet"),
            ("--miner.gasprice", "`tenon dev` makes blocks"),
            ("--pprof.port", "--metrics"),
            ("--vmodule", "--log.filter"),
        ] {
            for arguments in [&["run", flag, "x"][..], &["run", &format!("{flag}=x")], &[flag, "x"]] {
                let said = said(arguments).unwrap();
                assert!(said.starts_with(&format!("there is no flag `{flag}`: ")) && said.contains(wanted), "{said}");
            }
        }
    }

    #[test]
    fn names_the_command_for_a_flag_without_one() {
        let told = said(&["--datadir", "/x"]).unwrap();

        assert!(told.starts_with("`--datadir` needs a command before it: write `tenon run --datadir …`"), "{told}");
    }

    #[test]
    fn unknown_words_get_claps_suggestion() {
        assert_eq!(said(&["run", "--http.prot", "1"]), None);
        assert_eq!(said(&["rnu"]), None);
    }

    #[test]
    fn no_word_of_the_tables_is_a_word_of_tenon() {
        let command = definition();
        let settings = tenon_config::all_settings();
        for (names, _) in COMMANDS {
            assert!(names.iter().all(|name| command.find_subcommand(name).is_none()), "{names:?}");
        }
        for name in FLAGS.iter().flat_map(|(names, _)| names.iter()).filter(|name| !name.ends_with('*')) {
            let is_own = settings.iter().any(|row| row.flag == *name || row.old_flags.contains(name));
            assert!(!is_own, "{name}");
        }
    }
}
