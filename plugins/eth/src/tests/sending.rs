//! Sending and signing through the node's accounts.

use std::sync::Arc;

use serde_json::{Value, json};
use tenon_sdk::{prelude::*, testing::FakeHost};

use super::{CHAIN_ID, call_method, host, recorded, sealed};

const ACCOUNT: &str = "0x0c2c51a0990aee1d73c1228de158688341557508";
/// The recorded dynamic-fee transaction of `eth_sendRawTransaction`, which every signing request returns.
const SIGNED: &str = "0x02f892870c72dd9d5e883e018201f48401a2158b82ea60802ab73d602d80600a3d3981f3363d3d373d3d3d363d734d11c446473105a02b5c1ab9ebe9b03f33902a295af43d82803e903d91602b57fd5bf3c080a09e9f032e932e6536bc8de35b5939814d5fe2c1bcb76f06e399583c8c745ea95fa04fae7d7df659a70471ddfed6dba493a4f044a074a0bba6198bb6e2be0977b299";

/// A node with one account. The base fee of its head is 100 wei, or absent. It refuses to sign, and the failure's
/// message shows the request.
fn node(base_fee: Option<u64>) -> FakeHost {
    let header = Header { base_fee_per_gas: base_fee, ..sealed(10).header().clone() };
    let header = Arc::new(SealedHeader::new_unchecked(header, B256::ZERO));
    let head = Head { header, total_difficulty: U256::ZERO, finalized: None, safe: None };
    host(Profile::Ethereum)
        .answer(move |_: GetHead| Ok(Arc::new(head.clone())))
        .answer(|_: ListAccounts| Ok(vec![ACCOUNT.parse().expect("address")]))
        .answer(|_: SuggestTip| Ok(U256::from(7)))
        .answer(|_: EstimateGas| Ok(Ok(21_000)))
        .answer(|request: SendTransaction| {
            let CallRequest { gas, gas_price, max_fee_per_gas, max_priority_fee_per_gas, nonce, chain_id, .. } =
                request.request;
            let text = |price: Option<U256>| price.map_or("-".to_owned(), |price| price.to_string());
            let prices = [gas_price, max_fee_per_gas, max_priority_fee_per_gas].map(text).join(" ");
            let [gas, chain_id] = [gas, chain_id].map(Option::unwrap_or_default);
            let nonce = nonce.map_or("-".to_owned(), |nonce| nonce.to_string());
            assert_eq!((chain_id, request.password), (CHAIN_ID, None));
            Err(Failure::server(format!("gas {gas} nonce {nonce} prices {prices}")))
        })
}

fn refusal(answer: Result<Value, Failure>) -> String {
    answer.map_or_else(|failure| failure.message, |value| value.to_string())
}

