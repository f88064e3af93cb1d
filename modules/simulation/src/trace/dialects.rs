//! Whose tracers a request gets. No other file of the simulation checks this: `ethereum_replay` and `reference_replay`
//! trace, and the tables `ReplayTexts` and `ScriptConventions` have the smaller differences.

use std::time::Instant;

use tenon_api::messages::{TraceOptions, TracerDialect};
use tenon_bus::CallContext;

use super::{
    EthereumOptions, TraceError,
    ethereum_replay::EthereumTracing,
    reference_replay::ReferenceTracing,
    replay::{Replay, TraceDialect},
    replay_texts::ReplayTexts,
};

use crate::call::Calls;

/// The tracers of a chain's dialect, for one request.
pub(super) fn dialect_of<'a>(
    calls: &'a Calls,
    options: &'a TraceOptions,
    caller: &'a CallContext,
    attempt_ends: Option<Instant>,
) -> Result<Box<dyn TraceDialect + 'a>, TraceError> {
    let replay = |texts| Replay::new(calls, caller, attempt_ends, texts);
    let dialect: Box<dyn TraceDialect + 'a> = match calls.family.tracer_dialect() {
        TracerDialect::Reference => Box::new(ReferenceTracing::new(replay(&ReplayTexts::REFERENCE), options)),
        TracerDialect::Ethereum => {
            let options = EthereumOptions::new(options, &calls.limits)?;
            Box::new(EthereumTracing::new(replay(&ReplayTexts::ETHEREUM), options))
        }
    };
    if attempt_ends.is_some() && !dialect.records_calls_only() {
        return Err(TraceError::NotAttempted);
    }
    Ok(dialect)
}
