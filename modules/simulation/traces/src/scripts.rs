//! Scripts of one trace request: one process for all of its transactions, and their memory.

use std::time::{Duration, Instant};

use alloy_primitives::Address;
use parking_lot::Mutex;
use tenon_bus::{CallContext, ClientMemory, MemoryUse, OutOfMemory, Reservation};
use tenon_execution_interface::MovedPrecompiles;
use tenon_javascript::{Script, ScriptError, ScriptHost, ScriptSlot, Start, Waiting};

use crate::{
    events::{ScriptRun, Watch},
    recording::TraceMemory,
    script_conventions::ScriptConventions,
    script_place::ScriptPlace,
};

/// Runs the scripts of one request.
pub struct Scripts<'a> {
    host: &'a ScriptHost,
    slot: ScriptSlot,
    memory: ClientMemory,
    /// Memory of the process. Held from its first script to the end of the request.
    process: Mutex<Option<Reservation>>,
    caller: &'a CallContext,
}

/// A script, with the JSON text of its configuration.
#[derive(Clone, Copy, Debug)]
pub struct ScriptSource<'a> {
    /// The program text.
    pub source: &'a str,
    /// The configuration.
    pub config: &'a str,
}

impl<'a> Scripts<'a> {
    pub(crate) fn new(host: &'a ScriptHost, memory: &TraceMemory, caller: &'a CallContext) -> Self {
        let (memory, process) = (memory.client().clone(), Mutex::default());
        Self { host, slot: ScriptSlot::default(), memory, process, caller }
    }

    /// Starts a script over one transaction.
    ///
    /// # Errors
    /// It cannot be compiled, or there is no process or memory for it.
    pub fn watch(
        &self,
        script: ScriptSource<'_>,
        conventions: &'static ScriptConventions,
        precompiles: &MovedPrecompiles,
        place: ScriptPlace,
        timeout: Duration,
    ) -> Result<Watch, ScriptError> {
        self.reserve_process()?;
        let mut addresses: Vec<Address> = precompiles.addresses().collect();
        addresses.sort_unstable();
        let (source, config) = (script.source, script.config);
        let start = Start { source, config, interface: conventions.interface, precompiles: addresses };
        let caller = self.caller.clone();
        // Lets other jobs run while the script continues.
        let should_stop = Box::new(move || caller.should_stop());
        let now = Instant::now();
        let deadline = now.checked_add(timeout).unwrap_or(now);
        let waiting = Waiting { deadline, should_stop };
        let script = Script::start(self.host, &self.slot, start, waiting)?;
        let run = ScriptRun { conventions, place, since: now };
        Ok(Watch::of_script(script, run, precompiles))
    }

    /// Reserves the maximum memory of the process, only from its client's share: one client's script must not use up
    /// the memory that the traces of others share.
    fn reserve_process(&self) -> Result<(), ScriptError> {
        let mut process = self.process.lock();
        if process.is_none() {
            let bytes = self.host.memory_of_one();
            let size = usize::try_from(bytes).unwrap_or(usize::MAX);
            let refused = |_: OutOfMemory| ScriptError::NoMemory { bytes };
            *process = Some(self.memory.reserve(MemoryUse::Traces, size).map_err(refused)?);
        }
        Ok(())
    }
}
