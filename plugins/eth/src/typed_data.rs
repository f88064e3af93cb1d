//! Signing typed data (EIP-712): `eth_signTypedData_v4`.

use serde_json::Value;
use tenon_sdk::prelude::*;
use tenon_typed_data::Hashes;

use crate::{EthContext, sending::require_account};

/// Typed data within the limits: an object, or its JSON text.
pub(crate) struct TypedData(Value);

impl Param for TypedData {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        tenon_typed_data::read_text(raw.as_str()).map(Self).map_err(|error| ArgumentError::text(error.to_string()))
    }
}

pub(crate) async fn sign(context: EthContext, address: Address, TypedData(data): TypedData) -> Result<Bytes, Failure> {
    let invalid = |reason| Failure::invalid_argument(1, reason);
    // Shown by devices and external signers.
    let text = data.to_string();
    let Hashes { domain, message } = tenon_typed_data::hash(data).map_err(invalid)?;
    require_account(&context, Some(address)).await?;
    context.call(SignTypedData { address, domain, message, data: Some(text), password: None }).await
}
