//! Converts results of go-ethereum's tracers from the types of the recording library into messages.

use std::collections::BTreeMap;

use alloy_primitives::{Address, Bytes, U256};
use alloy_rpc_types_trace::{
    geth::{
        AccountState, CallFrame as LibraryFrame, CallLogFrame, FourByteFrame, GethTrace, PreStateFrame, StateGasTrace,
        erc7562::{CallFrameType, Erc7562Frame},
        mux::MuxFrame,
    },
    parity::{Action, CallType, CreationMethod, LocalizedTransactionTrace, TraceOutput},
};
use tenon_api::messages::{
    AccessedSlots, CallFrame, ContractSize, FlatAction, FlatCall, FlatOutput, FrameKind, GasByKind, Prestate,
    SelectorCount, SignedBalance, StateGas, TraceResult, TracedAccount, TracedLog, ValidationFrame,
};
use tenon_execution_interface::widen;
use tenon_traces::TraceError;

/// Converts a result of the library.
///
/// # Errors
/// It contains something that no transaction does, or that messages cannot represent.
pub(super) fn trace_result(trace: GethTrace) -> Result<TraceResult, TraceError> {
    Ok(match trace {
        GethTrace::CallTracer(frame) => TraceResult::Calls(call_frames(frame)?),
        GethTrace::FlatCallTracer(calls) => {
            TraceResult::FlatCalls(calls.into_iter().map(flat_call).collect::<Result<_, _>>()?)
        }
        GethTrace::FourByteTracer(counts) => TraceResult::Selectors(selector_counts(&counts)?),
        GethTrace::PreStateTracer(accounts) => TraceResult::Prestate(prestate(accounts)),
        GethTrace::StateGasTracer(gas) => TraceResult::StateGas(state_gas(&gas)),
        GethTrace::NoopTracer(_) => TraceResult::Noop,
        GethTrace::Erc7562Tracer(frame) => TraceResult::Validation(validation_frames(frame)),
        GethTrace::MuxTracer(MuxFrame(traces)) => {
            let mut results = traces.into_values().map(trace_result).collect::<Result<Vec<_>, _>>()?;
            // The library has them in no order.
            results.sort_by_key(order);
            TraceResult::Mux(results)
        }
        // The steps of a struct logger are taken from the recording, and scripts run elsewhere.
        GethTrace::Default(_) | GethTrace::JS(_) => return Err(unexpected("result")),
    })
}

/// The error of a result that does not match the library's documentation.
fn unexpected(what: &str) -> TraceError {
    TraceError::not_traced(format_args!("unexpected {what}"))
}

/// The place of a result among those of several tracers.
const fn order(result: &TraceResult) -> u8 {
    match result {
        TraceResult::Calls(_) => 0,
        TraceResult::FlatCalls(_) => 1,
        TraceResult::Prestate(_) => 2,
        TraceResult::Selectors(_) => 3,
        TraceResult::StateGas(_) => 4,
        _ => 5,
    }
}

/// The tree of calls, as a list.
fn call_frames(outermost: LibraryFrame) -> Result<Vec<CallFrame>, TraceError> {
    in_order(outermost, |frame| &mut frame.calls).map(|(depth, frame)| call_frame(depth, frame)).collect()
}

/// The frames of a tree, each with its depth, and before its inner calls. `calls_of` returns the inner calls of a frame.
fn in_order<F>(outermost: F, calls_of: fn(&mut F) -> &mut Vec<F>) -> impl Iterator<Item = (u32, F)> {
    // Frames that still have to be listed; the next one is last.
    let mut left = vec![(0, outermost)];
    std::iter::from_fn(move || {
        let (depth, mut frame) = left.pop()?;
        let calls = std::mem::take(calls_of(&mut frame));
        left.extend(calls.into_iter().rev().map(|call| (depth + 1, call)));
        Some((depth, frame))
    })
}

fn call_frame(depth: u32, frame: LibraryFrame) -> Result<CallFrame, TraceError> {
    let number = |number: Option<U256>| number.unwrap_or_default().saturating_to::<u64>();
    let gas_by_kind = frame.execution_gas_used.map(|execution| GasByKind {
        execution: execution.saturating_to(),
        state: number(frame.state_gas_used),
        refund: number(frame.gas_refund),
    });
    let kind = FrameKind::ALL.iter().copied().find(|kind| kind.name() == frame.typ);
    Ok(CallFrame {
        depth,
        kind: kind.ok_or_else(|| unexpected("kind of call"))?,
        from: frame.from,
        to: frame.to,
        value: frame.value.map(widen),
        gas: frame.gas.saturating_to(),
        gas_used: frame.gas_used.saturating_to(),
        gas_by_kind,
        input: frame.input,
        output: frame.output,
        error: frame.error,
        revert_reason: frame.revert_reason,
        logs: frame.logs.into_iter().map(traced_log).collect(),
    })
}

