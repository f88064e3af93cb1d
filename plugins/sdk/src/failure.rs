//! The error of a method, as its client receives it: a code and a text.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use tenon_api::{
    ActorError, BusError, RequestError, SpaceError,
    abi::{CODE_CALLEE_CRASHED, CODE_CRASHED},
    beginning_of,
    codec::{CodecError, MAX_REQUEST_ITEMS},
};

use crate::error_texts::{
    account_refusal_text, enode_problem_text, epoch_refusal_text, front_end_refusal_text, missing_state_text,
    missing_trie_node_text, recording_refusal_text, unreadable_file_text, unresolved_block_text,
};

/// The text of a panic (`docs/spec/rpc-eth.md` 3.3).
const CRASHED_TEXT: &str = "method handler crashed";

/// Maximum length of a method's name in an error, in characters. The reference repeats all of it.
const MAX_SHOWN_METHOD: usize = 1024;

/// JSON-RPC error codes that clients of this chain family know (`docs/spec/rpc-eth.md` 3.3).
///
/// A newtype, not an enum: a plugin may return a code of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FailureCode(pub i32);

impl FailureCode {
    /// Any error that a method returns: `-32000`.
    pub const SERVER: Self = Self(-32000);
    /// The request is not a call: `-32600`.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// The text is not JSON: `-32700`.
    pub const PARSE: Self = Self(-32700);
    /// No such method or subscription: `-32601`.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// Arguments are missing, too many or malformed: `-32602`.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// A limit of this node was reached (queue, time, size): `-32005`.
    pub const LIMIT_EXCEEDED: Self = Self(-32005);
    /// Execution reverted with return data, which travels in `data`: `3`.
    pub const REVERTED: Self = Self(3);
    /// A transaction of a simulated block failed and did not revert, as in go-ethereum: `-32015`.
    pub const VM_ERROR: Self = Self(-32015);
    /// The request exceeds a limit for one client, as in go-ethereum: `-38026`.
    pub const CLIENT_LIMIT: Self = Self(-38026);
    /// The plugin's own code panicked. Only between plugin and host; a client receives [`FailureCode::SERVER`].
    pub const CRASHED: Self = Self(CODE_CRASHED);
    /// The code that the plugin called panicked. Only between plugin and host; a client receives
    /// [`FailureCode::SERVER`].
    pub const CALLEE_CRASHED: Self = Self(CODE_CALLEE_CRASHED);
}

/// Why a call failed, with the text and code that the JSON-RPC client receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The JSON-RPC error code.
    pub code: FailureCode,
    /// What happened, to which thing, and where it helps, what to do.
    pub message: String,
    /// The JSON text of the error's `data` member, if it has one.
    pub data: Option<String>,
}

impl Failure {
    /// An ordinary failure, code `-32000`.
    pub fn server(message: impl Into<String>) -> Self {
        Self { code: FailureCode::SERVER, message: message.into(), data: None }
    }

