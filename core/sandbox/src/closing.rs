//! What a sandboxed process cannot use: the file system except for reading the system's libraries, the network, other
//! processes, new threads and programs.
//!
//! Landlock restricts files (Linux 5.13; newer rules where the kernel has them), seccomp restricts system calls. Both
//! are active before the library is mapped, because a library's code runs from then on; a second filter removes the
//! permissions that only mapping needs.
//!
//! Invariant: under the first filter, only the content of system libraries can be read from the file system. Landlock
//! restricts neither `stat` nor opening with `O_PATH`, which would reveal the size of any file: seccomp forbids both.

use std::{collections::BTreeMap, path::Path};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::{refused_call, system};

/// Readable paths, apart from the library itself: the locations of libraries that it may depend on.
const READABLE: [&str; 6] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"];

/// Minimum rules; without them, files count as unrestricted.
const REQUIRED: ABI = ABI::V1;
/// The newest rules requested; an older kernel applies those that it supports.
const NEWEST: ABI = ABI::V6;
/// Protections beyond the required rules, by the version of Landlock that has them.
const NEWER: [(u32, &str); 4] = [
    (3, "truncating files (Linux 6.2)"),
    (4, "TCP ports (Linux 6.7)"),
    (5, "device controls (Linux 6.10)"),
    (6, "signals to other processes and abstract sockets (Linux 6.12)"),
];

/// A missing protection of a sandbox.
#[derive(Debug, PartialEq, Eq)]
pub enum MissingProtection {
    /// A newer rule that the kernel lacks. Seccomp forbids the same.
    Newer(String),
    /// A required rule.
    Required(String),
}

/// Restricts this thread, and threads that it starts, to files that `library` needs; without a library, to none.
/// Returns the missing protection, if any.
pub fn close_files(library: Option<&Path>) -> Option<MissingProtection> {
    restrict_files(|rules| {
        let readable = library.into_iter().chain(READABLE.iter().filter(|_| library.is_some()).map(Path::new));
        rules.add_rules(path_beneath_rules(readable, AccessFs::from_read(NEWEST)))
    })
}

/// Restricts this thread, and threads that it starts, to the files that `allow` adds, and to no TCP port. Returns the
/// missing protection, if any.
pub(crate) fn restrict_files(
    allow: impl FnOnce(RulesetCreated) -> Result<RulesetCreated, RulesetError>,
) -> Option<MissingProtection> {
    let restrict = || {
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(REQUIRED))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?;
        allow(rules)?.restrict_self()
    };
    match restrict().map(|status| status.ruleset) {
        Ok(RulesetStatus::FullyEnforced) => None,
        outcome => missing_protection_of(outcome.map_err(|error| error.to_string()), system::landlock_version()),
    }
}

/// The gap if Landlock enforces only a part of the rules, or none.
fn missing_protection_of(outcome: Result<RulesetStatus, String>, version: u32) -> Option<MissingProtection> {
    let open = "its access to files is not restricted: this kernel has no Landlock (Linux 5.13, \
        CONFIG_SECURITY_LANDLOCK)";
    match outcome {
        Ok(RulesetStatus::FullyEnforced) => None,
        Ok(RulesetStatus::PartiallyEnforced) => {
            let missing: Vec<_> = NEWER.iter().filter(|(since, _)| *since > version).map(|(_, what)| *what).collect();
            let words = "its access to files is restricted, but this kernel's Landlock has no rules for";
            Some(MissingProtection::Newer(format!("{words} {}; only seccomp restricts these", missing.join(", "))))
        }
        Ok(RulesetStatus::NotEnforced) => Some(MissingProtection::Required(open.to_owned())),
        Err(_) if version == 0 => Some(MissingProtection::Required(open.to_owned())),
        Err(error) => {
            Some(MissingProtection::Required(format!("its access to files is not restricted: Landlock: {error}")))
        }
    }
}

/// The stages of a process's life, by their permitted system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Libraries are mapped.
    Mapping,
    /// Libraries are mapped repeatedly, and leftover threads are looked for.
    Living,
    /// The library is mapped and serves.
    Serving,
}

/// Permits only the system calls for computing and for communicating on an open socket, and those of the stage. Others
/// fail with `EPERM`. Applies to all threads and permanently: no later stage can permit more. Returns the missing
/// protection, if any.
pub fn close_system_calls(stage: Stage) -> Option<MissingProtection> {
    let answer_first = || {
        if stage != Stage::Serving {
            // Before the filter that refuses it: the C library reads the length of an open file with this call.
            let trapped = BTreeMap::from([(libc::SYS_newfstatat, Vec::new())]);
            refused_call::answer_newfstatat().map_err(|error| error.to_string())?;
            filter(trapped, SeccompAction::Allow, SeccompAction::Trap)?;
        }
        allowed(stage)
    };
    restrict_calls(answer_first)
}

/// Permits only the system calls that `prepare` returns, in all threads; it may install other filters before. Other
/// calls fail with `EPERM`. Returns the missing protection, if any.
pub(crate) fn restrict_calls(prepare: impl FnOnce() -> Result<Rules, String>) -> Option<MissingProtection> {
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    prepare()
        .and_then(|allowed| filter(allowed, refused, SeccompAction::Allow))
        .err()
        .map(|error| MissingProtection::Required(format!("its system calls are not restricted: seccomp: {error}")))
}

