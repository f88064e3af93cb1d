//! Runs exchanges over a link, and brings the two sides into step again after anything unexpected.

use std::future::Future;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rand::Rng as _;
use rand::distr::Alphanumeric;
use tenon_device_framing::{Message, Packet, Packets, Reader};
use tenon_device_transport::{Link, Wire};
use tenon_proto::WireMessage as _;
use tenon_proto::common::{ButtonRequest, Failure, PassphraseRequest, PinMatrixRequest, Success};
use tenon_proto::management::Cancel;
use tokio::time::{Instant, timeout, timeout_at};
use zeroize::Zeroizing;

use crate::exchange::refused;
use crate::operations::{Initialize, Ping};
use crate::{Answer, DeviceError, DeviceInfo, Exchange, Operation, Outgoing, Person, Question, Step, Wait};

/// How long a device, and a person at it, may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the first packet of an answer that needs no person. A Model One derives a seed for seconds.
    pub answer: Duration,
    /// Between packets of one message, and for sending one.
    pub packet: Duration,
    /// For a person at a prompt.
    pub prompt: Duration,
    /// Silence after which nothing more of a broken exchange is expected.
    pub quiet: Duration,
    /// For bringing the two sides into step again.
    pub resynchronise: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(30),
            packet: Duration::from_secs(5),
            prompt: Duration::from_secs(300),
            quiet: Duration::from_millis(150),
            resynchronise: Duration::from_secs(10),
        }
    }
}

/// Messages that are read while the two sides are brought into step. A sound device sends two.
const MAX_DRAINED: usize = 256;

/// How long a stale packet has to be found before a request: it has come long ago.
const STALE: Duration = Duration::from_millis(1);

/// After how long a message is sent again while the two sides are brought into step.
const REPEAT: Duration = Duration::from_secs(2);

/// The longest that a device holds back what a PIN leads to: after the fifteenth wrong one; the sixteenth wipes it
/// (`docs/spec/device.md 6.4`).
const MAX_BACK_OFF: Duration = Duration::from_secs((1 << 15) - 1);

/// What an exchange came to.
#[derive(Debug)]
pub(crate) enum Outcome<O: Operation> {
    /// The result.
    Done(O::Output),
    /// It waits for an answer that nobody could give now; the device shows its question.
    Suspended(Exchange<O>),
}

/// Runs exchanges over one open link. It remembers whether the two sides are in step: a future that was dropped in the
/// middle leaves them out of step, and the next exchange begins with [`Driver::resynchronise`].
pub struct Driver {
    link: Box<dyn Link>,
    reader: Reader,
    timeouts: Timeouts,
    is_in_step: bool,
    /// Packets of our own last message that were not sent.
    unsent: usize,
    info: Option<DeviceInfo>,
    /// What `Initialize` gives the device, so that it keeps the passphrase.
    state: Option<Zeroizing<Vec<u8>>>,
}

impl Driver {
    /// A driver of a link that was just opened. The device may be in the middle of another host's exchange, so the first
    /// thing is to bring it into step.
    pub fn new(link: Box<dyn Link>, timeouts: Timeouts) -> Self {
        let reader = Reader::new(Wire::Main);
        Self { link, reader, timeouts, is_in_step: false, unsent: 0, info: None, state: None }
    }

    /// What the device said of itself at the last `Initialize`.
    pub fn info(&self) -> Option<&DeviceInfo> {
        self.info.as_ref()
    }

    /// Initializes the session: first thing after opening.
    ///
    /// # Errors
    /// As [`Driver::run_alone`].
    pub async fn initialize(&mut self, cancel: &mut BoxFuture<'_, ()>) -> Result<DeviceInfo, DeviceError> {
        let operation = Initialize { state: self.state.clone() };
        let (info, session) = self.run_alone(operation, cancel).await?;
        if session.is_some() {
            self.state = session;
        }
        self.info = Some(info.clone());
        Ok(info)
    }

