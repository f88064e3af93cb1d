//! Checks settings against this machine's limits.

use std::path::Path;

use tenon_config::{Resolved, Settings};

use crate::exit::Stop;

/// Maximum path of a Unix socket, in bytes: the system stores 108, including a terminating zero.
const MAX_SOCKET_PATH: usize = 107;

/// Checks that the node's caches fit into the machine's memory.
///
/// # Errors
/// [`Stop::Usage`] naming the setting, its origin, and the limit.
pub(crate) fn check_memory(resolved: &Resolved) -> Result<(), Stop> {
    check_cache(resolved, memory())
}

fn check_cache(resolved: &Resolved, memory: Option<u64>) -> Result<(), Stop> {
    let (cache, key) = (u64::from(resolved.settings.database.cache), "database.cache");
    match memory.map(|memory| memory >> 20) {
        Some(memory) if cache > memory => Err(Stop::Usage(format!(
            "{}: `{key}`: expected at most the memory of this machine, {memory} MiB, found {cache}",
            resolved.origin(key)
        ))),
        _ => Ok(()),
    }
}

/// Checks that the system can create the socket.
///
/// # Errors
/// [`Stop::Usage`] naming the setting and the limit.
pub(crate) fn check_socket(settings: &Settings) -> Result<(), Stop> {
    if settings.ipc.disabled {
        return Ok(());
    }
    let path = settings.in_data_folder(&settings.ipc.path);
    let length = path.as_os_str().len();
    if length <= MAX_SOCKET_PATH {
        return Ok(());
    }
    Err(Stop::Usage(format!(
        "`ipc.path`: {} has {length} bytes, but the system allows at most {MAX_SOCKET_PATH} for a socket; give a \
         shorter path with --ipcpath, such as /run/tenon.ipc, or turn the socket off with --ipcdisable",
        path.display()
    )))
}

/// Memory of this machine, or of the process's control group if less, in bytes; `None` if the system does not report
/// it.
fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let machine = memory_in(&text)?;
    let group = std::fs::read_to_string(Path::new("/sys/fs/cgroup/memory.max")).ok();
    let group = group.and_then(|text| text.trim().parse::<u64>().ok());
    Some(group.map_or(machine, |group| group.min(machine)))
}

/// Total memory in the system's table, in bytes. Not read with procfs-core, which refuses gVisor's table (no `Slab`).
fn memory_in(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use tenon_config::{Layers, resolve};

    use super::*;

    fn resolved(key: &'static str, text: &str) -> Resolved {
        resolve(Layers::new("run").flags([(key, format!("--{key}"), text.to_owned())])).unwrap()
    }

    #[test]
    fn a_cache_larger_than_the_machines_memory_is_refused() {
        let chosen = resolved("database.cache", "2000");

        let refused = check_cache(&chosen, Some(1000 << 20)).unwrap_err().to_string();

        assert_eq!(
            refused,
            "flag --database.cache: `database.cache`: expected at most the memory of this machine, 1000 MiB, found 2000"
        );
        assert!(check_cache(&chosen, Some(2000 << 20)).is_ok() && check_cache(&chosen, None).is_ok());
        assert_eq!(memory_in("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert!(memory().is_none_or(|memory| memory > 1 << 20));
    }

    #[test]
    fn a_socket_path_that_is_too_long_is_refused_by_its_flag_with_the_limit() {
        let longest = format!("/{}", "x".repeat(MAX_SOCKET_PATH - 1));

        assert!(check_socket(&resolved("ipc.path", &longest).settings).is_ok());
        let refused = check_socket(&resolved("ipc.path", &format!("{longest}x")).settings).unwrap_err().to_string();

        assert!(refused.ends_with(
            "has 108 bytes, but the system allows at most 107 for a socket; give a shorter path with --ipcpath, such as \
             /run/tenon.ipc, or turn the socket off with --ipcdisable"
        ), "{refused}");
    }
}
