//! `callTracer`: the tree of calls.

use tenon_api::messages::{CallFrame, TraceResult};
use tenon_traces::{Accounts, FrameEnd, FrameStart, REVERTED, Run, Tracer, TracerFailure};

/// Lists calls in the order in which they begin.
#[derive(Default)]
pub(super) struct CallTracer {
    is_top_only: bool,
    frames: Vec<CallFrame>,
    /// Places of the open frames, newest last.
    open: Vec<usize>,
    held: usize,
}

impl CallTracer {
    pub(super) fn new(is_top_only: bool) -> Self {
        Self { is_top_only, ..Self::default() }
    }

    fn open(&mut self, start: &FrameStart) {
        let FrameStart { kind, from, to, input, gas, value } = start.clone();
        // The list doubles when it is full, and holds both sizes meanwhile.
        self.held += input.len() + 3 * size_of::<CallFrame>();
        let depth = u32::try_from(self.open.len()).unwrap_or(u32::MAX);
        self.open.push(self.frames.len());
        self.frames.push(CallFrame {
            depth,
            kind,
            from,
            to: Some(to),
            value,
            gas,
            gas_used: 0,
            gas_by_kind: None,
            input,
            output: None,
            error: None,
            revert_reason: None,
            logs: Vec::new(),
        });
    }

    fn close(&mut self, end: &FrameEnd) {
        let Some(frame) = self.open.pop().and_then(|place| self.frames.get_mut(place)) else { return };
        let is_outermost = self.open.is_empty();
        frame.gas_used = end.gas_used;
        if end.error.is_some() && frame.kind.is_creation() && !is_outermost {
            frame.to = None;
        }
        let shows_output = match &end.error {
            None => true,
            Some(error) => is_outermost && error == REVERTED && !end.output.is_empty(),
        };
        frame.output = shows_output.then(|| end.output.clone());
        frame.error.clone_from(&end.error);
        self.held += frame.output.as_ref().map_or(0, |output| output.len()) + end.error.as_ref().map_or(0, String::len);
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
        if !self.is_top_only && self.open.len() > 1 {
            self.close(end);
        }
    }

    fn end(&mut self, end: &FrameEnd) {
        self.close(end);
    }

    fn held_bytes(&self) -> usize {
        self.held
    }

    fn result(&mut self, _run: &Run<'_>, _accounts: &mut dyn Accounts) -> Result<TraceResult, TracerFailure> {
        Ok(TraceResult::Calls(std::mem::take(&mut self.frames)))
    }
}
