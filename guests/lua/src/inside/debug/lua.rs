//! What the C half does for a debugger (`c/debugger/debugger.h`, `c/shown/shown.h`).

use baton_core::sched::ProcessId;
use baton_core::vm::View;
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::raw::c_longlong;
use std::slice;

/// `struct baton_breakpoint_wish`.
#[repr(C)]
struct CWish {
    id: c_int,
    line: c_int,
    condition: *const c_char,
    log: *const c_char,
    comparison: c_int,
    hits: u64,
}

/// `struct baton_debugger_frame`.
#[repr(C)]
struct CDebugFrame {
    source: *const c_char,
    source_size: usize,
    path: *const c_char,
    short_source: *const c_char,
    line: c_int,
    defined: c_int,
    kind: c_int,
    name: *const c_char,
    called_as: *const c_char,
    begins_coroutine: c_int,
    mark: u64,
}

/// `struct baton_debugger_request`.
#[repr(C)]
struct CRequest {
    task: c_int,
    scope: c_int,
    process: u64,
    mark: u64,
    frame: c_int,
    slot: c_int,
    filter: c_int,
    first: c_longlong,
    count: c_longlong,
    name: *const c_char,
    text: *const c_char,
    text_size: usize,
}

/// `struct baton_debugger_variable`.
#[repr(C)]
struct CVariable {
    name_kind: c_int,
    name: *const c_char,
    name_size: usize,
    kind: *const c_char,
    value: *const c_char,
    value_size: usize,
    slot: c_int,
    elements: c_longlong,
    fields: c_longlong,
}

type Placed = unsafe extern "C" fn(context: *mut c_void, id: c_int, line: c_int);
type FrameVisitor = unsafe extern "C" fn(context: *mut c_void, frame: *const CDebugFrame);
type VariableVisitor = unsafe extern "C" fn(context: *mut c_void, variable: *const CVariable);

unsafe extern "C" {
    fn baton_debugger_set_breakpoints(
        path: *const c_char,
        wishes: *const CWish,
        count: usize,
        placed: Placed,
        context: *mut c_void,
    ) -> c_int;
    fn baton_debugger_attach(all_stop: c_int);
    fn baton_debugger_stop_at_errors(which: c_int);
    fn baton_debugger_detach();
    fn baton_debugger_forget();
    fn baton_debugger_pause(process: *mut c_void, waits: c_int) -> c_int;
    fn baton_debugger_resume(process: *mut c_void, step: c_int);
    fn baton_debugger_take_descriptor() -> c_int;
    fn baton_debugger_ask_to_end(process: *mut c_void, on: c_int);
    fn baton_debugger_must_hurry(process: *const c_void) -> c_int;
    fn baton_lua_request_safepoint(process: *mut c_void);
    fn baton_debugger_want_deputy();
    fn baton_debugger_stop_for(deputy: *mut c_void, number: u64) -> c_int;
    fn baton_debugger_forget_shown(process: *mut c_void);
    fn baton_debugger_visit_frames_of(
        answers: *const c_void,
        number: u64,
        first: c_int,
        count: c_int,
        visit: FrameVisitor,
        context: *mut c_void,
    ) -> c_int;
    fn baton_debugger_check_expression(
        text: *const c_char,
        text_size: usize,
        error: *mut c_char,
        size: usize,
    ) -> c_int;
    fn baton_debugger_visit_frames(
        process: *const c_void,
        first: c_int,
        count: c_int,
        visit: FrameVisitor,
        context: *mut c_void,
    ) -> c_int;
    fn baton_debugger_perform(
        process: *mut c_void,
        request: *const CRequest,
        visit: VariableVisitor,
        context: *mut c_void,
        error: *mut c_char,
        size: usize,
    ) -> c_int;
}

/// A breakpoint that is asked for.
#[derive(Deserialize)]
pub(super) struct Wish {
    id: c_int,
    line: c_int,
    condition: Option<CString>,
    log: Option<CString>,
    #[serde(default)]
    comparison: Comparison,
    #[serde(default)]
    hits: u64,
}

