//! Confines the signing service once its listeners are open: it keeps no files but its own, makes no connections and
//! starts no programs.
//!
//! Landlock restricts files and TCP ports, seccomp system calls. Threads that start later inherit both.
//!
//! Invariants:
//!
//! - no socket can be created or connected, so only the sockets that are already open exist;
//! - datagrams go only to the address that their socket is connected to;
//! - no program and no process can be started;
//! - no input can be simulated on a terminal.

use std::path::{Path, PathBuf};

use landlock::{AccessFs, BitFlags, RulesetCreatedAttr, path_beneath_rules};
use seccompiler::SeccompAction;

use crate::{
    MissingProtection,
    closing::{
        ALWAYS, NUMBER, POINTER, Rules, always_under_conditions, filter, restrict_calls, restrict_files, rules_of,
    },
};

/// The rights that a confined service keeps.
#[derive(Clone, Debug, Default)]
pub struct ServiceRights {
    /// Files and folders that it reads.
    pub read: Vec<PathBuf>,
    /// Folders in which it makes, changes and removes files.
    pub write: Vec<PathBuf>,
    /// Whether it reaches hardware wallets: USB devices, the HID devices that are connected now, and the system's
    /// information about them. A HID device connected later stays unreachable, because no rule can name its device file
    /// beforehand.
    pub devices: bool,
}

/// Folders with the system's information about devices.
const DEVICE_FACTS: [&str; 4] = ["/sys/bus", "/sys/class/hidraw", "/sys/devices", "/run/udev"];

/// The nodes of all USB devices, also of those that are connected later.
const USB_NODES: &str = "/dev/bus/usb";

/// The nodes of USB and HID devices. Rules for them apply to nothing else below `/dev`.
fn device_nodes() -> Vec<PathBuf> {
    let is_hid = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"hidraw"));
    let beside = Path::new("/dev").read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    beside.filter(is_hid).chain([PathBuf::from(USB_NODES)]).collect()
}

/// Confines this thread and the threads that it starts, permanently. The filter of system calls applies to all other
/// threads too. Returns the missing protections.
pub fn confine(rights: &ServiceRights) -> Vec<MissingProtection> {
    [close_files(rights), close_calls(rights.devices)].into_iter().flatten().collect()
}

fn close_files(rights: &ServiceRights) -> Option<MissingProtection> {
    let reading: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let writing = reading | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::Truncate;
    let using = reading | AccessFs::WriteFile | AccessFs::IoctlDev;
    let facts = DEVICE_FACTS.iter().filter(|_| rights.devices);
    let nodes = if rights.devices { device_nodes() } else { Vec::new() };
    restrict_files(|rules| {
        rules
            .add_rules(path_beneath_rules(&rights.read, reading))?
            .add_rules(path_beneath_rules(&rights.write, writing))?
            .add_rules(path_beneath_rules(facts, reading))?
            .add_rules(path_beneath_rules(nodes, using))
    })
}

fn close_calls(devices: bool) -> Option<MissingProtection> {
    restrict_calls(|| {
        // The C library falls back to `clone`, whose flags a filter can read.
        let no_such_call = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        filter(Rules::from([(libc::SYS_clone3, Vec::new())]), SeccompAction::Allow, no_such_call)?;
        allowed(devices)
    })
}

fn allowed(devices: bool) -> Result<Rules, String> {
    let is_open = |call: &&i64| !matches!(**call, libc::SYS_sendto | libc::SYS_sendmsg);
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let mut conditional = always_under_conditions();
    conditional.push((libc::SYS_clone, vec![(0, thread, thread)]));
    // Only to the address to which the socket is connected.
    conditional.push((libc::SYS_sendto, vec![(4, POINTER, 0)]));
    // Whether a descriptor is a terminal.
    conditional.push((libc::SYS_ioctl, vec![(1, NUMBER, 0x5401)]));
    if devices {
        // Requests to HID devices and to USB devices: the second byte is their kind.
        let kinds = [b'H', b'U'].map(|kind| u64::from(kind) << 8);
        conditional.extend(kinds.map(|kind| (libc::SYS_ioctl, vec![(1, 0xff00, kind)])));
    }
    rules_of(ALWAYS.iter().filter(is_open).chain(FILES).copied(), conditional)
}

/// Calls permitted besides those of every child: the service's files, which Landlock restricts, its threads, and
/// clients of its open listeners. Not among them: `socket`, `connect`, `bind`, `execve`, `fork`, `sendmsg`, `ptrace`,
/// `io_uring_setup`, `mount`, `bpf`.
const FILES: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_getcwd,
    libc::SYS_umask,
    libc::SYS_mmap,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_socketpair,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_clone3,
    libc::SYS_set_tid_address,
    libc::SYS_get_robust_list,
    libc::SYS_setpriority,
    libc::SYS_getpriority,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_get_priority_max,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_times,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pipe,
];
