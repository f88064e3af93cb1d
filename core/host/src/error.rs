use std::path::PathBuf;

use tenon_api::Failure;

/// Why a plugin was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The library, or its copy in the cache folder, cannot be read or written.
    #[error("plugin {}: {action}: {reason}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The system's loader refused the library.
    #[error("plugin {}: not a loadable library: {reason}", path.display())]
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// What the loader said.
        reason: String,
    },
    /// The library does not export the one symbol of plugins, or gave nothing through it.
    #[error("plugin {}: not a Tenon plugin: {reason}", path.display())]
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
    #[error("plugin {}: its table has {plugin} bytes, ABI 1.0 has {host}", path.display())]
    TableSize {
        /// The file.
        path: PathBuf,
        /// Bytes that the plugin states.
        plugin: usize,
        /// Bytes that it must have.
        host: usize,
    },
    /// Its messages differ from this node's.
    #[error("plugin {}: its messages (schema {plugin}) are not those of this node (schema {host}); build it again with this node's tenon-sdk", path.display())]
    SchemaHash {
        /// The file.
        path: PathBuf,
        /// Hash of the plugin's messages, hex.
        plugin: String,
        /// Hash of this node's messages, hex.
        host: String,
    },
    /// Something that it says about itself is malformed.
    #[error("plugin {}: {what}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What, and what it should be.
        what: String,
    },
    /// Another plugin serves the namespace.
    #[error("plugin {}: namespace {namespace} is served by {by} already", path.display())]
    NamespaceTaken {
        /// The file.
        path: PathBuf,
        /// The namespace.
        namespace: String,
        /// The plugin that serves it.
        by: String,
    },
    /// A capability is wanted that this node does not know.
    #[error("plugin {}: it wants the capability {capability}, which this node does not know", path.display())]
    UnknownCapability {
        /// The file.
        path: PathBuf,
        /// The capability.
        capability: String,
    },
    /// The plugin itself said no.
    #[error("plugin {}: did not start: {failure}", path.display())]
    NotStarted {
        /// The file.
        path: PathBuf,
        /// Its reason.
        failure: Failure,
    },
    /// The host is shutting down.
    #[error("plugin {}: the node is shutting down", path.display())]
    ShuttingDown {
        /// The file.
        path: PathBuf,
    },
}
