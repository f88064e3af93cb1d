//! Two sessions over a link in memory: time limits, refusals, backpressure, and a model of the delivered messages.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tenon_network_identity::NodeKey;
use tenon_network_rlpx::{
    CloseReason, DisconnectReason, HandshakeError, HandshakeRandom, HelloError, OfferedProtocol, Output, SendError,
    Session, SessionSettings,
};

const START: Duration = Duration::from_secs(1000);

fn settings() -> SessionSettings {
    SessionSettings::new("test", vec![OfferedProtocol::new("eth", 100, 227)])
}

/// One side of a link, with all its outputs other than writes.
struct Side {
    session: Session,
    told: Vec<Output>,
    /// Whether it admits peers.
    admits: bool,
}

impl Side {
    fn new(session: Session) -> Self {
        Self { session, told: Vec::new(), admits: true }
    }

    /// Processes all outputs and returns the bytes to write.
    fn drain(&mut self, now: Duration) -> Vec<u8> {
        let mut written = Vec::new();
        while let Some(output) = self.session.next_output(now) {
            match &output {
                Output::Write(bytes) => written.extend_from_slice(bytes),
                Output::Authenticated { .. } | Output::Greeted { .. } if self.admits => self.session.admit(now),
                _ => {}
            }
            if !matches!(output, Output::Write(_)) {
                self.told.push(output);
            }
        }
        written
    }

    fn closed(&self) -> Option<CloseReason> {
        self.told.iter().find_map(|output| if let Output::Closed(reason) = output { Some(*reason) } else { None })
    }

    fn messages(&self) -> Vec<(u64, Vec<u8>)> {
        let message = |output: &Output| match output {
            Output::Message { code, payload, .. } => Some((*code, payload.clone())),
            _ => None,
        };
        self.told.iter().filter_map(message).collect()
    }
}

fn pair() -> (Side, Side) {
    let (dialer, listener) = (Arc::new(NodeKey::random().unwrap()), Arc::new(NodeKey::random().unwrap()));
    let random = || HandshakeRandom::generate().unwrap();
    let dialed = Session::dial(settings(), &dialer, listener.id(), random(), START).unwrap();
    (Side::new(dialed), Side::new(Session::accept(settings(), &listener, random(), START)))
}

/// Moves bytes until neither side writes any more.
fn settle(one: &mut Side, other: &mut Side, now: Duration) {
    loop {
        let (from_one, from_other) = (one.drain(now), other.drain(now));
        if from_one.is_empty() && from_other.is_empty() {
            return;
        }
        other.session.receive(&from_one);
        one.session.receive(&from_other);
    }
}

fn open_pair() -> (Side, Side) {
    let (mut one, mut other) = pair();
    settle(&mut one, &mut other, START);
    assert!(one.told.iter().any(|output| matches!(output, Output::Greeted { .. })));
    (one, other)
}

#[test]
fn both_sides_learn_the_others_identifier() {
    let (one, other) = open_pair();

    let hello_of = |side: &Side| {
        side.told
            .iter()
            .find_map(|output| if let Output::Greeted { hello, .. } = output { Some(hello.clone()) } else { None })
            .unwrap()
    };
    assert_eq!(Some(hello_of(&one).id), one.session.remote());
    assert_eq!(Some(hello_of(&other).id), other.session.remote());
    assert_eq!(one.session.agreed()[0].offset, 16);
}

#[test]
fn a_silent_peer_is_disconnected_after_5_seconds_in_the_handshake_and_after_30_later() {
    let (mut dialed, _) = pair();
    dialed.drain(START);
    dialed.session.tick(START + Duration::from_millis(4999));
    assert!(!dialed.session.is_closed());
    assert_eq!(dialed.session.wakes_at(), Some(START + Duration::from_secs(5)));
    dialed.session.tick(START + Duration::from_secs(5));
    assert_eq!(dialed.drain(START), Vec::<u8>::new());
    assert_eq!(dialed.closed(), Some(CloseReason::HandshakeTimeout));

    let (mut one, _) = open_pair();
    for second in 1..30 {
        one.session.tick(START + Duration::from_secs(second));
    }
    assert!(!one.session.is_closed());
    one.session.tick(START + Duration::from_secs(30));
    one.drain(START);
    assert_eq!(one.closed(), Some(CloseReason::Idle));

    // Time in which the owner did not read does not count.
    let (mut one, _) = open_pair();
    one.session.extend_idle_time(Duration::from_secs(10));
    one.session.tick(START + Duration::from_secs(39));
    assert!(!one.session.is_closed());
    one.session.tick(START + Duration::from_secs(40));
    one.drain(START);
    assert_eq!(one.closed(), Some(CloseReason::Idle));
    assert_eq!(one.session.wakes_at(), None);
}

