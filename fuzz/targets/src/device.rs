//! Data from hardware wallets: packets, and the bodies of messages.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_device_framing::{FrameError, Message, PACKET_LENGTH, Packets, Reader, Wire, packet_count};
use tenon_device_session::{
    Answer, DerivationPath, DeviceInfo, Exchange, Fees, GetAddress, Initialize, Member, MemberType, Operation, Ping,
    SignMessage, SignTransaction, SignTypedData, SignTypedHash, Step, Transaction, TypedData, Value, Version,
};
use tenon_device_wallets::read_typed_data;
use tenon_proto::registry;

/// Consecutive packets, the last possibly shorter. A message has its packets' contents, and becomes the same packets
/// again except the padding.
pub(crate) fn frames(input: &[u8]) {
    let mut reader = Reader::new(Wire::Main);
    let mut taken: Vec<&[u8]> = Vec::new();
    for packet in input.chunks(PACKET_LENGTH) {
        let was_within = reader.is_within_message();
        taken.push(packet);
        match reader.push(packet) {
            Ok(None) => assert!(reader.is_within_message()),
            Ok(Some(message)) => {
                let length = u32::try_from(message.body.len()).expect("a short body");
                assert!(length <= Wire::Main.max_body());
                assert_eq!(taken.len(), packet_count(length) as usize);
                let again = Packets::new(message.id, &message.body).expect("a short body");
                let mut left = 8 + message.body.len();
                for (packet, came) in again.zip(&taken) {
                    let used = left.min(PACKET_LENGTH - 1);
                    assert_eq!(packet.as_bytes()[..=used], came[..=used], "message {}", message.id);
                    left -= used;
                }
                assert_eq!(left, 0);
            }
            Err(error) => {
                assert!(!reader.is_within_message());
                assert_eq!(matches!(error, FrameError::PacketLength { .. }), packet.len() != PACKET_LENGTH);
                assert_eq!(
                    matches!(error, FrameError::NoContinuation { .. }),
                    was_within && packet.len() == PACKET_LENGTH
                );
            }
        }
        if !reader.is_within_message() {
            taken.clear();
        }
    }
}

/// Two bytes of message number, then the body: a decoded body has one encoding, which decodes again. Unassigned numbers
/// have no body.
pub(crate) fn messages(input: &[u8]) {
    let Some((id, body)) = input.split_first_chunk::<2>() else { return };
    let id = u16::from_be_bytes(*id);
    let Some(entry) = registry::by_id(id) else {
        assert!(registry::entries().iter().all(|entry| entry.id != id));
        return;
    };
    match entry.canonical(body) {
        Ok(canonical) => {
            let again = entry.canonical(&canonical).expect("what was written is read");
            assert_eq!(again, canonical, "{}", entry.name);
        }
        Err(error) => assert!(error.to_string().contains(entry.name), "{error}"),
    }
}

/// Bytes of data in the requested transaction.
const DATA: usize = 5000;

/// Numbers of the messages that a session may send; none of them sets up, wipes, loads or updates a device.
const SENT: [u16; 14] = [0, 1, 19, 27, 42, 56, 58, 60, 64, 78, 452, 464, 466, 468];

/// A byte that chooses the operation, then messages: two bytes of number, two of length, a body. A device with these
/// answers gets only the data that it may request, and none of its signatures is accepted.
pub(crate) fn session(input: &[u8]) {
    let Some((choice, answers)) = input.split_first() else { return };
    let info = |is_model_one| DeviceInfo {
        version: if is_model_one { Version(1, 12, 1) } else { Version(2, 6, 4) },
        is_model_one,
        label: String::new(),
        device_id: String::new(),
        is_initialized: true,
        has_passphrase_entry: true,
        has_sessions: true,
    };
    let (one, later) = (info(true), info(false));
    let path = || DerivationPath::account(0);
    let account = Address::repeat_byte(1);
    let built = "a request that the device can sign";
    match choice % 8 {
        0 => drop(converse(Initialize::default(), answers)),
        1 => drop(converse(Ping::default(), answers)),
        2 => drop(converse(GetAddress::new(path(), false).expect(built), answers)),
        3 => {
            let operation = SignTransaction::new(&one, path(), account, transaction()).expect(built);
            let (signature, given) = converse(operation, answers);
            assert!(signature.is_none() && given <= DATA, "{given} bytes of data");
        }
        4 => {
            let fees =
                Fees::FeeMarket { max_fee: U256::from(2), max_priority_fee: U256::from(1), access_list: Vec::new() };
            let transaction = Transaction { fees, ..transaction() };
            let operation = SignTransaction::new(&later, path(), account, transaction).expect(built);
            assert!(converse(operation, answers).0.is_none());
        }
        5 => {
            let operation = SignMessage::new(&one, path(), account, b"hello".to_vec()).expect(built);
            assert!(converse(operation, answers).0.is_none());
        }
        6 => {
            let operation = SignTypedHash::new(&one, path(), account, B256::ZERO, None).expect(built);
            assert!(converse(operation, answers).0.is_none());
        }
        _ => {
            let operation = SignTypedData::new(&later, path(), account, typed_data()).expect(built);
            assert!(converse(operation, answers).0.is_none());
        }
    }
}

