//! Opening a wallet: what the device asks meanwhile, and the calls that bring the answers (`docs/spec/device.md 10.4`).

use futures_util::future::BoxFuture;
use tenon_device_transport::Wire;
use zeroize::Zeroizing;

use super::{OpenState, Wallet, WalletStatus};
use crate::driver::{Outcome, ask};
use crate::operations::{GetAddress, Ping};
use crate::{
    Answer, DerivationPath, DeviceError, DeviceInfo, Driver, Exchange, Given, Operation, Person, Prompt, Question,
};

/// An opening that waits for an answer. The device shows its question meanwhile.
pub(super) enum Suspended {
    /// Where a `Ping` has the device unlocked.
    Ping(Exchange<Ping>),
    /// Everywhere else.
    Address(Exchange<GetAddress>),
}

impl Suspended {
    fn asked(&self) -> Option<Question> {
        match self {
            Self::Ping(exchange) => exchange.asked(),
            Self::Address(exchange) => exchange.asked(),
        }
    }
}

/// Where an opening stands: done, or it waits for an answer.
type Progressed = Result<Option<Suspended>, DeviceError>;

impl WalletStatus {
    /// What a text means that a caller brings: an answer to the question that is open. None without such a question, and for an
    /// empty text, unless it is the passphrase of the standard wallet.
    pub fn given(&self, text: Zeroizing<String>) -> Option<Given> {
        let Question { number, prompt } = self.asked?;
        let answer = match prompt {
            Prompt::Pin(_) if text.is_empty() => return None,
            Prompt::Pin(_) => Answer::Pin(text),
            Prompt::Passphrase { .. } => Answer::Passphrase(text),
        };
        Some(Given { number, answer })
    }
}

impl Wallet {
    /// Opens the wallet, or goes on with opening it. `given` answers the question that an earlier call left open
    /// ([`WalletStatus::asked`]); without it, `person` is asked. An answer to any other question is not sent.
    ///
    /// # Errors
    /// [`DeviceError::PinNeeded`] and [`DeviceError::PassphraseNeeded`] when the next call must bring the answer; what
    /// the device failed with, after which the next call begins anew.
    pub async fn open(
        &mut self,
        given: Option<Given>,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Result<(), DeviceError> {
        if self.state() == OpenState::Open {
            return Err(DeviceError::AlreadyOpen);
        }
        let progressed = match self.suspended.take() {
            Some(suspended) => self.go_on(suspended, given, person, cancel).await,
            None => self.begin(person, cancel).await,
        };
        let result = match progressed {
            Ok(None) => Ok(()),
            Ok(Some(suspended)) => {
                let needed = suspended.asked().map_or(DeviceError::PassphraseNeeded, |asked| asked.prompt.needed());
                self.suspended = Some(suspended);
                Err(needed)
            }
            Err(error) => Err(error),
        };
        let asked = self.suspended.as_ref().and_then(Suspended::asked);
        self.status.send_modify(|status| status.asked = asked);
        self.note(&result);
        result
    }

    /// Goes on with an answer that was given, or that the person gives now.
    async fn go_on(
        &mut self,
        suspended: Suspended,
        given: Option<Given>,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Progressed {
        let Some(question) = suspended.asked() else { return self.begin(person, cancel).await };
        let answer = match given {
            Some(given) if given.number == question.number => given.answer,
            // The device asks something else by now.
            Some(_) => return Ok(Some(suspended)),
            None => {
                let limit = self.timeouts.prompt;
                match ask(limit, question, person, cancel).await {
                    Ok(Some(answer)) => answer,
                    Ok(None) => return Ok(Some(suspended)),
                    Err(error) => return self.driver()?.give_up(error).await,
                }
            }
        };
        match suspended {
            Suspended::Ping(exchange) => self.answer(exchange, question, answer, person, cancel, Suspended::Ping).await,
            Suspended::Address(exchange) => {
                self.answer(exchange, question, answer, person, cancel, Suspended::Address).await
            }
        }
    }

    async fn answer<O: Operation>(
        &mut self,
        mut exchange: Exchange<O>,
        question: Question,
        answer: Answer,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
        suspend: impl FnOnce(Exchange<O>) -> Suspended,
    ) -> Progressed {
        let next = exchange.answer(question.number, answer);
        let driver = self.driver()?;
        let outcome = match next {
            Ok((next, wait)) => driver.go_on(exchange, next, wait, person, cancel).await,
            Err(error) => driver.give_up(error).await,
        };
        progressed(outcome, suspend)
    }

    async fn begin(&mut self, person: &mut dyn Person, cancel: &mut BoxFuture<'_, ()>) -> Progressed {
        if self.driver.is_none() {
            let link = self.transport.open(&self.path, Wire::Main).await?;
            self.driver = Some(Driver::new(link, self.timeouts));
        }
        let info = self.driver()?.initialize(cancel).await?;
        self.recognise(&info)?;
        let driver = self.driver()?;
        if info.unlocks_by_ping() {
            let ping = Ping { is_pin_wanted: true, is_passphrase_wanted: true, text: None };
            return progressed(driver.start(ping, person, cancel).await, Suspended::Ping);
        }
        if !info.is_initialized {
            // It has no seed, and so nothing that PIN or passphrase would open.
            return Ok(None);
        }
        let address = GetAddress::new(DerivationPath::account(0), false)?;
        progressed(driver.start(address, person, cancel).await, Suspended::Address)
    }

    /// Notes who the device is.
    fn recognise(&mut self, info: &DeviceInfo) -> Result<(), DeviceError> {
        if self.device_id.as_ref().is_some_and(|known| *known != info.device_id) {
            return Err(DeviceError::OtherDevice);
        }
        self.device_id = Some(info.device_id.clone());
        self.status.send_modify(|status| {
            status.identity = Some((info.version, info.label.clone()));
            status.signs_fee_market = info.is_later();
            status.failure = None;
        });
        Ok(())
    }
}

fn progressed<O: Operation>(
    outcome: Result<Outcome<O>, DeviceError>,
    suspend: impl FnOnce(Exchange<O>) -> Suspended,
) -> Progressed {
    match outcome? {
        Outcome::Done(_) => Ok(None),
        Outcome::Suspended(exchange) => Ok(Some(suspend(exchange))),
    }
}