#[test]
fn pings_are_sent_every_15_seconds_and_answered_once() {
    let (mut one, mut other) = open_pair();

    let mut frames = Vec::new();
    for second in 1..=60 {
        let now = START + Duration::from_secs(second);
        one.session.tick(now);
        let pings = one.drain(now);
        if !pings.is_empty() {
            other.session.receive(&pings);
            let pongs = other.drain(now);
            frames.push((second, pings.len(), pongs.len()));
            one.session.receive(&pongs);
            one.drain(now);
        }
    }

    assert_eq!(frames, [15, 30, 45, 60].map(|second| (second, 64, 64)));
}

#[test]
fn a_refusal_reaches_the_other_side_before_and_after_hello() {
    let reason = DisconnectReason::TOO_MANY_PEERS;
    let (mut one, mut other) = pair();
    other.admits = false;
    let auth = one.drain(START);
    other.session.receive(&auth);
    let ack = other.drain(START);
    other.session.refuse(reason);
    one.session.receive(&ack);
    settle(&mut one, &mut other, START);
    assert_eq!((one.closed(), other.closed()), (Some(CloseReason::Remote(reason)), Some(CloseReason::Local(reason))));

    let (mut one, mut other) = open_pair();
    other.session.refuse(reason);
    settle(&mut one, &mut other, START);
    assert_eq!(one.closed(), Some(CloseReason::Remote(reason)));
}

#[test]
fn messages_outside_the_agreed_codes_are_not_sent() {
    let (mut one, _) = open_pair();
    assert_eq!(one.session.send(0, 227, &[0xc0]), Err(SendError::Code));
    assert_eq!(one.session.send(1, 0, &[0xc0]), Err(SendError::Code));
    assert_eq!(one.session.send(0, 0, &vec![0; 1 << 24]), Err(SendError::TooLong));
    let (mut dialed, _) = pair();
    assert_eq!(dialed.session.send(0, 0, &[0xc0]), Err(SendError::NotOpen));
}

#[test]
fn short_or_invalid_packets_end_the_handshake_without_an_answer() {
    for first in [[0, 0], [1, 0x32], [1, 0x33], [0xff, 0xff]] {
        let (_, mut other) = pair();
        let mut packet = first.to_vec();
        packet.resize(70_000, 7);
        other.session.receive(&packet);

        assert_eq!(other.drain(START), Vec::<u8>::new());
        let wanted = if u16::from_be_bytes(first) < 307 {
            HandshakeError::SizeUnderflow { minimum: 307 }
        } else {
            HandshakeError::Undecryptable
        };
        assert_eq!(other.closed(), Some(CloseReason::Handshake(wanted)), "{first:?}");
    }
}

#[test]
fn messages_stay_buffered_until_the_owner_asks_for_outputs() {
    let (mut one, mut other) = open_pair();
    for _ in 0..100 {
        one.session.send(0, 2, &[0xc0]).unwrap();
    }
    let frames = one.drain(START);
    other.session.receive(&frames);

    assert!(matches!(other.session.next_output(START), Some(Output::Message { .. })));

    assert_eq!(other.session.unread_bytes(), 99 * 64);
    other.drain(START);
    assert_eq!((other.messages().len(), other.session.unread_bytes()), (99, 0));
}

#[test]
fn a_long_message_in_place_of_hello_is_refused_before_its_body_has_arrived() {
    let (mut one, mut other) = pair();
    let mut long = settings();
    long.name = "x".repeat(3000);
    one.session = Session::dial(
        long,
        &Arc::new(NodeKey::random().unwrap()),
        listener_id(&mut other),
        HandshakeRandom::generate().unwrap(),
        START,
    )
    .unwrap();
    settle(&mut one, &mut other, START);

    assert_eq!(other.closed(), Some(CloseReason::Hello(HelloError::TooLong)));
}

/// Gives `side` a new key and returns its identifier.
fn listener_id(side: &mut Side) -> tenon_network_identity::NodeId {
    let key = Arc::new(NodeKey::random().unwrap());
    side.session = Session::accept(settings(), &key, HandshakeRandom::generate().unwrap(), START);
    key.id()
}

