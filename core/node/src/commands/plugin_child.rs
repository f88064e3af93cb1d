//! `tenon plugin-child PATH`: what the node starts for a plugin with `isolation = "process"`. Of no use to people, and not in the
//! command line's definition: making that takes a third of the time that such a process needs to start, and the node starts
//! them while it serves.

use std::ffi::OsString;

use crate::exit::Stop;

/// Whether these arguments are the node's. The library follows, for lists of processes.
pub(crate) fn is_wanted(mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.nth(1).is_some_and(|argument| argument == "plugin-child")
}

/// Serves until the node requests a stop or has ended.
pub(crate) fn execute() -> Result<(), Stop> {
    tenon_isolation::run_plugin_child()
        .map_err(|error| Stop::Failure(format!("plugin-child: {error}; the node starts this command, not people")))
}
