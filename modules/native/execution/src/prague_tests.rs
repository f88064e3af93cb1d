//! Blocks around Prague, over a small state: set-code transactions, the calldata floor, the history contract, and the
//! changes of the later program (`docs/spec/upgrades.md` 7, 9).

use std::{collections::HashMap, sync::Arc};

use alloy_primitives::{Address, B256, Bytes, U256, b256, hex, keccak256};
use tenon_api::{
    Account, AccountChange, EMPTY_CODE_HASH, Header, NativeSeal, Receipt, ReceiptOutcome, SignedAuthorization,
    Transaction, TransactionPayload, TransactionSignature, TransactionType,
};
use tenon_chain::{ChainSpec, VALIDATOR_CONTRACT, authorization_signing_hash, candidate_record};
use tenon_memory_chain::FixedState;
use tenon_native_consensus::v2::MasternodeKey;
use tenon_native_spec::{PublicNetwork, read_genesis};

use tenon_execution_block::{BlockExecution, Executor};
use tenon_execution_interface::{
    BlockOrigin, ExecutionError, HISTORY_STORAGE_ADDRESS, Interrupt, TransactionRejection,
};

pub(super) const PRAGUE: u64 = 10;
pub(super) const SENDER: Address = Address::repeat_byte(0x51);
const TARGET: Address = Address::repeat_byte(0x7a);
const AUTHOR: Address = Address::repeat_byte(0xa0);
const GWEI_12_5: u64 = 12_500_000_000;
const BLOCK_SIGNERS: Address = Address::with_last_byte(0x89);
/// Stores the first word of the calldata in slot 1: PUSH0 CALLDATALOAD PUSH1 1 SSTORE.
const STORES: [u8; 5] = hex!("5f35600155");
/// Stores the second word of the data in the slot that the first one names.
const STORES_ANYWHERE: [u8; 7] = hex!("6020355f355500");
/// Reverts: PUSH0 PUSH0 REVERT.
const REVERTS: [u8; 3] = hex!("5f5ffd");
/// The history contract's code as the specification gives it (7.3).
const HISTORY: [u8; 83] = hex!(
    "3373fffffffffffffffffffffffffffffffffffffffe14604657602036036042575f35600143038111604257611fff81430311604257611fff9006545f5260205ff35b5f5ffd5b5f35611fff60014303065500"
);

/// The sender with enough coins.
fn funded() -> FixedState {
    FixedState::default().with(SENDER, 0, U256::from(10).pow(U256::from(20)), &[])
}

/// A chain on which everything up to Cancun is active from the start, and Prague from block 10 on.
pub(super) fn spec() -> Arc<ChainSpec> {
    chain(5151, &format!("\"pragueBlock\":{PRAGUE},"))
}

fn chain(id: u64, members: &str) -> Arc<ChainSpec> {
    let text = format!(
        r#"{{"config":{{"chainId":{id},"homesteadBlock":0,"eip150Block":0,"eip155Block":0,"eip158Block":0,
        "byzantiumBlock":0,{members}"XDPoS":{{"period":2,"epoch":900,"gap":450}}}},
        "difficulty":"0x1","gasLimit":"0x47b760","alloc":{{}}}}"#
    );
    read_genesis(text.as_bytes()).unwrap().spec
}

/// The parent of the block of a height.
fn parent_hash(number: u64) -> B256 {
    keccak256(number.to_be_bytes())
}

pub(super) fn open(executor: &Executor, number: u64, state: &FixedState) -> Result<BlockExecution<()>, ExecutionError> {
    let spec = executor.family().spec();
    let header = Header {
        number,
        parent_hash: parent_hash(number),
        gas_limit: 50_000_000,
        base_fee_per_gas: spec.has_base_fee(number).then_some(GWEI_12_5),
        native_seal: Some(NativeSeal::default()),
        ..Header::default()
    };
    let state = executor.state_over(Arc::new(state.clone()));
    BlockExecution::watched(executor.family(), &header, AUTHOR, state, Interrupt::never(), (), BlockOrigin::Header)
}

