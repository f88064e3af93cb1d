//! The handler for a system call that a filter refuses by a signal: it answers `newfstatat`, whose path a filter cannot
//! read, as `fstat` would.

use std::{io, mem::MaybeUninit};

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
        // SAFETY: the kernel checks the arguments, as it would have done for the refused call, and `fstat` fills the
        // same structure as `newfstatat`.
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
