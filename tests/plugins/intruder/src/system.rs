//! Attempts that need unsafe code: raw system calls, and bytes on the socket to the node.

use std::{
    ffi::{CStr, CString},
    io,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use libc::{AT_EMPTY_PATH, AT_FDCWD, O_CLOEXEC, O_CREAT, O_PATH, O_RDONLY, O_RDWR, O_WRONLY, c_int, c_long};

/// An attempt: its result, or the system's error.
type Attempt = fn() -> io::Result<c_long>;

/// The descriptor of the socket to the node: the first one that the process opens.
const SOCKET: c_int = 3;

fn call(number: c_long, arguments: &[c_long]) -> io::Result<c_long> {
    let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
    // SAFETY: every caller passes what the kernel expects: zero-terminated texts, and buffers that are large enough.
    let outcome =
        unsafe { libc::syscall(number, argument(0), argument(1), argument(2), argument(3), argument(4), argument(5)) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome) }
}

fn at(path: &CStr) -> c_long {
    path.as_ptr() as c_long
}

/// A zeroed buffer for anything that the kernel reads or writes.
fn buffer() -> c_long {
    thread_local! {
        static ROOM: Box<[u64; 1024]> = Box::new([0; 1024]);
    }
    ROOM.with(|room| room.as_ptr() as c_long)
}

const HERE: c_long = AT_FDCWD as c_long;
const SECRET: &CStr = c"/etc/shadow";

fn open(path: &CStr, flags: c_int) -> io::Result<c_long> {
    call(libc::SYS_openat, &[HERE, at(path), (flags | O_CLOEXEC).into(), 0o600])
}

fn node() -> c_long {
    // SAFETY: the call has no preconditions.
    unsafe { libc::getppid() }.into()
}

/// The size of a file that it may not read, by calls that Landlock does not restrict.
fn size_by_descriptor() -> io::Result<c_long> {
    let descriptor = open(SECRET, O_PATH)?;
    call(libc::SYS_newfstatat, &[descriptor, at(c""), buffer(), AT_EMPTY_PATH.into()])
}

