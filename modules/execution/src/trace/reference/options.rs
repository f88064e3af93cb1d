//! The options object, and the tracers by name.

use std::time::Duration;

use serde_json::{Map, Value};
use tenon_api::Failure;

use super::{
    calls::CallTracer,
    calls_legacy::LegacyCallTracer,
    contracts::{ContractTracer, NoopTracer},
    disassembly::DisassemblyTracer,
    histograms::{CountTracer, SequenceLength, SequenceTracer},
    prestate::PrestateTracer,
    selectors::SelectorTracer,
    struct_logger::{StructLogger, StructLoggerOptions},
    tracer::Tracer,
    watch::Watch,
};
use crate::{
    ExecutionLimits,
    block::MovedPrecompiles,
    instructions::instruction_of,
    trace::{
        options::parse_go_duration,
        scripts::{ScriptSource, is_name, unknown_name},
    },
};

/// Options with checked types. Their values are checked only when there is something to trace, because the reference
/// reports "not found" before errors of the tracer.
#[derive(Debug, Default)]
pub(in crate::trace) struct ReferenceOptions {
    tracer: Option<String>,
    tracer_config: Option<Value>,
    timeout: Option<String>,
    struct_logger: StructLoggerOptions,
}

impl ReferenceOptions {
    /// Parses the JSON text of an options object; `null` means none. As in the reference, keys ignore case, and unknown
    /// ones are ignored.
    ///
    /// # Errors
    /// Code `-32602` if a member has the wrong type.
    pub(in crate::trace) fn parse(json: &str) -> Result<Self, Failure> {
        let members: Option<Map<String, Value>> = serde_json::from_str(json)
            .map_err(|error| Failure::invalid_params(format!("invalid trace options: {error}")))?;
        let mut options = Self::default();
        for (key, value) in members.unwrap_or_default() {
            if value.is_null() {
                continue;
            }
            let wrong = || Failure::invalid_params(format!("invalid trace options: {key} has a wrong type"));
            let flag = || value.as_bool().ok_or_else(wrong);
            let text = || value.as_str().map(|text| Some(text.to_owned())).ok_or_else(wrong);
            match key.to_ascii_lowercase().as_str() {
                "tracer" => options.tracer = text()?,
                "timeout" => options.timeout = text()?,
                "tracerconfig" => options.tracer_config = Some(value),
                "enablememory" => options.struct_logger.with_memory = flag()?,
                "disablestack" => options.struct_logger.without_stack = flag()?,
                "disablestorage" => options.struct_logger.without_storage = flag()?,
                "limit" => options.struct_logger.limit = value.as_i64().ok_or_else(wrong)?,
                _ => {}
            }
        }
        Ok(options)
    }

    /// Whether the tracer records calls and no steps.
    pub(in crate::trace) fn records_calls_only(&self) -> bool {
        self.tracer.as_deref() == Some("callTracer")
    }

    /// Time limit of a traced transaction.
    ///
    /// # Errors
    /// An invalid duration, with Go's text.
    pub(in crate::trace) fn timeout(&self, limits: &ExecutionLimits) -> Result<Duration, Failure> {
        let named = self.timeout.as_ref().filter(|_| self.tracer.is_some());
        let Some(named) = named else { return Ok(limits.trace_timeout) };
        Ok(parse_go_duration(named).map_err(Failure::server)?.min(limits.trace_timeout_max))
    }

    /// A new tracer; `scripts` starts those written in JavaScript.
    ///
    /// # Errors
    /// An unknown tracer, or an invalid configuration.
    pub(in crate::trace) fn watch(
        &self,
        precompiles: &MovedPrecompiles,
        scripts: impl FnOnce(ScriptSource<'_>) -> Result<Watch, Failure>,
    ) -> Result<Watch, Failure> {
        let tracer: Box<dyn Tracer> = match self.tracer.as_deref() {
            None => Box::new(StructLogger::new(self.struct_logger)),
            Some("callTracer") => Box::new(CallTracer::new(self.is_top_only()?)),
            Some("contractTracer") => Box::new(ContractTracer::new(self.wanted_instruction()?)),
            Some("callTracerLegacy") => Box::new(LegacyCallTracer::new(precompiles.clone())),
            Some("evmdisTracer") => Box::new(DisassemblyTracer::new()),
            Some("noopTracer") => Box::new(NoopTracer),
            Some("prestateTracer") => Box::new(PrestateTracer::default()),
            Some("4byteTracer") => Box::new(SelectorTracer::new(precompiles.clone(), false)),
            Some("4byteTracerLegacy") => Box::new(SelectorTracer::new(precompiles.clone(), true)),
            Some("opcountTracer") => Box::new(CountTracer::default()),
            Some("unigramTracer") => Box::new(SequenceTracer::new(SequenceLength::One)),
            Some("bigramTracer") => Box::new(SequenceTracer::new(SequenceLength::Two)),
            Some("trigramTracer") => Box::new(SequenceTracer::new(SequenceLength::Three)),
            Some(name) if is_name(name) => return Err(unknown_name(name, &NAMES)),
            // Scripts never see the configuration.
            Some(source) => return scripts(ScriptSource { source, config: "{}" }),
        };
        Ok(Watch::new(tracer, precompiles))
    }

    fn is_top_only(&self) -> Result<bool, Failure> {
        match self.configured("callTracerConfig", "onlyTopCall")? {
            None => Ok(false),
            Some(Value::Bool(is_top_only)) => Ok(*is_top_only),
            Some(other) => Err(wrong_member(other, "callTracerConfig.onlyTopCall", "bool")),
        }
    }

    fn wanted_instruction(&self) -> Result<Option<u8>, Failure> {
        let name = match self.configured("contractTracerConfig", "opCode")? {
            None => return Ok(None),
            Some(Value::String(name)) => name.as_str(),
            Some(other) => return Err(wrong_member(other, "contractTracerConfig.opCode", "string")),
        };
        if name.is_empty() {
            return Ok(None);
        }
        let undefined = || Failure::server(format!("opcode {name} not defined"));
        instruction_of(name).map(Some).ok_or_else(undefined)
    }

    /// A member of the tracer's own configuration.
    fn configured(&self, of: &str, member: &str) -> Result<Option<&Value>, Failure> {
        match &self.tracer_config {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(members)) => {
                let found = members.iter().find(|(key, _)| key.eq_ignore_ascii_case(member));
                Ok(found.map(|(_, value)| value).filter(|value| !value.is_null()))
            }
            Some(other) => {
                let kind = go_kind(other);
                Err(Failure::server(format!("json: cannot unmarshal {kind} into Go value of type native.{of}")))
            }
        }
    }
}

