//! One exchange: a request, the prompts that interrupt it, and its response. No I/O.

use std::sync::atomic::{AtomicU64, Ordering};

use tenon_device_framing::Message;
use tenon_proto::common::{
    ButtonAck, ButtonRequest, Failure, PassphraseAck, PassphraseRequest, PassphraseStateAck, PassphraseStateRequest,
    PinMatrixAck, PinMatrixRequest, failure::FailureType, pin_matrix_request::PinMatrixRequestType,
};
use tenon_proto::{WireMessage, decode, encode, shown_text};
use zeroize::Zeroizing;

use crate::{Answer, DeviceError, NumberedPrompt, Operation, PinKind, Progress, Prompt};

/// Maximum number of messages in one exchange that are answered without a person: session states, and notices that a
/// passphrase is typed on the device. A device sends one of each; without the bound, it could keep its session busy
/// forever.
const MAX_AUTOMATIC_ANSWERS: u32 = 8;
/// Maximum number of button requests in one exchange. Signing takes three, long typed data a few dozen.
const MAX_BUTTONS: u32 = 1000;

/// The failure code of devices that support only the newer protocol.
const INVALID_PROTOCOL: i32 = 17;

/// A message to the device. Its body is wiped on drop, and `Debug` shows only id and length.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("Outgoing(id {id}, {} bytes)", body.len())]
pub struct Outgoing {
    /// Message type.
    pub id: u16,
    /// The encoded body.
    pub body: Zeroizing<Vec<u8>>,
}

impl Outgoing {
    /// Encodes a message.
    pub fn new<M: WireMessage>(message: &M) -> Self {
        let (id, body) = encode(message);
        Self { id, body }
    }
}

/// What the device's next message waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Only the device, which responds within seconds.
    Device,
    /// A person at the device.
    Person,
    /// A device that delays its response to a PIN: by 2^f - 1 seconds after f wrong ones (`docs/spec/device.md 6.4`).
    BackOff,
}

/// The next step of an exchange.
#[derive(Debug)]
pub enum Step<T> {
    /// Send this, then read a message.
    Send(Outgoing, Wait),
    /// Ask a person, then continue with [`Exchange::answer`].
    Ask(NumberedPrompt),
    /// The result.
    Done(T),
}

/// Number of the next prompt. Unique within the process.
static NEXT_PROMPT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// An exchange in progress.
#[derive(Debug)]
pub struct Exchange<O> {
    operation: O,
    buttons: u32,
    automatic_answers: u32,
    asked: Option<NumberedPrompt>,
    can_type_passphrase_on_device: bool,
    /// Session state to pass to the device at the next `Initialize`, so that it keeps the passphrase.
    learned_state: Option<Zeroizing<Vec<u8>>>,
}

impl<O: Operation> Exchange<O> {
    /// Creates an exchange for an operation. `can_type_passphrase_on_device` is a capability of the device.
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

    /// Returns the request.
    pub fn begin(&mut self) -> Outgoing {
        self.operation.request()
    }

    /// Takes the session state that the device sent, if any.
    pub fn take_learned_state(&mut self) -> Option<Zeroizing<Vec<u8>>> {
        self.learned_state.take()
    }

    /// Handles a message from the device.
    ///
    /// # Errors
    /// The device's failure, or an unexpected message.
    pub fn message(&mut self, message: &Message) -> Result<Step<O::Output>, DeviceError> {
        match message.id {
            Failure::ID => Err(refused(message)?),
            got @ (ButtonRequest::ID | PinMatrixRequest::ID | PassphraseRequest::ID)
                if !self.operation.may_need_person() =>
            {
                Err(DeviceError::Unexpected { expected: self.operation.expected(), got })
            }
            ButtonRequest::ID => {
                // Decoded only to check its form; the code has no influence (`docs/spec/device.md 6.3`).
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
        let numbered = NumberedPrompt { number: NEXT_PROMPT_NUMBER.fetch_add(1, Ordering::Relaxed), prompt };
        self.asked = Some(numbered);
        Step::Ask(numbered)
    }

    /// The open prompt.
    pub const fn asked(&self) -> Option<NumberedPrompt> {
        self.asked
    }

    /// Handles a person's answer to the prompt with this number. Returns the message to send and what the device
    /// waits for afterwards. A PIN is sent only once: another one needs a new prompt.
    ///
    /// # Errors
    /// The answer is malformed, is for another prompt, is of another kind, or declines. The prompt stays open if
    /// the answer was malformed.
    pub fn answer(&mut self, number: u64, answer: Answer) -> Result<(Outgoing, Wait), DeviceError> {
        let asked = self.asked.filter(|numbered| numbered.number == number).map(|numbered| numbered.prompt);
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

/// Converts a failure message of the device.
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

    fn asked<O: Operation>(exchange: &mut Exchange<O>, id: u16) -> NumberedPrompt {
        match exchange.message(&Message { id, body: Vec::new().into() }) {
            Ok(Step::Ask(numbered)) => numbered,
            other => panic!("{:?}", other.err()),
        }
    }

    #[test]
    fn an_answer_goes_to_the_prompt_that_it_was_given_to() {
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
    fn a_device_may_not_prompt_during_an_exchange_without_a_person() {
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
    fn a_device_that_reports_its_session_endlessly_is_refused() {
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
