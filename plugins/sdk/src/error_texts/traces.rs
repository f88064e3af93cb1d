//! Failures of traces, and of other requests that execute a block again, in the words of go-ethereum or the reference
//! (`docs/spec/rpc-node.md` 4.2, 4.3).

use alloy_primitives::Address;
use tenon_api::{
    BlockId, DecodeProblem,
    messages::{MissingItem, NoTraceResult, OutermostItem, TraceFailure, TracerDialect},
};

use super::{
    Refusal,
    calls::call_failure_text,
    chain::{missing_state_text, missing_trie_node_text, unresolved_block_text},
    pool::sender_problem_text,
};
use crate::Failure;

impl Refusal for TraceFailure {
    /// A failure that a call can have too has the same code and data.
    fn into_failure(self) -> Failure {
        match self {
            Self::Call(failure) => failure.into_failure(),
            failure => Failure::server(trace_failure_text(&failure)),
        }
    }
}

/// The text for a trace that failed.
pub fn trace_failure_text(failure: &TraceFailure) -> String {
    match failure {
        TraceFailure::Missing { item, dialect } => missing_text(item, *dialect),
        TraceFailure::Genesis => "genesis is not traceable".to_owned(),
        TraceFailure::UndecodableBlock { outermost, what, offset, problem, dialect } => {
            let cause = match dialect {
                TracerDialect::Ethereum => own_decoder_text(what, *offset, *problem),
                TracerDialect::Reference => match go_decoder_text(*outermost) {
                    Some(text) => text.to_owned(),
                    None => own_decoder_text(what, *offset, *problem),
                },
            };
            format!("could not decode block: {cause}")
        }
        TraceFailure::UnknownAncestor => "unknown ancestor".to_owned(),
        TraceFailure::InvalidSender(problem) => sender_problem_text(*problem),
        TraceFailure::NoSuchTracer => "the chain has no such tracer".to_owned(),
        TraceFailure::UnusableTracer { reason }
        | TraceFailure::InvalidTransaction { reason }
        | TraceFailure::NotExecuted { reason } => reason.clone(),
        TraceFailure::UnknownInstruction { name } => format!("opcode {name} not defined"),
        TraceFailure::InvalidTracerConfig => "invalid tracerConfig".to_owned(),
        TraceFailure::NotTraced { reason } => format!("tracing failed: {reason}"),
        TraceFailure::NoResult(cause) => no_result_text(cause),
        TraceFailure::Script { error } | TraceFailure::Node { error } => error.clone(),
        TraceFailure::EarlierTransaction { hash, reason, dialect } => match dialect {
            TracerDialect::Ethereum => format!("transaction {hash} failed: {reason}"),
            TracerDialect::Reference => format!("tx {hash:x} failed: {reason}"),
        },
        TraceFailure::TimedOut => "execution timeout".to_owned(),
        TraceFailure::Call(failure) => call_failure_text(failure),
        TraceFailure::StateUnavailable { state_root } => missing_state_text(*state_root),
        TraceFailure::MissingTrieNode { hash, path } => missing_trie_node_text(*hash, path),
        TraceFailure::UnresolvedBlock(problem) => unresolved_block_text(*problem),
    }
}

/// The text for something that is unknown. The reference's hashes have no prefix.
fn missing_text(item: &MissingItem, dialect: TracerDialect) -> String {
    match (item, dialect) {
        (MissingItem::Transaction(_), TracerDialect::Ethereum) => "transaction not found".to_owned(),
        (MissingItem::Transaction(hash), TracerDialect::Reference) => format!("transaction {hash:x} not found"),
        (MissingItem::BlockByHash(hash), TracerDialect::Reference) => format!("block {hash:x} not found"),
        (MissingItem::Block(BlockId::Hash { hash, .. }), TracerDialect::Reference) => {
            format!("block #{hash:x} not found")
        }
        (MissingItem::Block(BlockId::Hash { hash, .. }) | MissingItem::BlockByHash(hash), TracerDialect::Ethereum) => {
            format!("block {hash} not found")
        }
        (MissingItem::Block(BlockId::Number(number)), _) => format!("block #{number} not found"),
        (MissingItem::Block(BlockId::Tag(_)), _) => "block not found".to_owned(),
        (MissingItem::Parent(hash), TracerDialect::Ethereum) => format!("parent {hash} not found"),
        (MissingItem::Parent(hash), TracerDialect::Reference) => format!("parent {hash:x} not found"),
        (MissingItem::Index { index, block }, TracerDialect::Ethereum) => {
            format!("transaction index {index} out of range for block {block}")
        }
        (MissingItem::Index { index, block }, TracerDialect::Reference) => {
            format!("tx index {index} out of range for block {block:x}")
        }
        (MissingItem::Account(address), _) => format!("account {address:x} doesn't exist"),
    }
}

