//! Reports panics. The standard library's own hook may block on standard error, and resolves the names of a backtrace
//! on the thread that panicked.
//!
//! Both would affect more than the one request. There are only as many serving threads as cores: a thread that waits
//! for an unread pipe is lost, and one that resolves names (seconds, if the program has debug information and is not in
//! the system's cache) delays its next connections. So the message goes to the log's output, and on such a thread the
//! backtrace, captured only with `RUST_BACKTRACE`, is resolved on a separate thread.

use std::backtrace::Backtrace;
use std::env;
use std::panic::{PanicHookInfo, set_hook};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::log_output::eprint_line;

/// Whether a backtrace is being resolved. The standard library does so under one lock of the process, and capturing the
/// next backtrace would wait for it.
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
    // The program, and its backtrace thread, may end once its main thread has panicked.
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
