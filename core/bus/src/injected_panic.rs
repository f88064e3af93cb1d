//! Deliberate panics for the fault tests. Compiled only into builds with debug assertions, so never into a release. The
//! variable `TENON_TEST_PANICS` names a file that lists where to panic, one place and name per line: `read GetHead`,
//! `pool Call`, `task SetHead`, `actor chain`.
//!
//! Implemented here, because the crate `fail` takes its orders from the environment at the start or from calls inside
//! the process, whereas the fault tests give orders to a node that is running.

/// Panics if the file lists this place and name.
///
/// # Panics
/// If the file lists this place and name.
#[cfg(debug_assertions)]
pub fn panic_if_injected(place: &str, name: &str) {
    use std::{env, ffi::OsString, fs, sync::LazyLock};

    static ORDERS: LazyLock<Option<OsString>> = LazyLock::new(|| env::var_os("TENON_TEST_PANICS"));
    let Some(path) = &*ORDERS else { return };
    let orders = fs::read_to_string(path).unwrap_or_default();
    assert!(!orders.lines().any(|line| line.split_once(' ') == Some((place, name))), "ordered in {place} {name}");
}

/// Does nothing in a release.
#[cfg(not(debug_assertions))]
pub const fn panic_if_injected(_: &str, _: &str) {}
