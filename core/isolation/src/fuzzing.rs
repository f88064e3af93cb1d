//! Exposes the wire format to the fuzz targets (`fuzz/`) only: decodes a byte stream that arrives in pieces.

use crate::{
    manifest_frame::{put_manifest, read_manifest},
    wire::{Fields, Frame, FrameBuffer, Kind, put_frame},
};

/// A decoded frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFrame {
    kind: Kind,
    id: u64,
    /// The bytes after kind and id.
    pub body: Vec<u8>,
}

/// What a stream contained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadStream {
    /// Whole frames, in order.
    pub frames: Vec<ReadFrame>,
    /// The error that ended the stream early.
    pub violation: Option<String>,
}

/// Decodes frames from bytes that arrive up to `piece` at a time.
pub fn read_frames(bytes: &[u8], piece: usize) -> ReadStream {
    let mut buffer = FrameBuffer::new();
    let mut stream = ReadStream::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        let room = buffer.room();
        let (now, later) = rest.split_at(piece.max(1).min(room.len()).min(rest.len()));
        if let Some(room) = room.get_mut(..now.len()) {
            room.copy_from_slice(now);
        }
        buffer.arrived(now.len());
        rest = later;
        loop {
            match buffer.next() {
                Ok(Some(Frame { kind, id, body })) => stream.frames.push(ReadFrame { kind, id, body: body.to_vec() }),
                Ok(None) => break,
                Err(violation) => {
                    stream.violation = Some(violation.to_string());
                    return stream;
                }
            }
        }
    }
    stream
}

/// The bytes of a frame.
pub fn write_frame(frame: &ReadFrame) -> Vec<u8> {
    let mut out = Vec::new();
    put_frame(&mut out, frame.kind, frame.id, |out| out.extend_from_slice(&frame.body));
    out
}

/// Decodes a body with every body decoder.
pub fn read_body(frame: &ReadFrame) {
    let fields = || -> Fields<'_> { Frame { kind: frame.kind, id: frame.id, body: &frame.body }.fields() };
    drop(fields().item());
    drop(read_manifest(&mut fields()));
    let mut one = fields();
    while one.text().is_ok() && one.u8().is_ok() && one.u64().is_ok() {}
    let _ = fields().rest_text();
}

/// Decodes a manifest from a frame's body and encodes it again.
///
/// # Errors
/// What is wrong, in words.
pub fn manifest(body: &[u8]) -> Result<Vec<u8>, String> {
    let frame = Frame { kind: Kind::Manifest, id: 0, body };
    let manifest = read_manifest(&mut frame.fields()).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    put_manifest(&mut out, &manifest);
    Ok(out)
}
