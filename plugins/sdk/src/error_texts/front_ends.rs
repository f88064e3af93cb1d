//! Refusals to start a front-end, in the words of the reference (`docs/spec/rpc-node.md` 3.7).

use tenon_api::{FrontEndRefusal, messages::FrontEnd};

/// The text for a front-end that does not start.
pub(crate) fn front_end_refusal_text(refusal: FrontEndRefusal) -> String {
    match refusal {
        FrontEndRefusal::AlreadyEnabled(front_end) => {
            let name = match front_end {
                FrontEnd::Http => "HTTP",
                FrontEnd::WebSocket => "WebSocket",
            };
            format!("JSON-RPC over {name} is already enabled")
        }
        // The reference's WebSocket server is an HTTP server too.
        FrontEndRefusal::ListensElsewhere { address } => format!("HTTP server already running on {address}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_end_that_listens_has_the_texts_of_the_reference() {
        let address = ([127, 0, 0, 1], 8545).into();
        let cases = [
            (FrontEndRefusal::AlreadyEnabled(FrontEnd::Http), "JSON-RPC over HTTP is already enabled"),
            (FrontEndRefusal::AlreadyEnabled(FrontEnd::WebSocket), "JSON-RPC over WebSocket is already enabled"),
            (FrontEndRefusal::ListensElsewhere { address }, "HTTP server already running on 127.0.0.1:8545"),
        ];
        for (refusal, text) in cases {
            assert_eq!(front_end_refusal_text(refusal), text);
        }
    }
}
