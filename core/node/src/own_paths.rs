//! The node's own paths in the file system. A command or a request must not name files there.

use std::path::{Component, Path, PathBuf};

use tenon_config::Settings;

use crate::data_folder;
use crate::exit::Stop;

/// The node's folders and files.
#[derive(Clone, Debug)]
pub(crate) struct OwnPaths {
    /// The real path of the data folder.
    folder: PathBuf,
    /// Folders in it that requests and commands may use: `rpc.files`.
    open: Vec<PathBuf>,
    /// Files and folders named in the settings, wherever they are.
    named: Vec<(&'static str, PathBuf)>,
}

impl OwnPaths {
    /// The own paths by the settings.
    pub(crate) fn of(settings: &Settings) -> Self {
        let place = |path: &Path| real(&settings.in_data_folder(path));
        let named = [
            ("accounts.keystore", Some(&settings.accounts.keystore)),
            ("accounts.password", settings.accounts.password.as_ref()),
            ("auth.jwtsecret", Some(&settings.auth.jwtsecret)),
            ("ipc.path", Some(&settings.ipc.path)),
            ("p2p.nodekey", settings.peers.nodekey.as_ref()),
            ("txpool.journal", Some(&settings.pool.journal)),
        ];
        Self {
            folder: real(&settings.node.datadir),
            open: settings.rpc.files.iter().map(|folder| place(Path::new(folder))).collect(),
            named: named.into_iter().filter_map(|(key, path)| Some((key, place(path?)))).collect(),
        }
    }

    /// Why only the node may write to a real path, if so.
    pub(crate) fn refusal(&self, path: &Path) -> Option<String> {
        if let Some((key, _)) = self.named.iter().find(|(_, own)| path.starts_with(own)) {
            return Some(format!("it belongs to the node (setting {key})"));
        }
        let inside = path.strip_prefix(&self.folder).ok()?;
        let is_kept = data_folder::KEPT_FOLDERS.iter().any(|kept| inside.starts_with(kept));
        // If a folder of `rpc.files` is the data folder itself, it allows nothing.
        let is_open =
            |folder: &PathBuf| *folder != self.folder && folder.starts_with(&self.folder) && path.starts_with(folder);
        if !is_kept && self.open.iter().any(is_open) {
            return None;
        }
        let open: Vec<_> = self.open.iter().map(|folder| folder.display().to_string()).collect();
        Some(format!("it is in the data folder, which belongs to the node except for {}", open.join(", ")))
    }
}

/// Checks that a file named in the settings is not another file of the node.
///
/// # Errors
/// [`Stop::Usage`] naming the setting, and the owner of the path.
pub(crate) fn check(settings: &Settings, key: &str, path: &Path) -> Result<(), Stop> {
    let (own, path) = (OwnPaths::of(settings), real(&settings.in_data_folder(path)));
    let refused =
        |owner: &str| Stop::Usage(format!("`{key}`: {} is used by {owner}; give another path", path.display()));
    if let Some((other, _)) = own.named.iter().find(|(other, named)| *other != key && path.starts_with(named)) {
        return Err(refused(&format!("`{other}`")));
    }
    let Ok(inside) = path.strip_prefix(&own.folder) else { return Ok(()) };
    let is_kept = data_folder::KEPT_FOLDERS.iter().any(|kept| inside.starts_with(kept));
    if is_kept || data_folder::KEPT_FILES.iter().any(|kept| inside == Path::new(kept)) {
        return Err(refused("the node"));
    }
    Ok(())
}

/// The real path, as far as it exists.
pub(crate) fn real(path: &Path) -> PathBuf {
    let absolute = without_dots(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    let mut missing = Vec::new();
    for ancestor in absolute.ancestors() {
        if let Ok(real) = ancestor.canonicalize() {
            return missing.iter().rev().fold(real, |path, name| path.join(name));
        }
        missing.extend(ancestor.file_name());
    }
    absolute
}

/// A path without `..` after missing parts. Existing parts may be links, which only the system can follow.
fn without_dots(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir if !plain.exists() => {
                plain.pop();
            }
            part => plain.push(part),
        }
        plain
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_folder_is_closed_except_for_the_folders_of_rpc_files() {
        let parent = tempfile::tempdir().unwrap();
        let (data, elsewhere) = (parent.path().join("data"), parent.path().join("elsewhere"));
        std::fs::create_dir_all(data.join("db")).unwrap();
        std::fs::create_dir_all(&elsewhere).unwrap();
        let mut settings = Settings::default();
        settings.node.datadir = data.clone();
        settings.accounts.keystore = elsewhere.join("keys");
        settings.rpc.files =
            vec!["files".to_owned(), data.display().to_string(), data.join("db").display().to_string()];
        let own = OwnPaths::of(&settings);
        let is_refused = |path: PathBuf| own.refusal(&real(&path)).is_some();

        for name in [
            "db/CURRENT",
            "db/new",
            "modules.json",
            "jwt.hex",
            "tenon.ipc",
            "transactions.rlp",
            "plugins/x",
            "chain.rlp",
        ] {
            assert!(is_refused(data.join(name)), "{name}");
        }
        assert!(is_refused(elsewhere.join("keys/a")) && !is_refused(elsewhere.join("chain.rlp")));
        assert!(!is_refused(data.join("files/chain.rlp")) && !is_refused(data.join("files/db/chain.rlp")));
    }

    #[test]
    fn a_file_of_the_settings_is_not_another_file_of_the_node() {
        let mut settings = Settings::default();
        settings.node.datadir = "/nowhere".into();
        let check = |path: &str| check(&settings, "txpool.journal", Path::new(path)).map_err(|stop| stop.to_string());

        for (path, owner) in [
            ("modules.json", "the node"),
            ("/nowhere/db/CURRENT", "the node"),
            ("/nowhere/x/../tenon.ipc", "`ipc.path`"),
            ("jwt.hex", "`auth.jwtsecret`"),
            ("/nowhere/keystore/key", "`accounts.keystore`"),
        ] {
            let refused = check(path).unwrap_err();
            assert!(refused.starts_with("`txpool.journal`: /nowhere/"), "{refused}");
            assert!(refused.ends_with(&format!(" is used by {owner}; give another path")), "{refused}");
        }
        assert_eq!(check("transactions.rlp"), Ok(()));
        assert_eq!(check("/elsewhere/modules.json"), Ok(()));
    }

    #[test]
    fn a_path_is_resolved_as_far_as_it_exists() {
        let parent = tempfile::tempdir().unwrap();
        let real_parent = parent.path().canonicalize().unwrap();
        std::fs::create_dir(parent.path().join("a")).unwrap();
        std::os::unix::fs::symlink(parent.path().join("a"), parent.path().join("link")).unwrap();

        assert_eq!(real(&parent.path().join("link/b/c")), real_parent.join("a/b/c"));
    }
}
