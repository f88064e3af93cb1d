//! The suites' reasons for refusals, and our corresponding error texts.

use crate::{
    Difference,
    outcome::{Check, Passed},
};

/// A reason: the suites' names for it, and the texts of which our error must contain one.
struct Reason {
    names: &'static [&'static str],
    words: &'static [&'static str],
}

const fn reason(names: &'static [&'static str], words: &'static [&'static str]) -> Reason {
    Reason { names, words }
}

// Texts used by several reasons or by other files.
const FUNDS: &str = "lack of funds";
const GAS_TOO_LOW: &str = "exceeds the gas limit (";
const FEE_TOO_LOW: &str = "gas price is less than basefee";
const TYPE_UNKNOWN: &str = "transaction type not supported";
pub(crate) const PRICE_TOO_HIGH: &str = "price of gas is above 2^128 - 1 wei";
const UNCLE_PARENT: &str = "wanted a parent 2 to 7 generations up";
const BLOCK_GAS: &str = "that the block has left";

/// Reasons for refusing decoded transactions.
///
/// Names without a prefix and those that begin with `TR_` are of the older vocabulary; names of the newer are listed
/// without their prefixes, `TransactionException.` and `BlockException.`.
const OF_TRANSACTIONS: &[Reason] = &[
    reason(
        &["TR_IntrinsicGas", "IntrinsicGas", "INTRINSIC_GAS_TOO_LOW", "INTRINSIC_GAS_BELOW_FLOOR_GAS_COST"],
        &[GAS_TOO_LOW],
    ),
    reason(&["GAS_LIMIT_EXCEEDS_MAXIMUM"], &["is greater than the cap"]),
    reason(&["TR_NoFunds", "TR_NoFundsX", "INSUFFICIENT_ACCOUNT_FUNDS"], &[FUNDS, "overflow payment", PRICE_TOO_HIGH]),
    reason(&["TR_NoFundsOrGas"], &[FUNDS, GAS_TOO_LOW]),
    reason(&["SenderNotEOA", "SENDER_NOT_EOA"], &["senders with deployed code"]),
    reason(&["SenderNotEOAorNoCASH"], &["senders with deployed code", FUNDS]),
    // Bytes are decoded before their type is checked: if they are malformed too, that is reported.
    reason(&["TR_TypeNotSupported", "TYPE_NOT_SUPPORTED"], &[TYPE_UNKNOWN, "is not supported", " at byte "]),
    reason(&["TYPE_1_TX_PRE_FORK", "TYPE_2_TX_PRE_FORK", "TYPE_3_TX_PRE_FORK", "TYPE_4_TX_PRE_FORK"], &[TYPE_UNKNOWN]),
    reason(&["TYPE_4_EMPTY_AUTHORIZATION_LIST"], &["empty authorization list"]),
    reason(&["TR_FeeCapLessThanBlocks", "INSUFFICIENT_MAX_FEE_PER_GAS"], &[FEE_TOO_LOW]),
    reason(&["TR_FeeCapLessThanBlocksORNoFunds"], &[FEE_TOO_LOW, FUNDS]),
    reason(&["TR_FeeCapLessThanBlocksORGasLimitReached"], &[FEE_TOO_LOW, BLOCK_GAS]),
    reason(&["TR_GasLimitReached", "BlockGasLimitReached", "GAS_ALLOWANCE_EXCEEDED"], &[BLOCK_GAS]),
    reason(
        &["TR_TipGtFeeCap", "PRIORITY_GREATER_THAN_MAX_FEE_PER_GAS", "PRIORITY_GREATER_THAN_MAX_FEE_PER_GAS_2"],
        &["priority fee is greater than max fee"],
    ),
    reason(&["TR_NonceTooLow", "NONCE_MISMATCH_TOO_LOW"], &["too low, expected"]),
    reason(&["TR_NonceTooHigh", "NONCE_MISMATCH_TOO_HIGH"], &["too high, expected"]),
    reason(&["TR_NonceHasMaxValue", "NONCE_IS_MAX", "NONCE_TOO_BIG"], &["nonce overflow in transaction"]),
    reason(&["TR_InitCodeLimitExceeded", "INITCODE_SIZE_EXCEEDED"], &["create initcode size limit"]),
    reason(&["INSUFFICIENT_MAX_FEE_PER_BLOB_GAS"], &["greater than max fee per blob gas"]),
    reason(&["TR_EMPTYBLOB", "TYPE_3_TX_ZERO_BLOBS"], &["empty blobs"]),
    reason(&["TR_BLOBVERSION_INVALID", "TYPE_3_TX_INVALID_BLOB_VERSIONED_HASH"], &["blob version not supported"]),
    reason(
        &["TR_BLOBLIST_OVERSIZE", "TYPE_3_TX_BLOB_COUNT_EXCEEDED", "TYPE_3_TX_MAX_BLOB_GAS_ALLOWANCE_EXCEEDED"],
        &["too many blobs", "blob gas", "blob gas used"],
    ),
    reason(&["GASLIMIT_PRICE_PRODUCT_OVERFLOW"], &["overflow payment"]),
    reason(&["EC_RECOVERY_FAIL"], &["invalid public key"]),
    // A `v` of another chain is an invalid signature in one vocabulary and a wrong chain in the other.
    reason(
        &["INVALID_SIGNATURE_VRS", "INVALID_CHAINID"],
        &[
            "invalid transaction v, r, s values",
            "invalid chain id for signer",
            "transaction v at byte",
            "transaction r at byte",
            "transaction s at byte",
        ],
    ),
];

