//! What a plugin's process gives up before the library is mapped: the file system but for reading the system's
//! libraries, the network, other processes, new threads and programs.
//!
//! Landlock does the files (Linux 5.13; TCP ports from 6.7; abstract sockets and signals from 6.12), seccomp the system
//! calls. Where the kernel has one of them not, the other holds alone, and the report says so.

use std::{collections::BTreeMap, path::Path};

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
    path_beneath_rules,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// What may be read, apart from the library itself: what a library may depend on.
const READABLE: [&str; 6] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"];

/// The newest rules that are asked for; an older kernel holds what it knows of them.
const NEWEST: ABI = ABI::V6;

/// Leaves only files to this thread, and to threads that it starts, that `library` needs. Says what does not hold.
pub(super) fn close_files(library: &Path) -> Option<String> {
    let restrict = || {
        let readable = READABLE.iter().map(Path::new).chain([library]);
        Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .add_rules(path_beneath_rules(readable, AccessFs::from_read(NEWEST)))?
            .restrict_self()
    };
    match restrict().map(|status| status.ruleset) {
        Ok(RulesetStatus::FullyEnforced) => None,
        Ok(RulesetStatus::PartiallyEnforced) => {
            Some("files are closed, but this kernel's Landlock lacks some rules (Linux 6.12 has all)".to_owned())
        }
        Ok(RulesetStatus::NotEnforced) => {
            Some("files stay open to it: this kernel has no Landlock (Linux 5.13, CONFIG_SECURITY_LANDLOCK)".to_owned())
        }
        Err(error) => Some(format!("files stay open to it: Landlock: {error}")),
    }
}

/// Leaves only the system calls that computing and talking on an open socket need, and with `may_start_threads` those that
/// start threads. Others answer `EPERM`. Holds for all threads. Says what does not hold.
pub(super) fn close_system_calls(may_start_threads: bool) -> Option<String> {
    let apply = || -> Result<(), String> {
        let architecture = std::env::consts::ARCH.try_into().map_err(|error| format!("{error}"))?;
        let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
        let filter = SeccompFilter::new(allowed(may_start_threads)?, refused, SeccompAction::Allow, architecture);
        let program: BpfProgram =
            filter.and_then(TryInto::try_into).map_err(|error: seccompiler::BackendError| error.to_string())?;
        seccompiler::apply_filter_all_threads(&program).map_err(|error| error.to_string())
    };
    apply().err().map(|error| format!("system calls stay open to it: seccomp: {error}"))
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn allowed(may_start_threads: bool) -> Result<Rules, String> {
    let mut rules: Rules = ALWAYS.iter().map(|call| (*call, Vec::new())).collect();
    if may_start_threads {
        // Arguments of the second are in memory, where a filter does not look.
        rules.extend([(libc::SYS_clone, Vec::new()), (libc::SYS_clone3, Vec::new())]);
    }
    let own = u64::from(std::process::id());
    let conditional: [(i64, u8, &[u64]); 5] = [
        // `abort` sends a signal to its own thread; other processes get none.
        (libc::SYS_tgkill, 0, &[own]),
        (libc::SYS_kill, 0, &[own]),
        (libc::SYS_prlimit64, 0, &[0]),
        // Names of memory areas and threads.
        (libc::SYS_prctl, 0, &[0x5356_4d41, 15, 16]),
        // `FIONBIO` and `FIONREAD`.
        (libc::SYS_ioctl, 1, &[0x5421, 0x541b]),
    ];
    for (call, argument, values) in conditional {
        let rule = |value: &u64| {
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *value)
                .and_then(|condition| SeccompRule::new(vec![condition]))
                .map_err(|error| error.to_string())
        };
        rules.insert(call, values.iter().map(rule).collect::<Result<_, _>>()?);
    }
    Ok(rules)
}

/// What is allowed whatever its arguments. Not here, among others: `socket` and `connect` (no network), `clone` and
/// `execve` (no thread, no process), `ptrace` and `process_vm_writev`, `io_uring_setup` (which would go round this
/// list), `mount`, `bpf`, `keyctl`.
const ALWAYS: &[i64] = &[
    // The socket that is open.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_shutdown,
    // Waiting.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_ppoll,
    libc::SYS_eventfd2,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    // Mapping libraries. Landlock says which.
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_fcntl,
    libc::SYS_dup,
    // Clocks, chance, and who am I.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrusage,
    libc::SYS_sched_getaffinity,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // Signals of its own, and the end.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_exit,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];
