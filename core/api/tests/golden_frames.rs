//! Compares one encoded value of every message with `golden_frames.txt`: an older plugin would misread an encoding that
//! changed without its `SCHEMA` number.
//!
//! After a deliberate change (raise the message's `SCHEMA` first): `TENON_UPDATE_GOLDEN=1 cargo test -p tenon-api`.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a failure fails the test")]

use std::{collections::BTreeMap, fmt::Write as _, path::Path, sync::Arc};

use tenon_api::{codec, messages::*, *};

/// Collects the frames of samples, checking that each decodes to its original.
#[derive(Default)]
struct Frames(BTreeMap<String, String>);

impl Frames {
    fn add<T>(&mut self, name: &str, sample: &T)
    where
        T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let frame = codec::encode(sample).unwrap();
        assert_eq!(&codec::decode::<T>(&frame).unwrap(), sample, "{name} comes back as it went");
        assert!(codec::decode::<T>(&[&frame[..], &[0]].concat()).is_err(), "{name} with a byte too many is refused");
        self.0.insert(name.to_owned(), hex::encode(frame));
    }

    fn request<R>(&mut self, request: R, reply: R::Reply)
    where
        R: Request + PartialEq + std::fmt::Debug,
        R::Reply: PartialEq + std::fmt::Debug,
    {
        let topic = format!("{:04x} {}", R::TOPIC.0, R::NAME);
        self.add(&format!("{topic} request v{}", R::SCHEMA), &request);
        self.add(&format!("{topic} reply v{}", R::SCHEMA), &reply);
    }

    fn event<E: Event + PartialEq + std::fmt::Debug>(&mut self, event: E) {
        self.add(&format!("{:04x} {} event v{}", E::TOPIC.0, E::NAME, E::SCHEMA), &event);
    }
}

/// Number of frames with the refusals that a request can have as its reply.
const REFUSALS: usize = 3;
const ADDRESS: Address = Address::repeat_byte(0xa1);
const HASH: B256 = B256::repeat_byte(0xb2);

fn wei(number: u64) -> U256 {
    U256::from(number)
}

fn header() -> Header {
    Header {
        parent_hash: HASH,
        ommers_hash: EMPTY_OMMERS_HASH,
        beneficiary: ADDRESS,
        difficulty: wei(2),
        number: 7,
        gas_limit: 30_000_000,
        gas_used: 21_000,
        timestamp: 1_700_000_000,
        extra_data: Bytes::from_static(b"extra"),
        native_seal: Some(NativeSeal { validator: Bytes::from_static(&[1, 2, 3]), ..NativeSeal::default() }),
        base_fee_per_gas: Some(1_000_000_000),
        withdrawals_root: Some(EMPTY_ROOT_HASH),
        ..Header::default()
    }
}

fn sealed() -> Arc<SealedHeader> {
    Arc::new(SealedHeader::new_unchecked(header(), HASH))
}

fn transaction(payload: TransactionPayload) -> RecoveredTransaction {
    let transaction = Transaction {
        hash: HASH,
        chain_id: Some(51),
        nonce: 3,
        gas_limit: 21_000,
        to: Some(ADDRESS),
        value: wei(1_000_000),
        input: Bytes::from_static(&[0xca, 0xfe]),
        payload,
        signature: TransactionSignature { v: 137, r: wei(5), s: wei(6) },
    };
    RecoveredTransaction { transaction: Arc::new(transaction), sender: ADDRESS }
}

fn every_payload() -> Vec<TransactionPayload> {
    let access_list = vec![AccessListItem { address: ADDRESS, storage_keys: vec![HASH] }];
    let (max_fee_per_gas, max_priority_fee_per_gas, gas_price) = (wei(30), wei(2), wei(20));
    let authorization =
        SignedAuthorization { chain_id: wei(1), address: ADDRESS, nonce: 1, y_parity: 1, r: wei(7), s: wei(8) };
    vec![
        TransactionPayload::Legacy { gas_price },
        TransactionPayload::AccessList { gas_price, access_list: access_list.clone() },
        TransactionPayload::DynamicFee { max_fee_per_gas, max_priority_fee_per_gas, access_list: access_list.clone() },
        TransactionPayload::Blob {
            max_fee_per_gas,
            max_priority_fee_per_gas,
            access_list: access_list.clone(),
            max_fee_per_blob_gas: wei(9),
            blob_versioned_hashes: vec![HASH],
        },
        TransactionPayload::SetCode {
            max_fee_per_gas,
            max_priority_fee_per_gas,
            access_list,
            authorization_list: vec![authorization],
        },
    ]
}

fn block() -> Arc<RecoveredBlock> {
    let transactions: Vec<_> = every_payload().into_iter().map(|payload| transaction(payload).transaction).collect();
    let withdrawal = Withdrawal { index: 1, validator_index: 2, address: ADDRESS, amount: 3 };
    Arc::new(RecoveredBlock {
        senders: vec![ADDRESS; transactions.len()],
        block: Block {
            header: SealedHeader::new_unchecked(header(), HASH),
            transactions,
            ommers: vec![header()],
            withdrawals: Some(vec![withdrawal]),
            size: 1234,
        },
    })
}

fn log() -> Log {
    Log { address: ADDRESS, topics: vec![HASH], data: Bytes::from_static(&[1]) }
}

fn located_log() -> LocatedLog {
    LocatedLog {
        log: log(),
        block_number: BlockNumber(7),
        block_hash: HASH,
        block_timestamp: 1_700_000_000,
        transaction_hash: HASH,
        transaction_index: 1,
        log_index: 2,
        removed: false,
    }
}

fn receipt(outcome: ReceiptOutcome) -> Receipt {
    Receipt {
        transaction_type: TransactionType::DynamicFee,
        outcome,
        cumulative_gas_used: 42_000,
        gas_used: 21_000,
        logs: vec![log()],
    }
}

fn located_transaction() -> LocatedTransaction {
    let legacy = TransactionPayload::Legacy { gas_price: wei(20) };
    LocatedTransaction { transaction: transaction(legacy), header: sealed(), index: 4 }
}

fn account() -> Account {
    Account { nonce: 1, balance: wei(10), ..Account::default() }
}

fn call_request() -> CallRequest {
    CallRequest { from: Some(ADDRESS), to: Some(ADDRESS), gas: Some(9), value: Some(wei(1)), ..CallRequest::default() }
}

