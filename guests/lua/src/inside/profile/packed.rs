//! The frames of a process in two pieces of memory.
//!
//! A sample is often taken by the thread that is looked at. With memory for each text of each
//! frame, that would be some twenty pieces, which another thread frees.

use crate::inside::stacks::{self, SeenFrame};
use baton_observe::report::{Frame, Kind};
use std::ffi::c_int;

/// Frames, the innermost first. Coroutines follow each other as if one had called the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PackedFrames {
    /// The texts of all frames, one after the other: of each its source, what it is called as, and
    /// its name.
    texts: String,
    frames: Vec<PackedFrame>,
}

/// A frame without its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PackedFrame {
    /// The lengths of its texts, in bytes.
    source: usize,
    called_as: usize,
    name: usize,
    line: u32,
    defined: u32,
    kind: Kind,
    address: usize,
}

impl PackedFrames {
    /// The bytes of texts and the frames of most samples.
    const MOST_TEXTS: usize = 2048;
    const MOST_FRAMES: usize = 64;

    /// Those of the process of a record, at most `most` of each stack.
    pub(super) fn of_record(record: usize, most: c_int) -> PackedFrames {
        let mut frames = PackedFrames::default();
        frames.add(record, most);
        frames
    }

    /// Forgets all frames, and has memory for those of another process.
    pub(super) fn make_room(&mut self) {
        self.texts.clear();
        self.frames.clear();
        self.texts.reserve(Self::MOST_TEXTS);
        self.frames.reserve(Self::MOST_FRAMES);
    }

    /// Adds those of the process of a record, at most `most` of each stack.
    pub(super) fn add(&mut self, record: usize, most: c_int) {
        stacks::visit_frames(record, most, &mut |seen| self.push(seen));
    }

    fn push(&mut self, seen: &SeenFrame<'_>) {
        let mut text = |text: &str| {
            self.texts.push_str(text);
            text.len()
        };
        let frame = PackedFrame {
            source: text(&seen.source),
            called_as: text(&seen.called_as),
            name: text(&seen.name),
            line: seen.line,
            defined: seen.defined,
            kind: seen.kind,
            address: seen.address,
        };
        self.frames.push(frame);
    }

    /// The name by which the innermost function was called; empty if that is not known.
    pub(super) fn innermost_name(&self) -> &str {
        let Some(frame) = self.frames.first() else {
            return "";
        };
        let begin = frame.source + frame.called_as;
        &self.texts[begin..begin + frame.name]
    }

    /// As they are sent.
    pub(super) fn unpack(&self) -> Vec<Frame> {
        let mut texts = self.texts.as_str();
        let mut text = |size: usize| {
            let (text, rest) = texts.split_at(size);
            texts = rest;
            text.to_owned()
        };
        let unpacked = self.frames.iter().map(|frame| Frame {
            source: text(frame.source),
            called_as: text(frame.called_as),
            name: text(frame.name),
            line: frame.line,
            defined: frame.defined,
            kind: frame.kind,
            address: frame.address,
            ..Frame::default()
        });
        unpacked.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn seen(source: &'static str, name: &'static str, line: u32) -> SeenFrame<'static> {
        SeenFrame {
            source: Cow::Borrowed(source),
            called_as: Cow::Borrowed("method"),
            name: Cow::Borrowed(name),
            line,
            defined: 1,
            kind: Kind::Guest,
            address: 0,
        }
    }

    #[test]
    fn frames_are_unpacked_as_they_were_seen() {
        let mut packed = PackedFrames::default();
        packed.push(&seen("a.lua", "größer", 7));
        packed.push(&seen("", "", 0));
        packed.push(&seen("b.lua", "b", 9));
        let unpacked = packed.unpack();
        let texts = unpacked
            .iter()
            .map(|frame| (frame.source.as_str(), frame.name.as_str(), frame.line));
        assert!(texts.eq([("a.lua", "größer", 7), ("", "", 0), ("b.lua", "b", 9)]));
        assert!(unpacked.iter().all(|frame| frame.called_as == "method"));
        assert_eq!(packed.innermost_name(), "größer");
    }

    #[test]
    fn memory_is_used_again_for_other_frames() {
        let mut packed = PackedFrames::default();
        packed.push(&seen("a.lua", "a", 7));
        packed.make_room();
        assert_eq!(packed, PackedFrames::default());
        assert_eq!(packed.innermost_name(), "");
        packed.push(&seen("b.lua", "b", 9));
        assert_eq!(packed.unpack()[0].name, "b");
    }
}
