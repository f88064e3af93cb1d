//! One exchange: a request, the prompts that interrupt it, its answer. No I/O.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use tenon_device_framing::Message;
use tenon_proto::common::{
    ButtonAck, ButtonRequest, Failure, PassphraseAck, PassphraseRequest, PassphraseStateAck, PassphraseStateRequest,
    PinMatrixAck, PinMatrixRequest, failure::FailureType, pin_matrix_request::PinMatrixRequestType,
};
use tenon_proto::{WireMessage, decode, encode, shown_text};
use zeroize::Zeroizing;

use crate::{Answer, DeviceError, Operation, PinKind, Progress, Prompt, Question};

/// Maximum number of messages in one exchange that are answered without a person: states of the session, and passphrases that are
/// typed on the device. A device sends one of each; one that goes on would hold its session.
const MAX_AUTOMATIC_ANSWERS: u32 = 8;
/// Button requests in one exchange. Signing takes three, long typed data some dozens.
const MAX_BUTTONS: u32 = 1000;

/// The failure of devices that speak the newer protocol only.
const INVALID_PROTOCOL: i32 = 17;

/// A message to the device. Its body is wiped when it is dropped; `Debug` shows id and length only.
#[derive(Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The number of its type.
    pub id: u16,
    /// The body, encoded.
    pub body: Zeroizing<Vec<u8>>,
}

impl Outgoing {
    /// Encodes a message.
    pub fn new<M: WireMessage>(message: &M) -> Self {
        let (id, body) = encode(message);
        Self { id, body }
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("id", &self.id).field("length", &self.body.len()).finish()
    }
}

/// Who the next message of the device waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The device alone: it answers within seconds.
    Device,
    /// A person at the device.
    Person,
    /// The device, which holds back what a PIN leads to: 2^f - 1 seconds after f wrong ones (`docs/spec/device.md 6.4`).
    BackOff,
}

/// What an exchange does next.
#[derive(Debug)]
pub enum Step<T> {
    /// Send this, then read a message.
    Send(Outgoing, Wait),
    /// Ask a person, then go on with [`Exchange::answer`].
    Ask(Question),
    /// The result.
    Done(T),
}

/// The number of the next question in this process: no two have the same.
static NEXT_QUESTION: AtomicU64 = AtomicU64::new(1);

/// An exchange in its course.
#[derive(Debug)]
pub struct Exchange<O> {
    operation: O,
    buttons: u32,
    automatic_answers: u32,
    asked: Option<Question>,
    can_type_passphrase_on_device: bool,
    /// What the device wants to be given at the next `Initialize`, so that it keeps the passphrase.
    learned_state: Option<Zeroizing<Vec<u8>>>,
}

impl<O: Operation> Exchange<O> {
    /// An exchange for an operation. `can_type_passphrase_on_device` is a capability of the device.
    pub const fn new(operation: O, can_type_passphrase_on_device: bool) -> Self {
        Self {
            operation,
            buttons: 0,
            automatic_answers: 0,
            asked: None,
            can_type_passphrase_on_device,
            learned_state: None,
        }
    }

    /// The request.
    pub fn begin(&mut self) -> Outgoing {
        self.operation.request()
    }

    /// The session's state, if the device has told one. It can be told once.
    pub fn take_learned_state(&mut self) -> Option<Zeroizing<Vec<u8>>> {
        self.learned_state.take()
    }

