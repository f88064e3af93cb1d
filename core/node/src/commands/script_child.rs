//! `tenon script-child`: what the node starts for a tracer written in JavaScript. Of no use to people, and not in the command
//! line's definition, like `plugin-child`.

use std::ffi::OsString;

use crate::exit::Stop;

/// Whether these arguments are the node's.
pub(crate) fn is_wanted(mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.nth(1).is_some_and(|argument| argument == "script-child")
}

/// Runs scripts until the node closes the socket.
pub(crate) fn execute() -> Result<(), Stop> {
    tenon_execution::run_script_child()
        .map_err(|error| Stop::Failure(format!("script-child: {error}; the node starts this command, not people")))
}
