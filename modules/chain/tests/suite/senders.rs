//! Signature rules by height.

use alloy_primitives::{Address, B256, Bytes, U256, address, b256, hex, uint};
use tenon_api::{SignedAuthorization, Transaction, TransactionPayload, TransactionSignature, TransactionType};
use tenon_chain::{
    Activation, ChainSpec, Fork, HighS, RecoverError, SignerRules, authorization_signing_hash, decode_transaction,
    recover_authorities, recover_sender, recover_sender_with, signing_hash,
};

/// Order of the group of the curve.
const ORDER: U256 = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);

/// The example transaction of EIP-155.
fn example() -> Transaction {
    decode_transaction(&hex!(
        "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
    ))
    .unwrap()
}

const EXAMPLE_SENDER: Address = address!("9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f");

#[test]
fn the_example_of_eip_155_has_its_signing_hash_and_sender() {
    let example = example();

    assert_eq!(example.chain_id, Some(1));
    assert_eq!(signing_hash(&example), b256!("daf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53"));
    assert_eq!(recover_sender(&example), Ok(EXAMPLE_SENDER));
}

#[test]
fn a_signature_with_negated_s_is_valid_only_if_high_s_is_allowed() {
    let mut twin = example();
    twin.signature.s = ORDER - twin.signature.s;
    twin.signature.v = 38;

    assert_eq!(recover_sender(&twin), Err(RecoverError::InvalidSignature));
    assert_eq!(recover_sender_with(&twin, HighS::Allowed), Ok(EXAMPLE_SENDER));
}

#[test]
fn numbers_out_of_range_are_refused() {
    let cases: [fn(&mut TransactionSignature); 6] = [
        |signature| signature.r = U256::ZERO,
        |signature| signature.s = U256::ZERO,
        |signature| signature.r = ORDER,
        |signature| signature.s = ORDER,
        |signature| signature.v = 29,
        |signature| signature.v = 0,
    ];
    for (index, spoil) in cases.into_iter().enumerate() {
        let mut spoiled = example();
        spoil(&mut spoiled.signature);
        let found = recover_sender_with(&spoiled, HighS::Allowed);
        assert_eq!(found, Err(RecoverError::InvalidSignature), "case {index}");
    }
    let mut no_point = example();
    no_point.signature.r = U256::from(5);
    assert_eq!(recover_sender(&no_point), Err(RecoverError::InvalidPublicKey));
}

#[test]
fn a_typed_transaction_has_parity_zero_or_one() {
    let mut typed = Transaction {
        hash: B256::ZERO,
        chain_id: Some(1),
        nonce: 0,
        gas_limit: 21_000,
        to: None,
        value: U256::ZERO,
        input: Bytes::new(),
        payload: TransactionPayload::DynamicFee {
            max_fee_per_gas: U256::ZERO,
            max_priority_fee_per_gas: U256::ZERO,
            access_list: vec![],
        },
        signature: example().signature,
    };
    for (v, stands) in [(0, true), (1, true), (2, false), (27, false), (37, false)] {
        typed.signature.v = v;
        assert_eq!(recover_sender(&typed).is_ok(), stands, "v = {v}");
    }
}

#[test]
fn the_rules_of_a_height_determine_the_valid_transactions() {
    let spec = ChainSpec::ethereum(
        1,
        [
            (Fork::Homestead, Activation::Block(10)),
            (Fork::SpuriousDragon, Activation::Block(20)),
            (Fork::Berlin, Activation::Block(30)),
            (Fork::London, Activation::Block(40)),
        ],
    );
    let rules = |number| spec.signer_rules(number, 0);

    assert_eq!(rules(19).sender(&example()), Err(RecoverError::InvalidSignature));
    assert_eq!(rules(20).sender(&example()), Ok(EXAMPLE_SENDER));
    let other_chain = SignerRules { chain_id: 5, ..rules(20) };
    assert_eq!(other_chain.sender(&example()), Err(RecoverError::WrongChain { found: 1, wanted: 5 }));
    assert_eq!((rules(9).high_s, rules(10).high_s), (HighS::Allowed, HighS::Refused));
    assert_eq!(rules(29).highest_type, TransactionType::Legacy);
    assert_eq!(rules(30).highest_type, TransactionType::AccessList);
    assert_eq!(rules(40).highest_type, TransactionType::DynamicFee);
    assert_eq!(ChainSpec::ethereum_at(1, Fork::Cancun).signer_rules(0, 0).highest_type, TransactionType::Blob);
    assert_eq!(ChainSpec::ethereum_at(1, Fork::Prague).signer_rules(0, 0).highest_type, TransactionType::SetCode);
}

/// Hash and signature made by another program (`docs/spec/upgrades.md` 7.2). A high `s` is refused.
#[test]
fn an_authorization_has_its_signing_hash_and_authority() {
    let authorization = SignedAuthorization {
        chain_id: U256::from(5151),
        address: Address::repeat_byte(0x7a),
        nonce: 3,
        y_parity: 0,
        r: uint!(0xcb7f96c7a1564984909a482149e557ef69e62aac206b3356f6d2c45767231d40_U256),
        s: uint!(0x4365abd6047e98bdaab2d98bc2f03189c465ed428c45f3f87b40060576273e27_U256),
    };
    let high_s = SignedAuthorization { y_parity: 1, s: ORDER - authorization.s, ..authorization.clone() };

    let hash = b256!("3b0c8b41b60d1b3da0d9a7f76c188162f17a292bd32ffb4052c63ea1fe2558f4");
    assert_eq!(authorization_signing_hash(&authorization), hash);
    assert_eq!(
        recover_authorities(&[authorization, high_s]),
        [Ok(address!("d41c057fd1c78805aac12b0a94a405c0461a6fbb")), Err(RecoverError::InvalidSignature)]
    );
}
