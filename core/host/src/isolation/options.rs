use std::{path::PathBuf, time::Duration};

/// Where a plugin runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// In the node's own process: half a microsecond a call. A crash of its code can end the node.
    InProcess,
    /// In a process of its own: some 50 microseconds a call, bounded and replaceable.
    Process,
}

impl Isolation {
    /// As settings and `moduleInfo` write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InProcess => "in-process",
            Self::Process => "process",
        }
    }

    /// The reverse of [`Isolation::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::InProcess, Self::Process].into_iter().find(|isolation| isolation.name() == name)
    }
}

/// How plugins in processes of their own are run and bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsolationOptions {
    /// The program that is started for a plugin: one that calls [`run_plugin_child`](crate::run_plugin_child).
    pub program: PathBuf,
    /// Its arguments; the library follows them, so that a list of processes tells them apart.
    pub arguments: Vec<String>,
    /// Memory of its own that the process may use, in bytes.
    pub memory: u64,
    /// Processor time that one call may use in the plugin, or one stretch of a subscription between two waits.
    pub processor_time: Duration,
    /// How long a call may take, whatever its caller allows.
    pub longest_call: Duration,
    /// How long the plugin may take to start.
    pub start_time: Duration,
    /// How many times in [`IsolationOptions::restart_window`] the process is started again after it ended by itself.
    /// After that the plugin has failed for good.
    pub restarts: u32,
    /// The time in which restarts are counted.
    pub restart_window: Duration,
    /// Pause before the first restart; it doubles with each further one up to
    /// [`IsolationOptions::longest_pause`].
    pub first_pause: Duration,
    /// Longest pause before a restart.
    pub longest_pause: Duration,
    /// Lines a second that it may write to the log on average; four times as many may come at once.
    pub log_lines: u32,
    /// Whether the library is refused where the kernel cannot close the sandbox around it, instead of warned about.
    pub needs_sandbox: bool,
    /// Bytes that may wait for the process in the node (its questions that run, answers and events that it has not read)
    /// before nothing more is read from it.
    pub pause_at: usize,
    /// Bytes that may wait for it before it is ended.
    pub end_at: usize,
}

impl IsolationOptions {
    /// Defaults: this program with the argument `plugin-child`, 512 MiB, 5 s of processor time and 60 s a call, 30 s to
    /// start, 5 restarts in a minute after 0.1 s to 10 s, 50 lines a second, a sandbox that must hold, 4 MiB that may wait
    /// before reading pauses and 128 MiB before the process is ended.
    pub fn of_this_program() -> Self {
        // Not by its name: a new build may lie there by now, and host and child must be the same.
        Self::of_program("/proc/self/exe", ["plugin-child"])
    }

    /// The defaults with another program.
    pub fn of_program<A: Into<String>>(program: impl Into<PathBuf>, arguments: impl IntoIterator<Item = A>) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            memory: 512 * 1024 * 1024,
            processor_time: Duration::from_secs(5),
            longest_call: Duration::from_secs(60),
            start_time: Duration::from_secs(30),
            restarts: 5,
            restart_window: Duration::from_secs(60),
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(10),
            log_lines: 50,
            needs_sandbox: true,
            pause_at: 4 * 1024 * 1024,
            end_at: 128 * 1024 * 1024,
        }
    }
}
