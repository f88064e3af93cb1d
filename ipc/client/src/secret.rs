//! Calls with a password or another secret among their parameters.

use std::path::Path;

use jsonrpsee::types::ErrorObjectOwned;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tenon_api::SecretText;
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::{ClientSettings, Error, notices::Notices, transport};

/// Capacity for the part of a request around its parameters, bytes.
const FRAME_BYTES: usize = 64;

/// Parameters with secrets among them. The text is wiped on drop.
#[derive(Default, derive_more::Debug)]
#[debug("SecretParams(…)")]
pub struct SecretParams {
    /// The parameters, separated by commas.
    text: Wiped,
}

impl SecretParams {
    /// No parameters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a parameter that is no secret.
    ///
    /// # Errors
    /// If it can't be written as JSON.
    pub fn plain(mut self, value: &impl Serialize) -> Result<Self, serde_json::Error> {
        let text = serde_json::to_string(value)?;
        self.push(&text);
        Ok(self)
    }

    /// Appends a secret.
    ///
    /// # Errors
    /// If it can't be written as JSON.
    pub fn secret(mut self, secret: &SecretText) -> Result<Self, serde_json::Error> {
        // A byte needs at most six (`\u0000`), so that the buffer is not moved while it is written.
        let mut quoted = Zeroizing::new(Vec::with_capacity(secret.expose().len() * 6 + 2));
        serde_json::to_writer(&mut *quoted, secret.expose())?;
        self.push(&String::from_utf8_lossy(&quoted));
        Ok(self)
    }

    fn push(&mut self, json: &str) {
        if !self.text.as_str().is_empty() {
            self.text.push_str(",");
        }
        self.text.push_str(json);
    }
}

/// A text that leaves no copy behind when it grows or is dropped.
#[derive(Default)]
struct Wiped(Zeroizing<String>);

impl Wiped {
    fn with_capacity(bytes: usize) -> Self {
        Self(Zeroizing::new(String::with_capacity(bytes)))
    }

    fn push_str(&mut self, text: &str) {
        if self.0.capacity() - self.0.len() < text.len() {
            let mut longer = Self::with_capacity((self.0.len() + text.len()) * 2);
            longer.0.push_str(&self.0);
            *self = longer;
        }
        self.0.push_str(text);
    }

    fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Deserialize)]
struct Answer {
    error: Option<ErrorObjectOwned>,
    result: Option<Box<RawValue>>,
}

/// Calls a method on a connection of its own.
pub(crate) async fn call_with_secret<T: DeserializeOwned>(
    path: &Path,
    settings: &ClientSettings,
    method: &str,
    params: SecretParams,
) -> Result<T, Error> {
    let request = request_of(method, &params)?;
    drop(params);
    let answering = async {
        let (mut sender, mut receiver) = transport::open(path, settings, Notices::default()).await?;
        sender.send_line(request.as_str()).await?;
        receiver.next_line().await
    };
    let request_timeout = settings.request_timeout;
    let answer =
        timeout(request_timeout, answering).await.map_err(|_| Error::NoAnswer { timeout: request_timeout })??;
    let Answer { error, result } = serde_json::from_slice(&answer)?;
    match error {
        Some(error) => Err(Error::Refused(error)),
        None => Ok(serde_json::from_str(result.as_deref().map_or("null", RawValue::get))?),
    }
}

fn request_of(method: &str, params: &SecretParams) -> Result<Wiped, serde_json::Error> {
    let method = serde_json::to_string(method)?;
    let mut request = Wiped::with_capacity(FRAME_BYTES + method.len() + params.text.as_str().len());
    for part in [r#"{"jsonrpc":"2.0","id":1,"method":"#, &method, r#","params":["#, params.text.as_str(), "]}"] {
        request.push_str(part);
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_quoted_among_plain_parameters() {
        let params = SecretParams::new().plain(&"0xaa").unwrap().secret(&SecretText::from("a\"b\n\u{1}é")).unwrap();
        let params = params.plain(&300).unwrap();

        assert_eq!(format!("{params:?}"), "SecretParams(…)");
        assert_eq!(
            request_of("personal_unlockAccount", &params).unwrap().as_str(),
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"personal_unlockAccount\",\
             \"params\":[\"0xaa\",\"a\\\"b\\n\\u0001é\",300]}"
        );
    }

    #[test]
    fn a_growing_text_keeps_its_content() {
        let mut text = Wiped::default();

        (0..100).for_each(|number| text.push_str(&format!("{number} ")));

        assert!(text.as_str().starts_with("0 1 2 ") && text.as_str().ends_with(" 98 99 "));
    }
}
