//! This side's futures and streams, exported for the other side to poll.

use std::{
    ffi::c_void,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context as TaskContext, Poll},
};

use crate::Failure;
use futures_util::{Stream, stream};
use tenon_api::abi::{POLL_END, POLL_PENDING, POLL_READY, TenonFuture, TenonReply, TenonStream, TenonWaker};

use super::{
    bytes::{OutgoingItem, reply_with},
    crashed, reply, waker,
};

/// A future of this side in the ABI's form. Dropping it drops the future.
#[derive(Debug)]
pub struct ExportedFuture(TenonFuture);

/// A stream of this side in the ABI's form. Dropping it drops the stream.
#[derive(Debug)]
pub struct ExportedStream(TenonStream);

// SAFETY: made only from futures that are `Send`; its owner polls it exclusively.
unsafe impl Send for ExportedFuture {}
// SAFETY: made only from streams that are `Send`; its owner polls it exclusively.
unsafe impl Send for ExportedStream {}

impl ExportedFuture {
    /// Wraps a future: `Ok` is the reply's body.
    pub fn new<F>(future: F) -> Self
    where
        F: Future<Output = Result<Vec<u8>, Failure>> + Send + 'static,
    {
        let state = Box::into_raw(Box::new(future)).cast();
        Self(TenonFuture { state, poll: Some(poll_future::<F>), drop: Some(drop_state::<F>) })
    }

    /// A reply that is available at once, as for nearly all calls of the bus. Polling it runs no code that could panic
    /// or wait, so it needs neither a waker nor a panic guard.
    pub fn ready(result: Result<Vec<u8>, Failure>) -> Self {
        let state: Box<Ready> = Box::new(Some(result));
        Self(TenonFuture {
            state: Box::into_raw(state).cast(),
            poll: Some(poll_ready),
            drop: Some(drop_state::<Ready>),
        })
    }

    /// Gives it away; the receiver drops it by the rules of the ABI.
    pub fn into_raw(self) -> TenonFuture {
        take(&mut std::mem::ManuallyDrop::new(self).0)
    }
}

impl ExportedStream {
    /// Wraps a stream: `Ok` is an item, or the body of one without position.
    pub fn new<F, B>(stream: F) -> Self
    where
        F: Stream<Item = Result<B, Failure>> + Send + 'static,
        B: Into<OutgoingItem>,
    {
        let state = Box::into_raw(Box::new(stream)).cast();
        Self(TenonStream { state, poll: Some(poll_stream::<F, B>), drop: Some(drop_state::<F>) })
    }

    /// A stream whose only item is the reason why it was not opened.
    pub fn refused(failure: Failure) -> Self {
        Self::new(stream::iter([Err::<Vec<u8>, _>(failure)]))
    }

    /// Gives it away; the receiver drops it by the rules of the ABI.
    pub fn into_raw(self) -> TenonStream {
        take(&mut std::mem::ManuallyDrop::new(self).0)
    }
}

impl Drop for ExportedFuture {
    fn drop(&mut self) {
        drop_raw(&mut self.0);
    }
}

impl Drop for ExportedStream {
    fn drop(&mut self) {
        drop_raw(&mut self.0);
    }
}

fn take(raw: &mut TenonFuture) -> TenonFuture {
    TenonFuture { state: raw.state, poll: raw.poll.take(), drop: raw.drop.take() }
}

fn drop_raw(raw: &mut TenonFuture) {
    if let Some(drop) = raw.drop.take() {
        // SAFETY: `take` resets the function to `None`, so this runs once.
        unsafe { drop(raw.state) };
    }
}

/// The state of [`ExportedFuture::ready`]; `None` once the reply was taken.
type Ready = Option<Result<Vec<u8>, Failure>>;

unsafe extern "C" fn poll_ready(state: *mut c_void, _: *const TenonWaker, out: *mut TenonReply) -> i32 {
    // SAFETY: `state` is the box of `ExportedFuture::ready`, and one thread polls at a time.
    let answer = unsafe { &mut *state.cast::<Ready>() }.take();
    // `None` if the caller polls again after the reply, which the ABI forbids.
    let answer = answer.unwrap_or_else(|| Err(crashed()));
    // SAFETY: as in `poll_future`.
    unsafe { out.write(reply(answer)) };
    POLL_READY
}

unsafe extern "C" fn poll_future<F>(state: *mut c_void, waker: *const TenonWaker, out: *mut TenonReply) -> i32
where
    F: Future<Output = Result<Vec<u8>, Failure>> + Send + 'static,
{
    // SAFETY: `state` is the box of `ExportedFuture::new`; it never moves and one thread polls at a time.
    let future = unsafe { Pin::new_unchecked(&mut *state.cast::<F>()) };
    // SAFETY: the poller's waker lives until its poll returns.
    let poll = || unsafe { waker::with_borrowed(waker, |waker| future.poll(&mut TaskContext::from_waker(waker))) };
    let result = match catch_unwind(AssertUnwindSafe(poll)) {
        Ok(Poll::Pending) => return POLL_PENDING,
        Ok(Poll::Ready(result)) => result,
        Err(_) => Err(crashed()),
    };
    // SAFETY: the poller provides memory for a reply; `write` because that memory may be uninitialised.
    unsafe { out.write(reply(result)) };
    POLL_READY
}

unsafe extern "C" fn poll_stream<F, B>(state: *mut c_void, waker: *const TenonWaker, out: *mut TenonReply) -> i32
where
    F: Stream<Item = Result<B, Failure>> + Send + 'static,
    B: Into<OutgoingItem>,
{
    // SAFETY: `state` is the box of `ExportedStream::new`; it never moves and one thread polls at a time.
    let stream = unsafe { Pin::new_unchecked(&mut *state.cast::<F>()) };
    // SAFETY: the poller's waker lives until its poll returns.
    let poll = || unsafe { waker::with_borrowed(waker, |waker| stream.poll_next(&mut TaskContext::from_waker(waker))) };
    let result = match catch_unwind(AssertUnwindSafe(poll)) {
        Ok(Poll::Pending) => return POLL_PENDING,
        Ok(Poll::Ready(None)) => return POLL_END,
        Ok(Poll::Ready(Some(result))) => result,
        Err(_) => Err(crashed()),
    };
    // SAFETY: as in `poll_future`.
    unsafe { out.write(reply_with(result.map(Into::into))) };
    POLL_READY
}

unsafe extern "C" fn drop_state<F>(state: *mut c_void) {
    // SAFETY: `state` is the box of `new`, and it is freed once.
    let state = unsafe { Box::from_raw(state.cast::<F>()) };
    // A panic in a destructor must not cross the boundary; remaining data leaks.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(state)));
}