    /// A failure of the arguments, code `-32602`.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self { code: FailureCode::INVALID_PARAMS, message: message.into(), data: None }
    }

    /// The arguments of a call are not an array.
    pub fn non_array_arguments() -> Self {
        Self::invalid_params("non-array args")
    }

    /// A required argument is missing. Positions count from 0.
    pub fn missing_argument(position: usize) -> Self {
        Self::invalid_params(format!("missing value for required argument {position}"))
    }

    /// An argument cannot be decoded, or the method refuses it. Positions count from 0.
    pub fn invalid_argument(position: usize, reason: impl Display) -> Self {
        Self::invalid_params(format!("invalid argument {position}: {reason}"))
    }

    /// A call has more arguments than its method takes.
    pub fn too_many_arguments(max: usize) -> Self {
        Self::invalid_params(format!("too many arguments, want at most {max}"))
    }

    /// A method is unknown, disabled or not exposed, code `-32601`; with the reference's text (`docs/spec/rpc-eth.md` 3.3).
    pub fn method_not_found(method: &str) -> Self {
        let (beginning, dots) = beginning_of(method, MAX_SHOWN_METHOD);
        let message = format!("the method {beginning}{dots} does not exist/is not available");
        Self { code: FailureCode::METHOD_NOT_FOUND, message, data: None }
    }

    /// A namespace has no such kind of subscription, code `-32601`; with the reference's text (`docs/spec/rpc-eth.md` 3.3).
    pub fn subscription_not_found(namespace: &str, kind: &str) -> Self {
        let (kind, kind_dots) = beginning_of(kind, MAX_SHOWN_METHOD);
        let (namespace, dots) = beginning_of(namespace, MAX_SHOWN_METHOD);
        let message = format!("no \"{kind}{kind_dots}\" subscription in {namespace}{dots} namespace");
        Self { code: FailureCode::METHOD_NOT_FOUND, message, data: None }
    }

    /// A limit was reached, code `-32005`.
    pub fn limit(message: impl Into<String>) -> Self {
        Self { code: FailureCode::LIMIT_EXCEEDED, message: message.into(), data: None }
    }

    /// A panic of the called code. `code` says whose code panicked: [`FailureCode::CRASHED`] or
    /// [`FailureCode::CALLEE_CRASHED`].
    pub fn crashed(code: FailureCode) -> Self {
        Self { code, message: CRASHED_TEXT.to_owned(), data: None }
    }

    /// The failure as a client receives it: without the codes that only plugin and host know.
    #[must_use]
    pub fn for_client(mut self) -> Self {
        if matches!(self.code, FailureCode::CRASHED | FailureCode::CALLEE_CRASHED) {
            self.code = FailureCode::SERVER;
        }
        self
    }

    /// Adds the JSON text that becomes the `data` member.
    #[must_use]
    pub fn with_data(mut self, json: impl Into<String>) -> Self {
        self.data = Some(json.into());
        self
    }
}

/// The code and the text of each error of the bus.
impl From<BusError> for Failure {
    fn from(error: BusError) -> Self {
        match error {
            BusError::Module(error) => error.into(),
            BusError::HandlerCrashed => Self::crashed(FailureCode::CALLEE_CRASHED),
            BusError::Busy(_)
            | BusError::TimedOut
            | BusError::OutOfTime
            | BusError::Actor(ActorError::MailboxFull { .. }) => Self::limit(error.to_string()),
            BusError::MalformedRequest { request, error } => malformed(request, error),
            BusError::NoHandler { .. }
            | BusError::UnknownTopic { .. }
            | BusError::UnknownEvent { .. }
            | BusError::WrongSchema { .. }
            | BusError::WrongEventSchema { .. }
            | BusError::UnsendableReply { .. }
            | BusError::Suspended { .. }
            | BusError::ShuttingDown
            | BusError::Actor(ActorError::Failed { .. } | ActorError::Stopped { .. }) => {
                Self::server(error.to_string())
            }
        }
    }
}

impl From<ActorError> for Failure {
    fn from(error: ActorError) -> Self {
        BusError::Actor(error).into()
    }
}

/// The error of a request that cannot be decoded. If it is too large, the text names the parameters, because they are
/// what the caller can change.
fn malformed(request: &str, error: CodecError) -> Failure {
    match error {
        CodecError::TooManyItems => Failure::invalid_params(format!(
            "too many values in the parameters: one request may have {MAX_REQUEST_ITEMS} in all"
        )),
        CodecError::TooDeep => Failure::invalid_params("the parameters are nested too deeply"),
        // Leaves out the type's name, which is a Rust path.
        CodecError::Decode { reason, length, .. } => {
            Failure::server(format!("malformed {request} request of {length} bytes: {reason}"))
        }
        CodecError::Encode { reason, .. } => Failure::server(format!("malformed {request} request: {reason}")),
    }
}

/// The error of a plugin's request about its own records.
impl From<SpaceError> for Failure {
    fn from(error: SpaceError) -> Self {
        BusError::from(error).into()
    }
}

