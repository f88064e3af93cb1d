//! Exposes private parsers to the fuzz targets (`fuzz/`) only: the decoding of a byte stream that arrives in pieces,
//! and of headers.

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};

use crate::{
    envelope::{Progress, Scanner},
    http::{cors::Cors, hosts::VirtualHosts},
    token::{Authorization, TokenCheck, secret_in},
    websocket::{
        frame::{Decoded, Decoder},
        handshake,
        origin::OriginRules,
    },
};

/// An event of the WebSocket decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketEvent {
    /// The event as text.
    pub what: String,
    /// Bytes of the message or control frame.
    pub length: usize,
}

/// Feeds bytes to a WebSocket decoder, `piece` bytes at a time. `max` is its maximum message length.
pub fn websocket(bytes: &[u8], piece: usize, max: usize) -> Vec<WebSocketEvent> {
    let mut decoder = Decoder::new(max);
    let mut buffer = BytesMut::new();
    let mut events = Vec::new();
    for piece in bytes.chunks(piece.max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            let decoded = decoder.next(&mut buffer);
            let (length, is_last) = match &decoded {
                Decoded::More => break,
                Decoded::Message(bytes) => (bytes.len(), false),
                Decoded::Pong(bytes) => (bytes.len(), false),
                Decoded::Closed(bytes) => (bytes.len(), true),
                Decoded::Violation(_) => (0, true),
            };
            events.push(WebSocketEvent { what: format!("{decoded:?}"), length });
            if is_last {
                return events;
            }
        }
    }
    events
}

/// Scans a JSON-RPC message that arrives `piece` bytes at a time; returns the result as text.
pub fn scan(bytes: &[u8], piece: usize) -> String {
    let mut scanner = Scanner::new(50);
    let mut arrived = 0;
    while arrived < bytes.len() {
        arrived = arrived.saturating_add(piece.max(1)).min(bytes.len());
        match scanner.advance(bytes.get(..arrived).unwrap_or_default()) {
            Progress::More => {}
            done => return format!("{done:?}"),
        }
    }
    format!("{:?}", scanner.finish())
}

/// Checks the value of an `Authorization` header at an instant in seconds since 1970.
///
/// # Errors
/// The reason, as in the answer.
pub fn authorization(value: &[u8], secret: &[u8; 32], now: u64) -> Result<(), &'static str> {
    let value = HeaderValue::from_bytes(value).map_err(|_| "no header")?;
    match TokenCheck::new(secret).check_at(&value, now) {
        Authorization::Valid { .. } => Ok(()),
        Authorization::Absent => Err("absent"),
        Authorization::Refused(reason) => Err(reason),
    }
}

/// The token secret in a file with this text.
pub fn token_secret(text: &str) -> Option<[u8; 32]> {
    secret_in(text).map(|secret| *secret)
}

/// A front-end's decisions about a request's headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderDecisions {
    /// The `Host` header.
    pub host: String,
    /// Whether that host is served.
    pub is_host_served: bool,
    /// The `Access-Control-Allow-Origin` of the answer.
    pub readers: Option<String>,
    /// The headers of the answer to a preflight.
    pub preflight: Vec<(String, String)>,
    /// `Sec-WebSocket-Accept` of the answer, or the refusal's status; `None` if no WebSocket was requested.
    pub upgrade: Option<Result<String, u16>>,
}

/// Applies lists of hosts, of origins that may read, and of origins that may open a WebSocket to headers.
pub fn check_headers(
    lines: &[(&[u8], &[u8])],
    hosts: &[String],
    readers: &[String],
    origins: &[String],
) -> HeaderDecisions {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let mut answer = HeaderMap::new();
    let mut preflight = HeaderMap::new();
    if let Some(cors) = Cors::new(readers) {
        cors.add_headers(&Method::POST, &headers, &mut answer);
        preflight = cors.preflight(&headers);
    }
    let mut request = Request::new(());
    *request.headers_mut() = headers;
    let upgrade = handshake::is_upgrade(request.headers()).then(|| {
        let accepted = handshake::accept(&request, &OriginRules::new(origins));
        accepted.map(|value| text(&value)).map_err(|status| status.as_u16())
    });
    HeaderDecisions {
        is_host_served: VirtualHosts::new(hosts).allow(&host),
        host,
        readers: answer.get(header::ACCESS_CONTROL_ALLOW_ORIGIN).map(text),
        preflight: preflight.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        upgrade,
    }
}
