//! Whom devices of the node ask: nobody is at hand, so that events say what is needed, and a later call brings it.

use futures_util::future::BoxFuture;
use tenon_api::messages::{WalletPrompt, WalletPrompted};
use tenon_bus::Bus;
use tenon_device_session::{Answer, Person, Prompt};

/// Publishes what a wallet asks ([`WalletPrompted`]).
pub(crate) struct EventPerson {
    bus: Bus,
    url: String,
}

impl EventPerson {
    pub(crate) fn boxed(bus: &Bus, url: &str) -> Box<dyn Person> {
        Box::new(Self { bus: bus.clone(), url: url.to_owned() })
    }

    fn tell(&self, prompt: WalletPrompt) {
        self.bus.publish(WalletPrompted { url: self.url.clone(), prompt });
    }
}

impl Person for EventPerson {
    fn ask(&mut self, prompt: Prompt) -> BoxFuture<'_, Option<Answer>> {
        self.tell(match prompt {
            Prompt::Pin(_) => WalletPrompt::Pin,
            Prompt::Passphrase { .. } => WalletPrompt::Passphrase,
        });
        Box::pin(std::future::ready(None))
    }

    fn button(&mut self) {
        self.tell(WalletPrompt::Button);
    }
}