fn wrong_member(value: &Value, member: &str, wanted: &str) -> Failure {
    let kind = go_kind(value);
    Failure::server(format!("json: cannot unmarshal {kind} into Go struct field {member} of type {wanted}"))
}

/// The name of a JSON value's type in Go's decoder.
const fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The tracers by name.
const NAMES: [&str; 12] = [
    "callTracer",
    "callTracerLegacy",
    "contractTracer",
    "evmdisTracer",
    "noopTracer",
    "prestateTracer",
    "4byteTracer",
    "4byteTracerLegacy",
    "opcountTracer",
    "unigramTracer",
    "bigramTracer",
    "trigramTracer",
];

#[cfg(test)]
mod tests {
    use revm::primitives::hardfork::SpecId;

    use super::*;
    use crate::block::PrecompileSet;

    fn refusal(options: &str) -> String {
        let precompiles = MovedPrecompiles::new(PrecompileSet { standard: SpecId::BERLIN, extras: None });
        let scripts =
            |script: ScriptSource<'_>| Err(Failure::server(format!("script {} with {}", script.source, script.config)));
        let made = ReferenceOptions::parse(options).and_then(|options| options.watch(&precompiles, scripts));
        made.err().map(|failure| failure.message).unwrap_or_default()
    }

    #[test]
    fn every_named_tracer_of_the_reference_exists() {
        for name in NAMES {
            assert_eq!(refusal(&format!(r#"{{"Tracer":"{name}"}}"#)), "", "{name}");
        }
    }

    #[test]
    fn invalid_configurations_are_refused_with_gos_texts() {
        let cases = [
            (
                r#"{"tracer":"callTracer","tracerConfig":{"onlytopcall":"x"}}"#,
                "json: cannot unmarshal string into Go struct field callTracerConfig.onlyTopCall of type bool",
            ),
            (
                r#"{"tracer":"callTracer","tracerConfig":0}"#,
                "json: cannot unmarshal number into Go value of type native.callTracerConfig",
            ),
            (r#"{"tracer":"contractTracer","tracerConfig":{"opCode":"PUSH99"}}"#, "opcode PUSH99 not defined"),
        ];
        for (options, expected) in cases {
            assert_eq!(refusal(options), expected, "{options}");
        }
    }

    #[test]
    fn other_words_are_refused_with_the_names_that_exist_and_everything_else_is_a_script() {
        let refused = refusal(r#"{"tracer":"noSuchTracer"}"#);

        let wanted = "tracer \"noSuchTracer\" is not available: there are callTracer, callTracerLegacy, contractTracer, \
                      evmdisTracer, noopTracer, prestateTracer, 4byteTracer, 4byteTracerLegacy, opcountTracer, \
                      unigramTracer, bigramTracer, trigramTracer, the struct logger, and tracers written in JavaScript";
        assert_eq!(refused, wanted);
        for source in ["{}", "{", "1e30", "0x10", ""] {
            let options = serde_json::json!({ "tracer": source }).to_string();
            assert_eq!(refusal(&options), format!("script {source} with {{}}"));
        }
    }

    #[test]
    fn a_timeout_applies_only_with_a_named_tracer() {
        let limits = ExecutionLimits::default();
        let timeout = |options: &str| ReferenceOptions::parse(options).and_then(|options| options.timeout(&limits));

        assert_eq!(timeout(r#"{"timeout":"xyz"}"#), Ok(limits.trace_timeout));
        let refused = Failure::server("time: invalid duration \"xyz\"");
        assert_eq!(timeout(r#"{"tracer":"callTracer","timeout":"xyz"}"#), Err(refused));
        assert_eq!(timeout(r#"{"tracer":"callTracer","timeout":"1s"}"#), Ok(Duration::from_secs(1)));
    }
}
