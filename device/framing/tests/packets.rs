//! Splitting and joining of complete, broken and hostile messages.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use proptest::prelude::*;
use tenon_device_framing::{
    FrameError, HidProbe, HidVersion, Message, PACKET_LENGTH, Packet, Packets, ProbeStep, Reader, Wire, packet_count,
};

fn packets(id: u16, body: &[u8]) -> Vec<Packet> {
    Packets::new(id, body).unwrap().collect()
}

fn read(reader: &mut Reader, packets: &[Packet]) -> Option<Message> {
    let mut message = None;
    for packet in packets {
        assert_eq!(message, None, "the message was complete before its last packet");
        message = reader.push(packet.as_bytes()).unwrap();
    }
    message
}

/// The first packet of a message of this length.
fn beginning(length: u32) -> [u8; PACKET_LENGTH] {
    let mut packet = [7; PACKET_LENGTH];
    packet[..5].copy_from_slice(b"?##\0\x11");
    packet[5..9].copy_from_slice(&length.to_be_bytes());
    packet
}

#[test]
fn a_message_takes_as_many_packets_as_its_length_says() {
    for (length, count) in [(0, 1), (1, 1), (55, 1), (56, 2), (118, 2), (119, 3), (65_536, 1041)] {
        assert_eq!(packet_count(length), count, "{length}");
        assert_eq!(packets(1, &vec![0; length as usize]).len(), count as usize, "{length}");
    }
    assert_eq!(packet_count(u32::MAX), 68_174_085);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_split_message_is_joined_again(id: u16, body in prop::collection::vec(any::<u8>(), 0..2000), padding: u8) {
        let mut sent = packets(id, &body);
        prop_assert_eq!(sent.len(), packet_count(body.len() as u32) as usize);
        prop_assert!(sent.iter().all(|packet| packet.as_bytes()[0] == b'?'));

        let mut reader = Reader::new(Wire::Main);
        let message = read(&mut reader, &sent).unwrap();
        prop_assert_eq!((message.id, message.body.as_slice()), (id, body.as_slice()));
        prop_assert!(!reader.is_within_message());

        // Bytes beyond the announced length may have any value.
        let mut last = *sent.pop().unwrap().as_bytes();
        let used = if sent.is_empty() { 9 + body.len() } else { 1 + (body.len() - 55 - 1) % 63 + 1 };
        last[used..].fill(padding);
        prop_assert!(read(&mut reader, &sent).is_none());
        let message = reader.push(&last).unwrap().unwrap();
        prop_assert_eq!(message.body.as_slice(), body.as_slice());
    }

    #[test]
    fn an_abandoned_message_is_complete_for_the_device(length in 56usize..1000, sent in 1usize..20) {
        let body = vec![1; length];
        let mut cut = Packets::new(9, &body).unwrap();
        let mut out: Vec<Packet> = cut.by_ref().take(sent).collect();
        out.extend(cut.abandon());

        prop_assert_eq!(out.len(), packet_count(length as u32) as usize);
        let message = read(&mut Reader::new(Wire::Main), &out).unwrap();
        let own = (55 + 63 * (sent - 1)).min(length);
        prop_assert!(message.body[..own].iter().all(|byte| *byte == 1));
        prop_assert!(message.body[own..].iter().all(|byte| *byte == 0xff));
    }

    #[test]
    fn any_packets_are_messages_or_errors(
        input in prop::collection::vec((prop::collection::vec(any::<u8>(), 56..72), 0u8..4, any::<bool>()), 0..40)
    ) {
        let mut reader = Reader::new(Wire::Main);
        for (mut packet, kind, is_exact) in input {
            if is_exact { packet.resize(PACKET_LENGTH, 0); }
            match kind {
                0 => packet[..7].copy_from_slice(b"?##\0\x03\0\0"),
                1 => packet[0] = b'?',
                _ => {}
            }
            match reader.push(&packet) {
                Ok(Some(message)) => prop_assert!(message.body.len() <= Wire::Main.max_body() as usize),
                Ok(None) => prop_assert!(reader.is_within_message()),
                Err(_) => prop_assert!(!reader.is_within_message()),
            }
        }
    }
}

#[test]
fn the_longest_answer_is_read_and_a_longer_one_refused_at_once() {
    for (wire, max) in [(Wire::Main, 65_536), (Wire::Debug, 131_072)] {
        let mut reader = Reader::new(wire);
        assert_eq!(read(&mut reader, &packets(17, &vec![7; max as usize])).unwrap().body.len(), max as usize);

        let error = reader.push(&beginning(max + 1)).unwrap_err();

        assert_eq!(error, FrameError::MessageLength { id: 17, length: max + 1, max });
        assert!(!reader.is_within_message());
        assert!(reader.push(&beginning(u32::MAX)).is_err());
    }
}

