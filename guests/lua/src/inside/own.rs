//! Questions of the program about itself: `require "baton.inspect"`.
//!
//! Each question has a thread of its own, which asks as an observer does. The asking process waits
//! for a descriptor meanwhile, so others go on. What the thread finds are *events*: texts of Lua
//! that return a value, and the beginning of a profile.
//!
//! | queue of events | pipe | changed by |
//! |---|---|---|
//! | empty | empty | [`Inquiry::take`], which empties the pipe when it finds no event |
//! | not empty, or the thread has ended | readable | [`Events::put`], [`Events::end`] |
//!
//! A fork's child has no such thread, another may have held the mutex, and the pipe is its
//! parent's, too. So an inquiry knows the program that has made it. In another, it answers at once
//! that there is no answer, and touches nothing.
//!
//! **No wake-up is lost.** Both rows are changed under one mutex. So a process that finds no event
//! has emptied the pipe before the next event makes it readable.

use super::profile::Control;
use super::stop::Stop;
use super::{VM, heap, instant, metrics, profile, why_kept};
use crate::answers;
use crate::answers::metrics::TextFormat;
use baton_core::vm::Vm;
use baton_formats::profile::{Format, Measure};
use baton_observe::observer;
use baton_sys::forking::ForkMutex;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int};
use std::fmt::Write as _;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// What is asked.
struct OwnQuestion {
    what: Topic,
    /// For profiles: for how long in seconds, and how many samples for each second.
    seconds: f64,
    rate: u32,
    /// Where to write.
    path: Option<PathBuf>,
}

enum Topic {
    Stacks,
    Metrics,
    MetricsText(TextFormat),
    Heap,
    Profile(Measure),
}

impl Topic {
    fn named(name: &str) -> Option<Topic> {
        Some(match name {
            "stacks" => Topic::Stacks,
            "metrics" => Topic::Metrics,
            "metrics_text" => Topic::MetricsText(TextFormat::Prometheus),
            "metrics_openmetrics" => Topic::MetricsText(TextFormat::OpenMetrics),
            "heap" => Topic::Heap,
            "cpu" => Topic::Profile(Measure::CpuTime),
            "wall" => Topic::Profile(Measure::WallTime),
            "waits" => Topic::Profile(Measure::Waits),
            "alloc" => Topic::Profile(Measure::Allocation),
            _ => return None,
        })
    }
}

/// Something that the thread has found.
enum Event {
    /// A profile has begun.
    Begun,
    /// A text of Lua that returns a part of the answer.
    Part(String),
    /// Why there is no answer.
    Failure(String),
}

/// Between the thread and the process.
struct Events(ForkMutex<EventQueue>);

struct EventQueue {
    events: VecDeque<Event>,
    pipe: PipeWriter,
    has_ended: bool,
}

impl Events {
    fn put(&self, event: Event) {
        let mut queue = self.0.lock();
        queue.events.push_back(event);
        queue.make_readable();
    }

    fn end(&self) {
        let mut queue = self.0.lock();
        queue.has_ended = true;
        queue.make_readable();
    }
}

impl EventQueue {
    fn make_readable(&mut self) {
        // It does not block: it is full only if nothing was taken, and then it is readable.
        let _ = self.pipe.write(&[0]);
    }
}

/// A question in progress. Dropped, it ends soon.
struct Inquiry {
    events: Arc<Events>,
    stop: Arc<Stop>,
    pipe: PipeReader,
    /// What was taken last, for the C half.
    last: Vec<u8>,
    /// The number of the program that asks.
    pid: u32,
}