/// The code of each kind of error of a module, and its text if clients know that.
impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Failed(message) => Self::server(message),
            RequestError::InvalidArgument(message) => Self::invalid_params(message),
            RequestError::LimitReached(message) => Self::limit(message),
            RequestError::Block(problem) => Self::server(unresolved_block_text(problem)),
            RequestError::StateUnavailable { state_root } => Self::server(missing_state_text(state_root)),
            RequestError::MissingTrieNode { hash, path } => Self::server(missing_trie_node_text(hash, &path)),
            RequestError::Epoch(refusal) => Self::server(epoch_refusal_text(refusal)),
            RequestError::Account(refusal) => Self::server(account_refusal_text(&refusal)),
            RequestError::UnreadableFile { path, reason } => Self::server(unreadable_file_text(&path, &reason)),
            RequestError::FrontEnd(refusal) => Self::server(front_end_refusal_text(refusal)),
            RequestError::Enode(problem) => Self::server(enode_problem_text(&problem)),
            RequestError::Recording(refusal) => Self::server(recording_refusal_text(refusal)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{
        AccountRefusal, EnodeProblem, EpochRefusal, PoolBusy, RecordingKind, RecordingRefusal, Topic, UnresolvedBlock,
    };

    use super::*;

    #[test]
    fn a_long_name_of_a_method_or_subscription_is_repeated_only_at_its_beginning() {
        let (long, shown) = ("x".repeat(1 << 20), format!("{}…", "x".repeat(1024)));

        assert_eq!(
            Failure::method_not_found(&long).message,
            format!("the method {shown} does not exist/is not available")
        );
        assert_eq!(
            Failure::subscription_not_found(&long, &long).message,
            format!("no \"{shown}\" subscription in {shown} namespace")
        );
        assert_eq!(Failure::method_not_found(&long[..1024]).message.matches('x').count(), 1024 + 1, "and of `exist`");
    }

    #[test]
    fn errors_of_the_bus_have_the_codes_and_texts_that_clients_know() {
        let decode = |reason: &str| CodecError::Decode { type_name: "Rust", length: 2, reason: reason.to_owned() };
        let request = "GetHead";
        let cases = [
            (BusError::NoHandler { request }, -32000, "this node has no module that answers GetHead"),
            (BusError::UnknownTopic { topic: Topic(0x7fff) }, -32000, "no handler for topic 0x7fff"),
            (
                BusError::WrongSchema { request, known: 1, sent: 2 },
                -32000,
                "GetHead has schema 1, the frame has schema 2",
            ),
            (
                BusError::MalformedRequest { request, error: decode("short") },
                -32000,
                "malformed GetHead request of 2 bytes: short",
            ),
            (
                BusError::MalformedRequest { request, error: CodecError::TooManyItems },
                -32602,
                "too many values in the parameters: one request may have 262144 in all",
            ),
            (BusError::TimedOut, -32005, "request timed out"),
            (
                BusError::Busy(PoolBusy::ClientFull { pool: "calls", waiting: 3 }),
                -32005,
                "the calls pool is busy: 3 of your requests are waiting",
            ),
            (
                BusError::Suspended { module: "pool".to_owned() },
                -32000,
                "module pool is stopped; it can be enabled again",
            ),
            (ActorError::MailboxFull { actor: "chain" }.into(), -32005, "chain is busy: its mailbox is full"),
            (ActorError::Stopped { actor: "chain" }.into(), -32000, "chain has been stopped"),
            (BusError::HandlerCrashed, -32000, "method handler crashed"),
            (RequestError::InvalidArgument("no".to_owned()).into(), -32602, "no"),
            (RequestError::Block(UnresolvedBlock::Unknown).into(), -32000, "unknown block"),
            (RequestError::Account(AccountRefusal::Locked).into(), -32000, "authentication needed: password or unlock"),
            (
                RequestError::UnreadableFile { path: "/x/b.rlp".into(), reason: "is a folder".to_owned() }.into(),
                -32000,
                "could not read file: /x/b.rlp: is a folder",
            ),
            (RequestError::Epoch(EpochRefusal::Future).into(), -32000, "input epoch number > current epoch number"),
            (RequestError::Enode(EnodeProblem::Port).into(), -32000, "invalid enode: invalid port"),
            (
                RequestError::Recording(RecordingRefusal::Running(RecordingKind::Spans)).into(),
                -32000,
                "trace already in progress",
            ),
        ];
        for (error, code, text) in cases {
            let failure = Failure::from(error.clone()).for_client();

            assert_eq!((failure.code.0, failure.message.as_str()), (code, text), "{error:?}");
        }
    }

    #[test]
    fn only_the_host_learns_which_side_panicked() {
        for code in [FailureCode::CRASHED, FailureCode::CALLEE_CRASHED] {
            let failure = Failure::crashed(code);

            assert_eq!(failure.code, code);
            assert_eq!(failure.for_client(), Failure::server("method handler crashed"));
        }
    }
}
