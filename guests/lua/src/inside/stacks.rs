//! The stacks of all processes.

use super::{PATIENCE, symbols, why_kept};
use crate::wording::{self, WORDING};
use baton_core::sched::{ProcessId, State, ThreadNames, describe_wait};
use baton_core::vm::{NoLook, View, Vm};
use baton_observe::observer::{Part, send_part};
use baton_observe::report::{Frame, Kind, Process, Stack};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Write;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// `struct baton_frame` of the C half.
#[repr(C)]
struct CFrame {
    source: [c_char; SOURCE],
    line: c_int,
    defined: c_int,
    kind: c_int,
    called_as: *const c_char,
    name: *const c_char,
    function: usize,
}

/// `LUA_IDSIZE`.
const SOURCE: usize = 60;

type Visitor = unsafe extern "C" fn(context: *mut c_void, frame: *const CFrame);

unsafe extern "C" {
    fn baton_lua_visit_frames(
        process: *const c_void,
        most: c_int,
        visit: Visitor,
        context: *mut c_void,
    );
    fn baton_lua_spawn_site(
        process: *const c_void,
        text: *mut c_char,
        size: usize,
    ) -> *const c_char;
    fn baton_lua_number(process: *const c_void) -> u64;
    fn baton_lua_heap_size(process: *const c_void) -> u64;
    fn baton_lua_call_out(process: *const c_void) -> *const c_char;
    fn baton_lua_collector_time(process: *const c_void, collections: *mut u64) -> u64;
}

/// How long one look may last: all processes wait meanwhile.
pub(super) const LOOK: Duration = Duration::from_micros(500);

/// How long later looks wait for a safepoint.
const LATER_PATIENCE: Duration = Duration::from_secs(5);

/// The time between two looks, for the processes.
pub(super) const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// The maximal number of frames of one stack that are sent.
const MOST_FRAMES: c_int = 200;

/// The maximal number of frames of each stack that a report reads: one more than it shows.
const MOST_REPORTED: c_int = 23;

/// The processes that were seen in one look, and the place where the next one continues, if there
/// are more.
struct SeenAtOnce {
    processes: Vec<Process>,
    next: Option<u32>,
}

/// The details of the question.
#[derive(Default, Deserialize)]
struct WantedStacks {
    /// The numbers of the processes; without them, all are sent.
    ids: Option<Vec<u64>>,
}

/// Sends processes in parts. What ends meanwhile is left out.
pub(super) fn answer(vm: &Vm, with: &Value, part: Part<'_>) -> Result<Value, String> {
    let wanted = match with {
        Value::Null => WantedStacks::default(),
        with => WantedStacks::deserialize(with)
            .map_err(|error| format!("a list of numbers expected in 'ids': {error}"))?,
    };
    let ids: Option<Arc<[u64]>> = wanted.ids.map(Arc::from);
    let mut next = Some(0);
    let mut patience = PATIENCE;
    while let Some(from) = next {
        let ids = ids.clone();
        let mut seen = match vm.look(patience, move |view| look(view, from, ids.as_deref())) {
            Ok(seen) => seen,
            Err(NoLook::Ended) => return Err("the program is ending".to_owned()),
            Err(NoLook::KeptInside) if from == 0 => {
                return Ok(json!({ "kept_inside": true, "why": why_kept(vm) }));
            }
            Err(NoLook::KeptInside) => {
                return Err("a process keeps the VM; the list is not complete".to_owned());
            }
        };
        let stacks = seen.processes.iter_mut().flat_map(|one| &mut one.stacks);
        symbols::resolve(&mut stacks.flatten().collect::<Vec<_>>());
        send_part(part, &seen.processes).map_err(|error| error.to_string())?;
        next = seen.next;
        patience = LATER_PATIENCE;
        if next.is_some() {
            thread::sleep(BETWEEN_LOOKS);
        }
    }
    Ok(json!({ "kept_inside": false }))
}

