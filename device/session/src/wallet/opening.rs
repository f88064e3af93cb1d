//! Opening a wallet: the prompts of the device, and the calls that bring the answers (`docs/spec/device.md 10.4`).

use futures_util::future::BoxFuture;
use tenon_device_transport::Wire;
use zeroize::Zeroizing;

use super::{OpenState, Wallet, WalletStatus};
use crate::driver::{Outcome, ask};
use crate::operations::{GetAddress, Ping};
use crate::{
    Answer, DerivationPath, DeviceError, DeviceInfo, Driver, Exchange, NumberedPrompt, Operation, Person, Prompt,
    PromptReply,
};

/// An opening that waits for an answer. The device shows its prompt in the meantime.
pub(super) enum Suspended {
    /// On devices that a `Ping` unlocks.
    Ping(Exchange<Ping>),
    /// On all other devices.
    Address(Exchange<GetAddress>),
}

impl Suspended {
    fn asked(&self) -> Option<NumberedPrompt> {
        match self {
            Self::Ping(exchange) => exchange.asked(),
            Self::Address(exchange) => exchange.asked(),
        }
    }
}

/// Progress of an opening: `None` if it is complete, otherwise it waits for an answer.
type Progressed = Result<Option<Suspended>, DeviceError>;

impl WalletStatus {
    /// Interprets a caller's text as an answer to the open prompt. `None` if there is no prompt, or if the text is
    /// empty; an empty passphrase is an answer, namely the standard wallet.
    pub fn reply_to_prompt(&self, text: Zeroizing<String>) -> Option<PromptReply> {
        let NumberedPrompt { number, prompt } = self.asked?;
        let answer = match prompt {
            Prompt::Pin(_) if text.is_empty() => return None,
            Prompt::Pin(_) => Answer::Pin(text),
            Prompt::Passphrase { .. } => Answer::Passphrase(text),
        };
        Some(PromptReply { number, answer })
    }
}

impl Wallet {
    /// Opens the wallet, or continues opening it. `prompt_reply` answers the prompt that an earlier call left open
    /// ([`WalletStatus::asked`]); without it, `person` is asked. An answer to any other prompt is not sent.
    ///
    /// # Errors
    /// [`DeviceError::PinNeeded`] and [`DeviceError::PassphraseNeeded`] if the next call must bring the answer; any
    /// other error of the device, after which the next call starts from the beginning.
    pub async fn open(
        &mut self,
        prompt_reply: Option<PromptReply>,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Result<(), DeviceError> {
        if self.state() == OpenState::Open {
            return Err(DeviceError::AlreadyOpen);
        }
        let progressed = match self.suspended.take() {
            Some(suspended) => self.resume(suspended, prompt_reply, person, cancel).await,
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

    /// Continues with `prompt_reply`, or with an answer that the person gives now.
    async fn resume(
        &mut self,
        suspended: Suspended,
        prompt_reply: Option<PromptReply>,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
    ) -> Progressed {
        let Some(numbered) = suspended.asked() else { return self.begin(person, cancel).await };
        let answer = match prompt_reply {
            Some(prompt_reply) if prompt_reply.number == numbered.number => prompt_reply.answer,
            // The device now has another prompt.
            Some(_) => return Ok(Some(suspended)),
            None => {
                let limit = self.timeouts.prompt;
                match ask(limit, numbered, person, cancel).await {
                    Ok(Some(answer)) => answer,
                    Ok(None) => return Ok(Some(suspended)),
                    Err(error) => return self.driver()?.resynchronise_after(error).await,
                }
            }
        };
        match suspended {
            Suspended::Ping(exchange) => self.answer(exchange, numbered, answer, person, cancel, Suspended::Ping).await,
            Suspended::Address(exchange) => {
                self.answer(exchange, numbered, answer, person, cancel, Suspended::Address).await
            }
        }
    }

    async fn answer<O: Operation>(
        &mut self,
        mut exchange: Exchange<O>,
        numbered: NumberedPrompt,
        answer: Answer,
        person: &mut dyn Person,
        cancel: &mut BoxFuture<'_, ()>,
        suspend: impl FnOnce(Exchange<O>) -> Suspended,
    ) -> Progressed {
        let next = exchange.answer(numbered.number, answer);
        let driver = self.driver()?;
        let outcome = match next {
            Ok((next, wait)) => driver.resume(exchange, next, wait, person, cancel).await,
            Err(error) => driver.resynchronise_after(error).await,
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
            // A device without seed has nothing to unlock.
            return Ok(None);
        }
        let address = GetAddress::new(DerivationPath::account(0), false)?;
        progressed(driver.start(address, person, cancel).await, Suspended::Address)
    }

    /// Records the identity of the device.
    fn recognise(&mut self, info: &DeviceInfo) -> Result<(), DeviceError> {
        if self.device_id.as_ref().is_some_and(|known| *known != info.device_id) {
            return Err(DeviceError::OtherDevice);
        }
        self.device_id = Some(info.device_id.clone());
        self.status.send_modify(|status| {
            status.identity = Some((info.version, info.label.clone()));
            status.signs_fee_market = info.has_recent_firmware();
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
