//! One connection: its handshake, its session, the answers to its peer. The actor makes every decision.

use std::future::pending;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use tenon_api::{ActorError, EncodedChainReader};
use tenon_network_connection::{
    Bandwidth, BandwidthShare, Channels, Command, ConnectionEnd, Event, FairTurn, FairTurns, Payload, Priority,
    ReceiveBudget, drive,
};
use tenon_network_identity::NodeKey;
use tenon_network_peers::Fault;
use tenon_network_rlpx::{AgreedProtocol, CloseReason, DisconnectReason, Hello, HelloError, SessionSettings};
use tenon_network_sync::CheckedBody;
use tenon_network_wire::{BlockBody, Kind, Message, Status, has_own_body, version};
use tenon_supervisor::Mailbox;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Permit, Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::connection_limiter::counted_address;
use crate::connection_manager::ConnectionId;
use crate::conversation::{BeginOutcome, Conversation, Delivery, Ended, Step};
use crate::handshake_slot::{HandshakeSlot, displaced};
use crate::input::{Input, PeerMessage};
use crate::link::{LinkReceivers, Outgoing, SharedAcceptance};
use crate::message_work::{
    AwaitedAnswers, AwaitedOfNode, InProgress, MAX_SHORT_PAYLOAD, MAX_SHORT_TRANSACTIONS, MessageTurns,
    MismatchedBodies, unwanted_pause,
};
use crate::opening::{EndReason, Opened, Start, open};
use crate::serving::{self, PeerRequest};
use crate::system;
use crate::traffic::Traffic;

/// Name of the sub-protocol.
pub(crate) const PROTOCOL: &str = "eth";
/// Time limit for sending Disconnect.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two attempts to report the end of a connection to a busy actor.
const REPORT_PAUSE: Duration = Duration::from_millis(20);

/// State shared by all connections.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) chain: Arc<dyn EncodedChainReader>,
    pub(crate) key: Arc<NodeKey>,
    pub(crate) session: SessionSettings,
    pub(crate) network_id: u64,
    pub(crate) genesis: B256,
    pub(crate) budget: ReceiveBudget,
    pub(crate) bandwidth: Bandwidth,
    /// Limits the number of answers that are read from the database at a time.
    pub(crate) readers: FairTurns,
    pub(crate) acceptance: Arc<SharedAcceptance>,
    /// Limits the number of large messages that are processed at a time.
    pub(crate) turns: MessageTurns,
    /// The outstanding answers of each node.
    pub(crate) awaited: AwaitedAnswers,
    pub(crate) traffic: Arc<Traffic>,
}

impl Context {
    fn status(&self) -> Status {
        let head = self.chain.head();
        Status {
            version: 0,
            network: self.network_id,
            total_difficulty: head.total_difficulty,
            head: head.header.hash(),
            genesis: self.genesis,
            fork_id: None,
        }
    }
}

/// Runs a connection to its end, and reports the end to the actor.
pub(crate) async fn run(
    connection: ConnectionId,
    mut start: Start,
    context: Context,
    mailbox: Mailbox<Input>,
    mut receivers: LinkReceivers,
) {
    let displacement = match &mut start {
        Start::Accepted { place, .. } => place.displacement.take(),
        Start::Dial { .. } => None,
    };
    let running = async {
        match open(start, context.session.clone(), &context.key, &mut receivers.disconnects).await {
            Ok(opened) => run_session(connection, opened, context, &mailbox, receivers).await,
            Err(over) => over,
        }
    };
    let over = tokio::select! {
        biased;
        over = running => over,
        () = displaced(displacement) => {
            EndReason::new("handshake closed: all handshake slots are in use; another connection took this one's slot")
        }
    };
    if let Some(fault) = over.fault {
        drop(mailbox.try_send(Input::Fault { connection, fault }));
    }
    tracing::debug!(connection, reason = %over.reason, "connection over");
    report(connection, over.reason, &mailbox).await;
}

/// Every end must be reported, or its slot would remain occupied.
async fn report(connection: ConnectionId, reason: String, mailbox: &Mailbox<Input>) {
    loop {
        match mailbox.try_send(Input::Ended { connection, reason: reason.clone() }) {
            Err(ActorError::MailboxFull { .. }) => sleep(REPORT_PAUSE).await,
            // A stopped actor has no slots.
            Ok(()) | Err(_) => return,
        }
    }
}

