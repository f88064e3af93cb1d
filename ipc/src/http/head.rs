//! What the head of a request says.

use http::{HeaderMap, Request, header};

/// Only the target that is exactly `/` is JSON-RPC; `/?` is another.
pub(super) fn is_root<B>(request: &Request<B>) -> bool {
    request.uri().path() == "/" && request.uri().query().is_none()
}

/// HTTP/1.1 clients name the host in a header, and some in the target.
pub(super) fn host_of<B>(request: &Request<B>) -> &str {
    if let Some(authority) = request.uri().authority() {
        return authority.as_str();
    }
    // A host that is no text is none that a list could hold.
    request.headers().get(header::HOST).map_or("", |value| value.to_str().unwrap_or("?"))
}

/// Whether the client reads gzip.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT_ENCODING).is_some_and(|value| memchr::memmem::find(value.as_bytes(), b"gzip").is_some())
}

/// Whether the body is said to be JSON, by one of the names that the reference takes.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    let kind = value.split(';').next().unwrap_or_default().trim();
    ["application/json", "application/json-rpc", "application/jsonrequest"]
        .iter()
        .any(|known| kind.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_the_targets_or_the_headers_and_never_text_that_is_none() {
        for (target, header, host) in [
            ("/", Some(&b"node.example:8545"[..]), "node.example:8545"),
            ("http://other.example/", Some(b"node.example"), "other.example"),
            ("/", Some(b"\xff"), "?"),
            ("/", None, ""),
        ] {
            let mut request = Request::builder().uri(target);
            if let Some(header) = header {
                request = request.header(header::HOST, header);
            }
            assert_eq!(host_of(&request.body(()).unwrap()), host, "{target} {header:?}");
        }
    }

    #[test]
    fn only_the_bare_root_is_json_rpc() {
        for (target, is_rpc) in [("/", true), ("/?", false), ("/?a", false), ("/x", false)] {
            assert_eq!(is_root(&Request::builder().uri(target).body(()).unwrap()), is_rpc, "{target}");
        }
    }
}
