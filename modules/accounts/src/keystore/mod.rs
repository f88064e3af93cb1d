//! Key files: one encrypted secret key per file, in a folder that other clients can use too (`docs/spec/rpc-node.md`
//! 6.4).

mod cost;
mod error;
mod file_name;
mod folder;
mod key_file;
mod members;
mod scan;
mod sealed_text;
#[cfg(test)]
mod tests;

pub use cost::{CostLimits, KeyDerivation};
pub use error::KeyFolderError;
pub use file_name::FileNames;
pub use folder::{KeyFolder, StoredKey};
pub use key_file::{KeyFile, MAX_KEY_FILE_BYTES};
pub use scan::{KeyChanges, KeyList, KeySnapshot, ListedKey, MAX_KEY_FILES};
