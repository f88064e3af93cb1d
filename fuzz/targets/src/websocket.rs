//! WebSocket frames.

/// The decoder's maximum message length.
const MAX_MESSAGE: usize = 4096;

/// A stream of frames, in one piece and in small ones.
pub(crate) fn frames(input: &[u8]) {
    let whole = tenon_ipc::fuzzing::websocket(input, usize::MAX, MAX_MESSAGE);
    let piece = usize::from(input.last().copied().unwrap_or(1) % 13) + 1;
    assert_eq!(tenon_ipc::fuzzing::websocket(input, piece, MAX_MESSAGE), whole, "the same in pieces of {piece}");
    for event in &whole {
        assert!(event.length <= MAX_MESSAGE, "a message of {} bytes", event.length);
    }
}