/// This node's own text for bytes that cannot be decoded.
fn own_decoder_text(what: &str, offset: usize, problem: DecodeProblem) -> String {
    format!("{what} at byte {offset}: {problem}")
}

/// The text of Go's decoder, if the outermost item determines it.
const fn go_decoder_text(outermost: OutermostItem) -> Option<&'static str> {
    match outermost {
        OutermostItem::None => Some("EOF"),
        OutermostItem::Truncated => Some("rlp: value size exceeds available input length"),
        OutermostItem::NotList => Some("rlp: expected input list for types.extblock"),
        OutermostItem::EmptyList => Some("rlp: too few elements for types.extblock"),
        OutermostItem::Other => None,
    }
}

/// The text for a tracer without a result. The reference's older tracers are scripts, with the errors of their engine.
fn no_result_text(cause: &NoTraceResult) -> String {
    match cause {
        NoTraceResult::NoFrame => "TypeError: undefined    in server-side tracer function 'result'".to_owned(),
        NoTraceResult::NoInstruction { sender } => {
            let shown = shortened(*sender);
            format!("TypeError: cannot read property '{shown}...' of null    in server-side tracer function 'result'")
        }
        NoTraceResult::Library { error } => error.clone(),
    }
}

/// The beginning of an address, as the engine of the reference's scripts shortens it.
fn shortened(address: Address) -> String {
    format!("{address:#x}").chars().take(32).collect()
}

#[cfg(test)]
mod tests {
    use alloy_primitives::B256;
    use tenon_api::{
        BlockTag, UnresolvedBlock,
        messages::{CallFailure, SenderProblem},
    };

    use super::*;

    const HASH: B256 = B256::repeat_byte(7);

    fn digits() -> String {
        "07".repeat(32)
    }

    #[test]
    fn something_unknown_has_the_text_of_the_dialect() {
        let hash = digits();
        let cases = [
            (
                MissingItem::Transaction(HASH),
                "transaction not found".to_owned(),
                format!("transaction {hash} not found"),
            ),
            (MissingItem::BlockByHash(HASH), format!("block 0x{hash} not found"), format!("block {hash} not found")),
            (
                MissingItem::Block(BlockId::hash(HASH)),
                format!("block 0x{hash} not found"),
                format!("block #{hash} not found"),
            ),
            (MissingItem::Block(BlockId::number(9)), "block #9 not found".to_owned(), "block #9 not found".to_owned()),
            (
                MissingItem::Block(BlockId::Tag(BlockTag::Safe)),
                "block not found".to_owned(),
                "block not found".to_owned(),
            ),
            (MissingItem::Parent(HASH), format!("parent 0x{hash} not found"), format!("parent {hash} not found")),
            (
                MissingItem::Index { index: -1, block: HASH },
                format!("transaction index -1 out of range for block 0x{hash}"),
                format!("tx index -1 out of range for block {hash}"),
            ),
            (
                MissingItem::Account(Address::repeat_byte(1)),
                format!("account {} doesn't exist", "01".repeat(20)),
                format!("account {} doesn't exist", "01".repeat(20)),
            ),
        ];
        for (item, ethereum, reference) in cases {
            for (dialect, expected) in [(TracerDialect::Ethereum, ethereum), (TracerDialect::Reference, reference)] {
                let failure = TraceFailure::Missing { item: item.clone(), dialect };
                assert_eq!(failure.into_failure(), Failure::server(expected));
            }
        }
    }

