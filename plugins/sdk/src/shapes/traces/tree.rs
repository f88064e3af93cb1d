//! A tree of calls from a list of them, without recursion: the tree is as deep as the EVM allows.

use std::{iter::Peekable, vec};

use tenon_api::messages::TracedLog;

use super::JsonWriter;

/// A call in a tree.
pub(super) trait TreeFrame {
    /// Options that apply to the JSON of all calls.
    type Form;

    /// Number of enclosing calls.
    fn depth(&self) -> u32;

    /// Opens the object, and writes the first members.
    fn begin(&self, json: &mut JsonWriter, form: &Self::Form);

    /// The member `logs` after the first members.
    fn logs_before_calls(&self) -> &[TracedLog] {
        &[]
    }

    /// Writes the members between these logs and the inner calls.
    fn before_calls(&self, _json: &mut JsonWriter) {}

    /// The member `logs` after the inner calls.
    fn logs_after_calls(&self, _form: &Self::Form) -> &[TracedLog] {
        &[]
    }

    /// Writes the last members, and closes the object.
    fn end(&self, json: &mut JsonWriter, form: &Self::Form);
}

/// A tree while it is written.
pub(super) struct TreeText<F: TreeFrame> {
    form: F::Form,
    /// In the order in which they began.
    frames: Peekable<vec::IntoIter<F>>,
    /// Calls whose inner calls are being written, outermost first.
    open: Vec<F>,
    current: Option<Current<F>>,
}

/// A call whose logs are being written.
struct Current<F> {
    frame: F,
    place: LogsPlace,
    written: usize,
}

#[derive(Clone, Copy)]
enum LogsPlace {
    BeforeCalls,
    AfterCalls,
}

impl<F: TreeFrame> TreeText<F> {
    pub(super) fn new(frames: Vec<F>, form: F::Form) -> Self {
        Self { form, frames: frames.into_iter().peekable(), open: Vec::new(), current: None }
    }

    /// Writes until the text has `end` bytes. Returns whether the tree is complete.
    pub(super) fn write(&mut self, json: &mut JsonWriter, end: usize) -> bool {
        while json.len() < end {
            if let Some(mut current) = self.current.take() {
                if !current.write_logs(json, &self.form, end) {
                    self.current = Some(current);
                    return false;
                }
                self.current = self.after_logs(json, current);
                continue;
            }
            let depth = self.frames.peek().map(TreeFrame::depth);
            // Open calls that do not enclose the next one end before it.
            if let Some(caller) = self.open.pop_if(|caller| depth.is_none_or(|depth| caller.depth() >= depth)) {
                json.end_list();
                self.current = Some(Current::new(caller, LogsPlace::AfterCalls));
                continue;
            }
            let Some(frame) = self.frames.next() else { return true };
            frame.begin(json, &self.form);
            self.current = Some(Current::new(frame, LogsPlace::BeforeCalls));
        }
        false
    }

    /// Continues a call after one of its lists of logs: ends the call, opens its list of inner calls, or, if it has
    /// none, returns it for its second list of logs.
    fn after_logs(&mut self, json: &mut JsonWriter, Current { frame, place, .. }: Current<F>) -> Option<Current<F>> {
        match place {
            LogsPlace::AfterCalls => frame.end(json, &self.form),
            LogsPlace::BeforeCalls => {
                frame.before_calls(json);
                if self.frames.peek().is_none_or(|next| next.depth() <= frame.depth()) {
                    return Some(Current::new(frame, LogsPlace::AfterCalls));
                }
                json.key("calls").begin_list();
                self.open.push(frame);
            }
        }
        None
    }
}

impl<F: TreeFrame> Current<F> {
    const fn new(frame: F, place: LogsPlace) -> Self {
        Self { frame, place, written: 0 }
    }

    /// Writes the member `logs`, if there are any, until the text has `end` bytes. Returns whether it is complete.
    fn write_logs(&mut self, json: &mut JsonWriter, form: &F::Form, end: usize) -> bool {
        let logs = match self.place {
            LogsPlace::BeforeCalls => self.frame.logs_before_calls(),
            LogsPlace::AfterCalls => self.frame.logs_after_calls(form),
        };
        if logs.is_empty() {
            return true;
        }
        if self.written == 0 {
            json.key("logs").begin_list();
        }
        // Writes at least one log per call, so that `written` is 0 only before the list is begun.
        for log in &logs[self.written..] {
            write_log(json, log);
            self.written += 1;
            if json.len() >= end && self.written < logs.len() {
                return false;
            }
        }
        json.end_list();
        true
    }
}

fn write_log(json: &mut JsonWriter, log: &TracedLog) {
    json.begin_object();
    json.key("address").data(log.address);
    json.key("topics").begin_list();
    log.topics.iter().for_each(|topic| json.data(topic));
    json.end_list();
    json.key("data").data(&log.data);
    json.key("position").quantity(log.position);
    json.key("index").quantity(log.index);
    json.end_object();
}
