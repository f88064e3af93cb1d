//! Finished outgoing messages. A result's bytes are spliced in, never serialised again.

use bytes::Bytes;
use tenon_bus::Reservation;
use tenon_sdk::Failure;

use super::text::write_string;

/// Results up to this size are copied after their envelope: one buffer is cheaper to send than three. Larger ones are
/// sent without a copy.
const COPY_UP_TO: usize = 16 << 10;

/// Text around id and result, including the newline.
const RESULT_FRAME: usize = r#"{"jsonrpc":"2.0","id":,"result":}"#.len() + 1;

/// One outgoing message, ending with a newline.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// The whole message, or its head.
    pub(crate) first: Bytes,
    /// The rest of a large one, whose result is not copied.
    pub(crate) rest: Option<Box<[Bytes; 2]>>,
    /// Reservation of a large one until it is written.
    pub(crate) memory: Option<Reservation>,
}

impl Reply {
    /// Length of a notification without namespace and payload.
    pub(crate) const NOTIFICATION_BYTES: usize = 112;

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.rest.as_deref().map_or(0, |[result, end]| result.len() + end.len())
    }

    /// Creates a reply of one piece.
    pub(crate) fn whole(text: Vec<u8>) -> Self {
        Self { first: Bytes::from(text), rest: None, memory: None }
    }

    /// An error without a request: id `null`.
    pub(crate) fn failure_without_request(failure: &Failure) -> Self {
        let mut text = Vec::with_capacity(96);
        write_failure(&mut text, "null", failure);
        text.push(b'\n');
        Self::whole(text)
    }

    /// The answer to one call.
    pub(crate) fn result<J: AsRef<[u8]> + Send + 'static>(id: &str, json: J) -> Self {
        let length = json.as_ref().len();
        if length > COPY_UP_TO {
            let mut head = Vec::with_capacity(32 + id.len());
            write_result_head(&mut head, id);
            let rest = Box::new([Bytes::from_owner(json), Bytes::from_static(b"}\n")]);
            return Self { first: head.into(), rest: Some(rest), memory: None };
        }
        // Exactly sized: a vector with spare capacity cannot become `Bytes` without a second allocation.
        let mut text = Vec::with_capacity(RESULT_FRAME + id.len() + length);
        write_result(&mut text, id, json.as_ref());
        text.push(b'\n');
        debug_assert_eq!(text.len(), RESULT_FRAME + id.len() + length, "the frame has another length");
        Self::whole(text)
    }

    /// A subscription's notification: a payload, or why it ends. A large payload is not copied: it may be shared with
    /// thousands of other subscriptions.
    pub(crate) fn notification<J: AsRef<[u8]> + Send + 'static>(
        namespace: &str,
        id: &str,
        payload: Result<J, Failure>,
    ) -> Self {
        let length = payload.as_ref().map_or(64, |json| json.as_ref().len());
        let copied = if length > COPY_UP_TO { 0 } else { length };
        let mut text = Vec::with_capacity(Self::NOTIFICATION_BYTES + namespace.len() + copied);
        text.extend_from_slice(br#"{"jsonrpc":"2.0","method":""#);
        text.extend_from_slice(namespace.as_bytes());
        text.extend_from_slice(br#"_subscription","params":{"subscription":""#);
        text.extend_from_slice(id.as_bytes());
        match payload {
            Ok(json) => {
                text.extend_from_slice(br#"","result":"#);
                if length > COPY_UP_TO {
                    let rest = Box::new([Bytes::from_owner(json), Bytes::from_static(b"}}\n")]);
                    return Self { first: text.into(), rest: Some(rest), memory: None };
                }
                text.extend_from_slice(json.as_ref());
            }
            Err(failure) => {
                text.extend_from_slice(br#"","error":"#);
                write_error_object(&mut text, &failure);
            }
        }
        text.extend_from_slice(b"}}\n");
        Self::whole(text)
    }
}

/// Appends the answer to a successful call.
#[inline]
pub(crate) fn write_result(out: &mut Vec<u8>, id: &str, json: &[u8]) {
    write_result_head(out, id);
    out.extend_from_slice(json);
    out.push(b'}');
}

#[inline]
fn write_result_head(out: &mut Vec<u8>, id: &str) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(br#","result":"#);
}

/// Appends the answer to a failed call.
pub(crate) fn write_failure(out: &mut Vec<u8>, id: &str, failure: &Failure) {
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(br#","error":"#);
    write_error_object(out, failure);
    out.push(b'}');
}

fn write_error_object(out: &mut Vec<u8>, failure: &Failure) {
    out.extend_from_slice(br#"{"code":"#);
    out.extend_from_slice(failure.code.0.to_string().as_bytes());
    out.extend_from_slice(br#","message":"#);
    write_string(out, &failure.message);
    if let Some(data) = &failure.data {
        out.extend_from_slice(br#","data":"#);
        out.extend_from_slice(data.as_bytes());
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn text_of(reply: &Reply) -> String {
        let pieces = std::iter::once(&reply.first).chain(reply.rest.iter().flat_map(|rest| rest.iter()));
        pieces.map(|piece| String::from_utf8_lossy(piece)).collect()
    }

    #[test]
    fn a_large_notification_has_the_form_of_a_small_one_and_shares_its_payload() {
        for length in [COPY_UP_TO, COPY_UP_TO + 1, 300_000] {
            let payload: Arc<[u8]> = vec![b'7'; length].into();
            let replies = ["0x1", "0x2"].map(|id| Reply::notification("eth", id, Ok(Arc::clone(&payload))));

            for (reply, id) in replies.iter().zip(["0x1", "0x2"]) {
                let digits = "7".repeat(length);
                let params = format!(r#"{{"subscription":"{id}","result":{digits}}}"#);
                let expected = format!(r#"{{"jsonrpc":"2.0","method":"eth_subscription","params":{params}}}"#);
                assert!(text_of(reply) == expected + "\n" && reply.len() == text_of(reply).len(), "{length}");
                let shared = reply.rest.as_ref().map(|rest| rest[0].as_ptr());
                assert_eq!(shared, (length > COPY_UP_TO).then(|| payload.as_ptr()), "{length}");
            }
        }
    }
}
