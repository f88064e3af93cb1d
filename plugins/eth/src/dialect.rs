//! Differences of this namespace between families of chains: one table for each family.
//!
//! No other file of the plugin checks the family: the others read the fields of [`Dialect`]. Each field names one
//! difference and can be set independently of the others.

use tenon_sdk::prelude::*;

/// What a chain's family decides about the answers of this namespace.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// The family, for the shapes of the SDK, which have tables of their own.
    pub(crate) profile: Profile,

    /// Whether the methods of native chains exist: accounts in one object, owners, rewards, candidates, proofs.
    pub(crate) has_native_methods: bool,
    /// Answer of `eth_protocolVersion`.
    pub(crate) protocol_version: u64,
    /// The form of `eth_config`.
    pub(crate) schedule: ScheduleForm,

    /// Whether the block parameter of a state query is required (`null` is allowed).
    pub(crate) requires_state_block: bool,
    /// Whether the tag `safe` exists.
    pub(crate) has_safe_tag: bool,
    /// Whether storage keys are read as Go's `common.HexToHash` does, which refuses nothing.
    pub(crate) reads_storage_keys_leniently: bool,
    /// Whether the proof of an account that does not exist has zero hashes instead of those of empty data.
    pub(crate) missing_account_has_zero_hashes: bool,

    /// Whether a call without sender comes from the node's first account, if there is one.
    pub(crate) calls_from_first_account: bool,
    /// Whether `eth_call` and `eth_estimateGas` accept block overrides, and `eth_createAccessList` state overrides.
    pub(crate) accepts_new_override_parameters: bool,
    /// Whether `eth_createAccessList` checks its block first and completes the call like a transaction.
    pub(crate) completes_access_list_call: bool,
    /// Whether a fee history has members for blobs.
    pub(crate) has_blob_fees: bool,
    /// Whether raw transactions of types above 2 are refused as unknown.
    pub(crate) refuses_later_types: bool,

    /// Whether a zero `blockHash` in a search for logs counts as absent.
    pub(crate) zero_hash_is_none: bool,
    /// Code of errors about ranges of logs.
    pub(crate) range_error_code: FailureCode,
    /// The answer to a range of logs that ends before it begins.
    pub(crate) reversed_range: ReversedRange,
    /// Error text of a range beyond the head.
    pub(crate) beyond_head: &'static str,
    /// Name of the finalized block in errors.
    pub(crate) finalized_name: &'static str,
    /// Whether a subscription to logs may begin or end at the pending block.
    pub(crate) has_pending_logs: bool,
    /// Whether a reorganisation announces as heads only blocks above the height of the replaced branch, sends the logs
    /// of the first such block twice, and sends removed logs oldest first (`docs/spec/rpc-eth.md` 14.3).
    pub(crate) announces_only_above_replaced: bool,

    /// Whether a sync status has counters of states fetched from peers. They are always zero, because every block is
    /// executed.
    pub(crate) counts_pulled_states: bool,
    /// Whether the subscription to the sync status has the member names and plain numbers of the reference's struct.
    pub(crate) announces_sync_as_struct: bool,
    /// The etherbase of a node without the setting and without accounts.
    pub(crate) default_etherbase: Option<Address>,
    /// Whether `eth_getWork` reports that the key of the etherbase is missing.
    pub(crate) work_needs_signer: bool,
}

/// The form of `eth_config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScheduleForm {
    /// EIP-7910: forks by time.
    ByTime,
    /// Upgrades by height (`docs/spec/upgrades.md` 11.3).
    ByHeight,
}

/// The answer to a range of logs that ends before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReversedRange {
    /// An error if both ends are numbers, checked before the range is compared with the head, as in go-ethereum.
    Refused,
    /// An empty list if the range ends at or below the head; otherwise the error [`Dialect::beyond_head`].
    Empty,
}

impl Dialect {
    /// go-ethereum's answers.
    pub(crate) const ETHEREUM: Self = Self {
        profile: Profile::Ethereum,
        has_native_methods: false,
        // eth/68.
        protocol_version: 68,
        schedule: ScheduleForm::ByTime,
        requires_state_block: false,
        has_safe_tag: true,
        reads_storage_keys_leniently: false,
        missing_account_has_zero_hashes: true,
        calls_from_first_account: false,
        accepts_new_override_parameters: true,
        completes_access_list_call: false,
        has_blob_fees: true,
        refuses_later_types: false,
        zero_hash_is_none: false,
        range_error_code: FailureCode::INVALID_PARAMS,
        reversed_range: ReversedRange::Refused,
        beyond_head: "block range extends beyond current head block",
        finalized_name: "finalized",
        has_pending_logs: false,
        announces_only_above_replaced: false,
        counts_pulled_states: false,
        announces_sync_as_struct: false,
        default_etherbase: None,
        work_needs_signer: false,
    };

    /// The reference's answers.
    pub(crate) const NATIVE: Self = Self {
        profile: Profile::Native,
        has_native_methods: true,
        // The first peer protocol that the reference offers (`docs/spec/rpc-eth.md` 8).
        protocol_version: 100,
        schedule: ScheduleForm::ByHeight,
        requires_state_block: true,
        has_safe_tag: false,
        reads_storage_keys_leniently: true,
        // The old reference that still served the method returned the hashes of empty data.
        missing_account_has_zero_hashes: false,
        calls_from_first_account: true,
        accepts_new_override_parameters: false,
        completes_access_list_call: true,
        has_blob_fees: false,
        refuses_later_types: true,
        zero_hash_is_none: true,
        range_error_code: FailureCode::SERVER,
        reversed_range: ReversedRange::Empty,
        beyond_head: "header for number not found",
        finalized_name: "committed",
        has_pending_logs: true,
        announces_only_above_replaced: true,
        counts_pulled_states: true,
        announces_sync_as_struct: true,
        // The default of the reference's flag.
        default_etherbase: Some(Address::new([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xab, 0xcd])),
        work_needs_signer: true,
    };

    /// The table of a family.
    pub(crate) const fn of(profile: Profile) -> &'static Self {
        match profile {
            Profile::Ethereum => &Self::ETHEREUM,
            Profile::Native => &Self::NATIVE,
        }
    }
}