fn overrides() -> Vec<(Address, AccountOverride)> {
    vec![(ADDRESS, AccountOverride { nonce: Some(1), state_diff: Some(vec![(HASH, HASH)]), ..Default::default() })]
}

fn commit() -> Arc<BlockCommit> {
    let position = TriePosition { owner: Some(HASH), path: vec![1, 15] };
    let change = AccountChange {
        address: ADDRESS,
        account: Some(account()),
        storage_wiped: true,
        slots: vec![SlotChange { slot: HASH, value: wei(1) }],
    };
    Arc::new(BlockCommit {
        block: block(),
        total_difficulty: wei(99),
        receipts: Arc::new(vec![receipt(ReceiptOutcome::Status(true)), receipt(ReceiptOutcome::StateRoot(HASH))]),
        accounts: vec![change],
        codes: vec![(HASH, Bytes::from_static(&[0x60]))],
        trie_nodes: vec![TrieNodeWrite { position: position.clone(), hash: HASH, rlp: Bytes::from_static(&[0xc0]) }],
        superseded_trie_nodes: vec![(position, HASH)],
    })
}

fn chain_frames(frames: &mut Frames) {
    let block_id = BlockId::Hash { hash: HASH, require_canonical: true };
    let head = Head { header: sealed(), total_difficulty: wei(9), finalized: Some(BlockNumber(5)), safe: None };
    let (header, total_difficulty, is_canonical) = (sealed(), wei(9), true);
    frames.request(GetHead, Arc::new(head));
    frames.request(GetHeadNumber, BlockNumber(7));
    frames.request(GetHeader { block: BlockId::LATEST }, Some(StoredHeader { header, total_difficulty, is_canonical }));
    frames.request(GetBlock { block: block_id }, Some(StoredBlock { block: block(), total_difficulty, is_canonical }));
    let receipts = Arc::new(vec![receipt(ReceiptOutcome::Status(false))]);
    frames.request(
        GetBlockReceipts { block: BlockId::number(7) },
        Some(BlockReceipts { block: block(), receipts, blob_gas_price: Some(wei(1)) }),
    );
    frames.request(GetTransaction { hash: HASH }, Some(located_transaction()));
    let located_receipt = LocatedReceipt {
        transaction: located_transaction(),
        receipt: receipt(ReceiptOutcome::Status(true)),
        first_log_index: 3,
        blob_gas_price: None,
    };
    frames.request(GetReceipt { hash: HASH }, Some(located_receipt));
    let filter = LogFilter { addresses: vec![ADDRESS], topics: vec![vec![], vec![HASH]] };
    let range = LogRange::Numbers { from: BlockNumber(1), to: BlockNumber(2) };
    frames.request(GetLogs { range, filter }, vec![located_log()]);
    frames.request(GetRaw::TransactionInBlock { block: block_id, index: 1 }, Some(vec![Bytes::from_static(&[1])]));
    let changes = ChainChanges { removed: vec![(BlockNumber(2), HASH)], added: vec![(BlockNumber(2), HASH)] };
    frames.request(GetChainChanges { since: HASH, limit: 10 }, changes);
    let info = ChainInfo { chain_id: 51, network_id: 51, genesis_hash: HASH, profile: Profile::Native };
    frames.request(GetChainInfo, Arc::new(info));
    frames.request(SetHead { number: BlockNumber(3) }, ());
    frames.request(CountTransactions { block: block_id }, Some(600));
    frames.request(GetTransactionInBlock { block: block_id, index: 1 }, Some(located_transaction()));
    let whole = block();
    let outline = BlockOutline {
        header: Arc::new(whole.header.clone()),
        transactions: Arc::new(vec![HASH]),
        ommers: whole.ommers.clone(),
        withdrawals: whole.withdrawals.clone(),
        size: whole.size,
        total_difficulty,
        is_canonical,
    };
    frames.request(GetBlockOutline { block: block_id }, Some(outline));
    let availability =
        Availability { head: (BlockNumber(7), HASH), oldest_state: BlockNumber(2), state_window: Some(128) };
    frames.request(GetAvailability, availability);
    let rules = ForkRules {
        activation: 540,
        fork_id: [1, 2, 3, 4],
        contracts: ContractLevel::Osaka,
        blobs: Some((14, 21, 11_684_671)),
        deposit_contract: Some(ADDRESS),
    };
    let schedule = ForkSchedule { chain_id: 51, current: rules.clone(), next: Some(rules), last: None };
    frames.request(GetForkSchedule, schedule);
}

fn state_frames(frames: &mut Frames) {
    let (address, slot, block) = (ADDRESS, HASH, BlockId::Tag(BlockTag::Finalized));
    frames.request(GetAccount { address, block }, account());
    frames.request(GetCode { address, block }, Bytes::from_static(&[0x60, 0x00]));
    frames.request(GetStorage { address, slot, block }, wei(1));
    let proof = vec![Bytes::from_static(&[0xc0])];
    let storage = vec![StorageProof { slot, value: wei(1), proof: proof.clone() }];
    frames.request(
        GetProof { address, slots: vec![slot], block },
        AccountProof { address, account: account(), proof, storage },
    );
}

fn evm_frames(frames: &mut Frames) {
    let block = BlockId::LATEST;
    let block_overrides = BlockOverrides { time: Some(5), ..BlockOverrides::default() };
    frames.request(
        Call { request: call_request(), block, state_overrides: overrides(), block_overrides: block_overrides.clone() },
        Ok(Bytes::from_static(&[1])),
    );
    frames.request(
        EstimateGas {
            request: call_request(),
            block,
            state_overrides: overrides(),
            block_overrides: block_overrides.clone(),
            has_no_data: true,
        },
        Ok(21_000),
    );
    frames.request(
        CreateAccessList { request: call_request(), block, state_overrides: vec![] },
        Ok(AccessListReply { access_list: vec![], gas_used: 1, failure: Some(CallFailure::RevertedWithoutOutput) }),
    );
    simulation_frames(frames, block, block_overrides.clone());
    let target = TraceTarget::Call {
        request: Box::new(call_request()),
        block,
        transaction_index: Some(1),
        state_overrides: vec![],
        block_overrides: Box::new(block_overrides),
    };
    let options = TraceOptions { tracer: Tracer::default(), timeout: Some(std::time::Duration::from_millis(1500)) };
    frames.request(Trace { target, options }, trace_reply());
}

