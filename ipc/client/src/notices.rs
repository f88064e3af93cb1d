//! The node's messages about errors that jsonrpsee's client drops: why a subscription ended, and why a whole message
//! was refused.

use std::{collections::VecDeque, sync::Arc};

use memchr::memmem;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use crate::SocketError;

/// Maximum length of a message that is looked at, bytes. Notices are one sentence.
const MAX_NOTICE: usize = 16 << 10;
/// Maximum number of kept reasons; the oldest is dropped. The node's default of `rpc.subscriptions` is not higher.
const MAX_KEPT: usize = 256;

/// Why subscriptions of a connection ended. Clones share it: the receiver adds, the client takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notices(Arc<Mutex<VecDeque<Notice>>>);

#[derive(Debug)]
struct Notice {
    subscription: String,
    reason: String,
}

/// A message with an error.
#[derive(Deserialize)]
struct Message {
    /// `Some(Null)` if the node could not assign the error to a request.
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    error: Option<Reason>,
    params: Option<Closing>,
}

#[derive(Deserialize)]
struct Reason {
    message: String,
}

#[derive(Deserialize)]
struct Closing {
    subscription: String,
    error: Reason,
}

/// Tells a member that is null apart from a missing one.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

impl Notices {
    /// Keeps the reason if the message ends a subscription.
    ///
    /// # Errors
    /// [`SocketError::Refused`] if the message is an error without a request.
    pub(crate) fn read(&self, message: &[u8]) -> Result<(), SocketError> {
        if message.len() > MAX_NOTICE || memmem::find(message, b"\"error\"").is_none() {
            return Ok(());
        }
        // Any other message is jsonrpsee's to read.
        let Ok(message) = serde_json::from_slice::<Message>(message) else { return Ok(()) };
        match message {
            Message { id: Some(Value::Null), error: Some(error), .. } => {
                Err(SocketError::Refused { message: error.message })
            }
            Message { params: Some(Closing { subscription, error }), .. } => {
                self.keep(Notice { subscription, reason: error.message });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Takes the reason why a subscription ended.
    pub(crate) fn take(&self, subscription: &str) -> Option<String> {
        let mut kept = self.0.lock();
        let place = kept.iter().position(|notice| notice.subscription == subscription)?;
        kept.remove(place).map(|notice| notice.reason)
    }

    fn keep(&self, notice: Notice) {
        let mut kept = self.0.lock();
        if kept.len() == MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back(notice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Notices, Result<(), SocketError>) {
        let notices = Notices::default();
        let read = notices.read(text.as_bytes());
        (notices, read)
    }

    #[test]
    fn keeps_why_a_subscription_ended() {
        let (notices, read) = read(
            r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0x7","error":{"code":-32000,"message":"no more"}}}"#,
        );

        assert!(read.is_ok());
        assert_eq!(notices.take("0x8"), None);
        assert_eq!(notices.take("0x7"), Some("no more".to_owned()));
        assert_eq!(notices.take("0x7"), None);
    }

    #[test]
    fn an_error_without_a_request_ends_the_connection_and_other_messages_do_not() {
        let refused = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"message too large"}}"#;
        assert!(matches!(read(refused).1, Err(SocketError::Refused { message }) if message == "message too large"));
        for other in [
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"error":"a member of a trace"}}"#,
            r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0x7","result":{"error":1}}}"#,
            "no JSON with \"error\"",
        ] {
            let (notices, read) = read(other);
            assert!(read.is_ok(), "{other}");
            assert_eq!(notices.take("0x7"), None, "{other}");
        }
    }

    #[test]
    fn keeps_a_bounded_number_of_reasons() {
        let notices = Notices::default();
        for number in 0..=MAX_KEPT {
            notices.keep(Notice { subscription: number.to_string(), reason: String::new() });
        }

        assert_eq!(notices.take("0"), None);
        assert_eq!(notices.take("1"), Some(String::new()));
    }
}
