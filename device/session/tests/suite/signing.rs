//! Signing on all four models. The session itself checks the signer and the hash.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256, address, hex, keccak256};
use tenon_device_session::{
    AccessListItem, DerivationPath, DeviceError, Fees, Member, MemberType, NoPerson, Signature, Transaction, TypedData,
    Unsupported, Value,
};
use tenon_device_simulator::{Approval, Model, SimulatorSettings};
use tenon_test_data::device::measured;

use crate::support::{ACCOUNT, Held, LATER, legacy, mail, never, settings};

async fn sign(held: &mut Held, transaction: Transaction) -> Result<Signature, DeviceError> {
    held.wallet.sign_transaction(ACCOUNT, transaction, &mut NoPerson, &mut never()).await
}

#[tokio::test]
async fn signs_transactions_of_type_0_on_every_model() {
    for model in Model::ALL {
        let mut held = Held::open(settings(model)).await;
        let mut signed = 0;
        for chain_id in [1, 50, 51, 2_147_483_629, 2_147_483_630, u64::from(u32::MAX)] {
            for data in [0, 1, 1024, 1025, 4099] {
                let creation = Transaction { to: None, ..legacy(Some(chain_id), data) };
                for transaction in [legacy(Some(chain_id), data), creation] {
                    if transaction.to.is_none() && data == 0 {
                        continue;
                    }
                    sign(&mut held, transaction)
                        .await
                        .unwrap_or_else(|error| panic!("{model} {chain_id} {data}: {error}"));
                    signed += 1;
                }
            }
        }
        assert_eq!(held.simulator.observed().signatures, signed, "{model}");
    }
}

#[tokio::test]
async fn produces_the_measured_signatures() {
    let mut held = Held::open(settings(Model::One)).await;
    for measured in measured().transactions.iter().filter(|measured| measured.tx_type.is_none()) {
        let transaction = Transaction {
            chain_id: measured.chain_id,
            nonce: measured.nonce,
            gas_limit: measured.gas_limit,
            to: measured.to.as_ref().map(|to| to.parse().unwrap()),
            value: U256::from(measured.value),
            data: measured.data().into(),
            fees: Fees::Legacy { gas_price: U256::from(measured.gas_price) },
        };

        let signature = sign(&mut held, transaction).await.unwrap();

        // The parity, or its sum with an odd number: 27, or 35 and twice the chain id.
        let is_odd = if measured.v < 2 { measured.v == 1 } else { measured.v % 2 == 0 };
        let (r, s) = (hex::encode(signature.r), hex::encode(signature.s));
        assert_eq!((r, s, signature.is_odd), (measured.r.clone(), measured.s.clone(), is_odd), "{}", measured.name);
    }
}

fn fee_market(chain_id: u64, data: usize) -> Transaction {
    let access_list = vec![AccessListItem {
        address: address!("00000000000000000000000000000000000000aa"),
        storage_keys: vec![B256::ZERO, B256::repeat_byte(7)],
    }];
    let (max_fee, max_priority_fee) = (U256::from(50_000_000_000u64), U256::from(1_000_000_000u64));
    let fees = Fees::FeeMarket { max_fee, max_priority_fee, access_list };
    Transaction { fees, ..legacy(Some(chain_id), data) }
}

#[tokio::test]
async fn signs_transactions_of_type_2_where_the_firmware_can() {
    for model in LATER {
        let mut held = Held::open(settings(model)).await;
        for chain_id in [1, 50, 551, u64::MAX] {
            for data in [0, 1024, 1025, 4099] {
                sign(&mut held, fee_market(chain_id, data)).await.unwrap_or_else(|error| panic!("{model}: {error}"));
            }
        }
        sign(&mut held, legacy(Some(1 << 40), 0)).await.unwrap();
    }
}

#[tokio::test]
async fn the_hash_of_a_transaction_of_type_2_is_the_standards() {
    // The first vector of EIP-1559 in the execution-specs tests has no signature; this one was hashed by another
    // library.
    let transaction = Transaction {
        chain_id: Some(1),
        nonce: 0,
        gas_limit: 21_000,
        to: Some(Address::ZERO),
        value: U256::ZERO,
        data: Bytes::new(),
        fees: Fees::FeeMarket { max_fee: U256::from(2), max_priority_fee: U256::from(1), access_list: Vec::new() },
    };
    let encoded = hex!("02df0180010282520894000000000000000000000000000000000000000080 80c0");

    assert_eq!(transaction.signing_hash(), keccak256(encoded));
}