/// What a block did.
struct Done {
    receipts: Vec<Receipt>,
    changes: HashMap<Address, AccountChange>,
}

impl Done {
    fn account(&self, address: Address) -> Account {
        self.changes[&address].account.unwrap()
    }

    fn slots(&self, address: Address) -> Vec<(B256, U256)> {
        let change = self.changes.get(&address);
        change.into_iter().flat_map(|change| &change.slots).map(|change| (change.slot, change.value)).collect()
    }

    fn gas(&self) -> Vec<u64> {
        self.receipts.iter().map(|receipt| receipt.gas_used).collect()
    }

    fn successes(&self) -> Vec<bool> {
        self.receipts.iter().map(|receipt| receipt.outcome == ReceiptOutcome::Status(true)).collect()
    }
}

fn execute(executor: &Executor, number: u64, state: &FixedState, transactions: &[Transaction]) -> Done {
    let mut execution = open(executor, number, state).unwrap();
    for transaction in transactions {
        execution.run_transaction(transaction, SENDER).unwrap();
    }
    let receipts = execution.receipts().to_vec();
    let state = execution.into_state().unwrap();
    let changes = state.changes().into_iter().map(|change| (change.address, change)).collect();
    Done { receipts, changes }
}

fn refusal(number: u64, transaction: &Transaction) -> String {
    let mut execution = open(&Executor::new(crate::family_of(&spec()).unwrap()), number, &funded()).unwrap();
    execution.run_transaction(transaction, SENDER).unwrap_err().to_string()
}

pub(super) fn transaction(nonce: u64, to: Option<Address>, input: &[u8]) -> Transaction {
    Transaction {
        hash: B256::ZERO,
        chain_id: None,
        nonce,
        gas_limit: 200_000,
        to,
        value: U256::ZERO,
        input: Bytes::copy_from_slice(input),
        payload: TransactionPayload::Legacy { gas_price: U256::from(GWEI_12_5) },
        signature: TransactionSignature { v: 27, r: U256::ONE, s: U256::ONE },
    }
}

fn set_code(nonce: u64, to: Address, input: &[u8], list: Vec<SignedAuthorization>) -> Transaction {
    Transaction {
        chain_id: Some(5151),
        payload: TransactionPayload::SetCode {
            max_fee_per_gas: U256::from(GWEI_12_5),
            max_priority_fee_per_gas: U256::ZERO,
            access_list: Vec::new(),
            authorization_list: list,
        },
        ..transaction(nonce, Some(to), input)
    }
}

fn key() -> MasternodeKey {
    MasternodeKey::from_bytes(B256::with_last_byte(7).0).unwrap()
}

/// An authorization by [`key`].
fn authorization(chain_id: u64, address: Address, nonce: u64) -> SignedAuthorization {
    let mut signed = SignedAuthorization {
        chain_id: U256::from(chain_id),
        address,
        nonce,
        y_parity: 0,
        r: U256::ZERO,
        s: U256::ZERO,
    };
    let signature = key().sign(authorization_signing_hash(&signed));
    signed.r = U256::from_be_slice(&signature[..32]);
    signed.s = U256::from_be_slice(&signature[32..64]);
    signed.y_parity = signature[64];
    signed
}

fn designator(address: Address) -> Vec<u8> {
    [&[0xef, 0x01, 0x00][..], address.as_slice()].concat()
}

const fn slot(number: u8) -> B256 {
    B256::with_last_byte(number)
}