/// Runs an exchange with these answers of a device. Returns the result, and the bytes of data sent to the device after
/// the request.
fn converse<O: Operation>(operation: O, mut answers: &[u8]) -> (Option<O::Output>, usize) {
    let mut exchange = Exchange::new(operation, true);
    assert!(SENT.contains(&exchange.begin().id) || exchange.begin().id == 470);
    let mut given = 0;
    while let Some((header, rest)) = answers.split_first_chunk::<4>() {
        let [id_high, id_low, length_high, length_low] = *header;
        let length = usize::from(u16::from_be_bytes([length_high, length_low])).min(rest.len());
        let (body, rest) = rest.split_at(length);
        answers = rest;
        let message = Message { id: u16::from_be_bytes([id_high, id_low]), body: body.to_vec().into() };
        let next = match exchange.message(&message) {
            Ok(Step::Send(next, _)) => next,
            Ok(Step::Done(result)) => return (Some(result), given),
            Ok(Step::Ask(question)) => {
                match exchange.answer(question.number, Answer::Passphrase(String::from("secret").into())) {
                    Ok((next, _)) => next,
                    Err(_) => return (None, given),
                }
            }
            Err(_) => return (None, given),
        };
        assert!(SENT.contains(&next.id), "message {} was sent", next.id);
        if next.id == 60 {
            given += next.body.len() - 3;
        }
    }
    (None, given)
}

fn transaction() -> Transaction {
    Transaction {
        chain_id: Some(50),
        nonce: 1,
        gas_limit: 21_000,
        to: Some(Address::ZERO),
        value: U256::ZERO,
        data: Bytes::from(vec![7; DATA]),
        fees: Fees::Legacy { gas_price: U256::from(1) },
    }
}

fn typed_data() -> TypedData {
    let member = |kind| vec![Member { name: "a".into(), kind }];
    let list = MemberType::Array(Box::new(MemberType::Structure("B".into())), None);
    TypedData {
        structures: BTreeMap::from([
            ("EIP712Domain".into(), member(MemberType::Text)),
            ("A".into(), member(list)),
            ("B".into(), member(MemberType::Unsigned(32))),
        ]),
        primary_type: "A".into(),
        domain: Value::Parts(vec![Value::Plain(b"x".to_vec())]),
        message: Value::Parts(vec![Value::Parts(vec![Value::Parts(vec![Value::Plain(vec![0; 32])])])]),
        domain_separator: B256::ZERO,
        message_hash: Some(B256::ZERO),
    }
}

/// Valid answers of devices to each operation.
pub(crate) fn answers() -> Vec<Vec<u8>> {
    let message = |id: u16, body: &[u8]| [&id.to_be_bytes()[..], &(body.len() as u16).to_be_bytes(), body].concat();
    let signature = [&[0x1a, 32][..], &[1; 32], &[0x22, 32], &[2; 32]].concat();
    let of_65 = [&[0x0a, 65][..], &[1; 65], b"\x12\x2a0x0101010101010101010101010101010101010101"].concat();
    let of_message = [&[0x12, 65][..], &[1; 65], b"\x1a\x2a0x0101010101010101010101010101010101010101"].concat();
    let scripts = [
        vec![message(17, b"\x0a\x09trezor.io\x10\x02\x18\x01\x9a\x02\x02id")],
        vec![message(18, b"\x08\x01"), message(41, b""), message(77, b"\x0a\x02ab"), message(2, b"")],
        vec![message(26, b"\x08\x0a"), message(57, b"\x12\x2a0x0101010101010101010101010101010101010101")],
        vec![message(26, b"\x08\x08"), message(59, b"\x08\x80\x08"), message(59, b"\x08\x01")],
        vec![message(59, b"\x08\x80\x08"), message(59, &[&b"\x10\x01"[..], &signature].concat())],
        vec![message(66, &of_message)],
        vec![message(469, &of_65)],
        vec![message(465, b"\x0a\x01A"), message(467, b"\x08\x01\x08\x00"), message(469, &of_65)],
    ];
    let with_choice = |choice: usize, script: &[Vec<u8>]| [&[choice as u8][..], &script.concat()].concat();
    let failure = message(3, b"\x08\x04\x12\x02no");
    let mut answers: Vec<Vec<u8>> =
        scripts.iter().enumerate().map(|(choice, script)| with_choice(choice, script)).collect();
    answers.extend((0..8).map(|choice| with_choice(choice, std::slice::from_ref(&failure))));
    answers
}

