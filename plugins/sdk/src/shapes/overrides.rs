//! A call's overrides of accounts and the block (`docs/spec/rpc-eth.md` 4.8).

use alloy_primitives::{Address, B256};
use tenon_api::messages::{AccountOverride, BlockOverrides};

use crate::param::{ArgumentError, Object, Param, ParamDescription, Quantity, RawArgument};

/// State overrides as the caller wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateOverridesArgument(Vec<(Address, AccountOverride)>);

impl StateOverridesArgument {
    /// The overrides in the order of the text, one entry per account; the node checks them for contradictions.
    pub fn as_written(self) -> Vec<(Address, AccountOverride)> {
        self.0
    }
}

impl Param for StateOverridesArgument {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let object = Object::decode(raw, "ethapi.StateOverride")?;
        let account = |(name, raw): (&str, RawArgument<'_>)| Ok((decode_key(name)?, decode_account(raw)?));
        let mut accounts: Vec<_> = object.members().map(account).collect::<Result<_, _>>()?;
        // They are kept while the call waits, and a growing vector takes up to twice the memory that it needs.
        accounts.shrink_to_fit();
        Ok(Self(accounts))
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"object"}"#)
    }
}

/// Decodes a member name as a value. No valid value needs escapes.
fn decode_key<T: Param>(name: &str) -> Result<T, ArgumentError> {
    T::decode(RawArgument::new(&format!("\"{name}\"")))
}

fn decode_account(raw: RawArgument<'_>) -> Result<AccountOverride, ArgumentError> {
    let object = Object::decode(raw, "ethapi.OverrideAccount")?;
    Ok(AccountOverride {
        nonce: object.optional::<Quantity>("nonce")?.map(|nonce| nonce.0),
        code: object.optional("code")?,
        balance: object.optional("balance")?,
        state: object.raw("state").map(decode_slots).transpose()?,
        state_diff: object.raw("stateDiff").map(decode_slots).transpose()?,
        move_precompile_to: object.optional("movePrecompileToAddress")?,
    })
}

fn decode_slots(raw: RawArgument<'_>) -> Result<Vec<(B256, B256)>, ArgumentError> {
    let object = Object::decode(raw, "map[common.Hash]common.Hash")?;
    object.members().map(|(slot, value)| Ok((decode_key(slot)?, B256::decode(value)?))).collect()
}

/// Block overrides as the caller wrote them; go-ethereum's older member names are accepted too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockOverridesArgument(pub BlockOverrides);

impl Param for BlockOverridesArgument {
    fn decode(raw: RawArgument<'_>) -> Result<Self, ArgumentError> {
        let object = Object::decode(raw, "override.BlockOverrides")?;
        let either = |name: &'static str, older: &'static str| if object.raw(name).is_some() { name } else { older };
        Ok(Self(BlockOverrides {
            number: object.optional("number")?,
            difficulty: object.optional("difficulty")?,
            time: object.optional::<Quantity>("time")?.map(|time| time.0),
            gas_limit: object.optional::<Quantity>("gasLimit")?.map(|gas| gas.0),
            fee_recipient: object.optional(either("feeRecipient", "coinbase"))?,
            prev_randao: object.optional(either("prevRandao", "random"))?,
            base_fee_per_gas: object.optional(either("baseFeePerGas", "baseFee"))?,
            blob_base_fee: object.optional("blobBaseFee")?,
        }))
    }

    fn description() -> ParamDescription {
        ParamDescription::required(r#"{"type":"object"}"#)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U256;

    const ADDRESS: &str = "0x7dcd17433742f4c0ca53122ab541d0ba67fc27df";
    const SLOT: &str = "0x0000000000000000000000000000000000000000000000000000000000000001";

    fn decode(json: &str) -> Result<Vec<(Address, AccountOverride)>, String> {
        let argument = StateOverridesArgument::decode(RawArgument::new(json)).map_err(|error| error.to_string())?;
        Ok(argument.as_written())
    }

    #[test]
    fn accounts_are_keyed_by_address() {
        let json = format!(r#"{{"{ADDRESS}":{{"balance":"0x5","nonce":"0x1","state":{{"{SLOT}":"{SLOT}"}}}}}}"#);

        let overrides = decode(&json).expect("well formed");

        let slot: B256 = SLOT.parse().expect("slot");
        assert_eq!(overrides[0].0, ADDRESS.parse::<Address>().expect("address"));
        assert_eq!(overrides[0].1.balance, Some(U256::from(5)));
        assert_eq!(overrides[0].1.state, Some(vec![(slot, slot)]));
    }

    /// The node counts four bytes for each byte of parameters while a call waits (`ipc/src/envelope`). Of all
    /// parameters these grow most when they are decoded.
    #[test]
    fn the_shortest_overrides_take_less_than_four_times_the_memory_of_their_text() {
        let accounts: Vec<_> = (0..1000).map(|number| format!("\"0x{number:040x}\":{{}}")).collect();
        let json = format!("{{{}}}", accounts.join(","));

        let overrides = decode(&json).expect("well formed");

        let bytes = overrides.capacity() * size_of::<(Address, AccountOverride)>();
        assert!(bytes > 3 * json.len() && bytes < 4 * json.len(), "{bytes} bytes of {}", json.len());
    }

    #[test]
    fn keys_that_are_no_addresses_are_refused() {
        assert_eq!(decode(r#"{"0x01":{}}"#), Err("hex string has length 2, want 40 for common.Address".to_owned()));
    }

    #[test]
    fn both_spellings_of_block_overrides_are_accepted() {
        let json = format!(r#"{{"number":"0x10","coinbase":"{ADDRESS}","baseFee":"0x7","time":"0x9"}}"#);

        let overrides = BlockOverridesArgument::decode(RawArgument::new(&json)).expect("well formed").0;

        assert_eq!(overrides.fee_recipient, Some(ADDRESS.parse().expect("address")));
        assert_eq!(overrides.base_fee_per_gas, Some(U256::from(7)));
        assert_eq!((overrides.number, overrides.time), (Some(U256::from(16)), Some(9)));
    }
}
