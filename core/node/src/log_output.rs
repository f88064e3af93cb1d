//! Writes to standard error without ever blocking or ending the program.
//!
//! A full disk, an unread pipe (`tenon run 2>&1 | less`, a terminal under Ctrl-S) and a pipe without a reader only lose
//! lines, which are counted. The thread that logs a line writes it immediately, so that none is missing after a kill.

use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

use crate::log_file;
use crate::terminal_text::without_control_characters;

/// Time limit for a line if the reader has kept up so far.
const WRITE_TIMEOUT: Duration = Duration::from_millis(200);
/// Bytes that a pipe accepts without blocking once it is ready for writing. On Linux it has a free page then, of which
/// the end of a line from standard output's own buffer may take a part.
const PIECE: usize = 2048;

/// An output for lines.
#[derive(Debug, Default)]
struct Lines {
    /// Lines that were lost or cut since the last one that was written.
    lost: u64,
}

/// This process's log lines. Held while a line is written, for at most [`WRITE_TIMEOUT`].
static LINES: Mutex<Lines> = Mutex::new(Lines { lost: 0 });

impl Lines {
    /// Writes a line, or counts it as lost.
    fn write<F: AsFd + io::Write>(&mut self, file: &mut F, line: &[u8]) {
        let timeout = if self.lost == 0 { WRITE_TIMEOUT } else { Duration::ZERO };
        if self.lost > 0 {
            let note = format!("{} lines of the log were lost here because they could not be written\n", self.lost);
            if !has_written(file, note.as_bytes(), timeout) {
                self.lost += 1;
                return;
            }
            self.lost = 0;
        }
        self.lost += u64::from(!has_written(file, line, timeout));
    }
}

fn has_written<F: AsFd + io::Write>(file: &mut F, line: &[u8], timeout: Duration) -> bool {
    line.chunks(PIECE).all(|piece| is_writable(file, timeout) && file.write_all(piece).is_ok())
}

/// Whether a write can soon proceed without blocking.
fn is_writable(file: &impl AsFd, timeout: Duration) -> bool {
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
    let mut wanted = [PollFd::new(file, PollFlags::OUT)];
    // If polling fails, the write is attempted, and reports the error of a pipe without a reader. A poll that a signal
    // interrupts is repeated.
    retry_on_intr(|| poll(&mut wanted, Some(&timeout))).map_or(true, |ready| ready > 0)
}

/// Writes to standard error.
fn write(line: &[u8]) {
    LINES.lock().write(&mut io::stderr(), line);
}

/// Writes a line without control characters to standard error, and to the log file if there is one.
pub(crate) fn eprint_line(line: &str) {
    let _ = LogOutput.write_all(format!("{}\n", without_control_characters(line)).as_bytes());
}

/// Writes a text to standard output, for a program that continues even if it is not read. Returns whether it was
/// written.
pub(crate) fn show(text: &str) -> bool {
    let mut output = io::stdout();
    has_written(&mut output, text.as_bytes(), WRITE_TIMEOUT) && output.flush().is_ok()
}

/// Overwrites the current line of a terminal, without a line break.
pub(crate) fn overwrite_line(text: &str) {
    write(format!("\r\x1b[K{text}").as_bytes());
}

/// Log lines on standard error and in the log file, one with each write. Never fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogOutput;

impl io::Write for LogOutput {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        write(line);
        log_file::write(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::Read as _;

    use super::*;

    #[test]
    fn lines_of_a_full_disk_are_counted() {
        let mut full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut lines = Lines::default();

        (0..3).for_each(|_| lines.write(&mut full, b"a line\n"));

        assert_eq!(lines.lost, 3);
    }

    #[test]
    fn an_unread_pipe_loses_lines_and_their_number_is_written_once_it_is_read_again() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (mut lines, mut writer) = (Lines::default(), File::from(std::os::fd::OwnedFd::from(writer)));
        let long = [&[b'x'; 10_000][..], b"\n"].concat();
        while lines.lost == 0 {
            lines.write(&mut writer, &long);
        }
        lines.write(&mut writer, &long);
        let lost = lines.lost;
        let mut piece = vec![0; 1 << 20];
        let mut read = reader.read(&mut piece).unwrap();

        lines.write(&mut writer, b"read again\n");
        drop(writer);
        read += reader.read(&mut piece[read..]).unwrap();

        let text = String::from_utf8_lossy(&piece[..read]).into_owned();
        assert!(lost >= 2 && text.contains(&format!("{lost} lines of the log were lost here")), "{lost}");
        assert!(text.ends_with("read again\n") && lines.lost == 0);
    }

    #[test]
    fn a_pipe_without_a_reader_loses_lines() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut lines = Lines::default();

        lines.write(&mut File::from(std::os::fd::OwnedFd::from(writer)), b"a line\n");

        assert_eq!(lines.lost, 1);
    }
}
