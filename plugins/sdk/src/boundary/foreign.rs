//! Futures and streams of the other side, polled here. Nothing in their replies is trusted except that their pointers
//! are valid.

use std::{
    future::Future,
    pin::Pin,
    ptr,
    task::{Context as TaskContext, Poll},
};

use crate::Failure;
use tenon_api::abi::{POLL_END, POLL_PENDING, POLL_READY, TenonBuffer, TenonFuture, TenonReply, TenonStream};

use super::{ExportedFuture, ExportedStream, OwnedBytes, StreamItem, bytes::reply_into_item, reply_into_result, waker};

/// A future of the other side. Dropping it cancels the work.
#[derive(Debug)]
pub struct ForeignFuture {
    raw: Raw,
}

/// A stream of the other side. Dropping it cancels it.
#[derive(Debug)]
pub struct ForeignStream {
    raw: Raw,
}

#[derive(Debug)]
struct Raw {
    future: TenonFuture,
    /// Whether it has finished: it must not be polled again.
    is_finished: bool,
}

// SAFETY: the ABI allows calling a future's functions from any thread, one at a time; `&mut` ensures the latter.
unsafe impl Send for Raw {}

enum Polled<T> {
    Pending,
    Ready(Result<T, Failure>),
    End,
}

/// Reads a reply: [`reply_into_result`] of a future, [`reply_into_item`] of a stream.
type Read<T> = unsafe fn(TenonReply) -> Result<T, Failure>;

impl Raw {
    fn poll<T>(&mut self, task: &TaskContext<'_>, read: Read<T>) -> Polled<T> {
        let Some(poll) = self.future.poll else {
            self.is_finished = true;
            return Polled::Ready(Err(Failure::server(
                "the plugin boundary returned a future without a poll function",
            )));
        };
        if self.is_finished {
            return Polled::End;
        }
        let waker = waker::lend(task.waker());
        let mut reply = TenonReply { code: 0, body: EMPTY, data: EMPTY };
        // SAFETY: neither finished nor dropped, and polled exclusively; the waker and the reply live until it returns.
        let outcome = unsafe { poll(self.future.state, &waker, &mut reply) };
        match outcome {
            POLL_PENDING => Polled::Pending,
            // SAFETY: the other side wrote the reply by the ABI, or left the empty one.
            POLL_READY => Polled::Ready(unsafe { read(reply) }),
            POLL_END => {
                self.is_finished = true;
                Polled::End
            }
            other => {
                self.is_finished = true;
                Polled::Ready(Err(Failure::server(format!(
                    "the plugin boundary answered a poll with the unknown code {other}"
                ))))
            }
        }
    }
}

const EMPTY: TenonBuffer = TenonBuffer { data: ptr::null_mut(), len: 0, capacity: 0, free: None };

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(drop) = self.future.drop {
            // SAFETY: called exactly once, at the end.
            unsafe { drop(self.future.state) };
        }
    }
}

impl ForeignFuture {
    /// Takes ownership of a future.
    ///
    /// # Safety
    /// `future` follows the rules of [`TenonFuture`], and its code stays mapped as long as this future and the bytes
    /// that it returns live.
    pub unsafe fn from_raw(future: TenonFuture) -> Self {
        Self { raw: Raw { future, is_finished: false } }
    }

    /// Polls; the same as [`Future::poll`] without the pin.
    pub fn poll_reply(&mut self, task: &TaskContext<'_>) -> Poll<Result<OwnedBytes, Failure>> {
        let polled = self.raw.poll(task, reply_into_result);
        if matches!(polled, Polled::Pending) {
            return Poll::Pending;
        }
        self.raw.is_finished = true;
        match polled {
            Polled::Ready(result) => Poll::Ready(result),
            _ => Poll::Ready(Err(Failure::server("the plugin boundary ended a call without an answer"))),
        }
    }
}

impl Future for ForeignFuture {
    type Output = Result<OwnedBytes, Failure>;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_reply(task)
    }
}

impl ForeignStream {
    /// Takes ownership of a stream.
    ///
    /// # Safety
    /// As [`ForeignFuture::from_raw`].
    pub unsafe fn from_raw(stream: TenonStream) -> Self {
        Self { raw: Raw { future: stream, is_finished: false } }
    }

    /// The next item; `None` at the end.
    pub fn poll_item(&mut self, task: &TaskContext<'_>) -> Poll<Option<Result<StreamItem, Failure>>> {
        match self.raw.poll(task, reply_into_item) {
            Polled::Pending => Poll::Pending,
            Polled::Ready(result) => Poll::Ready(Some(result)),
            Polled::End => Poll::Ready(None),
        }
    }
}

impl From<ExportedFuture> for ForeignFuture {
    fn from(future: ExportedFuture) -> Self {
        // SAFETY: made by this crate, by the rules; its code is in this library.
        unsafe { Self::from_raw(future.into_raw()) }
    }
}

impl From<ExportedStream> for ForeignStream {
    fn from(stream: ExportedStream) -> Self {
        // SAFETY: made by this crate, by the rules; its code is in this library.
        unsafe { Self::from_raw(stream.into_raw()) }
    }
}