/// A block with a result of every tracer.
fn trace_reply() -> TraceReply {
    let results = [
        Ok(TraceResult::Script("1".to_owned())),
        Ok(TraceResult::StructLog(struct_log())),
        Ok(TraceResult::Calls(vec![call_frame()])),
        Ok(TraceResult::LegacyCalls(legacy_calls())),
        Ok(TraceResult::FlatCalls(flat_calls())),
        Ok(TraceResult::Prestate(Prestate::Before(vec![traced_account()]))),
        Ok(TraceResult::Prestate(Prestate::Difference { before: vec![], after: vec![traced_account()] })),
        Ok(TraceResult::Selectors(vec![SelectorCount {
            selector: Bytes::from_static(&[1, 2, 3, 4]),
            data_length: wei(5),
            count: 6,
        }])),
        Ok(TraceResult::Contracts(vec![ADDRESS])),
        Ok(TraceResult::Disassembly(vec![disassembled_frame()])),
        Ok(TraceResult::InstructionCount(1)),
        Ok(TraceResult::Sequences(vec![("ADD-MUL".to_owned(), 2)])),
        Ok(TraceResult::Validation(vec![validation_frame()])),
        Ok(TraceResult::StateGas(StateGas { gas_used: 1, by_kind: gas_by_kind() })),
        Ok(TraceResult::Noop),
        Ok(TraceResult::Mux(vec![TraceResult::Noop])),
        Err("why".to_owned()),
    ];
    let traces = results.into_iter().map(|result| TransactionTrace { hash: HASH, result }).collect();
    TraceReply { dialect: TracerDialect::Reference, results: TraceResults::Block(traces) }
}

fn struct_log() -> StructLog {
    let mut recorder = StepRecorder::default();
    recorder.begin(1, 0x60, 300, 1);
    recorder.refund(2);
    recorder.stack(&[U256::from(3)]);
    recorder.memory(&[4; 32]);
    recorder.return_data(&[5]);
    recorder.storage([U256::from(6), U256::from(7)].iter());
    recorder.end(8, Some("OutOfGas"));
    let names = vec![(0x60, "PUSH1".to_owned())];
    StructLog { gas: 1, has_failed: true, output: Bytes::from_static(&[9]), names, steps: recorder.finish() }
}

fn call_frame() -> CallFrame {
    CallFrame {
        depth: 1,
        kind: FrameKind::Create2,
        from: ADDRESS,
        to: Some(ADDRESS),
        value: Some(WholeBalance::from(1) << 256),
        gas: 1,
        gas_used: 2,
        gas_by_kind: Some(gas_by_kind()),
        input: Bytes::from_static(&[6]),
        output: Some(Bytes::from_static(&[7])),
        error: Some("failed".to_owned()),
        revert_reason: Some("because".to_owned()),
        logs: vec![traced_log()],
    }
}

const fn gas_by_kind() -> GasByKind {
    GasByKind { execution: 3, state: 4, refund: 5 }
}

fn traced_log() -> TracedLog {
    TracedLog { address: ADDRESS, topics: vec![HASH], data: Bytes::from_static(&[8]), position: 9, index: 10 }
}

fn legacy_calls() -> LegacyCalls {
    let frame = LegacyCallFrame {
        depth: 1,
        kind: Some(FrameKind::SelfDestruct),
        from: ADDRESS,
        to: Some(ADDRESS),
        value: Some(WholeBalance::from(1)),
        gas: Some(2),
        gas_used: Some(-3),
        input: Some(Bytes::from_static(&[4])),
        output: Some(Bytes::from_static(&[5])),
        error: Some("failed".to_owned()),
    };
    LegacyCalls { frames: vec![frame], time: std::time::Duration::from_millis(1500) }
}

fn flat_calls() -> Vec<FlatCall> {
    let call = |action, output| FlatCall {
        action,
        block_hash: Some(HASH),
        block_number: Some(1),
        error: Some("failed".to_owned()),
        output,
        inner_calls: 2,
        place: vec![3, 4],
        transaction_hash: Some(HASH),
        transaction_index: Some(5),
    };
    let (input, gas, gas_used, value) = (Bytes::from_static(&[6]), 7, 8, wei(9));
    let (output, init, code) = (input.clone(), input.clone(), input.clone());
    let kind = FrameKind::StaticCall;
    let called = FlatAction::Call { kind, from: ADDRESS, to: ADDRESS, gas, input, value };
    let created = FlatAction::Create { kind: FrameKind::Create, from: ADDRESS, gas, init, value };
    let destroyed = FlatAction::Destroy { address: ADDRESS, receiver: ADDRESS, balance: value };
    vec![
        call(called, Some(FlatOutput::Call { gas_used, output })),
        call(created, Some(FlatOutput::Create { address: ADDRESS, code, gas_used })),
        call(destroyed, None),
    ]
}

fn traced_account() -> TracedAccount {
    TracedAccount {
        address: ADDRESS,
        balance: Some(SignedBalance { magnitude: WholeBalance::from(1) << 256, is_negative: true }),
        nonce: Some(-1),
        code: Some(Bytes::from_static(&[2])),
        slots: vec![(HASH, HASH)],
    }
}

fn disassembled_frame() -> DisassembledFrame {
    let call = DisassembledCall {
        gas: wei(1),
        to: wei(2),
        value: Some(wei(3)),
        input: Bytes::from_static(&[4]),
        frame: Some(5),
    };
    let operation = DisassembledOperation {
        opcode: 0xf1,
        depth: 1,
        results: vec![wei(6)],
        call: Some(Box::new(call)),
        pc: Some(7),
    };
    let returned = Some(Bytes::from_static(&[8]));
    DisassembledFrame { operations: vec![operation], returned, error: Some("failed".to_owned()) }
}

fn validation_frame() -> ValidationFrame {
    ValidationFrame {
        depth: 1,
        kind: FrameKind::DelegateCall,
        from: ADDRESS,
        to: Some(ADDRESS),
        value: Some(wei(1)),
        gas: 2,
        gas_used: 3,
        input: Bytes::from_static(&[4]),
        output: Some(Bytes::from_static(&[5])),
        error: Some("failed".to_owned()),
        revert_reason: Some("because".to_owned()),
        logs: vec![traced_log()],
        accessed_slots: AccessedSlots {
            reads: vec![(HASH, vec![HASH])],
            writes: vec![(HASH, 6)],
            transient_reads: vec![(HASH, 7)],
            transient_writes: vec![(HASH, 8)],
        },
        inspected_code: vec!["0x01".to_owned()],
        opcodes: vec![(0x60, 9)],
        contract_sizes: vec![(ADDRESS, ContractSize { length: 10, opcode: 0x3b })],
        is_out_of_gas: true,
        hashed: vec![Bytes::from_static(&[11])],
    }
}

