//! Writes a result while its caller is waiting.

use std::io;

use serde::Serialize;
use tenon_api::Failure;

/// Bytes between two checks of the caller.
const LOOK_EVERY: usize = 64 << 10;

/// Room for the result of a short trace, bytes.
const USUAL_LENGTH: usize = 1024;

/// The JSON text of a value.
///
/// # Errors
/// Those of `may_go_on`, which ends the writing. It is called at intervals, with length and capacity of the text.
pub(super) fn write_json(
    value: &impl Serialize,
    may_go_on: impl Fn(usize, usize) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let text = Vec::with_capacity(USUAL_LENGTH);
    let mut writer = Writer { text, next_look: LOOK_EVERY, may_go_on, refused: None };
    let written = serde_json::to_writer(&mut writer, value);
    if let Some(failure) = writer.refused {
        return Err(failure);
    }
    written.map_err(|error| Failure::server(error.to_string()))?;
    (writer.may_go_on)(writer.text.len(), writer.text.capacity())?;
    String::from_utf8(writer.text).map_err(|error| Failure::server(error.to_string()))
}

struct Writer<L> {
    text: Vec<u8>,
    next_look: usize,
    may_go_on: L,
    refused: Option<Failure>,
}

impl<L: Fn(usize, usize) -> Result<(), Failure>> io::Write for Writer<L> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    // What serde_json calls, for every few bytes.
    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.text.extend_from_slice(bytes);
        if self.text.len() >= self.next_look {
            self.next_look = self.text.len() + LOOK_EVERY;
            if let Err(failure) = (self.may_go_on)(self.text.len(), self.text.capacity()) {
                self.refused = Some(failure);
                return Err(io::Error::other("the caller has disconnected"));
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_complete_or_refused_when_stopped() {
        let numbers: Vec<u32> = (0..50_000).collect();
        let text = write_json(&numbers, |length, capacity| {
            assert!(length <= capacity);
            Ok(())
        });
        assert_eq!(text.unwrap(), serde_json::to_string(&numbers).unwrap());

        let narrow = |length: usize, _: usize| match length {
            0..=100_000 => Ok(()),
            _ => Err(Failure::limit(format!("refused at {length}"))),
        };
        let refused = write_json(&numbers, narrow).unwrap_err().message;
        let length: usize = refused.trim_start_matches("refused at ").parse().unwrap();
        assert!((100_001..100_000 + LOOK_EVERY + 10).contains(&length), "{refused}");
    }
}