/// Reasons for refusing bytes as a transaction or block.
const OF_ENCODINGS: &[Reason] = &[
    // Typed transactions encode "no receiver" as the empty string, which these types do not permit.
    reason(
        &["TR_BLOBCREATE", "TYPE_3_TX_CONTRACT_CREATION", "TYPE_4_TX_CONTRACT_CREATION"],
        &["transaction receiver at byte"],
    ),
    reason(&["TYPE_3_TX_WITH_FULL_BLOBS", "RLP_STRUCTURES_ENCODING"], &[" at byte "]),
    reason(&["ADDRESS_TOO_LONG", "ADDRESS_TOO_SHORT", "RLP_INVALID_TO"], &["transaction receiver at byte"]),
    reason(
        &["RLP_INVALID_ACCESS_LIST_ADDRESS_TOO_LONG", "RLP_INVALID_ACCESS_LIST_ADDRESS_TOO_SHORT"],
        &["access list address at byte"],
    ),
    reason(
        &["RLP_INVALID_ACCESS_LIST_STORAGE_TOO_LONG", "RLP_INVALID_ACCESS_LIST_STORAGE_TOO_SHORT"],
        &["access list key at byte"],
    ),
    reason(
        &["GASLIMIT_OVERFLOW", "RLP_INVALID_GASLIMIT", "RLP_LEADING_ZEROS_GASLIMIT"],
        &["transaction gas limit at byte"],
    ),
    reason(
        &["GASPRICE_OVERFLOW", "RLP_LEADING_ZEROS_GASPRICE"],
        &["transaction gas price at byte", "transaction fee cap at byte"],
    ),
    reason(&["RLP_LEADING_ZEROS_BASEFEE"], &["transaction fee cap at byte"]),
    reason(
        &["PRIORITY_OVERFLOW", "RLP_LEADING_ZEROS_PRIORITY_FEE"],
        &["transaction priority fee at byte", PRICE_TOO_HIGH],
    ),
    reason(
        &["NONCE_OVERFLOW", "RLP_INVALID_NONCE", "RLP_LEADING_ZEROS_NONCE", "RLP_LEADING_ZEROS_NONCE_SIZE"],
        &["transaction nonce at byte"],
    ),
    reason(
        &["TR_RLP_WRONGVALUE", "RLP_INVALID_VALUE", "VALUE_OVERFLOW", "RLP_LEADING_ZEROS_VALUE"],
        &["transaction value at byte"],
    ),
    reason(&["RLP_INVALID_DATA", "RLP_LEADING_ZEROS_DATA_SIZE"], &["transaction data at byte"]),
    reason(&["RLP_LEADING_ZEROS_V"], &["transaction v at byte"]),
    reason(&["RLP_LEADING_ZEROS_R", "RLP_INVALID_SIGNATURE_R"], &["transaction r at byte"]),
    reason(&["RLP_LEADING_ZEROS_S", "RLP_INVALID_SIGNATURE_S"], &["transaction s at byte"]),
    reason(
        &[
            "RLP_ERROR_EOF",
            "RLP_ERROR_SIZE",
            "RLP_ERROR_SIZE_LEADING_ZEROS",
            "RLP_INVALID_HEADER",
            "RLP_TOO_FEW_ELEMENTS",
            "RLP_TOO_MANY_ELEMENTS",
        ],
        &[" at byte "],
    ),
    reason(&["INPUT_UNMARSHAL_ADDRESS_ERROR", "RLP_INVALID_ADDRESS"], &["withdrawal address at byte"]),
    reason(&["INPUT_UNMARSHAL_ERROR", "RLP_INVALID_FIELD_OVERFLOW_64"], &["withdrawal", "transaction"]),
    reason(&["RLP_ExpectedAsList", "RLP_WITHDRAWALS_NOT_READ"], &["withdrawals: found none", "withdrawals at byte"]),
    // A header with only some of the items that a fork adds together has no valid form.
    reason(&["INCORRECT_BLOCK_FORMAT"], &["at byte", "wanted a value from this fork on", "wanted none before"]),
];