/// Every failure of a call.
fn call_failures() -> Vec<CallFailure> {
    let reason = || "nonce too low".to_owned();
    vec![
        CallFailure::TimeLimitReached { timeout: std::time::Duration::from_secs(5) },
        CallFailure::InvalidMessage { reason: reason(), gas_limit: 9 },
        CallFailure::InvalidListMessage { hash: HASH, reason: reason() },
        CallFailure::Reverted { output: Bytes::from_static(&[1, 2]) },
        CallFailure::RevertedWithoutOutput,
        CallFailure::OutOfGas,
        CallFailure::Halted("invalid opcode".into()),
        CallFailure::AllowanceExceeded { allowance: 7 },
        CallFailure::ValueNotCovered { sender: ADDRESS },
        CallFailure::BlobsNotCovered { sender: ADDRESS },
    ]
}

/// Every failure of a simulation.
fn simulation_failures() -> Vec<SimulationFailure> {
    let (max, given, previous) = (5, 6, 7);
    let mut failures = vec![
        SimulationFailure::NoBlocks,
        SimulationFailure::TooManyBlocks,
        SimulationFailure::TooManyCallsInBlock { calls: 6, max },
        SimulationFailure::TooManyCalls { calls: 6, max },
        SimulationFailure::TooManyChanges { changes: 6, max },
        SimulationFailure::AnswerTooLong { max },
        SimulationFailure::NumberNotAscending { given, previous },
        SimulationFailure::TimestampNotAscending { given, previous },
        SimulationFailure::TimestampTooLarge,
        SimulationFailure::BaseFeeTooLarge { wei: wei(1) },
        SimulationFailure::BlockGasUsedUp { left: 1, asked: 2 },
        SimulationFailure::Call(CallFailure::OutOfGas),
    ];
    let rules = [
        TransactionRule::NonceTooLow,
        TransactionRule::NonceTooHigh,
        TransactionRule::BaseFeeTooLow,
        TransactionRule::IntrinsicGas,
        TransactionRule::InsufficientFunds,
        TransactionRule::BlockGasLimit,
        TransactionRule::InitCodeSize,
        TransactionRule::Other,
        TransactionRule::Unsupported,
    ];
    let invalid = |kind| SimulationFailure::InvalidTransaction { kind, reason: "why".to_owned(), gas_limit: 9 };
    failures.extend(rules.map(invalid));
    failures
}

fn simulation_frames(frames: &mut Frames, base: BlockId, overrides: BlockOverrides) {
    let wanted = BlockToSimulate {
        overrides,
        beacon_root: Some(HASH),
        withdrawals: Some(vec![Withdrawal { index: 1, validator_index: 2, address: ADDRESS, amount: 3 }]),
        state_overrides: vec![(ADDRESS, AccountOverride { nonce: Some(4), ..AccountOverride::default() })],
        calls: vec![call_request()],
    };
    let log = Log { address: ADDRESS, topics: vec![HASH], data: Bytes::from_static(&[9]) };
    let simulated = SimulatedBlock {
        stored: StoredBlock { block: block(), total_difficulty: wei(5), is_canonical: false },
        calls: vec![SimulatedCall {
            returned: Bytes::from_static(&[7]),
            logs: vec![SimulatedLog { index: 6, log }],
            gas_used: 21_000,
            max_gas_used: 22_000,
            failure: Some(SimulatedFailure::Halted { cause: "out of gas".to_owned(), is_gas_capped: true }),
        }],
    };
    let request = Simulate { base, blocks: vec![wanted], traces_transfers: true, validates: false };
    frames.request(request, Ok(vec![simulated]));
    frames.add("0300 Call failures v2", &call_failures());
    frames.add("0304 Simulate failures v3", &simulation_failures());
}

fn fee_frames(frames: &mut Frames) {
    frames.request(SuggestTip, wei(1));
    frames.request(SuggestGasPrice, wei(2));
    let history = FeeHistory {
        oldest: BlockNumber(1),
        base_fee_per_gas: vec![wei(1), wei(2)],
        gas_used_ratio: vec![0.5],
        base_fee_per_blob_gas: vec![wei(1), wei(1)],
        blob_gas_used_ratio: vec![0.0],
        reward: Some(vec![vec![wei(3)]]),
    };
    frames.request(GetFeeHistory { block_count: 1, newest: BlockId::LATEST, percentiles: vec![12.5] }, history);
    frames.request(GetNextBlockFees, NextBlockFees { base_fee_per_gas: Some(wei(1)), blob_base_fee: None });
}