/// Installs a filter in all threads. If several match, the most severe action applies.
pub(crate) fn filter(rules: Rules, otherwise: SeccompAction, matched: SeccompAction) -> Result<(), String> {
    let architecture = std::env::consts::ARCH.try_into().map_err(|error| format!("{error}"))?;
    let filter = SeccompFilter::new(rules, otherwise, matched, architecture);
    let program: BpfProgram =
        filter.and_then(TryInto::try_into).map_err(|error: seccompiler::BackendError| error.to_string())?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| error.to_string())
}

pub(crate) type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// A condition on one argument: masked bits have a value. Values of more than 32 bits are compared as pointers.
pub(crate) type Condition = (u8, u64, u64);

/// A call that is permitted if all of these conditions match.
pub(crate) type ConditionalCall = (i64, Vec<Condition>);

/// All bits of a number.
pub(crate) const NUMBER: u64 = 0xffff_ffff;
/// All bits of a pointer.
pub(crate) const POINTER: u64 = u64::MAX;

/// A rule that matches if all conditions do.
fn rule(conditions: &[Condition]) -> Result<SeccompRule, String> {
    let condition = |(argument, mask, value): &Condition| {
        let length = if *mask > NUMBER { SeccompCmpArgLen::Qword } else { SeccompCmpArgLen::Dword };
        SeccompCondition::new(*argument, length, SeccompCmpOp::MaskedEq(*mask), *value)
    };
    let conditions = conditions.iter().map(condition).collect::<Result<_, _>>();
    conditions.and_then(SeccompRule::new).map_err(|error| error.to_string())
}

/// Permits the calls without conditions, and the others under one of theirs.
pub(crate) fn rules_of(
    calls: impl IntoIterator<Item = i64>,
    conditional: impl IntoIterator<Item = ConditionalCall>,
) -> Result<Rules, String> {
    let mut rules: Rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
    for (call, conditions) in conditional {
        rules.entry(call).or_default().push(rule(&conditions)?);
    }
    Ok(rules)
}

/// Calls that every sandboxed process may make under a condition.
pub(crate) fn always_under_conditions() -> Vec<ConditionalCall> {
    let own = u64::from(std::process::id());
    // The process may only read its limits. A node that runs as root can raise them, and so could its child.
    let mut conditional = vec![(libc::SYS_prlimit64, vec![(0, NUMBER, 0), (2, POINTER, 0)])];
    let mut allow = |call: i64, argument: u8, values: &[u64]| {
        conditional.extend(values.iter().map(|value| (call, vec![(argument, NUMBER, *value)])));
    };
    // `abort` signals its own thread; signals to other processes are forbidden.
    allow(libc::SYS_tgkill, 0, &[own]);
    allow(libc::SYS_kill, 0, &[own]);
    // Names of memory areas and threads.
    allow(libc::SYS_prctl, 0, &[0x5356_4d41, 15, 16]);
    // `FIONBIO` and `FIONREAD`. Not `TIOCSTI` and `TIOCLINUX`, which type into a terminal.
    allow(libc::SYS_ioctl, 1, &[0x5421, 0x541b]);
    // Not `F_SETOWN` and `F_SETSIG`: with them the kernel sends any signal to any process of the node's user.
    let commands = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL];
    allow(libc::SYS_fcntl, 1, &commands.map(|command| u64::from(command.unsigned_abs())));
    conditional
}

fn allowed(stage: Stage) -> Result<Rules, String> {
    // Without conditions, because `clone3` has its flags in memory, which a filter cannot read.
    let threads = [libc::SYS_clone, libc::SYS_clone3].into_iter().filter(|_| stage == Stage::Living);
    let mut conditional = always_under_conditions();
    // No shared memory, because the memory limit does not count it.
    conditional.push((libc::SYS_mmap, vec![(3, libc::MAP_TYPE as u64, u64::from(libc::MAP_PRIVATE.unsigned_abs()))]));
    if stage != Stage::Serving {
        // Read-only. No `O_PATH`, which Landlock does not restrict.
        let flags = libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        conditional.push((libc::SYS_openat, vec![(2, u64::from(!flags.unsigned_abs()), 0)]));
    }
    if stage == Stage::Mapping {
        // The filter of the next stage: `SECCOMP_SET_MODE_FILTER` with `SECCOMP_FILTER_FLAG_TSYNC`. It can only
        // restrict further.
        conditional.push((libc::SYS_seccomp, vec![(0, NUMBER, 1), (1, NUMBER, 1)]));
        let no_new_privileges = u64::from(libc::PR_SET_NO_NEW_PRIVS.unsigned_abs());
        conditional.push((libc::SYS_prctl, vec![(0, NUMBER, no_new_privileges)]));
    }
    rules_of(ALWAYS.iter().copied().chain(threads), conditional)
}

/// Calls permitted with any arguments. Forbidden, among others: `open` and `stat` in all their forms, `socket` and
/// `connect` (no network), `clone` and `execve` (no thread, no process), `ptrace` and `process_vm_writev`,
/// `io_uring_setup` (which would bypass this list), `mount`, `bpf`, `keyctl`.
pub(crate) const ALWAYS: &[i64] = &[
    // The open socket.
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
    // Open descriptors.
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_dup,
    // Clocks, random numbers, and own identity.
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
    // Its own signals, and its exit.
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
