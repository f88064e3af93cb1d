//! Calls by plugins to methods of other namespaces, by name and with JSON, as clients make them.
//!
//! Invariants:
//!
//! - The called method has only the capabilities that both plugins were granted.
//! - Calls nest at most [`MAX_DEPTH`] deep, and a plugin makes at most [`MAX_OWN_CALLS`] at a time on its own behalf.
//! - Every call has a deadline.
//! - Parameters are complete JSON: plugins in the node's process do not check this themselves.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tenon_api::{BusError, CapabilitySet};
use tenon_bus::{CallContext, ClientId, MemoryBudget, MemoryUse, Origin, PluginId, Transport};
use tenon_sdk::boundary::ExportedFuture;
use tenon_sdk::{Failure, FailureCode};
use zeroize::Zeroizing;

use crate::{Caller, Exposure, router::WeakRouter};

/// Maximum length of a method's name, bytes.
pub const MAX_METHOD: usize = 256;
/// Maximum length of the parameters, bytes.
pub const MAX_PARAMS: usize = 5 << 20;
/// Maximum nesting depth of such calls.
const MAX_DEPTH: u8 = 4;
/// Maximum number of calls that one plugin makes on its own behalf at a time. The depth of such a call starts at zero
/// again, so without this bound a method that calls itself this way would overflow the stack of the node's thread.
const MAX_OWN_CALLS: usize = 32;
/// Maximum time of a call that has no earlier deadline: one on a plugin's own behalf, or for a subscription.
const MAX_TIME: Duration = Duration::from_secs(300);

/// Calls methods for one plugin.
pub(crate) struct JsonCalls {
    router: WeakRouter,
    id: PluginId,
    granted: CapabilitySet,
    memory: MemoryBudget,
    /// Number of its running calls on its own behalf.
    own_calls: Arc<AtomicUsize>,
}

/// A running call on a plugin's own behalf.
struct OwnCall(Arc<AtomicUsize>);

impl OwnCall {
    fn begin(running: &Arc<AtomicUsize>) -> Result<Self, Failure> {
        // Dropped immediately if there are too many, which decrements the count again.
        let call = Self(Arc::clone(running));
        if running.fetch_add(1, Ordering::Relaxed) < MAX_OWN_CALLS {
            return Ok(call);
        }
        let text = format!("a plugin may have at most {MAX_OWN_CALLS} concurrent method calls that serve no request");
        Err(Failure::limit(text))
    }
}

impl Drop for OwnCall {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl JsonCalls {
    /// Calls for the plugin with this id, which was granted these capabilities.
    pub(crate) fn new(router: WeakRouter, id: PluginId, granted: CapabilitySet, memory: MemoryBudget) -> Self {
        Self { router, id, granted, memory, own_calls: Arc::default() }
    }

    /// Calls a method; the answer is the JSON text of its result. `context` is that of the call for which the plugin
    /// asks; without one it asks on its own behalf.
    pub(crate) fn call_method(&self, context: Option<&CallContext>, method: &[u8], params: &[u8]) -> ExportedFuture {
        let begun = self.check(method, params).and_then(|(method, params)| {
            let own_call = if is_own(context) { Some(OwnCall::begin(&self.own_calls)?) } else { None };
            let context = self.context_of(context)?;
            let client = self.memory.client(context.origin().client);
            // The text, and the method's parameters decoded from it.
            let memory = client.reserve(MemoryUse::Calls, params.len().saturating_mul(2)).map_err(BusError::from)?;
            let router = self.router.upgrade().ok_or_else(|| Failure::server("the node is stopping"))?;
            // Wiped, because the parameters may hold a password.
            Ok((router, method.to_owned(), Zeroizing::new(params.to_owned()), context, client, (memory, own_call)))
        });
        let (router, method, params, context, client, held) = match begun {
            Ok(begun) => begun,
            Err(failure) => return ExportedFuture::ready(Err(failure)),
        };
        ExportedFuture::new(async move {
            let _held = held;
            let params = (!params.is_empty()).then_some(params.as_str());
            let answer = router.call_method(&method, params, &Caller::new(Exposure::all(), context)).await;
            let answer = answer.map_err(|failure| match failure.code {
                // The called plugin panicked, not the calling one.
                FailureCode::CRASHED => Failure { code: FailureCode::CALLEE_CRASHED, ..failure },
                _ => failure,
            })?;
            let json = answer.as_ref();
            // Counts the answer and its copy for the plugin.
            let _copy = client.reserve(MemoryUse::Answers, json.len().saturating_mul(2)).map_err(BusError::from)?;
            Ok(json.to_vec())
        })
    }

    fn check<'a>(&self, method: &'a [u8], params: &'a [u8]) -> Result<(&'a str, &'a str), Failure> {
        let no_method = || Failure {
            code: FailureCode::METHOD_NOT_FOUND,
            message: format!("a method's name is UTF-8, and at most {MAX_METHOD} bytes long"),
            data: None,
        };
        let method = std::str::from_utf8(method).ok().filter(|name| name.len() <= MAX_METHOD).ok_or_else(no_method)?;
        if params.len() > MAX_PARAMS {
            let text = format!("the parameters have {} bytes; at most {MAX_PARAMS} are allowed", params.len());
            return Err(Failure::limit(text));
        }
        let invalid = |problem: &dyn std::fmt::Display| Failure {
            code: FailureCode::INVALID_PARAMS,
            message: format!("the parameters are not JSON: {problem}"),
            data: None,
        };
        let params = std::str::from_utf8(params).map_err(|error| invalid(&error))?;
        if !params.is_empty() {
            serde_json::from_str::<serde::de::IgnoredAny>(params).map_err(|error| invalid(&error))?;
        }
        Ok((method, params))
    }

    /// The context of the method's call: never more than the plugin was granted, and one call deeper.
    fn context_of(&self, context: Option<&CallContext>) -> Result<CallContext, Failure> {
        let is_own = is_own(context);
        let context = context.map_or_else(CallContext::new, CallContext::nested);
        let context = context.no_later_than(Instant::now() + MAX_TIME);
        let asked = context.origin();
        let origin = match is_own {
            true => Origin { transport: Transport::Inside, client: ClientId::of_plugin(self.id), ..asked },
            false => asked,
        };
        if origin.depth >= MAX_DEPTH {
            let text = format!("method calls of plugins are nested too deeply: at most {MAX_DEPTH} levels are allowed");
            return Err(Failure::limit(text));
        }
        let grants = origin.grants.and(self.granted);
        let origin = Origin { grants, depth: origin.depth + 1, ..origin.by_plugin(self.id) };
        Ok(context.with_origin(origin))
    }
}

/// Whether the plugin calls on its own behalf and not for a client.
fn is_own(context: Option<&CallContext>) -> bool {
    context.is_none_or(|context| context.origin().client == ClientId::INSIDE)
}
