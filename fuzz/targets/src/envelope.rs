//! The JSON-RPC envelope: every body is answered with JSON or silence, and accepted or refused like by a general
//! parser.

use std::time::Duration;

use futures_util::FutureExt as _;
use serde::de::{Deserialize as _, IgnoredAny};
use tenon_bus::CallContext;
use tenon_ipc::{Caller, Dispatcher, EnvelopeLimits, Exposure, NoNotifications, RawCall, RpcService};
use tenon_sdk::{Failure, FailureCode};

#[derive(Clone)]
struct Echo;

impl RpcService for Echo {
    type Json = String;
    type Notifications = NoNotifications<String>;

    async fn serve_call(&self, call: &mut RawCall<'_>, _: &Caller) -> Result<String, Failure> {
        let (method, params) = (call.method(), call.params());
        match method {
            "fail" => Err(Failure { code: FailureCode(3), message: method.into(), data: params.map(str::to_owned) }),
            // Methods receive only valid JSON, for every input.
            _ => {
                let params = params.unwrap_or("null");
                assert!(serde_json::from_str::<IgnoredAny>(params).is_ok(), "params are not JSON: {params}");
                Ok(params.len().to_string())
            }
        }
    }

    fn only_reads(&self, _: &str) -> bool {
        true
    }

    async fn subscribe(&self, _: &str, _: &str, _: Option<&str>, _: &Caller) -> Result<Self::Notifications, Failure> {
        Ok(NoNotifications::default())
    }
}

const LIMITS: EnvelopeLimits = EnvelopeLimits {
    batch_items: 50,
    batch_concurrency: 16,
    response_bytes: 64 << 20,
    batch_response_bytes: 25_000_000,
    call_timeout: None,
    computing_time: Some(Duration::from_secs(30)),
    subscriptions: 256,
    client_subscriptions: 256,
};

/// A whole body.
pub(crate) fn answer(input: &[u8]) {
    let caller = Caller::new(Exposure::all(), CallContext::new());
    let answer = Dispatcher::new(Echo, LIMITS).answer_text(input, &caller).now_or_never().expect("nothing waits");
    let is_refused = answer.as_ref().is_some_and(|answer| {
        assert_eq!(answer.last(), Some(&b'\n'));
        serde_json::from_slice::<IgnoredAny>(answer).expect("the answer is JSON");
        answer.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,")
    });
    // Invalid UTF-8 is replaced first, as in the reference. Texts with many brackets are left out, because deep nesting
    // is refused; other top-level values too, because the reference reads `01` as `0` and serde refuses it.
    let text = String::from_utf8_lossy(input);
    if text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() < 5_000
        && text.trim_ascii_start().starts_with(['{', '['])
    {
        let mut reader = serde_json::Deserializer::from_str(&text);
        let is_json = IgnoredAny::deserialize(&mut reader).is_ok();
        assert_eq!(is_refused, !is_json, "{text}");
    }
    let whole = tenon_ipc::fuzzing::scan(input, usize::MAX);
    let piece = usize::from(input.first().copied().unwrap_or(1) % 7) + 1;
    assert_eq!(tenon_ipc::fuzzing::scan(input, piece), whole, "a message is the same in pieces of {piece}");
}
