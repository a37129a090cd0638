//! Recorded and directed runs: writes the decisions of a simulated run down, or makes given ones.
//! See [`crate::recording`].
//!
//! In a recorded run the guest asks at every step, so that the steps of each process are counted. A
//! safepoint is due at the same steps as in a run that is not recorded, and random numbers are
//! drawn in the same order. So a recorded run is the run of its seed. A directed run draws them,
//! too, and does not use them: with all decisions of a recorded run it is the same run again.
//!
//! Nothing here allocates, since that would change the addresses of the guest's objects.

use crate::recording::{DecisionKind, Part, Point, Recording, RunDecision, SwitchCause};
use crate::sched::{ProcessId, State, ThreadNames, Wording, write_process, write_wait};
use crate::vm::Inner;

/// In a directed run, a process gives way after this many steps, if an equal is runnable: a second
/// of virtual time. So a process that waits in a loop for another one does not do so for ever.
const MOST_STEPS: u64 = 1_000_000;

/// Selects are recorded modulo this number, which all numbers up to 16 divide.
const MOST_CASES: u64 = 720_720;

/// In a directed run, so many switches are marked from each given decision on.
const MARKED_SWITCHES: u8 = 4;

/// The state of a recorded run.
#[derive(Debug)]
pub(in crate::vm) struct Recorder {
    recording: Recording,
    wording: &'static Wording,
    /// Steps since the last safepoint by random numbers, and until the next one.
    counted: u32,
    due: u32,
    /// Steps by which the clock has not been advanced yet.
    unseen: u32,
    /// Steps since the last switch, or the last end of a slice.
    run: u64,
    /// Where the process is that ran last.
    point: Point,
    /// Why it is left, if it is left now.
    cause: SwitchCause,
    /// The slice of the running process ends at its next safepoint.
    ends_slice: bool,
    /// The next process was chosen from several, or before its turn in a directed run.
    has_chosen: bool,
    /// The last switch has no next process yet.
    awaits_next: bool,
    /// How many of the next switches are marked.
    marks: u8,
}

/// What a step of a recorded run leads to.
pub(super) enum StepOutcome {
    /// Nothing.
    Plain,
    /// A safepoint, after this many steps.
    Safepoint {
        passed: u32,
        /// Steps since random numbers were drawn last; `None` if none are to be drawn now.
        drawn_after: Option<u32>,
    },
}

impl Recorder {
    pub(super) fn new(recording: Recording, wording: &'static Wording) -> Recorder {
        let point = Point {
            process: 0,
            step: 0,
            again: 0,
        };
        Recorder {
            recording,
            wording,
            counted: 0,
            due: 0,
            unseen: 0,
            run: 0,
            point,
            cause: SwitchCause::Yields,
            ends_slice: false,
            has_chosen: false,
            awaits_next: false,
            marks: 0,
        }
    }

    /// Counts steps of the running process.
    pub(super) fn count(&mut self, current: Option<ProcessId>, steps: u32) -> StepOutcome {
        self.counted += steps;
        self.unseen += steps;
        self.run += u64::from(steps);
        if let Some(current) = current {
            self.point = self.recording.count(current, steps);
        }
        (self.ends_slice, self.has_chosen) = (false, false);
        if self.recording.is_directed() {
            let preempts = self
                .recording
                .given(self.point, DecisionKind::Preempt)
                .is_some();
            self.ends_slice = preempts || self.run >= MOST_STEPS;
            if self.ends_slice {
                self.run = 0;
            }
            self.cause = match preempts {
                true => SwitchCause::Preempted,
                false => SwitchCause::SliceOver,
            };
        }
        let is_due = self.counted >= self.due;
        if !is_due && !self.ends_slice {
            return StepOutcome::Plain;
        }
        StepOutcome::Safepoint {
            passed: std::mem::take(&mut self.unseen),
            drawn_after: is_due.then(|| std::mem::take(&mut self.counted)),
        }
    }

    /// Takes what random numbers have decided: the steps until the next safepoint, and whether the
    /// slice ends now.
    pub(super) fn set_drawn(&mut self, ends_slice: bool, due: u32) {
        self.due = due;
        if !self.recording.is_directed() {
            self.ends_slice = ends_slice;
            self.cause = SwitchCause::Preempted;
        }
    }

    /// Whether the slice of the running process ends now.
    pub(super) fn ends_slice(&self) -> bool {
        self.ends_slice
    }

    /// The process that was given to run next; `None` if none was, or random numbers decide.
    fn given_next(&self) -> Option<u32> {
        let kind = match self.ends_slice {
            true => DecisionKind::Preempt,
            false => DecisionKind::Order,
        };
        self.recording.given(self.point, kind)
    }
}

impl Inner {
    /// Gives a new process its number, in a recorded run.
    #[cold]
    pub(in crate::vm) fn number_process(&mut self, process: ProcessId) {
        if let Some(recorder) = &self.recorder {
            recorder.recording.number(process);
        }
    }