// 7.4, 13.7.
#[test]
fn data_of_mostly_zero_bytes_costs_the_floor_from_prague_on() {
    let executor = Executor::new(crate::family_of(&spec()).unwrap());
    let both = [transaction(0, Some(TARGET), &[0; 100]), transaction(1, Some(TARGET), &[1; 100])];

    assert_eq!(execute(&executor, PRAGUE - 1, &funded(), &both).gas(), [21_400, 27_800]);
    let done = execute(&executor, PRAGUE, &funded(), &both);
    assert_eq!(done.gas(), [22_000, 27_800]);
    // The sender pays for it.
    let paid = U256::from(10).pow(U256::from(20)) - done.account(SENDER).balance;
    assert_eq!(paid, U256::from((22_000 + 27_800) * GWEI_12_5));

    let lacking = Transaction { gas_limit: 21_999, ..both[0].clone() };
    assert_eq!(execute(&executor, PRAGUE - 1, &funded(), std::slice::from_ref(&lacking)).gas(), [21_400]);
    assert_eq!(
        refusal(PRAGUE, &lacking),
        "transaction validation error: gas floor (22000) exceeds the gas limit (21999)"
    );
    let enough = Transaction { gas_limit: 22_000, ..both[0].clone() };
    assert_eq!(execute(&executor, PRAGUE, &funded(), &[enough]).gas(), [22_000]);
}

// 7.2, 13.8: an authorization costs 46,000; 12,500 of it are refunded for an existing authority, up to a fifth of the
// gas.
#[test]
fn an_authorization_costs_its_gas_and_returns_half_for_an_existing_authority() {
    let executor = Executor::new(crate::family_of(&spec()).unwrap());
    let one = || set_code(0, TARGET, &[], vec![authorization(5151, TARGET, 0)]);

    assert_eq!(execute(&executor, PRAGUE, &funded(), &[one()]).gas(), [46_000]);
    let existing = funded().with(key().address(), 0, U256::ONE, &[]);
    assert_eq!(execute(&executor, PRAGUE, &existing, &[one()]).gas(), [46_000 - 46_000 / 5]);
    let two = set_code(0, TARGET, &[1; 400], vec![authorization(5151, TARGET, 0)]);
    assert_eq!(execute(&executor, PRAGUE, &existing, &[two]).gas(), [46_000 + 400 * 68 - 12_500]);
    let invalid = set_code(0, TARGET, &[], vec![authorization(1, TARGET, 0)]);
    assert_eq!(execute(&executor, PRAGUE, &funded(), &[invalid]).gas(), [46_000]);
}

#[test]
fn a_delegated_account_runs_the_targets_code_over_its_own_storage() {
    let executor = Executor::new(crate::family_of(&spec()).unwrap());
    let (authority, word) = (key().address(), [9; 32]);
    let state = funded().with(TARGET, 1, U256::ZERO, &STORES);

    let done = execute(&executor, PRAGUE, &state, &[set_code(0, authority, &word, vec![authorization(0, TARGET, 0)])]);

    assert_eq!(done.successes(), [true]);
    assert_eq!(done.receipts[0].transaction_type, TransactionType::SetCode);
    let account = done.account(authority);
    assert_eq!((account.nonce, account.code_hash), (1, keccak256(designator(TARGET))));
    assert_eq!(done.slots(authority), [(slot(1), U256::from_be_bytes(word))]);
    assert!(done.slots(TARGET).is_empty());
    assert_eq!(done.account(SENDER).nonce, 1);
}

#[test]
fn an_authorization_stays_when_the_call_fails_and_the_zero_address_clears_it() {
    let executor = Executor::new(crate::family_of(&spec()).unwrap());
    let authority = key().address();
    let state = funded().with(TARGET, 1, U256::ZERO, &REVERTS);

    let done = execute(&executor, PRAGUE, &state, &[set_code(0, TARGET, &[], vec![authorization(5151, TARGET, 0)])]);
    assert_eq!(done.successes(), [false]);
    assert_eq!(done.account(authority).code_hash, keccak256(designator(TARGET)));

    let delegated = state.with(authority, 1, U256::ZERO, &designator(TARGET));
    let clears = set_code(0, TARGET, &[], vec![authorization(5151, Address::ZERO, 1)]);
    let done = execute(&executor, PRAGUE, &delegated, &[clears]);
    assert_eq!((done.account(authority).nonce, done.account(authority).code_hash), (2, EMPTY_CODE_HASH));
}

