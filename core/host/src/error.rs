//! Why a library was refused.

use std::path::PathBuf;

/// Why a library was refused.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The library, or its copy in the cache folder, cannot be read or written.
    #[error("plugin {}: {action}: {reason}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The failed action.
        action: &'static str,
        /// The system's error.
        reason: std::io::Error,
    },
    /// The system's loader refused the library.
    #[error("plugin {}: not a loadable library: {reason}; build it as a cdylib for this system", path.display())]
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// The loader's error.
        reason: String,
    },
    /// The library does not export the plugin symbol, or the symbol returned nothing.
    #[error("plugin {}: not a Tenon plugin: {reason}; `tenon module new` creates one", path.display())]
    NotAPlugin {
        /// The file.
        path: PathBuf,
        /// What is missing.
        reason: &'static str,
    },
    /// Built for another version of the boundary.
    #[error("plugin {}: built for plugin ABI {plugin}, this node has {host}; build it again with the matching tenon-sdk", path.display())]
    AbiVersion {
        /// The file.
        path: PathBuf,
        /// The version that the plugin needs.
        plugin: String,
        /// The version of this node.
        host: String,
    },
    /// Its table of functions is shorter than that of its ABI version.
    #[error("plugin {}: its table has {plugin} bytes, but that of ABI 1.0 has {host}; build it again with the \
        matching tenon-sdk", path.display())]
    TableSize {
        /// The file.
        path: PathBuf,
        /// Bytes that the plugin states.
        plugin: usize,
        /// Bytes that it must have.
        host: usize,
    },
    /// Its messages differ from this node's.
    #[error("plugin {}: its messages have schema {plugin}, but those of this node have schema {host}; build it again \
        with this node's tenon-sdk", path.display())]
    SchemaHash {
        /// The file.
        path: PathBuf,
        /// Hash of the plugin's messages, hex.
        plugin: String,
        /// Hash of this node's messages, hex.
        host: String,
    },
    /// Part of its manifest is malformed.
    #[error("plugin {}: {what}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// The malformed part, and what it should be.
        what: String,
    },
    /// Its file or folder is not safe to load from.
    #[error("plugin {}: refused: {reason}", path.display())]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// The problem, and how to fix it.
        reason: String,
    },
    /// It requests a capability that this node does not know.
    #[error("plugin {}: it requests the capability {capability}, which this node does not know; build it again with \
        this node's tenon-sdk", path.display())]
    UnknownCapability {
        /// The file.
        path: PathBuf,
        /// The capability.
        capability: String,
    },
}
