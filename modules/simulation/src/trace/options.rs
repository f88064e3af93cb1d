//! The options of a trace with go-ethereum's tracers.

use std::time::Duration;

use alloy_rpc_types_trace::geth::{
    CallConfig, FlatCallConfig, GethDebugBuiltInTracerType, GethDebugTracerConfig, GethDebugTracerType,
    GethDebugTracingOptions, GethDefaultTracingOptions, PreStateConfig, erc7562::Erc7562Config, mux::MuxConfig,
};
use revm_inspectors::tracing::{DebugInspector, DebugInspectorError};
use tenon_api::messages::{
    CallTracerOptions, FlatCallTracerOptions, MuxedTracer, PrestateTracerOptions, StructLogOptions, TraceFailure,
    TraceOptions, Tracer,
};
use tenon_traces::{ScriptSource, TraceError, timeout_of};

/// Validated options.
#[derive(Debug)]
pub(crate) struct EthereumOptions {
    /// The options in the recording library's form.
    pub(super) geth: GethDebugTracingOptions,
    /// Maximum time of one traced transaction.
    pub(super) timeout: Duration,
    /// Source and configuration of a script.
    script: Option<(String, String)>,
}

impl EthereumOptions {
    /// Converts and checks the options.
    ///
    /// # Errors
    /// There is no such tracer, or not with these options.
    pub(crate) fn new(options: &TraceOptions, trace_timeout: Duration) -> Result<Self, TraceError> {
        let timeout = timeout_of(options, trace_timeout);
        let script = match &options.tracer {
            Tracer::Script { source, config } => Some((source.clone(), config.clone())),
            _ => None,
        };
        let options = Self { geth: library_options(&options.tracer)?, timeout, script };
        if options.script.is_none() {
            drop(options.inspector()?);
        }
        Ok(options)
    }

    /// Whether the tracer records calls and no steps.
    pub(super) fn records_calls_only(&self) -> bool {
        self.geth.tracer == Some(GethDebugTracerType::BuiltInTracer(GethDebugBuiltInTracerType::CallTracer))
    }

    /// The script, if the tracer is one.
    pub(super) fn script(&self) -> Option<ScriptSource<'_>> {
        self.script.as_ref().map(|(source, config)| ScriptSource { source, config })
    }

    /// A new inspector for these options. Scripts have none.
    pub(super) fn inspector(&self) -> Result<DebugInspector, TraceError> {
        DebugInspector::new(self.geth.clone()).map_err(|error| match error {
            DebugInspectorError::InvalidTracerConfig => TraceFailure::InvalidTracerConfig.into(),
            error => TraceFailure::UnusableTracer { reason: error.to_string() }.into(),
        })
    }
}

/// Converts a tracer's options for the library, which does not know scripts.
fn library_options(tracer: &Tracer) -> Result<GethDebugTracingOptions, TraceError> {
    use GethDebugBuiltInTracerType as BuiltIn;
    Ok(match tracer {
        Tracer::StructLogger(options) => {
            GethDebugTracingOptions { config: struct_log_options(options), ..GethDebugTracingOptions::default() }
        }
        Tracer::Calls(options) => GethDebugTracingOptions::call_tracer(call_config(options)),
        Tracer::Prestate(options) => GethDebugTracingOptions::prestate_tracer(prestate_config(options)),
        Tracer::FlatCalls(options) => GethDebugTracingOptions::flat_call_tracer(flat_call_config(options)),
        Tracer::Mux(tracers) => GethDebugTracingOptions::mux_tracer(MuxConfig(tracers.iter().map(muxed).collect())),
        Tracer::Erc7562(options) => GethDebugTracingOptions::erc7562_tracer(Erc7562Config {
            stack_top_items_size: options.stack_items,
            ignored_opcodes: options.ignored_opcodes.clone(),
            with_log: Some(options.with_logs),
        }),
        Tracer::Selectors => GethDebugTracingOptions::new_tracer(BuiltIn::FourByteTracer),
        Tracer::Noop => GethDebugTracingOptions::new_tracer(BuiltIn::NoopTracer),
        Tracer::StateGas => GethDebugTracingOptions::new_tracer(BuiltIn::StateGasTracer),
        Tracer::Script { .. } => GethDebugTracingOptions::default(),
        Tracer::Unusable { reason } => return Err(TraceFailure::UnusableTracer { reason: reason.clone() }.into()),
        Tracer::CallsLegacy
        | Tracer::SelectorsLegacy
        | Tracer::Contracts { .. }
        | Tracer::Disassembly
        | Tracer::InstructionCount
        | Tracer::Sequences(_) => return Err(TraceFailure::NoSuchTracer.into()),
    })
}

