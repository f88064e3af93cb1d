//! Files of the suites: the project's packed ones, or a folder.

use std::{
    collections::HashSet,
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use flate2::read::GzDecoder;

use crate::Suite;

/// Bytes of a block of a tar archive.
const TAR_BLOCK: usize = 512;

/// Why the files cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file or folder cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A packed archive is damaged.
    #[error("{path}: damaged archive at byte {offset}")]
    Archive {
        /// Its path.
        path: PathBuf,
        /// The offset.
        offset: usize,
    },
}

/// A file of a suite, not yet read.
#[derive(Clone, Debug)]
pub struct CaseFile {
    /// Its path below the suites' root, without `.gz`.
    pub path: String,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    File(PathBuf),
    Packed { archive: Arc<Vec<u8>>, start: usize, end: usize },
}

impl CaseFile {
    /// Its text, unpacked.
    ///
    /// # Errors
    /// The file is missing or damaged.
    pub fn read(&self) -> std::io::Result<Vec<u8>> {
        let read;
        let bytes = match &self.content {
            Content::File(path) => {
                read = fs::read(path)?;
                &read[..]
            }
            Content::Packed { archive, start, end } => archive.get(*start..*end).unwrap_or_default(),
        };
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            return Ok(bytes.to_vec());
        }
        let mut text = Vec::new();
        GzDecoder::new(bytes).read_to_end(&mut text)?;
        Ok(text)
    }
}

/// All files of the suites.
#[derive(Clone, Debug)]
pub struct Source {
    /// Ascending by path.
    pub files: Vec<CaseFile>,
}

impl Source {
    /// The project's files.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn packed() -> Result<Self, SourceError> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/ethereum-tests");
        let mut files = Vec::new();
        for archive in ["small-suites.tar", "state-tests.tar", "block-tests.tar"] {
            files.extend(members(&folder.join(archive))?);
        }
        Ok(Self::sorted(files))
    }

    /// All `.json` and `.json.gz` files below a folder, or that one file. Folders named as in `ethereum/tests`, at any
    /// depth or above it, determine the suites.
    ///
    /// # Errors
    /// [`SourceError`].
    pub fn folder(root: &Path) -> Result<Self, SourceError> {
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |source| SourceError::Read { path, source }
        };
        let root = root.canonicalize().map_err(failed(root))?;
        let mut files = Vec::new();
        // Links are followed, so they may form cycles.
        let mut seen = HashSet::new();
        let mut open = vec![root.clone()];
        while let Some(path) = open.pop() {
            if !path.is_dir() {
                files.extend(case_file(&root, path));
            } else if seen.insert(path.canonicalize().map_err(failed(&path))?) {
                for entry in fs::read_dir(&path).map_err(failed(&path))? {
                    open.push(entry.map_err(failed(&path))?.path());
                }
            }
        }
        Ok(Self::sorted(files))
    }

    fn sorted(mut files: Vec<CaseFile>) -> Self {
        files.sort_by(|left, right| left.path.cmp(&right.path));
        Self { files }
    }
}

/// The file, if it is one of cases, with a path that names its suite if possible.
fn case_file(root: &Path, path: PathBuf) -> Option<CaseFile> {
    let without_suffix = |text: &str| text.strip_suffix(".gz").unwrap_or(text).to_owned();
    let relative = without_suffix(&path.strip_prefix(root).unwrap_or(&path).to_string_lossy());
    let whole = without_suffix(&path.to_string_lossy());
    if !whole.ends_with(".json") {
        return None;
    }
    let name = match (Suite::in_path(&relative), Suite::in_path(&whole)) {
        (None, Some((_, start))) => whole[start..].to_owned(),
        (None, None) if relative.is_empty() => whole,
        _ => relative,
    };
    Some(CaseFile { path: name, content: Content::File(path) })
}

/// The members of an uncompressed tar archive.
fn members(path: &Path) -> Result<Vec<CaseFile>, SourceError> {
    let read = |source| SourceError::Read { path: path.to_path_buf(), source };
    let archive = Arc::new(fs::read(path).map_err(read)?);
    let mut files = Vec::new();
    let mut offset = 0;
    while let Some(header) = archive.get(offset..offset + TAR_BLOCK).filter(|header| header[0] != 0) {
        let damaged = || SourceError::Archive { path: path.to_path_buf(), offset };
        let text = |range: std::ops::Range<usize>| {
            String::from_utf8_lossy(&header[range]).trim_matches(['\0', ' ']).to_owned()
        };
        let length = usize::from_str_radix(&text(124..136), 8).map_err(|_| damaged())?;
        let (prefix, name) = (text(345..500), text(0..100));
        let full = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        let start = offset + TAR_BLOCK;
        let end = start.checked_add(length).filter(|end| *end <= archive.len()).ok_or_else(damaged)?;
        let path = full.strip_suffix(".gz").unwrap_or(&full).to_owned();
        files.push(CaseFile { path, content: Content::Packed { archive: Arc::clone(&archive), start, end } });
        offset = end.next_multiple_of(TAR_BLOCK);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_their_suites_names_whatever_the_root_folder() {
        let outer = tempfile::tempdir().unwrap();
        let deep = outer.path().join("Legacy/BlockchainTests/ValidBlocks/bc one");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("ä.json"), "{}").unwrap();
        fs::write(deep.join("b.json.gz"), "{}").unwrap();
        fs::write(deep.join("README.md"), "").unwrap();
        let paths = |root: &Path| -> Vec<String> {
            Source::folder(root).unwrap().files.into_iter().map(|file| file.path).collect()
        };

        let (b, a) = ("BlockchainTests/ValidBlocks/bc one/b.json", "BlockchainTests/ValidBlocks/bc one/ä.json");
        assert_eq!(paths(outer.path()), [format!("Legacy/{b}"), format!("Legacy/{a}")]);
        assert_eq!(paths(&deep), [b, a]);
        assert_eq!(paths(&deep.join("b.json.gz")), [b]);
        assert!(Source::folder(&deep.join("nothing")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_cyclic_link_is_followed_once() {
        let outer = tempfile::tempdir().unwrap();
        fs::write(outer.path().join("a.json"), "{}").unwrap();
        std::os::unix::fs::symlink(outer.path(), outer.path().join("around")).unwrap();

        assert_eq!(Source::folder(outer.path()).unwrap().files.len(), 1);
    }
}
