//! The operating system's facts about the node's process, and the log level (`messages/debug.rs`, 0x0907 on).
//!
//! Ours, in place of procfs: that refuses a whole file when a line is missing that is not used here, and does not say where
//! a thread waits.

use std::{fs, io, path::Path};

use tenon_api::{
    Failure,
    messages::{GetMemoryStatistics, ListThreads, MemoryStatistics, SetLogLevel, SetLogModules, ThreadInfo},
};
use tenon_bus::{Bus, CallContext, RegisterError, WorkPool};

use crate::logging;

/// The kernel's folder about the process itself.
const PROCESS: &str = "/proc/self";

/// Milliseconds per tick, the unit in which the system counts the time of threads. It has been 10 on Linux for decades.
const TICK_MILLISECONDS: u64 = 10;

/// Answers [`GetMemoryStatistics`], [`ListThreads`], [`SetLogLevel`] and [`SetLogModules`].
///
/// # Errors
/// [`RegisterError`] if another module already answers one of them.
pub(crate) fn register(bus: &Bus, pool: &WorkPool) -> Result<(), RegisterError> {
    bus.handle_work(pool, |_: GetMemoryStatistics, _: &CallContext| memory().map_err(unreadable))?;
    bus.handle_work(pool, |_: ListThreads, _: &CallContext| threads().map_err(unreadable))?;
    bus.handle_read(|request: SetLogLevel, _: &CallContext| logging::set_level(request.level))?;
    bus.handle_read(|request: SetLogModules, _: &CallContext| logging::set_modules(request.modules))
}

fn unreadable(error: io::Error) -> Failure {
    Failure::server(format!("the system does not show {PROCESS}: {error}"))
}

/// Resource use of the process besides memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProcessUsage {
    /// Processor time of its threads, including ended ones, in seconds.
    pub(crate) processor_seconds: f64,
    /// Its threads.
    pub(crate) threads: u64,
    /// When it started, seconds since 1970.
    pub(crate) started: f64,
    /// Its open file descriptors.
    pub(crate) open_files: u64,
    /// Maximum number of open files; `None` if there is no limit.
    pub(crate) max_files: Option<u64>,
}

/// Resource use of the process besides memory.
///
/// # Errors
/// If the system does not report it.
pub(crate) fn usage() -> io::Result<ProcessUsage> {
    let own = Path::new(PROCESS);
    let unknown = |what: &str| io::Error::other(format!("{what} is not as expected"));
    let stat = fs::read_to_string(own.join("stat"))?;
    let (_, rest) = stat.rsplit_once(')').ok_or_else(|| unknown("stat"))?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The fields after the name are the third and following.
    let field = |number: usize| fields.get(number - 3).and_then(|field| field.parse::<u64>().ok());
    let seconds = |ticks: u64| ticks as f64 * (TICK_MILLISECONDS as f64 / 1000.0);
    let [user, system, threads, since_boot] = [14, 15, 20, 22].map(field);
    let boot = fs::read_to_string("/proc/stat")?;
    let boot = boot.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok());
    let limits = fs::read_to_string(own.join("limits"))?;
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    Ok(ProcessUsage {
        processor_seconds: user
            .zip(system)
            .map(|(user, system)| seconds(user + system))
            .ok_or_else(|| unknown("stat"))?,
        threads: threads.ok_or_else(|| unknown("stat"))?,
        started: boot.zip(since_boot).map(|(boot, ticks)| boot + seconds(ticks)).ok_or_else(|| unknown("start"))?,
        // Listing them opens one more.
        open_files: (fs::read_dir(own.join("fd"))?.count() as u64).saturating_sub(1),
        max_files: limit.and_then(|limit| limit.split_ascii_whitespace().next()?.parse().ok()),
    })
}

/// The process's memory.
///
/// # Errors
/// If the system does not report it.
pub(crate) fn memory() -> io::Result<MemoryStatistics> {
    let status = fs::read_to_string(Path::new(PROCESS).join("status"))?;
    let bytes = |name: &str| kibibytes(&status, name).unwrap_or_default().saturating_mul(1024);
    Ok(MemoryStatistics {
        resident: bytes("VmRSS:"),
        anonymous: bytes("RssAnon:"),
        mapped: bytes("VmSize:"),
        peak: bytes("VmHWM:"),
    })
}

fn kibibytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn threads() -> io::Result<Vec<ThreadInfo>> {
    let mut threads: Vec<ThreadInfo> = fs::read_dir(Path::new(PROCESS).join("task"))?
        // A thread may end while it is being read.
        .filter_map(|entry| thread(&entry.ok()?.path()))
        .collect();
    threads.sort_unstable_by_key(|thread| thread.id);
    Ok(threads)
}

fn thread(folder: &Path) -> Option<ThreadInfo> {
    let id = folder.file_name()?.to_str()?.parse().ok()?;
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    let waits_in = fs::read_to_string(folder.join("wchan")).ok();
    let waits_in = waits_in.map(|place| place.trim().to_owned()).filter(|place| !place.is_empty() && place != "0");
    let (name, state, ticks) = of_stat(&stat)?;
    Some(ThreadInfo { id, name, state, waits_in, cpu_milliseconds: ticks.saturating_mul(TICK_MILLISECONDS) })
}

/// Name, state and ticks of a thread. The name is in brackets and may contain brackets itself.
fn of_stat(stat: &str) -> Option<(String, String, u64)> {
    let (start, rest) = stat.rsplit_once(')')?;
    let name = start.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let meaning = match *fields.first()? {
        "R" => "R (running)",
        "S" => "S (sleeping)",
        "D" => "D (disk sleep)",
        "T" | "t" => "T (stopped)",
        "Z" => "Z (zombie)",
        other => other,
    };
    // The fields after the name are the third and following; user and system time are the 14th and 15th.
    let ticks = |field: usize| fields.get(field - 3).and_then(|ticks| ticks.parse::<u64>().ok());
    Some((name, meaning.to_owned(), ticks(14)?.saturating_add(ticks(15)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_threads() {
        let memory = memory().unwrap();
        let threads = threads().unwrap();

        assert!(memory.resident > 0 && memory.peak >= memory.resident && memory.mapped > memory.resident, "{memory:?}");
        assert!(memory.anonymous <= memory.resident, "{memory:?}");
        assert!(threads.iter().any(|thread| u32::try_from(thread.id) == Ok(std::process::id())), "{threads:?}");
    }

    #[test]
    fn this_process_has_started_and_has_files_open() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let before = usage().unwrap();
        let file = fs::File::open(Path::new(PROCESS).join("stat")).unwrap();
        let after = usage().unwrap();
        drop(file);

        assert!(before.started > 1.6e9 && before.started <= now + 2.0, "{before:?} at {now}");
        assert!(before.threads >= 1 && before.processor_seconds >= 0.0, "{before:?}");
        assert!(after.open_files >= 4 && after.max_files.is_none_or(|max| max >= after.open_files), "{after:?}");
    }

    #[test]
    fn names_of_threads_may_hold_brackets() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194304 100 0 0 0 12 3 0 0 20 0 1 0 50 1000 10";

        assert_eq!(of_stat(stat), Some(("a (b) c".to_owned(), "S (sleeping)".to_owned(), 15)));
    }
}