/// Every refusal of the pool.
fn pool_refusals() -> Vec<PoolRefusal> {
    let (gas_limit, needed, size, limit) = (7, 8, 9, 5);
    let problem = DecodeProblem::WrongLength { wanted: 20, found: 3 };
    let mut refusals = vec![
        PoolRefusal::Undecodable { what: "nonce".into(), offset: 7, problem },
        PoolRefusal::AlreadyKnown,
        PoolRefusal::TypeNotActive(TransactionType::Blob),
        PoolRefusal::Unprotected,
        PoolRefusal::FeeCap { fee: wei(2), cap: wei(1) },
        PoolRefusal::Oversized { size, limit },
        PoolRefusal::InitCodeTooLong { size: 9, limit: 5 },
        PoolRefusal::GasLimitTooHigh { gas_limit, cap: 6 },
        PoolRefusal::ExceedsBlockGasLimit,
        PoolRefusal::TipAboveFeeCap { tip: wei(2), fee: wei(1) },
        PoolRefusal::InvalidSender(SenderProblem::InvalidSignature),
        PoolRefusal::InvalidSender(SenderProblem::InvalidPublicKey),
        PoolRefusal::InvalidSender(SenderProblem::WrongChain { found: 1, wanted: 2 }),
        PoolRefusal::InvalidSender(SenderProblem::UnsupportedType),
        PoolRefusal::NonceAtEnd,
        PoolRefusal::IntrinsicGas { gas_limit, needed },
        PoolRefusal::FloorDataGas { gas_limit, needed },
        PoolRefusal::Underpriced { tip: wei(1), needed: wei(2) },
        PoolRefusal::NoAuthorizations,
        PoolRefusal::NonceTooLow { next: 2, found: 1 },
        PoolRefusal::InsufficientFunds { balance: wei(1), queued: wei(2), cost: wei(3) },
        PoolRefusal::ReplacementUnderpriced,
        PoolRefusal::DelegatedInFlight,
        PoolRefusal::DelegatedGap,
        PoolRefusal::AccountLimit { sender: ADDRESS, limit },
        PoolRefusal::Full,
        PoolRefusal::DuplicatePrivileged,
    ];
    let blobs = [
        BlobProblem::None,
        BlobProblem::TooMany { found: 7, limit: 6 },
        BlobProblem::Creation,
        BlobProblem::NoSidecar,
        BlobProblem::Version { found: 1, wanted: 0 },
        BlobProblem::Mismatch,
        BlobProblem::Proof,
        BlobProblem::Underpriced { found: wei(0), wanted: 1 },
    ];
    refusals.extend(blobs.map(PoolRefusal::Blobs));
    let native = [
        NativePoolRefusal::Type,
        NativePoolRefusal::TypeBeforePrague,
        NativePoolRefusal::NoAuthorizations,
        NativePoolRefusal::FloorGas { have: 1, want: 2 },
        NativePoolRefusal::Oversized,
        NativePoolRefusal::DeniedSender(ADDRESS),
        NativePoolRefusal::DeniedReceiver(ADDRESS),
        NativePoolRefusal::BlockGasLimit,
        NativePoolRefusal::TipAboveFeeCap,
        NativePoolRefusal::Sender,
        NativePoolRefusal::Underpriced,
        NativePoolRefusal::NonceTooLow,
        NativePoolRefusal::NonceTooHigh,
        NativePoolRefusal::Funds,
        NativePoolRefusal::IntrinsicGas,
        NativePoolRefusal::ZeroGasPrice,
        NativePoolRefusal::MinGasPrice,
        NativePoolRefusal::SpecialByInterface,
    ];
    refusals.extend(native.map(PoolRefusal::Native));
    refusals
}

fn pool_and_account_frames(frames: &mut Frames) {
    let waiting = transaction(TransactionPayload::Legacy { gas_price: wei(1) });
    frames.request(SubmitTransaction { raw: Bytes::from_static(&[1]) }, Ok(HASH));
    frames.add("0400 SubmitTransaction refusals v2", &pool_refusals());
    frames.request(GetPoolStatus, PoolStatus { pending: 1, queued: 2 });
    frames.request(
        GetPoolContent { sender: Some(ADDRESS) },
        PoolContent { pending: vec![waiting.clone()], queued: vec![] },
    );
    let in_short = PooledSummary::from(&waiting);
    frames.request(GetPoolTransaction { hash: HASH }, Some(waiting));
    frames.request(GetPoolNonce { address: ADDRESS }, 4);
    frames.request(GetPendingSince { cursor: Some(1) }, PendingSince { cursor: 2, hashes: vec![HASH] });
    frames.request(GetRawPoolTransaction { hash: HASH }, Some(Bytes::from_static(&[1])));
    frames.request(AwaitSealing { hash: HASH }, ());
    frames.request(SetMinTip { tip: wei(3) }, ());
    frames.request(GetPoolSummary { sender: None }, PoolSummary { pending: vec![in_short], queued: vec![] });
    frames.request(GetSealing, SealingState { is_sealing: true, etherbase: Some(ADDRESS) });
    frames.request(SetSealing { change: SealingChange::ExtraData(Bytes::from_static(b"extra")) }, ());
    frames.request(StartSealing, SealingStart::NoSigner);
    frames.request(ListAccounts, vec![ADDRESS]);
    let password = || Some(SecretText::from("pass"));
    let message = Bytes::from_static(b"hi");
    frames.request(SignMessage { address: ADDRESS, message, password: None }, Bytes::from_static(&[1]));
    let signed = SignedTransactionReply { raw: Bytes::from_static(&[1]), hash: HASH };
    frames.request(SignTransaction { request: call_request(), password: password() }, signed);
    frames.request(SendTransaction { request: call_request(), password: password() }, Ok(HASH));
    let account = || WalletAccount { address: ADDRESS, url: "keystore:///k/1".to_owned() };
    let wallet = Wallet {
        url: "keystore:///k/1".to_owned(),
        status: WalletStatus::Unlocked,
        failure: None,
        accounts: vec![account()],
    };
    let device = Wallet {
        url: "trezor://1".to_owned(),
        status: WalletStatus::Told("Failed: PIN invalid".to_owned()),
        failure: Some("PIN invalid".to_owned()),
        accounts: vec![],
    };
    frames.request(ListWallets, vec![wallet, device]);
    frames.request(CreateAccount { password: SecretText::default() }, ADDRESS);
    frames.request(ImportKey { key: SecretText::from("07"), password: SecretText::from("pass") }, ADDRESS);
    frames.request(UnlockAccount { address: ADDRESS, password: SecretText::from("pass"), seconds: 300 }, ());
    frames.request(LockAccount { address: ADDRESS }, ());
    let operation = WalletOperation::Derive { path: "m/44'".to_owned(), is_pinned: true };
    let use_wallet = UseWallet { url: "trezor://1".to_owned(), operation };
    frames.request(use_wallet, WalletAnswer::Account(account()));
    let signature = Bytes::from_static(&[27]);
    let data = Some("{}".to_owned());
    let typed = SignTypedData { address: ADDRESS, domain: HASH, message: Some(HASH), data, password: password() };
    frames.request(typed, Bytes::from_static(&[1]));
    frames.request(DescribeSigner { address: ADDRESS }, SignerAbilities::ALL);
    frames.request(RecoverSigner { message: Bytes::from_static(b"hi"), signature }, ADDRESS);
    frames.event(WalletChanged { change: WalletChange::Opened, url: "keystore:///k/1".to_owned() });
    frames.event(WalletPrompted { url: "trezor://1".to_owned(), prompt: WalletPrompt::Button });
}

