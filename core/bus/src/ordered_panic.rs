//! Panics to order, for the suite of faults: in builds with debug assertions, which releases have not, the variable
//! `TENON_TEST_PANICS` names a file, and what stands in it panics when it runs. A line is a place and a name:
//! `read GetHead`, `pool Call`, `task SetHead`, `actor chain`.

/// Panics if the file orders it.
///
/// # Panics
/// When the file orders it.
#[cfg(debug_assertions)]
pub fn panic_if_ordered(place: &str, name: &str) {
    use std::{env, ffi::OsString, fs, sync::LazyLock};

    static ORDERS: LazyLock<Option<OsString>> = LazyLock::new(|| env::var_os("TENON_TEST_PANICS"));
    let Some(path) = &*ORDERS else { return };
    let orders = fs::read_to_string(path).unwrap_or_default();
    assert!(!orders.lines().any(|line| line.split_once(' ') == Some((place, name))), "ordered in {place} {name}");
}

/// A release takes no orders.
#[cfg(not(debug_assertions))]
pub const fn panic_if_ordered(_: &str, _: &str) {}
