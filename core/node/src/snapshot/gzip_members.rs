//! A gzip file with any number of members that ends at its first other byte, so that such bytes can be reported. The
//! library's decoder reports them as a damaged member.

use std::io::{self, BufRead, Read, Seek, SeekFrom};

use flate2::bufread::GzDecoder;

/// The first byte of a member.
const MAGIC: u8 = 0x1f;

/// Reads the content of a gzip file.
pub(super) struct GzipMembers<R> {
    state: State<R>,
}

enum State<R> {
    /// Inside a member.
    Member(GzDecoder<R>),
    /// After the last member.
    End(R),
    /// After an error.
    Failed,
}

impl<R: BufRead> GzipMembers<R> {
    pub(super) fn new(source: R) -> Self {
        Self { state: State::Member(GzDecoder::new(source)) }
    }
}

impl<R: BufRead + Seek> GzipMembers<R> {
    /// The number of bytes after the last member, for a file that was read to its end.
    pub(super) fn bytes_after_end(self) -> io::Result<u64> {
        let State::End(mut source) = self.state else { return Ok(0) };
        let end_of_members = source.stream_position()?;
        Ok(source.seek(SeekFrom::End(0))?.saturating_sub(end_of_members))
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut member = match std::mem::replace(&mut self.state, State::Failed) {
                State::Member(member) => member,
                ended => {
                    self.state = ended;
                    return Ok(0);
                }
            };
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                self.state = State::Member(member);
                return Ok(count);
            }
            let mut source = member.into_inner();
            let has_another = source.fill_buf()?.first() == Some(&MAGIC);
            self.state = if has_another { State::Member(GzDecoder::new(source)) } else { State::End(source) };
        }
    }
}
