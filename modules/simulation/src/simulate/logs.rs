//! Logs of simulated transactions, in the order in which they were emitted, with logs of coin transfers on request.

use alloy_primitives::{Address, B256, Bytes, U256, address, b256};
use revm::{
    Inspector,
    interpreter::{
        CallInputs, CallOutcome, CallScheme, CreateInputs, CreateOutcome, CreateScheme, interpreter::EthInterpreter,
    },
};
use tenon_api::{Log, messages::SimulatedLog};
use tenon_execution_interface::BlockContext;

/// The emitting address of logs of coin transfers (ERC-7528).
const COINS: Address = address!("eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee");
/// `Transfer(address,address,uint256)`.
const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

/// Collects the logs of a block's transactions.
#[derive(Default)]
pub(super) struct LogRecorder {
    traces_transfers: bool,
    /// Logs of the frames that are running, outermost first.
    frames: Vec<Vec<SimulatedLog>>,
    /// Logs of the transaction that has ended.
    finished: Vec<SimulatedLog>,
    /// Number of logs that the block has emitted, including those of failed frames.
    next_index: u64,
}

impl LogRecorder {
    pub(super) fn new(traces_transfers: bool) -> Self {
        Self { traces_transfers, ..Self::default() }
    }

    /// Returns the logs of the transaction that has ended, and prepares for the next one.
    pub(super) fn take(&mut self) -> Vec<SimulatedLog> {
        self.frames.clear();
        std::mem::take(&mut self.finished)
    }

    /// Adds a log of the innermost frame that is running, or of the transaction.
    pub(super) fn record(&mut self, log: Log) {
        let index = self.next_index;
        self.next_index += 1;
        match self.frames.last_mut() {
            Some(frame) => frame.push(SimulatedLog { index, log }),
            None => self.finished.push(SimulatedLog { index, log }),
        }
    }

    fn record_transfer(&mut self, from: Address, to: Address, value: U256) {
        if self.traces_transfers && !value.is_zero() {
            let topics = vec![TRANSFER, from.into_word(), to.into_word()];
            self.record(Log { address: COINS, topics, data: Bytes::from(value.to_be_bytes::<32>()) });
        }
    }

    /// Ends a frame: unless it failed, its logs are added to those of the enclosing frame.
    fn end(&mut self, has_succeeded: bool) {
        let Some(mut logs) = self.frames.pop() else { return };
        if has_succeeded {
            self.frames.last_mut().unwrap_or(&mut self.finished).append(&mut logs);
        }
    }
}

impl Inspector<BlockContext, EthInterpreter> for LogRecorder {
    fn log(&mut self, _context: &mut BlockContext, log: revm::primitives::Log) {
        let (topics, data) = log.data.split();
        self.record(Log { address: log.address, topics, data });
    }

    fn call(&mut self, _context: &mut BlockContext, inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.frames.push(Vec::new());
        // CALLCODE transfers nothing: sender and receiver are the same.
        if matches!(inputs.scheme, CallScheme::Call) {
            self.record_transfer(inputs.caller, inputs.target_address, inputs.transfer_value().unwrap_or_default());
        }
        None
    }

    fn call_end(&mut self, _context: &mut BlockContext, _inputs: &CallInputs, outcome: &mut CallOutcome) {
        self.end(outcome.result.result.is_ok());
    }

    fn create(&mut self, context: &mut BlockContext, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        self.frames.push(Vec::new());
        if self.traces_transfers && !inputs.value().is_zero() {
            let to = created_address(context, inputs);
            self.record_transfer(inputs.caller(), to, inputs.value());
        }
        None
    }

    fn create_end(&mut self, _context: &mut BlockContext, _inputs: &CreateInputs, outcome: &mut CreateOutcome) {
        self.end(outcome.result.result.is_ok());
    }

    fn selfdestruct(&mut self, contract: Address, target: Address, value: U256) {
        self.record_transfer(contract, target, value);
    }
}

/// Does not use the method of `inputs`, which caches the first address that it computes.
fn created_address(context: &BlockContext, inputs: &CreateInputs) -> Address {
    let caller = inputs.caller();
    match inputs.scheme() {
        CreateScheme::Create => {
            let nonce = context.journaled_state.state.get(&caller).map_or(0, |account| account.info.nonce);
            caller.create(nonce)
        }
        CreateScheme::Create2 { salt } => caller.create2(salt.to_be_bytes::<32>(), inputs.init_code_hash()),
        CreateScheme::Custom { address } => address,
    }
}
