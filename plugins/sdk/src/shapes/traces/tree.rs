//! A tree of calls from a list of them, without recursion: the tree is as deep as the EVM allows.

use std::{iter::Peekable, vec};

use super::JsonWriter;

/// A call in a tree.
pub(super) trait TreeFrame {
    /// What the JSON of all calls depends on.
    type Form;

    /// Number of calls around it.
    fn depth(&self) -> u32;

    /// Opens the object, and writes the members before the inner calls.
    fn begin(&self, json: &mut JsonWriter, form: &Self::Form);

    /// Writes the members after the inner calls, and closes the object.
    fn end(&self, json: &mut JsonWriter, form: &Self::Form);
}

/// A tree while it is written.
pub(super) struct TreeText<F: TreeFrame> {
    form: F::Form,
    /// In the order in which they began.
    frames: Peekable<vec::IntoIter<F>>,
    /// Calls whose inner calls are being written, outermost first.
    open: Vec<F>,
}

impl<F: TreeFrame> TreeText<F> {
    pub(super) fn new(frames: Vec<F>, form: F::Form) -> Self {
        Self { form, frames: frames.into_iter().peekable(), open: Vec::new() }
    }

    /// Writes until the text has `end` bytes. Returns whether the tree is complete.
    pub(super) fn write(&mut self, json: &mut JsonWriter, end: usize) -> bool {
        while json.len() < end {
            let Some(frame) = self.frames.next() else {
                self.close(json, 0);
                return true;
            };
            self.close(json, frame.depth());
            frame.begin(json, &self.form);
            if self.frames.peek().is_some_and(|next| next.depth() > frame.depth()) {
                json.key("calls").begin_list();
                self.open.push(frame);
            } else {
                frame.end(json, &self.form);
            }
        }
        false
    }

    /// Ends the open calls that are not around a call of this depth.
    fn close(&mut self, json: &mut JsonWriter, depth: u32) {
        while let Some(caller) = self.open.pop_if(|caller| caller.depth() >= depth) {
            json.end_list();
            caller.end(json, &self.form);
        }
    }
}