#[test]
fn an_authorization_with_another_nonce_chain_or_for_a_contract_is_skipped() {
    let executor = Executor::new(crate::family_of(&spec()).unwrap());
    let authority = key().address();
    for (state, signed) in [
        (funded(), authorization(5151, TARGET, 1)),
        (funded(), authorization(5150, TARGET, 0)),
        (funded(), authorization(5151, TARGET, u64::MAX)),
        (funded().with(authority, 0, U256::ZERO, &REVERTS), authorization(5151, TARGET, 0)),
    ] {
        let done = execute(&executor, PRAGUE, &state, &[set_code(0, TARGET, &[], vec![signed])]);
        assert_eq!(done.successes(), [true]);
        assert!(!done.changes.contains_key(&authority));
    }
}

#[test]
fn a_set_code_transaction_needs_authorizations_a_receiver_and_prague() {
    let valid = set_code(0, TARGET, &[], vec![authorization(5151, TARGET, 0)]);
    assert_eq!(refusal(PRAGUE - 1, &valid), "transaction validation error: Eip7702 is not supported");
    assert_eq!(
        refusal(PRAGUE, &set_code(0, TARGET, &[], Vec::new())),
        "transaction validation error: empty authorization list"
    );
    let creation = Transaction { to: None, ..valid };
    assert_eq!(refusal(PRAGUE, &creation), "a set-code transaction cannot create a contract");

    let types = |number| {
        let rules = spec().signer_rules(number, 0);
        [TransactionType::DynamicFee, TransactionType::Blob, TransactionType::SetCode].map(|kind| rules.is_active(kind))
    };
    assert_eq!((types(PRAGUE - 1), types(PRAGUE)), ([true, false, false], [true, false, true]));
}

/// The interception comes first: an untyped receipt, and no authorization is processed (7.2).
#[test]
fn a_set_code_transaction_to_the_block_signers_is_intercepted() {
    let executor = Executor::new(crate::family_of(&spec()).unwrap());
    let signing = set_code(0, BLOCK_SIGNERS, &[], vec![authorization(5151, TARGET, 0)]);

    let done = execute(&executor, PRAGUE, &funded(), &[signing]);

    assert_eq!((done.receipts[0].transaction_type, done.receipts[0].gas_used), (TransactionType::Legacy, 0));
    assert!(!done.changes.contains_key(&key().address()));
    assert_eq!(done.account(SENDER).nonce, 1);
}

/// `docs/spec/chain.md` 5.3. The executor's cache of analysed code serves both sides of the fork.
#[test]
fn code_of_the_form_of_a_delegation_is_an_invalid_instruction_before_prague() {
    let executor = Executor::new(crate::family_of(&spec()).unwrap());
    let delegated = Address::repeat_byte(0xde);
    let state = funded().with(TARGET, 1, U256::ZERO, &STORES).with(delegated, 1, U256::ZERO, &designator(TARGET));
    let call = [transaction(0, Some(delegated), &[9; 32])];
    for _ in 0..2 {
        let before = execute(&executor, PRAGUE - 1, &state, &call);
        assert_eq!((before.successes(), before.gas()), (vec![false], vec![200_000]));
        assert!(before.slots(delegated).is_empty());
        let after = execute(&executor, PRAGUE, &state, &call);
        assert_eq!(after.successes(), [true]);
        assert_eq!(after.slots(delegated), [(slot(1), U256::from_be_bytes([9; 32]))]);
    }
}

/// As a sender such an account is a contract before Prague (`docs/spec/chain.md` 5.3), and may send from then on.
#[test]
fn a_delegated_account_may_send_from_prague_on() {
    let executor = Executor::new(crate::family_of(&spec()).unwrap());
    let state = funded().with(SENDER, 0, U256::from(10).pow(U256::from(20)), &designator(TARGET));
    let plain = transaction(0, Some(TARGET), &[]);
    let refused = open(&executor, PRAGUE - 1, &state).unwrap().run_transaction(&plain, SENDER).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "transaction validation error: reject transactions from senders with deployed code"
    );
    assert_eq!(execute(&executor, PRAGUE, &state, &[plain]).gas(), [21_000]);
}

