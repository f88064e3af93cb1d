//! The envelope's error texts (`docs/spec/rpc-eth.md` 3.3, 15), in one place.

use tenon_api::BusError;
use tenon_bus::OutOfMemory;
use tenon_sdk::{Failure, FailureCode};

/// A response beyond its limit; go-ethereum's error code.
pub(crate) const RESPONSE_TOO_LARGE: FailureCode = FailureCode(-32003);

fn failure(code: FailureCode, message: impl Into<String>) -> Failure {
    Failure { code, message: message.into(), data: None }
}

/// The client's share of memory is used up.
pub(crate) fn out_of_memory(refused: OutOfMemory) -> Failure {
    BusError::from(refused).into()
}

pub(crate) fn invalid_request() -> Failure {
    failure(FailureCode::INVALID_REQUEST, "invalid request")
}

pub(crate) fn empty_batch() -> Failure {
    failure(FailureCode::INVALID_REQUEST, "empty batch")
}

/// HTTP gives no detail; the socket transports describe the error.
pub(crate) fn parse_error() -> Failure {
    failure(FailureCode::PARSE, "parse error")
}

pub(crate) fn syntax(text: String) -> Failure {
    failure(FailureCode::PARSE, text)
}

pub(crate) fn no_subscription_name() -> Failure {
    Failure::invalid_params("expected subscription name as first argument")
}

pub(crate) fn notifications_not_supported() -> Failure {
    Failure::server("notifications not supported")
}

pub(crate) fn no_subscription(kind: &str, namespace: &str) -> Failure {
    Failure::subscription_not_found(namespace, kind)
}

pub(crate) fn subscription_not_found() -> Failure {
    Failure::server("subscription not found")
}

pub(crate) fn too_many_subscriptions(max: usize) -> Failure {
    Failure::limit(format!("too many subscriptions: at most {max} on a connection"))
}

pub(crate) fn too_many_subscriptions_of_client(max: usize) -> Failure {
    Failure::limit(format!("too many subscriptions: at most {max} of a client"))
}

pub(crate) fn handler_crashed() -> Failure {
    Failure::server("method handler crashed")
}

pub(crate) fn batch_too_large(count: usize, max: usize) -> Failure {
    Failure::limit(format!("batch too large: {count} requests, at most {max}"))
}

pub(crate) fn response_too_large(length: usize, max: usize) -> Failure {
    failure(RESPONSE_TOO_LARGE, format!("response too large: {length} bytes, at most {max}"))
}

pub(crate) fn batch_response_too_large(max: usize) -> Failure {
    failure(RESPONSE_TOO_LARGE, format!("response too large: batch beyond {max} bytes"))
}

pub(crate) fn timed_out() -> Failure {
    // The router's own time limit ends at the same instant with the same text.
    Failure::limit("request timed out")
}

/// The call was running at the end of the node's or the front-end's grace period.
pub(crate) fn stopping() -> Failure {
    Failure::server("the server is stopping")
}

pub(crate) fn message_too_large(max: usize) -> Failure {
    Failure::limit(format!("message too large: at most {max} bytes"))
}
