//! Creates the reference's tracers from the options of a trace.

use tenon_api::messages::{TraceFailure, Tracer as RequestedTracer};
use tenon_execution_interface::MovedPrecompiles;
use tenon_simulation_interface::instruction_of;
use tenon_traces::{ScriptError, ScriptSource, TraceError, Tracer, Watch};

use super::{
    calls::CallTracer,
    calls_legacy::LegacyCallTracer,
    contracts::{ContractTracer, NoopTracer},
    disassembly::DisassemblyTracer,
    histograms::{CountTracer, SequenceTracer},
    prestate::PrestateTracer,
    selectors::SelectorTracer,
    struct_logger::StructLogger,
};

/// A new tracer; `scripts` starts those written in JavaScript.
///
/// # Errors
/// There is no such tracer, or not with these options.
pub(super) fn watch_of(
    chosen: &RequestedTracer,
    precompiles: &MovedPrecompiles,
    scripts: impl FnOnce(ScriptSource<'_>) -> Result<Watch, ScriptError>,
) -> Result<Watch, TraceError> {
    let tracer: Box<dyn Tracer> = match chosen {
        RequestedTracer::StructLogger(options) => Box::new(StructLogger::new(*options)),
        RequestedTracer::Calls(options) => Box::new(CallTracer::new(options.only_top_call)),
        RequestedTracer::Contracts { instruction } => {
            let wanted = instruction.as_deref().map(defined_instruction).transpose()?;
            Box::new(ContractTracer::new(wanted))
        }
        RequestedTracer::CallsLegacy => Box::new(LegacyCallTracer::new(precompiles.clone())),
        RequestedTracer::Disassembly => Box::new(DisassemblyTracer::new()),
        RequestedTracer::Noop => Box::new(NoopTracer),
        RequestedTracer::Prestate(_) => Box::new(PrestateTracer::default()),
        RequestedTracer::Selectors => Box::new(SelectorTracer::new(precompiles.clone(), false)),
        RequestedTracer::SelectorsLegacy => Box::new(SelectorTracer::new(precompiles.clone(), true)),
        RequestedTracer::InstructionCount => Box::new(CountTracer::default()),
        RequestedTracer::Sequences(length) => Box::new(SequenceTracer::new(*length)),
        RequestedTracer::Script { source, config } => return Ok(scripts(ScriptSource { source, config })?),
        RequestedTracer::Unusable { reason } => {
            return Err(TraceFailure::UnusableTracer { reason: reason.clone() }.into());
        }
        RequestedTracer::FlatCalls(_)
        | RequestedTracer::Mux(_)
        | RequestedTracer::Erc7562(_)
        | RequestedTracer::StateGas => {
            return Err(TraceFailure::NoSuchTracer.into());
        }
    };
    Ok(Watch::new(tracer, precompiles))
}

/// Maximum number of characters of an unknown instruction's name in an error, which the trace of a block has for each
/// transaction.
const MAX_SHOWN_NAME: usize = 40;

fn defined_instruction(name: &str) -> Result<u8, TraceError> {
    instruction_of(name).ok_or_else(|| TraceFailure::UnknownInstruction { name: beginning_of(name) }.into())
}

fn beginning_of(name: &str) -> String {
    let mut beginning: String = name.chars().take(MAX_SHOWN_NAME).collect();
    if beginning.len() < name.len() {
        beginning.push('…');
    }
    beginning
}

#[cfg(test)]
mod tests {
    use revm::primitives::hardfork::SpecId;
    use tenon_api::messages::{
        CallTracerOptions, FlatCallTracerOptions, PrestateTracerOptions, SequenceLength, StructLogOptions,
    };

    use super::*;
    use tenon_execution_interface::PrecompileSet;

    /// The failure; none if the tracer was made.
    fn refusal(chosen: &RequestedTracer) -> Option<TraceFailure> {
        let precompiles = MovedPrecompiles::new(PrecompileSet { standard: SpecId::BERLIN, extras: None });
        let scripts = |script: ScriptSource<'_>| {
            Err(ScriptError::Script(format!("script {} with {}", script.source, script.config)))
        };
        watch_of(chosen, &precompiles, scripts).err().map(TraceError::into_failure)
    }

    #[test]
    fn every_tracer_of_the_reference_exists() {
        let all = [
            RequestedTracer::StructLogger(StructLogOptions::default()),
            RequestedTracer::Calls(CallTracerOptions::default()),
            RequestedTracer::CallsLegacy,
            RequestedTracer::Contracts { instruction: None },
            RequestedTracer::Contracts { instruction: Some("PUSH1".to_owned()) },
            RequestedTracer::Disassembly,
            RequestedTracer::Noop,
            RequestedTracer::Prestate(PrestateTracerOptions::default()),
            RequestedTracer::Selectors,
            RequestedTracer::SelectorsLegacy,
            RequestedTracer::InstructionCount,
            RequestedTracer::Sequences(SequenceLength::One),
            RequestedTracer::Sequences(SequenceLength::Two),
            RequestedTracer::Sequences(SequenceLength::Three),
        ];
        for chosen in all {
            assert_eq!(refusal(&chosen), None, "{chosen:?}");
        }
    }

    #[test]
    fn a_long_name_of_an_unknown_instruction_is_cut() {
        let refused = |name: String| match refusal(&RequestedTracer::Contracts { instruction: Some(name) }) {
            Some(TraceFailure::UnknownInstruction { name }) => name,
            other => panic!("{other:?}"),
        };

        assert_eq!(refused("é".repeat(40)), "é".repeat(40));
        assert_eq!(refused("é".repeat(1 << 20)), "é".repeat(40) + "…");
    }

    #[test]
    fn others_are_refused_and_scripts_are_started() {
        let script = RequestedTracer::Script { source: "{a: 1}".to_owned(), config: "{}".to_owned() };
        let (name, reason) = (|| "PUSH99".to_owned(), || "because".to_owned());
        let cases = [
            (
                RequestedTracer::Contracts { instruction: Some(name()) },
                TraceFailure::UnknownInstruction { name: name() },
            ),
            (RequestedTracer::Unusable { reason: reason() }, TraceFailure::UnusableTracer { reason: reason() }),
            (RequestedTracer::FlatCalls(FlatCallTracerOptions::default()), TraceFailure::NoSuchTracer),
            (script, TraceFailure::Script { error: "script {a: 1} with {}".to_owned() }),
        ];
        for (chosen, expected) in cases {
            assert_eq!(refusal(&chosen), Some(expected), "{chosen:?}");
        }
    }
}
