//! Entry points for the fuzz targets.

use tenon_signing_policy::{Interfaces, Presentation, Request};

use crate::{methods, raw_data};

/// The signing methods, in the order that [`request`] uses.
pub const METHODS: [&str; 8] = [
    "eth_sign",
    "eth_signTransaction",
    "eth_signTypedData_v4",
    "account_signData",
    "consensus_signSeal",
    "consensus_signVote",
    "consensus_signTimeout",
    "consensus_signSyncInfo",
];

/// The first byte selects a method and the rest are its parameters; with any other first byte, the rest is data to
/// sign. Checks that a valid request has a stable hash and a presentation. Returns whether the input was valid.
pub fn request(input: &[u8]) -> bool {
    let Some((first, rest)) = input.split_first() else { return false };
    let Some(method) = METHODS.get(usize::from(*first)) else {
        return raw_data::subject_of(rest.to_vec()).is_ok();
    };
    let Ok(text) = std::str::from_utf8(rest) else { return false };
    let Ok(arguments) = methods::Arguments::new(Some(text)) else { return false };
    let Ok(ask) = methods::ask(method, &arguments) else { return false };
    let hash = ask.hash();
    assert_eq!(hash, ask.hash(), "the hash of a request is the same each time");
    let request = Request { client: "client".to_owned(), account: ask.account, subject: ask.subject };
    let shown = Presentation::new(&request, &Interfaces::default());
    assert!(shown.lines.iter().all(|line| !line.value.chars().any(char::is_control)), "{shown:?}");
    true
}