/// EIP-3541 comes with `eip1559` on native chains, not with the London instructions (`docs/spec/chain.md` 5.3).
#[test]
fn code_that_begins_with_ef_can_be_created_until_eip1559() {
    // The main network's heights.
    let executor = Executor::new(crate::family_of(&chain(4243, "")).unwrap());
    // PUSH1 0xef PUSH1 0 MSTORE8 PUSH1 1 PUSH1 0 RETURN
    let creation = [transaction(0, None, &hex!("60ef60005360016000f3"))];
    let created = SENDER.create(0);

    let before = execute(&executor, 98_800_199, &funded(), &creation);
    assert_eq!(before.account(created).code_hash, keccak256([0xef]));
    let after = execute(&executor, 98_800_200, &funded(), &creation);
    assert_eq!(after.successes(), [false]);
    assert!(!after.changes.contains_key(&created));
}

// 7.3.
#[test]
fn the_history_contract_is_put_in_place_by_the_fork_block_and_keeps_each_parents_hash() {
    let executor = Executor::new(crate::family_of(&spec()).unwrap());
    assert!(execute(&executor, PRAGUE - 1, &FixedState::default(), &[]).changes.is_empty());

    // A balance that is there already stays.
    let state = FixedState::default().with(HISTORY_STORAGE_ADDRESS, 0, U256::from(5), &[]);
    let done = execute(&executor, PRAGUE, &state, &[]);

    let account = done.account(HISTORY_STORAGE_ADDRESS);
    assert_eq!((account.nonce, account.balance, account.code_hash), (1, U256::from(5), keccak256(HISTORY)));
    let first = (slot(9), U256::from_be_bytes(parent_hash(PRAGUE).0));
    assert_eq!(done.slots(HISTORY_STORAGE_ADDRESS), [first]);
    assert_eq!(done.changes.len(), 1, "the caller of the system is not written");

    let deployed = FixedState::default().with(HISTORY_STORAGE_ADDRESS, 1, U256::ZERO, &HISTORY);
    let done = execute(&executor, PRAGUE + 1, &deployed, &[]);
    let second = (slot(10), U256::from_be_bytes(parent_hash(PRAGUE + 1).0));
    assert_eq!((done.account(HISTORY_STORAGE_ADDRESS).nonce, done.slots(HISTORY_STORAGE_ADDRESS)), (1, vec![second]));
}

// 13.5: the ring has 8191 places.
#[test]
fn the_fork_block_of_testnet_stores_its_parent_in_slot_2653() {
    let spec = PublicNetwork::Testnet.genesis().unwrap().spec;
    let done = execute(&Executor::new(crate::family_of(&spec).unwrap()), 83_600_000, &FixedState::default(), &[]);

    let place = B256::from(U256::from(2_653));
    let hash = U256::from_be_bytes(parent_hash(83_600_000).0);
    assert_eq!(done.slots(HISTORY_STORAGE_ADDRESS), [(place, hash)]);
    let known = b256!("6e49e66782037c0555897870e29fa5e552daf4719552131a0abce779daec0a5d");
    assert_eq!(done.account(HISTORY_STORAGE_ADDRESS).code_hash, known);
}

#[test]
fn other_code_at_the_history_contracts_address_stops_the_chain() {
    let other = FixedState::default().with(HISTORY_STORAGE_ADDRESS, 1, U256::ZERO, &STORES);
    let executor = Executor::new(crate::family_of(&spec()).unwrap());
    assert!(open(&executor, PRAGUE - 1, &other).is_ok());
    let Err(ExecutionError::Unsupported { what, .. }) = open(&executor, PRAGUE, &other) else { panic!("opened") };
    assert!(what.contains("history contract"), "{what}");
}