/// Reasons for refusing blocks, for the block itself or for one of its uncles.
const OF_BLOCKS: &[Reason] = &[
    reason(&["UnknownParent", "UnknownParent2", "UNKNOWN_PARENT", "UNKNOWN_PARENT_ZERO"], &["is not known"]),
    reason(&["InvalidNumber", "INVALID_BLOCK_NUMBER"], &["number: found"]),
    reason(
        &["InvalidTimestamp", "InvalidTimestampOlderParent", "INVALID_BLOCK_TIMESTAMP_OLDER_THAN_PARENT"],
        &["timestamp: found"],
    ),
    reason(&["InvalidDifficulty", "INVALID_DIFFICULTY"], &["difficulty: found", "difficulty after the merge: found"]),
    reason(&["InvalidGasLimit", "InvalidGasLimit2", "INVALID_GASLIMIT", "GASLIMIT_TOO_BIG"], &["gas limit: found"]),
    reason(
        &["InvalidGasUsed", "TooMuchGasUsed", "INVALID_GAS_USED", "GAS_USED_OVERFLOW"],
        &["gas used: found", "gas used is"],
    ),
    reason(&["ExtraDataTooBig", "EXTRA_DATA_TOO_BIG"], &["extra data: found"]),
    reason(&["ExtraDataIncorrectDAO", "EXTRA_DATA_INVALID_DAO"], &["extra data at the DAO fork: found"]),
    reason(&["InvalidStateRoot", "INVALID_STATE_ROOT"], &["state root is"]),
    reason(&["InvalidReceiptsStateRoot", "INVALID_RECEIPTS_ROOT"], &["receipts root is"]),
    reason(&["InvalidLogBloom", "INVALID_LOG_BLOOM"], &["logs bloom is"]),
    reason(&["InvalidTransactionsRoot", "INVALID_TRANSACTIONS_ROOT"], &["transactions root: found"]),
    reason(&["InvalidWithdrawals", "INVALID_WITHDRAWALS_ROOT"], &["withdrawals root: found"]),
    reason(&["1559BlockImportImpossible_BaseFeeWrong", "INVALID_BASEFEE_PER_GAS"], &["base fee: found"]),
    reason(&["INVALID_REQUESTS"], &["requests hash is"]),
    reason(&["INVALID_DEPOSIT_EVENT_LAYOUT"], &["deposit log: "]),
    reason(&["SYSTEM_CONTRACT_CALL_FAILED", "SYSTEM_CONTRACT_EMPTY"], &["system call to"]),
    reason(&["RLP_BLOCK_LIMIT_EXCEEDED"], &["block size: found"]),
    reason(&["INCORRECT_EXCESS_BLOB_GAS"], &["excess blob gas: found"]),
    reason(&["INCORRECT_BLOB_GAS_USED", "BLOB_GAS_USED_ABOVE_LIMIT"], &["blob gas used: found", "blob gas used is"]),
    reason(&["InvalidBlockNonce"], &["nonce after the merge: found"]),
    reason(&["InvalidUnclesHash"], &["ommers hash: found"]),
    reason(
        &["InvalidUncleParentHash", "UncleParentIsNotAncestor", "UncleTooOld", "UNCLE_PARENT_INCORRECT"],
        &[UNCLE_PARENT],
    ),
    reason(&["UncleIsAncestor"], &["wanted a block that is not an ancestor", UNCLE_PARENT]),
    reason(&["UncleInChain"], &["wanted one that was not included before"]),
    reason(&["UncleIsBrother"], &["wanted one that was not included before", UNCLE_PARENT]),
    reason(&["TooManyUncles"], &["uncles: found"]),
    reason(&["PostParisUncleHashIsNotEmpty", "IMPORT_IMPOSSIBLE_UNCLES_OVER_PARIS"], &["ommers hash after the merge"]),
    reason(&["PostParisDifficultyIsNot0", "IMPORT_IMPOSSIBLE_DIFFICULTY_OVER_PARIS"], &["difficulty after the merge"]),
    // Blocks of the wrong side of a fork. Our error names the item that does not belong there.
    reason(&["3675PreParis1559BlockRejected", "3675PoWBlockRejected"], &["after the merge: found"]),
    reason(&["3675PoSBlockRejected", "IMPORT_IMPOSSIBLE_PARIS_WRONG_POS"], &["difficulty: found 0"]),
    reason(&["IMPORT_IMPOSSIBLE_PARIS_WRONG_POW"], &["difficulty after the merge: found"]),
    reason(
        &[
            "1559BlockImportImpossible_HeaderIsLegacy",
            "LegacyBlockImportImpossible",
            "LegacyBlockImportImpossible2",
            "IMPORT_IMPOSSIBLE_LEGACY",
            "IMPORT_IMPOSSIBLE_LEGACY_WRONG_PARENT",
            "IMPORT_IMPOSSIBLE_LONDON_WRONG_PARENT",
        ],
        &["base fee: found"],
    ),
    reason(
        &[
            "ParisBlockImportImpossible",
            "ShanghaiBlockImportImpossible",
            "IMPORT_IMPOSSIBLE_SHANGHAI",
            "IMPORT_IMPOSSIBLE_PARIS_OVER_SHANGHAI",
        ],
        &["withdrawals root: found"],
    ),
];

