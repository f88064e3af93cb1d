//! The operating system's facts about the node's process, and the log level (`messages/debug.rs`, 0x0907 on).
//!
//! `stat` is read with procfs-core. `status` is not, because procfs-core refuses a file without the lines `Groups` and
//! `SigQ`. They are not needed here, and gVisor does not write them, so a node there would show no memory.

use std::{fs, io, path::Path};

use procfs_core::{FromRead as _, ProcError, process::Stat};
use rustix::process::{Resource, getrlimit};
use tenon_api::{
    BusError,
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
    bus.handle_read(|request: SetLogLevel, _: &CallContext| {
        logging::set_level(request.level).map_err(BusError::failed)
    })?;
    bus.handle_read(|request: SetLogModules, _: &CallContext| {
        logging::set_modules(request.modules).map_err(BusError::failed)
    })
}

fn unreadable(error: io::Error) -> BusError {
    BusError::failed(format!("the system does not show {PROCESS}: {error}"))
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
    let stat = stat_in(own)?;
    let seconds = |ticks: u64| ticks as f64 * (TICK_MILLISECONDS as f64 / 1000.0);
    let boot = fs::read_to_string("/proc/stat")?;
    let boot = boot.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok());
    let boot = boot.ok_or_else(|| io::Error::other("the system's start is not in /proc/stat"))?;
    Ok(ProcessUsage {
        processor_seconds: seconds(stat.utime.saturating_add(stat.stime)),
        threads: u64::try_from(stat.num_threads).unwrap_or_default(),
        started: boot + seconds(stat.starttime),
        // Listing them opens one more.
        open_files: (fs::read_dir(own.join("fd"))?.count() as u64).saturating_sub(1),
        max_files: getrlimit(Resource::Nofile).current,
    })
}

/// `stat` in the folder of a process or of a thread.
fn stat_in(folder: &Path) -> io::Result<Stat> {
    let file = fs::File::open(folder.join("stat"))?;
    Stat::from_read(file).map_err(|error| match error {
        ProcError::Io(error, _) => error,
        other => io::Error::other(other.to_string()),
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
    let stat = stat_in(folder).ok()?;
    let waits_in = fs::read_to_string(folder.join("wchan")).ok();
    let waits_in = waits_in.map(|place| place.trim().to_owned()).filter(|place| !place.is_empty() && place != "0");
    let cpu_milliseconds = stat.utime.saturating_add(stat.stime).saturating_mul(TICK_MILLISECONDS);
    Some(ThreadInfo { id, state: state_of(&stat), name: stat.comm, waits_in, cpu_milliseconds })
}

/// The state of a thread: its letter and meaning.
fn state_of(stat: &Stat) -> String {
    match stat.state {
        'R' => "R (running)".to_owned(),
        'S' => "S (sleeping)".to_owned(),
        'D' => "D (disk sleep)".to_owned(),
        'T' | 't' => "T (stopped)".to_owned(),
        'Z' => "Z (zombie)".to_owned(),
        other => other.to_string(),
    }
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
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194304 100 0 0 0 12 3 0 0 20 0 1 0 50 1000 10 18446744073709551615 1 1 \
                    0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0";

        let stat = Stat::from_read(stat.as_bytes()).unwrap();

        assert_eq!((stat.comm.as_str(), state_of(&stat).as_str()), ("a (b) c", "S (sleeping)"));
        assert_eq!((stat.utime, stat.stime, stat.num_threads, stat.starttime), (12, 3, 1, 50));
    }
}
