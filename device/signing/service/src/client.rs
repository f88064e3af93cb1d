//! Clients over JSON-RPC: one service for each, which knows its name.

use std::sync::Arc;
use std::time::Duration;

use tenon_api::Failure;
use tenon_ipc::{Caller, EnvelopeLimits, NoNotifications, RawCall, RpcService, SocketLimits};

use crate::{Service, methods};

/// Maximum length of a message, bytes: data of 128 KiB in hexadecimal, several times.
pub(crate) const MAX_MESSAGE: usize = 1 << 20;
/// Maximum length of an answer, bytes: a signed transaction is told in two forms, each at most about as long as its request.
const MAX_ANSWER: usize = 4 * MAX_MESSAGE;
/// Maximum number of requests in a batch.
const MAX_BATCH: usize = 100;
/// Time for a device besides that of an approval.
const DEVICE_TIME: Duration = Duration::from_secs(600);

/// The service for a client of this name.
#[derive(Clone)]
pub struct Named {
    pub(crate) service: Service,
    pub(crate) client: Arc<str>,
}

impl Named {
    /// The service for a client.
    pub fn new(service: Service, client: &str) -> Self {
        Self { service, client: client.into() }
    }
}

impl RpcService for Named {
    type Json = Vec<u8>;
    type Notifications = NoNotifications<Vec<u8>>;

    async fn serve_call(&self, call: &mut RawCall<'_>, caller: &Caller) -> Result<Vec<u8>, Failure> {
        // The parameters are copied: the text of the call is freed while a person is waited for.
        let (method, params) = (call.method().to_owned(), call.params().map(str::to_owned));
        call.release();
        methods::answer(&self.service, &self.client, &method, params.as_deref(), &caller.context).await
    }

    fn only_reads(&self, method: &str) -> bool {
        methods::only_reads(method)
    }

    async fn subscribe(
        &self,
        namespace: &str,
        _kind: &str,
        _params: Option<&str>,
        _caller: &Caller,
    ) -> Result<Self::Notifications, Failure> {
        Err(methods::unknown_method(&format!("{namespace}_subscribe")))
    }
}

/// Bounds of messages, whose answers may wait for a person.
pub(crate) fn envelope_limits(approval_time: Duration) -> EnvelopeLimits {
    EnvelopeLimits {
        batch_items: MAX_BATCH,
        batch_concurrency: 1,
        response_bytes: MAX_ANSWER,
        batch_response_bytes: MAX_ANSWER,
        call_timeout: Some(approval_time + DEVICE_TIME),
        computing_time: None,
        subscriptions: 0,
        client_subscriptions: 0,
    }
}

/// A client's or an approver's socket.
#[derive(Clone, Copy, Debug)]
pub struct ClientSocket;

impl ClientSocket {
    /// Bounds of a socket: 16 connections of 8 calls.
    pub fn limits(approval_time: Duration) -> SocketLimits {
        SocketLimits {
            envelope: envelope_limits(approval_time),
            connections: 16,
            message_bytes: MAX_MESSAGE,
            calls_in_flight: 8,
            queued_bytes: MAX_ANSWER,
            ..SocketLimits::default()
        }
    }
}
