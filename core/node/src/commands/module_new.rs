//! `tenon module new`: writes the crate of a plugin that builds unchanged.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use tenon_config::Settings;

use crate::commands::print;
use crate::exit::Stop;
use crate::plugin_folder;

/// The example that becomes the new crate; the workspace builds and tests it.
const EXAMPLE: &str = include_str!("../../../../plugins/examples/heights/src/lib.rs");
/// Maximum length of a namespace.
const MAX_NAME: usize = 32;

pub(crate) fn definition() -> Command {
    Command::new("new")
        .about("Create the crate of a new plugin, ready to build")
        .arg(Arg::new("name").value_name("NAME").required(true).help("Namespace of the plugin: letters and digits"))
        .arg(
            Arg::new("sdk")
                .long("sdk")
                .value_name("PATH")
                .value_parser(value_parser!(PathBuf))
                .help("Folder of tenon-sdk (plugins/sdk of the sources); found automatically inside a checkout"),
        )
        .arg(
            Arg::new("git")
                .long("git")
                .value_name("URL")
                .conflicts_with("sdk")
                .help("Git repository of tenon-sdk, to depend on instead of a folder"),
        )
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let name = matches.get_one::<String>("name").cloned().unwrap_or_default();
    let here = std::env::current_dir().map_err(Stop::failure)?;
    let source = match matches.get_one::<String>("git") {
        Some(url) => format!("{{ git = {url:?} }}"),
        None => format!("{{ path = {:?} }}", sdk_folder(matches, &here)?.display().to_string()),
    };
    write_crate(&here, &name, &source)?;
    let folders = plugin_folder::folders(&Settings::default(), &plugin_folder::program_folder()?);
    let folder = folders.first().map(|folder| folder.path.clone()).unwrap_or_default();
    let next = next_steps(&name, &folder);
    print(next.as_bytes())
}

/// The next steps, as commands to run in order. The copied library gets the prefix of built-in plugins, because the
/// program's own folder is searched for such names only.
fn next_steps(name: &str, folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "wrote {name}/: a method {name}_above, a subscription, tests; docs/plugins.md has the next steps\n\n  \
         cd {name} && cargo test && cargo build --release\n  \
         tenon module check target/release/lib{name}.so\n  \
         cp target/release/lib{name}.so {folder}/libtenon_plugin_{name}.so\n  \
         tenon module load {name} --grant ReadChain    # the capability that it requests\n"
    )
}

/// The folder of the SDK: the given one, or that of the surrounding checkout.
fn sdk_folder(matches: &ArgMatches, here: &Path) -> Result<PathBuf, Stop> {
    match matches.get_one::<PathBuf>("sdk") {
        Some(path) => path.canonicalize().map_err(|error| Stop::Usage(format!("--sdk {}: {error}", path.display()))),
        None => here
            .ancestors()
            .map(|folder| folder.join("plugins/sdk"))
            .find(|sdk| sdk.join("Cargo.toml").is_file())
            // Cargo would not find the surrounding workspace through a link.
            .and_then(|sdk| sdk.canonicalize().ok())
            .ok_or_else(|| {
                Stop::Usage(
                    "the current folder is not in a checkout of Tenon; give the path of \
                plugins/sdk with --sdk"
                        .into(),
                )
            }),
    }
}

/// Writes the crate into `folder`. `sdk` is the SDK as a dependency, without its name.
fn write_crate(folder: &Path, name: &str, sdk: &str) -> Result<(), Stop> {
    let is_good = name.len() <= MAX_NAME
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if !is_good {
        let rule = format!("a small letter, then at most {} small letters and digits", MAX_NAME - 1);
        return Err(Stop::Usage(format!("`{name}` can't be a namespace: {rule}")));
    }
    let target = folder.join(name);
    let failed = |error| Stop::Failure(format!("{}: {error}", target.display()));
    // Fails if the folder exists: nothing is ever overwritten.
    fs::create_dir(&target).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Stop::Usage(format!("{name} already exists here; choose another name")),
        _ => failed(error),
    })?;
    fs::create_dir(target.join("src")).map_err(failed)?;
    let (mut first, rest) = (name.to_owned(), name.get(1..).unwrap_or_default());
    first.truncate(1);
    let type_name = first.to_ascii_uppercase() + rest;
    let source = EXAMPLE.replace("heights", name).replace("Heights", &type_name);
    let files = [("Cargo.toml", manifest(name, sdk)), ("src/lib.rs", source), (".gitignore", "/target\n".to_owned())];
    for (file, content) in files {
        fs::write(target.join(file), content).map_err(failed)?;
    }
    Ok(())
}

fn manifest(name: &str, sdk: &str) -> String {
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\ntenon-sdk = {sdk}\n\n[lib]\n\
         crate-type = [\"cdylib\", \"rlib\"]\n\n# A crate of its own, even inside another workspace's folder.\n[workspace]\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_a_crate_under_the_new_name_and_never_overwrites_another() {
        let folder = tempfile::tempdir().unwrap();

        let sdk = "{ path = \"/opt/sdk\" }";
        write_crate(folder.path(), "tokens", sdk).unwrap();
        let again = write_crate(folder.path(), "tokens", sdk).unwrap_err().to_string();

        let read = |file: &str| fs::read_to_string(folder.path().join("tokens").join(file)).unwrap();
        assert!(read("Cargo.toml").contains("tenon-sdk = { path = \"/opt/sdk\" }"));
        assert!(read("src/lib.rs").contains("Table::new(\"tokens\", \"1.0\")"));
        assert!(!read("src/lib.rs").to_lowercase().contains("heights"));
        assert!(again.contains("exists"), "{again}");
    }

    #[test]
    fn ends_with_the_commands_that_load_the_plugin() {
        let expected = "\
wrote tokens/: a method tokens_above, a subscription, tests; docs/plugins.md has the next steps

  cd tokens && cargo test && cargo build --release
  tenon module check target/release/libtokens.so
  cp target/release/libtokens.so /opt/plugins/libtenon_plugin_tokens.so
  tenon module load tokens --grant ReadChain    # the capability that it requests
";

        assert_eq!(next_steps("tokens", Path::new("/opt/plugins")), expected);
    }

    #[test]
    fn refuses_an_invalid_namespace() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["", "1st", "a_b", "../up", "Big", &"x".repeat(MAX_NAME + 1)] {
            let refused = write_crate(folder.path(), name, "{}").unwrap_err().to_string();
            assert!(refused.contains("can't be a namespace"), "{name}: {refused}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
