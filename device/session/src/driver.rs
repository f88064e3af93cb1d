//! Runs exchanges over a link, and resynchronises with the device after anything unexpected.

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
use crate::{Answer, DeviceError, DeviceInfo, Exchange, NumberedPrompt, Operation, Outgoing, Person, Step, Wait};

/// Time limits for the device and for a person who uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Limit for the first packet of a response that needs no person. A Model One takes seconds to derive a seed.
    pub answer: Duration,
    /// Limit between packets of one message, and for sending one.
    pub packet: Duration,
    /// Limit for a person at a prompt.
    pub prompt: Duration,
    /// Silence after which no further packet of a broken exchange is expected.
    pub quiet: Duration,
    /// Limit for resynchronising with the device.
    pub resynchronise: Duration,
}

impl Timeouts {
    /// `prompt` for a person; the limits of the device are fixed.
    pub const fn with_prompt(prompt: Duration) -> Self {
        Self {
            answer: Duration::from_secs(30),
            packet: Duration::from_secs(5),
            prompt,
            quiet: Duration::from_millis(150),
            resynchronise: Duration::from_secs(10),
        }
    }
}

/// Maximum number of messages that are read while resynchronising. A working device sends two.
const MAX_DRAINED: usize = 256;

/// Time to look for a stale packet before a request. Such a packet arrived long ago.
const STALE: Duration = Duration::from_millis(1);

/// Interval at which a message is repeated while resynchronising.
const REPEAT: Duration = Duration::from_secs(2);

/// The longest time for which a device delays its response to a PIN: after the fifteenth wrong PIN. The sixteenth wipes
/// the device (`docs/spec/device.md 6.4`).
const MAX_BACK_OFF: Duration = Duration::from_secs((1 << 15) - 1);

/// Result of an exchange.
#[derive(Debug)]
pub(crate) enum Outcome<O: Operation> {
    /// The result.
    Done(O::Output),
    /// The exchange waits for an answer that no person could give. The device still shows its prompt.
    Suspended(Exchange<O>),
}

/// Runs exchanges over one open link. It tracks whether host and device are in step: a future dropped in the middle of
/// an exchange leaves them out of step, and the next exchange then begins with [`Driver::resynchronise`].
pub struct Driver {
    link: Box<dyn Link>,
    reader: Reader,
    timeouts: Timeouts,
    is_in_step: bool,
    /// Number of packets of the last message that were not sent.
    unsent: usize,
    info: Option<DeviceInfo>,
    /// Session state to pass to the device in `Initialize`, so that it keeps the passphrase.
    state: Option<Zeroizing<Vec<u8>>>,
}

impl Driver {
    /// Creates a driver for a link that was just opened. The device may be in the middle of another host's exchange, so
    /// the first exchange resynchronises.
    pub fn new(link: Box<dyn Link>, timeouts: Timeouts) -> Self {
        let reader = Reader::new(Wire::Main);
        Self { link, reader, timeouts, is_in_step: false, unsent: 0, info: None, state: None }
    }

    /// The device's features at the last `Initialize`.
    pub fn info(&self) -> Option<&DeviceInfo> {
        self.info.as_ref()
    }

    /// Initializes the session. Must be called first after opening.
    ///
    /// # Errors
    /// Those of [`Driver::run_alone`].
    pub async fn initialize(&mut self, cancel: &mut BoxFuture<'_, ()>) -> Result<DeviceInfo, DeviceError> {
        let operation = Initialize { state: self.state.clone() };
        let (info, session) = self.run_alone(operation, cancel).await?;
        if session.is_some() {
            self.state = session;
        }
        self.info = Some(info.clone());
        Ok(info)
    }