    /// Runs an operation to its end. `cancel` ends it early: the device is told.
    ///
    /// # Errors
    /// The device's failure; a prompt that `person` could not be asked; anything that went wrong, after which the two
    /// sides were brought into step again if that was possible.
    pub async fn run<O: Operation>(
        &mut self,
        operation: O,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Result<O::Output, DeviceError> {
        match self.start(operation, person, cancel).await? {
            Outcome::Done(result) => Ok(result),
            Outcome::Suspended(exchange) => {
                let error = exchange.asked().map_or(DeviceError::PassphraseNeeded, |asked| asked.prompt.needed());
                self.give_up(error).await
            }
        }
    }

    /// Runs an operation that needs no person, within the time that the device has for an answer, however many messages and packets it
    /// sends meanwhile.
    ///
    /// # Errors
    /// As [`Driver::run`]; [`DeviceError::AnswerTimeout`].
    pub async fn run_alone<O: Operation>(
        &mut self,
        operation: O,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Result<O::Output, DeviceError> {
        self.come_into_step().await?;
        let within = self.timeouts.answer;
        let outcome = timeout(within, self.run(operation, &mut crate::NoPerson, cancel)).await;
        match outcome {
            Ok(result) => result,
            Err(_) => self.give_up(DeviceError::AnswerTimeout).await,
        }
    }

    /// Brings the two sides into step unless they are. A device that said something unasked, such as an answer twice, would have it
    /// taken for the next answer.
    async fn come_into_step(&mut self) -> Result<(), DeviceError> {
        if !self.is_in_step || timeout(STALE, self.link.receive()).await.is_ok() {
            self.resynchronise().await?;
        }
        Ok(())
    }

    /// Runs an operation until it ends or must wait for an answer of later.
    pub(crate) async fn start<O: Operation>(
        &mut self,
        operation: O,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Result<Outcome<O>, DeviceError> {
        self.come_into_step().await?;
        let can_type_on_device = self.info.as_ref().is_some_and(|info| info.has_passphrase_entry);
        let mut exchange = Exchange::new(operation, can_type_on_device);
        let request = exchange.begin();
        self.go_on(exchange, request, Wait::Device, person, cancel).await
    }

    /// Goes on with an exchange by sending a message.
    pub(crate) async fn go_on<O: Operation>(
        &mut self,
        mut exchange: Exchange<O>,
        next: Outgoing,
        wait: Wait,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Result<Outcome<O>, DeviceError> {
        self.is_in_step = false;
        let result = self.converse(&mut exchange, next, wait, person, cancel).await;
        if let Some(state) = exchange.take_learned_state() {
            self.state = Some(state);
        }
        match result {
            Ok(Some(result)) => {
                self.is_in_step = true;
                Ok(Outcome::Done(result))
            }
            Ok(None) => Ok(Outcome::Suspended(exchange)),
            Err(error) if !error.has_lost_step() => {
                self.is_in_step = true;
                Err(error)
            }
            Err(error) => self.give_up(error).await,
        }
    }

    /// Sends and reads until the result is there, or an answer that nobody can give now is needed (none).
    async fn converse<O: Operation>(
        &mut self,
        exchange: &mut Exchange<O>,
        mut next: Outgoing,
        mut wait: Wait,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Result<Option<O::Output>, DeviceError> {
        loop {
            self.send(&next).await?;
            let message = unless_cancelled(cancel, self.receive(wait)).await?;
            if message.id == ButtonRequest::ID {
                person.button();
            }
            match exchange.message(&message)? {
                Step::Send(outgoing, for_whom) => (next, wait) = (outgoing, for_whom),
                Step::Done(result) => return Ok(Some(result)),
                Step::Ask(question) => {
                    let Some(answer) = ask(self.timeouts.prompt, question, person, cancel).await? else {
                        return Ok(None);
                    };
                    (next, wait) = exchange.answer(question.number, answer)?;
                }
            }
        }
    }

    /// Brings the two sides into step after `error`, and gives the error. A link that fails meanwhile stays out of step.
    pub(crate) async fn give_up<T>(&mut self, error: DeviceError) -> Result<T, DeviceError> {
        if !error.is_lost() {
            // The error that came first says more than what follows from it.
            let _ = self.resynchronise().await;
        }
        Err(error)
    }

    /// Brings the two sides into step again (`docs/spec/device.md 8.4`): what is on its way is discarded, whatever the
    /// device does is cancelled, and it proves that it answers this very request. The passphrase is forgotten.
    ///
    /// # Errors
    /// When the device does not come along in time.
    pub async fn resynchronise(&mut self) -> Result<(), DeviceError> {
        self.is_in_step = false;
        self.state = None;
        let within = self.timeouts.resynchronise;
        timeout(within, self.resynchronise_at_length()).await.map_err(|_| DeviceError::AnswerTimeout)??;
        self.is_in_step = true;
        Ok(())
    }

    async fn resynchronise_at_length(&mut self) -> Result<(), DeviceError> {
        self.reader.reset();
        self.complete_own_message().await?;
        self.discard().await?;
        self.insist(&Outgoing::new(&Cancel {}), |message| message.id == Failure::ID).await?;
        let text: String = rand::rng().sample_iter(Alphanumeric).take(16).map(char::from).collect();
        let mut ping = Ping { text: Some(text.clone()), ..Ping::default() };
        let is_echo = |message: &Message| {
            tenon_proto::decode::<Success>(message.id, &message.body)
                .is_ok_and(|success| success.message() == text.as_bytes())
        };
        self.insist(&ping.request(), is_echo).await?;
        let mut initialize = Initialize { state: None };
        self.send(&initialize.request()).await?;
        let message = self.drain(|message| initialize.expected().contains(&message.id)).await?;
        if let crate::Progress::Done((info, session)) = initialize.answered(&message)? {
            if self.info.as_ref().is_some_and(|known| known.device_id != info.device_id) {
                return Err(DeviceError::OtherDevice);
            }
            self.info = Some(info);
            self.state = session;
        }
        Ok(())
    }

    /// Sends a message again and again until the wanted answer comes. A device that was computing answers late, and a
    /// Model T takes a `Cancel` at the request of a state for consent (`docs/spec/device.md 6.5`).
    async fn insist(&mut self, message: &Outgoing, is_wanted: impl Fn(&Message) -> bool) -> Result<(), DeviceError> {
        loop {
            self.send(message).await?;
            if let Ok(answer) = timeout(REPEAT, self.drain(&is_wanted)).await {
                return answer.map(|_| ());
            }
            self.reader.reset();
        }
    }

    /// Ends a message of our own that was sent in part, so that the device does not take what follows for its rest.
    async fn complete_own_message(&mut self) -> Result<(), DeviceError> {
        let unsent = std::mem::take(&mut self.unsent);
        if unsent == 0 {
            return Ok(());
        }
        if self.info.as_ref().is_some_and(|info| info.is_model_one) {
            return self.put(&Packet::reset()).await;
        }
        for _ in 0..unsent {
            self.put(&Packet::filler()).await?;
        }
        Ok(())
    }

    /// Reads packets away until none has come for a while.
    async fn discard(&mut self) -> Result<(), DeviceError> {
        while let Ok(received) = timeout(self.timeouts.quiet, self.link.receive()).await {
            received?;
        }
        Ok(())
    }

    /// Reads messages until one is wanted. What is no message is skipped, questions are declined.
    async fn drain(&mut self, is_wanted: impl Fn(&Message) -> bool) -> Result<Message, DeviceError> {
        for _ in 0..MAX_DRAINED {
            let received = self.link.receive().await?;
            let Ok(Some(message)) = self.reader.push(received.as_bytes()) else { continue };
            if is_wanted(&message) {
                return Ok(message);
            }
            if message.id == Failure::ID
                && let Ok(DeviceError::NewerProtocol) = refused(&message)
            {
                return Err(DeviceError::NewerProtocol);
            }
            if [ButtonRequest::ID, PinMatrixRequest::ID, PassphraseRequest::ID].contains(&message.id) {
                self.send(&Outgoing::new(&Cancel {})).await?;
            }
        }
        Err(DeviceError::AnswerTimeout)
    }

    async fn send(&mut self, message: &Outgoing) -> Result<(), DeviceError> {
        // No body is so long that its length can't be expressed: data go in parts.
        let Ok(packets) = Packets::new(message.id, &message.body) else { return Err(DeviceError::Cancelled) };
        let mut left = packets.clone().count();
        for packet in packets {
            // Counted before it is sent: a future that is dropped here may have sent it or not. One packet too much is
            // dropped by the device as no beginning of a message.
            self.unsent = left - 1;
            self.put(&packet).await?;
            left -= 1;
        }
        self.unsent = 0;
        Ok(())
    }

    async fn put(&mut self, packet: &Packet) -> Result<(), DeviceError> {
        timeout(self.timeouts.packet, self.link.send(packet)).await.map_err(|_| DeviceError::AnswerTimeout)??;
        Ok(())
    }

    /// The next message of the device.
    async fn receive(&mut self, wait: Wait) -> Result<Message, DeviceError> {
        let (limit, error) = match wait {
            Wait::Device => (self.timeouts.answer, DeviceError::AnswerTimeout),
            Wait::Person => (self.timeouts.prompt, DeviceError::PromptTimeout),
            Wait::BackOff => (MAX_BACK_OFF + self.timeouts.answer, DeviceError::AnswerTimeout),
        };
        let first = timeout(limit, self.link.receive()).await.map_err(|_| error)??;
        let mut received = first;
        loop {
            if let Some(message) = self.reader.push(received.as_bytes())? {
                return Ok(message);
            }
            let until = Instant::now() + self.timeouts.packet;
            received = timeout_at(until, self.link.receive()).await.map_err(|_| DeviceError::AnswerTimeout)??;
        }
    }
}

/// Asks a person for as long as a prompt may take. None when nobody can be asked now.
pub(crate) async fn ask(
    limit: Duration,
    question: Question,
    person: &mut dyn Person,
    cancel: &mut BoxFuture<'_, ()>,
) -> Result<Option<Answer>, DeviceError> {
    let asked = timeout(limit, person.ask(question.prompt));
    unless_cancelled(cancel, async { asked.await.map_err(|_| DeviceError::PromptTimeout) }).await
}

/// Waits for work unless the caller leaves first.
async fn unless_cancelled<T>(
    cancel: &mut BoxFuture<'_, ()>,
    work: impl Future<Output = Result<T, DeviceError>>,
) -> Result<T, DeviceError> {
    tokio::select! {
        biased;
        () = cancel => Err(DeviceError::Cancelled),
        result = work => result,
    }
}
