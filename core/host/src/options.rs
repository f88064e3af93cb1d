use std::{num::NonZeroUsize, path::PathBuf, thread::available_parallelism};

use tenon_api::Capability;

/// Settings of a [`PluginHost`](crate::PluginHost).
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Folder for the copies that libraries are loaded from. Created when it is missing, readable and writable
    /// by its owner only: whoever can write here runs code in the node. Not to be shared by two nodes: copies of
    /// other builds of a library are removed when a new one is written.
    pub cache_folder: PathBuf,
    /// How many methods of the slow class (EVM runs, scans) run at a time.
    pub slow_calls: NonZeroUsize,
    /// How many calls of the slow class may wait for their turn; further ones are refused with `-32005`.
    pub slow_queue: usize,
    /// What plugins can be granted at most; each gets what it asks for out of these.
    pub granted: Vec<Capability>,
}

impl HostOptions {
    /// Defaults: as many slow calls as processors, 1024 waiting, everything granted.
    pub fn new(cache_folder: impl Into<PathBuf>) -> Self {
        Self {
            cache_folder: cache_folder.into(),
            slow_calls: available_parallelism().unwrap_or(NonZeroUsize::MIN),
            slow_queue: 1024,
            granted: Capability::ALL.to_vec(),
        }
    }
}