async fn run_session(
    connection: ConnectionId,
    opened: Opened,
    context: Context,
    mailbox: &Mailbox<Input>,
    receivers: LinkReceivers,
) -> EndReason {
    let Opened { stream, remote, session, place } = opened;
    // Sends small messages without delay. If the system refuses the option, they are only slower.
    let _ = stream.set_nodelay(true);
    let local = stream.local_addr().ok();
    let (events_in, events) = channel(1);
    let (urgent, urgent_out) = channel(1);
    let (bulk, bulk_out) = channel(1);
    let (bandwidth, address) = (context.bandwidth.share(), counted_address(remote.ip()));
    let channels = Channels {
        events: events_in,
        urgent: urgent_out,
        bulk: bulk_out,
        budget: context.budget.clone(),
        address,
        bandwidth: bandwidth.clone(),
    };
    let started = Instant::now();
    let mut task = ConnectionTask {
        connection,
        context,
        mailbox,
        receivers,
        events,
        urgent,
        bulk,
        next_bulk: None,
        bandwidth,
        local,
        address,
        place,
        started,
        conversation: None,
        in_progress: None,
        awaited: None,
        mismatched_bodies: MismatchedBodies::new(),
    };
    let driving = drive(stream, session, channels, started);
    tokio::pin!(driving);
    let over = tokio::select! {
        biased;
        end = &mut driving => return EndReason { fault: fault_of(&end), reason: end.to_string() },
        over = task.run() => over,
    };
    drop(task);
    // The last messages are written, within a time limit.
    let _ = timeout(DISCONNECT_TIMEOUT, driving).await;
    over
}

/// The fault of a peer whose connection ended by itself.
const fn fault_of(end: &ConnectionEnd) -> Option<Fault> {
    match end {
        ConnectionEnd::Session(
            CloseReason::Frame(_)
            | CloseReason::CodeOutOfRange { .. }
            | CloseReason::Hello(HelloError::TooLong | HelloError::Rlp(_) | HelloError::OtherMessage { .. }),
        ) => Some(Fault::Malformed),
        ConnectionEnd::Stalled => Some(Fault::Stalled),
        _ => None,
    }
}

/// The owner's side of a connection.
struct ConnectionTask<'a> {
    connection: ConnectionId,
    context: Context,
    mailbox: &'a Mailbox<Input>,
    receivers: LinkReceivers,
    events: Receiver<Event>,
    urgent: Sender<Command>,
    bulk: Sender<Command>,
    /// A bulk message that is not sent yet, and when it was received from the actor.
    next_bulk: Option<(Command, Instant)>,
    bandwidth: BandwidthShare,
    local: Option<SocketAddr>,
    /// The address that its turns count for.
    address: IpAddr,
    place: Option<HandshakeSlot>,
    started: Instant,
    /// The session of `eth` with its index among the agreed protocols, from Hello on.
    conversation: Option<(usize, Conversation)>,
    /// The message that is being processed.
    in_progress: Option<InProgress>,
    /// The outstanding answers of the node, from its authentication on.
    awaited: Option<AwaitedOfNode>,
    /// Counts the blocks whose body did not match their header.
    mismatched_bodies: MismatchedBodies,
}