impl Inquiry {
    fn begin(vm: &Arc<Vm>, question: OwnQuestion) -> io::Result<Inquiry> {
        let (pipe, writer) = io::pipe()?;
        for end in [pipe.as_raw_fd(), writer.as_raw_fd()] {
            // SAFETY: our own descriptor, which is open.
            if unsafe { libc::fcntl(end, libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let events = Arc::new(Events(ForkMutex::new(EventQueue {
            events: VecDeque::new(),
            pipe: writer,
            has_ended: false,
        })));
        let stop = Arc::new(Stop::default());
        let (vm, to_fill, to_stop) = (Arc::clone(vm), Arc::clone(&events), Arc::clone(&stop));
        observer::start_counted("baton-inspect", move || {
            if let Err(why) = answer(&vm, &question, &to_fill, &to_stop) {
                to_fill.put(Event::Failure(why));
            }
            to_fill.end();
        })?;
        Ok(Inquiry {
            events,
            stop,
            pipe,
            last: Vec::new(),
            pid: std::process::id(),
        })
    }

    /// Whether this program asks, and not one that has forked it.
    fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    /// What has happened, as a number for the C half.
    fn take(&mut self) -> c_int {
        if !self.is_ours() {
            self.last = b"the question was asked before a fork".to_vec();
            return 3;
        }
        let mut queue = self.events.0.lock();
        match queue.events.pop_front() {
            Some(Event::Begun) => 1,
            Some(Event::Part(text)) => {
                self.last = text.into_bytes();
                2
            }
            Some(Event::Failure(why)) => {
                self.last = why.into_bytes();
                3
            }
            None if queue.has_ended => 4,
            None => {
                let mut bytes = [0; 256];
                while matches!(self.pipe.read(&mut bytes), Ok(count) if count > 0) {}
                0
            }
        }
    }
}

impl Drop for Inquiry {
    fn drop(&mut self) {
        self.stop.request();
    }
}

fn answer(
    vm: &Vm,
    question: &OwnQuestion,
    events: &Events,
    stop: &Arc<Stop>,
) -> Result<(), String> {
    let put = |value: &Value| events.put(Event::Part(lua_text(value)));
    match question.what {
        Topic::Stacks => {
            let end = instant::answer(&Value::Null, &mut |part| {
                put(&value_of(part)?);
                Ok(())
            })?;
            if end.get("kept_inside") == Some(&Value::Bool(true)) {
                return Err(why_kept(vm));
            }
            put(&end["overview"]);
            Ok(())
        }
        Topic::Metrics => {
            put(&metrics::answer());
            Ok(())
        }
        Topic::MetricsText(format) => {
            put(&answers::metrics::text(&metrics::answer(), format)?.into());
            Ok(())
        }
        Topic::Heap => {
            put(&read_heap(vm, question)?);
            Ok(())
        }
        Topic::Profile(measure) => {
            put(&profile_of(vm, measure, question, events, stop)?);
            Ok(())
        }
    }
}

fn read_heap(vm: &Vm, question: &OwnQuestion) -> Result<Value, String> {
    let output = question.path.as_deref();
    let output = output.map(answers::heap::Output::create).transpose()?;
    let mut heap = answers::heap::HeapAnswer::default();
    let mut wrong = None;
    let end = heap::answer(vm, &mut |part| {
        heap.add_part(&value_of(part)?).map_err(|why| {
            wrong = Some(why);
            io::Error::other("a wrong part")
        })
    });
    if let Some(why) = wrong {
        return Err(why);
    }
    let (graph, pause) = heap.finish(&end?)?;
    let living = graph.living();
    if let Some(output) = output {
        output.write(&living)?;
    }
    serde_json::to_value(answers::heap::HeapSummary::of(&living, pause))
        .map_err(|error| error.to_string())
}

fn profile_of(
    vm: &Vm,
    measure: Measure,
    question: &OwnQuestion,
    events: &Events,
    stop: &Arc<Stop>,
) -> Result<Value, String> {
    let file = match &question.path {
        Some(path) => Some((
            Format::of_path(path).map_err(|error| error.to_string())?,
            path,
        )),
        None => None,
    };
    let name = format!("process {}", std::process::id());
    let mut profile = answers::profile::begin(measure, &name, question.rate);
    let with = json!({
        "what": measure.key(), "seconds": question.seconds, "rate": question.rate,
    });
    let began = Instant::now();
    let control = Control {
        stop,
        has_begun: &|| events.put(Event::Begun),
    };
    let mut wrong = None;
    let end = profile::answer(vm, &with, &control, &mut |part| {
        answers::profile::add_part(&mut profile, value_of(part)?).map_err(|why| {
            wrong = Some(why);
            io::Error::other("a wrong part")
        })
    });
    if let Some(why) = wrong {
        return Err(why);
    }
    end?;
    profile.duration = began.elapsed();
    if let Some((format, path)) = file {
        answers::profile::write(&profile, format, path)?;
    }
    serde_json::to_value(profile.summary()).map_err(|error| error.to_string())
}

fn value_of(part: &RawValue) -> io::Result<Value> {
    Ok(serde_json::from_str(part.get())?)
}

/// A text of Lua that returns a value.
fn lua_text(value: &Value) -> String {
    let mut text = "return ".to_owned();
    write_lua(value, &mut text);
    text
}

/// Writes a value as an expression of Lua.
fn write_lua(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("nil"),
        Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => push(text, format_args!("{whole}")),
            // With an exponent, a number is a float in Lua, however large.
            None => push(text, format_args!("{:e}", number.as_f64().unwrap_or(0.0))),
        },
        Value::String(string) => write_string(string, text),
        Value::Array(values) => {
            text.push('{');
            for value in values {
                write_lua(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Object(fields) => {
            text.push('{');
            for (name, value) in fields {
                text.push('[');
                write_string(name, text);
                text.push_str("]=");
                write_lua(value, text);
                text.push(',');
            }
            text.push('}');
        }
    }
}

fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' | '\\' => {
                text.push('\\');
                text.push(character);
            }
            _ if character.is_ascii_control() => {
                push(text, format_args!("\\{:03}", u32::from(character)));
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}

fn push(text: &mut String, what: std::fmt::Arguments<'_>) {
    // A string takes all that is written to it.
    let _ = text.write_fmt(what);
}

/// Begins a question. Returns null and an errno if the system has no thread or pipe for it; null
/// and 0 if the question is not known.
///
/// # Safety
/// `what` is a C string, `path` is one or null, and `error` is writable.
// SAFETY: the only definition of this symbol, with the signature of `c/modules/inspect.c`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_inspect_begin(
    what: *const c_char,
    seconds: f64,
    rate: u32,
    path: *const c_char,
    error: *mut c_int,
) -> *mut Inquiry {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: the caller's conditions.
    let (what, path) = unsafe {
        error.write(0);
        let path = (!path.is_null()).then(|| CStr::from_ptr(path));
        (CStr::from_ptr(what), path)
    };
    let what = what.to_str().ok().and_then(Topic::named);
    let (Some(what), Some(vm)) = (what, VM.get()) else {
        return std::ptr::null_mut();
    };
    let path = path.map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(path.to_bytes())));
    let question = OwnQuestion {
        what,
        seconds,
        rate,
        path,
    };
    match Inquiry::begin(vm, question) {
        Ok(inquiry) => Box::into_raw(Box::new(inquiry)),
        Err(why) => {
            // SAFETY: the caller's condition.
            unsafe { error.write(why.raw_os_error().unwrap_or(libc::EAGAIN)) };
            std::ptr::null_mut()
        }
    }
}

