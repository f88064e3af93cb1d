//! What a process asks of the kernel about itself; the few calls for which the standard library has no form.

use std::{
    fs::File,
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

/// Takes the socket out of standard input, leaves nothing readable there, and closes every other descriptor that was
/// inherited. To be called before anything else opens one.
pub(super) fn take_inherited_socket() -> io::Result<OwnedFd> {
    // SAFETY: the program has just begun: whatever is open from 3 on was inherited, and nobody here owns it.
    let closed = unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    if closed != 0 {
        return Err(io::Error::last_os_error());
    }
    let socket = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned()?;
    let nothing = File::open("/dev/null")?;
    // SAFETY: both are open; standard input is not read by anybody.
    if unsafe { libc::dup2(nothing.as_raw_fd(), 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

/// Bounds the memory that the process may use, and turns core dumps off.
///
/// `RLIMIT_DATA` counts what is written privately; `RLIMIT_AS` is above it by an allowance for the program, for
/// libraries, and for address space that allocators reserve; shared anonymous memory counts there only.
pub(super) fn limit_memory(bytes: u64) -> io::Result<()> {
    const ALLOWANCE: u64 = 1024 * 1024 * 1024;
    set_limit(libc::RLIMIT_CORE, 0)?;
    set_limit(libc::RLIMIT_DATA, bytes)?;
    set_limit(libc::RLIMIT_AS, bytes.saturating_add(ALLOWANCE))
}

/// Bounds how many descriptors the process may have open.
pub(super) fn limit_descriptors(count: u64) -> io::Result<()> {
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

/// Processor time that this process has used.
pub(super) fn processor_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: there is room for the answer, and zeroes are an answer too should the call fail.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

/// Ends the process at once, without running what is registered for its end: a plugin's code must not get to act.
pub(super) fn leave(code: i32) -> ! {
    // SAFETY: nothing is needed of it.
    unsafe { libc::_exit(code) }
}
