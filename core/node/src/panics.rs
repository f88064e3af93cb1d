//! Reports panics. The standard library's own hook may block on standard error, and resolves the names of a backtrace
//! on the thread that panicked.
//!
//! Both would harm other requests, because there are only as many serving threads as cores. A thread that waits for an
//! unread pipe serves nothing any more. A thread that resolves names delays its connections, by seconds if the program
//! has debug information and is not in the page cache. So the message goes to the log's output. The backtrace of a
//! serving thread, captured only with `RUST_BACKTRACE`, is resolved on a separate thread.

use std::backtrace::Backtrace;
use std::env;
use std::panic::{PanicHookInfo, set_hook};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::log_output::eprint_line;

/// Whether a backtrace is being resolved. The standard library resolves under a global lock, which capturing another
/// backtrace would wait for.
static IS_TRACING: AtomicBool = AtomicBool::new(false);

/// Installs a panic hook that prints what the standard library's would, without blocking.
pub(crate) fn install_panic_hook() {
    set_hook(Box::new(report));
}

fn report(panic: &PanicHookInfo<'_>) {
    let thread = thread::current();
    eprint_line(&format!("thread '{}' {panic}", thread.name().unwrap_or("without a name")));
    if !is_trace_wanted() {
        return;
    }
    if IS_TRACING.swap(true, Ordering::AcqRel) {
        eprint_line("no trace of this panic: the trace of an earlier one is still being written");
        return;
    }
    let trace = Backtrace::force_capture();
    let write = move || {
        eprint_line(&format!("trace of the panic:\n{trace}"));
        IS_TRACING.store(false, Ordering::Release);
    };
    // Written on this thread outside of the runtime: when the main thread panics, the program may end, and a separate
    // thread with it.
    if thread.name() == Some("main") || tokio::runtime::Handle::try_current().is_err() {
        write();
    } else if thread::Builder::new().name("panic-trace".to_owned()).spawn(write).is_err() {
        IS_TRACING.store(false, Ordering::Release);
        eprint_line("no trace of this panic: no thread could be started to write it");
    }
}

/// Same condition as in the standard library's hook: `RUST_LIB_BACKTRACE` is only for traces that a program captures
/// itself.
fn is_trace_wanted() -> bool {
    env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0")
}
