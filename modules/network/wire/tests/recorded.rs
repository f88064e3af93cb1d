//! Messages of the recorded sessions and of the specification, decoded and encoded again.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::collections::BTreeSet;

use alloy_primitives::{Address, B256, Bytes, U256, b256, hex, keccak256};
use serde::Deserialize;
use tenon_api::{Header, NativeSeal};
use tenon_chain::ForkId;
use tenon_chain::round_messages::{
    BlockInfo, QuorumCertificate, SyncInfo, Timeout, TimeoutCertificate, Vote, timeout_digest, vote_digest,
};
use tenon_network_wire::{
    Announced, HeaderOrigin, HeaderRequest, Integer, Kind, Lending, Message, NewBlock, Order, Status, Version,
    WireError, has_own_body, version,
};
use tenon_test_data::json;

#[derive(Deserialize)]
struct File {
    sessions: Vec<Session>,
}

#[derive(Deserialize)]
struct Session {
    note: String,
    frames: Vec<Frame>,
}

#[derive(Deserialize)]
struct Frame {
    code: u64,
    name: String,
    payload: String,
}

fn sessions() -> Vec<Session> {
    let files = ["dialed-local", "dialed-staged", "dialing", "transactions", "consensus"];
    files.iter().flat_map(|file| json::<File>(format!("p2p/{file}.json.gz")).sessions).collect()
}

fn newest() -> &'static Version {
    version(100).unwrap()
}

fn decode(kind: Kind, payload: &str) -> Result<Message, WireError> {
    let of = if newest().code(kind).is_some() { newest() } else { version(165).unwrap() };
    Message::decode(of, of.code(kind).unwrap(), &hex::decode(payload).unwrap())
}

/// Checks that the message encodes to these bytes, and that these bytes decode to the message.
fn same(message: &Message, payload: &str) {
    let (kind, encoded) = message.encode().unwrap();
    assert_eq!(hex::encode(&encoded), payload, "{kind:?}");
    assert_eq!(decode(kind, payload).as_ref(), Ok(message));
}

#[test]
fn every_recorded_message_round_trips_byte_for_byte() {
    let mut kinds = BTreeSet::new();
    for session in sessions() {
        let number = [63, 62].into_iter().find(|number| session.note.contains(&format!("eth/{number}"))).unwrap_or(100);
        let version = version(number).unwrap();
        for frame in session.frames.iter().filter(|frame| frame.code >= 16) {
            let payload = hex::decode(&frame.payload).unwrap();
            let message = Message::decode(version, frame.code - 16, &payload)
                .unwrap_or_else(|error| panic!("{}: {}: {error}", session.note, frame.name));
            let (kind, encoded) = message.encode().unwrap();
            assert_eq!(format!("{kind:?}"), frame.name);
            assert_eq!(hex::encode(encoded), frame.payload, "{}: {}", session.note, frame.name);
            kinds.insert(kind);
        }
    }
    assert_eq!(kinds.len(), 14, "{kinds:?}");
}

/// The recorded messages of a kind.
fn messages(kind: &str) -> Vec<Message> {
    let frames = sessions().into_iter().flat_map(|session| session.frames).filter(|frame| frame.name == kind);
    let decoded = frames.map(|frame| Message::decode(newest(), frame.code - 16, &hex::decode(&frame.payload).unwrap()));
    decoded.map(Result::unwrap).collect()
}

#[test]
fn a_foreign_body_of_a_block_is_recognised_by_its_encoded_bytes() {
    let has_own = |new: &NewBlock| has_own_body(&Message::NewBlock(Box::new(new.clone())).encode().unwrap().1).unwrap();
    let transactions = messages("Transactions").into_iter().flat_map(|message| match message {
        Message::Transactions(transactions) => transactions,
        other => panic!("{other:?}"),
    });
    let transactions: Vec<_> = transactions.collect();
    let types: BTreeSet<u8> = transactions.iter().map(|transaction| transaction.transaction_type() as u8).collect();
    assert!(transactions.len() > 1 && types.len() > 1, "{types:?}");
    let blocks = messages("NewBlock");
    assert!(!blocks.is_empty());
    for message in blocks {
        let Message::NewBlock(recorded) = message else { panic!("{message:?}") };
        let mut new = *recorded;
        assert!(has_own(&new));
        new.block.transactions = transactions.clone();
        assert!(!has_own(&new));
        let mut header: Header = new.block.header.header().clone();
        header.transactions_root = tenon_chain::transactions_root(&transactions);
        new.block.header = tenon_chain::seal(header.clone());
        assert!(has_own(&new));
        new.block.ommers.push(header.clone());
        assert!(!has_own(&new));
        header.ommers_hash = tenon_chain::ommers_hash(&new.block.ommers);
        new.block.header = tenon_chain::seal(header);
        assert!(has_own(&new));
    }
    assert!(has_own_body(&[0xc0]).is_err());
}

