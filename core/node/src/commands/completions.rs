//! `tenon completions`.

use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;

use crate::command_line;
use crate::exit::Stop;

const EXAMPLES: &str = "\
Examples:
  tenon completions bash > /etc/bash_completion.d/tenon
  tenon completions zsh > ~/.zfunc/_tenon";

pub(crate) fn definition() -> Command {
    Command::new("completions").about("Print a shell's completion script").after_help(EXAMPLES).arg(
        Arg::new("shell")
            .value_name("SHELL")
            .required(true)
            .value_parser(value_parser!(Shell))
            .help("bash, elvish, fish, powershell or zsh"),
    )
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    if let Some(shell) = matches.get_one::<Shell>("shell") {
        let mut script = Vec::new();
        clap_complete::generate(*shell, &mut command_line::definition(), "tenon", &mut script);
        super::print(&script)?;
    }
    Ok(())
}
