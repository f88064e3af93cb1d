//! Call and transaction objects (`docs/spec/rpc-eth.md` 4.7).

use crate::Failure;
use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{AccessListItem, SignedAuthorization, messages::CallRequest};

use crate::param::{ArgumentError, Object, Param, ParamDescription, Quantity, RawArgument};

/// A call or transaction object as the caller wrote it: every member may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallArguments {
    /// Sender.
    pub from: Option<Address>,
    /// Receiver; absent creates a contract.
    pub to: Option<Address>,
    /// Gas limit.
    pub gas: Option<u64>,
    /// Price in wei per gas.
    pub gas_price: Option<U256>,
    /// Fee cap in wei per gas.
    pub max_fee_per_gas: Option<U256>,
    /// Tip cap in wei per gas.
    pub max_priority_fee_per_gas: Option<U256>,
    /// Wei to move.
    pub value: Option<U256>,
    /// The sender's nonce.
    pub nonce: Option<u64>,
    /// Older name of `input`.
    pub data: Option<Bytes>,
    /// Call data or creation code; takes precedence over `data`.
    pub input: Option<Bytes>,
    /// Id of the intended chain.
    pub chain_id: Option<U256>,
    /// Access list (EIP-2930).
    pub access_list: Option<Vec<AccessListItem>>,
    /// Fee cap in wei per blob gas.
    pub max_fee_per_blob_gas: Option<U256>,
    /// Versioned hashes of blobs.
    pub blob_versioned_hashes: Option<Vec<B256>>,
    /// Authorizations of EIP-7702, applied before the call.
    pub authorization_list: Option<Vec<SignedAuthorization>>,
}

impl CallArguments {
    /// `input`, or else `data`.
    pub fn payload(&self) -> Option<&Bytes> {
        self.input.as_ref().or(self.data.as_ref())
    }

    /// Whether `data` is absent or empty, regardless of `input`: the reference looks only at `data` to decide whether a
    /// call is a plain transfer (`docs/spec/rpc-eth.md` 10.3).
    pub fn has_no_data(&self) -> bool {
        self.data.as_ref().is_none_or(|data| data.is_empty())
    }

    /// The request for the node, which checks it for contradictions.
    pub fn into_unchecked_request(self) -> CallRequest {
        CallRequest {
            from: self.from,
            to: self.to,
            gas: self.gas,
            gas_price: self.gas_price,
            max_fee_per_gas: self.max_fee_per_gas,
            max_priority_fee_per_gas: self.max_priority_fee_per_gas,
            value: self.value,
            nonce: self.nonce,
            input: self.input.or(self.data).unwrap_or_default(),
            // No chain id exceeds 64 bits, so a larger number stays wrong when it is saturated.
            chain_id: self.chain_id.map(|id| id.saturating_to()),
            access_list: self.access_list,
            max_fee_per_blob_gas: self.max_fee_per_blob_gas,
            blob_versioned_hashes: self.blob_versioned_hashes,
            authorization_list: self.authorization_list,
        }
    }

    /// Refuses a legacy gas price together with a fee or tip cap.
    ///
    /// # Errors
    /// `-32000` with the reference's text.
    pub fn check_prices(&self) -> Result<(), Failure> {
        if self.gas_price.is_some() && (self.max_fee_per_gas.is_some() || self.max_priority_fee_per_gas.is_some()) {
            return Err(Failure::server("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified"));
        }
        Ok(())
    }

    /// The request for the node.
    ///
    /// # Errors
    /// `-32000` if a legacy gas price is given together with a fee or tip cap.
    pub fn into_request(self) -> Result<CallRequest, Failure> {
        self.check_prices()?;
        Ok(self.into_unchecked_request())
    }
}

impl Param for CallArguments {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let object = Object::decode(raw, "ethapi.TransactionArgs")?;
        let number = |member: &str| Ok(object.optional::<Quantity>(member)?.map(|quantity| quantity.0));
        Ok(Self {
            from: object.optional("from")?,
            to: object.optional("to")?,
            gas: number("gas")?,
            gas_price: object.optional("gasPrice")?,
            max_fee_per_gas: object.optional("maxFeePerGas")?,
            max_priority_fee_per_gas: object.optional("maxPriorityFeePerGas")?,
            value: object.optional("value")?,
            nonce: number("nonce")?,
            data: object.optional("data")?,
            input: object.optional("input")?,
            chain_id: object.optional("chainId")?,
            access_list: optional_list(&object, "accessList", decode_access_list_item)?,
            max_fee_per_blob_gas: object.optional("maxFeePerBlobGas")?,
            blob_versioned_hashes: optional_list(&object, "blobVersionedHashes", B256::decode)?,
            authorization_list: optional_list(&object, "authorizationList", decode_authorization)?,
        })
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"object"}"#)
    }
}

