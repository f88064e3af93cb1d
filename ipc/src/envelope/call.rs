//! Memory, time limit and turn of a call.

use std::{
    pin::{Pin, pin},
    task::Poll,
};

use tenon_bus::{MemoryUse, OutOfMemory, Reservation};

use super::{Dispatcher, Outcome, Subscriptions, failures, poll_once};
use crate::service::{Caller, RawCall, RpcService};

/// Memory of a call that is not done on its first poll, besides its parameters: its futures here and in the plugin, its
/// task, and a small answer.
const CALL_BYTES: usize = 20 << 10;

/// Maximum size of decoded parameters, as a multiple of their text. State overrides of empty accounts, 47 bytes of text
/// each, take 3.9 times their text (tested in `plugins/sdk/src/shapes/overrides.rs`). Call data takes half of it.
const DECODED_FACTOR: usize = 4;

/// Parameters up to this length are decoded before they are counted, by at most as many calls at a time as there are
/// threads.
const UNCOUNTED_PARAMETERS: usize = 16 << 10;

impl<S: RpcService> Dispatcher<S> {
    /// Runs a call until its caller's deadline. `kept` bytes, which its caller holds for it, are added to its
    /// reservation.
    pub(super) async fn call_in_time(
        &self,
        call: &mut RawCall<'_>,
        kept: usize,
        caller: &Caller,
        subscriptions: Option<&Subscriptions>,
    ) -> Outcome<S> {
        let length = call.params_length();
        // Large parameters are counted before the first poll, which decodes them.
        let mut memory = None;
        if length > UNCOUNTED_PARAMETERS {
            match self.reserve_for_call(length, kept, caller) {
                Ok(reserved) => memory = Some(reserved),
                Err(refused) => return Outcome::Failed(failures::out_of_memory(refused)),
            }
        }
        let mut call = pin!(self.call_service(call, caller, subscriptions));
        // Most calls are done on their first poll: they reserve nothing, and no timer is created for them.
        if let Poll::Ready(outcome) = poll_once(call.as_mut()).await {
            return outcome;
        }
        if memory.is_none() {
            match self.reserve_for_call(length, kept, caller) {
                Ok(reserved) => memory = Some(reserved),
                Err(refused) => return Outcome::Failed(failures::out_of_memory(refused)),
            }
        }
        let outcome = self.finish_in_time(call, caller).await;
        drop(memory);
        outcome
    }

    /// As [`Dispatcher::call_in_time`], for a client with recent large answers: the call waits for its turn. It is
    /// counted before, because thousands may wait.
    pub(super) async fn call_in_turn(
        &self,
        call: &mut RawCall<'_>,
        kept: usize,
        caller: &Caller,
        subscriptions: Option<&Subscriptions>,
    ) -> Outcome<S> {
        call.detach();
        let length = call.params_length();
        let _memory = match self.reserve_for_call(length, kept, caller) {
            Ok(memory) => memory,
            Err(refused) => return Outcome::Failed(failures::out_of_memory(refused)),
        };
        let mut turn = self.turns.at_rest(caller.context.origin().client);
        let call = self.call_service(call, caller, subscriptions);
        self.finish_in_time(pin!(turn.begin_after_others(length, call)), caller).await
    }

    /// Reserves memory for a call with `length` bytes of parameters, which count while it runs, as the plugin keeps them
    /// decoded.
    fn reserve_for_call(&self, length: usize, kept: usize, caller: &Caller) -> Result<Reservation, OutOfMemory> {
        let bytes = CALL_BYTES + DECODED_FACTOR * length + kept;
        self.memory_of(caller.context.origin()).reserve(MemoryUse::Calls, bytes)
    }

    /// Finishes a call, unless its deadline passes or the grace period of a stop ends before.
    async fn finish_in_time(&self, call: Pin<&mut impl Future<Output = Outcome<S>>>, caller: &Caller) -> Outcome<S> {
        let outcome = match caller.context.deadline() {
            None => self.cut.until_set(call).await,
            Some(deadline) => {
                let timed = self.cut.until_set(Box::pin(tokio::time::timeout_at(deadline.into(), call))).await;
                timed.map(|outcome| outcome.unwrap_or_else(|_| Outcome::Failed(failures::timed_out())))
            }
        };
        outcome.unwrap_or_else(|| {
            caller.context.cancel();
            Outcome::Failed(failures::stopping())
        })
    }
}