/// How the hits of a breakpoint are compared with the number that is asked for.
#[derive(Clone, Copy, Default, Deserialize)]
pub(super) enum Comparison {
    /// Not.
    #[default]
    Any,
    #[serde(rename = "=")]
    Equal,
    #[serde(rename = "<")]
    Less,
    #[serde(rename = ">")]
    More,
    #[serde(rename = "<=")]
    AtMost,
    #[serde(rename = ">=")]
    AtLeast,
    #[serde(rename = "%")]
    Multiple,
}

impl Comparison {
    fn code(self) -> c_int {
        c_int::from(match self {
            Comparison::Any => 0,
            Comparison::Equal => b'=',
            Comparison::Less => b'<',
            Comparison::More => b'>',
            Comparison::AtMost => b'l',
            Comparison::AtLeast => b'g',
            Comparison::Multiple => b'%',
        })
    }
}

/// Attaches a debugger, in place of what is left of an earlier one. With the owner's rights.
pub(super) fn attach(all_stop: bool) {
    // SAFETY: the caller has the owner's rights.
    unsafe {
        baton_debugger_forget();
        baton_debugger_attach(all_stop.into());
    }
}

/// Detaches it. On any thread.
pub(super) fn detach() {
    // SAFETY: no conditions.
    unsafe { baton_debugger_detach() };
}

/// The descriptor by which a debugger has started this program. Called once, at the start.
pub(super) fn take_descriptor() -> Option<c_int> {
    // SAFETY: there are no other threads yet.
    let descriptor = unsafe { baton_debugger_take_descriptor() };
    (descriptor >= 0).then_some(descriptor)
}

/// Which errors stop a process: 0 none, 1 those that nothing catches, 2 all. With the owner's
/// rights.
pub(super) fn stop_at_errors(which: u8) {
    // SAFETY: the caller has the owner's rights.
    unsafe { baton_debugger_stop_at_errors(which.into()) };
}

/// Replaces the breakpoints of a file. Returns the line of each; `None` if a chunk is being loaded.
/// With the owner's rights.
pub(super) fn set_breakpoints(path: &CStr, wishes: &[Wish]) -> Option<Vec<Value>> {
    unsafe extern "C" fn placed(context: *mut c_void, id: c_int, line: c_int) {
        // SAFETY: the vector below.
        let lines = unsafe { &mut *context.cast::<Vec<Value>>() };
        lines.push(json!({ "id": id, "line": line }));
    }
    let pointer = |text: &Option<CString>| text.as_deref().map_or(std::ptr::null(), CStr::as_ptr);
    let wishes: Vec<CWish> = wishes
        .iter()
        .map(|wish| CWish {
            id: wish.id,
            line: wish.line,
            condition: pointer(&wish.condition),
            log: pointer(&wish.log),
            comparison: wish.comparison.code(),
            hits: wish.hits,
        })
        .collect();
    let mut lines: Vec<Value> = Vec::new();
    // SAFETY: the caller has the owner's rights. The texts live as long as the call, and `placed`
    // expects this context.
    let is_set = unsafe {
        baton_debugger_set_breakpoints(
            path.as_ptr(),
            wishes.as_ptr(),
            wishes.len(),
            placed,
            (&raw mut lines).cast(),
        )
    };
    (is_set != 0).then_some(lines)
}

/// What a pause has led to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// The process has ended.
    Ended,
    /// It stops at its next instruction.
    Coming,
    /// It waits, and all processes are to stop: the deputy stops for it.
    ByDeputy,
}

/// Has the process of a record stop, which may wait. With the owner's rights.
pub(super) fn pause(record: usize, waits: bool) -> Pause {
    // SAFETY: a record of a process that is in the scheduler; the caller has the owner's rights.
    match unsafe { baton_debugger_pause(record as *mut c_void, waits.into()) } {
        0 => Pause::Ended,
        1 => Pause::Coming,
        _ => Pause::ByDeputy,
    }
}

/// Sets whether the expression that the process of a record evaluates is to end. On any thread,
/// while the process lives.
pub(super) fn ask_to_end(record: usize, on: bool) {
    // SAFETY: the caller's condition.
    unsafe { baton_debugger_ask_to_end(record as *mut c_void, on.into()) };
}