/// `docs/spec/p2p.md` 26.5.
#[test]
fn statuses_and_requests_have_the_specifications_bytes() {
    let mainnet = b256!("4a9d748bd78a8d0385b67788c2435dcdb914f98a96250b68863a1f8b7642d6b1");
    let status = Status {
        version: 100,
        network: 50,
        total_difficulty: U256::ONE,
        head: mainnet,
        genesis: mainnet,
        fork_id: None,
    };
    same(
        &Message::Status(status.clone()),
        "f845643201a04a9d748bd78a8d0385b67788c2435dcdb914f98a96250b68863a1f8b7642d6b1a04a9d748bd78a8d0385b67788c2435dcdb914f98a96250b68863a1f8b7642d6b1",
    );
    let (dead, feed) = (
        b256!("00000000000000000000000000000000000000000000000000000000deadc0de"),
        b256!("00000000000000000000000000000000000000000000000000000000feedbeef"),
    );
    let request =
        |origin, amount, skip, is_reverse| Message::GetBlockHeaders(HeaderRequest { origin, amount, skip, is_reverse });
    same(
        &request(HeaderOrigin::Hash(dead), 5, 5, false),
        "e4a000000000000000000000000000000000000000000000000000000000deadc0de050580",
    );
    same(&request(HeaderOrigin::Number(9999), 5, 5, false), "c682270f050580");
    same(&request(HeaderOrigin::Number(314), 192, 0, true), "c782013a81c08001");
    let hashes = "f842a000000000000000000000000000000000000000000000000000000000deadc0dea000000000000000000000000000000000000000000000000000000000feedbeef";
    same(&Message::GetBlockBodies(vec![dead, feed]), hashes);
    same(&Message::GetReceipts(vec![dead, feed]), hashes);
    same(&Message::GetNodeData(vec![dead, feed]), hashes);
    same(&Message::NewPooledTransactionHashes(vec![dead, feed]), hashes);
    same(&Message::GetPooledTransactions(vec![dead, feed]), hashes);
    same(&Message::BlockHeaders(Vec::new()), "c0");
    same(
        &Message::NewBlockHashes(vec![Announced { hash: dead, number: 9999 }]),
        "e5e4a000000000000000000000000000000000000000000000000000000000deadc0de82270f",
    );
    let transactions = "f8d2f867088504a817c8088302e2489435353535353535353535353535353535353535358202008025a064b1702d9298fee62dfeccc57d322a463ad55ca201256d01f62b45b2e1c21c12a064b1702d9298fee62dfeccc57d322a463ad55ca201256d01f62b45b2e1c21c10f867098504a817c809830334509435353535353535353535353535353535353535358202d98025a052f8f61201b2b11a78d6e866abc9c3db2ae8631fa656bfe5cb53668255367afba052f8f61201b2b11a78d6e866abc9c3db2ae8631fa656bfe5cb53668255367afb";
    same(&decode(Kind::Transactions, transactions).unwrap(), transactions);

    let forked = Status { version: 164, fork_id: Some(ForkId { hash: [0x7f, 0xcf, 0xc8, 0xb0], next: 0 }), ..status };
    let encoded = forked.encode();
    let read = Message::decode(version(164).unwrap(), 0, &encoded).unwrap();
    assert_eq!(read, Message::Status(forked));
    assert!(Message::decode(newest(), 0, &encoded).is_err());
}