/// Files, other processes, the network, the kernel, its limits.
pub(crate) const ATTEMPTS: &[(&str, Attempt)] = &[
    ("read a file", || open(SECRET, O_RDONLY)),
    ("read a file that everybody may read", || open(c"/etc/passwd", O_RDONLY)),
    ("read a system library", || open(c"/etc/ld.so.cache", O_RDONLY)),
    ("make a file", || open(c"/tmp/tenon-intruder", O_CREAT | O_WRONLY)),
    ("name a file without opening it", || open(SECRET, O_PATH)),
    ("read the size of a file", || call(libc::SYS_newfstatat, &[HERE, at(SECRET), buffer(), 0])),
    ("read the size of a file, empty path allowed", || {
        call(libc::SYS_newfstatat, &[HERE, at(SECRET), buffer(), AT_EMPTY_PATH.into()])
    }),
    ("read the size of a file by its descriptor", size_by_descriptor),
    ("read the size of a file in the newer form", || call(libc::SYS_statx, &[HERE, at(SECRET), 0, 0x7ff, buffer()])),
    ("see whether a file exists", || call(libc::SYS_faccessat, &[HERE, at(SECRET), 0])),
    ("see where the node's program lies", || {
        call(libc::SYS_readlinkat, &[HERE, at(c"/proc/self/exe"), buffer(), 4096])
    }),
    ("list a folder", || call(libc::SYS_getdents64, &[open(c"/etc", O_RDONLY)?, buffer(), 4096])),
    ("remove a file", || call(libc::SYS_unlinkat, &[HERE, at(c"/tmp/tenon-intruder"), 0])),
    ("rename a file", || call(libc::SYS_renameat2, &[HERE, at(c"/tmp/a"), HERE, at(c"/tmp/b"), 0])),
    ("make a folder", || call(libc::SYS_mkdirat, &[HERE, at(c"/tmp/tenon-intruder"), 0o700])),
    ("change permissions", || call(libc::SYS_fchmodat, &[HERE, at(c"/tmp"), 0o777])),
    ("write the node's memory", || {
        let path = CString::new(format!("/proc/{}/mem", node()))?;
        open(&path, O_RDWR)
    }),
    ("make a file in memory", || call(libc::SYS_memfd_create, &[at(c"mine"), 0])),
    ("mount a file system", || call(libc::SYS_mount, &[at(c"none"), at(c"/tmp"), at(c"tmpfs"), 0, 0])),
    ("open a TCP socket", || call(libc::SYS_socket, &[libc::AF_INET.into(), libc::SOCK_STREAM.into(), 0])),
    ("open a Unix socket", || call(libc::SYS_socket, &[libc::AF_UNIX.into(), libc::SOCK_STREAM.into(), 0])),
    ("open a pair of sockets", || {
        call(libc::SYS_socketpair, &[libc::AF_UNIX.into(), libc::SOCK_STREAM.into(), 0, buffer()])
    }),
    ("connect its own socket elsewhere", || call(libc::SYS_connect, &[SOCKET.into(), buffer(), 2])),
    ("start a process", || {
        let process = call(libc::SYS_clone, &[libc::SIGCHLD.into(), 0, 0, 0, 0])?;
        // A second process must not continue as the plugin.
        if process == 0 {
            call(libc::SYS_exit_group, &[0])?;
        }
        Ok(process)
    }),
    ("run a program", || call(libc::SYS_execve, &[at(c"/bin/true"), 0, 0])),
    ("send the node a signal", || call(libc::SYS_kill, &[node(), 0])),
    ("let the kernel send the node a signal", || {
        call(libc::SYS_fcntl, &[SOCKET.into(), libc::F_SETOWN.into(), node()])
    }),
    ("choose which signal the kernel sends", || {
        const SET_SIGNAL: c_long = 10;
        call(libc::SYS_fcntl, &[SOCKET.into(), SET_SIGNAL, libc::SIGKILL.into()])
    }),
    ("trace the node", || call(libc::SYS_ptrace, &[libc::PTRACE_ATTACH.into(), node(), 0, 0])),
    ("read the node's memory", || call(libc::SYS_process_vm_readv, &[node(), buffer(), 1, buffer(), 1, 0])),
    ("hold the node by a descriptor", || call(libc::SYS_pidfd_open, &[node(), 0])),
    ("raise its priority", || call(libc::SYS_setpriority, &[0, 0, -10])),
    ("go round the filter by a ring", || call(libc::SYS_io_uring_setup, &[8, buffer()])),
    ("load a program into the kernel", || call(libc::SYS_bpf, &[0, buffer(), 120])),
    ("use the kernel's keys", || call(libc::SYS_keyctl, &[0, -3, 1])),
    ("leave its name spaces", || call(libc::SYS_unshare, &[libc::CLONE_NEWUSER.into()])),
    ("loosen its filter", || call(libc::SYS_seccomp, &[1, 1, buffer()])),
    ("use numbers of another kind", || call(0x4000_0000 + libc::SYS_getpid, &[])),
    ("raise its memory limit", || {
        let unlimited = [u64::MAX; 2];
        call(libc::SYS_prlimit64, &[0, libc::RLIMIT_DATA.into(), unlimited.as_ptr() as c_long, 0])
    }),
    ("take more memory than it may", || map(libc::MAP_PRIVATE)),
    ("take more memory than it may, shared", || map(libc::MAP_SHARED)),
    ("open more descriptors than it may", || {
        // As many as the node may have open; they are closed with the process.
        (0..4096).try_fold(0, |_, _| call(libc::SYS_dup, &[SOCKET.into()])).inspect_err(|_| close_extra())
    }),
    ("do one of these while it is mapped", || {
        let outcomes = AT_LOAD.get().map_or(&[][..], Vec::as_slice);
        match outcomes.iter().find(|(_, outcome)| outcome.is_ok()) {
            Some((name, _)) => {
                println!("got in at load: {name}");
                Ok(1)
            }
            None if outcomes.is_empty() => Ok(0),
            None => Err(io::Error::from_raw_os_error(libc::EPERM)),
        }
    }),
];

fn map(kind: c_int) -> io::Result<c_long> {
    const LENGTH: c_long = 900 << 20;
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    call(libc::SYS_mmap, &[0, LENGTH, writable.into(), (kind | libc::MAP_ANONYMOUS).into(), -1, 0])
}

