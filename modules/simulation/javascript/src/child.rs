//! The process of a script: serves traces, one after the other, until the node closes the socket.

use std::{cell::RefCell, io, os::unix::net::UnixStream, rc::Rc};

use tenon_sandbox::{MissingProtection, Stage};

use crate::{
    engine,
    link::Link,
    process::OVERHEAD,
    protocol::{Failed, Opening, Reply, Request},
};

/// Maximum number of open descriptors of the process.
const DESCRIPTORS: u64 = 16;

/// Runs as a script's process: standard input is the node's socket. Returns when the node closes it. Must be called
/// before anything else opens a descriptor or starts a thread.
///
/// # Errors
/// Standard input is no socket, or the node breaks the protocol.
pub fn run_script_child() -> io::Result<()> {
    let socket = tenon_sandbox::take_inherited_socket()?;
    serve(UnixStream::from(socket), close)
}

/// Drops all rights that a script does not need. Returns why that failed, if it did.
fn close(opening: &Opening) -> Option<String> {
    let memory = tenon_sandbox::limit_memory(opening.memory.saturating_add(OVERHEAD));
    let descriptors = tenon_sandbox::limit_descriptors(DESCRIPTORS);
    if let Err(error) = memory.and(descriptors) {
        return Some(format!("its limits cannot be set: {error}"));
    }
    let required = |gap| match gap {
        MissingProtection::Required(reason) => Some(reason),
        // The kernel lacks a newer protection; the seccomp filter forbids the same operations.
        MissingProtection::Newer(_) => None,
    };
    let files = tenon_sandbox::close_files(None).and_then(required);
    let calls = tenon_sandbox::close_system_calls(Stage::Serving).and_then(required);
    files.or(calls)
}

/// Serves traces; `close` drops the process's rights before the first script is read.
pub(crate) fn serve(socket: UnixStream, close: impl FnOnce(&Opening) -> Option<String>) -> io::Result<()> {
    let link = Rc::new(RefCell::new(Link::new(socket)));
    let mut close = Some(close);
    loop {
        let request = match link.borrow_mut().receive::<Request>() {
            Ok(request) => request,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let Request::Start(opening) = request else { return Err(io::ErrorKind::InvalidData.into()) };
        let gap = close.take().and_then(|close| close(&opening)).filter(|_| opening.needs_sandbox);
        if let Some(gap) = gap {
            let text = format!("scripts do not run without their sandbox: {gap}");
            return link.borrow_mut().send(&Reply::Failed(Failed::Message(text)));
        }
        engine::trace(&link, *opening)?;
    }
}