#[test]
fn only_packets_of_64_bytes_are_taken() {
    let mut reader = Reader::new(Wire::Main);
    for length in [0, 1, 63, 65, 1000] {
        let mut packet = beginning(1).to_vec();
        packet.resize(length, 0);
        assert_eq!(reader.push(&packet), Err(FrameError::PacketLength { length }));
    }
}

#[test]
fn a_packet_without_magic_begins_nothing() {
    let mut reader = Reader::new(Wire::Main);
    for at in 0..3 {
        let mut packet = beginning(1);
        packet[at] ^= 1;
        assert_eq!(reader.push(&packet), Err(FrameError::NoBeginning));
    }
    assert_eq!(reader.push(Packet::reset().as_bytes()), Err(FrameError::NoBeginning));
    assert!(reader.push(&beginning(1)).unwrap().is_some(), "the next message is read");
}

#[test]
fn a_message_that_breaks_off_is_an_error_and_the_next_is_read() {
    let mut reader = Reader::new(Wire::Main);
    assert_eq!(reader.push(&beginning(100)), Ok(None));

    let error = reader.push(&[0; PACKET_LENGTH]).unwrap_err();

    assert_eq!(error, FrameError::NoContinuation { id: 17, received: 55, length: 100 });
    assert!(reader.push(&beginning(1)).unwrap().is_some());
}

#[test]
fn a_first_packet_within_a_message_is_taken_as_its_continuation() {
    let mut reader = Reader::new(Wire::Main);
    reader.push(&beginning(118)).unwrap();

    let message = reader.push(&beginning(1)).unwrap().unwrap();

    assert_eq!(&message.body[55..60], b"##\0\x11\0");
}

#[test]
fn a_reset_reader_waits_for_a_first_packet() {
    let mut reader = Reader::new(Wire::Main);
    reader.push(&beginning(100)).unwrap();

    reader.reset();

    assert!(!reader.is_within_message());
    assert!(reader.push(&beginning(2)).unwrap().is_some());
}

#[test]
fn abandoning_an_unsent_or_complete_message_sends_nothing() {
    let body = [1; 100];
    assert_eq!(Packets::new(1, &body).unwrap().abandon().count(), 0);
    let mut sent = Packets::new(1, &body).unwrap();
    assert_eq!(sent.by_ref().count(), 2);
    assert_eq!(sent.abandon().count(), 0);
}

#[test]
fn an_unnumbered_report_begins_with_zero() {
    let packet = &packets(0, b"")[0];

    let (one, two) = (HidVersion::One.report(packet), HidVersion::Two.report(packet));

    assert_eq!(one.as_bytes(), packet.as_bytes());
    assert_eq!(two.as_bytes().split_first(), Some((&0, packet.as_bytes().as_slice())));
}

#[test]
fn the_probe_determines_the_version_by_the_accepted_length() {
    let first = HidProbe::new();
    let mut expected = vec![0xff; 65];
    expected[..2].copy_from_slice(b"\0?");
    assert_eq!(first.report().as_bytes(), expected);
    assert_eq!(first.written(Some(65)), ProbeStep::Known(HidVersion::Two));

    for refusal in [None, Some(0), Some(64), Some(66)] {
        let ProbeStep::Ask(second) = first.written(refusal) else { panic!("{refusal:?}") };
        assert_eq!(second.report().as_bytes(), &expected[1..]);
        assert_eq!(second.written(Some(64)), ProbeStep::Known(HidVersion::One));
        assert_eq!(second.written(None), ProbeStep::Unknown);
        assert_eq!(second.written(Some(63)), ProbeStep::Unknown);
    }
}

#[test]
fn debug_output_contains_no_part_of_a_body() {
    let body = b"1234-secret";
    let all = packets(19, body);
    let mut reader = Reader::new(Wire::Main);
    let message = read(&mut reader, &all).unwrap();
    reader.push(packets(19, &[b'1'; 100])[0].as_bytes()).unwrap();

    let shown = format!(
        "{all:?} {:?} {message:?} {reader:?} {:?}",
        Packets::new(19, body).unwrap(),
        HidVersion::Two.report(&all[0])
    );

    assert_eq!(
        shown,
        "[Packet { .. }] Packets { id: 19, length: 11, left: 11 } Message { id: 19, length: 11 } \
         Reader { wire: Main, partial: Some((19, 55, 100)) } HidReport { length: 65 }"
    );
}
