//! What a plugin's process gives up: the file system but for reading the system's libraries, the network, other processes,
//! new threads and programs.
//!
//! Landlock does the files (Linux 5.13; newer rules where the kernel has them), seccomp the system calls. Both hold before the
//! library is mapped, because a library's code runs from then on; a second filter takes away what only mapping needs.
//!
//! What must always hold: the first filter lets nothing out of the file system but the content of system libraries. Landlock
//! guards neither `stat` nor opening with `O_PATH`, through which the size of any file could be read: they are closed here.

use std::{collections::BTreeMap, path::Path};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope, path_beneath_rules,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::system;

/// What may be read, apart from the library itself: what a library may depend on.
const READABLE: [&str; 6] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"];

/// The rules without which files count as open.
const REQUIRED: ABI = ABI::V1;
/// The newest rules that are asked for; an older kernel holds what it knows of them.
const NEWEST: ABI = ABI::V6;
/// What the rules beyond the required ones close, by the version of Landlock that has them.
const NEWER: [(u32, &str); 4] = [
    (3, "truncating files (Linux 6.2)"),
    (4, "TCP ports (Linux 6.7)"),
    (5, "device controls (Linux 6.10)"),
    (6, "signals to other processes and abstract sockets (Linux 6.12)"),
];

/// What does not hold of a sandbox.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// A newer rule that the kernel does not have. Seccomp closes the way to it as well.
    Newer(String),
    /// A rule without which it is no sandbox.
    Required(String),
}

/// Leaves only files to this thread, and to threads that it starts, that `library` needs. Says what does not hold.
pub(super) fn close_files(library: &Path) -> Option<Gap> {
    let restrict = || {
        let readable = READABLE.iter().map(Path::new).chain([library]);
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(REQUIRED))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .add_rules(path_beneath_rules(readable, AccessFs::from_read(NEWEST)))?
            .restrict_self()
    };
    let open = "files stay open to it: this kernel has no Landlock (Linux 5.13, CONFIG_SECURITY_LANDLOCK)";
    match restrict().map(|status| status.ruleset) {
        Ok(RulesetStatus::FullyEnforced) => None,
        Ok(RulesetStatus::PartiallyEnforced) => {
            let version = system::landlock_version();
            let missing: Vec<_> = NEWER.iter().filter(|(since, _)| *since > version).map(|(_, what)| *what).collect();
            let words = "files are closed; this kernel's Landlock lacks rules for";
            Some(Gap::Newer(format!("{words} {}; seccomp alone closes these", missing.join(", "))))
        }
        Ok(RulesetStatus::NotEnforced) => Some(Gap::Required(open.to_owned())),
        Err(_) if system::landlock_version() == 0 => Some(Gap::Required(open.to_owned())),
        Err(error) => Some(Gap::Required(format!("files stay open to it: Landlock: {error}"))),
    }
}

/// The stages of a process' life, as far as system calls go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Libraries are mapped.
    Mapping,
    /// Libraries are mapped again and again, and threads are looked for that they leave behind.
    Living,
    /// The library is mapped and serves.
    Serving,
}

/// Leaves only the system calls that computing and talking on an open socket need, and those of the stage. Others answer
/// `EPERM`. Holds for all threads and for good: what an earlier stage has closed stays closed. Says what does not hold.
pub(super) fn close_system_calls(stage: Stage) -> Option<Gap> {
    let apply = || -> Result<(), String> {
        if stage != Stage::Serving {
            // Before the filter that refuses it: the C library asks for the length of an open file in this way.
            let trapped = BTreeMap::from([(libc::SYS_newfstatat, Vec::new())]);
            system::answer_newfstatat().map_err(|error| error.to_string())?;
            filter(trapped, SeccompAction::Allow, SeccompAction::Trap)?;
        }
        let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
        filter(allowed(stage)?, refused, SeccompAction::Allow)
    };
    apply().err().map(|error| Gap::Required(format!("system calls stay open to it: seccomp: {error}")))
}