#[test]
fn a_history_contract_that_cannot_be_read_does_not_make_the_block_invalid() {
    let deployed = FixedState::default().with(HISTORY_STORAGE_ADDRESS, 1, U256::ZERO, &HISTORY);
    let state = FixedState { unreadable: Some(HISTORY_STORAGE_ADDRESS), ..deployed };
    let executor = Executor::new(crate::family_of(&spec()).unwrap());

    let Err(error) = open(&executor, PRAGUE + 1, &state) else { panic!("opened") };

    assert!(!error.is_block_invalid());
    assert_eq!(error.to_string(), "database: input/output error");
}

// docs/spec/chain.md 5.4.
#[test]
fn a_proof_without_a_defined_result_does_not_make_its_transaction_invalid() {
    // The main network's heights, before the contract is removed.
    let executor = Executor::new(crate::family_of(&chain(4243, "")).unwrap());
    // The number of points. Their length, 33 bytes each, overflows 32 bits to 29 bytes, which is less than the input.
    let proof = [&hex!("07c1f07d")[..], &[0; 60]].concat();
    let contract = Address::with_last_byte(0x28);
    let call = Transaction { gas_limit: 1_000_000, ..transaction(0, Some(contract), &proof) };

    let reason = open(&executor, 10, &funded()).unwrap().run_transaction(&call, SENDER).unwrap_err();

    let text = "precompiled contract 0x28 is not executed on a number of points beyond the input";
    assert_eq!(reason, TransactionRejection::NoResult(text.to_owned()));
}

/// The addresses 0x0b to 0x11 are precompiled contracts on Ethereum from Prague on, and ordinary addresses here (7.1).
#[test]
fn there_are_no_precompiles_of_bls12_381() {
    let executor = Executor::new(crate::family_of(&spec()).unwrap());
    let calls = [0x0b, 0x0f, 0x11].map(Address::with_last_byte);
    let calls: Vec<_> = (0..).zip(calls).map(|(nonce, to)| transaction(nonce, Some(to), &[1])).collect();
    let done = execute(&executor, PRAGUE, &funded(), &calls);
    assert_eq!((done.successes(), done.gas()), (vec![true; 3], vec![21_068; 3]));
}

// 9.1: v2.7.0 reads the owner once, the later program before each transaction.
#[test]
fn the_owner_of_the_author_is_read_again_where_the_later_program_runs() {
    let (first, second) = (Address::repeat_byte(0x01), Address::repeat_byte(0x02));
    let executor = Executor::new(crate::family_of(&spec()).unwrap());
    let mut state = funded().with(VALIDATOR_CONTRACT, 1, U256::ZERO, &STORES_ANYWHERE);
    let record = candidate_record(AUTHOR);
    state.slots.insert((VALIDATOR_CONTRACT, record), U256::from_be_bytes(first.into_word().0));
    let changes = [record.as_slice(), second.into_word().as_slice()].concat();
    let both = [transaction(0, Some(VALIDATOR_CONTRACT), &changes), transaction(1, Some(TARGET), &[])];
    let fee = |gas: u64| U256::from(gas) * U256::from(GWEI_12_5);

    let before = execute(&executor, PRAGUE - 1, &state, &both);
    let gas = before.gas();
    assert_eq!(before.account(first).balance, fee(gas[0] + gas[1]));
    assert!(!before.changes.contains_key(&second));
    let after = execute(&executor, PRAGUE, &state, &both);
    assert_eq!((after.account(first).balance, after.account(second).balance), (fee(gas[0]), fee(gas[1])));
}

// 9.3: from the later program on EIP-7610.
#[test]
fn storage_alone_prevents_a_creation_where_the_later_program_runs() {
    let executor = Executor::new(crate::family_of(&spec()).unwrap());
    let created = SENDER.create(0);
    let mut state = funded();
    state.accounts.insert(created, Account { storage_root: B256::repeat_byte(1), ..Account::default() });
    let creation = [transaction(0, None, &hex!("600160005360016000f3"))];

    assert_eq!(execute(&executor, PRAGUE - 1, &state, &creation).successes(), [true]);
    assert_eq!(execute(&executor, PRAGUE, &state, &creation).successes(), [false]);
}