/// Has a process notice that its expression is to end, if it is.
pub(super) fn hurry(view: &mut View<'_>, process: ProcessId) {
    let Some(record) = view.sched().user_data(process) else {
        return;
    };
    // SAFETY: a record of a process that is in the scheduler; a view has the owner's rights.
    let must_hurry = unsafe { baton_debugger_must_hurry(record as *const c_void) } != 0;
    if must_hurry && !view.interrupt(process) {
        // SAFETY: as above.
        unsafe { baton_lua_request_safepoint(record as *mut c_void) };
    }
}

/// Has the deputy made when the program serves its signals next.
pub(super) fn want_deputy() {
    // SAFETY: no conditions.
    unsafe { baton_debugger_want_deputy() };
}

/// Stops all processes for one that waits, until it is let go on. In the deputy. `false` if the
/// process has ended.
pub(super) fn stop_for(deputy: usize, number: u64) -> bool {
    // SAFETY: the record of the calling process, which is the deputy and serves its debugger.
    unsafe { baton_debugger_stop_for(deputy as *mut c_void, number) != 0 }
}

/// Forgets the values that the process of a record has shown. In that process.
pub(super) fn forget_shown(record: usize) {
    // SAFETY: the record of the calling process, which serves its debugger.
    unsafe { baton_debugger_forget_shown(record as *mut c_void) };
}

/// How a process goes on.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Step {
    Continue,
    In,
    Over,
    Out,
}

/// Says how the process of a record, which has stopped, goes on. In that process.
pub(super) fn resume(record: usize, step: Step) {
    // SAFETY: the record of the calling process, which serves its debugger.
    unsafe { baton_debugger_resume(record as *mut c_void, step as c_int) };
}

/// # Safety
/// Null, or a C string.
unsafe fn text(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the caller's condition.
    let text = unsafe { CStr::from_ptr(pointer) };
    Some(text.to_string_lossy().into_owned())
}

/// # Safety
/// Readable for `size` bytes.
unsafe fn bytes<'a>(pointer: *const c_char, size: usize) -> &'a [u8] {
    if size == 0 {
        return &[];
    }
    // SAFETY: the caller's condition.
    unsafe { slice::from_raw_parts(pointer.cast(), size) }
}

/// Whose frames are shown.
#[derive(Clone, Copy)]
pub(super) enum Frames {
    /// Those of the process of this record, which does not run, or is the calling one.
    Of(usize),
    /// Those of the process with this number. The calling process answers for it, and keeps the VM.
    By { answers: usize, number: u64 },
}

/// The frames of a process, and how many there are. Innermost first.
pub(super) fn frames(of: Frames, first: c_int, count: c_int) -> Value {
    unsafe extern "C" fn visit(context: *mut c_void, frame: *const CDebugFrame) {
        // SAFETY: the vector below, and a frame with its texts.
        let (frames, frame) = unsafe { (&mut *context.cast::<Vec<Value>>(), &*frame) };
        // SAFETY: as above.
        let (name, called_as, path, short, source) = unsafe {
            (
                text(frame.name),
                text(frame.called_as),
                text(frame.path),
                text(frame.short_source),
                bytes(frame.source, frame.source_size),
            )
        };
        // The text of a chunk that has no file.
        let chunk = match source.first() {
            None | Some(b'@' | b'=') => None,
            Some(_) => Some(String::from_utf8_lossy(source)),
        };
        frames.push(json!({
            "name": name,
            "called_as": called_as,
            "path": path,
            "source": short,
            "chunk": chunk,
            "line": frame.line,
            "defined": frame.defined,
            "kind": match frame.kind { 0 => "main", 1 => "lua", _ => "c" },
            "begins_coroutine": frame.begins_coroutine != 0,
            "mark": frame.mark,
        }));
    }
    let mut frames: Vec<Value> = Vec::new();
    let context = (&raw mut frames).cast();
    let all = match of {
        // SAFETY: a record of a process that does not run now, and what `visit` expects.
        Frames::Of(record) => unsafe {
            let record = record as *const c_void;
            baton_debugger_visit_frames(record, first, count, visit, context)
        },
        // SAFETY: the record of the calling process, and what `visit` expects.
        Frames::By { answers, number } => unsafe {
            let answers = answers as *const c_void;
            baton_debugger_visit_frames_of(answers, number, first, count, visit, context)
        },
    };
    json!({ "frames": frames, "all": all })
}

