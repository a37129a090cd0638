//! Traces as files for Perfetto: of the next seconds, or of the last ones.
//!
//! The runtime notes events (`baton_core::trace`). A thread beside the VM takes them in looks, and
//! makes a file of them.
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | answers observers |
//! | `batch.rs` | reads events in a look, with names |
//! | `convert.rs` | makes tracks, slices and arrows of them |
//! | `words.rs`, `summary.rs` | words, and numbers |
//! | `taken.rs` | events that are taken at once, inside the VM |
//! | `flight.rs` | files of what led to a deadlock, a stall or an error |
//! | `calls.rs` | what the C half calls |
//! | `ending.rs` | the last events of a program that ends |

mod batch;
pub(crate) mod calls;
mod convert;
mod ending;
pub(crate) mod flight;
mod summary;
mod taken;
mod words;

use super::why_kept;
use batch::{Batch, Known};
use baton_core::vm::{NoLook, Vm};
use baton_observe::observer::{Part, send_part};
use baton_observe::protocol::Bytes;
use baton_sys::clock::Instant as Moment;
use baton_sys::forking::Child;
use convert::Converter;
use ending::Listed;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use summary::Summary;

/// How long to wait for a moment to read.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same when the program ends.
const AT_END: Duration = Duration::from_millis(200);

/// How often events are sent.
const SENDING: Duration = Duration::from_millis(200);

/// How often events are read, unless there are many.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The number of bytes of the file in one part.
const PART: usize = 64 * 1024;

/// The details of the question.
#[derive(Deserialize)]
struct TraceWanted {
    /// For how long, in seconds. Without it, the events that the parameter `flight` keeps.
    seconds: Option<f64>,
}

/// Sends a trace file in parts. Returns its summary.
pub(super) fn answer(vm: &Vm, with: &Value, part: Part<'_>) -> Result<Value, String> {
    let wanted = TraceWanted::deserialize(with)
        .map_err(|error| format!("a number 'seconds', or null, expected: {error}"))?;
    let out = Parts {
        part,
        bytes: Vec::with_capacity(PART),
    };
    // Until all is sent: the end of the program waits for it.
    let listed = Listed::new();
    let (out, summary) = match wanted.seconds {
        Some(seconds) if !(0.01..=3600.0).contains(&seconds) => {
            return Err(format!("from 0.01 to 3600 seconds expected, got {seconds}"));
        }
        Some(seconds) => next(vm, &listed, Duration::from_secs_f64(seconds), out)?,
        None => last(vm, &listed, || Ok(out))?,
    };
    // A part, as the program may end before it has written the answer.
    send_part(out.part, &json!({ "summary": summary })).map_err(|error| error.to_string())?;
    Ok(Value::Null)
}

/// Forgets what belonged to a fork's parent.
pub(super) fn renew_in_child(child: &Child) {
    ending::renew_in_child(child);
    calls::renew_in_child(child);
}

/// Sends what is written to it.
struct Parts<'a> {
    part: Part<'a>,
    bytes: Vec<u8>,
}

impl Write for Parts<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= PART {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let bytes = Bytes(std::mem::replace(&mut self.bytes, Vec::with_capacity(PART)));
        send_part(self.part, &json!({ "trace": bytes }))
    }
}

/// A reader of a VM's trace, which is noted for as long as there are any.
struct Reader<'vm> {
    vm: &'vm Vm,
    listed: &'vm Listed,
    /// Locked in looks only.
    known: Arc<Mutex<Known>>,
}

impl<'vm> Reader<'vm> {
    /// Reads from now on; or, with `all`, from the oldest event that is kept, if any are.
    fn begin(vm: &'vm Vm, listed: &'vm Listed, all: bool) -> Result<(Reader<'vm>, u64), String> {
        let share = listed.share();
        let begin = vm.look(PATIENCE, move |view| {
            let is_kept = view.is_traced();
            let now = (is_kept || !all).then(|| view.begin_trace())?;
            share.begin_at(if all { 0 } else { now });
            Some(now)
        });
        let now = begin.map_err(|why| refusal(vm, why))?.ok_or_else(|| {
            "the program keeps no events: set its parameter flight to a number of seconds first"
                .to_owned()
        })?;
        let known = Arc::default();
        Ok((Reader { vm, listed, known }, now))
    }

    /// The next events. Waits for no longer than `patience`.
    fn read(&mut self, patience: Duration) -> Result<Batch, NoLook> {
        let (share, known) = (self.listed.share(), Arc::clone(&self.known));
        self.vm.look(patience, move |view| {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            share.read(view, batch::MOST, &mut known)
        })
    }

