//! A service with a constant answer, so that only the cost of envelope and transport is measured.

use std::hint::black_box;

use tenon_ipc::{Caller, NoNotifications, RawCall, RpcService};
use tenon_sdk::Failure;

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
