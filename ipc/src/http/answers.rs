//! HTTP's own answers, with the reference's texts.

use http::{HeaderValue, Response, StatusCode, header};
use tenon_bus::OutOfMemory;

use super::{HealthReport, body::AnswerBody};

/// An answer with its body.
pub(super) type Answer = Response<AnswerBody>;

const PLAIN: &str = "text/plain; charset=utf-8";

/// Returns the answer with gzip as its content encoding if the client accepts that.
pub(super) fn with_content_encoding(answer: Answer, takes_gzip: bool) -> Answer {
    if !takes_gzip {
        return answer;
    }
    let (mut head, body) = answer.into_parts();
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Response::from_parts(head, body.into_gzip())
}

/// An answer with only a status.
pub(super) fn status_only(status: StatusCode) -> Answer {
    let mut answer = Response::new(AnswerBody::empty());
    *answer.status_mut() = status;
    answer
}

/// A refusal in the reference's form.
pub(super) fn refused(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(AnswerBody::text(format!("{text}\n")));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PLAIN));
    answer.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// The answer to a request with a method that is not served. Without `Allow`, as in the reference.
pub(super) fn method_not_allowed() -> Answer {
    refused(StatusCode::METHOD_NOT_ALLOWED, "method not allowed")
}

/// The answer to a request for a host that is not served.
pub(super) fn host_not_allowed() -> Answer {
    refused(StatusCode::FORBIDDEN, "invalid host specified")
}

/// The answer to `GET /health`.
pub(super) fn report(report: &HealthReport) -> Answer {
    let mut answer = Response::new(AnswerBody::text(format!("{}\n", report.details)));
    if !report.is_healthy {
        *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// The answer to a request for a WebSocket, or with an incomplete body, while the node or the front-end stops.
pub(super) fn stopping() -> Answer {
    let mut answer = refused(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping");
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// The answer when there is no memory left for a request.
pub(super) fn out_of_memory(refused: OutOfMemory) -> Answer {
    let mut answer = self::refused(StatusCode::SERVICE_UNAVAILABLE, &refused.to_string());
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// The answer when a request has taken too long.
pub(super) fn timed_out() -> Answer {
    let mut answer = Response::new(AnswerBody::text(r#"{"error":"http server timeout"}"#));
    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PLAIN));
    answer
}

/// The answer to a client that closed its sending direction more than 50 ms before its call ended.
pub(super) fn client_disconnected() -> Answer {
    refused(StatusCode::BAD_REQUEST, "the call was cancelled, because its client closed its side of the connection")
}