    /// Writes all that is left, up to event number `end`, and what processes are in then. If the
    /// program ends, `end` is `u64::MAX`: else there may be new events for ever.
    fn finish<W: Write>(
        mut self,
        mut converter: Converter<W>,
        end: u64,
    ) -> io::Result<(W, Summary)> {
        let patience = match end {
            u64::MAX => AT_END,
            _ => PATIENCE,
        };
        while let Ok(batch) = self.read(patience) {
            let is_done = batch.reading.next >= end.min(batch.end);
            converter.add(batch)?;
            if is_done {
                break;
            }
        }
        let standing = match self.listed.rest() {
            Some(rest) => {
                converter.add(rest.batch)?;
                rest.standing
            }
            None => {
                let seen = self.vm.look(patience, |view| batch::standing(view));
                seen.unwrap_or_default()
            }
        };
        converter.finish(Moment::now(), standing)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // A process may compute inside the VM for long. Without this look, the VM would be traced
        // for ever.
        while let Err(NoLook::KeptInside) = self.vm.look(AT_END, |view| view.end_trace()) {
            if Listed::sleep(Duration::ZERO) {
                break; // the program ends, and waits for this reader
            }
        }
    }
}

fn refusal(vm: &Vm, why: NoLook) -> String {
    match why {
        NoLook::Ended => "the program is ending".to_owned(),
        NoLook::KeptInside => format!(
            "for {} s there was no moment to read the trace: {}; try later",
            PATIENCE.as_secs(),
            why_kept(vm)
        ),
    }
}

fn failed(error: io::Error) -> String {
    format!("cannot write the trace: {error}")
}

/// Traces the VM for some time.
fn next<W: Write>(
    vm: &Vm,
    listed: &Listed,
    time: Duration,
    out: W,
) -> Result<(W, Summary), String> {
    let until = Instant::now() + time;
    let mut converter = Converter::new(out, Moment::now()).map_err(failed)?;
    // The number of the next event, at the last look.
    let (mut reader, mut end) = Reader::begin(vm, listed, false)?;
    let mut sent_at = Instant::now();
    let end = loop {
        let patience = match Instant::now() >= until {
            true => AT_END,
            false => BETWEEN_LOOKS,
        };
        let (batch, mut ends) = match reader.read(patience) {
            Ok(batch) => (Some(batch), false),
            Err(NoLook::Ended) => (None, true),
            Err(NoLook::KeptInside) => (None, Listed::sleep(Duration::ZERO)),
        };
        let (mut has_more, has_looked) = (false, batch.is_some());
        if let Some(batch) = batch {
            (has_more, end) = (batch.reading.has_more, batch.end);
            converter
                .add_threads(&vm.native_threads())
                .map_err(failed)?;
            converter.add(batch).map_err(failed)?;
        }
        let now = Instant::now();
        if now >= sent_at + SENDING {
            converter.flush().map_err(failed)?;
            sent_at = now;
        }
        if !has_more {
            ends |= Listed::sleep(BETWEEN_LOOKS.min(until.saturating_duration_since(now)));
        }
        if ends {
            break u64::MAX;
        }
        // The last look is after the end of the time, unless there is none for long.
        if now >= until && (has_looked || now >= until + PATIENCE) {
            break end;
        }
    };
    reader.finish(converter, end).map_err(failed)
}

/// Writes the events that are kept to what `open` returns, after the first of them were read.
fn last<W: Write>(
    vm: &Vm,
    listed: &Listed,
    open: impl FnOnce() -> io::Result<W>,
) -> Result<(W, Summary), String> {
    let (mut reader, end) = Reader::begin(vm, listed, true)?;
    let beginning = Moment::now() - vm.parameters.flight.get();
    let mut batch = reader.read(PATIENCE).map_err(|why| refusal(vm, why))?;
    batch.keep_after(beginning);
    while batch.events.is_empty() && batch.reading.next < end {
        let mut next = reader.read(PATIENCE).map_err(|why| refusal(vm, why))?;
        next.keep_after(beginning);
        batch.continue_with(next);
    }
    let begin = batch
        .events
        .first()
        .map_or_else(Moment::now, |event| event.at);
    let out = open().map_err(failed)?;
    let mut converter = Converter::new(out, begin).map_err(failed)?;
    converter
        .add_threads(&vm.native_threads())
        .map_err(failed)?;
    converter.add(batch).map_err(failed)?;
    reader.finish(converter, end).map_err(failed)
}
