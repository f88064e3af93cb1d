//! Tries what a confined service can still access, in a separate process because confinement is permanent.

#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::process::Command;

use tenon_sandbox::{MissingProtection, ServiceRights, confine, reaches_kernel};

/// If set, the test `child` becomes the confined process. The value says whether devices are on.
const ORDER: &str = "TENON_TEST_CONFINED_WITH_DEVICES";

/// What the confined process could do, by name.
fn outcomes(devices: bool) -> BTreeMap<String, bool> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture", "--test-threads", "1"]).env(ORDER, devices.to_string());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("tried all"), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let outcome = |line: &str| {
        let (name, word) = line.strip_prefix("try ")?.split_once(": ")?;
        Some((name.to_owned(), word == "DONE"))
    };
    text.lines().filter_map(outcome).collect()
}

#[test]
fn child() {
    let Ok(devices) = std::env::var(ORDER) else { return };
    let gaps = confine(&ServiceRights { devices: devices == "true", ..ServiceRights::default() });
    assert!(!gaps.iter().any(|gap| matches!(gap, MissingProtection::Required(_))), "{gaps:?}");
    let say = |name: &str, outcome: io::Result<()>| {
        println!("try {name}: {}", if outcome.is_ok() { "DONE" } else { "refused" });
    };
    println!();
    let write = |path: &str| OpenOptions::new().read(true).write(true).open(path).map(drop);
    for node in ["/dev/null", "/dev/zero", "/dev/tty", "/dev/ptmx", "/dev/vda", "/dev/sda", "/dev/mem", "/dev/kmsg"] {
        say(node, write(node));
    }
    say("shared memory", fs::write("/dev/shm/tenon-intruder", b"x"));
    for folder in ["/dev", "/dev/shm", "/dev/pts", "/sys", "/sys/kernel", "/sys/module", "/proc", "/run", "/"] {
        say(folder, fs::read_dir(folder).map(drop));
    }
    for folder in ["/sys/bus/usb/devices", "/sys/devices", "/dev/bus/usb"] {
        say(folder, fs::read_dir(folder).map(drop));
    }
    say("changing what the system says", write("/sys/devices/system/cpu/uevent"));
    for (name, request) in [
        ("TIOCSTI", 0x5412),
        ("TIOCLINUX", 0x541c),
        ("TIOCSCTTY", 0x540e),
        ("BLKFLSBUF", 0x1261),
        ("HIDIOCGRDESCSIZE", 0x8004_4801),
        ("USBDEVFS_GET_CAPABILITIES", 0x8004_551a),
        ("FIONREAD", 0x541b),
    ] {
        say(name, reaches_kernel(request));
    }
    println!("tried all");
}

#[test]
fn devices_open_usb_and_hid_and_nothing_else() {
    let with = outcomes(true);
    let there = |path: &str| fs::exists(path).unwrap_or_default();
    let mut wanted = vec!["FIONREAD", "HIDIOCGRDESCSIZE", "USBDEVFS_GET_CAPABILITIES"];
    wanted.extend(["/sys/devices", "/sys/bus/usb/devices", "/dev/bus/usb"].into_iter().filter(|path| there(path)));
    wanted.sort_unstable();
    let mut done: Vec<&str> = with.iter().filter(|(_, is_done)| **is_done).map(|(name, _)| name.as_str()).collect();
    done.sort_unstable();

    assert_eq!((done, with.len()), (wanted, 29));
}

#[test]
fn without_devices_no_node_is_open() {
    let without = outcomes(false);
    let done: Vec<&str> = without.iter().filter(|(_, is_done)| **is_done).map(|(name, _)| name.as_str()).collect();

    assert_eq!((done, without.len()), (vec!["FIONREAD"], 29));
}
