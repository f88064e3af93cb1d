//! The 47 recorded packets of the reference client and those of the specification (`docs/spec/p2p.md` 26.4).

use std::collections::HashMap;

use alloy_primitives::{b256, hex};
use serde::Deserialize;
use serde_json::Value;
use tenon_network_identity::{NodeKey, parse_key};

use crate::{Content, Packet, PacketEndpoint, PacketError, PacketTypes};

#[derive(Deserialize)]
struct File {
    reference_key: String,
    keys: HashMap<String, String>,
    packets: Vec<Recorded>,
}

#[derive(Deserialize)]
struct Recorded {
    dir: String,
    node: String,
    name: String,
    signer_id: NodeIdText,
    packet: String,
    fields: Value,
}

#[derive(Deserialize)]
struct NodeIdText(String);

fn file() -> File {
    tenon_test_data::json("p2p/discovery.json.gz")
}

fn decode(bytes: &[u8]) -> Result<Packet, PacketError> {
    Packet::decode(&PacketTypes::NATIVE, bytes)
}

fn same_endpoint(found: &PacketEndpoint, wanted: &Value) {
    let ip = hex::decode(wanted["ip"].as_str().unwrap()).unwrap();
    let octets = found.ip.map(|ip| match ip {
        std::net::IpAddr::V4(ip) => ip.octets().to_vec(),
        std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
    });
    assert_eq!(octets, Some(ip));
    assert_eq!(
        (u64::from(found.udp), u64::from(found.tcp)),
        (wanted["udp"].as_u64().unwrap(), wanted["tcp"].as_u64().unwrap())
    );
}

#[test]
fn all_47_packets_round_trip_byte_for_byte() {
    let file = file();
    assert_eq!(file.packets.len(), 47);
    for recorded in &file.packets {
        let key = if recorded.dir == "ref->us" { &file.reference_key } else { &file.keys[&recorded.node] };
        let key = parse_key(key).unwrap();
        let bytes = hex::decode(&recorded.packet).unwrap();

        let packet = decode(&bytes).unwrap();

        assert_eq!(packet.sender.to_string(), recorded.signer_id.0);
        assert_eq!(format!("{:?}", packet.content.kind()), recorded.name);
        assert_eq!(packet.content.expiration(), recorded.fields["expiration"].as_u64());
        match &packet.content {
            Content::Ping { from, to, .. } => {
                same_endpoint(from, &recorded.fields["from"]);
                same_endpoint(to, &recorded.fields["to"]);
            }
            Content::Pong { to, ping, .. } => {
                same_endpoint(to, &recorded.fields["to"]);
                assert_eq!(hex::encode(ping), recorded.fields["ping_hash"].as_str().unwrap());
            }
            Content::FindNode { target, .. } => {
                assert_eq!(target.to_string(), recorded.fields["target"].as_str().unwrap());
            }
            Content::Neighbors { nodes, .. } => {
                let wanted = recorded.fields["nodes"].as_array().unwrap();
                assert_eq!(nodes.len(), wanted.len());
                for ((endpoint, id), wanted) in nodes.iter().zip(wanted) {
                    same_endpoint(&endpoint.unwrap().into(), wanted);
                    assert_eq!(id.to_string(), wanted["id"].as_str().unwrap());
                }
            }
            other => panic!("{other:?}"),
        }
        let (made, hash) = Packet::encode(&PacketTypes::NATIVE, &key, &packet.content).unwrap();
        assert_eq!(hex::encode(made), recorded.packet, "{}", recorded.name);
        assert_eq!(hash, packet.hash);
    }
}

/// The hexadecimal blocks of the specification's section on discovery, one element for each block.
fn specification() -> Vec<Vec<u8>> {
    let text = include_str!("../../../../docs/spec/p2p.md");
    let section = text.split("### 26.4").nth(1).unwrap().split("### 26.5").next().unwrap();
    let blocks = section.split("```\n").skip(1).step_by(2);
    let packets = blocks.flat_map(|block| block.split("\n\n"));
    packets.map(|packet| hex::decode(packet.split_whitespace().collect::<String>()).unwrap()).collect()
}

fn key_b() -> NodeKey {
    parse_key("b71c71a67e1177ad4e901695e1b4b9ee17ae16c6668d313eac2f96dbcda3f291").unwrap()
}

#[test]
fn packets_of_the_specification_with_further_elements_and_bytes_are_decoded() {
    let packets = specification();
    assert_eq!(packets.len(), 12);
    for packet in &packets[..6] {
        let read = decode(packet).unwrap();
        assert_eq!((read.sender, read.content.expiration()), (key_b().id(), Some(1_136_239_445)));
    }
    // Pings of standard discovery v4 (type 1), which this variant refuses.
    for packet in &packets[6..8] {
        assert_eq!(decode(packet), Err(PacketError::Type(1)));
    }
    for packet in [&packets[0], &packets[8], &packets[9], &packets[10], &packets[11]] {
        let content = decode(packet).unwrap().content;
        assert_eq!(
            hex::encode(Packet::encode(&PacketTypes::NATIVE, &key_b(), &content).unwrap().0),
            hex::encode(packet)
        );
    }
    let Content::Ping { record, .. } = decode(&packets[1]).unwrap().content else { panic!() };
    assert_eq!(record, Some(1));
    let Content::Neighbors { nodes, .. } = decode(&packets[5]).unwrap().content else { panic!() };
    assert_eq!(nodes.len(), 4);
    assert_eq!(key_b().id().hash(), b256!("a448f24c6d18e575453db13171562b71999873db5b286df957af199ec94617f7"));
}

#[test]
fn packets_of_wrong_size_or_with_a_changed_byte_are_dropped() {
    let packet = &specification()[0];
    for position in 0..packet.len() {
        let mut changed = packet.clone();
        changed[position] ^= 1;
        assert!(decode(&changed).is_err(), "byte {position}");
        assert!(decode(&packet[..position]).is_err(), "cut at {position}");
    }
    assert_eq!(decode(&[0; 97]), Err(PacketError::TooSmall));
    assert_eq!(decode(&[0; 1281]), Err(PacketError::TooLong));
}

#[test]
fn record_requests_and_responses_round_trip() {
    let key = key_b();
    let record = tenon_network_identity::RecordBuilder::new(7).sign(&key).unwrap();
    let contents = [
        Content::RecordRequest { expiration: 9 },
        Content::RecordResponse {
            request: b256!("a448f24c6d18e575453db13171562b71999873db5b286df957af199ec94617f7"),
            record: record.encoded().to_vec(),
        },
    ];
    for content in contents {
        let (bytes, hash) = Packet::encode(&PacketTypes::NATIVE, &key, &content).unwrap();
        assert_eq!(decode(&bytes), Ok(Packet { hash, sender: key.id(), content }));
    }
}
