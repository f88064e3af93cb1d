//! System calls of a process about itself that the standard library lacks: its inherited socket, its limits, the kernel's
//! version of Landlock; and, for the watchdog of a sandboxed child, its processor time and its immediate end.

use std::{
    fs::File,
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

/// Takes the socket from standard input, replaces it with an empty one, and closes every other inherited descriptor.
/// Must be called before anything else opens one.
///
/// # Errors
/// The system's error.
pub fn take_inherited_socket() -> io::Result<OwnedFd> {
    // SAFETY: the program has just begun: descriptors from 3 on were inherited, and no value here owns them.
    let closed = unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    if closed != 0 {
        return Err(io::Error::last_os_error());
    }
    let socket = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned()?;
    let nothing = File::open("/dev/null")?;
    // SAFETY: both are open; standard input is not read.
    if unsafe { libc::dup2(nothing.as_raw_fd(), 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

/// Limits the memory that the process may use, and turns core dumps off.
///
/// `RLIMIT_DATA` counts private writable memory; `RLIMIT_AS` is higher, by an allowance for the program, for libraries,
/// and for address space that allocators reserve; only it counts shared anonymous memory.
///
/// # Errors
/// The system's error.
pub fn limit_memory(bytes: u64) -> io::Result<()> {
    const ALLOWANCE: u64 = 1024 * 1024 * 1024;
    set_limit(libc::RLIMIT_CORE, 0)?;
    set_limit(libc::RLIMIT_DATA, bytes)?;
    set_limit(libc::RLIMIT_AS, bytes.saturating_add(ALLOWANCE))
}

/// Limits the number of open descriptors of the process.
///
/// # Errors
/// The system's error.
pub fn limit_descriptors(count: u64) -> io::Result<()> {
    set_limit(libc::RLIMIT_NOFILE, count)
}

fn set_limit(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: the structure is whole and lives until the call returns.
    if unsafe { libc::setrlimit(resource, &limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The kernel's Landlock version; 0 if it has none.
pub(super) fn landlock_version() -> u32 {
    /// `LANDLOCK_CREATE_RULESET_VERSION`.
    const VERSION: libc::c_long = 1;
    // SAFETY: with this flag the call takes no structure and creates nothing.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0 as libc::size_t, VERSION)
    };
    u32::try_from(version).unwrap_or_default()
}

/// Tries an `ioctl` request on a new pipe. Succeeds if no filter refuses it, even if the kernel does. For tests of the
/// filter.
///
/// # Errors
/// `EPERM` when a filter refuses the request, and the system's error when there is no pipe.
#[cfg(debug_assertions)]
pub fn reaches_kernel(request: u32) -> io::Result<()> {
    let (reader, _writer) = io::pipe()?;
    let mut room = [0u8; 4096];
    // SAFETY: a pipe knows few requests, and none fills more than a number; there is room for it.
    let outcome = unsafe { libc::ioctl(reader.as_raw_fd(), request.into(), room.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // Any other error is the kernel's own.
    if outcome < 0 && error.raw_os_error() == Some(libc::EPERM) { Err(error) } else { Ok(()) }
}

/// Processor time that this process has used.
pub fn processor_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: there is room for the answer, and an answer of zeroes is valid too if the call fails.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

/// Ends the process immediately, without exit handlers, so that untrusted code cannot run.
pub fn leave(code: i32) -> ! {
    // SAFETY: no requirements.
    unsafe { libc::_exit(code) }
}