fn optional_list<T>(
    object: &Object<'_>,
    member: &str,
    decode: impl Fn(RawArgument<'_>) -> Result<T, ArgumentError>,
) -> Result<Option<Vec<T>>, ArgumentError> {
    object.raw(member).map(|raw| decode_list(raw, decode)).transpose()
}

fn decode_list<T>(
    raw: RawArgument<'_>,
    decode: impl Fn(RawArgument<'_>) -> Result<T, ArgumentError>,
) -> Result<Vec<T>, ArgumentError> {
    raw.array().ok_or(ArgumentError::mismatch(raw.kind(), "list"))?.map(decode).collect()
}

fn decode_access_list_item(raw: RawArgument<'_>) -> Result<AccessListItem, ArgumentError> {
    let object = Object::decode(raw, "types.AccessTuple")?;
    let address = object.required("address")?;
    let missing = || ArgumentError::text("missing required field 'storageKeys' for AccessTuple");
    let keys = object.raw("storageKeys").ok_or_else(missing)?;
    Ok(AccessListItem { address, storage_keys: decode_list(keys, B256::decode)? })
}

fn decode_authorization(raw: RawArgument<'_>) -> Result<SignedAuthorization, ArgumentError> {
    let object = Object::decode(raw, "types.SetCodeAuthorization")?;
    let parity = object.required::<Quantity>("yParity")?.0;
    Ok(SignedAuthorization {
        chain_id: object.required("chainId")?,
        address: object.required("address")?,
        nonce: object.required::<Quantity>("nonce")?.0,
        y_parity: u8::try_from(parity).map_err(|_| ArgumentError::text("yParity is more than 8 bits"))?,
        r: object.required("r")?,
        s: object.required("s")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(json: &str) -> Result<CallArguments, String> {
        CallArguments::decode(RawArgument::new(json)).map_err(|error| error.to_string())
    }

    #[test]
    fn every_member_is_read_and_unknown_ones_are_ignored() {
        let arguments = decode(
            r#"{"from":"0x0c2c51a0990aee1d73c1228de158688341557508","To":"xdc0100000000000000000000000000000000000000",
                "gas":"0xea60","nonce":"0x0","value":"0xa","input":"0x0102","data":"0x03","type":"0x3","to2":1,
                "maxFeePerBlobGas":"0x5","blobVersionedHashes":["0x0100000000000000000000000000000000000000000000000000000000000000"],
                "accessList":[{"address":"0x7dcd17433742f4c0ca53122ab541d0ba67fc27df","storageKeys":[]}],
                "authorizationList":[{"chainId":"0x1","address":"0x8c2319620d7c348bb4e2b2a0b230c81f310e9561","nonce":"0x2","yParity":"0x1","r":"0x3","s":"0x4"}]}"#,
        )
        .expect("well formed");

        let request = arguments.into_request().expect("prices of one kind");
        assert_eq!(request.gas, Some(60_000));
        assert_eq!(request.to, Some("0x0100000000000000000000000000000000000000".parse().expect("address")));
        assert_eq!(request.input.as_ref(), [1, 2], "input wins over data");
        assert_eq!(request.access_list.map(|list| list.len()), Some(1));
        assert_eq!(request.authorization_list.map(|list| list[0].y_parity), Some(1));
        assert_eq!(request.blob_versioned_hashes.map(|list| list.len()), Some(1));
    }

    #[test]
    fn errors_have_the_texts_of_the_reference() {
        let cases = [
            (r#""0x""#, "json: cannot unmarshal string into Go value of type ethapi.TransactionArgs"),
            (
                r#"{"from":"0x123"}"#,
                "json: cannot unmarshal hex string of odd length into Go struct field TransactionArgs.from of type common.Address",
            ),
            (r#"{"accessList":[{"storageKeys":[]}]}"#, "missing required field 'address' for AccessTuple"),
            (
                r#"{"accessList":[{"address":"0x0100000000000000000000000000000000000000"}]}"#,
                "missing required field 'storageKeys' for AccessTuple",
            ),
        ];

        for (json, expected) in cases {
            assert_eq!(decode(json), Err(expected.to_owned()));
        }
    }

    #[test]
    fn a_gas_price_together_with_a_fee_cap_is_refused() {
        let arguments = decode(r#"{"gasPrice":"0x1","maxFeePerGas":"0x1"}"#).expect("well formed");

        let refused = arguments.into_request().map_err(|failure| failure.message);

        assert_eq!(refused, Err("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified".to_owned()));
    }
}
