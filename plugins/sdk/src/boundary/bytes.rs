//! Slices, owned buffers and replies.

use std::{ptr, sync::Arc};

use crate::{Failure, FailureCode};
use tenon_api::{
    EventPosition,
    abi::{TenonBuffer, TenonReply, TenonSlice},
};

/// A view of `bytes` for the other side, valid while `bytes` lives.
pub fn slice(bytes: &[u8]) -> TenonSlice {
    TenonSlice { data: bytes.as_ptr(), len: bytes.len() }
}

/// The bytes of a slice lent by the other side; empty if its pointer is null.
///
/// # Safety
/// `slice` points to `len` initialised bytes that do not change during `'a`.
pub unsafe fn borrow<'a>(slice: TenonSlice) -> &'a [u8] {
    if slice.data.is_null() || slice.len == 0 || isize::try_from(slice.len).is_err() {
        return &[];
    }
    // SAFETY: not null, and the caller vouches for length and lifetime.
    unsafe { std::slice::from_raw_parts(slice.data, slice.len) }
}

/// Gives a vector away. The other side frees it through the buffer's own `free` function.
pub fn buffer(bytes: Vec<u8>) -> TenonBuffer {
    if bytes.capacity() == 0 {
        return TenonBuffer { data: ptr::null_mut(), len: 0, capacity: 0, free: None };
    }
    let mut bytes = std::mem::ManuallyDrop::new(bytes);
    TenonBuffer { data: bytes.as_mut_ptr(), len: bytes.len(), capacity: bytes.capacity(), free: Some(free_vector) }
}

/// Bytes to send to the other side.
#[derive(Clone, Debug, derive_more::From)]
pub enum OutgoingBytes {
    /// Allocated for the receiver.
    Owned(Vec<u8>),
    /// Shared with other receivers; each releases its reference.
    Shared(Arc<[u8]>),
}

/// An item of a stream to send to the other side.
#[derive(Clone, Debug)]
pub struct OutgoingItem {
    /// Its bytes.
    pub body: OutgoingBytes,
    /// The position of the event that it is, or was made of.
    pub position: Option<EventPosition>,
}

/// An item without position.
impl From<OutgoingBytes> for OutgoingItem {
    fn from(body: OutgoingBytes) -> Self {
        Self { body, position: None }
    }
}

/// An item without position.
impl From<Vec<u8>> for OutgoingItem {
    fn from(body: Vec<u8>) -> Self {
        OutgoingBytes::from(body).into()
    }
}

/// Gives away a reference to shared bytes, without a copy. The receiver must not change them: the ABI forbids that for
/// every buffer.
fn shared_buffer(bytes: Arc<[u8]>) -> TenonBuffer {
    let len = bytes.len();
    let data = Arc::into_raw(bytes).cast::<u8>().cast_mut();
    TenonBuffer { data, len, capacity: len, free: Some(free_shared) }
}

unsafe extern "C" fn free_shared(data: *mut u8, len: usize, _capacity: usize) {
    if !data.is_null() {
        // SAFETY: `shared_buffer` made pointer and length, and they are freed once (rule of `TenonBuffer`).
        drop(unsafe { Arc::from_raw(ptr::slice_from_raw_parts(data.cast_const(), len)) });
    }
}

unsafe extern "C" fn free_vector(data: *mut u8, len: usize, capacity: usize) {
    if !data.is_null() {
        // SAFETY: `buffer` made all three, and they are freed once (rule of `TenonBuffer`).
        drop(unsafe { Vec::from_raw_parts(data, len, capacity) });
    }
}

/// Writes an outcome as the reply of a call.
pub fn reply(result: Result<Vec<u8>, Failure>) -> TenonReply {
    reply_with(result.map(OutgoingItem::from))
}

