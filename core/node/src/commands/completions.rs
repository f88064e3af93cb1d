//! `tenon completions`.

use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;

use crate::command_line;
use crate::exit::Stop;

const EXAMPLES: &str = "\
Examples:
  tenon completions bash > /etc/bash_completion.d/tenon
  tenon completions zsh > ~/.zfunc/_tenon
  tenon completions fish > ~/.config/fish/completions/tenon.fish";

/// Subcommands of `tenon module` that take the name of a module.
const NAMING: &str = "info|load|enable|disable|replace|unload";

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
        super::print(script(*shell).as_bytes())?;
    }
    Ok(())
}

/// The script of clap, extended to complete names of modules from the running node where the shell supports it.
fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_line::definition(), "tenon", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => script + &bash(),
        // The script ends with the call of the function, so additions must come before it.
        Shell::Zsh => zsh(&script),
        Shell::Fish => script + &fish(),
        _ => script,
    }
}

/// Wraps clap's function: a third word that is not a flag, after a command that takes a module's name, is completed as
/// a module.
fn bash() -> String {
    format!(
        r#"
_tenon_with_modules() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" folder=() index
    if [[ "${{COMP_WORDS[1]}}" == module && ${{COMP_CWORD}} -ge 3 && "${{current}}" != -* &&
        "${{COMP_WORDS[2]}}" =~ ^({NAMING})$ && "${{COMP_WORDS[COMP_CWORD-1]}}" != -* ]]; then
        for ((index = 3; index < COMP_CWORD; index++)); do
            [[ "${{COMP_WORDS[index]}}" == --datadir ]] && folder=(--datadir "${{COMP_WORDS[index+1]}}")
        done
        COMPREPLY=($(compgen -W "$(tenon module names "${{folder[@]}}" 2>/dev/null)" -- "${{current}}"))
        [[ ${{#COMPREPLY[@]}} -gt 0 ]] && return 0
    fi
    _tenon "$@"
}}
complete -F _tenon_with_modules -o nosort -o bashdefault -o default tenon
"#
    )
}

fn zsh(script: &str) -> String {
    const NAMES: &str = r#"
_tenon_module_names() {
    local -a names folder
    (( ${words[(I)--datadir]} )) && folder=(--datadir ${words[${words[(I)--datadir]}+1]})
    names=(${(f)"$(tenon module names $folder 2>/dev/null)"})
    compadd -a names
}
"#;
    let named =
        script.replace(":name -- Name of the module:_default", ":name -- Name of the module:_tenon_module_names");
    match named.find("\n_tenon() {") {
        Some(at) => format!("{}{NAMES}{}", &named[..at], &named[at..]),
        None => named,
    }
}

fn fish() -> String {
    let commands = NAMING.replace('|', " ");
    format!(
        r#"
function __tenon_module_names
    set -l words (commandline -opc)
    set -l folder
    if set -l at (contains -i -- --datadir $words)
        set folder --datadir $words[(math $at + 1)]
    end
    tenon module names $folder 2>/dev/null
end
complete -c tenon -n "__fish_seen_subcommand_from module; and __fish_seen_subcommand_from {commands}" -f -a "(__tenon_module_names)"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_modules_come_from_the_running_node_where_the_shell_supports_it() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            assert!(script(shell).contains("tenon module names"), "{shell}");
        }
        let zsh = script(Shell::Zsh);
        assert_eq!(zsh.matches(":_tenon_module_names'").count(), NAMING.split('|').count() - 1, "load takes a target");
        assert!(zsh.find("_tenon_module_names()") < zsh.find("\n_tenon() {"));
        assert!(!script(Shell::PowerShell).contains("tenon module names"));
    }

    #[test]
    fn commands_that_take_a_module_name_exist() {
        let definition = super::super::module::definition();
        let known: Vec<_> = definition.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        for command in NAMING.split('|').chain(["names"]) {
            assert!(known.contains(&command.to_owned()), "{command}");
        }
    }
}