/// What has happened: 0 nothing yet, 1 it has begun, 2 a part, 3 a failure, 4 the end. `text`
/// becomes the text of a part or failure, valid until the next call.
///
/// # Safety
/// `text` and `size` are writable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_inspect_take(
    inquiry: &mut Inquiry,
    text: *mut *const c_char,
    size: *mut usize,
) -> c_int {
    let what = inquiry.take();
    // SAFETY: the caller's condition.
    unsafe {
        text.write(inquiry.last.as_ptr().cast());
        size.write(inquiry.last.len());
    }
    what
}

/// The descriptor that is readable when there is something to take; -1 in a fork's child, which
/// need not wait.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_inspect_descriptor(inquiry: &Inquiry) -> c_int {
    match inquiry.is_ours() {
        true => inquiry.pipe.as_raw_fd(),
        false => -1,
    }
}

/// Ends a profile early. Its samples so far are the answer.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_inspect_stop(inquiry: &Inquiry) {
    if inquiry.is_ours() {
        inquiry.stop.request();
    }
}

/// Ends a question. In a fork's child, its memory is leaked: the child may have closed the pipe,
/// and the mutex may be locked.
///
/// # Safety
/// `inquiry` comes from [`baton_inspect_begin`], and is not used afterwards.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_inspect_end(inquiry: *mut Inquiry) {
    // SAFETY: the caller's condition.
    let inquiry = unsafe { Box::from_raw(inquiry) };
    if !inquiry.is_ours() {
        std::mem::forget(inquiry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_expressions_of_lua() {
        let value = json!({
            "a\"\\\n": [1, -2, 1.5, 1e300, true, null, "\u{7f}é\u{1}7"],
            "large": u64::MAX,
        });
        let expected = "return {[\"a\\\"\\\\\\010\"]={1,-2,1.5e0,1e300,true,nil,\"\\127é\\0017\
                        \",},[\"large\"]=1.8446744073709552e19,}";
        assert_eq!(lua_text(&value), expected);
    }
}