/// Installs a filter in all threads. Of several, the most severe answer counts.
fn filter(rules: Rules, otherwise: SeccompAction, matched: SeccompAction) -> Result<(), String> {
    let architecture = std::env::consts::ARCH.try_into().map_err(|error| format!("{error}"))?;
    let filter = SeccompFilter::new(rules, otherwise, matched, architecture);
    let program: BpfProgram =
        filter.and_then(TryInto::try_into).map_err(|error: seccompiler::BackendError| error.to_string())?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| error.to_string())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// A condition on one argument: the bits of a mask have a value. What has more than 32 bits is compared as a pointer.
type Condition = (u8, u64, u64);

/// All bits of a number.
const NUMBER: u64 = 0xffff_ffff;
/// All bits of a pointer.
const POINTER: u64 = u64::MAX;

/// A rule that holds when all conditions do.
fn rule(conditions: &[Condition]) -> Result<SeccompRule, String> {
    let condition = |(argument, mask, value): &Condition| {
        let length = if *mask > NUMBER { SeccompCmpArgLen::Qword } else { SeccompCmpArgLen::Dword };
        SeccompCondition::new(*argument, length, SeccompCmpOp::MaskedEq(*mask), *value)
    };
    let conditions = conditions.iter().map(condition).collect::<Result<_, _>>();
    conditions.and_then(SeccompRule::new).map_err(|error| error.to_string())
}

fn allowed(stage: Stage) -> Result<Rules, String> {
    let mut rules: Rules = ALWAYS.iter().map(|call| (*call, Vec::new())).collect();
    if stage == Stage::Living {
        // Arguments of the second are in memory, where a filter does not look.
        rules.extend([(libc::SYS_clone, Vec::new()), (libc::SYS_clone3, Vec::new())]);
    }
    let own = u64::from(std::process::id());
    let mut conditional: Vec<(i64, Vec<Condition>)> = Vec::new();
    let mut allow = |call: i64, argument: u8, values: &[u64]| {
        conditional.extend(values.iter().map(|value| (call, vec![(argument, NUMBER, *value)])));
    };
    // `abort` sends a signal to its own thread; other processes get none.
    allow(libc::SYS_tgkill, 0, &[own]);
    allow(libc::SYS_kill, 0, &[own]);
    // Names of memory areas and threads.
    allow(libc::SYS_prctl, 0, &[0x5356_4d41, 15, 16]);
    // `FIONBIO` and `FIONREAD`.
    allow(libc::SYS_ioctl, 1, &[0x5421, 0x541b]);
    // Not `F_SETOWN` and `F_SETSIG`: through them the kernel sends any signal to any process of the node's user.
    let commands = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL];
    allow(libc::SYS_fcntl, 1, &commands.map(|command| u64::from(command.unsigned_abs())));
    // Its limits may be read. A node of root's has the right to raise them, and so has its child.
    conditional.push((libc::SYS_prlimit64, vec![(0, NUMBER, 0), (2, POINTER, 0)]));
    // Not shared memory, which the limit of memory does not count.
    conditional.push((libc::SYS_mmap, vec![(3, libc::MAP_TYPE as u64, u64::from(libc::MAP_PRIVATE.unsigned_abs()))]));
    if stage != Stage::Serving {
        // Reading only. Not `O_PATH`, which Landlock does not guard.
        let flags = libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        conditional.push((libc::SYS_openat, vec![(2, u64::from(!flags.unsigned_abs()), 0)]));
    }
    if stage == Stage::Mapping {
        // The filter of the next stage: `SECCOMP_SET_MODE_FILTER` with `SECCOMP_FILTER_FLAG_TSYNC`. It can only close more.
        conditional.push((libc::SYS_seccomp, vec![(0, NUMBER, 1), (1, NUMBER, 1)]));
        let no_new_privileges = u64::from(libc::PR_SET_NO_NEW_PRIVS.unsigned_abs());
        conditional.push((libc::SYS_prctl, vec![(0, NUMBER, no_new_privileges)]));
    }
    for (call, conditions) in conditional {
        rules.entry(call).or_default().push(rule(&conditions)?);
    }
    Ok(rules)
}

/// What is allowed whatever its arguments. Not here, among others: `open` and `stat` in all their forms, `socket` and
/// `connect` (no network), `clone` and `execve` (no thread, no process), `ptrace` and `process_vm_writev`, `io_uring_setup`
/// (which would go round this list), `mount`, `bpf`, `keyctl`.
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
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    // Descriptors that are open.
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_pread64,
    libc::SYS_lseek,
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
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];
