//! `tenon plugin-child PATH`: the process that the node starts for a plugin with `isolation = "process"`. It is not for
//! operators, and not in clap's definition of the command line: building that definition would take a third of the
//! process's start time, and the node starts such processes while it serves.

use std::ffi::OsString;

use crate::exit::Stop;

/// Whether the node has started this process with these arguments. The library's path follows, for lists of processes.
pub(crate) fn is_wanted(mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.nth(1).is_some_and(|argument| argument == "plugin-child")
}

/// Serves until the node stops it or has ended.
pub(crate) fn execute() -> Result<(), Stop> {
    tenon_isolation::run_plugin_child()
        .map_err(|error| Stop::Failure(format!("plugin-child: {error}; this command is for the node only")))
}