/// `docs/spec/p2p.md` 26.5.
#[test]
fn consensus_messages_have_the_specifications_bytes_and_hashes() {
    let block = BlockInfo {
        hash: b256!("00000000000000000000000000000000000000000000000000000000000007ff"),
        round: 306,
        number: 900,
    };
    let signature = Bytes::from(hex!("0102030405060708"));
    let vote = Vote { block, signature: signature.clone(), gap_number: 450 };
    same(
        &Message::Vote(vote.clone()),
        "f4e7a000000000000000000000000000000000000000000000000000000000000007ff8201328203848801020304050607088201c2",
    );
    assert_eq!(vote.hash(), b256!("44103bcbc8040f479b51c04b349977a8872c9c020729532b033e3063055775fd"));
    assert_eq!(vote_digest(&block, 450), b256!("60ee1b95d73140d4ff950af3c62bdcde95aaf597a6bb13dd80f938829d1542a1"));
    let timeout = Timeout { round: 10, signature: signature.clone(), gap_number: 0 };
    same(&Message::Timeout(timeout), "cb0a88010203040506070880");
    assert_eq!(timeout_digest(307, 450), b256!("defd7ddb247399f27986e3816e5a7be67d15978394cf93b49e58569e7ee23f8e"));
    let quorum = QuorumCertificate { block, signatures: vec![signature.clone()], gap_number: 450 };
    let initial = SyncInfo { quorum: quorum.clone(), timeout: TimeoutCertificate::default() };
    same(
        &Message::SyncInfo(Box::new(initial)),
        "f83af5e7a000000000000000000000000000000000000000000000000000000000000007ff820132820384c98801020304050607088201c2c380c080",
    );
    let absent = "f7f5e7a000000000000000000000000000000000000000000000000000000000000007ff820132820384c98801020304050607088201c2c0";
    assert!(decode(Kind::SyncInfo, absent).is_err());
}

#[test]
fn a_vote_for_an_impossible_height_does_not_penalise_its_sender() {
    // 2^64 + 900 in place of 900.
    let content = "a000000000000000000000000000000000000000000000000000000000000007ff82013289010000000000000384";
    let mut content = hex::decode(content).unwrap();
    let mut block = vec![0xc0 + u8::try_from(content.len()).unwrap()];
    block.append(&mut content);
    block.extend_from_slice(&hex!("8801020304050607088201c2"));
    let mut payload = vec![0xf8, u8::try_from(block.len()).unwrap()];
    payload.append(&mut block);
    assert_eq!(decode(Kind::Vote, &hex::encode(&payload)), Ok(Message::UnusableVote));
    assert_eq!(Message::UnusableVote.encode(), None);
}

