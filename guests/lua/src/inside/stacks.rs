//! The stacks of a process, its number and its title.

use crate::wording;
use baton_core::sched::State;
use baton_core::vm::View;
use baton_observe::report::{Frame, Kind, Stack};
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::time::Duration;

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

type FieldVisitor =
    unsafe extern "C" fn(context: *mut c_void, name: *const c_char, text: *const u8, size: usize);

type Visitor = unsafe extern "C" fn(context: *mut c_void, frame: *const CFrame);

unsafe extern "C" {
    fn baton_lua_visit_frames(
        process: *const c_void,
        most: c_int,
        visit: Visitor,
        context: *mut c_void,
    );
    fn baton_lua_visit_context(process: *const c_void, visit: FieldVisitor, context: *mut c_void);
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
pub(super) fn name_of(state: State) -> &'static str {
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
pub(super) fn spawned_at(record: usize) -> String {
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

/// The fields of a record's context, by their names, with their values as texts.
pub(super) fn context(record: usize) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    // SAFETY: a record of a process that does not run now, and what `add_field` expects.
    unsafe {
        baton_lua_visit_context(record as *const c_void, add_field, (&raw mut fields).cast())
    };
    fields
}

/// # Safety
/// `context` is the list of `context`; `name` is a C string, and `text` has `size` bytes.
unsafe extern "C" fn add_field(
    context: *mut c_void,
    name: *const c_char,
    text: *const u8,
    size: usize,
) {
    // SAFETY: the caller's conditions; `context` does not use the list meanwhile.
    let (fields, name, text) = unsafe {
        (
            &mut *context.cast::<Vec<(String, String)>>(),
            CStr::from_ptr(name),
            std::slice::from_raw_parts(text, size),
        )
    };
    let lossy = |bytes| String::from_utf8_lossy(bytes).into_owned();
    fields.push((lossy(name.to_bytes()), lossy(text)));
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
