//! Asks the person at the terminal for a PIN or a passphrase that a device requests.

use std::path::PathBuf;

use async_trait::async_trait;
use clap::{Arg, ArgMatches, value_parser};
use tenon_device_session::{Answer, Person, Prompt};
use zeroize::Zeroizing;

use crate::exit::Stop;
use crate::log_output;
use crate::passwords::Passwords;

/// The keypad shown before a PIN is typed.
pub(crate) const KEYPAD: &str = "\
Look at the device for the digits, and type their positions:

    7 8 9
    4 5 6
    1 2 3

";

/// `--passphrase`.
pub(super) fn passphrase_argument() -> Arg {
    Arg::new("passphrase").long("passphrase").value_name("FILE").value_parser(value_parser!(PathBuf)).help(
        "Read the passphrase from the first line of this file; without it, the passphrase is asked for at the \
            terminal",
    )
}

/// Asks at the terminal, without echoing the input.
pub(super) struct TerminalPerson {
    passphrase: Option<PathBuf>,
}

impl TerminalPerson {
    pub(super) fn new(matches: &ArgMatches) -> Self {
        Self { passphrase: matches.get_one::<PathBuf>("passphrase").cloned() }
    }
}

/// Asks and waits for the answer.
fn answer(prompt: Prompt, passphrase: Option<PathBuf>) -> Result<Answer, Stop> {
    let secret = |text: tenon_api::SecretText| Zeroizing::new(text.expose().to_owned());
    match prompt {
        Prompt::Pin(_) => {
            log_output::eprint_line(KEYPAD.trim_end());
            Passwords::Terminal { otherwise: "run this command in a terminal" }
                .next("PIN: ")
                .map(|text| Answer::Pin(secret(text)))
        }
        Prompt::Passphrase { can_be_typed_on_device } => {
            let words = if can_be_typed_on_device {
                "Passphrase (empty: the standard wallet; -: typed on the device): "
            } else {
                "Passphrase (empty: the standard wallet): "
            };
            let mut source = match passphrase {
                Some(path) => Passwords::from_file("--passphrase", &path)?,
                None => Passwords::Terminal { otherwise: "give --passphrase FILE" },
            };
            let text = secret(source.next(words)?);
            let is_on_device = can_be_typed_on_device && text.as_str() == "-";
            Ok(if is_on_device { Answer::OnDevice } else { Answer::Passphrase(text) })
        }
    }
}

#[async_trait]
impl Person for TerminalPerson {
    async fn ask(&mut self, prompt: Prompt) -> Option<Answer> {
        let passphrase = self.passphrase.clone();
        // On its own thread, so that Ctrl-C works while the terminal waits.
        let asked = tokio::task::spawn_blocking(move || answer(prompt, passphrase)).await;
        let declined = |reason: String| {
            log_output::eprint_line(&format!("tenon: {reason}"));
            Answer::Decline
        };
        Some(match asked {
            Ok(Ok(answer)) => answer,
            Ok(Err(stop)) => declined(stop.to_string()),
            Err(error) => declined(error.to_string()),
        })
    }

    fn button(&mut self) {
        log_output::eprint_line("Check what the device shows, and confirm it there.");
    }
}
