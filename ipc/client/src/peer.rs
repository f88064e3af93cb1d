//! Which users' processes may receive what this client sends.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use interprocess::local_socket::{tokio::Stream, traits::StreamCommon as _};

use crate::SocketError;

/// Bits of a folder's mode that let users besides its owner change it.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Refuses a socket that another user may have put in the place of the node's. Must be called before anything is sent.
///
/// # Errors
/// [`SocketError::Impostor`], and [`SocketError::Connect`] if the system does not report the process's user.
pub(crate) fn check(stream: &Stream, path: &Path) -> Result<(), SocketError> {
    let failed = |source| SocketError::Connect { path: path.to_owned(), source };
    let user = stream.peer_creds().map_err(failed)?.euid();
    let user = user.ok_or_else(|| failed(std::io::ErrorKind::Unsupported.into()))?;
    if is_trusted(user, rustix::process::geteuid().as_raw(), path) {
        return Ok(());
    }
    Err(SocketError::Impostor { path: path.to_owned(), user })
}

/// Returns whether user `own` may send secrets to a process of `user` that listens at `path`. That user itself and root
/// are trusted. Another user is trusted only if no third user can create a socket there. So all folders of the real
/// path must belong to `user` or root, and only their owners may change them.
fn is_trusted(user: u32, own: u32, path: &Path) -> bool {
    let is_closed = |folder: &Path| {
        fs::metadata(folder)
            .is_ok_and(|found| [0, user].contains(&found.uid()) && found.mode() & WRITABLE_BY_OTHERS == 0)
    };
    user == own || user == 0 || path.canonicalize().is_ok_and(|path| path.ancestors().skip(1).all(is_closed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_user_is_trusted_only_where_no_third_one_can_create_a_socket() {
        let shared = tempfile::tempdir_in("/tmp").unwrap();
        let in_shared = shared.path().join("tenon.ipc");

        assert!(is_trusted(1_000, 1_000, &in_shared) && is_trusted(0, 1_000, &in_shared));
        assert!(is_trusted(1_000, 0, Path::new("/usr/bin/env")), "a folder of root");
        assert!(!is_trusted(1_000, 0, &in_shared), "a folder below one that everybody can change");
        fs::write(&in_shared, "").unwrap();
        assert!(!is_trusted(1_000, 0, &in_shared));
        assert!(!is_trusted(1_000, 0, Path::new("/no/such/folder/tenon.ipc")));
    }

    #[test]
    fn a_link_does_not_hide_a_folder_that_others_can_change() {
        use std::os::fd::AsRawFd as _;
        let user = match rustix::process::geteuid().as_raw() {
            0 => 1_000,
            own => own,
        };
        let inner = tempfile::tempdir_in("/tmp").unwrap();
        fs::write(inner.path().join("tenon.ipc"), "").unwrap();
        let folder = fs::File::open(inner.path()).unwrap();
        // The folders of this path are closed to others; the one above the link's target, /tmp, is not.
        let linked = format!("/proc/self/fd/{}/tenon.ipc", folder.as_raw_fd());

        assert!(!is_trusted(user, user + 1, Path::new(&linked)));
    }
}