/// A step of the model.
#[derive(Clone, Debug)]
enum Step {
    Send {
        from_dialer: bool,
        code: u64,
        payload: Vec<u8>,
    },
    /// Moves this many bytes.
    Deliver {
        to_dialer: bool,
        bytes: usize,
    },
    Wait {
        seconds: u64,
    },
    /// Changes a byte in transit.
    Damage {
        to_dialer: bool,
        position: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let send = (any::<bool>(), 0..227_u64, proptest::collection::vec(any::<u8>(), 1..200))
        .prop_map(|(from_dialer, code, payload)| Step::Send { from_dialer, code, payload });
    let deliver = (any::<bool>(), 0..400_usize).prop_map(|(to_dialer, bytes)| Step::Deliver { to_dialer, bytes });
    let wait = (0..4_u64).prop_map(|seconds| Step::Wait { seconds });
    let damage = (any::<bool>(), any::<usize>()).prop_map(|(to_dialer, position)| Step::Damage { to_dialer, position });
    proptest::collection::vec(prop_oneof![4 => send, 6 => deliver, 1 => wait, 1 => damage], 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The delivered messages are always a prefix of the sent ones, and all of them if nothing was damaged and no side
    /// exceeded a time limit.
    #[test]
    fn delivered_messages_are_a_prefix_of_the_sent_ones(steps in steps()) {
        let (mut one, mut other) = open_pair();
        let (before_one, before_other) = (one.messages().len(), other.messages().len());
        prop_assert_eq!((before_one, before_other), (0, 0));
        let mut now = START;
        let (mut sent_by_one, mut sent_by_other) = (Vec::new(), Vec::new());
        // Bytes in transit to the dialer and to the listener.
        let (mut to_one, mut to_other) = (Vec::new(), Vec::new());
        let mut is_damaged = false;
        for step in steps {
            match step {
                Step::Send { from_dialer, code, payload } => {
                    let (side, sent) =
                        if from_dialer { (&mut one, &mut sent_by_one) } else { (&mut other, &mut sent_by_other) };
                    if side.session.send(0, code, &payload).is_ok() {
                        sent.push((code, payload));
                    }
                }
                Step::Deliver { to_dialer, bytes } => {
                    let (side, line) =
                        if to_dialer { (&mut one, &mut to_one) } else { (&mut other, &mut to_other) };
                    let rest = line.split_off(bytes.min(line.len()));
                    side.session.receive(&std::mem::replace(line, rest));
                }
                Step::Wait { seconds } => {
                    now += Duration::from_secs(seconds);
                    one.session.tick(now);
                    other.session.tick(now);
                }
                Step::Damage { to_dialer, position } => {
                    let line = if to_dialer { &mut to_one } else { &mut to_other };
                    if !line.is_empty() {
                        let position = position % line.len();
                        // A bit that is flipped twice would undo the damage; 60 additions of 1 never do.
                        line[position] = line[position].wrapping_add(1);
                        is_damaged = true;
                    }
                }
            }
            to_other.extend(one.drain(now));
            to_one.extend(other.drain(now));
        }
        for _ in 0..3 {
            one.session.receive(&std::mem::take(&mut to_one));
            other.session.receive(&std::mem::take(&mut to_other));
            to_other.extend(one.drain(now));
            to_one.extend(other.drain(now));
        }
        let (at_one, at_other) = (one.messages(), other.messages());
        prop_assert!(sent_by_other.starts_with(&at_one) && sent_by_one.starts_with(&at_other));
        if !is_damaged && one.closed().is_none() && other.closed().is_none() {
            prop_assert_eq!((at_one.len(), at_other.len()), (sent_by_other.len(), sent_by_one.len()));
        }
        if is_damaged {
            prop_assert!(one.closed().is_some() || other.closed().is_some());
        }
    }

    /// Any bytes in place of the handshake are refused, or the session waits for more.
    #[test]
    fn any_first_bytes_are_refused_or_incomplete(bytes in proptest::collection::vec(any::<u8>(), 0..700)) {
        let (_, mut other) = pair();
        other.session.receive(&bytes);
        prop_assert!(other.drain(START).is_empty());
        prop_assert_eq!(other.closed().is_none(), other.session.unread_bytes() == bytes.len() && !other.session.is_closed());
    }
}
