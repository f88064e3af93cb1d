//! Checks of a request's head.

use http::{HeaderMap, Request, header};

/// Only the target `/` itself is JSON-RPC; `/?` is not.
pub(super) fn is_root<B>(request: &Request<B>) -> bool {
    request.uri().path() == "/" && request.uri().query().is_none()
}

/// Whether the request has exactly one host. With none or several, this node and a proxy before it could interpret it
/// differently.
pub(super) fn has_one_host(headers: &HeaderMap) -> bool {
    let is_alone = || headers.len() == headers.keys_len() || headers.get_all(header::HOST).iter().nth(1).is_none();
    headers.get(header::HOST).is_some_and(|host| !host.is_empty()) && is_alone()
}

/// The hosts that a request names: in its header, and from some clients in the target too.
pub(crate) fn hosts_of<B>(request: &Request<B>) -> impl Iterator<Item = &str> {
    // A host that is not text matches no list.
    let header = request.headers().get(header::HOST).map(|value| value.to_str().unwrap_or("?"));
    header.into_iter().chain(request.uri().authority().map(|authority| authority.as_str()))
}

/// Whether the client accepts gzip.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT_ENCODING).is_some_and(|value| memchr::memmem::find(value.as_bytes(), b"gzip").is_some())
}

/// Whether the body's content type is JSON, by one of the names that the reference accepts.
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
    fn hosts_come_from_header_and_target_with_a_placeholder_for_invalid_text() {
        for (target, headers, is_one, hosts) in [
            ("/", &[&b"node.example:8545"[..]][..], true, &["node.example:8545"][..]),
            ("http://other.example/", &[b"node.example"], true, &["node.example", "other.example"]),
            ("/", &[b"\xff"], true, &["?"]),
            ("/", &[], false, &[]),
            ("/", &[b""], false, &[""]),
            ("http://other.example/", &[], false, &["other.example"]),
            ("/", &[b"localhost", b"localhost"], false, &["localhost"]),
        ] {
            let mut request = Request::builder().uri(target);
            for header in headers {
                request = request.header(header::HOST, *header);
            }
            let request = request.body(()).unwrap();
            assert_eq!(has_one_host(request.headers()), is_one, "{target} {headers:?}");
            let mut repeated = request.headers().clone();
            repeated.append(header::ACCEPT, http::HeaderValue::from_static("a"));
            repeated.append(header::ACCEPT, http::HeaderValue::from_static("b"));
            assert_eq!(has_one_host(&repeated), is_one, "another header twice: {target} {headers:?}");
            assert_eq!(hosts_of(&request).collect::<Vec<_>>(), hosts, "{target} {headers:?}");
        }
    }

    #[test]
    fn only_the_bare_root_is_json_rpc() {
        for (target, is_rpc) in [("/", true), ("/?", false), ("/?a", false), ("/x", false)] {
            assert_eq!(is_root(&Request::builder().uri(target).body(()).unwrap()), is_rpc, "{target}");
        }
    }
}
