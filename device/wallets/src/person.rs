//! The [`Person`] for devices of a node. No person can be asked directly, so it publishes an event for each prompt, and
//! a later call brings the answer.

use async_trait::async_trait;
use tenon_api::messages::{WalletPrompt, WalletPrompted};
use tenon_bus::Bus;
use tenon_device_session::{Answer, Person, Prompt};

/// Publishes the prompts of a wallet ([`WalletPrompted`]).
pub(crate) struct EventPerson {
    bus: Bus,
    url: String,
}

impl EventPerson {
    pub(crate) fn boxed(bus: &Bus, url: &str) -> Box<dyn Person> {
        Box::new(Self { bus: bus.clone(), url: url.to_owned() })
    }

    fn publish_prompt(&self, prompt: WalletPrompt) {
        self.bus.publish(WalletPrompted { url: self.url.clone(), prompt });
    }
}

#[async_trait]
impl Person for EventPerson {
    async fn ask(&mut self, prompt: Prompt) -> Option<Answer> {
        self.publish_prompt(match prompt {
            Prompt::Pin(_) => WalletPrompt::Pin,
            Prompt::Passphrase { .. } => WalletPrompt::Passphrase,
        });
        None
    }

    fn button(&mut self) {
        self.publish_prompt(WalletPrompt::Button);
    }
}