/// What all processes are doing, as text for a report.
pub(crate) fn of_all(view: &View<'_>) -> String {
    let names = view.thread_names();
    let all = view.sched().iter();
    let processes = all.filter_map(|next| process(view, &names, next, MOST_REPORTED));
    processes.fold(String::new(), |mut text, process| {
        // A string takes all that is written to it.
        let _ = write!(text, "{process}");
        text
    })
}

/// Describes processes from a place on. With `ids`, only those with these numbers.
fn look(view: &View<'_>, from: u32, ids: Option<&[u64]>) -> SeenAtOnce {
    let began = Instant::now();
    let names = view.thread_names();
    let places = view.sched().places();
    let mut processes = Vec::new();
    let mut place = from;
    while place < places && (place == from || began.elapsed() < LOOK) {
        let sched = view.sched();
        let is_wanted = |&next: &ProcessId| {
            ids.is_none_or(|ids| {
                sched
                    .user_data(next)
                    .map(number)
                    .is_some_and(|number| ids.contains(&number))
            })
        };
        let next = sched.process_at(place).filter(is_wanted);
        processes.extend(next.and_then(|next| process(view, &names, next, MOST_FRAMES)));
        place += 1;
    }
    SeenAtOnce {
        processes,
        next: (place < places).then_some(place),
    }
}

/// A process as it is now, with at most `most` frames of each stack. `None` if it was forgotten.
pub(crate) fn process(
    view: &View<'_>,
    names: &ThreadNames,
    process: ProcessId,
    most: c_int,
) -> Option<Process> {
    let sched = view.sched();
    let record = sched.user_data(process)?;
    let used = view.time_used(process);
    Some(Process {
        id: number(record),
        title: title(record),
        state: name_of(sched.state(process)).to_owned(),
        waits: describe_wait(sched, &WORDING, names, process),
        since: view.idle_for(process).map(|since| since.as_secs_f64()),
        spawned_at: spawned_at(record),
        running: used.running.as_secs_f64(),
        cpu: used.cpu.as_secs_f64(),
        stacks: of_record(record, most),
    })
}

/// The number of the process of a record.
pub(super) fn number(record: usize) -> u64 {
    // SAFETY: the user data of a process that is in the scheduler is its record, and no process
    // runs during the view.
    unsafe { baton_lua_number(record as *const c_void) }
}

/// The bytes of Lua's heap; `None` if no process is left.
pub(super) fn heap_size(view: &View<'_>) -> Option<u64> {
    let any = view.sched().iter().next()?;
    let record = view.sched().user_data(any)?;
    // SAFETY: as in `number`.
    Some(unsafe { baton_lua_heap_size(record as *const c_void) })
}

/// What the collector has done so far; `None` if no process is left.
pub(super) fn collector(view: &View<'_>) -> Option<Collector> {
    let any = view.sched().iter().next()?;
    let record = view.sched().user_data(any)?;
    let mut collections = 0;
    // SAFETY: as in `number`; the number is writable.
    let time = unsafe { baton_lua_collector_time(record as *const c_void, &raw mut collections) };
    Some(Collector {
        time: Duration::from_nanos(time),
        collections,
    })
}

/// What the collector has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Collector {
    /// Finalizers not counted.
    pub(super) time: Duration,
    pub(super) collections: u64,
}

/// The name by which the C function that the process of a record is in was called, if there is one.
pub(super) fn call_out(record: usize) -> Option<String> {
    // SAFETY: as in `number`. The name is a constant of the function that calls, which stays.
    let name = unsafe {
        let name = baton_lua_call_out(record as *const c_void);
        (!name.is_null()).then(|| CStr::from_ptr(name))
    };
    Some(name?.to_string_lossy().into_owned())
}

/// How messages name the process of a record.
pub(super) fn title(record: usize) -> String {
    let mut title = String::new();
    write_title(record, &mut title);
    title
}

/// Appends how messages name the process of a record.
pub(super) fn write_title(record: usize, title: &mut String) {
    // A string takes all that is written to it.
    let _ = wording::write_title(record, title);
}

