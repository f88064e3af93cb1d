//! Signing typed data (EIP-712): `eth_signTypedData_v4`.

use alloy_dyn_abi::TypedData;
use tenon_sdk::prelude::*;

use crate::{EthContext, sending::require_account};

/// Name of the structure that states the purpose of the data.
const DOMAIN_TYPE: &str = "EIP712Domain";

/// The data comes as an object, or as its JSON text.
pub(crate) async fn sign(context: EthContext, address: Address, Json(data): Json<TypedData>) -> Result<Bytes, Failure> {
    require_account(&context, Some(address)).await?;
    let domain = data.domain.separator();
    let message = match data.primary_type == DOMAIN_TYPE {
        true => None,
        false => {
            Some(data.hash_struct().map_err(|error| Failure::invalid_params(format!("invalid argument 1: {error}")))?)
        }
    };
    context.call(SignTypedData { address, domain, message, password: None }).await
}
