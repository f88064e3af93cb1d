//! `tenon signer`: the signing service, its policy, its log, and the commands of approvers.

mod audit;
#[cfg(debug_assertions)]
mod intrusion;
mod new;
mod policy;
mod requests;
mod run;
mod wallets;

use clap::{ArgMatches, Command};

use crate::exit::Stop;

const EXAMPLES: &str = "\
Examples:
  tenon signer new ./signer                             create settings and a policy
  tenon signer run ./signer/signer.toml                 run the service until Ctrl-C
  tenon signer requests --socket ./signer/owner.sock    list requests that wait for approval
  tenon signer approve 17 --socket ./signer/owner.sock  show a request, and ask for approval
  tenon signer login --socket ./signer/owner.sock       the same in a browser
  tenon signer audit verify ./signer/log                check that the log is unchanged";

pub(crate) fn definition() -> Command {
    Command::new("signer")
        .about("The signing service: holds keys, and signs by rules, with approvals and a log")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([new::definition(), run::definition()])
        .subcommands(requests::definitions())
        .subcommands(wallets::definitions())
        .subcommands([policy::definition(), audit::definition(), run::helper()])
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    match matches.subcommand() {
        Some(("new", matches)) => new::execute(matches),
        Some(("run", matches)) => run::execute(matches),
        Some(("policy", matches)) => policy::execute(matches),
        Some(("audit", matches)) => audit::execute(matches),
        Some((command, matches)) if run::is_helper(command) => run::help(matches),
        Some((command @ ("wallets" | "open" | "derive"), matches)) => wallets::execute(command, matches),
        Some((command, matches)) => requests::execute(command, matches),
        None => Err(Stop::Usage("tenon signer: no command given; `tenon signer --help` lists them".into())),
    }
}
