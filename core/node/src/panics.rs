//! What is said of a panic, and by whom: the standard library's own hook writes to standard error however long that takes,
//! and finds the names of a trace on the thread that panicked.
//!
//! Both would cost more than the one request. Threads that serve requests are as few as cores: one that waits for a pipe
//! which nobody reads is lost, and one that looks up names (seconds, where the program has debug information and is not in
//! the system's cache) holds up the connections whose turn is next. So the message goes where log lines go, and on such a
//! thread the trace, which only `RUST_BACKTRACE` asks for, is taken down and handed to a thread of its own.

use std::backtrace::Backtrace;
use std::env;
use std::panic::{PanicHookInfo, set_hook};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::log_output::say;

/// Whether names of a trace are being looked up. The standard library does so under one lock for the process, which taking
/// the next trace down would wait for.
static IS_TRACING: AtomicBool = AtomicBool::new(false);

/// Says of every panic from now on what the standard library would, without holding anybody up.
pub(crate) fn say_without_waiting() {
    set_hook(Box::new(report));
}

fn report(panic: &PanicHookInfo<'_>) {
    let thread = thread::current();
    say(&format!("thread '{}' {panic}", thread.name().unwrap_or("without a name")));
    if !is_trace_wanted() {
        return;
    }
    if IS_TRACING.swap(true, Ordering::AcqRel) {
        say("the trace of this panic is left out: that of an earlier one is still being written");
        return;
    }
    let trace = Backtrace::force_capture();
    let write = move || {
        say(&format!("trace of the panic:\n{trace}"));
        IS_TRACING.store(false, Ordering::Release);
    };
    // The program may end when its main thread has panicked, and the trace with it.
    if thread.name() == Some("main") || tokio::runtime::Handle::try_current().is_err() {
        write();
    } else if thread::Builder::new().name("panic-trace".to_owned()).spawn(write).is_err() {
        IS_TRACING.store(false, Ordering::Release);
        say("the trace of this panic is left out: the system gives no thread to write it");
    }
}

/// As the standard library's own hook decides it: `RUST_LIB_BACKTRACE` is for the traces that a program takes of its own.
fn is_trace_wanted() -> bool {
    env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0")
}
