//! Checks of a request's head.

use http::{HeaderMap, HeaderValue, Request, Uri, header, uri::Authority};

/// Only the target `/` itself is JSON-RPC; `/?` is not.
pub(super) fn is_root<B>(request: &Request<B>) -> bool {
    request.uri().path() == "/" && request.uri().query().is_none()
}

/// The headers that decide how a request is answered. They are found in one pass, because a lookup by name computes the
/// hash of the name.
#[derive(Debug, Default)]
pub(super) struct Head<'a> {
    host: Option<&'a HeaderValue>,
    origin: Option<&'a HeaderValue>,
    content_type: Option<&'a HeaderValue>,
    /// Whether the client accepts gzip.
    pub(super) takes_gzip: bool,
    /// Whether the client asks for another protocol.
    pub(super) has_upgrade: bool,
}

/// Why a head is refused: this node and a proxy before it could interpret it differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeadError {
    #[error("a request needs exactly one Host header")]
    Hosts,
    #[error("a request may have only one Origin header")]
    Origins,
}

impl<'a> Head<'a> {
    /// Finds the headers. Of a repeated one, the first counts, as in the reference.
    pub(super) fn of(headers: &'a HeaderMap) -> Result<Self, HeadError> {
        let mut head = Self::default();
        let mut accepts = None;
        for (name, value) in headers {
            if name == header::HOST {
                if head.host.replace(value).is_some() {
                    return Err(HeadError::Hosts);
                }
            } else if name == header::CONTENT_TYPE {
                head.content_type.get_or_insert(value);
            } else if name == header::ACCEPT_ENCODING {
                accepts.get_or_insert(value);
            } else if name == header::UPGRADE {
                head.has_upgrade = true;
            } else if name == header::ORIGIN && head.origin.replace(value).is_some() {
                return Err(HeadError::Origins);
            }
        }
        head.takes_gzip = accepts.is_some_and(|value| takes_gzip(value.as_bytes()));
        if head.host.is_none_or(HeaderValue::is_empty) { Err(HeadError::Hosts) } else { Ok(head) }
    }

