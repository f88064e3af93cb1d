//! Signing typed data (EIP-712): `eth_signTypedData_v4`.

use serde_json::Value;
use tenon_sdk::prelude::*;
use tenon_typed_data::Hashes;

use crate::{EthContext, sending::require_account};

/// The data comes as an object, or as its JSON text.
pub(crate) async fn sign(context: EthContext, address: Address, Json(data): Json<Value>) -> Result<Bytes, Failure> {
    let invalid = |reason| Failure::invalid_params(format!("invalid argument 1: {reason}"));
    let data = tenon_typed_data::read(data).map_err(invalid)?;
    // Shown by devices and external signers.
    let text = data.to_string();
    let Hashes { domain, message } = tenon_typed_data::hash(data).map_err(invalid)?;
    require_account(&context, Some(address)).await?;
    context.call(SignTypedData { address, domain, message, data: Some(text), password: None }).await
}
