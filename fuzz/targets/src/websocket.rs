//! WebSocket frames.

/// The largest message that the decoder is told to take.
const MOST: usize = 4096;

/// A stream of frames, as one piece and in small ones.
pub(crate) fn frames(input: &[u8]) {
    let whole = tenon_ipc::fuzzing::websocket(input, usize::MAX, MOST);
    let piece = usize::from(input.last().copied().unwrap_or(1) % 13) + 1;
    assert_eq!(tenon_ipc::fuzzing::websocket(input, piece, MOST), whole, "the same in pieces of {piece}");
    for event in &whole {
        assert!(event.length <= MOST, "a message of {} bytes", event.length);
    }
}
