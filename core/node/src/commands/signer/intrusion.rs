//! Attempts by the service itself to break out of its confinement, as malicious code in it could: only in builds with
//! debug assertions, for tests.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Command;

use tenon_signing_service::Settings;

use crate::log_output;

/// If set to the address of a listener on this machine, the service tries all forbidden actions and reports their
/// results.
const ORDER: &str = "TENON_TEST_SIGNER_INTRUDES";

/// `TIOCSTI`: inserts a character into a terminal's input, as if its user had typed it.
const TYPE_INTO_TERMINAL: u32 = 0x5412;

/// Tries everything once, and prints one line for each: `intrusion NAME: refused` or `intrusion NAME: DONE`.
pub(super) fn try_if_ordered(settings: &Settings) {
    let Ok(address) = std::env::var(ORDER) else { return };
    let own_socket = settings.clients.values().find_map(|client| client.socket.clone()).unwrap_or_default();
    let beside = settings.policy.with_file_name("intruder");
    let say = |name: &str, outcome: io::Result<()>| {
        let word = if outcome.is_ok() { "DONE" } else { "refused" };
        log_output::eprint_line(&format!("intrusion {name}: {word}"));
    };
    let try_all = || {
        say("tcp connection", TcpStream::connect(&address).map(drop));
        say("tcp listener", TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map(drop));
        say("udp socket", UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map(drop));
        say("unix connection", UnixStream::connect(&own_socket).map(drop));
        say("program", Command::new("/bin/true").status().map(drop));
        say("system file", fs::read("/etc/passwd").map(drop));
        say("process memory", fs::read("/proc/self/mem").map(drop));
        say("file beside", fs::write(&beside, b"x"));
        say("policy", fs::OpenOptions::new().append(true).open(&settings.policy).map(drop));
        say("home", fs::read_dir("/root").map(drop));
        say("shared memory", fs::write("/dev/shm/tenon-intruder", b"x"));
        say("device node", fs::OpenOptions::new().write(true).open("/dev/null").map(drop));
        say("terminal input", tenon_sandbox::reaches_kernel(TYPE_INTO_TERMINAL));
        // What the service needs must stay allowed, so that the other refusals are not accidental.
        say("own policy read", fs::read(&settings.policy).map(drop));
        say("own log read", fs::read_dir(&settings.log).map(drop));
    };
    try_all();
    // A thread that starts later has the same restrictions.
    let outcome = std::thread::spawn(move || TcpStream::connect(address).map(drop)).join();
    say("tcp connection of a thread", outcome.unwrap_or(Ok(())));
}
