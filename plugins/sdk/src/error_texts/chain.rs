//! Errors of requests that read the chain, in the words of the reference and go-ethereum (`docs/spec/rpc-eth.md` 5;
//! `docs/spec/rpc-node.md` 2.4).

use alloy_primitives::{B256, hex};
use tenon_api::{EpochRefusal, UnresolvedBlock, messages::RoundProblem};

/// The text for a block id that cannot be resolved to a block.
pub fn unresolved_block_text(problem: UnresolvedBlock) -> String {
    let text = match problem {
        UnresolvedBlock::NotCanonical => "hash is not currently canonical",
        UnresolvedBlock::NoFinalizedBlock => "finalized block not found",
        UnresolvedBlock::NoSafeBlock => "safe block not found",
        UnresolvedBlock::UnknownNumber => "header for number not found",
        UnresolvedBlock::UnknownHash => "header for hash not found",
        UnresolvedBlock::Unknown => "unknown block",
        UnresolvedBlock::BeyondHead { requested, head } => {
            return format!("request beyond head block: requested {requested}, head {head}");
        }
    };
    text.to_owned()
}

/// The text for a state that the database does not have: the reference's for a trie without root
/// (`docs/spec/rpc-eth.md` 5.2).
pub fn missing_state_text(state_root: B256) -> String {
    missing_trie_node_text(state_root, &[])
}

/// The text for a node of a trie that the database does not have (`docs/spec/rpc-eth.md` 5.2).
pub(crate) fn missing_trie_node_text(hash: B256, path: &[u8]) -> String {
    format!("missing trie Node {hash:x} (path {})", hex::encode(path))
}

/// The text for a header without a round (`docs/spec/consensus.md` 3.2).
pub fn round_problem_text(problem: &RoundProblem) -> String {
    match problem {
        RoundProblem::NoExtra => "extra field is 0 length".to_owned(),
        RoundProblem::ExtraTooLong => "extra field is too long".to_owned(),
        RoundProblem::Version(version) => {
            format!("consensus version {version} is not defined, or this block is v1 block")
        }
        RoundProblem::Malformed { reason } => format!("rlp: {reason}"),
    }
}

/// The text for a query about epochs without an answer.
pub(crate) fn epoch_refusal_text(refusal: EpochRefusal) -> String {
    let text = match refusal {
        EpochRefusal::Future => "input epoch number > current epoch number",
        EpochRefusal::OfEngineV1 => "input epoch number < v2 begin epoch number",
        EpochRefusal::BlockOfEngineV1 => "not supported in the v1 consensus",
        EpochRefusal::WithoutBlock => {
            "no epoch switch header in binary search (all rounds in this epoch are missed, which is very rare)"
        }
        EpochRefusal::NoMasternodes { number, hash } => {
            return format!("masternodes is empty in CalculateMissingRounds, number = {number}, hash {hash}");
        }
        EpochRefusal::UnknownAncestor(hash) => return format!("fail to get header by hash {hash}: "),
        EpochRefusal::MissingBlock { number, hash } => {
            return format!("block not found, number: {number}, hash: {hash}");
        }
        EpochRefusal::MissingRewardedBlock { number, hash } => {
            return format!("fail to get header in GetSigningTxCount at number: {number}, hash: {hash}");
        }
        EpochRefusal::NoGapBlock(number) => return format!("getSnapshot fail to get header by number: {number}"),
        EpochRefusal::NoSwitchBlock(number) => return format!("masternodes are empty v2 switch number: {number}"),
        EpochRefusal::NoCandidates => "no masternode found",
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: B256 = B256::repeat_byte(0xab);

    #[test]
    fn unresolved_blocks_have_the_texts_of_the_reference() {
        let cases = [
            (UnresolvedBlock::NotCanonical, "hash is not currently canonical"),
            (UnresolvedBlock::NoFinalizedBlock, "finalized block not found"),
            (UnresolvedBlock::NoSafeBlock, "safe block not found"),
            (UnresolvedBlock::UnknownNumber, "header for number not found"),
            (UnresolvedBlock::UnknownHash, "header for hash not found"),
            (UnresolvedBlock::Unknown, "unknown block"),
            (UnresolvedBlock::BeyondHead { requested: 9, head: 8 }, "request beyond head block: requested 9, head 8"),
        ];
        for (problem, text) in cases {
            assert_eq!(unresolved_block_text(problem), text);
        }
    }

    #[test]
    fn a_missing_state_has_the_text_of_a_trie_without_root() {
        assert_eq!(missing_state_text(HASH), format!("missing trie Node {} (path )", "ab".repeat(32)));
    }

    #[test]
    fn a_missing_node_of_a_trie_is_named_with_its_path() {
        let text = missing_trie_node_text(HASH, &[1, 0xf]);

        assert_eq!(text, format!("missing trie Node {} (path 010f)", "ab".repeat(32)));
    }

    #[test]
    fn headers_without_round_have_the_texts_of_the_reference() {
        let cases = [
            (RoundProblem::NoExtra, "extra field is 0 length"),
            (RoundProblem::ExtraTooLong, "extra field is too long"),
            (RoundProblem::Version(1), "consensus version 1 is not defined, or this block is v1 block"),
            (RoundProblem::Malformed { reason: "why".to_owned() }, "rlp: why"),
        ];
        for (problem, text) in cases {
            assert_eq!(round_problem_text(&problem), text);
        }
    }

    #[test]
    fn queries_about_epochs_have_the_texts_of_the_reference() {
        let hash = format!("0x{}", "ab".repeat(32));
        let cases = [
            (EpochRefusal::Future, "input epoch number > current epoch number".to_owned()),
            (EpochRefusal::OfEngineV1, "input epoch number < v2 begin epoch number".to_owned()),
            (EpochRefusal::BlockOfEngineV1, "not supported in the v1 consensus".to_owned()),
            (
                EpochRefusal::WithoutBlock,
                "no epoch switch header in binary search (all rounds in this epoch are missed, which is very rare)"
                    .to_owned(),
            ),
            (
                EpochRefusal::NoMasternodes { number: 7, hash: HASH },
                format!("masternodes is empty in CalculateMissingRounds, number = 7, hash {hash}"),
            ),
            (EpochRefusal::UnknownAncestor(HASH), format!("fail to get header by hash {hash}: ")),
            (EpochRefusal::MissingBlock { number: 7, hash: HASH }, format!("block not found, number: 7, hash: {hash}")),
            (
                EpochRefusal::MissingRewardedBlock { number: 7, hash: HASH },
                format!("fail to get header in GetSigningTxCount at number: 7, hash: {hash}"),
            ),
            (EpochRefusal::NoGapBlock(7), "getSnapshot fail to get header by number: 7".to_owned()),
            (EpochRefusal::NoSwitchBlock(7), "masternodes are empty v2 switch number: 7".to_owned()),
            (EpochRefusal::NoCandidates, "no masternode found".to_owned()),
        ];
        for (refusal, text) in cases {
            assert_eq!(epoch_refusal_text(refusal), text);
        }
    }
}
