//! Encoding and decoding of every body. The values are generated from the definitions and encoded by another
//! implementation (messages without generated types), so that an error in the generated types can't cancel itself out.
//!
//! `PROPTEST_RNG_SEED` replays a run, and `PROPTEST_CASES` sets the number of values per message.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

mod support;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};
use protox::prost_reflect::{DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, Value};
use tenon_proto::{BodyError, registry};

/// Maximum nesting of messages.
const MAX_DEPTH: usize = 5;

fn enumeration(of: &EnumDescriptor) -> BoxedStrategy<Value> {
    let known: Vec<i32> = of.values().map(|value| value.number()).collect();
    // Unknown values are kept, because later firmware has more of them.
    prop_oneof![3 => proptest::sample::select(known), 1 => any::<i32>()].prop_map(Value::EnumNumber).boxed()
}

fn value(of: &FieldDescriptor, depth: usize) -> BoxedStrategy<Value> {
    match of.kind() {
        Kind::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Kind::Uint32 => prop_oneof![Just(0), Just(u32::MAX), any::<u32>()].prop_map(Value::U32).boxed(),
        Kind::Uint64 => prop_oneof![Just(0), Just(u64::MAX), any::<u64>()].prop_map(Value::U64).boxed(),
        Kind::Sint32 => prop_oneof![Just(i32::MIN), any::<i32>()].prop_map(Value::I32).boxed(),
        Kind::Sint64 => prop_oneof![Just(i64::MIN), any::<i64>()].prop_map(Value::I64).boxed(),
        Kind::String => any::<String>().prop_map(Value::String).boxed(),
        Kind::Bytes => proptest::collection::vec(any::<u8>(), 0..80).prop_map(|b| Value::Bytes(b.into())).boxed(),
        Kind::Enum(of) => enumeration(&of),
        Kind::Message(of) => message_within(&of, depth + 1).prop_map(Value::Message).boxed(),
        kind => panic!("no body has a field of type {kind:?}: {}", of.full_name()),
    }
}

/// A message in which each field is absent, has a value or, if repeated, several values.
fn message(of: &MessageDescriptor) -> BoxedStrategy<DynamicMessage> {
    message_within(of, 0)
}

/// Like `message`, inside `depth` other messages. A message can contain itself, so the depth is limited.
fn message_within(of: &MessageDescriptor, depth: usize) -> BoxedStrategy<DynamicMessage> {
    let of = of.clone();
    let fields: Vec<BoxedStrategy<Option<Value>>> = of
        .fields()
        .map(|field| {
            if depth == MAX_DEPTH && matches!(field.kind(), Kind::Message(_)) {
                return Just(None).boxed();
            }
            let present = if field.is_list() {
                proptest::collection::vec(value(&field, depth), 1..4).prop_map(Value::List).boxed()
            } else {
                value(&field, depth)
            };
            proptest::option::of(present).boxed()
        })
        .collect();
    fields
        .prop_map(move |values| {
            let mut message = DynamicMessage::new(of.clone());
            for (field, value) in of.fields().zip(values) {
                if let Some(value) = value {
                    message.set_field(&field, value);
                }
            }
            message
        })
        .boxed()
}

/// Creates a test runner and prints its seed, so that a failure can be replayed.
fn runner(cases: u32) -> TestRunner {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(RandomState::new().build_hasher().finish());
    }
    if let RngSeed::Fixed(seed) = config.rng_seed {
        println!("PROPTEST_RNG_SEED={seed}");
    }
    TestRunner::new(config)
}

#[test]
fn every_body_round_trips() {
    let pool = support::pool();
    for entry in registry::entries().iter().chain(registry::later()) {
        let descriptor = support::body(&pool, entry.name);
        assert_eq!(descriptor.full_name(), entry.body);

        runner(24)
            .run(&message(&descriptor), |sent| {
                let canonical = entry.canonical(&sent.encode_to_vec()).unwrap();
                let read = DynamicMessage::decode(descriptor.clone(), canonical.as_slice()).unwrap();
                prop_assert_eq!(&read, &sent, "{}", entry.name);
                prop_assert_eq!(read.unknown_fields().count(), 0, "{}", entry.name);
                prop_assert_eq!(entry.canonical(&canonical).unwrap(), canonical, "{}", entry.name);
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn every_body_tolerates_unknown_fields() {
    let pool = support::pool();
    for entry in registry::entries().iter().chain(registry::later()) {
        let descriptor = support::body(&pool, entry.name);

        runner(4)
            .run(&message(&descriptor), |sent| {
                let mut body = Vec::new();
                unknown_fields(&mut body);
                sent.encode(&mut body).unwrap();
                unknown_fields(&mut body);

                let read = entry.canonical(&body).unwrap();

                prop_assert_eq!(read, entry.canonical(&sent.encode_to_vec()).unwrap(), "{}", entry.name);
                Ok(())
            })
            .unwrap();
    }
}

/// Appends a field of each wire type, with numbers that no definition uses.
fn unknown_fields(body: &mut Vec<u8>) {
    encode_key(9001, WireType::Varint, body);
    encode_varint(u64::MAX, body);
    encode_key(9002, WireType::LengthDelimited, body);
    encode_varint(3, body);
    body.extend_from_slice(b"\xff\xfe\xfd");
    encode_key(9003, WireType::SixtyFourBit, body);
    body.extend_from_slice(&[1; 8]);
    encode_key(9004, WireType::ThirtyTwoBit, body);
    body.extend_from_slice(&[2; 4]);
}

#[test]
fn repeated_numbers_are_sent_unpacked_and_read_in_both_forms() {
    let entry = registry::by_id(56).unwrap();

    let packed = entry.canonical(b"\x0a\x03\x2c\x3c\x00").unwrap();

    assert_eq!(*packed, b"\x08\x2c\x08\x3c\x08\x00");
    assert_eq!(entry.canonical(&packed).unwrap(), packed);
}

#[test]
fn truncated_bodies_are_rejected_and_damaged_ones_do_not_panic() {
    let pool = support::pool();
    for entry in registry::entries().iter().chain(registry::later()) {
        let descriptor = support::body(&pool, entry.name);
        runner(4)
            .run(&(message(&descriptor), any::<proptest::sample::Index>(), any::<u8>()), |(sent, at, byte)| {
                let mut body = sent.encode_to_vec();
                body.extend_from_slice(b"\x0a\x05cut");
                let refused = Err(BodyError::Malformed { id: entry.id, length: body.len() });
                prop_assert_eq!(entry.canonical(&body), refused);
                let at = at.index(body.len());
                body[at] = byte;
                let _ = entry.canonical(&body);
                Ok(())
            })
            .unwrap();
    }
}
