//! A file of recorded blocks, or standard input, compressed or not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;

use crate::exit::Stop;

/// Large enough that reading is never the bottleneck.
const BUFFER: usize = 1 << 20;

/// The first bytes of a gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// An opened source of recorded blocks.
pub(crate) struct ChainFile {
    name: String,
    /// `None` for standard input.
    file: Option<File>,
    length: Option<u64>,
}

impl ChainFile {
    /// Opens a file; `-` is standard input.
    pub(crate) fn open(name: &str) -> Result<Self, Stop> {
        if name == "-" {
            return Ok(Self { name: "standard input".to_owned(), file: None, length: None });
        }
        let file = File::open(name).map_err(|error| Stop::Usage(format!("{name}: {error}")))?;
        let details = file.metadata().map_err(|error| Stop::Usage(format!("{name}: {error}")))?;
        if details.is_dir() {
            return Err(Stop::Usage(format!("{name} is a folder; give the files in it")));
        }
        let length = details.is_file().then_some(details.len());
        Ok(Self { name: name.to_owned(), file: Some(file), length })
    }

    /// Bytes on disk; `None` if unknown.
    pub(crate) const fn length(&self) -> Option<u64> {
        self.length
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The blocks' bytes, decompressed if necessary. The number of bytes read from the source is added to `read`; once
    /// `is_interrupted` is set, waiting for standard input or a pipe ends with an error.
    pub(crate) fn reader(
        self,
        read: Arc<AtomicU64>,
        is_interrupted: Arc<AtomicBool>,
    ) -> Result<Box<dyn Read + Send>, Stop> {
        let source: Box<dyn Read + Send> = match self.file {
            Some(file) if self.length.is_some() => Box::new(file),
            Some(pipe) => Box::new(Pipe::start(pipe, is_interrupted)),
            None => Box::new(Pipe::start(io::stdin(), is_interrupted)),
        };
        let mut source = BufReader::with_capacity(BUFFER, Counted { source, read });
        let start = source.fill_buf().map_err(|error| Stop::failure(format!("{}: {error}", self.name)))?;
        if start.starts_with(&GZIP_MAGIC) {
            return Ok(Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(source))));
        }
        Ok(Box::new(source))
    }
}

/// Maximum number of pieces of a pipe that are read ahead.
const PIECES_AHEAD: usize = 4;

/// Standard input, or a file that may never return data: a named pipe, a device. A read of a pipe cannot be cancelled,
/// so a separate thread reads it, and the reader does not hang when the operator stops the import.
struct Pipe {
    pieces: Receiver<io::Result<Vec<u8>>>,
    current: io::Cursor<Vec<u8>>,
    is_interrupted: Arc<AtomicBool>,
}

impl Pipe {
    fn start(mut input: impl Read + Send + 'static, is_interrupted: Arc<AtomicBool>) -> Self {
        let (sender, pieces) = sync_channel(PIECES_AHEAD);
        // Never joined: it ends with the input, or with the process.
        std::thread::spawn(move || {
            loop {
                let mut piece = vec![0; BUFFER];
                let outcome = input.read(&mut piece).map(|count| {
                    piece.truncate(count);
                    piece
                });
                let is_last =
                    outcome.as_ref().map_or_else(|error| error.kind() != io::ErrorKind::Interrupted, Vec::is_empty);
                if sender.send(outcome).is_err() || is_last {
                    return;
                }
            }
        });
        Self { pieces, current: io::Cursor::default(), is_interrupted }
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.current.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            if self.is_interrupted.load(Ordering::Relaxed) {
                return Err(io::Error::other("interrupted"));
            }
            match self.pieces.recv_timeout(Duration::from_millis(100)) {
                Ok(piece) => {
                    let piece = piece?;
                    if piece.is_empty() {
                        return Ok(0);
                    }
                    self.current = io::Cursor::new(piece);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
    }
}

/// Counts the bytes read through it.
struct Counted<R> {
    source: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn reads_plain_and_compressed_files_alike() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        std::fs::write(&plain, b"blocks").unwrap();
        let compressed = folder.path().join("compressed");
        let mut encoder =
            flate2::write::GzEncoder::new(File::create(&compressed).unwrap(), flate2::Compression::fast());
        encoder.write_all(b"blocks").unwrap();
        encoder.finish().unwrap();

        for path in [plain, compressed] {
            let file = ChainFile::open(path.to_str().unwrap()).unwrap();
            let length = file.length();
            let read = Arc::new(AtomicU64::new(0));
            let mut content = Vec::new();
            file.reader(Arc::clone(&read), Arc::default()).unwrap().read_to_end(&mut content).unwrap();

            assert_eq!(content, b"blocks");
            assert_eq!(Some(read.load(Ordering::Relaxed)), length);
        }
    }

    #[test]
    fn names_the_missing_file() {
        let error = ChainFile::open("/nowhere/chain.rlp").err().unwrap().to_string();
        assert!(error.starts_with("/nowhere/chain.rlp: "), "{error}");
    }
}