fn struct_log_options(options: &StructLogOptions) -> GethDefaultTracingOptions {
    GethDefaultTracingOptions {
        enable_memory: Some(options.with_memory),
        disable_stack: Some(!options.with_stack),
        disable_storage: Some(!options.with_storage),
        enable_return_data: Some(options.with_return_data),
        limit: u64::try_from(options.limit).ok(),
        ..GethDefaultTracingOptions::default()
    }
}

const fn call_config(options: &CallTracerOptions) -> CallConfig {
    CallConfig { only_top_call: Some(options.only_top_call), with_log: Some(options.with_logs) }
}

const fn prestate_config(options: &PrestateTracerOptions) -> PreStateConfig {
    PreStateConfig {
        diff_mode: Some(options.is_difference),
        disable_code: Some(options.without_code),
        disable_storage: Some(options.without_storage),
    }
}

const fn flat_call_config(options: &FlatCallTracerOptions) -> FlatCallConfig {
    FlatCallConfig {
        convert_parity_errors: Some(options.converts_errors),
        include_precompiles: Some(options.with_precompiles),
    }
}

fn muxed(tracer: &MuxedTracer) -> (GethDebugTracerType, Option<GethDebugTracerConfig>) {
    use GethDebugBuiltInTracerType as BuiltIn;
    let (tracer, config): (_, Option<GethDebugTracerConfig>) = match tracer {
        MuxedTracer::Calls(options) => (BuiltIn::CallTracer, Some(call_config(options).into())),
        MuxedTracer::Prestate(options) => (BuiltIn::PreStateTracer, Some(prestate_config(options).into())),
        MuxedTracer::FlatCalls(options) => (BuiltIn::FlatCallTracer, Some(flat_call_config(options).into())),
        MuxedTracer::Selectors => (BuiltIn::FourByteTracer, None),
        MuxedTracer::Noop => (BuiltIn::NoopTracer, None),
        MuxedTracer::StateGas => (BuiltIn::StateGasTracer, None),
    };
    (tracer.into(), config)
}

#[cfg(test)]
mod tests {
    use tenon_api::messages::{Erc7562Options, SequenceLength};

    use super::*;

    fn options(tracer: Tracer) -> Result<EthereumOptions, TraceError> {
        EthereumOptions::new(&TraceOptions { tracer, timeout: None }, Duration::from_secs(5))
    }

    #[test]
    fn the_library_has_every_tracer_of_the_family() {
        let all = [
            Tracer::default(),
            Tracer::Calls(CallTracerOptions { only_top_call: true, with_logs: true }),
            Tracer::Prestate(PrestateTracerOptions { is_difference: true, without_code: true, without_storage: true }),
            Tracer::FlatCalls(FlatCallTracerOptions { converts_errors: true, with_precompiles: true }),
            Tracer::Mux(vec![
                MuxedTracer::Calls(CallTracerOptions::default()),
                MuxedTracer::Prestate(PrestateTracerOptions::default()),
                MuxedTracer::FlatCalls(FlatCallTracerOptions::default()),
                MuxedTracer::Selectors,
                MuxedTracer::Noop,
                MuxedTracer::StateGas,
            ]),
            Tracer::Selectors,
            Tracer::Noop,
            Tracer::Erc7562(Erc7562Options { stack_items: Some(1), ignored_opcodes: vec![1], with_logs: true }),
            Tracer::StateGas,
        ];
        for tracer in all {
            let made = options(tracer.clone()).map(|options| options.script().is_none());
            assert!(matches!(made, Ok(true)), "{tracer:?}: {made:?}");
        }
    }

    #[test]
    fn tracers_of_the_other_family_and_unusable_ones_are_refused() {
        let reason = || "because".to_owned();
        let cases = [
            (Tracer::Sequences(SequenceLength::One), TraceFailure::NoSuchTracer),
            (Tracer::Unusable { reason: reason() }, TraceFailure::UnusableTracer { reason: reason() }),
        ];
        for (tracer, expected) in cases {
            assert_eq!(options(tracer).unwrap_err().into_failure(), expected);
        }
    }
}
