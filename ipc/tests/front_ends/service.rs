//! A service with methods for the tests.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenon_bus::CallContext;
use tenon_ipc::{Caller, Notifications, Origin, RawCall, RpcService};
use tenon_sdk::{Failure, FailureCode};
use tokio::sync::Notify;

/// Outcomes by method and `params` text.
pub(crate) type Outcomes = HashMap<(String, String), Result<String, Failure>>;

/// Has methods `test_*`, and the given outcomes.
#[derive(Clone, Default)]
pub(crate) struct TestService {
    pub(crate) outcomes: Arc<Outcomes>,
    /// Contexts of the calls of `test_forever` and `test_wait` that were started.
    pub(crate) begun: Arc<Mutex<Vec<CallContext>>>,
    /// What `test_wait` waits for.
    pub(crate) gate: Arc<Notify>,
    /// Number of changes by `test_change`.
    pub(crate) changes: Arc<AtomicU64>,
}

/// Waits until `condition` holds. Panics after ten seconds.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the condition did not come true within ten seconds");
}

/// Yields to other tasks `count` times.
pub(crate) async fn take_turns(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

pub(crate) fn not_found(message: String) -> Failure {
    Failure { code: FailureCode::METHOD_NOT_FOUND, message, data: None }
}

impl TestService {
    /// Waits for the call that starts after `earlier` others, and returns its context.
    pub(crate) async fn call_after(&self, earlier: usize) -> CallContext {
        until(|| self.begun.lock().unwrap().len() > earlier).await;
        self.begun.lock().unwrap()[earlier].clone()
    }
}

impl RpcService for TestService {
    type Json = String;
    type Notifications = TestNotifications;

    async fn serve_call(&self, call: &mut RawCall<'_>, caller: &Caller) -> Result<String, Failure> {
        // Decoded immediately, as plugins do, so that the text is not kept until the answer.
        let (method, params) = (call.method().to_owned(), call.params().map(str::to_owned));
        call.release();
        let (method, params) = (method.as_str(), params.as_deref());
        let params = params.filter(|params| *params != "null").unwrap_or("[]");
        let namespace = method.split('_').next().unwrap_or_default();
        let missing = || not_found(format!("the method {method} does not exist/is not available"));
        if !caller.exposure.exposes(namespace) {
            return Err(missing());
        }
        match method {
            "test_echo" => Ok(params.to_owned()),
            "test_origin" => {
                let Origin { transport, client, has_token, .. } = caller.context.origin();
                Ok(format!("\"{} {client} {has_token}\"", transport.name()))
            }
            "test_large" => {
                let length: usize = params.trim_matches(['[', ']']).parse().map_err(|_| missing())?;
                Ok(format!("\"{}\"", "x".repeat(length)))
            }
            "test_panic" => panic!("on purpose"),
            "test_wait" => {
                self.begun.lock().unwrap().push(caller.context.clone());
                self.gate.notified().await;
                Ok("\"waited\"".to_owned())
            }
            "test_yield" => {
                tokio::task::yield_now().await;
                Ok(params.to_owned())
            }
            "test_change" => {
                take_turns(3).await;
                self.changes.fetch_add(1, Ordering::Relaxed);
                take_turns(3).await;
                Ok("null".to_owned())
            }
            "test_changes" => Ok(self.changes.load(Ordering::Relaxed).to_string()),
            "test_changesLater" => {
                take_turns(20).await;
                Ok(self.changes.load(Ordering::Relaxed).to_string())
            }
            "test_forever" => {
                self.begun.lock().unwrap().push(caller.context.clone());
                std::future::pending().await
            }
            "debug_secret" | "eth_open" => Ok("true".to_owned()),
            "eth_chainId" if params == "[]" => Ok("\"0x141f\"".to_owned()),
            _ => self.outcomes.get(&(method.to_owned(), params.to_owned())).cloned().unwrap_or_else(|| Err(missing())),
        }
    }

    fn only_reads(&self, method: &str) -> bool {
        method != "test_change"
    }

    async fn subscribe(
        &self,
        namespace: &str,
        kind: &str,
        params: Option<&str>,
        _caller: &Caller,
    ) -> Result<TestNotifications, Failure> {
        match (namespace, kind, params) {
            ("test", "three", None) => Ok(TestNotifications { left: 3, payload: "1".to_owned(), ends: true }),
            ("test", "never", None) => Ok(TestNotifications { left: 0, payload: String::new(), ends: false }),
            ("test", "echo", Some(params)) => {
                Ok(TestNotifications { left: 1, payload: params.to_owned(), ends: false })
            }
            ("test", "flood", None) => {
                Ok(TestNotifications { left: usize::MAX, payload: format!("\"{}\"", "f".repeat(60_000)), ends: false })
            }
            ("eth", "logs", Some(_)) => Err(Failure::invalid_params(
                "invalid argument 1: json: cannot unmarshal number into Go value of type filters.input",
            )),
            ("eth", "newHeads", Some(_)) => Err(Failure::invalid_params("too many arguments, want at most 1")),
            _ => Err(not_found("worded by the envelope".to_owned())),
        }
    }
}

/// Payloads without delay, then the end or silence.
pub(crate) struct TestNotifications {
    left: usize,
    payload: String,
    ends: bool,
}

impl Notifications for TestNotifications {
    type Json = String;

    async fn next(&mut self) -> Option<Result<String, Failure>> {
        tokio::task::yield_now().await;
        if self.left > 0 {
            self.left -= 1;
            return Some(Ok(self.payload.clone()));
        }
        if !self.ends {
            std::future::pending::<()>().await;
        }
        None
    }
}
