//! The numbers by which the client names frames, variables and texts of chunks. Those of a process
//! are valid until it goes on.

use std::collections::HashMap;

/// What a reference leads to.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) process: u64,
    pub(super) frame: i64,
    pub(super) place: Place,
    /// An expression for it.
    pub(super) expression: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Variables of a frame: "locals", "upvalues", "varargs" or "globals".
    Scope(&'static str),
    /// What is in a value, by its slot.
    Value(i64),
}

/// All numbers in use.
#[derive(Default)]
pub(super) struct References {
    last: i64,
    frames: HashMap<i64, (u64, i64)>,
    variables: HashMap<i64, Reference>,
    chunks: Vec<String>,
}

impl References {
    fn next(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    pub(super) fn add_frame(&mut self, process: u64, index: i64) -> i64 {
        let id = self.next();
        self.frames.insert(id, (process, index));
        id
    }

    /// The process and the index of a frame.
    pub(super) fn frame(&self, id: i64) -> Result<(u64, i64), String> {
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

    /// Forgets what belongs to a process.
    pub(super) fn forget(&mut self, process: u64) {
        self.frames.retain(|_, frame| frame.0 != process);
        self.variables
            .retain(|_, reference| reference.process != process);
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
