//! Scripts over a made-up run.

use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, Bytes, U256, address};
use tenon_api::WholeBalance;
use tenon_javascript::{
    CallFacts, Event, FrameFacts, Program, ResultFacts, RunFacts, Script, ScriptError, ScriptHost, ScriptInterface,
    ScriptOptions, ScriptSlot, Start, State, StepFacts, Waiting, Write,
};

/// The only account.
pub(crate) const ACCOUNT: Address = address!("00000000000000000000000000000000000000aa");

/// Knows one account.
pub(crate) struct OneAccount;

impl State for OneAccount {
    fn balance(&mut self, address: Address) -> Option<WholeBalance> {
        Some(if address == ACCOUNT { WholeBalance::MAX >> 8 } else { WholeBalance::ZERO })
    }

    fn nonce(&mut self, address: Address) -> Option<u64> {
        Some(if address == ACCOUNT { 7 } else { 0 })
    }

    fn code(&mut self, address: Address) -> Option<Bytes> {
        Some(if address == ACCOUNT { Bytes::from_static(&[0x60, 0x01]) } else { Bytes::new() })
    }

    fn slot(&mut self, _: Address, slot: B256) -> Option<B256> {
        Some(slot)
    }

    fn exists(&mut self, address: Address) -> Option<bool> {
        Some(address == ACCOUNT)
    }
}

/// Processes in a sandbox, as in the node.
pub(crate) fn host() -> ScriptHost {
    host_with(options())
}

/// Limits of these processes.
pub(crate) fn options() -> ScriptOptions {
    ScriptOptions::in_processes(32 << 20, 4)
}

/// Processes with these options.
pub(crate) fn host_with(options: ScriptOptions) -> ScriptHost {
    let program = Program::Child(env!("CARGO_BIN_EXE_tenon-script-child").into(), Vec::new());
    ScriptHost::new(ScriptOptions { program, ..options })
}

/// Limits for a script whose caller does not disconnect.
pub(crate) fn waiting(time: Duration) -> Waiting {
    Waiting { deadline: Instant::now() + time, should_stop: Box::new(|| false) }
}

/// Starts a script.
pub(crate) fn start(
    host: &ScriptHost,
    source: &str,
    interface: ScriptInterface,
    time: Duration,
) -> Result<Script, ScriptError> {
    let precompiles = vec![Address::with_last_byte(1)];
    let start = Start { source, config: r#"{"a":1}"#, interface, precompiles };
    Script::start(host, &ScriptSlot::default(), start, waiting(time))
}

/// A step with two values on the stack and memory, an inner frame, and a step that fails.
pub(crate) fn events() -> Vec<Event> {
    let call = |depth| CallFacts {
        depth,
        caller: Address::with_last_byte(0xca),
        address: ACCOUNT,
        value: U256::from(5),
        input: Bytes::from_static(&[1, 2, 3]),
    };
    let writes = vec![Write { offset: 1, bytes: Bytes::from_static(&[0xff]) }];
    let step = |depth| StepFacts {
        pc: 3,
        opcode: 0x60,
        name: "PUSH1".to_owned(),
        gas: 100,
        cost: 3,
        depth,
        refund: 9,
        ..StepFacts::default()
    };
    let first = StepFacts { pushed: vec![U256::from(1), U256::MAX], memory: 32, writes, ..step(1) };
    let refused = StepFacts { error: Some("out of gas".to_owned()), ..step(2) };
    vec![
        Event::Call(call(1)),
        Event::Step(first),
        Event::Enter(frame()),
        Event::Call(call(2)),
        Event::Step(refused),
        Event::Exit(ResultFacts { gas_used: 4, output: Bytes::new(), error: Some("out of gas".to_owned()) }),
        Event::Step(StepFacts { kept: 2, memory: 32, ..step(1) }),
        Event::Fault { error: "invalid jump destination".to_owned() },
    ]
}

/// A frame.
pub(crate) fn frame() -> FrameFacts {
    FrameFacts {
        kind: "CALL".to_owned(),
        from: ACCOUNT,
        to: Address::with_last_byte(2),
        input: Bytes::from_static(&[9]),
        gas: 50,
        value: Some(WholeBalance::from(11) << 256),
    }
}

/// The end of the run.
pub(crate) fn run() -> RunFacts {
    RunFacts {
        frame: Some(frame()),
        end: ResultFacts { gas_used: 21_000, output: Bytes::from_static(&[8]), error: None },
        intrinsic_gas: 21_000,
        gas_price: U256::from(7),
        block: 5,
        time: "1ms".to_owned(),
        block_hash: Some(B256::with_last_byte(1)),
        index: Some(2),
        hash: Some(B256::with_last_byte(3)),
    }
}

/// The result of a script over the whole run.
pub(crate) fn result_of(host: &ScriptHost, source: &str, interface: ScriptInterface) -> Result<String, ScriptError> {
    result_within(host, source, interface, Duration::from_secs(60))
}

/// The result within a time.
pub(crate) fn result_within(
    host: &ScriptHost,
    source: &str,
    interface: ScriptInterface,
    time: Duration,
) -> Result<String, ScriptError> {
    let mut script = start(host, source, interface, time)?;
    script.handle(events(), &mut OneAccount)?;
    script.finish(run(), &mut OneAccount)
}
