//! The upgrade of an HTTP request to a WebSocket (RFC 6455, 4.2).
//!
//! Implemented here, like the frames (see `frame.rs`): the refusals and their order are the reference's, so a library
//! could contribute only the digest of the key.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use sha1::{Digest as _, Sha1};

use super::origin::OriginRules;

/// Whether a request asks for a WebSocket, by the reference's rules.
pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    let has = |name, wanted: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .any(|value| value.split(',').any(|token| token.trim().eq_ignore_ascii_case(wanted)))
    };
    headers.contains_key(header::UPGRADE) && has(header::UPGRADE, "websocket") && has(header::CONNECTION, "upgrade")
}

/// The value of `Sec-WebSocket-Accept`, or the refusal's status.
pub(crate) fn accept<B>(request: &Request<B>, origins: &OriginRules) -> Result<HeaderValue, StatusCode> {
    let header = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if request.method() != Method::GET {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    if header(header::SEC_WEBSOCKET_VERSION).map(str::trim) != Some("13") {
        return Err(StatusCode::BAD_REQUEST);
    }
    // An origin that is not text matches no rule.
    let origin = request.headers().get(header::ORIGIN).map(|value| value.to_str().unwrap_or("?"));
    if !origins.allow(origin) {
        return Err(StatusCode::FORBIDDEN);
    }
    let key = header(header::SEC_WEBSOCKET_KEY).map(str::trim).unwrap_or_default();
    if STANDARD.decode(key).map_or(0, |bytes| bytes.len()) != 16 {
        return Err(StatusCode::BAD_REQUEST);
    }
    let mut hash = Sha1::new();
    hash.update(key.as_bytes());
    hash.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    HeaderValue::from_str(&STANDARD.encode(hash.finalize())).map_err(|_| StatusCode::BAD_REQUEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        let mut builder = Request::builder().method("GET").uri("/");
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap()
    }

    #[test]
    fn accepts_the_example_of_the_standard() {
        let request = request(&[
            ("upgrade", "WebSocket"),
            ("connection", "keep-alive, Upgrade"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ]);

        assert!(is_upgrade(request.headers()));
        assert_eq!(accept(&request, &OriginRules::new(&[])).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn refuses_other_versions_keys_and_origins() {
        let version = ("sec-websocket-version", "13");
        let key = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        for (headers, status) in [
            (vec![key], 400),
            (vec![version], 400),
            (vec![version, ("sec-websocket-key", "short")], 400),
            (vec![version, key, ("origin", "http://evil.example")], 403),
        ] {
            assert_eq!(accept(&request(&headers), &OriginRules::new(&[])).unwrap_err(), status, "{headers:?}");
        }
    }
}