    /// Runs an operation to completion. When `cancel` resolves, the operation is cancelled on the device too.
    ///
    /// # Errors
    /// The device's failure, a prompt for which `person` gave no answer, or any other error, after which host and
    /// device are resynchronised if possible.
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
                self.resynchronise_after(error).await
            }
        }
    }

    /// Runs an operation that needs no person. The limit for a device's response applies to the whole operation,
    /// regardless of the number of messages and packets.
    ///
    /// # Errors
    /// Those of [`Driver::run`], and [`DeviceError::AnswerTimeout`].
    pub async fn run_alone<O: Operation>(
        &mut self,
        operation: O,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Result<O::Output, DeviceError> {
        self.ensure_in_step().await?;
        let within = self.timeouts.answer;
        let outcome = timeout(within, self.run(operation, &mut crate::NoPerson, cancel)).await;
        match outcome {
            Ok(result) => result,
            Err(_) => self.resynchronise_after(DeviceError::AnswerTimeout).await,
        }
    }

    /// Resynchronises unless host and device are in step. Unread data, such as a duplicate response, counts as out of
    /// step, because it would be taken for the next response.
    async fn ensure_in_step(&mut self) -> Result<(), DeviceError> {
        if !self.is_in_step || timeout(STALE, self.link.receive()).await.is_ok() {
            self.resynchronise().await?;
        }
        Ok(())
    }

    /// Runs an operation until it completes or needs an answer that no person can give now.
    pub(crate) async fn start<O: Operation>(
        &mut self,
        operation: O,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Result<Outcome<O>, DeviceError> {
        self.ensure_in_step().await?;
        let can_type_on_device = self.info.as_ref().is_some_and(|info| info.has_passphrase_entry);
        let mut exchange = Exchange::new(operation, can_type_on_device);
        let request = exchange.begin();
        self.resume(exchange, request, Wait::Device, person, cancel).await
    }

    /// Continues an exchange by sending a message.
    pub(crate) async fn resume<O: Operation>(
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
            Err(error) => self.resynchronise_after(error).await,
        }
    }

    /// Exchanges messages until the result is available. Returns `None` if an answer is needed that no person can give
    /// now.
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
                Step::Ask(numbered) => {
                    let Some(answer) = ask(self.timeouts.prompt, numbered, person, cancel).await? else {
                        return Ok(None);
                    };
                    (next, wait) = exchange.answer(numbered.number, answer)?;
                }
            }
        }
    }

    /// Resynchronises after `error` and returns the error. If resynchronising fails, the driver stays out of step.
    pub(crate) async fn resynchronise_after<T>(&mut self, error: DeviceError) -> Result<T, DeviceError> {
        if !error.is_lost() {
            // The first error says more than one that follows from it.
            let _ = self.resynchronise().await;
        }
        Err(error)
    }

    /// Resynchronises with the device (`docs/spec/device.md 8.4`): discards pending packets, cancels what the device is
    /// doing, and checks with a random ping that its response belongs to the current request. Forgets the session
    /// state, and with it the passphrase.
    ///
    /// # Errors
    /// [`DeviceError::AnswerTimeout`] if the device does not respond correctly in time, and errors of the link.
    pub async fn resynchronise(&mut self) -> Result<(), DeviceError> {
        self.is_in_step = false;
        self.state = None;
        let within = self.timeouts.resynchronise;
        timeout(within, self.resynchronise_without_limit()).await.map_err(|_| DeviceError::AnswerTimeout)??;
        self.is_in_step = true;
        Ok(())
    }

    async fn resynchronise_without_limit(&mut self) -> Result<(), DeviceError> {
        self.reader.reset();
        self.complete_own_message().await?;
        self.discard().await?;
        self.repeat_until(&Outgoing::new(&Cancel {}), |message| message.id == Failure::ID).await?;
        let text: String = rand::rng().sample_iter(Alphanumeric).take(16).map(char::from).collect();
        let mut ping = Ping { text: Some(text.clone()), ..Ping::default() };
        let is_echo = |message: &Message| {
            tenon_proto::decode::<Success>(message.id, &message.body)
                .is_ok_and(|success| success.message() == text.as_bytes())
        };
        self.repeat_until(&ping.request(), is_echo).await?;
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

    /// Repeats a message until the wanted response arrives. A device that was computing responds late, and a Model T
    /// takes a `Cancel` as consent when it requests a session state (`docs/spec/device.md 6.5`).
    async fn repeat_until(
        &mut self,
        message: &Outgoing,
        is_wanted: impl Fn(&Message) -> bool,
    ) -> Result<(), DeviceError> {
        loop {
            self.send(message).await?;
            if let Ok(answer) = timeout(REPEAT, self.drain(&is_wanted)).await {
                return answer.map(|_| ());
            }
            self.reader.reset();
        }
    }

    /// Completes a message of our own that was only partly sent, so that the device does not take later packets for the
    /// rest of it.
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

    /// Reads and drops packets until none has arrived for a while.
    async fn discard(&mut self) -> Result<(), DeviceError> {
        while let Ok(received) = timeout(self.timeouts.quiet, self.link.receive()).await {
            received?;
        }
        Ok(())
    }

    /// Reads messages until a wanted one arrives. Skips invalid packets and cancels prompts.
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
        // Never happens: long data is split into parts, so the length of every body can be encoded.
        let Ok(packets) = Packets::new(message.id, &message.body) else { return Err(DeviceError::Cancelled) };
        let mut left = packets.clone().count();
        for packet in packets {
            // Updated before sending, because a future that is dropped here may or may not have sent the packet. If it
            // did, the device receives one packet too many and drops it because it does not begin a message.
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

    /// Reads the next message of the device.
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

/// Asks a person, limited by the time for a prompt. `None` if no person can be asked now.
pub(crate) async fn ask(
    limit: Duration,
    numbered: NumberedPrompt,
    person: &mut dyn Person,
    cancel: &mut BoxFuture<'_, ()>,
) -> Result<Option<Answer>, DeviceError> {
    let asked = timeout(limit, person.ask(numbered.prompt));
    unless_cancelled(cancel, async { asked.await.map_err(|_| DeviceError::PromptTimeout) }).await
}

/// Waits for `work` unless it is cancelled first.
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
