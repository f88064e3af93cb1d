//! Processor time of this process. Unlike the time on the clock, it hardly depends on what else the machine does.

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

/// Processor time that `work` uses, with its result.
pub(crate) fn of<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(Duration, T)> {
    let before = used()?;
    let result = work()?;
    Ok((used()?.saturating_sub(before), result))
}