fn node_frames(frames: &mut Frames) {
    frames.request(GetClientVersion, "Tenon".to_owned());
    frames.request(GetNetworkStatus, NetworkStatus { is_listening: true, peers: 3 });
    let status = SyncStatus { starting: BlockNumber(1), current: BlockNumber(2), highest: BlockNumber(3) };
    frames.request(GetSyncStatus, Some(status));
    frames.request(GetSpelling, Spelling::Reference);
    let method = MethodInfo { name: "eth_chainId".to_owned(), description: "{}".to_owned() };
    let namespace = NamespaceInfo {
        namespace: "eth".to_owned(),
        version: "1.0".to_owned(),
        methods: vec![method],
        subscriptions: vec!["logs".to_owned()],
        aliases: vec!["ethereum".to_owned()],
    };
    frames.request(ListNamespaces, vec![namespace]);
    let version = NamespaceVersion {
        namespace: "eth".to_owned(),
        version: "1.0".to_owned(),
        aliases: vec!["ethereum".to_owned()],
    };
    frames.request(ListNamespaceVersions, vec![version]);
    frames.request(GetDataFolder, "/var/lib/tenon".to_owned());
    let start = StartFrontEnd {
        front_end: FrontEnd::WebSocket,
        host: Some("localhost".to_owned()),
        port: Some(8546),
        origins: Some(vec!["https://app.example.org".to_owned()]),
        namespaces: Some(vec!["eth".to_owned()]),
        virtual_hosts: None,
    };
    frames.request(start, ());
    let set = SetExposure {
        front_end: FrontEnd::Http,
        namespaces: Some(vec!["eth".to_owned()]),
        denied_methods: Some(vec!["eth_sign*".to_owned()]),
        token_namespaces: None,
        seconds: Some(600),
        is_reset: false,
    };
    let shown = ExposureReport {
        is_open: true,
        open: vec!["eth".to_owned()],
        with_token: vec!["debug".to_owned(), "eth".to_owned()],
        denied_methods: vec!["eth_sign*".to_owned()],
        until: Some(7),
    };
    frames.request(set, shown);
    frames.event(SyncChanged { status: Some(status) });
}

fn module_info() -> ModuleInfo {
    let library = LibraryDetails {
        namespace: "eth".to_owned(),
        version: "1.0".to_owned(),
        plugin: "tenon-plugin-eth".to_owned(),
        built_with: "rustc".to_owned(),
        content_hash: "ab".to_owned(),
        isolation: "process".to_owned(),
        trust: "vouched".to_owned(),
        wanted: vec![Capability::ReadChain, Capability::Sign],
        methods: vec!["eth_call".to_owned()],
        subscriptions: vec!["logs".to_owned()],
    };
    let details = ModuleDetails::Plugin(PluginDetails {
        path: "/plugins/eth.so".to_owned(),
        library: Some(library),
        process: Some(7),
        is_required: true,
        granted: vec![Capability::ReadChain],
        running_calls: 1,
        open_subscriptions: 2,
        limits: ModuleLimits {
            memory: Some(1),
            call_millis: Some(2),
            calls: Some(3),
            restarts: Some(4),
            log_lines: Some(5),
        },
        warnings: vec!["memory is not bounded".to_owned()],
        storage: Some(SpaceUsage { records: 11, bytes: 12, max_records: 13, max_bytes: 14 }),
    });
    ModuleInfo {
        name: "eth".to_owned(),
        state: ModuleState::Failed,
        reason: Some("fell over".to_owned()),
        needs: vec!["net >= 1".to_owned()],
        needed_by: vec!["token".to_owned()],
        faults: ModuleFaults {
            restarts: 6,
            last_end: Some("aborted".to_owned()),
            failed_calls: 7,
            panics: 10,
            refused_calls: 8,
            omitted_lines: 9,
        },
        until: Some(15),
        details,
    }
}

fn module_actor() -> ModuleInfo {
    let details = ActorDetails {
        summary: "serves".to_owned(),
        fixed: Some("it is needed".to_owned()),
        health: Some(ActorHealth::Restarting),
        mailbox: Some(MailboxUse { waiting: 16, capacity: 17 }),
        address: Some("127.0.0.1:8545".to_owned()),
        connections: Some(18),
    };
    ModuleInfo { details: ModuleDetails::Actor(details), ..module_info() }
}

fn module_report() -> ModuleReport {
    let build = |version: &str| ModuleBuild { version: version.to_owned(), content_hash: "ab".to_owned() };
    ModuleReport {
        module: "eth".to_owned(),
        operation: ModuleOperation::Replace,
        state: ModuleState::Enabled,
        reason: None,
        old: Some(build("1.0")),
        new: Some(build("1.1")),
        running_calls: 1,
        cancelled_calls: 2,
        abandoned_calls: 3,
        kept_subscriptions: 4,
        closed_subscriptions: 5,
        drain_micros: 6,
        total_micros: 7,
        is_draining: true,
        dependants: vec!["token".to_owned()],
    }
}

fn network_frames(frames: &mut Frames) {
    let node = NetworkNode {
        id: "ab".repeat(64),
        enode: "enode://ab@127.0.0.1:30303".to_owned(),
        ip: "127.0.0.1".to_owned(),
        listen_address: "0.0.0.0:30303".to_owned(),
        discovery_port: 30303,
        listener_port: 30303,
    };
    frames.request(GetNetworkNode, Some(node));
    let chain = PeerChain { version: 100, total_difficulty: wei(7), head: HASH, number: Some(BlockNumber(6)) };
    let peer = PeerInfo {
        id: "cd".repeat(64),
        name: "Tenon".to_owned(),
        capabilities: vec!["eth/100".to_owned()],
        local_address: "127.0.0.1:30303".to_owned(),
        remote_address: "127.0.0.1:50001".to_owned(),
        is_inbound: true,
        is_trusted: false,
        is_static: true,
        connections: 2,
        chain: Some(chain),
    };
    frames.request(ListPeers, vec![peer]);
    frames.request(ChangePeer { url: "enode://ab".to_owned(), change: PeerChange::Trust }, true);
    let error = Some("read timeout".to_owned());
    frames.event(PeerChanged { peer: "cd".repeat(64), is_connected: false, error });
}

fn module_frames(frames: &mut Frames) {
    frames.request(ListModules, vec![module_info(), module_actor()]);
    frames.request(GetModule { name: "eth".to_owned() }, module_info());
    let terms = ModuleTerms { grant: Some(vec![Capability::ReadChain]), is_vouched_for: true };
    let change = ModuleChange::Load { path: Some("/eth.so".to_owned()), settings: None, is_enabled: true, terms };
    frames.request(ChangeModule { name: "eth".to_owned(), change, waits_for_drain: true }, module_report());
    let report = SettingsReport {
        modules: vec![module_report()],
        failures: vec![ModuleFailure { module: "mine".to_owned(), reason: "no".to_owned() }],
        needs_restart: vec![ChangedSetting {
            key: "http.port".to_owned(),
            running: Some("8545".to_owned()),
            wanted: None,
        }],
        changed: vec![ChangedSetting {
            key: "http.api".to_owned(),
            running: None,
            wanted: Some("[\"eth\"]".to_owned()),
        }],
    };
    frames.request(ReloadSettings { asked_by: Some("admin".to_owned()) }, report);
    frames.event(ModuleChanged { report: module_report() });
}