/// Compares our error text with the suite's reason. Names joined by `|` are alternatives; a name that is in no table
/// counts as not compared.
pub(crate) fn compare_refusal(exception: &str, refusal: &str) -> Check {
    let names: Vec<&str> = exception.split('|').map(without_vocabulary).collect();
    let tables = [OF_TRANSACTIONS, OF_ENCODINGS, OF_BLOCKS];
    let reasons: Vec<&Reason> =
        tables.into_iter().flatten().filter(|reason| reason.names.iter().any(|name| names.contains(name))).collect();
    let words = || reasons.iter().flat_map(|reason| reason.words);
    if words().any(|words| refusal.contains(words)) {
        return Ok(Passed::default());
    }
    if reasons.is_empty() {
        return Ok(Passed { not_compared: 1 });
    }
    let wanted = words().map(|words| format!("\"{words}\"")).collect::<Vec<_>>().join(" or ");
    Err(Difference::new("reason of the refusal", refusal, format_args!("{exception}, that is {wanted}")).into())
}

fn without_vocabulary(name: &str) -> &str {
    let name = name.trim();
    ["TransactionException.", "BlockException."].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_passes_only_for_the_named_reason() {
        let refusal = "block 1 (0x00): gas limit: found 1, wanted at least 5000";

        assert!(compare_refusal("InvalidGasLimit2", refusal).is_ok());
        assert!(compare_refusal("BlockException.INVALID_GASLIMIT", refusal).is_ok());
        assert!(compare_refusal("InvalidNumber", refusal).is_err());
        assert!(compare_refusal("InvalidNumber|InvalidGasLimit", refusal).is_ok());
    }

    #[test]
    fn an_unknown_reason_is_counted() {
        assert_eq!(compare_refusal("MoonPhase", "anything"), Ok(Passed { not_compared: 1 }));
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = [OF_TRANSACTIONS, OF_ENCODINGS, OF_BLOCKS]
            .into_iter()
            .flatten()
            .flat_map(|reason| reason.names)
            .copied()
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
