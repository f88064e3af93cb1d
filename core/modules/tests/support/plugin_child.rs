//! A plugin's process, for the tests.

use std::{collections::BTreeMap, io};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// With `without-landlock` or `without-seccomp` as its first argument, it behaves as on a kernel without that feature.
fn main() -> io::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("without-landlock") => refuse(&[libc::SYS_landlock_create_ruleset], libc::EOPNOTSUPP)?,
        Some("without-seccomp") => refuse(&[libc::SYS_seccomp], libc::EINVAL)?,
        _ => {}
    }
    tenon_isolation::run_plugin_child()
}

/// Makes these system calls fail from now on.
fn refuse(calls: &[i64], error: i32) -> io::Result<()> {
    let rules: BTreeMap<_, _> = calls.iter().map(|call| (*call, Vec::new())).collect();
    let failing = SeccompAction::Errno(error.unsigned_abs());
    let architecture = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, failing, architecture).map_err(io::Error::other)?;
    let program: BpfProgram = filter.try_into().map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}
