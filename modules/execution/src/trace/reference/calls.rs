//! `callTracer`: frames nested in their callers.

use serde_json::Value;

use super::{
    accounts::Accounts,
    tracer::{FrameEnd, FrameStart, REVERTED, Run, Tracer, TracerFailure},
};

/// Writes a frame when it ends; its caller keeps the text until its own end.
#[derive(Default)]
pub(super) struct CallTracer {
    is_top_only: bool,
    /// Open frames, newest last.
    frames: Vec<Frame>,
    finished: Option<String>,
    held: usize,
}

struct Frame {
    start: FrameStart,
    /// JSON texts of inner frames, separated by commas.
    calls: String,
}

impl CallTracer {
    pub(super) fn new(is_top_only: bool) -> Self {
        Self { is_top_only, ..Self::default() }
    }

    fn open(&mut self, start: &FrameStart) {
        self.held += 2 * start.input.len();
        self.frames.push(Frame { start: start.clone(), calls: String::new() });
    }
}

impl Tracer for CallTracer {
    fn start(&mut self, frame: &FrameStart) {
        self.open(frame);
    }

    fn enter(&mut self, frame: &FrameStart) {
        if !self.is_top_only {
            self.open(frame);
        }
    }

    fn exit(&mut self, end: &FrameEnd) {
        if self.is_top_only || self.frames.len() < 2 {
            return;
        }
        let Some(frame) = self.frames.pop() else { return };
        let text = frame.text(end, false);
        let Some(caller) = self.frames.last_mut() else { return };
        if !caller.calls.is_empty() {
            caller.calls.push(',');
        }
        caller.calls.push_str(&text);
        self.held += text.len();
    }

    fn end(&mut self, end: &FrameEnd) {
        self.finished = self.frames.pop().map(|frame| frame.text(end, true));
    }

    fn held_bytes(&self) -> usize {
        self.held
    }

    fn result(&mut self, _run: &Run<'_>, _accounts: &mut dyn Accounts) -> Result<String, TracerFailure> {
        // A creation that is refused at once leaves an empty frame.
        const NOTHING: &str = r#"{"type":"","from":"","gas":"","gasUsed":"","input":""}"#;
        Ok(self.finished.take().unwrap_or_else(|| NOTHING.to_owned()))
    }
}

impl Frame {
    fn text(&self, end: &FrameEnd, is_outermost: bool) -> String {
        let FrameStart { kind, from, to, input, gas, value } = &self.start;
        let mut text = String::with_capacity(320 + 2 * (input.len() + end.output.len()) + self.calls.len());
        text.push_str(&format!("{{\"type\":\"{}\",\"from\":\"{from:#x}\"", kind.name()));
        let has_made_nothing = end.error.is_some() && kind.is_creation() && !is_outermost;
        if !has_made_nothing {
            text.push_str(&format!(",\"to\":\"{to:#x}\""));
        }
        if let Some(value) = value {
            text.push_str(&format!(",\"value\":\"{value:#x}\""));
        }
        let gas_used = end.gas_used;
        text.push_str(&format!(",\"gas\":\"{gas:#x}\",\"gasUsed\":\"{gas_used:#x}\",\"input\":\"{input}\""));
        let shows_output = match &end.error {
            None => true,
            Some(error) => is_outermost && error == REVERTED && !end.output.is_empty(),
        };
        if shows_output {
            text.push_str(&format!(",\"output\":\"{}\"", end.output));
        }
        if let Some(error) = &end.error {
            text.push_str(&format!(",\"error\":{}", Value::from(error.as_str())));
        }
        if !self.calls.is_empty() {
            text.push_str(&format!(",\"calls\":[{}]", self.calls));
        }
        text.push('}');
        text
    }
}
