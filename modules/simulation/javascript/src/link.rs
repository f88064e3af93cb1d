//! One end of the socket between the node and a script's process. Each message is preceded by its length.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use serde::{Serialize, de::DeserializeOwned};
use tenon_api::codec::{decode, encode};

/// Maximum size of a message in bytes. The largest honest one contains a frame's memory or its call data.
pub(crate) const MAX_MESSAGE: usize = 24 << 20;
/// Increment of the receive buffer, bytes. Memory is not allocated by the length that a message announces.
const ROOM: usize = 64 << 10;

/// Capacity of the receive buffer that is kept between messages, bytes.
const KEPT: usize = 1 << 20;

pub(crate) struct Link {
    socket: UnixStream,
    /// Received bytes of the next message.
    arrived: Vec<u8>,
    /// Maximum size of a received message in bytes.
    max: usize,
    /// Maximum time of one wait for a message; after that the receiver checks its caller.
    check_interval: Option<Duration>,
}

impl Link {
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self { socket, arrived: Vec::new(), max: MAX_MESSAGE, check_interval: None }
    }

    /// Sets the maximum size of received messages.
    pub(crate) fn limit(&mut self, max: u64) {
        self.max = usize::try_from(max).unwrap_or(usize::MAX);
    }

    /// Makes [`Link::receive`] return `ErrorKind::WouldBlock` after this interval, even while bytes of a message keep
    /// arriving.
    pub(crate) fn set_check_interval(&mut self, interval: Duration) -> io::Result<()> {
        self.check_interval = Some(interval);
        self.socket.set_read_timeout(Some(interval))
    }

    pub(crate) const fn socket(&self) -> &UnixStream {
        &self.socket
    }

    pub(crate) fn send<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        let body = encode(message).map_err(io::Error::other)?;
        let too_long = || io::Error::new(ErrorKind::FileTooLarge, "the message is too long");
        let length = u32::try_from(body.len()).map_err(|_| too_long())?;
        let mut framed = Vec::with_capacity(body.len() + 4);
        framed.extend_from_slice(&length.to_le_bytes());
        framed.extend_from_slice(&body);
        self.socket.write_all(&framed)
    }

    /// Waits for the next message. Returns `ErrorKind::WouldBlock` if the interval passes first; received bytes are
    /// kept.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let begun = Instant::now();
        loop {
            if let Some(body) = self.complete()? {
                let message = decode(self.arrived.get(4..4 + body).unwrap_or_default());
                self.arrived.drain(..4 + body);
                self.arrived.shrink_to(KEPT);
                return message.map_err(|error| io::Error::new(ErrorKind::InvalidData, error));
            }
            if self.check_interval.is_some_and(|check_interval| begun.elapsed() >= check_interval) {
                return Err(ErrorKind::WouldBlock.into());
            }
            let before = self.arrived.len();
            self.arrived.resize(before + ROOM, 0);
            let count = self.socket.read(self.arrived.get_mut(before..).unwrap_or_default());
            self.arrived.truncate(before + *count.as_ref().unwrap_or(&0));
            match count {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                counted => drop(counted?),
            }
        }
    }

    /// Length of the next message, if it has arrived completely.
    fn complete(&self) -> io::Result<Option<usize>> {
        let Some(length) = self.arrived.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > self.max {
            return Err(io::Error::new(ErrorKind::InvalidData, "a message is too long"));
        }
        Ok((self.arrived.len() >= 4 + length).then_some(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_in_order_and_in_any_pieces() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut sender = Link::new(near);
        let mut receiver = Link::new(far);
        sender.send(&"one".to_owned()).unwrap();
        sender.send(&"two".to_owned()).unwrap();

        assert_eq!(receiver.receive::<String>().unwrap(), "one");
        assert_eq!(receiver.receive::<String>().unwrap(), "two");
    }

    #[test]
    fn a_message_longer_than_allowed_is_refused_before_it_is_received() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut receiver = Link::new(far);
        receiver.limit(10);
        near.write_all(&11_u32.to_le_bytes()).unwrap();

        assert_eq!(receiver.receive::<String>().unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn a_slowly_arriving_message_does_not_stop_the_receivers_checks() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut receiver = Link::new(far);
        receiver.set_check_interval(Duration::from_millis(5)).unwrap();
        near.write_all(&[255, 0, 0, 0]).unwrap();
        let stopped = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let dripping = std::thread::spawn({
            let stopped = std::sync::Arc::clone(&stopped);
            move || {
                while !stopped.load(std::sync::atomic::Ordering::Relaxed) && near.write_all(&[0]).is_ok() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        });

        let late = receiver.receive::<String>().unwrap_err().kind();
        stopped.store(true, std::sync::atomic::Ordering::Relaxed);
        dripping.join().unwrap();

        assert_eq!(late, ErrorKind::WouldBlock);
    }

    #[test]
    fn received_input_is_kept_after_a_timeout() {
        let (mut near, far) = UnixStream::pair().unwrap();
        far.set_read_timeout(Some(std::time::Duration::from_millis(5))).unwrap();
        let mut receiver = Link::new(far);
        let mut framed = Vec::new();
        let body = encode(&"late".to_owned()).unwrap();
        framed.extend_from_slice(&(body.len() as u32).to_le_bytes());
        framed.extend_from_slice(&body);
        let (first, second) = framed.split_at(3);
        near.write_all(first).unwrap();

        assert_eq!(receiver.receive::<String>().unwrap_err().kind(), ErrorKind::WouldBlock);
        near.write_all(second).unwrap();
        assert_eq!(receiver.receive::<String>().unwrap(), "late");
    }
}
