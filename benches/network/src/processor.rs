//! Processor time of processes. Unlike wall-clock time, it hardly depends on other load of the machine.

use std::fs;
use std::time::Duration;

use crate::Outcome;

/// Processor time that all running threads of this process have used.
pub(crate) fn used() -> Outcome<Duration> {
    let mut nanoseconds = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let line = fs::read_to_string(task?.path().join("schedstat"))?;
        let ran: u64 = line.split_whitespace().next().ok_or("an empty schedstat")?.parse()?;
        nanoseconds += ran;
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// Ticks of the clock in which the kernel counts the time of a process.
const TICKS_PER_SECOND: u64 = 100;

/// Processor time that another process has used, in steps of 10 ms.
pub(crate) fn used_by(process: u32) -> Outcome<Duration> {
    let line = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The process name before it can contain any characters.
    let (_, fields) = line.rsplit_once(')').ok_or("no name in stat")?;
    let mut ticks = 0;
    for field in fields.split_whitespace().skip(11).take(2) {
        ticks += field.parse::<u64>()?;
    }
    Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}

/// Processor time that `work` uses, with its result.
pub(crate) fn of<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(Duration, T)> {
    let before = used()?;
    let result = work()?;
    Ok((used()?.saturating_sub(before), result))
}
