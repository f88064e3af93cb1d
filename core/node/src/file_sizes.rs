//! Keeps the limit of file sizes (`ulimit -f`) from killing the process.

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// Makes writes beyond the limit fail with an error that names them. Without a handler, the signal of the first such
/// write would end the process without a message.
pub(crate) fn refuse_without_signal() {
    let listen = || -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let _inside = runtime.enter();
        // Its handler stays installed.
        signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
    };
    if let Err(error) = listen() {
        crate::log_output::eprint_line(&format!("tenon: can't catch the signal of the file size limit: {error}"));
    }
}