    #[test]
    fn undecodable_blocks_have_the_text_of_gos_decoder_or_this_nodes() {
        let own = "header at byte 3: integer does not fit";
        let cases = [
            (OutermostItem::None, "EOF"),
            (OutermostItem::Truncated, "rlp: value size exceeds available input length"),
            (OutermostItem::NotList, "rlp: expected input list for types.extblock"),
            (OutermostItem::EmptyList, "rlp: too few elements for types.extblock"),
            (OutermostItem::Other, own),
        ];
        for (outermost, reference) in cases {
            for (dialect, expected) in [(TracerDialect::Ethereum, own), (TracerDialect::Reference, reference)] {
                let (what, problem) = ("header".into(), DecodeProblem::TooLarge);
                let failure = TraceFailure::UndecodableBlock { outermost, what, offset: 3, problem, dialect };
                assert_eq!(trace_failure_text(&failure), format!("could not decode block: {expected}"));
            }
        }
    }

    #[test]
    fn an_earlier_transaction_is_named_in_the_words_of_the_dialect() {
        let text = |dialect| {
            trace_failure_text(&TraceFailure::EarlierTransaction { hash: HASH, reason: "no".to_owned(), dialect })
        };

        assert_eq!(text(TracerDialect::Ethereum), format!("transaction 0x{} failed: no", digits()));
        assert_eq!(text(TracerDialect::Reference), format!("tx {} failed: no", digits()));
    }

    #[test]
    fn other_failures_have_the_general_code_and_a_text() {
        let reason = || "why".to_owned();
        let sender = Address::repeat_byte(0xab);
        let shortened = format!("0x{}", "ab".repeat(15));
        let of_null = format!(
            "TypeError: cannot read property '{shortened}...' of null    in server-side tracer function 'result'"
        );
        let unavailable = format!("missing trie Node {} (path )", digits());
        let missing_node = format!("missing trie Node {} (path 010f)", digits());
        let cases = [
            (TraceFailure::Genesis, "genesis is not traceable"),
            (TraceFailure::UnknownAncestor, "unknown ancestor"),
            (TraceFailure::InvalidSender(SenderProblem::InvalidPublicKey), "invalid public key"),
            (TraceFailure::NoSuchTracer, "the chain has no such tracer"),
            (TraceFailure::UnusableTracer { reason: reason() }, "why"),
            (TraceFailure::UnknownInstruction { name: "PUSH99".to_owned() }, "opcode PUSH99 not defined"),
            (TraceFailure::InvalidTracerConfig, "invalid tracerConfig"),
            (TraceFailure::NotTraced { reason: reason() }, "tracing failed: why"),
            (
                TraceFailure::NoResult(NoTraceResult::NoFrame),
                "TypeError: undefined    in server-side tracer function 'result'",
            ),
            (TraceFailure::NoResult(NoTraceResult::NoInstruction { sender }), of_null.as_str()),
            (TraceFailure::NoResult(NoTraceResult::Library { error: reason() }), "why"),
            (TraceFailure::Script { error: reason() }, "why"),
            (TraceFailure::InvalidTransaction { reason: reason() }, "why"),
            (TraceFailure::NotExecuted { reason: reason() }, "why"),
            (TraceFailure::TimedOut, "execution timeout"),
            (TraceFailure::Call(CallFailure::OutOfGas), "out of gas"),
            (TraceFailure::StateUnavailable { state_root: HASH }, unavailable.as_str()),
            (TraceFailure::MissingTrieNode { hash: HASH, path: vec![1, 0xf] }, missing_node.as_str()),
            (TraceFailure::UnresolvedBlock(UnresolvedBlock::NoSafeBlock), "safe block not found"),
            (TraceFailure::Node { error: reason() }, "why"),
        ];
        for (failure, text) in cases {
            assert_eq!(trace_failure_text(&failure), text);
            assert_eq!(failure.into_failure(), Failure::server(text));
        }
    }
}