/// What a process that has stopped is asked to do with values.
#[derive(Deserialize)]
pub(super) struct Task {
    process: u64,
    #[serde(default)]
    mark: u64,
    #[serde(default)]
    scope: Scope,
    #[serde(default = "no_frame")]
    frame: c_int,
    #[serde(default)]
    slot: c_int,
    #[serde(default)]
    filter: c_int,
    #[serde(default)]
    first: c_longlong,
    #[serde(default)]
    count: c_longlong,
    #[serde(default)]
    name: CString,
    #[serde(default)]
    text: String,
}

fn no_frame() -> c_int {
    -1
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scope {
    #[default]
    Locals,
    Upvalues,
    Varargs,
    Globals,
    Value,
    Error,
}

/// What to do with them.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Show,
    Set,
    Evaluate,
    Complete,
}

/// The maximal number of bytes of a shown string.
const LONGEST_VALUE: usize = 64 * 1024;

/// Carries a task out. In the process that has stopped.
pub(super) fn perform(record: usize, kind: Kind, task: &Task) -> Result<Value, String> {
    unsafe extern "C" fn visit(context: *mut c_void, variable: *const CVariable) {
        // SAFETY: the vector below, and a variable with its texts.
        let (variables, shown) = unsafe { (&mut *context.cast::<Vec<Value>>(), &*variable) };
        // SAFETY: as above.
        let (name, kind, value) = unsafe {
            (
                bytes(shown.name, shown.name_size),
                text(shown.kind),
                bytes(shown.value, shown.value_size),
            )
        };
        let value = &value[..value.len().min(LONGEST_VALUE)];
        let key = match shown.name_kind {
            0 => "plain",
            1 => "string",
            2 => "other",
            _ => "object",
        };
        variables.push(json!({
            "name": String::from_utf8_lossy(name),
            "key": key,
            "type": kind,
            "value": String::from_utf8_lossy(value),
            "size": shown.value_size,
            "slot": shown.slot,
            "elements": shown.elements,
        }));
    }
    let request = CRequest {
        task: kind as c_int,
        scope: task.scope as c_int,
        process: task.process,
        mark: task.mark,
        frame: task.frame,
        slot: task.slot,
        filter: task.filter,
        first: task.first,
        count: task.count,
        name: task.name.as_ptr(),
        text: task.text.as_ptr().cast(),
        text_size: task.text.len(),
    };
    let mut variables: Vec<Value> = Vec::new();
    let mut error: [c_char; 1024] = [0; 1024];
    // SAFETY: the record of the calling process, which serves its debugger. The texts live as long
    // as the call, `visit` expects this context, and the error is ended by a zero byte.
    unsafe {
        let is_done = baton_debugger_perform(
            record as *mut c_void,
            &raw const request,
            visit,
            (&raw mut variables).cast(),
            error.as_mut_ptr(),
            error.len(),
        );
        match is_done {
            0 => Err(CStr::from_ptr(error.as_ptr())
                .to_string_lossy()
                .into_owned()),
            _ => Ok(Value::Array(variables)),
        }
    }
}

/// Compiles an expression, without a program.
///
/// # Errors
/// Why it is none.
pub fn check_expression(text: &str) -> Result<(), String> {
    let mut error: [c_char; 512] = [0; 512];
    // SAFETY: the text is readable for its length, and the error is ended by a zero byte.
    unsafe {
        let (place, room) = (error.as_mut_ptr(), error.len());
        match baton_debugger_check_expression(text.as_ptr().cast(), text.len(), place, room) {
            0 => Err(CStr::from_ptr(error.as_ptr())
                .to_string_lossy()
                .into_owned()),
            _ => Ok(()),
        }
    }
}
