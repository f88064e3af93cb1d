//! The answers that HTTP gives by itself, in the reference's words.

use http::{HeaderValue, Response, StatusCode, header};
use tenon_bus::OutOfMemory;

use super::{HealthReport, body::AnswerBody};

/// An answer with its body.
pub(super) type Answer = Response<AnswerBody>;

const PLAIN: &str = "text/plain; charset=utf-8";

/// The answer in the coding that its client asks for.
pub(super) fn coded(answer: Answer, takes_gzip: bool) -> Answer {
    if !takes_gzip {
        return answer;
    }
    let (mut head, body) = answer.into_parts();
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Response::from_parts(head, body.into_gzip())
}

/// A status and nothing else.
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

/// What a request gets that is addressed to a host which is not served.
pub(super) fn foreign_host() -> Answer {
    refused(StatusCode::FORBIDDEN, "invalid host specified")
}

/// What `GET /health` says.
pub(super) fn report(report: &HealthReport) -> Answer {
    let mut answer = Response::new(AnswerBody::text(format!("{}\n", report.details)));
    if !report.is_healthy {
        *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// What a client gets whose request has no memory left.
pub(super) fn out_of_memory(refused: OutOfMemory) -> Answer {
    let mut answer = self::refused(StatusCode::SERVICE_UNAVAILABLE, &refused.to_string());
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// What a client gets whose request has taken too long.
pub(super) fn timed_out() -> Answer {
    let mut answer = Response::new(AnswerBody::text(r#"{"error":"http server timeout"}"#));
    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PLAIN));
    answer
}
