//! JSON schemas of the results that methods write themselves.

use tenon_sdk::shapes::schema;

/// False, or the progress of synchronising.
const SYNCING: &str = r#"{"anyOf":[{"type":"boolean","const":false},{"type":"object","required":["startingBlock","currentBlock","highestBlock"]}]}"#;

/// By method.
pub(crate) const RESULTS: &[(&str, &str)] = &[
    ("eth_syncing", SYNCING),
    ("eth_capabilities", schema::OBJECT),
    ("eth_config", schema::OBJECT),
    ("eth_getStorageValues", schema::OBJECT),
    ("eth_feeHistory", schema::OBJECT),
    ("eth_getAccountInfo", schema::OBJECT),
    ("eth_getRewardByHash", schema::OBJECT),
    ("eth_getCandidates", schema::OBJECT),
    ("eth_getCandidateStatus", schema::OBJECT),
    ("eth_getBalance", schema::QUANTITY),
    ("eth_getCode", schema::DATA),
    ("eth_call", schema::DATA),
    ("eth_getRawTransactionByHash", schema::DATA),
    ("eth_getRawTransactionByBlockHashAndIndex", schema::DATA),
    ("eth_getRawTransactionByBlockNumberAndIndex", schema::DATA),
    ("eth_accounts", schema::ADDRESSES),
    ("eth_requestAccounts", schema::ADDRESSES),
    ("eth_getProof", schema::ACCOUNT_PROOF),
    ("eth_getBlockByNumber", schema::BLOCK_OR_NULL),
    ("eth_getBlockByHash", schema::BLOCK_OR_NULL),
    ("eth_getHeaderByNumber", schema::HEADER_OR_NULL),
    ("eth_getHeaderByHash", schema::HEADER_OR_NULL),
    ("eth_getBlockReceipts", schema::RECEIPTS_OR_NULL),
    ("eth_getUncleByBlockNumberAndIndex", schema::UNCLE_OR_NULL),
    ("eth_getUncleByBlockHashAndIndex", schema::UNCLE_OR_NULL),
    ("eth_getTransactionByHash", schema::TRANSACTION_OR_NULL),
    ("eth_getTransactionByBlockHashAndIndex", schema::TRANSACTION_OR_NULL),
    ("eth_getTransactionByBlockNumberAndIndex", schema::TRANSACTION_OR_NULL),
    ("eth_getTransactionReceipt", schema::RECEIPT_OR_NULL),
    ("eth_sendRawTransactionSync", schema::RECEIPT_OR_NULL),
    ("eth_createAccessList", schema::ACCESS_LIST),
    ("eth_simulateV1", schema::SIMULATED_BLOCKS),
    ("eth_fillTransaction", schema::SIGNED_TRANSACTION),
    ("eth_signTransaction", schema::SIGNED_TRANSACTION),
    ("eth_pendingTransactions", schema::TRANSACTIONS),
    ("eth_getTransactionAndReceiptProof", schema::OBJECT_OR_NULL),
    ("eth_getBlockSignersByNumber", schema::ADDRESSES_OR_NULL),
    ("eth_getBlockSignersByHash", schema::ADDRESSES_OR_NULL),
    ("eth_getTokenStats", schema::OBJECT),
    ("eth_getStakerROI", schema::NUMBER),
    ("eth_getStakerROIMasternode", schema::NUMBER),
    ("eth_getLogs", schema::LOGS),
    ("eth_getFilterLogs", schema::LOGS),
    ("eth_getFilterChanges", schema::CHANGES),
];

/// Schemas of parameters whose types do not define one, by method and name.
pub(crate) const PARAMETERS: &[(&str, &str, &str)] = &[
    ("eth_getProof", "storageKeys", r#"{"type":["array","null"],"items":{"type":"string"}}"#),
    (
        "eth_signTypedData_v4",
        "data",
        r#"{"type":["object","string"],"required":["types","primaryType","domain","message"]}"#,
    ),
];
