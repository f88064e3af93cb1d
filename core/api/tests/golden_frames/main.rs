//! Compares one encoded value of every message with `golden_frames.txt`: an older plugin would misread an encoding that
//! changed without its `SCHEMA` number.
//!
//! After a deliberate change (raise the message's `SCHEMA` first): `TENON_UPDATE_GOLDEN=1 cargo test -p tenon-api`.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a failure fails the test")]

mod chain;
mod consensus;
mod debug;
mod evm;
mod node;
mod pool;
mod samples;

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use tenon_api::{codec, *};

/// Collects the frames of samples, checking that each decodes to its original.
#[derive(Default)]
pub(crate) struct Frames(BTreeMap<String, String>);

impl Frames {
    pub(crate) fn add<T>(&mut self, name: &str, sample: &T)
    where
        T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let frame = codec::encode(sample).unwrap();
        assert_eq!(&codec::decode::<T>(&frame).unwrap(), sample, "{name} comes back as it went");
        assert!(codec::decode::<T>(&[&frame[..], &[0]].concat()).is_err(), "{name} with a byte too many is refused");
        self.0.insert(name.to_owned(), hex::encode(frame));
    }

    pub(crate) fn request<R>(&mut self, request: R, reply: R::Reply)
    where
        R: Request + PartialEq + std::fmt::Debug,
        R::Reply: PartialEq + std::fmt::Debug,
    {
        let topic = format!("{:04x} {}", R::TOPIC.0, R::NAME);
        self.add(&format!("{topic} request v{}", R::SCHEMA), &request);
        self.add(&format!("{topic} reply v{}", R::SCHEMA), &reply);
    }

    pub(crate) fn event<E: Event + PartialEq + std::fmt::Debug>(&mut self, event: E) {
        self.add(&format!("{:04x} {} event v{}", E::TOPIC.0, E::NAME, E::SCHEMA), &event);
    }
}

/// Number of frames with the refusals that a request can have as its reply.
const REFUSALS: usize = 6;

#[test]
fn every_message_is_encoded_as_it_always_was() {
    let mut frames = Frames::default();
    let families: [fn(&mut Frames); 12] = [
        chain::chain_frames,
        chain::state_frames,
        chain::fee_frames,
        chain::space_frames,
        chain::event_frames,
        evm::evm_frames,
        pool::pool_and_account_frames,
        node::node_frames,
        node::module_frames,
        node::network_frames,
        consensus::consensus_frames,
        debug::debug_frames,
    ];
    for add in families {
        add(&mut frames);
    }
    let requests = schema_entries().iter().filter(|entry| !entry.topic.is_event()).count();
    let events = schema_entries().len() - requests;
    assert_eq!(frames.0.len(), 2 * requests + events + REFUSALS, "every message of the schema has a golden frame");

    let mut text = format!("schema {}\n", schema_hash());
    for (name, frame) in &frames.0 {
        writeln!(text, "{name} {frame}").unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden_frames.txt");
    if std::env::var_os("TENON_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).expect("golden_frames.txt is part of the project");
    for (expected, computed) in golden.lines().zip(text.lines()) {
        assert_eq!(computed, expected);
    }
    assert_eq!(text.len(), golden.len());
}
