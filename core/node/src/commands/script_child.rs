//! `tenon script-child`: the process that the node starts for a tracer written in JavaScript. It is not for operators,
//! and not in the command line's definition, like `plugin-child`.

use std::ffi::OsString;

use crate::exit::Stop;

/// Whether the node has started this process with these arguments.
pub(crate) fn is_wanted(mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.nth(1).is_some_and(|argument| argument == "script-child")
}

/// Runs scripts until the node closes the socket.
pub(crate) fn execute() -> Result<(), Stop> {
    tenon_simulation::run_script_child()
        .map_err(|error| Stop::Failure(format!("script-child: {error}; this command is for the node only")))
}