/// Valid packets of devices, and some invalid ones.
pub(crate) fn packets() -> Vec<Vec<u8>> {
    let cut = |id, body: &[u8]| -> Vec<u8> {
        Packets::new(id, body).expect("a short body").flat_map(|packet| *packet.as_bytes()).collect()
    };
    let answers = [(57, 44), (59, 71), (26, 2), (17, 120), (3, 0), (17, 55), (17, 56)];
    let mut packets: Vec<Vec<u8>> = answers.map(|(id, length)| cut(id, &vec![b'#'; length])).into();
    packets.push([cut(26, b"\x08\x08"), cut(57, &[1; 200]), cut(3, b"\x08\x04")].concat());
    let broken = [cut(57, &[1; 200])[..64].to_vec(), vec![0; 64], cut(3, b"")].concat();
    let mut long = cut(17, b"");
    long[5..9].copy_from_slice(&[0, 1, 0, 1]);
    packets.extend([broken, long, vec![b'?'; 63], vec![0; 65]]);
    packets
}

/// A body for every number: empty, with unknown fields, and with a field of every form.
pub(crate) fn bodies() -> Vec<Vec<u8>> {
    let forms: [&[u8]; 6] = [
        b"",
        b"\x08\x02",
        b"\x0a\x02\x08\x01",
        b"\x12\x04\x0a\x02\x08\x01",
        b"\xca\xb2\x04\x03abc\x10\x05",
        b"\x0a\x05cut",
    ];
    let numbers = registry::entries().iter().map(|entry| entry.id).chain([219, 300]);
    numbers.flat_map(|id| forms.map(|form| [id.to_be_bytes().as_slice(), form].concat())).collect()
}

/// Parsed typed data has a value for every member, and at most two values per byte of its text, plus two.
pub(crate) fn typed_data_text(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(data) = read_typed_data(text, B256::ZERO, Some(B256::ZERO)) else { return };
    let members = |name: &str| data.structures.get(name).map(Vec::len);
    assert_eq!(parts(&data.domain), members("EIP712Domain"));
    assert_eq!(parts(&data.message), members(&data.primary_type));
    assert!(count(&data.domain) + count(&data.message) <= 2 * text.len() + 2, "more values than the text has");
}

fn parts(value: &Value) -> Option<usize> {
    match value {
        Value::Parts(parts) => Some(parts.len()),
        Value::Plain(_) => None,
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Parts(parts) => 1 + parts.iter().map(count).sum::<usize>(),
        Value::Plain(_) => 1,
    }
}

/// Typed data of all kinds, some of which declare more values than they contain.
pub(crate) fn typed_data_texts() -> Vec<Vec<u8>> {
    let domain = r#""domain": {"name": "Tenon", "chainId": 51, "salt": null}"#;
    let member = |name: &str, kind: &str| format!(r#"{{"name": "{name}", "type": "{kind}"}}"#);
    let types = [
        member("number", "uint64"),
        member("debt", "int8"),
        member("hash", "bytes32"),
        member("data", "bytes"),
        member("to", "address[2]"),
        member("inner", "U[][1]"),
    ];
    let whole = format!(
        r#"{{"types": {{"T": [{}], "U": [{}]}}, "primaryType": "T", {domain}, "message": {{"number": "0x1f", "debt": -3,
        "hash": "0x{}", "data": "0x", "to": ["0x{}", "0x{}"], "inner": [[{{"is": true}}, {{"is": false}}]]}}}}"#,
        types.join(","),
        member("is", "bool"),
        "ab".repeat(32),
        "01".repeat(20),
        "02".repeat(20),
    );
    let alone = format!(r#"{{"types": {{}}, "primaryType": "EIP712Domain", {domain}}}"#);
    let turning = format!(
        r#"{{"types": {{"T": [{}]}}, "primaryType": "T", {domain}, "message": {{"t": [{{"t": [{{"t": []}}]}}]}}}}"#,
        member("t", "T[]"),
    );
    let doubled = format!(
        r#"{{"types": {{"T": [{0}, {0}]}}, "primaryType": "T", {domain}, "message": {{"t": []}}}}"#,
        member("t", "T[]"),
    );
    [whole, alone, turning, doubled].map(String::into_bytes).to_vec()
}