    /// The hosts that the request names: in its header, and from some clients in the target too.
    pub(super) fn hosts(&self, target: &'a Uri) -> impl Iterator<Item = &'a str> {
        // A host that is not text matches no list.
        let header = self.host.map(|value| value.to_str().unwrap_or("?"));
        header.into_iter().chain(target.authority().map(Authority::as_str))
    }

    /// Whether the body's content type is JSON, by one of the names that the reference accepts.
    pub(super) fn is_json(&self) -> bool {
        let Some(value) = self.content_type.and_then(|value| value.to_str().ok()) else { return false };
        let kind = value.split(';').next().unwrap_or_default().trim();
        ["application/json", "application/json-rpc", "application/jsonrequest"]
            .iter()
            .any(|known| kind.eq_ignore_ascii_case(known))
    }
}

/// Whether a list of content codings contains gzip, with a weight other than 0 (RFC 9110 12.5.3).
fn takes_gzip(codings: &[u8]) -> bool {
    let is_gzip = |coding: &[u8]| {
        let mut parts = coding.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let is_zero = |part: &[u8]| match part {
            [b'q' | b'Q', b'=', weight @ ..] => weight.iter().all(|byte| matches!(byte, b'0' | b'.')),
            _ => false,
        };
        (name == b"gzip" || name == b"x-gzip") && !parts.any(is_zero)
    };
    // Most lists without gzip are decided by the search.
    memchr::memmem::find(codings, b"gzip").is_some() && codings.split(|byte| *byte == b',').any(is_gzip)
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn request(target: &str, headers: &[(HeaderName, &[u8])]) -> Request<()> {
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn hosts_come_from_header_and_target_with_a_placeholder_for_invalid_text() {
        for (target, host, hosts) in [
            ("/", &b"node.example:8545"[..], &["node.example:8545"][..]),
            ("http://other.example/", b"node.example", &["node.example", "other.example"]),
            ("/", b"\xff", &["?"]),
        ] {
            let request = request(target, &[(header::HOST, host)]);
            let head = Head::of(request.headers()).unwrap();
            assert_eq!(head.hosts(request.uri()).collect::<Vec<_>>(), hosts, "{target} {host:?}");
        }
    }

    #[test]
    fn one_host_and_at_most_one_origin_are_accepted() {
        let host = (header::HOST, &b"localhost"[..]);
        let origin = (header::ORIGIN, &b"http://a.example"[..]);
        let accept = (header::ACCEPT, &b"*/*"[..]);
        for (headers, error) in [
            (&[host.clone()][..], None),
            (&[accept.clone(), host.clone(), accept.clone(), origin.clone()], None),
            (&[], Some(HeadError::Hosts)),
            (&[(header::HOST, b"")], Some(HeadError::Hosts)),
            (&[host.clone(), host.clone()], Some(HeadError::Hosts)),
            (&[host.clone(), accept.clone(), accept, host.clone()], Some(HeadError::Hosts)),
            (&[host.clone(), origin.clone(), origin.clone()], Some(HeadError::Origins)),
            (&[origin.clone(), host, (header::ORIGIN, b"")], Some(HeadError::Origins)),
            (&[origin], Some(HeadError::Hosts)),
        ] {
            assert_eq!(Head::of(request("/", headers).headers()).err(), error, "{headers:?}");
        }
    }

    #[test]
    fn content_type_and_encoding_are_the_first_of_their_name() {
        for (headers, is_json, takes_gzip, has_upgrade) in [
            (&[][..], false, false, false),
            (&[(header::CONTENT_TYPE, &b"Application/JSON; charset=utf-8"[..])], true, false, false),
            (
                &[(header::CONTENT_TYPE, b"text/plain"), (header::CONTENT_TYPE, b"application/json")],
                false,
                false,
                false,
            ),
            (&[(header::CONTENT_TYPE, b"application/json"), (header::CONTENT_TYPE, b"text/plain")], true, false, false),
            (&[(header::ACCEPT_ENCODING, b"br, gzip")], false, true, false),
            (&[(header::ACCEPT_ENCODING, b"br"), (header::ACCEPT_ENCODING, b"gzip")], false, false, false),
            (&[(header::UPGRADE, b"websocket")], false, false, true),
        ] {
            let headers = [&[(header::HOST, &b"localhost"[..])], headers].concat();
            let request = request("/", &headers);
            let head = Head::of(request.headers()).unwrap();
            let found = (head.is_json(), head.takes_gzip, head.has_upgrade);
            assert_eq!(found, (is_json, takes_gzip, has_upgrade), "{headers:?}");
        }
    }

    #[test]
    fn gzip_is_taken_if_it_is_listed_with_a_weight() {
        for (codings, is_taken) in [
            ("gzip", true),
            ("br;q=1.0, gzip;q=0.8, *;q=0.1", true),
            ("*;q=0,\tgzip", true),
            ("x-gzip", true),
            ("gzip ; q=0.001", true),
            ("gzip;q=0", false),
            ("gzip;Q=0.000", false),
            ("gzip ; q=0. , br", false),
            ("br, gzip;q=0, *", false),
            ("gzip2", false),
            ("*", false),
            ("*;q=0", false),
            ("identity", false),
            ("", false),
        ] {
            assert_eq!(takes_gzip(codings.as_bytes()), is_taken, "{codings}");
        }
    }

    #[test]
    fn only_the_bare_root_is_json_rpc() {
        for (target, is_rpc) in [("/", true), ("/?", false), ("/?a", false), ("/x", false)] {
            assert_eq!(is_root(&Request::builder().uri(target).body(()).unwrap()), is_rpc, "{target}");
        }
    }
}