fn traced_log(log: CallLogFrame) -> TracedLog {
    TracedLog {
        address: log.address.unwrap_or_default(),
        topics: log.topics.unwrap_or_default(),
        data: log.data.unwrap_or_default(),
        position: log.position.unwrap_or_default(),
        index: log.index.unwrap_or_default(),
    }
}

fn flat_call(call: LocalizedTransactionTrace) -> Result<FlatCall, TraceError> {
    let LocalizedTransactionTrace { trace, block_hash, block_number, transaction_hash, transaction_position } = call;
    let action = match trace.action {
        Action::Call(call) => FlatAction::Call {
            kind: match call.call_type {
                CallType::Call => FrameKind::Call,
                CallType::CallCode => FrameKind::CallCode,
                CallType::DelegateCall => FrameKind::DelegateCall,
                CallType::StaticCall => FrameKind::StaticCall,
                CallType::None | CallType::AuthCall => return Err(unexpected("kind of call")),
            },
            from: call.from,
            to: call.to,
            gas: call.gas,
            input: call.input,
            value: call.value,
        },
        Action::Create(creation) => FlatAction::Create {
            kind: match creation.creation_method {
                CreationMethod::Create => FrameKind::Create,
                CreationMethod::Create2 => FrameKind::Create2,
                CreationMethod::None | CreationMethod::EofCreate => return Err(unexpected("kind of creation")),
            },
            from: creation.from,
            gas: creation.gas,
            init: creation.init,
            value: creation.value,
        },
        Action::Selfdestruct(destruction) => FlatAction::Destroy {
            address: destruction.address,
            receiver: destruction.refund_address,
            balance: destruction.balance,
        },
        // Only blocks pay rewards, not transactions.
        Action::Reward(_) => return Err(unexpected("reward")),
    };
    let output = trace.result.map(|output| match output {
        TraceOutput::Call(call) => FlatOutput::Call { gas_used: call.gas_used, output: call.output },
        TraceOutput::Create(creation) => {
            FlatOutput::Create { address: creation.address, code: creation.code, gas_used: creation.gas_used }
        }
    });
    Ok(FlatCall {
        action,
        block_hash,
        block_number,
        error: trace.error,
        output,
        inner_calls: trace.subtraces as u64,
        place: trace.trace_address.into_iter().map(|index| index as u64).collect(),
        transaction_hash,
        transaction_index: transaction_position,
    })
}

/// Splits the library's texts, which contain a selector and the length of its data.
fn selector_counts(counts: &FourByteFrame) -> Result<Vec<SelectorCount>, TraceError> {
    let counted = |(name, count): (&String, &u64)| {
        let (selector, length) = name.split_once('-')?;
        Some(SelectorCount {
            selector: selector.parse::<Bytes>().ok()?,
            data_length: length.parse().ok()?,
            count: *count,
        })
    };
    counts.0.iter().map(counted).collect::<Option<_>>().ok_or_else(|| unexpected("selector"))
}

fn prestate(frame: PreStateFrame) -> Prestate {
    match frame {
        PreStateFrame::Default(accounts) => Prestate::Before(traced_accounts(accounts.0)),
        PreStateFrame::Diff(states) => {
            Prestate::Difference { before: traced_accounts(states.pre), after: traced_accounts(states.post) }
        }
    }
}

fn traced_accounts(accounts: BTreeMap<Address, AccountState>) -> Vec<TracedAccount> {
    let traced = |(address, account): (Address, AccountState)| TracedAccount {
        address,
        balance: account.balance.map(|balance| SignedBalance { magnitude: widen(balance), is_negative: false }),
        nonce: account.nonce.map(i128::from),
        code: account.code,
        slots: account.storage.into_iter().collect(),
    };
    accounts.into_iter().map(traced).collect()
}

const fn state_gas(gas: &StateGasTrace) -> StateGas {
    let by_kind = GasByKind { execution: gas.execution_gas_used, state: gas.state_gas_used, refund: gas.gas_refund };
    StateGas { gas_used: gas.gas_used, by_kind }
}

/// The tree of calls of `erc7562Tracer`, as a list.
fn validation_frames(outermost: Erc7562Frame) -> Vec<ValidationFrame> {
    in_order(outermost, |frame| &mut frame.calls).map(|(depth, frame)| validation_frame(depth, frame)).collect()
}