impl ConnectionTask<'_> {
    /// Runs until this side ends the connection. If the connection ends by itself, the future waits to be dropped.
    async fn run(&mut self) -> EndReason {
        let (urgent, bulk, bandwidth) = (self.urgent.clone(), self.bulk.clone(), self.bandwidth.clone());
        loop {
            let since = self.next_bulk.as_ref().map_or_else(Instant::now, |(_, since)| *since);
            let bulk_turn = async {
                bandwidth.upload(Priority::Bulk, since).await;
                bulk.reserve().await
            };
            let wakes_at = self.conversation.as_ref().and_then(|(_, conversation)| conversation.wakes_at());
            let steps = tokio::select! {
                biased;
                reason = self.receivers.disconnects.recv() => return self.disconnect(reason).await,
                // Its place first: a peer that does not read must not keep the turn of the message that it has sent.
                Some((place, message)) = next_urgent(&urgent, &mut self.receivers.urgent) => {
                    if let Some(command) = self.command_of(&message) {
                        place.send(command);
                    }
                    Vec::new()
                }
                () = sleep_to(self.started, wakes_at) => self.tick(),
                event = self.events.recv() => match event {
                    Some(event) => match self.take(event).await {
                        Ok(steps) => steps,
                        Err(over) => return over,
                    },
                    None => pending().await,
                },
                Ok(permit) = bulk_turn, if self.next_bulk.is_some() => {
                    if let Some((command, _)) = self.next_bulk.take() {
                        permit.send(command);
                    }
                    Vec::new()
                }
                Some(message) = self.receivers.bulk.recv(), if self.next_bulk.is_none() => {
                    self.next_bulk = self.command_of(&message).map(|command| (command, Instant::now()));
                    Vec::new()
                }
            };
            for step in steps {
                if let Err(over) = self.perform(step).await {
                    return over;
                }
            }
            self.in_progress = None;
        }
    }

    /// `None`: the actor has removed this connection.
    async fn disconnect(&self, reason: Option<DisconnectReason>) -> EndReason {
        self.refuse(reason.unwrap_or(DisconnectReason::CLIENT_QUITTING)).await
    }

    async fn refuse(&self, reason: DisconnectReason) -> EndReason {
        self.command(Command::Refuse(reason)).await;
        EndReason::new(reason)
    }

    /// An ended connection accepts no commands; its end is handled elsewhere.
    async fn command(&self, command: Command) {
        drop(self.urgent.send(command).await);
    }

    fn tick(&self) -> Vec<Step> {
        let now = self.started.elapsed();
        self.conversation.as_ref().and_then(|(_, conversation)| conversation.tick(now)).into_iter().collect()
    }

    async fn take(&mut self, event: Event) -> Result<Vec<Step>, EndReason> {
        match event {
            Event::Authenticated(node) => {
                let (connection, local) = (self.connection, self.local);
                self.ask(|answer| Input::Authenticated { connection, node, local, answer }).await?;
                self.awaited = Some(self.context.awaited.of_node(node));
                self.command(Command::Admit).await;
                Ok(Vec::new())
            }
            Event::Greeted { hello, agreed } => self.greet(hello, &agreed).await,
            Event::Message { protocol, code, payload, pause } => {
                self.in_progress = Some(InProgress::new(pause));
                self.take_message(protocol, code, payload).await
            }
        }
    }

    async fn take_message(&mut self, protocol: usize, code: u64, payload: Payload) -> Result<Vec<Step>, EndReason> {
        let accepts_new_blocks = self.mismatched_bodies.accepts_new_blocks();
        let acceptance = self.context.acceptance.now(self.awaited.as_ref(), accepts_new_blocks);
        let Some((index, conversation)) = &mut self.conversation else { return Ok(Vec::new()) };
        if *index != protocol {
            return Ok(Vec::new());
        }
        if let Some(kind) = conversation.kind(code) {
            self.context.traffic.count_received(kind, payload.len());
        }
        let kind = match conversation.begin(code, &payload, acceptance) {
            BeginOutcome::Done(steps) => return Ok(steps),
            BeginOutcome::Unwanted => {
                let pause = unwanted_pause(payload.len());
                drop(payload);
                self.send_urgent_while(sleep(pause)).await?;
                return Ok(Vec::new());
            }
            BeginOutcome::Decode(kind) => kind,
        };
        if let Some(awaited) = &self.awaited {
            awaited.answered(kind);
        }
        let (version, bytes) = (conversation.version(), payload.len());
        // The payload is dropped when it is decoded, so that others can be received while this one is answered.
        let decode = move || {
            let is_foreign = kind == Kind::NewBlock && has_own_body(&payload) == Ok(false);
            (!is_foreign).then(|| Message::decode(version, code, &payload))
        };
        let decoded = if bytes <= MAX_SHORT_PAYLOAD { decode() } else { self.in_turn(kind, decode).await? };
        let Some(decoded) = decoded else {
            self.count_mismatched_body();
            return Ok(Vec::new());
        };
        Ok(self.conversation.as_mut().map_or_else(Vec::new, |(_, conversation)| conversation.finish(decoded, bytes)))
    }

    /// Runs work for the message in progress on a blocking thread. Waits for a turn first, unless the message has one.
    /// The message keeps its turn until it is processed; if the connection ends, the turn ends with the work.
    async fn in_turn<T: Send + 'static>(
        &mut self,
        kind: Kind,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, EndReason> {
        let turn = match self.in_progress.as_mut().and_then(|message| message.turn.take()) {
            Some(turn) => turn,
            None => self.send_urgent_while(self.context.turns.wait(kind, self.address)).await?,
        };
        let working = system::spawn_blocking(&Handle::current(), move || (work(), turn));
        let Ok((done, turn)) = self.send_urgent_while(working).await? else {
            return Err(self.refuse(DisconnectReason::REQUESTED).await);
        };
        self.keep(turn);
        Ok(done)
    }

    /// Counts a block whose body does not match its header. The block with this hash may still be valid, and the peer
    /// may have verified only the header, so neither is blamed.
    fn count_mismatched_body(&mut self) {
        tracing::debug!("a peer sent a block with a body that is not its own");
        self.mismatched_bodies.add();
    }

    /// Keeps a turn until the message in progress is processed.
    fn keep(&mut self, turn: FairTurn) {
        if let Some(message) = &mut self.in_progress {
            message.turn = Some(turn);
        }
    }

    async fn greet(&mut self, hello: Hello, agreed: &[AgreedProtocol]) -> Result<Vec<Step>, EndReason> {
        let spoken = agreed.iter().enumerate().find_map(|(index, agreed)| {
            let number = u32::try_from(agreed.capability.version).ok()?;
            (agreed.capability.name == PROTOCOL).then_some((index, version(number)?))
        });
        let Some((index, version)) = spoken else { return Err(self.refuse(DisconnectReason::USELESS_PEER).await) };
        let connection = self.connection;
        self.ask(|answer| Input::Greeted { connection, hello, answer }).await?;
        self.command(Command::Admit).await;
        self.place = None;
        let conversation = Conversation::new(version, self.context.status(), self.started.elapsed());
        let payload = conversation.status();
        self.conversation = Some((index, conversation));
        Ok(vec![Step::Send { code: 0, payload }])
    }

    /// Asks the actor whether the peer is admitted.
    async fn ask(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<(), DisconnectReason>>) -> Input,
    ) -> Result<(), EndReason> {
        let (answer, answered) = oneshot::channel();
        if let Err(error) = self.mailbox.try_send(request(answer)) {
            let over = self.refuse(DisconnectReason::TOO_MANY_PEERS).await;
            return Err(EndReason { reason: error.to_string(), ..over });
        }
        match answered.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(reason)) => Err(self.refuse(reason).await),
            Err(_) => Err(self.refuse(DisconnectReason::CLIENT_QUITTING).await),
        }
    }

    async fn perform(&mut self, step: Step) -> Result<(), EndReason> {
        let connection = self.connection;
        let news = match step {
            Step::Send { code, payload } => {
                self.send(code, payload, None).await;
                return Ok(());
            }
            Step::Serve(request) => return self.serve(request).await,
            Step::End(Ended { sent_reason, reason, fault }) => {
                self.command(Command::Refuse(sent_reason)).await;
                return Err(EndReason { reason, fault });
            }
            Step::Established(status) => Input::Established { connection, status },
            Step::NewHead { hash, total_difficulty, number } => {
                Input::NewHead { connection, hash, total_difficulty, number }
            }
            Step::Deliver(delivery) => return self.deliver(delivery).await,
        };
        // If the mailbox is full, a value that is only displayed is lost.
        drop(self.mailbox.try_send(news));
        Ok(())
    }

    /// Passes a message to the actor. Reading from the peer continues when the actor has processed it.
    async fn deliver(&mut self, delivery: Delivery) -> Result<(), EndReason> {
        let delivered = match delivery {
            Delivery::Bodies { bodies, bytes } => {
                PeerMessage::Bodies(self.in_turn(Kind::BlockBodies, move || checked(bodies, bytes)).await?)
            }
            Delivery::Transactions(transactions) => {
                let has_turn = self.in_progress.as_ref().is_some_and(|message| message.turn.is_some());
                if transactions.len() > MAX_SHORT_TRANSACTIONS && !has_turn {
                    let turn =
                        self.send_urgent_while(self.context.turns.wait(Kind::Transactions, self.address)).await?;
                    self.keep(turn);
                }
                PeerMessage::Plain(Delivery::Transactions(transactions))
            }
            delivery => PeerMessage::Plain(delivery),
        };
        let (connection, in_progress) = (self.connection, self.in_progress.take());
        // If the mailbox is full, the answer is lost and the request is repeated.
        drop(self.mailbox.try_send(Input::PeerMessage { connection, delivered, in_progress }));
        Ok(())
    }

    fn command_of(&self, message: &Outgoing) -> Option<Command> {
        let (protocol, conversation) = self.conversation.as_ref()?;
        let code = conversation.code(message.kind)?;
        self.context.traffic.count_sent(message.kind, message.payload.len());
        if let Some(awaited) = &self.awaited {
            awaited.sent(message.kind);
        }
        Some(Command::Send { protocol: *protocol, code, payload: message.payload.to_vec(), written: None })
    }

    async fn send(&self, code: u64, payload: Vec<u8>, written: Option<oneshot::Sender<()>>) {
        let Some((protocol, conversation)) = &self.conversation else { return };
        if let Some(kind) = conversation.kind(code) {
            self.context.traffic.count_sent(kind, payload.len());
        }
        self.command(Command::Send { protocol: *protocol, code, payload, written }).await;
    }

    /// Answers a request. The peer's next message is processed only after the answer is written, so a peer that does
    /// not read holds the memory of one answer at most.
    async fn serve(&mut self, request: PeerRequest) -> Result<(), EndReason> {
        // The turn was for decoding; a peer that does not read must not keep it.
        if let Some(message) = &mut self.in_progress {
            message.turn = None;
        }
        let (chain, readers, address) = (Arc::clone(&self.context.chain), self.context.readers.clone(), self.address);
        let reading = async move {
            let turn = readers.wait(address).await;
            // Held until the thread has read, even if the connection ends before.
            let read = move || {
                let _turn = turn;
                serving::answer(&*chain, &request)
            };
            system::spawn_blocking(&Handle::current(), read).await.ok()
        };
        let Some((kind, payload)) = self.send_urgent_while(reading).await? else {
            return Err(self.refuse(DisconnectReason::REQUESTED).await);
        };
        let Some(code) = self.conversation.as_ref().and_then(|(_, conversation)| conversation.code(kind)) else {
            return Ok(());
        };
        let bandwidth = self.bandwidth.clone();
        self.send_urgent_while(async move { bandwidth.upload(Priority::Answer, Instant::now()).await }).await?;
        let (written, is_written) = oneshot::channel();
        self.send(code, payload, Some(written)).await;
        // Dropped when the connection ends, which is handled elsewhere.
        self.send_urgent_while(is_written).await.map(drop)
    }

    /// Waits for a future, and sends urgent messages meanwhile: a slow answer delays no vote.
    async fn send_urgent_while<T>(&mut self, work: impl Future<Output = T>) -> Result<T, EndReason> {
        let mut work = std::pin::pin!(work);
        let urgent = self.urgent.clone();
        loop {
            tokio::select! {
                biased;
                reason = self.receivers.disconnects.recv() => return Err(self.disconnect(reason).await),
                done = &mut work => return Ok(done),
                Some((place, message)) = next_urgent(&urgent, &mut self.receivers.urgent) => {
                    if let Some(command) = self.command_of(&message) {
                        place.send(command);
                    }
                }
            }
        }
    }
}

