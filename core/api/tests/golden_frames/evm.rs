//! Messages that execute code: calls, traces and simulations.

use tenon_api::{messages::*, *};

use crate::{
    Frames,
    samples::{ADDRESS, HASH, block, call_request, overrides, wei},
};

pub(crate) fn evm_frames(frames: &mut Frames) {
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
        Ok(AccessListReply { access_list: vec![], gas_used: 1, failure: Some(CallFailure::RevertedWithoutData) }),
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
    frames.request(Trace { target, options }, Ok(trace_reply()));
    frames.add("0303 Trace failures v5", &trace_failures());
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
        Err(TraceFailure::TimedOut),
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
    let mut failures = vec![
        CallFailure::TimeLimitReached { timeout: std::time::Duration::from_secs(5) },
        CallFailure::InvalidMessage { reason: reason(), gas_limit: 9 },
        CallFailure::InvalidListMessage { hash: HASH, reason: reason() },
        CallFailure::Reverted { output: Bytes::from_static(&[1, 2]) },
        CallFailure::RevertedWithoutData,
        CallFailure::OutOfGas,
        CallFailure::Halted("invalid opcode".into()),
        CallFailure::AllowanceExceeded { allowance: 7 },
        CallFailure::ValueNotCovered { sender: ADDRESS },
        CallFailure::BlobsNotCovered { sender: ADDRESS },
    ];
    let (address, target) = (ADDRESS, ADDRESS);
    let contradictions = [
        CallContradiction::BothPrices,
        CallContradiction::PriceTooHigh,
        CallContradiction::WrongChain { given: 1, chain_id: 50 },
        CallContradiction::NoBlobs,
        CallContradiction::NoReceiver,
        CallContradiction::NotPrecompile { address },
        CallContradiction::AlreadyOverridden { target },
        CallContradiction::BothStates { address },
        CallContradiction::BothStatesOnNative { address },
    ];
    failures.extend(contradictions.map(CallFailure::from));
    failures
}

/// Every failure of a trace.
fn trace_failures() -> Vec<TraceFailure> {
    let (text, dialect) = (|| "why".to_owned(), TracerDialect::Reference);
    let mut failures = vec![
        TraceFailure::Genesis,
        TraceFailure::UnknownAncestor,
        TraceFailure::InvalidSender(SenderProblem::InvalidSignature),
        TraceFailure::NoSuchTracer,
        TraceFailure::UnusableTracer { reason: text() },
        TraceFailure::UnknownInstruction { name: text() },
        TraceFailure::InvalidTracerConfig,
        TraceFailure::NotTraced { reason: text() },
        TraceFailure::NoResult(NoTraceResult::NoFrame),
        TraceFailure::NoResult(NoTraceResult::NoInstruction { sender: ADDRESS }),
        TraceFailure::NoResult(NoTraceResult::Library { error: text() }),
        TraceFailure::Script { error: text() },
        TraceFailure::EarlierTransaction { hash: HASH, reason: text(), dialect },
        TraceFailure::InvalidTransaction { reason: text() },
        TraceFailure::NotExecuted { reason: text() },
        TraceFailure::TimedOut,
        TraceFailure::Call(CallFailure::OutOfGas),
        TraceFailure::StateUnavailable { state_root: HASH },
        TraceFailure::MissingTrieNode { hash: HASH, path: vec![1, 0xf] },
        TraceFailure::UnresolvedBlock(UnresolvedBlock::NoSafeBlock),
        TraceFailure::Node { error: text() },
    ];
    let missing = [
        MissingItem::Transaction(HASH),
        MissingItem::BlockByHash(HASH),
        MissingItem::Block(BlockId::LATEST),
        MissingItem::Parent(HASH),
        MissingItem::Index { index: -1, block: HASH },
        MissingItem::Account(ADDRESS),
    ];
    failures.extend(missing.map(|item| TraceFailure::Missing { item, dialect }));
    let outermost = [
        OutermostItem::None,
        OutermostItem::Truncated,
        OutermostItem::NotList,
        OutermostItem::EmptyList,
        OutermostItem::Other,
    ];
    let undecodable = |outermost| {
        let (what, problem) = ("header".into(), DecodeProblem::TooLarge);
        TraceFailure::UndecodableBlock { outermost, what, offset: 3, problem, dialect }
    };
    failures.extend(outermost.map(undecodable));
    failures
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
    frames.add("0300 Call failures v3", &call_failures());
    frames.add("0304 Simulate failures v4", &simulation_failures());
}
