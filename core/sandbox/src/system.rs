//! Kernel calls of a process about itself that the standard library lacks.

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

/// Handles `newfstatat` in this process once a filter sends `SIGSYS` instead: like `fstat` for an open descriptor,
/// otherwise with `EPERM`. glibc before 2.39 implements `fstat` with this call and an empty path, which a filter cannot
/// read.
pub(super) fn answer_newfstatat() -> io::Result<()> {
    // SAFETY: all bytes zero are a valid `sigaction`, with an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_refused_call;
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: the structure is whole, and the handler does only what a signal handler may.
    if unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

extern "C" fn on_refused_call(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes the state of the interrupted thread to a handler with `SA_SIGINFO`.
    let Some(context) = (unsafe { context.cast::<libc::ucontext_t>().as_mut() }) else { return };
    let call = RefusedCall::of(context);
    let is_of_descriptor = call.number == libc::SYS_newfstatat
        && call.arguments[3] & libc::c_long::from(libc::AT_EMPTY_PATH) != 0
        && call.arguments[1] != 0
        // SAFETY: the caller meant the kernel to read a text there. If nothing is mapped there, this process ends, and
        // no other is harmed.
        && unsafe { *(call.arguments[1] as *const libc::c_char) } == 0;
    let answer = if is_of_descriptor {
        // SAFETY: returns the address of the thread's error number. It is restored below, for the interrupted code.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        let before = unsafe { *errno };
        // SAFETY: the arguments are those that the caller meant for the kernel, which checks them; both calls fill the
        // same structure.
        let outcome = unsafe { libc::syscall(libc::SYS_fstat, call.arguments[0], call.arguments[2]) };
        // SAFETY: as above.
        let error = unsafe { std::mem::replace(&mut *errno, before) };
        if outcome < 0 { -libc::c_long::from(error) } else { outcome }
    } else {
        -libc::c_long::from(libc::EPERM)
    };
    RefusedCall::answer(context, answer);
}

/// A system call that a filter refused by a signal, read from the registers of its thread.
struct RefusedCall {
    number: libc::c_long,
    arguments: [libc::c_long; 4],
}

#[cfg(target_arch = "x86_64")]
impl RefusedCall {
    fn of(context: &libc::ucontext_t) -> Self {
        let registers = &context.uc_mcontext.gregs;
        let [number, first, second, third, fourth] =
            [libc::REG_RAX, libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10]
                .map(|name| usize::try_from(name).ok().and_then(|at| registers.get(at)).copied().unwrap_or_default());
        Self { number, arguments: [first, second, third, fourth] }
    }

    fn answer(context: &mut libc::ucontext_t, answer: libc::c_long) {
        let place = usize::try_from(libc::REG_RAX).ok().and_then(|at| context.uc_mcontext.gregs.get_mut(at));
        if let Some(place) = place {
            *place = answer;
        }
    }
}

#[cfg(target_arch = "aarch64")]
impl RefusedCall {
    fn of(context: &libc::ucontext_t) -> Self {
        let registers = &context.uc_mcontext.regs;
        Self { number: registers[8] as _, arguments: [0, 1, 2, 3].map(|at: usize| registers[at] as _) }
    }

    fn answer(context: &mut libc::ucontext_t, answer: libc::c_long) {
        context.uc_mcontext.regs[0] = answer as _;
    }
}

#[cfg(target_arch = "riscv64")]
impl RefusedCall {
    fn of(context: &libc::ucontext_t) -> Self {
        let registers = &context.uc_mcontext.__gregs;
        Self { number: registers[17] as _, arguments: [10, 11, 12, 13].map(|at: usize| registers[at] as _) }
    }

    fn answer(context: &mut libc::ucontext_t, answer: libc::c_long) {
        context.uc_mcontext.__gregs[10] = answer as _;
    }
}

/// On architectures whose registers are not known here, every such call is refused. Installing the filter fails there
/// too.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
impl RefusedCall {
    fn of(_: &libc::ucontext_t) -> Self {
        Self { number: -1, arguments: [0; 4] }
    }

    fn answer(_: &mut libc::ucontext_t, _: libc::c_long) {}
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