/// The next urgent message, and a place for it in the queue of the connection. Reserves the place first, so that no message
/// is taken from the queue while the peer does not read.
async fn next_urgent<'a>(
    urgent: &'a Sender<Command>,
    messages: &mut Receiver<Outgoing>,
) -> Option<(Permit<'a, Command>, Outgoing)> {
    let place = urgent.reserve().await.ok()?;
    Some((place, messages.recv().await?))
}

/// Computes the roots that bind bodies to their headers.
fn checked(bodies: Vec<BlockBody>, bytes: usize) -> Vec<CheckedBody> {
    let share = bytes.checked_div(bodies.len()).unwrap_or_default() as u64;
    let check = |body: BlockBody| CheckedBody {
        transactions_root: tenon_chain::transactions_root(&body.transactions),
        ommers_hash: tenon_chain::ommers_hash(&body.ommers),
        body,
        bytes: share,
    };
    bodies.into_iter().map(check).collect()
}

/// Sleeps until a time of the connection's clock; without one forever.
async fn sleep_to(started: Instant, time: Option<Duration>) {
    match time {
        Some(time) => sleep_until(started + time).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_whose_connection_is_closed_for_the_memory_of_others_is_not_blamed() {
        assert_eq!(fault_of(&ConnectionEnd::Stalled), Some(Fault::Stalled));
        for end in [ConnectionEnd::Displaced, ConnectionEnd::Eof, ConnectionEnd::WriteTimeout, ConnectionEnd::Abandoned]
        {
            assert_eq!(fault_of(&end), None, "{end}");
        }
    }
}