    /// Takes a message of the device.
    ///
    /// # Errors
    /// The device's failure, or that the message does not belong here.
    pub fn message(&mut self, message: &Message) -> Result<Step<O::Output>, DeviceError> {
        match message.id {
            Failure::ID => Err(refused(message)?),
            got @ (ButtonRequest::ID | PinMatrixRequest::ID | PassphraseRequest::ID)
                if !self.operation.may_need_person() =>
            {
                Err(DeviceError::Unexpected { expected: self.operation.expected(), got })
            }
            ButtonRequest::ID => {
                // Read for its form alone; nothing is decided by its code (`docs/spec/device.md 6.3`).
                decode::<ButtonRequest>(message.id, &message.body)?;
                self.buttons += 1;
                if self.buttons > MAX_BUTTONS {
                    return Err(DeviceError::TooManyButtons { max: MAX_BUTTONS });
                }
                Ok(Step::Send(Outgoing::new(&ButtonAck {}), Wait::Person))
            }
            PinMatrixRequest::ID => {
                let request: PinMatrixRequest = decode(message.id, &message.body)?;
                let is_current = request.r#type.is_none_or(|kind| kind == PinMatrixRequestType::Current as i32);
                Ok(self.ask(Prompt::Pin(if is_current { PinKind::Current } else { PinKind::Other })))
            }
            PassphraseRequest::ID => {
                let request: PassphraseRequest = decode(message.id, &message.body)?;
                if request.on_device() {
                    self.count_automatic_answer()?;
                    return Ok(Step::Send(Outgoing::new(&PassphraseAck::default()), Wait::Person));
                }
                let can_be_typed_on_device = self.can_type_passphrase_on_device;
                Ok(self.ask(Prompt::Passphrase { can_be_typed_on_device }))
            }
            PassphraseStateRequest::ID => {
                self.count_automatic_answer()?;
                let mut request: PassphraseStateRequest = decode(message.id, &message.body)?;
                self.learned_state = request.state.take().map(Zeroizing::new);
                Ok(Step::Send(Outgoing::new(&PassphraseStateAck {}), Wait::Device))
            }
            got => {
                let expected = self.operation.expected();
                if !expected.contains(&got) {
                    return Err(DeviceError::Unexpected { expected, got });
                }
                match self.operation.answered(message)? {
                    Progress::Send(next) => Ok(Step::Send(next, Wait::Device)),
                    Progress::Done(result) => Ok(Step::Done(result)),
                }
            }
        }
    }

    fn count_automatic_answer(&mut self) -> Result<(), DeviceError> {
        self.automatic_answers += 1;
        match self.automatic_answers > MAX_AUTOMATIC_ANSWERS {
            true => Err(DeviceError::TooManyStates { max: MAX_AUTOMATIC_ANSWERS }),
            false => Ok(()),
        }
    }

    fn ask(&mut self, prompt: Prompt) -> Step<O::Output> {
        let question = Question { number: NEXT_QUESTION.fetch_add(1, Ordering::Relaxed), prompt };
        self.asked = Some(question);
        Step::Ask(question)
    }

    /// The question that waits for an answer.
    pub const fn asked(&self) -> Option<Question> {
        self.asked
    }

    /// Takes a person's answer to the question with this number; gives what to send, and who the device waits for then. A PIN is
    /// sent once: the next needs a new question.
    ///
    /// # Errors
    /// When the answer has a wrong form, is to another question or of another kind, or declines. The question stays open after a
    /// wrong form.
    pub fn answer(&mut self, number: u64, answer: Answer) -> Result<(Outgoing, Wait), DeviceError> {
        let asked = self.asked.filter(|question| question.number == number).map(|question| question.prompt);
        let mut wait = Wait::Person;
        let out = match (asked, answer.checked()?) {
            (Some(Prompt::Pin(_)), Answer::Pin(positions)) => {
                wait = Wait::BackOff;
                let mut ack = PinMatrixAck::default();
                ack.pin = Some(positions.as_str().to_owned());
                Outgoing::new(&ack)
            }
            (Some(Prompt::Passphrase { .. }), Answer::Passphrase(text)) => {
                let mut ack = PassphraseAck::default();
                ack.passphrase = Some(text.as_str().to_owned());
                Outgoing::new(&ack)
            }
            (Some(Prompt::Passphrase { can_be_typed_on_device: true }), Answer::OnDevice) => {
                let mut ack = PassphraseAck::default();
                ack.on_device = Some(true);
                Outgoing::new(&ack)
            }
            _ => return Err(DeviceError::Cancelled),
        };
        self.asked = None;
        Ok((out, wait))
    }
}