/// `docs/spec/p2p.md` 26.5.
#[test]
fn orders_and_lendings_are_decoded_and_never_encoded() {
    let (number, text) = (|value: u64| integer(value), |text: &'static str| Bytes::from_static(text.as_bytes()));
    let order = Order {
        nonce: 1,
        quantity: number(1000),
        price: number(2000),
        exchange: Address::repeat_byte(0x11),
        user: Address::repeat_byte(0x22),
        base_token: Address::repeat_byte(0x33),
        quote_token: Address::repeat_byte(0x44),
        status: text("NEW"),
        side: text("BUY"),
        kind: text("LO"),
        order_id: 0,
        v: number(27),
        r: number(1),
        s: number(2),
        hash: B256::ZERO,
    };
    let encoded = alloy_rlp::encode(&order);
    assert_eq!(keccak256(&encoded), b256!("2c000729cd9095c2745065f81477bb73edb5db9447ecc44157558568e255f754"));
    let lending = Lending {
        nonce: 1,
        quantity: number(1000),
        interest: 5,
        relayer: Address::repeat_byte(0x11),
        user: Address::repeat_byte(0x22),
        collateral_token: Address::repeat_byte(0x33),
        tops_up: true,
        lending_token: Address::repeat_byte(0x44),
        term: 86400,
        status: text("NEW"),
        side: text("BORROW"),
        kind: text("LO"),
        v: number(27),
        r: number(1),
        s: number(2),
        ..Lending::default()
    };
    let encoded_lending = alloy_rlp::encode(&lending);
    assert_eq!(keccak256(&encoded_lending), b256!("07caca30432da97af4087f0e20b135d365cc560bb5fd7dc061e0a37228f95eee"));

    let orders = decode(Kind::OrderTx, &hex::encode(alloy_rlp::encode(vec![order.clone()]))).unwrap();
    assert_eq!((orders.encode(), orders), (None, Message::Orders(vec![order])));
    let lendings = decode(Kind::LendingTx, &hex::encode(alloy_rlp::encode(vec![lending.clone()]))).unwrap();
    assert_eq!((lendings.encode(), lendings), (None, Message::Lendings(vec![lending])));
}

fn integer(value: u64) -> Integer {
    let bytes = value.to_be_bytes();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Integer(Bytes::copy_from_slice(&bytes[zeros..]))
}

#[test]
fn limits_are_checked_before_memory_is_allocated() {
    use tenon_network_wire::limits::{MAX_ANSWER_ITEMS, MAX_BODIES, MAX_CONSENSUS_BYTES, MAX_MESSAGE_BYTES};
    let list = |item: &[u8], times: usize| hex::encode(alloy_rlp_list(item, times));
    assert_eq!(
        decode(Kind::NodeData, &list(&[0x80], MAX_ANSWER_ITEMS + 1)),
        Err(WireError::TooManyItems { limit: MAX_ANSWER_ITEMS })
    );
    assert!(matches!(decode(Kind::Receipts, &list(&[0xc0], 1 << 20)), Err(WireError::TooManyItems { .. })));
    assert!(matches!(decode(Kind::SyncInfo, &list(&[0x80], MAX_CONSENSUS_BYTES)), Err(WireError::TooLong { .. })));
    assert!(matches!(decode(Kind::NodeData, &"00".repeat(MAX_MESSAGE_BYTES + 1)), Err(WireError::TooLong { .. })));
    let hash = alloy_rlp::encode(B256::repeat_byte(1));
    let Ok(Message::GetBlockBodies(hashes)) = decode(Kind::GetBlockBodies, &list(&hash, 1000)) else { panic!() };
    assert_eq!(hashes.len(), MAX_BODIES);
    // A typed transaction without payload, and a transaction that is a number.
    assert!(decode(Kind::Transactions, "c3820300").is_err());
    assert!(decode(Kind::Transactions, "c180").is_err());
}

#[test]
fn only_the_first_announced_blocks_are_decoded_without_duplicates() {
    use tenon_network_wire::limits::MAX_ANNOUNCED_BLOCKS;
    let announced = |number: u64| Announced { hash: B256::left_padding_from(&number.to_be_bytes()), number };
    let list = |numbers: &mut dyn Iterator<Item = u64>| {
        let content: Vec<u8> = numbers.flat_map(|number| alloy_rlp::encode(announced(number))).collect();
        hex::encode(alloy_rlp_list(&content, 1))
    };

    let equal = decode(Kind::NewBlockHashes, &list(&mut std::iter::repeat_n(7, 4096))).unwrap();
    let many = decode(Kind::NewBlockHashes, &list(&mut (0..4096))).unwrap();

    assert_eq!(equal, Message::NewBlockHashes(vec![announced(7)]));
    assert_eq!(many, Message::NewBlockHashes((0..MAX_ANNOUNCED_BLOCKS as u64).map(announced).collect()));
}

#[test]
fn headers_without_the_native_items_are_refused() {
    let message = |header: &Header| {
        let mut encoded = Vec::new();
        tenon_chain::encode_header(header, &mut encoded);
        decode(Kind::BlockHeaders, &hex::encode(alloy_rlp_list(&encoded, 1)))
    };
    let native = Header { native_seal: Some(NativeSeal::default()), ..Header::default() };

    assert!(matches!(message(&native), Ok(Message::BlockHeaders(headers)) if headers.len() == 1));
    assert_eq!(message(&Header::default()), Err(WireError::ForeignHeader));
}

fn alloy_rlp_list(item: &[u8], times: usize) -> Vec<u8> {
    let mut out = Vec::new();
    alloy_rlp::Header { list: true, payload_length: item.len() * times }.encode(&mut out);
    (0..times).for_each(|_| out.extend_from_slice(item));
    out
}
