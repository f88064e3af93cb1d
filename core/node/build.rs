//! Passes the commit and the compiler's version to the program. Without git, or outside a checkout, the commit is
//! omitted.

use std::process::Command;

fn main() {
    // A commit changes HEAD or the branch that it points to. Git is asked for both paths, because a work tree may keep
    // them elsewhere.
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=TENON_COMMIT");
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = output("git", &["rev-parse", "--path-format=absolute", "--git-path", name])
            && std::path::Path::new(&path).exists()
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let commit = std::env::var("TENON_COMMIT").ok().or_else(|| output("git", &["rev-parse", "--short=8", "HEAD"]));
    println!("cargo:rustc-env=TENON_COMMIT={}", commit.unwrap_or_default());

    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = output(&compiler, &["--version"]).unwrap_or_default();
    let number = version.split_whitespace().nth(1).unwrap_or_default();
    let release = number.rsplit_once('.').map_or(number, |(release, _)| release);
    println!("cargo:rustc-env=TENON_COMPILER=rust{release}");
}

/// Output of a program; `None` if it fails or prints nothing.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
