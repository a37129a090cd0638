//! The last switches of a recorded run, with texts for people.
//!
//! They are a ring, since a run may have millions of switches. Marked switches are kept apart: in a
//! directed run, those by a given decision, and the next ones. The texts come from the guest, and
//! are cut to fit. Nothing here allocates: memory that a recorded run alone allocates would change
//! the addresses of the guest's objects, and with them the run.

use super::{MARK_COUNT, Recording, SWITCH_COUNT, SWITCHES};
use std::fmt;

/// How many of the last switches are kept.
const KEPT: u64 = 64;

/// The most switches that are marked.
const MOST_MARKS: usize = 32;

/// The words of a switch: cause and flags, its index, and its texts.
const SWITCH: usize = 2 + PARTS * TEXT;

/// The words of a text, and its longest length in bytes. The first word is the length.
const TEXT: usize = 1 + LONGEST / 8;
const LONGEST: usize = 192;

/// How many texts a switch has.
const PARTS: usize = 4;

/// The place of the marked switches.
const MARKED: usize = SWITCHES + KEPT as usize * SWITCH;

pub(super) const WORDS: usize = (KEPT as usize + MOST_MARKS) * SWITCH;

/// A flag beside the cause: the next process ran before its turn.
const BEFORE_ITS_TURN: u64 = 1 << 8;

/// Why a process was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SwitchCause {
    /// The simulation has preempted it.
    Preempted = 1,
    /// In a directed run: it ran for very long while an equal was runnable.
    SliceOver = 2,
    /// A more urgent process can run.
    Outranked = 3,
    /// It gives way before a long piece of work.
    StepsAside = 4,
    /// It yields.
    Yields = 5,
    /// It waits.
    Waits = 6,
    /// It is suspended.
    Suspended = 7,
    /// It has ended.
    Ended = 8,
}

impl SwitchCause {
    fn from_byte(byte: u8) -> SwitchCause {
        use SwitchCause::*;
        let known = [
            Preempted, SliceOver, Outranked, StepsAside, Yields, Waits, Suspended,
        ];
        let named = known.into_iter().find(|&cause| cause as u8 == byte);
        named.unwrap_or(Ended)
    }
}

/// A text of a switch.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Part {
    Process,
    Place,
    WaitsFor,
    Next,
}

/// A switch from one process to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Its number, from 1.
    pub number: u64,
    /// Why the process was left.
    pub cause: SwitchCause,
    /// How the guest names the process that was left.
    pub process: String,
    /// Where it was left, such as a line; empty if that is not known.
    pub place: String,
    /// What it waits for; empty if it does not.
    pub waits_for: String,
    /// The next process; empty if there was none any more.
    pub next: String,
    /// Whether that process was chosen before its turn.
    pub is_before_its_turn: bool,
}

impl Recording {
    /// The last switches of the last run, at most `most` and at most 64.
    #[must_use]
    pub fn last_switches(&self, most: usize) -> Vec<Switch> {
        let count = self.switch_count();
        let most = (most as u64).min(KEPT).min(count);
        (count - most..count)
            .map(|index| self.switch_at(place_of(index)))
            .collect()
    }

    /// The first switches of the last run that were marked, in their order.
    #[must_use]
    pub fn marked_switches(&self) -> Vec<Switch> {
        let count = (self.read(MARK_COUNT) as usize).min(MOST_MARKS);
        (0..count)
            .map(|index| self.switch_at(MARKED + SWITCH * index))
            .collect()
    }

    /// How many switches the last run made.
    #[must_use]
    pub fn switch_count(&self) -> u64 {
        self.read(SWITCH_COUNT)
    }

    fn switch_at(&self, place: usize) -> Switch {
        let first = self.read(place);
        let text = |part| self.text(place, part);
        Switch {
            number: self.read(place + 1) + 1,
            cause: SwitchCause::from_byte(first as u8),
            process: text(Part::Process),
            place: text(Part::Place),
            waits_for: text(Part::WaitsFor),
            next: text(Part::Next),
            is_before_its_turn: first & BEFORE_ITS_TURN != 0,
        }
    }

    /// Begins a switch. Its texts follow.
    pub(crate) fn begin_switch(&self, cause: SwitchCause) {
        let index = self.switch_count();
        let place = place_of(index);
        self.write(place, cause as u64);
        self.write(place + 1, index);
        for part in 0..PARTS {
            self.write(place + 2 + part * TEXT, 0);
        }
        self.write(SWITCH_COUNT, index + 1);
    }

    /// Notes that the next process of the last switch was chosen before its turn.
    pub(crate) fn note_order(&self) {
        if let Some(last) = self.switch_count().checked_sub(1) {
            let place = place_of(last);
            self.write(place, self.read(place) | BEFORE_ITS_TURN);
        }
    }