    /// Prepares a choice among equals. `me` is the process that may be left, if it lives, and
    /// `cause` why. `before` is the choice by a random number, of several. Returns the choice.
    pub(super) fn record_choice(
        &mut self,
        me: Option<ProcessId>,
        cause: Option<SwitchCause>,
        before: Option<usize>,
    ) -> Option<usize> {
        let Some(recorder) = &mut self.recorder else {
            return before;
        };
        if let Some(me) = me {
            recorder.point = recorder.recording.point_of(me);
        }
        match cause {
            Some(SwitchCause::Preempted) if recorder.ends_slice => {}
            Some(SwitchCause::Preempted) => recorder.cause = SwitchCause::StepsAside,
            Some(cause) => {
                recorder.cause = cause;
                recorder.ends_slice = false;
            }
            None => {}
        }
        if !recorder.recording.is_directed() {
            recorder.has_chosen = before.is_some();
            return before;
        }
        // At a safepoint, the process usually continues, and an order is for a later switch.
        let is_left = cause != Some(SwitchCause::Preempted)
            || recorder.ends_slice
            || self.sched.current_should_yield();
        let given = recorder.given_next().filter(|_| is_left);
        let recording = recorder.recording;
        let place = given.filter(|_| before.is_some()).and_then(|number| {
            self.sched
                .shuffle_choices()
                .position(|process| recording.number_of(process) == number)
        });
        if let Some(recorder) = &mut self.recorder {
            recorder.has_chosen = place.is_some_and(|place| place > 0);
        }
        place
    }

    /// Notes why the running process is left, if it is.
    #[cold]
    pub(in crate::vm) fn note_cause(&mut self, cause: SwitchCause) {
        if let Some(recorder) = &mut self.recorder {
            recorder.cause = cause;
            recorder.ends_slice = false;
        }
    }

    /// Records that `from` is left, and that `to` runs next, if that is known already.
    #[cold]
    pub(in crate::vm) fn record_left(&mut self, from: ProcessId, to: Option<ProcessId>) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        recorder.cause = match self.sched.state(from) {
            State::Waiting | State::Sleeping => SwitchCause::Waits,
            State::Suspended => SwitchCause::Suspended,
            State::Dead => SwitchCause::Ended,
            State::Running | State::Runnable | State::Foreign => recorder.cause,
        };
        let (recording, wording) = (recorder.recording, recorder.wording);
        recorder.point = recording.point_of(from);
        recorder.run = 0;
        recorder.awaits_next = true;
        recording.begin_switch(recorder.cause);
        recording.write_text(Part::Process, |text| {
            write_process(&self.sched, wording, from, text)
        });
        if recorder.cause != SwitchCause::Ended {
            recording.write_text(Part::Place, |text| match self.sched.user_data(from) {
                Some(user_data) => (wording.place)(user_data, text),
                None => Ok(()),
            });
            // The names of native threads are told where they matter, in the report of a deadlock.
            recording.write_text(Part::WaitsFor, |text| {
                write_wait(&self.sched, wording, &ThreadNames::new(), from, text)
            });
        }
        recording.leave(from);
        if let Some(to) = to {
            self.record_next(to);
        }
    }

    /// Records that `next` runs after the process that was left last, if that is not known yet.
    #[cold]
    pub(in crate::vm) fn record_next(&mut self, next: ProcessId) {
        let Some(recorder) = self
            .recorder
            .as_mut()
            .filter(|recorder| recorder.awaits_next)
        else {
            return;
        };
        recorder.awaits_next = false;
        let (recording, wording) = (recorder.recording, recorder.wording);
        recording.write_text(Part::Next, |text| {
            write_process(&self.sched, wording, next, text)
        });
        let is_preempted = recorder.cause == SwitchCause::Preempted;
        if is_preempted || recorder.has_chosen {
            let kind = match is_preempted {
                true => DecisionKind::Preempt,
                false => DecisionKind::Order,
            };
            recording.add(RunDecision {
                point: recorder.point,
                kind,
                value: recording.number_of(next),
            });
            if recording.is_directed() {
                recorder.marks = MARKED_SWITCHES;
                if !is_preempted {
                    recording.note_order();
                }
            }
        }
        if recorder.marks > 0 {
            recorder.marks -= 1;
            recording.mark();
        }
        recorder.has_chosen = false;
    }

    /// The random number of a select, in a recorded run: `drawn`, or the given one.
    #[cold]
    pub(super) fn record_select(&mut self, drawn: u64) -> u64 {
        match self.record_number((drawn % MOST_CASES) as u32) {
            Some((_, value)) => value.into(),
            None => drawn,
        }
    }

    /// What the guest chooses of so many, in a recorded run: `drawn`, or what is given.
    #[cold]
    pub(super) fn record_chosen(&mut self, drawn: u32, count: u32) -> u32 {
        let Some((me, value)) = self.record_number(drawn) else {
            return drawn;
        };
        // The next one at the same step is another decision.
        if let Some(recorder) = &self.recorder {
            recorder.recording.leave(me);
        }
        value % count.max(1)
    }

    /// Records a number that the running process decides by: `drawn`, or the given one. Returns the
    /// process and the number; `None` if no process runs or the run is not recorded.
    fn record_number(&mut self, drawn: u32) -> Option<(ProcessId, u32)> {
        let recording = self.recorder.as_ref()?.recording;
        let me = self.sched.current()?;
        let point = recording.point_of(me);
        let kind = DecisionKind::Select;
        let value = match recording.is_directed() {
            true => recording.given(point, kind).unwrap_or(0),
            false => drawn,
        };
        if value != 0 {
            recording.add(RunDecision { point, kind, value });
        }
        Some((me, value))
    }
}
