//! Maps, starts, stops and unmaps a library repeatedly and measures what each cycle leaves behind, for
//! `tenon module check`. This process runs nothing else, so a crash during an unload affects only the check.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
    thread,
    time::Duration,
};

use tenon_host::run_load_cycle;

use super::{Opening, upstream::Upstream, watchdog::Watch};
use crate::wire::Kind;

/// Number of cycles after which all one-time allocations have been made.
const WARM_UP_CYCLES: u32 = 10;
/// Time after the last cycle for leftover code to crash.
const CRASH_WAIT: Duration = Duration::from_millis(100);

/// Resources of a process.
struct ResourceUsage {
    threads: u64,
    /// Private memory, KiB.
    memory: u64,
}

/// Measures the process' resources, even when it may no longer open files.
pub(crate) struct Observer {
    status: File,
    maps: File,
}

impl Observer {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { status: File::open("/proc/self/status")?, maps: File::open("/proc/self/maps")? })
    }

    // Not read with procfs-core, which refuses the file of gVisor (no `SigQ`).
    fn usage(&mut self) -> io::Result<ResourceUsage> {
        let status = text(&mut self.status)?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
        };
        Ok(ResourceUsage { threads: field("Threads:"), memory: field("RssAnon:") })
    }

    fn has_mapped(&mut self, library: &Path) -> io::Result<bool> {
        Ok(text(&mut self.maps)?.contains(&*library.to_string_lossy()))
    }
}

fn text(file: &mut File) -> io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// Runs all cycles, and reports each of them and the end to the node.
pub(crate) fn run(
    opening: &Opening,
    settings: &str,
    watch: &Watch,
    upstream: &Upstream,
    observer: &mut Observer,
) -> io::Result<()> {
    let before = observer.usage()?;
    let mut warm = None;
    for cycle in 1..=opening.cycles {
        upstream.out.push(Kind::LoadCycle, cycle.into(), |_| {});
        upstream.write_now();
        let outcome = watch.over(cycle.into(), || run_load_cycle(&opening.library, settings, &opening.methods));
        if let Err(reason) = outcome {
            upstream.refuse(&reason);
            return Ok(());
        }
        if cycle == WARM_UP_CYCLES {
            warm = Some(observer.usage()?);
        }
    }
    thread::sleep(CRASH_WAIT);
    let after = observer.usage()?;
    let is_still_mapped = observer.has_mapped(&opening.library.copy)?;
    let memory_before = warm.map_or(before.memory, |warm| warm.memory);
    upstream.out.push(Kind::LoadCycle, 0, |out| {
        for number in [before.threads, after.threads, memory_before, after.memory, u64::from(is_still_mapped)] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    });
    upstream.write_now();
    Ok(())
}
