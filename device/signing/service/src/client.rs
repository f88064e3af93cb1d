//! JSON-RPC for clients: one service for each, which knows the client's name.

use std::sync::Arc;
use std::time::Duration;

use tenon_ipc::{Caller, EnvelopeLimits, NoNotifications, RawCall, RpcService, SocketLimits};
use tenon_sdk::Failure;

use crate::{Service, methods};

/// Maximum length of a message in bytes: room for several items of 128 KiB in hexadecimal.
pub(crate) const MAX_MESSAGE: usize = 1 << 20;
/// Maximum length of a response in bytes. A signed transaction is returned in two forms, each at most about as long as
/// its request.
const MAX_ANSWER: usize = 4 * MAX_MESSAGE;
/// Maximum number of requests in a batch.
const MAX_BATCH: usize = 100;
/// Time allowed for a device, in addition to that for an approval.
const DEVICE_TIME: Duration = Duration::from_secs(600);

/// The RPC service of one client.
#[derive(Clone)]
pub struct Named {
    pub(crate) service: Service,
    pub(crate) client: Arc<str>,
}

impl Named {
    /// Creates the service of a client.
    pub fn new(service: Service, client: &str) -> Self {
        Self { service, client: client.into() }
    }
}

impl RpcService for Named {
    type Json = Vec<u8>;
    type Notifications = NoNotifications<Vec<u8>>;

    async fn serve_call(&self, call: &mut RawCall<'_>, caller: &Caller) -> Result<Vec<u8>, Failure> {
        // The parameters are copied so that the text of the call can be freed before a possible wait for a person.
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

/// Limits on messages. Responses may have to wait for a person.
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

/// Limits of the socket of a client or an approver.
#[derive(Clone, Copy, Debug)]
pub struct ClientSocket;

impl ClientSocket {
    /// Allows 16 connections with 8 concurrent calls each.
    pub fn limits(approval_time: Duration) -> SocketLimits {
        SocketLimits {
            calls_in_flight: 8,
            queued_bytes: MAX_ANSWER,
            ..SocketLimits::new(envelope_limits(approval_time), 16, MAX_MESSAGE)
        }
    }
}