fn validation_frame(depth: u32, frame: Erc7562Frame) -> ValidationFrame {
    let slots = frame.accessed_slots;
    ValidationFrame {
        depth,
        kind: match frame.call_frame_type {
            CallFrameType::Call => FrameKind::Call,
            CallFrameType::DelegateCall => FrameKind::DelegateCall,
            CallFrameType::CallCode => FrameKind::CallCode,
            CallFrameType::StaticCall => FrameKind::StaticCall,
            CallFrameType::Create => FrameKind::Create,
            CallFrameType::Create2 => FrameKind::Create2,
        },
        from: frame.from,
        to: frame.to,
        value: frame.value,
        gas: frame.gas,
        gas_used: frame.gas_used,
        input: frame.input,
        output: frame.output,
        error: frame.error,
        revert_reason: frame.revert_reason,
        logs: frame.logs.into_iter().map(traced_log).collect(),
        accessed_slots: AccessedSlots {
            reads: sorted(slots.reads),
            writes: sorted(slots.writes),
            transient_reads: sorted(slots.transient_reads),
            transient_writes: sorted(slots.transient_writes),
        },
        inspected_code: frame.ext_code_access_info,
        opcodes: sorted(frame.used_opcodes),
        contract_sizes: sorted(
            frame
                .contract_size
                .into_iter()
                .map(|(contract, size)| (contract, ContractSize { length: size.contract_size, opcode: size.opcode })),
        ),
        is_out_of_gas: frame.out_of_gas,
        hashed: frame.keccak,
    }
}

/// The members of an unordered map, sorted by key.
fn sorted<K: Ord, V>(members: impl IntoIterator<Item = (K, V)>) -> Vec<(K, V)> {
    let mut members: Vec<(K, V)> = members.into_iter().collect();
    members.sort_by(|(one, _), (other, _)| one.cmp(other));
    members
}

#[cfg(test)]
mod tests {
    use alloy_primitives::B256;
    use alloy_rpc_types_trace::{
        geth::{GethDebugBuiltInTracerType as BuiltIn, NoopFrame},
        parity::{RewardAction, RewardType, TransactionTrace},
    };
    use tenon_api::messages::TraceFailure;

    use super::*;

    fn frame(kind: &str, calls: Vec<LibraryFrame>) -> LibraryFrame {
        LibraryFrame { typ: kind.to_owned(), calls, ..LibraryFrame::default() }
    }

    #[test]
    fn a_tree_of_calls_becomes_a_list_in_the_order_of_their_beginnings() {
        let tree = frame(
            "CALL",
            vec![
                frame("CREATE", vec![frame("STATICCALL", vec![]), frame("SELFDESTRUCT", vec![])]),
                frame("DELEGATECALL", vec![]),
            ],
        );

        let Ok(TraceResult::Calls(frames)) = trace_result(GethTrace::CallTracer(tree)) else { panic!("no calls") };

        let places: Vec<_> = frames.iter().map(|frame| (frame.depth, frame.kind)).collect();
        let expected = [
            (0, FrameKind::Call),
            (1, FrameKind::Create),
            (2, FrameKind::StaticCall),
            (2, FrameKind::SelfDestruct),
            (1, FrameKind::DelegateCall),
        ];
        assert_eq!(places, expected);
    }

    #[test]
    fn what_no_transaction_does_is_refused() {
        let reward = RewardAction { author: Address::ZERO, reward_type: RewardType::Block, value: U256::ZERO };
        let action = Action::Reward(reward);
        let reward = LocalizedTransactionTrace {
            trace: TransactionTrace { action, ..TransactionTrace::default() },
            block_hash: Some(B256::ZERO),
            block_number: None,
            transaction_hash: None,
            transaction_position: None,
        };
        let selectors = |name: &str| FourByteFrame([(name.to_owned(), 1)].into());
        let cases = [
            (GethTrace::CallTracer(frame("JUMP", vec![])), "kind of call"),
            (GethTrace::FlatCallTracer(vec![reward]), "reward"),
            (GethTrace::FourByteTracer(selectors("0x01020304")), "selector"),
            (GethTrace::FourByteTracer(selectors("0x0102030-7")), "selector"),
            (GethTrace::default(), "result"),
        ];
        for (trace, expected) in cases {
            let refused = trace_result(trace).unwrap_err().into_failure();
            assert_eq!(refused, TraceFailure::NotTraced { reason: format!("unexpected {expected}") });
        }
    }

    #[test]
    fn results_of_several_tracers_and_members_of_maps_are_in_one_order() {
        let traces = [
            (BuiltIn::NoopTracer, GethTrace::NoopTracer(NoopFrame::default())),
            (BuiltIn::FourByteTracer, GethTrace::FourByteTracer(FourByteFrame::default())),
            (BuiltIn::CallTracer, GethTrace::CallTracer(frame("CALL", vec![]))),
        ];
        let mux = MuxFrame(traces.into_iter().map(|(name, trace)| (name.into(), trace)).collect());

        let Ok(TraceResult::Mux(results)) = trace_result(GethTrace::MuxTracer(mux)) else { panic!("no results") };

        assert_eq!(results.iter().map(order).collect::<Vec<_>>(), [0, 3, 5]);
        assert_eq!(sorted([(3, 'c'), (1, 'a'), (2, 'b')]), [(1, 'a'), (2, 'b'), (3, 'c')]);
    }
}
