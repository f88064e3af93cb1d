//! Running calls and subscriptions of a library in this process.

use std::{
    marker::PhantomData,
    task::{Context as TaskContext, Poll},
};

use tenon_bus::CallContext;
use tenon_sdk::Failure;
use tenon_sdk::boundary::{ForeignFuture, ForeignStream, OwnedBytes, StreamItem};

use crate::Caller;

/// A running call. It borrows the instance that it calls, and its caller.
pub struct LocalCall<'a> {
    future: ForeignFuture,
    borrowed: PhantomData<&'a Caller>,
}

impl LocalCall<'_> {
    pub(super) const fn new(future: ForeignFuture) -> Self {
        Self { future, borrowed: PhantomData }
    }

    pub(crate) fn poll_reply(&mut self, task: &TaskContext<'_>) -> Poll<Result<OwnedBytes, Failure>> {
        self.future.poll_reply(task)
    }
}

/// A running subscription with the context that its token points to. Fields drop in this order.
pub struct LocalStream {
    stream: ForeignStream,
    _token: Box<CallContext>,
}

impl LocalStream {
    pub(super) const fn new(stream: ForeignStream, token: Box<CallContext>) -> Self {
        Self { stream, _token: token }
    }

    pub(crate) fn poll_item(&mut self, task: &TaskContext<'_>) -> Poll<Option<Result<StreamItem, Failure>>> {
        self.stream.poll_item(task)
    }
}