fn close_extra() {
    for descriptor in 16..4096 {
        let _ = call(libc::SYS_close, &[descriptor]);
    }
}

/// Attempts made before the library's own start, while the loader runs.
static AT_LOAD: OnceLock<Vec<(&'static str, io::Result<c_long>)>> = OnceLock::new();

extern "C" fn try_at_load() {
    const NEEDED_TO_MAP: [&str; 2] = ["read a system library", "loosen its filter"];
    // Without a sandbox, as in the test that proves some attempts real, nothing is tried here: others would change the
    // machine.
    if std::fs::metadata("/proc/self/exe").is_ok() {
        return;
    }
    let is_meant = |(name, _): &&(&str, Attempt)| {
        !name.contains("memory than") && !name.contains("descriptors") && !name.starts_with("do one")
    };
    let tried = ATTEMPTS.iter().filter(is_meant).filter(|(name, _)| !NEEDED_TO_MAP.contains(name));
    let _ = AT_LOAD.set(tried.map(|(name, make)| (*name, make())).collect());
}

#[used]
#[unsafe(link_section = ".init_array")]
static INITIALISER: extern "C" fn() = try_at_load;

/// Attempts for which the process is ended.
pub(crate) const ENDINGS: &[(&str, Attempt)] = &[
    ("announce a frame without end", || send(&[0xff; 4])),
    ("send a frame that is too long for its kind", || send(&frame(0x8b, 3, &[b'x'; 5000]))),
    ("send a frame of no kind", || send(&frame(0x7f, 0, &[]))),
    ("answer a call that is not its own", || send(&frame(0x84, 999_999, &[0; 8]))),
    ("send an item of a stream that does not exist", || send(&frame(0x85, 999_999, &[0; 8]))),
    ("describe itself again", || send(&frame(0x81, 0, &[0; 64]))),
    ("say again that it has started", || send(&frame(0x83, 0, &[0; 8]))),
    ("play the node", || send(&frame(0x02, 0, &[0; 8]))),
    ("send half a question", || send(&frame(0x87, 1 << 40, &[0; 3]))),
    ("compute for ever", || {
        loop {
            std::hint::spin_loop();
        }
    }),
    ("wait for ever", || {
        loop {
            thread::sleep(Duration::from_secs(1000));
        }
    }),
];

fn frame(kind: u8, id: u64, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(9 + body.len()).unwrap_or(u32::MAX).to_le_bytes();
    [&length[..], &[kind], &id.to_le_bytes(), body].concat()
}

/// Writes to the node, bypassing all checks in the plugin, and gives the node time to react.
fn send(bytes: &[u8]) -> io::Result<c_long> {
    write(bytes, Instant::now() + Duration::from_secs(5));
    thread::sleep(Duration::from_secs(2));
    Ok(0)
}

/// Writes as much as possible until `end`; returns whether everything was written.
fn write(mut bytes: &[u8], end: Instant) -> bool {
    while !bytes.is_empty() && Instant::now() < end {
        match call(libc::SYS_write, &[SOCKET.into(), bytes.as_ptr() as c_long, bytes.len() as c_long]) {
            Ok(count) => bytes = bytes.get(usize::try_from(count).unwrap_or_default()..).unwrap_or_default(),
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
    bytes.is_empty()
}

fn question(id: u64, topic: u32, schema: u32, request: &[u8]) -> Vec<u8> {
    frame(0x87, id, &[&topic.to_le_bytes()[..], &schema.to_le_bytes(), &[0; 16], request].concat())
}

/// Sends a request in a frame of its own. The answer is dropped.
pub(crate) fn send_raw_request(topic: u32, schema: u32, request: &[u8]) {
    write(&question(1 << 41, topic, schema, request), Instant::now() + Duration::from_secs(1));
}

/// Sends requests for this many milliseconds without reading answers; returns how many.
pub(crate) fn request_without_reading(topic: u32, schema: u32, millis: u64) -> u64 {
    let end = Instant::now() + Duration::from_millis(millis);
    // Few enough that the socket accepts all or none: half a frame would end the process, which is another attempt.
    let questions: Vec<u8> = (0..50_u64).flat_map(|id| question((1 << 42) + id, topic, schema, &[])).collect();
    let mut asked = 0;
    while write(&questions, end) {
        asked += 50;
    }
    asked
}
