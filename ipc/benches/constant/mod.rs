//! A service with a constant answer, so that only the cost of envelope and transport is measured.

use std::{hint::black_box, time::Duration};

use tenon_ipc::{Caller, EnvelopeLimits, NoNotifications, RawCall, RpcService};
use tenon_sdk::Failure;

/// Limits as a node has them.
pub(crate) const LIMITS: EnvelopeLimits = EnvelopeLimits {
    batch_items: 10_000,
    batch_concurrency: 16,
    response_bytes: 64 << 20,
    batch_response_bytes: 25_000_000,
    call_timeout: Some(Duration::from_secs(600)),
    computing_time: Some(Duration::from_secs(30)),
    subscriptions: 256,
    client_subscriptions: 4_096,
};

/// Answers with the height 5151.
#[derive(Clone)]
pub(crate) struct Constant;

impl RpcService for Constant {
    type Json = &'static str;
    type Notifications = NoNotifications<&'static str>;

    async fn serve_call(&self, call: &mut RawCall<'_>, _: &Caller) -> Result<&'static str, Failure> {
        black_box((call.method(), call.params()));
        Ok("\"0x141f\"")
    }

    fn only_reads(&self, _: &str) -> bool {
        true
    }

    async fn subscribe(&self, _: &str, _: &str, _: Option<&str>, _: &Caller) -> Result<Self::Notifications, Failure> {
        Err(Failure::server("none"))
    }
}
