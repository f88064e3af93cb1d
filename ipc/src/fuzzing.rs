//! The private parsers, as the fuzz targets see them (`fuzz/`): what comes of a stream of bytes that arrives in pieces.
//! Not for others.

use bytes::BytesMut;

use crate::{
    envelope::{Progress, Scanner},
    websocket::frame::{Decoded, Decoder},
};

/// What the WebSocket decoder made of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketEvent {
    /// The event, in words.
    pub what: String,
    /// Bytes of the message or control frame.
    pub length: usize,
}

/// Feeds a WebSocket decoder that takes messages of up to `most` bytes, `piece` bytes at a time.
pub fn websocket(bytes: &[u8], piece: usize, most: usize) -> Vec<WebSocketEvent> {
    let mut decoder = Decoder::new(most);
    let mut buffer = BytesMut::new();
    let mut events = Vec::new();
    for piece in bytes.chunks(piece.max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            let decoded = decoder.next(&mut buffer);
            let (length, is_last) = match &decoded {
                Decoded::More => break,
                Decoded::Message(bytes) | Decoded::Pong(bytes) => (bytes.len(), false),
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

/// Scans a JSON-RPC message that arrives `piece` bytes at a time; what was found, in words.
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
