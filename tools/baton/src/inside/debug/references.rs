//! The numbers by which the client names frames, variables and texts of chunks. Those of a process
//! are valid until it goes on; if another one has answered for it, until any goes on.

use std::collections::HashMap;

/// A frame of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Frame {
    pub(super) process: u64,
    /// From the innermost one, 0; -1: none.
    pub(super) index: i64,
    /// The program's mark of it: if that has changed, the process has run, and the frame is gone.
    pub(super) mark: u64,
}

/// What a reference leads to.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) frame: Frame,
    pub(super) place: Place,
    /// An expression for it.
    pub(super) expression: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Variables of a frame: "locals", "upvalues", "varargs", "globals" or "error".
    Scope(&'static str),
    /// What is in a value, by its slot.
    Value(i64),
}

/// All numbers in use.
#[derive(Default)]
pub(super) struct References {
    last: i64,
    frames: HashMap<i64, Frame>,
    /// The same the other way round: a frame keeps its number.
    numbers: HashMap<Frame, i64>,
    variables: HashMap<i64, Reference>,
    chunks: Vec<String>,
}

impl References {
    fn next(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    pub(super) fn add_frame(&mut self, frame: Frame) -> i64 {
        if let Some(&id) = self.numbers.get(&frame) {
            return id;
        }
        let id = self.next();
        self.frames.insert(id, frame);
        self.numbers.insert(frame, id);
        id
    }

    pub(super) fn frame(&self, id: i64) -> Result<Frame, String> {
        let frame = self.frames.get(&id).copied();
        frame.ok_or_else(|| "this frame is gone: its process has gone on".to_owned())
    }

    pub(super) fn add(&mut self, reference: Reference) -> i64 {
        let id = self.next();
        self.variables.insert(id, reference);
        id
    }

    pub(super) fn get(&self, id: i64) -> Result<Reference, String> {
        let reference = self.variables.get(&id).cloned();
        reference.ok_or_else(|| "this value is gone: its process has gone on".to_owned())
    }

    /// Forgets what belongs to processes that are not kept.
    pub(super) fn retain(&mut self, keeps: impl Fn(u64) -> bool) {
        self.frames.retain(|_, frame| keeps(frame.process));
        self.numbers.retain(|frame, _| keeps(frame.process));
        self.variables
            .retain(|_, reference| keeps(reference.frame.process));
    }

    /// Forgets all but the texts of chunks.
    pub(super) fn clear(&mut self) {
        self.retain(|_| false);
    }

    /// The number of the text of a chunk that has no file, from 1.
    pub(super) fn add_chunk(&mut self, text: &str) -> usize {
        if let Some(at) = self.chunks.iter().position(|chunk| chunk == text) {
            return at + 1;
        }
        self.chunks.push(text.to_owned());
        self.chunks.len()
    }

    pub(super) fn chunk(&self, number: usize) -> Option<&str> {
        let index = number.checked_sub(1)?;
        self.chunks.get(index).map(String::as_str)
    }
}