#[tokio::test]
async fn refuses_unsupported_requests_before_contacting_the_device() {
    for model in Model::ALL {
        let has_recent_firmware = LATER.contains(&model);
        let mut held = Held::open(settings(model)).await;
        let before = held.simulator.observed().received.len();
        let one_million = Transaction { data: Bytes::from(vec![1; 16_000_001]), ..legacy(Some(50), 0) };
        let expensive = Transaction { fees: Fees::Legacy { gas_price: U256::MAX }, ..legacy(Some(50), 0) };
        let mut cases = vec![
            (Transaction { to: None, ..legacy(Some(50), 0) }, Unsupported::EmptyCreation),
            (one_million, Unsupported::DataLength { length: 16_000_001, max: 16_000_000 }),
            (expensive, Unsupported::Fees),
            (legacy(Some(0), 0), Unsupported::ChainId(0)),
        ];
        if has_recent_firmware {
            cases.push((legacy(None, 0), Unsupported::NoChainId));
        } else {
            cases.push((fee_market(50, 0), Unsupported::TransactionType));
            cases.push((legacy(Some(1 << 32), 0), Unsupported::ChainId(1 << 32)));
        }
        for (transaction, expected) in cases {
            assert_eq!(sign(&mut held, transaction).await, Err(expected.into()), "{model}");
        }
        let long = held.wallet.sign_message(ACCOUNT, vec![1; 20_000], &mut NoPerson, &mut never()).await;
        assert!(matches!(long, Err(DeviceError::Unsupported(Unsupported::MessageLength { .. }))), "{model}");
        let path = DerivationPath::from(vec![0; 9]);
        let deep = held.wallet.derive(path, false, false, &mut NoPerson, &mut never()).await;
        assert_eq!(deep, Err(Unsupported::PathLength { length: 9, max: 8 }.into()));
        if !has_recent_firmware {
            let typed = held.wallet.sign_typed_data(ACCOUNT, mail(), &mut NoPerson, &mut never()).await;
            assert_eq!(typed, Err(Unsupported::TypedData.into()));
        }
        let stranger = held.wallet.sign_message(Address::ZERO, Vec::new(), &mut NoPerson, &mut never()).await;
        assert_eq!(stranger, Err(DeviceError::UnknownAccount));
        assert_eq!(held.simulator.observed().received.len(), before, "{model} was touched");
    }
    assert_eq!(DeviceError::from(Unsupported::TransactionType).to_string(), "transaction type not supported");
}

#[tokio::test]
async fn signs_messages_of_every_length() {
    for model in Model::ALL {
        let mut held = Held::open(settings(model)).await;
        for length in [0, 1, 10, 100, 1000, 1024] {
            let signature =
                held.wallet.sign_message(ACCOUNT, vec![b'x'; length], &mut NoPerson, &mut never()).await.unwrap();
            assert!(matches!(signature.to_bytes()[64], 27 | 28));
        }
        let hello = held.wallet.sign_message(ACCOUNT, b"hello".to_vec(), &mut NoPerson, &mut never()).await.unwrap();
        assert_eq!(hello.to_bytes()[..4], hex!("2a91d411"));
    }
}

#[tokio::test]
async fn finds_the_length_bug_of_model_one_by_recovering_the_signer() {
    let mut held = Held::open(SimulatorSettings { has_message_length_bug: true, ..settings(Model::One) }).await;

    let error = held.wallet.sign_message(ACCOUNT, b"0123456789".to_vec(), &mut NoPerson, &mut never()).await;

    assert!(matches!(error, Err(DeviceError::SignerMismatch { expected: ACCOUNT, .. })), "{error:?}");
}

#[tokio::test]
async fn a_person_rejects_and_the_next_request_works() {
    for model in Model::ALL {
        let mut held = Held::open(settings(model)).await;
        let mut rejecting = Held::open(SimulatorSettings { approval: Approval::Never, ..settings(model) }).await;

        let rejected = sign(&mut rejecting, legacy(Some(50), 4099)).await.unwrap_err();

        assert!(matches!(rejected, DeviceError::Refused { code: Some(4), .. }), "{rejected:?}");
        assert_eq!(rejecting.simulator.observed().signatures, 0);
        rejecting.pin_account().await.unwrap();
        sign(&mut held, legacy(Some(50), 0)).await.unwrap();
    }
}

