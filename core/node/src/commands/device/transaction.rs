//! A transaction as JSON, with the members of `eth_signTransaction`.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::Deserialize;
use tenon_api::shown_json_problem;
use tenon_device_session::{AccessListItem, Fees, Transaction};

/// The members. Numbers are `0x…` or decimal, as text or as numbers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Members {
    #[serde(rename = "type")]
    kind: Option<U256>,
    from: Option<Address>,
    chain_id: Option<U256>,
    nonce: U256,
    gas: U256,
    gas_price: Option<U256>,
    max_fee_per_gas: Option<U256>,
    max_priority_fee_per_gas: Option<U256>,
    to: Option<Address>,
    #[serde(default)]
    value: U256,
    data: Option<Bytes>,
    input: Option<Bytes>,
    access_list: Option<Vec<Item>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Item {
    address: Address,
    #[serde(default)]
    storage_keys: Vec<B256>,
}

/// Reads a transaction, and its sender if given. The error names the wrong member.
pub(crate) fn read(text: &str) -> Result<(Transaction, Option<Address>), String> {
    let members: Members = serde_json::from_str(text).map_err(|error| shown_json_problem(&error))?;
    let small = |name: &str, number: U256| u64::try_from(number).map_err(|_| format!("{name} has more than 64 bits"));
    let chain_id = members.chain_id.map(|id| small("chainId", id)).transpose()?;
    let (nonce, gas_limit) = (small("nonce", members.nonce)?, small("gas", members.gas)?);
    let data = match (members.data, members.input) {
        (Some(data), Some(input)) if data != input => return Err("data and input differ".into()),
        (data, input) => data.or(input).unwrap_or_default(),
    };
    let is_fee_market = members.max_fee_per_gas.is_some() || members.max_priority_fee_per_gas.is_some();
    let named = members.kind.map_or(is_fee_market, |kind| kind == U256::from(2));
    if members.kind.is_some_and(|kind| kind != U256::ZERO && kind != U256::from(2)) {
        return Err("transaction type not supported".into());
    }
    let fees = match (named, members.gas_price, members.max_fee_per_gas, members.max_priority_fee_per_gas) {
        (false, Some(gas_price), None, None) if members.access_list.is_none() => Fees::Legacy { gas_price },
        (true, None, Some(max_fee), Some(max_priority_fee)) => {
            let item = |item: Item| AccessListItem { address: item.address, storage_keys: item.storage_keys };
            let access_list = members.access_list.unwrap_or_default().into_iter().map(item).collect();
            Fees::FeeMarket { max_fee, max_priority_fee, access_list }
        }
        (false, ..) => return Err("type 0 needs gasPrice, and has neither maxFeePerGas nor accessList".into()),
        (true, ..) => return Err("type 2 needs maxFeePerGas and maxPriorityFeePerGas, and has no gasPrice".into()),
    };
    if named && chain_id.is_none() {
        return Err("type 2 needs a chainId".into());
    }
    let transaction = Transaction { chain_id, nonce, gas_limit, to: members.to, value: members.value, data, fees };
    Ok((transaction, members.from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_types() {
        let (legacy, from) = read(r#"{"from":"0x1d1c328764a41bda0492b66baa30c4a339ff85ef","chainId":50,"nonce":"0x1","gas":"21000","gasPrice":"0x2","to":"0x1d1c328764a41bda0492b66baa30c4a339ff85ef","value":"1000000000000000000"}"#).unwrap();
        let (young, none) = read(r#"{"chainId":"0x227","nonce":0,"gas":90000,"maxFeePerGas":5,"maxPriorityFeePerGas":1,"input":"0x6000","accessList":[{"address":"0x1d1c328764a41bda0492b66baa30c4a339ff85ef"}]}"#).unwrap();

        assert_eq!((from.is_some(), none), (true, None));
        assert_eq!((legacy.chain_id, legacy.nonce, legacy.gas_limit), (Some(50), 1, 21_000));
        assert_eq!(legacy.fees, Fees::Legacy { gas_price: U256::from(2) });
        assert_eq!((young.chain_id, young.to, young.data.len()), (Some(551), None, 2));
        assert!(matches!(young.fees, Fees::FeeMarket { ref access_list, .. } if access_list.len() == 1));
    }

    #[test]
    fn names_the_wrong_member() {
        for (text, expected) in [
            (r#"{"nonce":0,"gas":1}"#, "type 0 needs gasPrice"),
            (r#"{"nonce":0,"gas":1,"gasPrice":1,"maxFeePerGas":1}"#, "type 2 needs maxFeePerGas"),
            (r#"{"nonce":0,"gas":1,"gasPrice":1,"type":1}"#, "transaction type not supported"),
            (r#"{"nonce":0,"gas":1,"gasPrice":1,"amount":1}"#, "unknown field `amount`"),
            (r#"{"nonce":0,"gas":"0x10000000000000000","gasPrice":1}"#, "gas has more than 64 bits"),
            (r#"{"nonce":0,"gas":1,"gasPrice":1,"data":"0x01","input":"0x02"}"#, "data and input differ"),
            ("[", "EOF"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