/// What a failure of the device means.
pub(crate) fn refused(message: &Message) -> Result<DeviceError, DeviceError> {
    let failure: Failure = decode(message.id, &message.body)?;
    if failure.code == Some(INVALID_PROTOCOL) {
        return Ok(DeviceError::NewerProtocol);
    }
    let mut text = shown_text(failure.message());
    if text.is_empty() {
        let known = failure.code.and_then(|code| FailureType::try_from(code).ok());
        text = known.map_or_else(String::new, |known| known.as_str_name().trim_start_matches("Failure_").to_owned());
    }
    Ok(DeviceError::Refused { code: failure.code, text })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;
    use crate::{DerivationPath, GetAddress, GetFeatures, Initialize};

    fn address() -> Exchange<GetAddress> {
        let mut exchange = Exchange::new(GetAddress::new(DerivationPath::account(0), false).unwrap(), true);
        exchange.begin();
        exchange
    }

    fn asked<O: Operation>(exchange: &mut Exchange<O>, id: u16) -> Question {
        match exchange.message(&Message { id, body: Vec::new().into() }) {
            Ok(Step::Ask(question)) => question,
            other => panic!("{:?}", other.err()),
        }
    }

    #[test]
    fn an_answer_goes_to_the_question_that_it_was_given_to() {
        let mut exchange = address();
        let pin = || Answer::Pin(Zeroizing::new("1234".into()));
        let passphrase = || Answer::Passphrase(Zeroizing::new("1234".into()));
        let first = asked(&mut exchange, PinMatrixRequest::ID);
        assert!(matches!(
            exchange.answer(first.number, pin()),
            Ok((Outgoing { id: PinMatrixAck::ID, .. }, Wait::BackOff))
        ));
        let second = asked(&mut exchange, PassphraseRequest::ID);

        assert_eq!(exchange.answer(first.number, pin()).err(), Some(DeviceError::Cancelled), "it was answered");
        assert_eq!(exchange.answer(first.number, passphrase()).err(), Some(DeviceError::Cancelled), "another's number");
        assert_eq!(exchange.answer(second.number, pin()).err(), Some(DeviceError::Cancelled), "another kind");
        let sent = exchange.answer(second.number, passphrase());

        assert!(matches!(sent, Ok((Outgoing { id: PassphraseAck::ID, .. }, Wait::Person))), "{:?}", sent.err());
        let mut other = address();
        assert_ne!(asked(&mut other, PinMatrixRequest::ID).number, first.number);
    }

    #[test]
    fn what_needs_no_person_lets_a_device_ask_for_none() {
        for id in [ButtonRequest::ID, PinMatrixRequest::ID, PassphraseRequest::ID] {
            let mut initialize = Exchange::new(Initialize::default(), true);
            initialize.begin();
            let mut features = Exchange::new(GetFeatures, true);
            features.begin();
            let message = Message { id, body: Vec::new().into() };

            let refused = [initialize.message(&message).err(), features.message(&message).err()];

            assert!(
                refused.iter().all(|error| matches!(error, Some(DeviceError::Unexpected { got, .. }) if *got == id))
            );
        }
    }

    #[test]
    fn a_device_that_tells_of_its_session_without_end_is_refused() {
        let on_device = vec![0x08, 1];
        for (id, body) in [(PassphraseStateRequest::ID, Vec::new()), (PassphraseRequest::ID, on_device)] {
            let mut exchange = address();
            exchange.begin();
            let message = Message { id, body: body.into() };
            for _ in 0..MAX_AUTOMATIC_ANSWERS {
                assert!(matches!(exchange.message(&message), Ok(Step::Send(..))), "{id}");
            }

            let refused = exchange.message(&message).err();

            assert_eq!(refused, Some(DeviceError::TooManyStates { max: MAX_AUTOMATIC_ANSWERS }), "{id}");
        }
    }
}
