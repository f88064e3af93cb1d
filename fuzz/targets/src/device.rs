//! Data from hardware wallets: packets, and the bodies of messages.

use tenon_device_framing::{FrameError, PACKET_LENGTH, Packets, Reader, Wire, packet_count};
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

/// Valid and some invalid packets of devices.
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
