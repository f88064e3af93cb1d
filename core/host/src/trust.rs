//! The trust in a library: built with this node, vouched for by the operator, or neither (foreign).
//!
//! Invariant: trust is decided by the hash of the loaded bytes, never by the file's name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

use crate::{
    HostError,
    library_file::{Ownership, check_owner, library_name},
};

/// The file with the hashes of the built-in plugins, next to their libraries. The build writes it, as `sha256sum` does.
pub const BUILT_IN_LIST: &str = "built-in-plugins.sha256";

/// Maximum length of the list, in bytes.
const MAX_LIST: u64 = 64 * 1024;
/// Characters of a SHA-256 in hex.
const HASH: usize = 64;

/// The plugins that were built with this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuiltIns {
    /// Module names by SHA-256, hex.
    names: BTreeMap<String, String>,
}

impl BuiltIns {
    /// Reads the list next to the libraries in `folder`; `None` if there is no list. Its owner and permissions are
    /// checked like a library's.
    ///
    /// # Errors
    /// [`HostError::Untrusted`] if others could have written it, or a line is malformed; [`HostError::File`].
    pub fn read(folder: &Path) -> Result<Option<Self>, HostError> {
        let path = folder.join(BUILT_IN_LIST);
        // Not blocking: opening a pipe would wait for its writer.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let file = match fs::OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Ok(file) => file,
            Err(reason) if reason.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(reason) => return Err(failed(&path, "cannot open the list of built-in plugins", reason)),
        };
        let untrusted = |reason: String| HostError::Untrusted { path: path.clone(), reason };
        let cannot_inspect = |reason| failed(&path, "cannot inspect the list of built-in plugins", reason);
        let facts = file.metadata().map_err(cannot_inspect)?;
        if !facts.is_file() {
            return Err(untrusted("it is not a regular file".to_owned()));
        }
        check_owner(Ownership::of(&facts), "it").map_err(untrusted)?;
        let folder_metadata = fs::metadata(folder).map_err(cannot_inspect)?;
        check_owner(Ownership::of(&folder_metadata), "its folder").map_err(untrusted)?;
        let mut text = String::new();
        let read = file.take(MAX_LIST + 1).read_to_string(&mut text);
        read.map_err(|reason| failed(&path, "cannot read the list of built-in plugins", reason))?;
        if text.len() as u64 > MAX_LIST {
            return Err(untrusted(format!("it has more than {MAX_LIST} bytes")));
        }
        Self::parse(&text).map(Some).map_err(untrusted)
    }

    /// Reads lines such as `<SHA-256>  libtenon_plugin_eth.so`.
    fn parse(text: &str) -> Result<Self, String> {
        let line = |(number, line): (usize, &str)| {
            let malformed = || format!("line {} is not `<SHA-256>  <library>`", number + 1);
            let (hash, file) = line.split_once(' ').ok_or_else(malformed)?;
            let file = file.trim_start_matches([' ', '*']);
            let name = library_name(Path::new(file)).filter(|name| !name.is_empty()).ok_or_else(malformed)?;
            Ok((content_hash(hash).ok_or_else(malformed)?, name.to_owned()))
        };
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines.map(line).collect::<Result<_, String>>().map(|names| Self { names })
    }

    /// Whether a build is one of them.
    pub fn has(&self, hash: &str) -> bool {
        self.names.contains_key(hash)
    }

    /// Whether a namespace is one of theirs. They are named after their namespaces, in lower case.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.names.values().any(|known| known.eq_ignore_ascii_case(namespace))
    }

    /// Their module names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.values().map(String::as_str)
    }

    /// Whether one of them has this name.
    pub fn has_name(&self, name: &str) -> bool {
        self.names.values().any(|known| known == name)
    }
}

/// Parses a SHA-256 in hex; returns it in lower case.
pub(crate) fn content_hash(text: &str) -> Option<String> {
    let is_hash = text.len() == HASH && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hash.then(|| text.to_ascii_lowercase())
}

/// Builds that the operator's settings vouch for, by their content hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VouchedBuilds(BTreeSet<String>);

impl VouchedBuilds {
    /// The builds with these hashes.
    ///
    /// # Errors
    /// The text that is not a SHA-256 in hex, and how to get one.
    pub fn from_hashes<'a>(hashes: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let hash = |text: &str| {
            content_hash(text.trim()).ok_or_else(|| {
                format!(
                    "`{text}` is not a SHA-256 hash in hex; `sha256sum FILE` prints the hash of a \
                    library"
                )
            })
        };
        hashes.into_iter().map(hash).collect::<Result<_, _>>().map(Self)
    }

    /// Whether it names the build with this hash.
    pub fn has(&self, hash: &str) -> bool {
        self.0.contains(hash)
    }
}

fn failed(path: &Path, action: &'static str, reason: std::io::Error) -> HostError {
    HostError::File { path: PathBuf::from(path), action, reason }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const HASH_A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    #[test]
    fn a_list_names_builds_by_hash_and_not_by_file() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(BuiltIns::read(folder.path()).unwrap(), None);
        fs::write(folder.path().join(BUILT_IN_LIST), format!("{HASH_A}  libtenon_plugin_eth.so\n\n")).unwrap();

        let list = BuiltIns::read(folder.path()).unwrap().unwrap();

        assert!(list.has(HASH_A) && list.has_name("eth"));
        assert!(!list.has(&HASH_A.replace('a', "b")) && !list.has_name("libtenon_plugin_eth.so"));
    }

    #[test]
    fn a_list_that_others_can_write_or_that_is_malformed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(BUILT_IN_LIST);
        let refusal = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            BuiltIns::read(folder.path()).unwrap_err().to_string()
        };

        assert!(refusal("", 0o666).contains("it is writable by everyone (mode 666); chmod o-w"));
        for text in ["eth.so", "aa  eth.so", &format!("{HASH_A}  eth"), HASH_A] {
            let refused = refusal(text, 0o600);
            assert!(refused.contains("line 1 is not `<SHA-256>  <library>`"), "{text}: {refused}");
        }
        let long = " \n".repeat(40_000);
        assert!(refusal(&long, 0o600).contains("it has more than 65536 bytes"));
    }

    #[test]
    fn a_list_in_a_folder_that_others_can_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(BUILT_IN_LIST), "").unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();

        let refused = BuiltIns::read(folder.path()).unwrap_err().to_string();

        assert!(refused.contains("its folder is writable by everyone (mode 777)"), "{refused}");
    }

    #[test]
    fn the_operator_vouches_by_hash_only() {
        let vouched = VouchedBuilds::from_hashes([HASH_A.to_ascii_uppercase().as_str()]).unwrap();

        assert!(vouched.has(HASH_A));
        let refused = VouchedBuilds::from_hashes(["eth"]).unwrap_err();
        assert_eq!(refused, "`eth` is not a SHA-256 hash in hex; `sha256sum FILE` prints the hash of a library");
    }
}
