//! A client that leaves while its call runs.
//!
//! hyper can detect this too. But then it reads ahead during every call, which costs a buffer of 8 KiB per request, and
//! it gives no answer to a client that has closed only its sending direction.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::ReadBuf,
    net::TcpStream,
    time::{Sleep, sleep},
};

/// Time for the answer of a client that has closed its sending direction. A client that has left looks the same until
/// something is written to it, and its work must end soon.
const HALF_CLOSED_WAIT: Duration = Duration::from_millis(50);

/// Detects the end of a connection during a call.
pub(super) struct Disconnect<'a> {
    stream: &'a TcpStream,
    /// Set when the client has closed its sending direction.
    wait: Option<Pin<Box<Sleep>>>,
}

impl<'a> Disconnect<'a> {
    /// Costs nothing until it is polled, which happens only for calls that wait.
    pub(super) const fn of(stream: &'a TcpStream) -> Self {
        Self { stream, wait: None }
    }

    /// Ready when the connection is broken, or [`HALF_CLOSED_WAIT`] after the client has closed its sending direction.
    /// Detects neither while bytes of the client's next request are unread.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(wait) = &mut self.wait {
            return wait.as_mut().poll(context);
        }
        let mut byte = [0; 1];
        match ready!(self.stream.poll_peek(context, &mut ReadBuf::new(&mut byte))) {
            Ok(0) => self.wait.insert(Box::pin(sleep(HALF_CLOSED_WAIT))).as_mut().poll(context),
            Ok(_) => Poll::Pending,
            Err(_) => Poll::Ready(()),
        }
    }
}
