//! `tenon signer new`: creates a folder to start with.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};

use crate::commands::print;
use crate::exit::Stop;

const SETTINGS: &str = include_str!("new/signer.toml");
const POLICY: &str = include_str!("new/policy.toml");

pub(super) fn definition() -> Command {
    let folder = Arg::new("folder").value_name("FOLDER").required(true).value_parser(value_parser!(PathBuf));
    Command::new("new")
        .about("Create a folder with settings, and a policy that requires approval for every transaction")
        .arg(folder.help("The folder, which must not exist yet"))
}

pub(super) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let folder = matches.get_one::<PathBuf>("folder").map_or(Path::new(""), PathBuf::as_path);
    let failed = |path: &Path, error: std::io::Error| Stop::Usage(format!("{}: {error}", path.display()));
    fs::DirBuilder::new().mode(0o700).create(folder).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Stop::Usage(format!("{} already exists; `tenon signer new` creates a new folder", folder.display()))
        }
        _ => failed(folder, error),
    })?;
    let keystore = folder.join("keystore");
    fs::DirBuilder::new().mode(0o700).create(&keystore).map_err(|error| failed(&keystore, error))?;
    for (name, text) in [("signer.toml", SETTINGS), ("policy.toml", POLICY)] {
        let path = folder.join(name);
        let file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| failed(&path, error))?;
    }
    let shown = folder.display();
    let text = format!(
        "{shown}/signer.toml  who asks, who approves, which keys\n{shown}/policy.toml  which requests are signed\n\n\
         tenon signer run {shown}/signer.toml\n"
    );
    print(text.as_bytes())
}
