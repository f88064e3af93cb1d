//! Two nodes over real sockets and over streams in memory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tenon_network_connection::{
    Bandwidth, BandwidthLimits, BandwidthShare, Channels, Command, ConnectionEnd, Event, ReceiveBudget, drive,
};
use tenon_network_identity::NodeKey;
use tenon_network_rlpx::{CloseReason, DisconnectReason, HandshakeRandom, OfferedProtocol, Session, SessionSettings};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, copy, duplex, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The owner of a connection.
struct Owner {
    events: Receiver<Event>,
    urgent: Sender<Command>,
    bulk: Sender<Command>,
    end: JoinHandle<ConnectionEnd>,
}

fn start(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, session: Session) -> Owner {
    start_with(stream, session, ReceiveBudget::default(), Bandwidth::default().share())
}

/// The address of a peer.
fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn start_with(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    session: Session,
    budget: ReceiveBudget,
    bandwidth: BandwidthShare,
) -> Owner {
    start_from(address(1), stream, session, budget, bandwidth)
}

fn start_from(
    address: IpAddr,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    session: Session,
    budget: ReceiveBudget,
    bandwidth: BandwidthShare,
) -> Owner {
    let (events_in, events) = channel(4);
    let (urgent, urgent_out) = channel(4);
    let (bulk, bulk_out) = channel(4);
    let channels = Channels { events: events_in, urgent: urgent_out, bulk: bulk_out, budget, address, bandwidth };
    let end = tokio::spawn(drive(stream, session, channels, Instant::now()));
    Owner { events, urgent, bulk, end }
}

impl Owner {
    /// Receives the next message and releases it immediately.
    async fn message(&mut self) -> (usize, u64, Vec<u8>) {
        match self.events.recv().await {
            Some(Event::Message { protocol, code, payload, .. }) => (protocol, code, payload.to_vec()),
            other => panic!("{other:?}"),
        }
    }

    /// Admits the peer at both requests for admission.
    async fn admit(&mut self) {
        assert!(matches!(self.events.recv().await, Some(Event::Authenticated(_))));
        self.urgent.send(Command::Admit).await.unwrap();
        assert!(matches!(self.events.recv().await, Some(Event::Greeted { .. })));
        self.urgent.send(Command::Admit).await.unwrap();
    }
}

fn sessions() -> (Session, Session) {
    let settings = || SessionSettings::new("test", vec![OfferedProtocol::new("eth", 100, 227)]);
    let (dialer, listener) = (Arc::new(NodeKey::random().unwrap()), Arc::new(NodeKey::random().unwrap()));
    let random = || HandshakeRandom::generate().unwrap();
    let dialed = Session::dial(settings(), &dialer, listener.id(), random(), Duration::ZERO).unwrap();
    (dialed, Session::accept(settings(), &listener, random(), Duration::ZERO))
}

/// The two ends of a connection in memory whose peers have admitted each other.
async fn connected() -> (Owner, Owner) {
    let (ours, theirs) = duplex(64 * 1024);
    let (dialed, accepted) = sessions();
    let (mut one, mut other) = (start(ours, dialed), start(theirs, accepted));
    tokio::join!(one.admit(), other.admit());
    (one, other)
}

/// Bytes that do not compress.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..size).map(|_| next()).collect()
}

fn message(code: u64, size: usize) -> Command {
    Command::Send { protocol: 0, code, payload: vec![7; size], written: None }
}