#[test]
fn missing_members_are_filled_in() {
    let cases = [
        (Some(100), r#""to":"FROM""#, "gas 21000 nonce - prices - 207 7"),
        (None, r#""to":"FROM""#, "gas 21000 nonce - prices 7 - -"),
        (Some(100), r#""to":"FROM","gas":"0x9999","nonce":"0x1","gasPrice":"0x5""#, "gas 39321 nonce 1 prices 5 - -"),
        (Some(100), r#""to":"FROM","maxPriorityFeePerGas":"0x9""#, "gas 21000 nonce - prices - 209 9"),
        (Some(100), r#""to":"FROM","maxFeePerGas":"0x8""#, "gas 21000 nonce - prices - 8 7"),
        (Some(100), r#""to":"FROM","maxFeePerGas":"0x6""#, "maxFeePerGas (0x6) < maxPriorityFeePerGas (0x7)"),
        (Some(100), r#""to":"FROM","gasPrice":"0x0""#, "gasPrice must be non-zero after EIP-1559 fork"),
        (
            Some(100),
            r#""to":"FROM","maxFeePerGas":"0x0","maxPriorityFeePerGas":"0x0""#,
            "maxFeePerGas must be non-zero",
        ),
        (
            None,
            r#""to":"FROM","maxFeePerGas":"0x8""#,
            "maxFeePerGas and maxPriorityFeePerGas are not valid before EIP-1559 is active",
        ),
        (Some(100), r#""value":"0x1""#, "contract creation without any data provided"),
        (
            Some(100),
            r#""data":"0x01","input":"0x02""#,
            r#"both "data" and "input" are set and not equal. Please use "input" to pass transaction call data"#,
        ),
        (Some(100), r#""to":"FROM","chainId":"0x1""#, "chainId does not match node's (have=1, want=3503995874084926)"),
    ];

    for (base_fee, members, expected) in cases {
        let params = format!(r#"[{{"from":"FROM",{members}}}]"#).replace("FROM", ACCOUNT);
        assert_eq!(refusal(call_method(&node(base_fee), "eth_sendTransaction", &params)), expected, "{members}");
    }
}

#[test]
fn a_device_that_signs_only_type_0_gets_it_unless_the_caller_chose_a_type() {
    let abilities = |signs_fee_market| {
        move |request: DescribeSigner| {
            assert_eq!(request.address, ACCOUNT.parse::<Address>().expect("address"));
            Ok(SignerAbilities { signs_fee_market })
        }
    };
    let filled = |signs_fee_market, members: &str| {
        let node = node(Some(100)).answer(abilities(signs_fee_market));
        refusal(call_method(
            &node,
            "eth_sendTransaction",
            &format!(r#"[{{"from":"{ACCOUNT}","to":"{ACCOUNT}"{members}}}]"#),
        ))
    };

    assert_eq!(filled(false, ""), "gas 21000 nonce - prices 107 - -");
    assert_eq!(filled(false, r#","gasPrice":"0x5""#), "gas 21000 nonce - prices 5 - -");
    assert_eq!(filled(false, r#","maxPriorityFeePerGas":"0x9""#), "gas 21000 nonce - prices - 209 9");
    assert_eq!(filled(true, ""), "gas 21000 nonce - prices - 207 7");
}

#[test]
fn accounts_without_a_key_in_this_node_are_unknown() {
    let foreign =
        r#"[{"from":"0x0100000000000000000000000000000000000000","to":"0x0100000000000000000000000000000000000000"}]"#;

    assert_eq!(refusal(call_method(&node(None), "eth_sendTransaction", foreign)), "unknown account");
    assert_eq!(refusal(call_method(&node(None), "eth_sendTransaction", "[{}]")), "unknown account");
    let sign = r#"["0x0100000000000000000000000000000000000000","0x00"]"#;
    assert_eq!(refusal(call_method(&node(None), "eth_sign", sign)), "unknown account");
}

#[test]
fn signing_requires_the_values_that_affect_money_and_shows_the_signed_transaction() {
    let signed = node(Some(100)).answer(|_: SignTransaction| {
        Ok(SignedTransactionReply { raw: SIGNED.parse().expect("hex"), hash: B256::repeat_byte(5) })
    });
    let params = |members: &str| format!(r#"[{{"from":"{ACCOUNT}","to":"{ACCOUNT}"{members}}}]"#);

    let cases = [
        ("", "not specify Gas"),
        (r#","gas":"0x5208""#, "missing gasPrice or maxFeePerGas/maxPriorityFeePerGas"),
        (r#","gas":"0x5208","gasPrice":"0x1""#, "not specify Nonce"),
    ];
    for (members, expected) in cases {
        assert_eq!(refusal(call_method(&signed, "eth_signTransaction", &params(members))), expected);
    }
    let whole = r#","gas":"0x5208","nonce":"0x1","maxFeePerGas":"0x9","maxPriorityFeePerGas":"0x9""#;
    let answer = call_method(&signed, "eth_signTransaction", &params(whole)).expect("a signature");

    assert_eq!(answer["raw"], SIGNED);
    assert_eq!(answer["tx"]["type"], "0x2");
    assert_eq!(answer["tx"]["gasPrice"], Value::Null);
    assert_eq!(answer["tx"]["r"], "0x9e9f032e932e6536bc8de35b5939814d5fe2c1bcb76f06e399583c8c745ea95f");
    assert_eq!(answer["tx"]["hash"], json!(B256::repeat_byte(5)));
}

#[test]
fn resending_changes_the_price_of_the_pooled_transaction() {
    let transaction = Arc::new(Transaction {
        nonce: 4,
        gas_limit: 21_000,
        to: Some(ACCOUNT.parse().expect("address")),
        payload: TransactionPayload::Legacy { gas_price: U256::from(200) },
        ..recorded::plain_transaction()
    });
    let pooled = RecoveredTransaction { transaction, sender: ACCOUNT.parse().expect("address") };
    let node = node(Some(100))
        .answer(move |_: GetPoolContent| Ok(PoolContent { pending: vec![pooled.clone()], queued: Vec::new() }));
    let resend = |price: &str, rest: &str| {
        let object = format!(r#"{{"from":"{ACCOUNT}","to":"{ACCOUNT}","gas":"0x5208","gasPrice":"{price}"{rest}}}"#);
        refusal(call_method(&node, "eth_resend", &format!(r#"[{object},"0x12c","0x7530"]"#)))
    };

    assert_eq!(resend("0xc8", r#","nonce":"0x4""#), "gas 30000 nonce 4 prices 300 - -");
    let missing = resend("0xc9", r#","nonce":"0x4""#);
    assert!(missing.starts_with("transaction 0x") && missing.ends_with(" not found"), "{missing}");
    assert_eq!(resend("0xc8", ""), "missing transaction nonce in transaction spec");
}

#[test]
fn the_pool_gets_the_raw_transactions_of_a_batch_together() {
    let (told, hears) = std::sync::mpsc::channel();
    let node = host(Profile::Ethereum).answer(move |request: RecoverSendersAhead| {
        told.send(request.raw).expect("a listener");
        Ok(())
    });
    let calls = r#"[[["0x0102"], ["0xzz"], [], [7], ["0x03", "more"], [null]]]"#;

    call_method(&node, "eth_sendRawTransactionAhead", calls).expect("no failure");

    assert_eq!(hears.try_recv().expect("one request"), [Bytes::from_static(&[1, 2]), Bytes::from_static(&[3])]);
}

/// The example of EIP-712, with its hashes.
#[test]
fn typed_data_is_signed_by_its_two_hashes() {
    let person = |name: &str, wallet: &str| json!({ "name": name, "wallet": wallet });
    let field = |name: &str, kind: &str| json!({ "name": name, "type": kind });
    let mut data = json!({
        "types": {
            "EIP712Domain": [
                field("name", "string"), field("version", "string"), field("chainId", "uint256"),
                field("verifyingContract", "address"),
            ],
            "Person": [field("name", "string"), field("wallet", "address")],
            "Mail": [field("from", "Person"), field("to", "Person"), field("contents", "string")],
        },
        "primaryType": "Mail",
        "domain": {
            "name": "Ether Mail", "version": "1", "chainId": 1,
            "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC",
        },
        "message": {
            "from": person("Cow", "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"),
            "to": person("Bob", "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"),
            "contents": "Hello, Bob!",
        },
    });
    let node = node(Some(100)).answer(|request: SignTypedData| {
        assert_eq!((request.address, request.password), (ACCOUNT.parse().expect("address"), None));
        // The device must show the data that was hashed.
        let shown: Value = serde_json::from_str(&request.data.expect("the data")).expect("JSON");
        assert_eq!(shown["domain"]["name"], "Ether Mail");
        Err(Failure::server(format!("{} {:?}", request.domain, request.message)))
    });
    let sign = |data: &Value| refusal(call_method(&node, "eth_signTypedData_v4", &json!([ACCOUNT, data]).to_string()));
    let domain = "0xf2cee375fa42b42143804025fc449deafd50cc031ca257e0b194a650a912090f";

    let wanted = format!("{domain} Some(0xc52c0ee5d84264471806290a3f2c4cecfc5490626bf912d01f240d7a274b371e)");
    assert_eq!(sign(&data), wanted);
    assert_eq!(sign(&json!(data.to_string())), wanted, "clients send the text, too");

    data["message"]["contents"] = json!(null);
    assert!(sign(&data).starts_with("invalid argument 1: "), "{}", sign(&data));
    data["primaryType"] = json!("EIP712Domain");
    assert_eq!(sign(&data), format!("{domain} None"));
    let stranger = json!(["0x0100000000000000000000000000000000000000", data]).to_string();
    assert_eq!(refusal(call_method(&node, "eth_signTypedData_v4", &stranger)), "unknown account");
}