/// Writes an outcome as the reply of a call or as an item of a stream.
pub(super) fn reply_with(result: Result<OutgoingItem, Failure>) -> TenonReply {
    match result {
        Ok(OutgoingItem { body, position }) => TenonReply {
            code: 0,
            body: match body {
                OutgoingBytes::Owned(body) => buffer(body),
                OutgoingBytes::Shared(body) => shared_buffer(body),
            },
            data: buffer(position.map_or(Vec::new(), |position| position.to_bytes().to_vec())),
        },
        Err(failure) => TenonReply {
            // Code 0 means success, so a failure with code 0 gets another code.
            code: if failure.code.0 == 0 { FailureCode::SERVER.0 } else { failure.code.0 },
            body: buffer(failure.message.into_bytes()),
            data: buffer(failure.data.unwrap_or_default().into_bytes()),
        },
    }
}

/// Reads the reply of a call, taking ownership of its buffers.
///
/// # Errors
/// The failure that the reply carries.
///
/// # Safety
/// The buffers follow the rules of [`TenonBuffer`] and have no other user.
pub unsafe fn reply_into_result(reply: TenonReply) -> Result<OwnedBytes, Failure> {
    // SAFETY: guaranteed by the caller.
    let (body, data) = unsafe { (OwnedBytes::from_raw(reply.body), OwnedBytes::from_raw(reply.data)) };
    if reply.code == 0 { Ok(body) } else { Err(failure(reply.code, &body, &data)) }
}

/// Reads a reply that may be an item of a stream, taking ownership of its buffers.
///
/// # Safety
/// As [`reply_into_result`].
pub(super) unsafe fn reply_into_item(reply: TenonReply) -> Result<StreamItem, Failure> {
    // SAFETY: guaranteed by the caller.
    let (body, data) = unsafe { (OwnedBytes::from_raw(reply.body), OwnedBytes::from_raw(reply.data)) };
    if reply.code == 0 {
        let position = EventPosition::from_bytes(data.as_ref());
        return Ok(StreamItem { body, position });
    }
    Err(failure(reply.code, &body, &data))
}

/// The failure that a reply carries.
fn failure(code: i32, body: &OwnedBytes, data: &OwnedBytes) -> Failure {
    let (message, data) = (String::from_utf8_lossy(body.as_ref()), String::from_utf8_lossy(data.as_ref()));
    Failure {
        code: FailureCode(code),
        message: message.into_owned(),
        data: (!data.is_empty()).then(|| data.into_owned()),
    }
}

/// An item of a stream of the other side.
#[derive(Debug)]
pub struct StreamItem {
    /// Its bytes.
    pub body: OwnedBytes,
    /// The position of the event that it is, or was made of; `None` if it has none, or if the other side has an ABI
    /// below 1.5.
    pub position: Option<EventPosition>,
}

impl AsRef<[u8]> for StreamItem {
    fn as_ref(&self) -> &[u8] {
        self.body.as_ref()
    }
}

/// Bytes that the other side allocated. Dropping this frees them with the other side's function.
#[derive(Debug)]
pub struct OwnedBytes {
    raw: TenonBuffer,
}

// SAFETY: the bytes are owned and immutable, and `free` may be called from any thread (rule of the ABI).
unsafe impl Send for OwnedBytes {}
// SAFETY: shared access only reads.
unsafe impl Sync for OwnedBytes {}

impl OwnedBytes {
    /// Takes ownership of a buffer.
    ///
    /// # Safety
    /// `raw` follows the rules of [`TenonBuffer`] and has no other user.
    pub unsafe fn from_raw(raw: TenonBuffer) -> Self {
        Self { raw }
    }
}

impl From<Vec<u8>> for OwnedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self { raw: buffer(bytes) }
    }
}

impl AsRef<[u8]> for OwnedBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the buffer is owned, so its bytes live and do not change as long as `self`.
        unsafe { borrow(TenonSlice { data: self.raw.data, len: self.raw.len }) }
    }
}

impl Drop for OwnedBytes {
    fn drop(&mut self) {
        if let Some(free) = self.raw.free {
            // SAFETY: called exactly once, with the buffer's own values.
            unsafe { free(self.raw.data, self.raw.len, self.raw.capacity) };
        }
    }
}