#[tokio::test]
async fn messages_pass_both_ways_over_tcp_and_a_disconnect_arrives() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (dialed, accepted) = sessions();
    let (mut one, mut other) = (start(stream, dialed), start(listener.accept().await.unwrap().0, accepted));
    tokio::join!(one.admit(), other.admit());

    one.bulk.send(message(2, 3_000_000)).await.unwrap();
    other.urgent.send(message(0xe0, 100)).await.unwrap();

    assert_eq!(other.message().await, (0, 2, vec![7; 3_000_000]));
    assert_eq!(one.message().await, (0, 0xe0, vec![7; 100]));
    let reason = DisconnectReason::CLIENT_QUITTING;
    one.urgent.send(Command::Refuse(reason)).await.unwrap();
    let (first, second) = (one.end.await.unwrap(), other.end.await.unwrap());
    assert!(matches!(first, ConnectionEnd::Session(CloseReason::Local(told)) if told == reason), "{first}");
    assert!(matches!(second, ConnectionEnd::Session(CloseReason::Remote(told)) if told == reason), "{second}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_disconnected_at_the_limit_of_the_handshake() {
    let (ours, _theirs) = duplex(1024);
    let (_, accepted) = sessions();

    let owner = start(ours, accepted);

    let end = owner.end.await.unwrap();
    assert!(matches!(end, ConnectionEnd::Session(CloseReason::HandshakeTimeout)), "{end}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_kept_by_pings() {
    let (one, other) = connected().await;

    // Not a multiple of 15 s: nothing is being written at that instant.
    tokio::time::sleep(Duration::from_secs(601)).await;

    assert!(!one.end.is_finished() && !other.end.is_finished());
    drop(one.urgent);
    assert!(matches!(one.end.await.unwrap(), ConnectionEnd::Abandoned));
    assert!(matches!(other.end.await.unwrap(), ConnectionEnd::Eof));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_disconnected() {
    let (one, _other) = connected().await;

    // The other owner takes no events, so its connection stops reading, and this one cannot write.
    let bulk = one.bulk.clone();
    let flood = tokio::spawn(async move { while bulk.send(message(2, 60_000)).await.is_ok() {} });

    let end = one.end.await.unwrap();
    assert!(matches!(end, ConnectionEnd::WriteTimeout), "{end}");
    flood.await.unwrap();
}

#[tokio::test]
async fn an_owner_can_wait_for_its_answer_to_be_written_while_more_questions_come() {
    let (mut one, mut other) = connected().await;
    // More than the channel of events holds.
    for _ in 0..20 {
        one.bulk.send(message(3, 10)).await.unwrap();
    }
    for _ in 0..20 {
        let request = other.events.recv().await;
        assert!(matches!(request, Some(Event::Message { code: 3, .. })));
        let (told, written) = oneshot::channel();
        let answer = Command::Send { protocol: 0, code: 4, payload: vec![7; 100_000], written: Some(told) };
        other.urgent.send(answer).await.unwrap();
        let (written, answer) = tokio::join!(written, one.message());
        written.unwrap();
        assert_eq!(answer, (0, 4, vec![7; 100_000]));
        // Nothing more is read from a peer while its last request is still being processed.
        assert!(other.events.try_recv().is_err());
        drop(request);
    }
}

#[tokio::test]
async fn peers_whose_owners_are_busy_do_not_hold_up_the_large_messages_of_others() {
    let budget = ReceiveBudget::default();
    let connect = async || {
        let (ours, theirs) = duplex(64 * 1024);
        let (dialed, accepted) = sessions();
        let (mut one, mut other) =
            (start(ours, dialed), start_with(theirs, accepted, budget.clone(), Bandwidth::default().share()));
        tokio::join!(one.admit(), other.admit());
        (one, other)
    };
    let mut busy = Vec::new();
    for _ in 0..4 {
        let (one, mut other) = connect().await;
        one.bulk.send(message(3, 10)).await.unwrap();
        let request = other.events.recv().await;
        one.bulk.send(message(2, 1_000_000)).await.unwrap();
        busy.push((one, other, request));
    }

    let (one, mut other) = connect().await;

    for _ in 0..3 {
        one.bulk.send(message(2, 1_000_000)).await.unwrap();
        assert_eq!(other.message().await, (0, 2, vec![7; 1_000_000]));
    }
    assert!(busy.iter_mut().all(|(_, other, _)| other.events.try_recv().is_err()));
}

/// Ten messages of 200 KiB that do not compress, at 256 KiB/s: the first second is free, the rest is delayed, and no
/// connection is closed meanwhile.
#[tokio::test(start_paused = true)]
async fn a_limited_connection_reads_no_faster_than_its_limit() {
    let (near, far) = duplex(64 << 10);
    let (dialed, accepted) = sessions();
    let limits = BandwidthLimits { peer_download: Some(256 << 10), ..BandwidthLimits::default() };
    let mut one = start(near, dialed);
    let mut other = start_with(far, accepted, ReceiveBudget::default(), Bandwidth::new(limits).share());
    tokio::join!(one.admit(), other.admit());
    let payload = noise(200 << 10);
    let begun = Instant::now();
    let bulk = one.bulk.clone();
    let sending = payload.clone();
    let sender = tokio::spawn(async move {
        for _ in 0..10 {
            bulk.send(Command::Send { protocol: 0, code: 2, payload: sending.clone(), written: None }).await.unwrap();
        }
    });

    for _ in 0..10 {
        assert_eq!(other.message().await, (0, 2, payload.clone()));
    }

    sender.await.unwrap();
    let seconds = begun.elapsed().as_secs_f64();
    assert!((6.6..7.4).contains(&seconds), "{seconds}");
    assert!(!one.end.is_finished() && !other.end.is_finished());
}

/// Forwards bytes both ways. After `fast` bytes from `from`, it forwards `bytes` of them each `pause`.
async fn forward_slowly(from: DuplexStream, to: DuplexStream, fast: u64, bytes: usize, pause: Duration) {
    let ((reader, mut back), (mut answers, mut writer)) = (split(from), split(to));
    tokio::spawn(async move { copy(&mut answers, &mut back).await });
    let mut reader = reader.take(fast);
    if copy(&mut reader, &mut writer).await.is_err() {
        return;
    }
    let (mut reader, mut buffer) = (reader.into_inner(), vec![0; bytes]);
    loop {
        tokio::time::sleep(pause).await;
        let Ok(count) = reader.read(&mut buffer).await else { return };
        if count == 0 || writer.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// A peer whose line slows down after `fast` bytes, and the owner of this node's end.
async fn slow_peer(budget: &ReceiveBudget, from: IpAddr, fast: u64, bytes: usize, pause: Duration) -> (Owner, Owner) {
    let ((near, line), (line_end, far)) = (duplex(64 << 10), duplex(64 << 10));
    tokio::spawn(forward_slowly(line, line_end, fast, bytes, pause));
    let (dialed, accepted) = sessions();
    let mut peer = start(near, dialed);
    let mut own = start_from(from, far, accepted, budget.clone(), Bandwidth::default().share());
    tokio::join!(peer.admit(), own.admit());
    (peer, own)
}

/// A budget of a tenth of the usual one, with which fewer bytes must be encrypted.
fn small_budget() -> ReceiveBudget {
    ReceiveBudget::new(1_600_000, 16 << 10)
}

/// A peer of `from` whose message of 1 MB stops shortly before its end.
async fn attacker(budget: &ReceiveBudget, from: IpAddr) -> (Owner, Owner) {
    let (peer, own) = slow_peer(budget, from, 950_000, 1, Duration::from_secs(8)).await;
    let payload = noise(1_000_000);
    peer.bulk.send(Command::Send { protocol: 0, code: 2, payload, written: None }).await.unwrap();
    // Its bytes arrive.
    tokio::time::sleep(Duration::from_millis(100)).await;
    (peer, own)
}

/// Three connections of one address hold all they can. A peer of another address does not wait for them, and they are closed.
#[tokio::test(start_paused = true)]
async fn unfinished_messages_of_one_address_block_no_other_peer() {
    let budget = small_budget();
    let mut attackers = Vec::new();
    for _ in 0..3 {
        attackers.push(attacker(&budget, address(9)).await);
    }
    let begun = Instant::now();

    let (honest, mut own) = slow_peer(&budget, address(2), u64::MAX, 0, Duration::ZERO).await;
    let payload = noise(100_000);
    for _ in 0..3 {
        let send = Command::Send { protocol: 0, code: 2, payload: payload.clone(), written: None };
        honest.bulk.send(send).await.unwrap();
        assert_eq!(own.message().await, (0, 2, payload.clone()));
    }

    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let (_peer, first) = attackers.swap_remove(0);
    let end = first.end.await.unwrap();
    assert!(matches!(end, ConnectionEnd::Stalled), "{end}");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

/// A peer sends 100 KiB/s while messages of four attackers at different addresses fill the memory for messages.
#[tokio::test(start_paused = true)]
async fn a_peer_on_a_slow_line_completes_its_large_message_while_others_wait() {
    let budget = small_budget();
    let mut attackers = Vec::new();
    for last in 10..14 {
        attackers.push(attacker(&budget, address(last)).await);
    }
    let pause = Duration::from_millis(200);

    let (honest, mut own) = slow_peer(&budget, address(2), 1_000, 20 << 10, pause).await;
    let payload = noise(900_000);
    honest.bulk.send(Command::Send { protocol: 0, code: 2, payload: payload.clone(), written: None }).await.unwrap();

    let begun = Instant::now();
    assert_eq!(own.message().await, (0, 2, payload));
    // 9 s, plus two turns of other connections.
    assert!(begun.elapsed() < Duration::from_secs(16), "{:?}", begun.elapsed());
    assert!(!own.end.is_finished());
}
