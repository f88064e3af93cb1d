//! The JSON of a result.

use tenon_sdk::Failure;
use tenon_sdk::boundary::OwnedBytes;

use crate::faults::NO_RESULT;

/// A result: finished JSON in the plugin's own buffer, freed by the plugin when this is dropped.
#[derive(Debug)]
pub struct JsonBytes(OwnedBytes);

impl JsonBytes {
    pub(crate) fn new(bytes: OwnedBytes, namespace: &str) -> Result<Self, Failure> {
        if bytes.as_ref().is_empty() {
            tracing::error!(namespace, "plugin returned nothing instead of JSON");
            return Err(Failure::server(NO_RESULT));
        }
        Ok(Self(bytes))
    }
}

impl AsRef<[u8]> for JsonBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}
