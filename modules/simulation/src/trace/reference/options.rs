//! Creates the reference's tracers from the options of a trace.

use tenon_api::messages::Tracer as Chosen;
use tenon_execution_interface::MovedPrecompiles;
use tenon_javascript::ScriptError;

use super::{
    calls::CallTracer,
    calls_legacy::LegacyCallTracer,
    contracts::{ContractTracer, NoopTracer},
    disassembly::DisassemblyTracer,
    histograms::{CountTracer, SequenceTracer},
    prestate::PrestateTracer,
    selectors::SelectorTracer,
    struct_logger::StructLogger,
    tracer::Tracer,
    watch::Watch,
};

use crate::{
    instructions::instruction_of,
    trace::{TraceError, scripts::ScriptSource},
};

/// A new tracer; `scripts` starts those written in JavaScript.
///
/// # Errors
/// There is no such tracer, or not with these options.
pub(in crate::trace) fn watch_of(
    chosen: &Chosen,
    precompiles: &MovedPrecompiles,
    scripts: impl FnOnce(ScriptSource<'_>) -> Result<Watch, ScriptError>,
) -> Result<Watch, TraceError> {
    let tracer: Box<dyn Tracer> = match chosen {
        Chosen::StructLogger(options) => Box::new(StructLogger::new(*options)),
        Chosen::Calls(options) => Box::new(CallTracer::new(options.only_top_call)),
        Chosen::Contracts { instruction } => {
            let wanted = instruction.as_deref().map(defined_instruction).transpose()?;
            Box::new(ContractTracer::new(wanted))
        }
        Chosen::CallsLegacy => Box::new(LegacyCallTracer::new(precompiles.clone())),
        Chosen::Disassembly => Box::new(DisassemblyTracer::new()),
        Chosen::Noop => Box::new(NoopTracer),
        Chosen::Prestate(_) => Box::new(PrestateTracer::default()),
        Chosen::Selectors => Box::new(SelectorTracer::new(precompiles.clone(), false)),
        Chosen::SelectorsLegacy => Box::new(SelectorTracer::new(precompiles.clone(), true)),
        Chosen::InstructionCount => Box::new(CountTracer::default()),
        Chosen::Sequences(length) => Box::new(SequenceTracer::new(*length)),
        Chosen::Script { source, config } => return Ok(scripts(ScriptSource { source, config })?),
        Chosen::Unusable { reason } => return Err(TraceError::UnusableTracer(reason.clone())),
        Chosen::FlatCalls(_) | Chosen::Mux(_) | Chosen::Erc7562(_) | Chosen::StateGas => {
            return Err(TraceError::NoSuchTracer);
        }
    };
    Ok(Watch::new(tracer, precompiles))
}

fn defined_instruction(name: &str) -> Result<u8, TraceError> {
    instruction_of(name).ok_or_else(|| TraceError::UnknownInstruction(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use revm::primitives::hardfork::SpecId;
    use tenon_api::messages::{
        CallTracerOptions, FlatCallTracerOptions, PrestateTracerOptions, SequenceLength, StructLogOptions,
    };

    use super::*;
    use tenon_execution_interface::PrecompileSet;

    /// The error; none if the tracer was made.
    fn refusal(chosen: &Chosen) -> Option<String> {
        let precompiles = MovedPrecompiles::new(PrecompileSet { standard: SpecId::BERLIN, extras: None });
        let scripts = |script: ScriptSource<'_>| {
            Err(ScriptError::Script(format!("script {} with {}", script.source, script.config)))
        };
        watch_of(chosen, &precompiles, scripts).err().map(|error| error.to_string())
    }

    #[test]
    fn every_tracer_of_the_reference_exists() {
        let all = [
            Chosen::StructLogger(StructLogOptions::default()),
            Chosen::Calls(CallTracerOptions::default()),
            Chosen::CallsLegacy,
            Chosen::Contracts { instruction: None },
            Chosen::Contracts { instruction: Some("PUSH1".to_owned()) },
            Chosen::Disassembly,
            Chosen::Noop,
            Chosen::Prestate(PrestateTracerOptions::default()),
            Chosen::Selectors,
            Chosen::SelectorsLegacy,
            Chosen::InstructionCount,
            Chosen::Sequences(SequenceLength::One),
            Chosen::Sequences(SequenceLength::Two),
            Chosen::Sequences(SequenceLength::Three),
        ];
        for chosen in all {
            assert_eq!(refusal(&chosen), None, "{chosen:?}");
        }
    }

    #[test]
    fn others_are_refused_and_scripts_are_started() {
        let script = Chosen::Script { source: "{a: 1}".to_owned(), config: "{}".to_owned() };
        let cases = [
            (Chosen::Contracts { instruction: Some("PUSH99".to_owned()) }, "opcode PUSH99 not defined"),
            (Chosen::Unusable { reason: "because".to_owned() }, "because"),
            (Chosen::FlatCalls(FlatCallTracerOptions::default()), "the chain has no such tracer"),
            (script, "script {a: 1} with {}"),
        ];
        for (chosen, expected) in cases {
            assert_eq!(refusal(&chosen).as_deref(), Some(expected), "{chosen:?}");
        }
    }
}