#[tokio::test]
async fn signs_typed_data_by_hash_or_structure() {
    for model in LATER {
        let mut held = Held::open(settings(model)).await;

        let signature = held.wallet.sign_typed_data(ACCOUNT, mail(), &mut NoPerson, &mut never()).await;

        // The session recovered the signer from the standard's hashes.
        assert!(signature.is_ok(), "{model}: {signature:?}");
        assert_eq!(held.simulator.observed().confirmations, 2);
    }
}

#[tokio::test]
async fn signs_typed_data_with_arrays_and_numbers() {
    let member = |name: &str, kind| Member { name: name.into(), kind };
    let number = |byte: u8, length: usize| Value::Plain([vec![0; length - 1], vec![byte]].concat());
    let kinds = vec![
        member("list", MemberType::Array(Box::new(MemberType::Unsigned(8)), None)),
        member("pair", MemberType::Array(Box::new(MemberType::Structure("Item".into())), Some(2))),
        member("signed", MemberType::Signed(1)),
        member("fixed", MemberType::Bytes(Some(4))),
        member("data", MemberType::Bytes(None)),
        member("flag", MemberType::Bool),
    ];
    let item = vec![member("a", MemberType::Unsigned(32))];
    let domain = vec![member("name", MemberType::Text)];
    let items = |byte| Value::Parts(vec![number(byte, 32)]);
    // Hashed here independently, member by member.
    let word = |byte: u8| B256::with_last_byte(byte);
    let item_type = keccak256("Item(uint256 a)");
    let item_hash = |byte| keccak256([item_type, word(byte)].concat());
    let list_type = "List(uint64[] list,Item[2] pair,int8 signed,bytes4 fixed,bytes data,bool flag)Item(uint256 a)";
    let minus_one = B256::repeat_byte(0xff);
    let mut fixed = B256::ZERO;
    fixed[..4].copy_from_slice(b"abcd");
    let message_hash = keccak256(
        [
            keccak256(list_type),
            keccak256([word(1), word(2), word(3)].concat()),
            keccak256([item_hash(4), item_hash(5)].concat()),
            minus_one,
            fixed,
            keccak256(b"xyz"),
            word(1),
        ]
        .concat(),
    );
    let domain_separator = keccak256([keccak256("EIP712Domain(string name)"), keccak256("test")].concat());
    let data = TypedData {
        structures: BTreeMap::from([("EIP712Domain".into(), domain), ("List".into(), kinds), ("Item".into(), item)]),
        primary_type: "List".into(),
        domain: Value::Parts(vec![Value::Plain(b"test".to_vec())]),
        message: Value::Parts(vec![
            Value::Parts(vec![number(1, 8), number(2, 8), number(3, 8)]),
            Value::Parts(vec![items(4), items(5)]),
            Value::Plain(vec![0xff]),
            Value::Plain(b"abcd".to_vec()),
            Value::Plain(b"xyz".to_vec()),
            Value::Plain(vec![1]),
        ]),
        domain_separator,
        message_hash: Some(message_hash),
    };
    let mut held = Held::open(settings(Model::TLater)).await;

    held.wallet.sign_typed_data(ACCOUNT, data.clone(), &mut NoPerson, &mut never()).await.unwrap();
    let wrong = TypedData { message_hash: Some(B256::ZERO), ..data.clone() };
    let mismatch = held.wallet.sign_typed_data(ACCOUNT, wrong, &mut NoPerson, &mut never()).await;
    let short = TypedData { message: Value::Parts(Vec::new()), ..data };
    let missing = held.wallet.sign_typed_data(ACCOUNT, short, &mut NoPerson, &mut never()).await;

    assert!(matches!(mismatch, Err(DeviceError::SignerMismatch { .. })), "{mismatch:?}");
    assert_eq!(missing, Err(DeviceError::TypedDataRequest));
    sign(&mut held, legacy(Some(50), 0)).await.unwrap();
}
