//! The program's name and version.

use std::sync::LazyLock;

/// The commit from which it was built, eight digits; empty if unknown.
const COMMIT: &str = env!("TENON_COMMIT");
/// The compiler: `rust1.95`.
const COMPILER: &str = env!("TENON_COMPILER");
/// The release.
const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Release, commit (empty if unknown) and compiler.
pub(crate) const fn build() -> (&'static str, &'static str, &'static str) {
    (RELEASE, COMMIT, COMPILER)
}

/// The text that `--version` prints after the name.
pub(crate) fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| match COMMIT {
        "" => format!("{RELEASE} ({}, {COMPILER})", platform()),
        commit => format!("{RELEASE} (commit {commit}, {}, {COMPILER})", platform()),
    });
    &VERSION
}

/// The answer of `web3_clientVersion`: `Tenon/v0.1.0-1a2b3c4d/linux-amd64/rust1.95`, with the operator's word after the
/// name if there is one.
pub(crate) fn client_version(identity: &str) -> String {
    let name = if identity.is_empty() { "Tenon".to_owned() } else { format!("Tenon/{identity}") };
    let dash = if COMMIT.is_empty() { "" } else { "-" };
    format!("{name}/v{RELEASE}{dash}{COMMIT}/{}/{COMPILER}", platform())
}

/// Operating system and processor, named as by clients of this family.
fn platform() -> String {
    let processor = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{}-{processor}", std::env::consts::OS)
}

#[cfg(test)]
mod tests {
    use super::client_version;

    #[test]
    fn names_release_platform_and_compiler() {
        let plain = client_version("");
        let named = client_version("mine");

        assert!(plain.starts_with("Tenon/v0.1.0"), "{plain}");
        assert_eq!(plain.split('/').count(), 4);
        assert!(named.starts_with("Tenon/mine/v0.1.0"), "{named}");
        assert!(plain.rsplit('/').next().unwrap().starts_with("rust1."), "{plain}");
    }
}
