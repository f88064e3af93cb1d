//! How a plugin runs in a process of its own.

use std::{path::PathBuf, time::Duration};

/// How plugins run in their own processes, and their limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsolationOptions {
    /// The program that is started for a plugin: one that calls [`run_plugin_child`](crate::run_plugin_child).
    pub program: PathBuf,
    /// Its arguments. The library is appended, to identify the process in process lists.
    pub arguments: Vec<String>,
    /// Limit of its private memory, in bytes.
    pub memory: u64,
    /// Limit of processor time of one call, or of one stretch of a subscription between two waits.
    pub processor_time: Duration,
    /// Time limit of a call, even if its caller allows more.
    pub max_call_time: Duration,
    /// Time limit of the plugin's start.
    pub start_time: Duration,
    /// Maximum number of restarts after unexpected ends within [`IsolationOptions::restart_window`]. One more end and
    /// the plugin has failed for good.
    pub restarts: u32,
    /// The period over which restarts are counted.
    pub restart_window: Duration,
    /// Pause before the first restart. It doubles with each further one, up to [`IsolationOptions::max_pause`].
    pub first_pause: Duration,
    /// Maximum pause before a restart.
    pub max_pause: Duration,
    /// Average log lines per second; bursts may have four times as many.
    pub log_lines: u32,
    /// Whether to refuse the library, rather than warn, if the kernel cannot close the sandbox around it.
    pub needs_sandbox: bool,
    /// Bytes that may wait for the process in the node (its running requests, answers and events that it has not read)
    /// before reading from it pauses.
    pub pause_at: usize,
    /// Bytes that may wait for the process before it is ended.
    pub end_at: usize,
}

impl IsolationOptions {
    /// The defaults, with this program and its argument `plugin-child`.
    pub fn of_this_program() -> Self {
        // Not by its path, which may hold a new build by now: host and child must be the same build.
        Self::of_program("/proc/self/exe", ["plugin-child"])
    }

    /// The defaults with another program.
    pub fn of_program<A: Into<String>>(program: impl Into<PathBuf>, arguments: impl IntoIterator<Item = A>) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            memory: 512 * 1024 * 1024,
            processor_time: Duration::from_secs(5),
            max_call_time: Duration::from_secs(60),
            start_time: Duration::from_secs(30),
            restarts: 5,
            restart_window: Duration::from_secs(60),
            first_pause: Duration::from_millis(100),
            max_pause: Duration::from_secs(10),
            log_lines: 50,
            needs_sandbox: true,
            pause_at: 4 * 1024 * 1024,
            end_at: 128 * 1024 * 1024,
        }
    }
}