/// A state in reports.
fn name_of(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Runnable => "runnable",
        State::Waiting => "waiting",
        State::Sleeping => "sleeping",
        State::Suspended => "suspended",
        State::Foreign => "foreign",
        State::Dead => "dead",
    }
}

/// Where the process of a record was spawned, such as "file:12", or nothing.
fn spawned_at(record: usize) -> String {
    let mut text: [c_char; SOURCE + 16] = [0; SOURCE + 16];
    // SAFETY: a record of a process that does not run now. The text has room for what is written,
    // and is ended by a zero byte.
    let site = unsafe {
        CStr::from_ptr(baton_lua_spawn_site(
            record as *const c_void,
            text.as_mut_ptr(),
            text.len(),
        ))
    };
    site.to_string_lossy().into_owned()
}

/// The stacks of a record, each with at most `most` frames.
pub(super) fn of_record(record: usize, most: c_int) -> Vec<Stack> {
    let mut stacks: Vec<Stack> = vec![Vec::new()];
    visit(
        record,
        most,
        &mut |frame| match (frame, stacks.last_mut()) {
            (Some(frame), Some(stack)) => stack.push(frame.to_frame()),
            _ => stacks.push(Vec::new()),
        },
    );
    stacks.pop(); // the one after the last
    stacks
}

/// Shows the frames of a record, at most `most` of each stack, the innermost first.
pub(super) fn visit_frames(record: usize, most: c_int, show: &mut dyn FnMut(&SeenFrame<'_>)) {
    visit(record, most, &mut |frame| {
        if let Some(frame) = frame {
            show(frame);
        }
    });
}

/// A frame, as long as it is shown.
pub(super) struct SeenFrame<'a> {
    pub(super) source: Cow<'a, str>,
    pub(super) called_as: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) line: u32,
    pub(super) defined: u32,
    pub(super) kind: Kind,
    pub(super) address: usize,
}

impl SeenFrame<'_> {
    fn to_frame(&self) -> Frame {
        Frame {
            source: self.source.clone().into_owned(),
            line: self.line,
            defined: self.defined,
            kind: self.kind,
            called_as: self.called_as.clone().into_owned(),
            name: self.name.clone().into_owned(),
            address: self.address,
            ..Frame::default()
        }
    }
}

/// What a visit shows: a frame, or `None` after each stack.
type Show<'a> = &'a mut dyn FnMut(Option<&SeenFrame<'_>>);

fn visit(record: usize, most: c_int, mut show: Show<'_>) {
    // SAFETY: a record of a process that does not run now, and what `show_frame` expects.
    unsafe {
        baton_lua_visit_frames(
            record as *const c_void,
            most,
            show_frame,
            (&raw mut show).cast(),
        )
    };
}

/// # Safety
/// `context` is the function of `visit`; `frame` is null, or a frame with its texts.
unsafe extern "C" fn show_frame(context: *mut c_void, frame: *const CFrame) {
    // SAFETY: the caller's conditions; `visit` does not use the function meanwhile.
    let (show, frame) = unsafe { (&mut *context.cast::<Show<'_>>(), frame.as_ref()) };
    // SAFETY: the caller's condition.
    show(frame.map(|frame| unsafe { read(frame) }).as_ref());
}

/// # Safety
/// The texts of the frame are C strings, or null.
unsafe fn read(frame: &CFrame) -> SeenFrame<'_> {
    let text = |text: *const c_char| match text.is_null() {
        true => Cow::Borrowed(""),
        // SAFETY: the caller's condition.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy(),
    };
    SeenFrame {
        source: text(frame.source.as_ptr()),
        line: u32::try_from(frame.line).unwrap_or(0),
        defined: u32::try_from(frame.defined).unwrap_or(0),
        kind: match frame.kind {
            0 => Kind::Main,
            1 => Kind::Guest,
            _ => Kind::C,
        },
        called_as: text(frame.called_as),
        name: text(frame.name),
        address: frame.function,
    }
}