    /// Marks the last switch, whose texts are complete.
    pub(crate) fn mark(&self) {
        let marks = self.read(MARK_COUNT) as usize;
        let last = self.switch_count().checked_sub(1);
        let Some(last) = last.filter(|_| marks < MOST_MARKS) else {
            return;
        };
        for word in 0..SWITCH {
            let value = self.read(place_of(last) + word);
            self.write(MARKED + SWITCH * marks + word, value);
        }
        self.write(MARK_COUNT, marks as u64 + 1);
    }

    /// Writes a text of the last switch.
    pub(crate) fn write_text(
        &self,
        part: Part,
        write: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result,
    ) {
        let Some(last) = self.switch_count().checked_sub(1) else {
            return;
        };
        let mut text = Text {
            bytes: [0; LONGEST],
            length: 0,
        };
        // An error means that the text was cut.
        let _ = write(&mut text);
        let place = place_of(last) + 2 + part as usize * TEXT;
        self.write(place, text.length as u64);
        for (index, bytes) in text.bytes.chunks_exact(8).enumerate() {
            let word = bytes.try_into().map_or(0, u64::from_ne_bytes);
            self.write(place + 1 + index, word);
        }
    }

    fn text(&self, switch: usize, part: Part) -> String {
        let place = switch + 2 + part as usize * TEXT;
        let words = (1..TEXT).map(|word| self.read(place + word).to_ne_bytes());
        let bytes: Vec<u8> = words.flatten().collect();
        let length = (self.read(place) as usize).min(LONGEST);
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }
}

fn place_of(index: u64) -> usize {
    SWITCHES + (index % KEPT) as usize * SWITCH
}

/// A text that is cut at its longest length.
struct Text {
    bytes: [u8; LONGEST],
    length: usize,
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LONGEST - self.length;
        let mut fits = text.len().min(room);
        while !text.is_char_boundary(fits) {
            fits -= 1;
        }
        self.bytes[self.length..self.length + fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.length += fits;
        if fits == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording() -> Recording {
        let (_, recording) = Recording::new().expect("there is memory");
        recording.prepare(None);
        recording
    }

    #[test]
    fn a_switch_comes_back_with_its_texts() {
        let recording = recording();
        recording.begin_switch(SwitchCause::Waits);
        recording.write_text(Part::Process, |text| write!(text, "process {}", 7));
        recording.write_text(Part::WaitsFor, |text| write!(text, "for the mutex 'Größe'"));
        recording.write_text(Part::Next, |text| text.write_str("process 2"));
        recording.note_order();
        let switch = Switch {
            number: 1,
            cause: SwitchCause::Waits,
            process: "process 7".into(),
            place: String::new(),
            waits_for: "for the mutex 'Größe'".into(),
            next: "process 2".into(),
            is_before_its_turn: true,
        };
        assert_eq!(recording.last_switches(10), [switch]);
    }

    #[test]
    fn the_last_switches_are_kept() {
        let recording = recording();
        for number in 1..=1000 {
            recording.begin_switch(SwitchCause::Yields);
            recording.write_text(Part::Process, |text| write!(text, "{number}"));
        }
        let numbers = |most| {
            let switches = recording.last_switches(most).into_iter();
            let numbers = switches.map(|switch| {
                assert_eq!(switch.number.to_string(), switch.process);
                switch.number
            });
            numbers.collect::<Vec<_>>()
        };
        assert_eq!(numbers(3), [998, 999, 1000]);
        assert_eq!(numbers(1000), (937..=1000).collect::<Vec<_>>());
        recording.prepare(None);
        assert_eq!(numbers(3), [0; 0]);
    }

    #[test]
    fn the_first_marked_switches_are_kept_whatever_follows() {
        let recording = recording();
        for number in 1..=1000 {
            recording.begin_switch(SwitchCause::Yields);
            recording.write_text(Part::Next, |text| write!(text, "{number}"));
            if number % 7 == 0 {
                recording.mark();
            }
        }
        let marked = recording.marked_switches();
        let shown: Vec<_> = marked.iter().map(|s| (s.number, s.next.clone())).collect();
        let expected: Vec<_> = (1..=32).map(|n| (7 * n, (7 * n).to_string())).collect();
        assert_eq!(shown, expected);
        recording.prepare(None);
        assert!(recording.marked_switches().is_empty());
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let recording = recording();
        recording.begin_switch(SwitchCause::Ended);
        recording.write_text(Part::Place, |text| {
            text.write_str("x")?;
            text.write_str(&"ö".repeat(200))
        });
        let place = recording.last_switches(1).remove(0).place;
        assert_eq!(place, format!("x{}", "ö".repeat(95)));
    }

    #[test]
    fn every_cause_survives() {
        for byte in 1..=8 {
            assert_eq!(SwitchCause::from_byte(byte) as u8, byte);
        }
    }
}