fn space_frames(frames: &mut Frames) {
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    let usage = SpaceUsage { records: 1, bytes: 2, max_records: 3, max_bytes: 4 };
    frames.request(GetRecords { keys: vec![bytes("a"), bytes("b")] }, vec![Some(bytes("value")), None]);
    let scan = ScanRecords { from: bytes("a"), to: Some(bytes("b")), is_descending: true, limit: 5 };
    frames.request(scan, RecordPage { records: vec![(bytes("a"), bytes("value"))], has_more: true });
    let changes = vec![
        RecordChange::Put { key: bytes("a"), value: bytes("value") },
        RecordChange::Delete { key: bytes("b") },
        RecordChange::DeleteRange { from: bytes("c"), to: bytes("d") },
    ];
    let commit = CommitRecords { expects: vec![(bytes("a"), None), (bytes("b"), Some(bytes("old")))], changes };
    frames.request(commit, CommitOutcome { is_applied: true, usage });
    frames.request(GetSpaceUsage, usage);
    frames.request(PurgeSpace { module: "token".to_owned() }, usage);
}

fn consensus_frames(frames: &mut Frames) {
    frames.request(GetEpochReward { block: HASH }, Some(epoch_reward()));
    let signers = BlockSigners { signers: Some(vec![ADDRESS]), finality: 75 };
    frames.request(GetBlockSigners { block: BlockId::hash(HASH) }, signers);
    let candidate = CandidateStanding { address: ADDRESS, stake: Some(wei(7)), is_masternode: true, is_slashed: false };
    let list = CandidateList { epoch: 3, is_known: true, candidates: vec![candidate] };
    frames.request(GetCandidates { epoch: Some(3) }, list);
    frames.request(GetStakingReturn { masternode: Some(ADDRESS) }, StakingReturn { percent: 12.5 });
    epoch_frames(frames);
    let proof = TransactionProof {
        block_hash: HASH,
        transactions_root: HASH,
        receipts_root: HASH,
        key: Bytes::from_static(&[0x80]),
        transaction_nodes: vec![Bytes::from_static(&[1])],
        receipt_nodes: vec![Bytes::from_static(&[2])],
    };
    frames.request(GetTransactionProof { hash: HASH }, Some(proof));
    frames.request(ImportChain { path: "/data/chain.rlp".to_owned() }, ());
    let export =
        ExportChain { path: "/data/chain.rlp".to_owned(), first: Some(BlockNumber(2)), last: Some(BlockNumber(9)) };
    frames.request(export, ());
    frames.request(GetChainConfig, r#"{"chainId":51}"#.to_owned());
    frames.request(MakeCheckpoint, "/data/checkpoint".to_owned());
}

/// The rewards of an epoch with all roles.
fn epoch_reward() -> EpochReward {
    let role = |signed| RoleRewards {
        signers: BTreeMap::from([(ADDRESS, SignerReward { signed, reward: wei(3) })]),
        shares: BTreeMap::from([(ADDRESS, BTreeMap::from([(Address::ZERO, wei(1)), (ADDRESS, wei(2))]))]),
    };
    EpochReward { masternodes: role(1), others: Some(OtherRewards { protectors: role(2), observers: role(3) }) }
}

fn epoch_frames(frames: &mut Frames) {
    let voting = HeaderVoting {
        recent: vec![(449, ADDRESS)],
        votes: vec![HeaderVote { voter: ADDRESS, block: 449, about: ADDRESS, is_to_add: true }],
        tally: vec![HeaderTally { about: ADDRESS, is_to_add: true, votes: 1 }],
        opens_epoch: false,
    };
    let authorised = Authorised { number: 450, hash: HASH, signers: vec![ADDRESS], voting: Some(voting) };
    frames.request(GetAuthorised { block: BlockId::number(450) }, Some(authorised));
    let one = || vec![ADDRESS];
    let members = EpochMembers { number: 7, round: 9, masternodes: one(), penalties: one(), standby: one() };
    frames.request(GetEpochMembers { block: BlockId::LATEST }, Some(members));
    let rlp = Bytes::from_static(&[0xc0]);
    let round =
        BlockRound { header: sealed(), rlp, round: Err("odd".into()), canonical: Some(HASH), committed: Some(4) };
    frames.request(GetRound { header: RoundOf::Block(BlockId::hash(HASH)) }, Some(round));
    let missed = MissedRound { round: 8, leader: ADDRESS, next: (7, HASH), previous: (6, HASH) };
    let missed = MissedRounds { epoch_round: 1, epoch_number: 2, missed: vec![missed] };
    frames.request(GetMissedRounds { block: BlockId::number(7) }, Some(missed));
    frames.request(GetEpochSwitches { first: HASH, last: HASH }, vec![1, 60]);
    let blocks = EpochBlocks { hash: HASH, round: 60, first: 60, last: Some(119) };
    frames.request(GetEpochBlocks { epoch: 1 }, blocks);
    let members = WaitingMembers { signers: one(), missing: one() };
    let votes = WaitingVotes { round: 9, gap_number: 450, number: 7, hash: HASH, members: members.clone() };
    let timeouts = WaitingTimeouts { round: 9, gap_number: 450, members };
    frames.request(GetVotingPool, VotingPool { votes: vec![votes], timeouts: vec![timeouts] });
    frames.request(GetConsensusParameters, Arc::new(consensus_parameters()));
    let rules = NativeRules {
        activation: 98_802_000,
        fork_id: [0x8a, 0xd3, 0x36, 0x42],
        forks: vec!["Berlin".to_owned(), "XDPoSV2".to_owned()],
        precompiles: vec![("ECREC".to_owned(), Address::with_last_byte(1))],
        system_contracts: vec![("BLOCK_SIGNERS".to_owned(), Address::with_last_byte(0x89))],
    };
    let schedule = NativeSchedule { chain_id: 50, current: rules.clone(), next: Some(rules), last: None };
    frames.request(GetNativeSchedule, schedule);
}

fn consensus_parameters() -> ConsensusParameters {
    let round = RoundParameters {
        max_masternodes: 108,
        switch_round: 0,
        mine_period: 2,
        timeout_sync_threshold: 3,
        timeout_period: 30,
        certificate_threshold: 0.667,
        timeout_base: 1.0,
        timeout_max_exponent: 0,
    };
    ConsensusParameters {
        chain_id: 50,
        validator_contract: ADDRESS,
        relayer_registration: ADDRESS,
        exchange_listing: ADDRESS,
        token_issuer: ADDRESS,
        lending_registration: ADDRESS,
        period: 2,
        epoch: 900,
        reward: 5000,
        reward_checkpoint: 900,
        gap: 450,
        foundation_wallet: ADDRESS,
        skips_v1_validation: false,
        switch_epoch: 1,
        switch_block: 900,
        rounds: vec![(0, round)],
        current: 0,
    }
}

fn debug_frames(frames: &mut Frames) {
    let dumped = DumpedAccount {
        address: ADDRESS,
        account: Account { nonce: 1, balance: wei(2), balance_high: 0, code_hash: HASH, storage_root: HASH },
        code: Bytes::from_static(&[1]),
        slots: vec![(HASH, wei(3))],
    };
    let dump = AccountDump { root: HASH, accounts: vec![dumped], next: Some(ADDRESS) };
    frames.request(DumpAccounts { block: BlockId::LATEST, from: ADDRESS, limit: 4 }, dump);
    frames.request(GetModifiedAccounts { from: BlockNumber(1), to: BlockNumber(2) }, vec![ADDRESS]);
    frames.request(GetPreimage { hash: HASH }, Some(Bytes::from_static(&[1])));
    let range = GetStorageRange {
        block: HASH,
        transaction_index: -1,
        contract: ADDRESS,
        start: Bytes::from_static(&[0x80]),
        limit: 3,
    };
    let slots = vec![StorageRangeSlot { hash: HASH, slot: B256::ZERO, value: wei(4) }];
    frames.request(range, StorageRange { slots, next: Some(HASH) });
    frames.request(GetDatabaseProperty { name: "stats".to_owned() }, Some("none".to_owned()));
    frames.request(CompactDatabase, ());
    frames.request(GetBadBlocks, vec![sealed()]);
    let memory = MemoryStatistics { resident: 1, anonymous: 2, mapped: 3, peak: 4 };
    frames.request(GetMemoryStatistics, memory);
    let thread = ThreadInfo {
        id: 7,
        name: "trace".to_owned(),
        state: "S (sleeping)".to_owned(),
        waits_in: Some("futex_wait".to_owned()),
        cpu_milliseconds: 8,
    };
    frames.request(ListThreads, vec![thread]);
    frames.request(SetLogLevel { level: 3 }, ());
    frames.request(SetLogModules { modules: vec![("tenon_storage".to_owned(), 5)] }, ());
    reexecution_frames(frames);
}

fn reexecution_frames(frames: &mut Frames) {
    frames.request(GetIntermediateRoots { block: HASH }, vec![HASH]);
    let witness = ExecutionWitness {
        headers: vec![sealed()],
        codes: vec![Bytes::from_static(&[1])],
        nodes: vec![Bytes::from_static(&[2])],
    };
    frames.request(GetExecutionWitness { block: BlockId::LATEST }, witness);
    let account = DumpedAccount {
        address: ADDRESS,
        account: Account { nonce: 1, balance: wei(2), balance_high: 0, code_hash: HASH, storage_root: HASH },
        code: Bytes::new(),
        slots: vec![(HASH, wei(3))],
    };
    let range = GetAccountRange {
        block: BlockId::LATEST,
        start: Bytes::from_static(&[0x80]),
        limit: 4,
        with_code: false,
        with_storage: true,
    };
    frames.request(range, AccountRange { root: HASH, accounts: vec![account], next: Some(HASH) });
    let file = || "cpu.pprof".to_owned();
    let steps = [
        ProfileStep::StartCpu { file: file() },
        ProfileStep::StopCpu,
        ProfileStep::Cpu { file: file(), seconds: 3 },
        ProfileStep::WriteHeap { file: file() },
        ProfileStep::SetBlockingRate { nanoseconds: -1 },
        ProfileStep::WriteBlocking { file: file() },
        ProfileStep::Blocking { file: file(), seconds: 3 },
        ProfileStep::SetLockFraction { fraction: 5 },
        ProfileStep::WriteLocks { file: file() },
        ProfileStep::Locks { file: file(), seconds: 3 },
        ProfileStep::StartSpans { file: file() },
        ProfileStep::StopSpans,
        ProfileStep::Spans { file: file(), seconds: 3 },
    ];
    for step in steps {
        frames.request(RecordProfile { step }, ());
    }
    frames.request(ReadRequestFile { name: "block.rlp".to_owned(), limit: 5 }, Bytes::from_static(&[0xc0]));
}

fn event_frames(frames: &mut Frames) {
    frames.event(BlockCommitted { commit: commit() });
    frames.event(NewHead { header: sealed(), total_difficulty: wei(1), size: 2 });
    frames.event(LogsChanged { logs: Arc::new(vec![located_log()]) });
    let payload = every_payload().remove(2);
    frames.event(TransactionPending { transaction: transaction(payload) });
    frames.event(BlocksUnwound { blocks: Arc::new(vec![block()]) });
}

#[test]
fn every_message_is_encoded_as_it_always_was() {
    let mut frames = Frames::default();
    let rooms = [chain_frames, state_frames, evm_frames, fee_frames, pool_and_account_frames, node_frames];
    for add in rooms.into_iter().chain([
        module_frames as fn(&mut Frames),
        network_frames,
        space_frames,
        consensus_frames,
        debug_frames,
        event_frames,
    ]) {
        add(&mut frames);
    }
    let requests = schema_entries().iter().filter(|entry| !entry.topic.is_event()).count();
    let events = schema_entries().len() - requests;
    assert_eq!(frames.0.len(), 2 * requests + events + REFUSALS, "every message of the schema has a golden frame");

    let mut text = format!("schema {}\n", schema_hash());
    for (name, frame) in &frames.0 {
        writeln!(text, "{name} {frame}").unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden_frames.txt");
    if std::env::var_os("TENON_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).expect("golden_frames.txt is part of the project");
    for (expected, computed) in golden.lines().zip(text.lines()) {
        assert_eq!(computed, expected);
    }
    assert_eq!(text.len(), golden.len());
}
