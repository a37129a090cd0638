//! `baton`: runs Lua 5.4 programs as preemptive processes; a drop-in for the standalone `lua`.
//!
//! The entry is C's `main`, not Rust's. Rust's start-up ignores SIGPIPE and opens /dev/null in
//! place of closed standard streams; a Lua program must see both as its parent left them.
//! `c/standalone.c` handles the command line; the runtime calls it in the main process.

#![no_main]

mod console;
mod editor;
mod history;
mod inside;
mod simulation;

use std::ffi::{CStr, OsStr, OsString, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::slice;
use std::time::Duration;

use baton_lua::ReservingAllocator;
use editor::{Editor, Line};

/// Running out of memory is an error that a program can catch.
#[global_allocator]
static ALLOCATOR: ReservingAllocator = ReservingAllocator;

unsafe extern "C" {
    /// Reports the error on the top of a `lua_State`'s stack; see `c/messages.h`.
    fn baton_standalone_report(state: *mut c_void);
}

unsafe extern "C-unwind" {
    /// Runs what the command line says on the given `lua_State`; see `c/standalone.h`.
    fn baton_standalone(state: *mut c_void) -> c_int;
    /// See `c/command_line.h`.
    fn baton_asks_for_simulation(
        argc: c_int,
        argv: *mut *mut c_char,
        simulation: *mut AskedSimulation,
    ) -> c_int;
    /// See `c/command_line.h`.
    fn baton_take_simulation_role() -> *const c_char;
    /// Passes the completions of a line to a callback; see `c/editor.h`.
    fn baton_complete(
        state: *mut c_void,
        line: *const u8,
        length: usize,
        offer: Candidate,
        context: *mut c_void,
    );
}

/// `Simulation` of `c/command_line.h`.
#[repr(C)]
struct AskedSimulation {
    seeds_at: c_int,
    first: u64,
    last: u64,
    decisions: *const c_char,
    jobs: c_uint,
    limit: f64,
    explain: c_int,
    trace: *const c_char,
    reads_input: c_int,
    options_end: c_int,
}

/// The program's entry, called by the C runtime. Returns the exit status.
// SAFETY: the only definition of `main` in the program, with the signature that C gives it.
#[unsafe(no_mangle)]
extern "C" fn main(argc: c_int, argv: *mut *mut c_char) -> c_int {
    // SAFETY: argc and argv are as the C runtime passed them: argc strings and a NULL, valid until
    // the program ends.
    if let Some(status) = inside::run(&unsafe { arguments(argc, argv) }) {
        return status;
    }
    // SAFETY: as above.
    let asked = unsafe { simulation_asked(argc, argv) };
    let simulation = match asked.map(|call| call.begin(take_role)) {
        None => None,
        Some(simulation::Next::Run(simulation)) => Some(simulation),
        Some(simulation::Next::Done(status)) => return status,
    };
    // SAFETY: as above. `baton_standalone` is a lua_CFunction that takes these two as its
    // arguments, and `baton_standalone_report` pops the error that it reports.
    unsafe {
        baton_lua::run_program(
            baton_standalone,
            baton_standalone_report,
            argc,
            argv,
            simulation,
        )
    }
}

/// The arguments of the program.
///
/// # Safety
/// `argv` holds `argc` C strings and a null.
unsafe fn arguments(argc: c_int, argv: *mut *mut c_char) -> Vec<OsString> {
    let argument = |i: usize| {
        // SAFETY: the caller's condition; `i` is below `argc`.
        let text = unsafe { CStr::from_ptr(*argv.add(i)) };
        OsStr::from_bytes(text.to_bytes()).to_owned()
    };
    (0..usize::try_from(argc).unwrap_or(0))
        .map(argument)
        .collect()
}

/// The role that another `baton` has started this program in.
fn take_role() -> Option<&'static str> {
    // SAFETY: there are no other threads yet. The text is part of the program's first environment,
    // which stays.
    let role = unsafe { baton_take_simulation_role() };
    // SAFETY: as above; a string that ends with a zero byte.
    let role = (!role.is_null()).then(|| unsafe { CStr::from_ptr(role) })?;
    role.to_str().ok()
}

/// Options that are not for a run itself. Each has a value.
const NOT_FOR_A_RUN: [&[u8]; 4] = [b"--jobs", b"--limit", b"--explain", b"--trace"];

/// The most runs of an explanation, unless the command line says otherwise.
const MOST_RUNS: usize = 200;

/// Returns the simulated runs that the command line asks for, if any.
///
/// # Safety
/// `argv` holds `argc` C strings and a null, valid until the program ends.
unsafe fn simulation_asked(argc: c_int, argv: *mut *mut c_char) -> Option<simulation::Call> {
    let mut asked = std::mem::MaybeUninit::<AskedSimulation>::uninit();
    // SAFETY: the caller's condition; the place is writable.
    if unsafe { baton_asks_for_simulation(argc, argv, asked.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: the function has filled it in.
    let asked = unsafe { asked.assume_init() };
    let count = |number: c_int| usize::try_from(number).unwrap_or(0);
    let argument = |i: usize| {
        // SAFETY: the caller's condition; `i` is below `argc`.
        OsStr::from_bytes(unsafe { CStr::from_ptr(*argv.add(i)) }.to_bytes())
    };
    let (mut arguments, mut seeds_at, mut i) = (Vec::with_capacity(count(argc)), 0, 0);
    while i < count(argc) {
        let this = argument(i);
        if i < count(asked.options_end) && NOT_FOR_A_RUN.contains(&this.as_bytes()) {
            i += 2;
            continue;
        }
        if i == count(asked.seeds_at) {
            seeds_at = arguments.len();
        }
        arguments.push(this);
        i += 1;
    }
    // SAFETY: as for `argument`, as the text is a part of one.
    let decisions =
        (!asked.decisions.is_null()).then(|| unsafe { CStr::from_ptr(asked.decisions) });
    // SAFETY: as above.
    let trace = (!asked.trace.is_null()).then(|| unsafe { CStr::from_ptr(asked.trace) });
    let trace = trace.map(|path| OsStr::from_bytes(path.to_bytes()));
    Some(simulation::Call {
        all_arguments: (0..count(argc)).map(argument).collect(),
        arguments,
        seeds_at,
        first: asked.first,
        last: asked.last,
        decisions: decisions.and_then(|text| text.to_str().ok()),
        jobs: usize::try_from(asked.jobs).unwrap_or(1).max(1),
        limit: (asked.limit > 0.0).then(|| Duration::from_secs_f64(asked.limit)),
        explain: usize::try_from(asked.explain).unwrap_or(MOST_RUNS),
        // The program may change its directory.
        trace: trace.and_then(|path| std::path::absolute(path).ok()),
        reads_input: asked.reads_input != 0,
        directory: std::env::current_dir().ok(),
    })
}

/// `baton_candidate` of `c/editor.h`.
type Candidate =
    unsafe extern "C" fn(context: *mut c_void, start: usize, name: *const u8, length: usize);

/// A `lua_State`, for completion.
struct Guest(*mut c_void);

/// Adds a completion to the list.
///
/// # Safety
/// `context` is the `Vec` that `names` passed, `name` is readable for `length` bytes.
unsafe extern "C" fn add_name(context: *mut c_void, start: usize, name: *const u8, length: usize) {
    // SAFETY: the caller's conditions; `names` touches the vector only after the call that this is
    // called from.
    let (found, name) = unsafe {
        (
            &mut *context.cast::<Vec<(usize, String)>>(),
            bytes(name, length),
        )
    };
    if let Ok(name) = std::str::from_utf8(name) {
        found.push((start, name.to_owned()));
    }
}

impl Guest {
    fn names(&self, line: &str) -> Vec<(usize, String)> {
        let mut found: Vec<(usize, String)> = Vec::new();
        // SAFETY: the state lives as long as the program, and this is its main process, which
        // called the editor. No error crosses this frame (`c/completion.c` is protected), and the
        // process stays on its thread meanwhile.
        unsafe {
            baton_complete(
                self.0,
                line.as_ptr(),
                line.len(),
                add_name,
                (&raw mut found).cast(),
            )
        };
        found
    }
}

/// Returns the bytes that C passed.
///
/// # Safety
/// `text` is readable for `length` bytes for as long as the result is used, or `length` is 0.
unsafe fn bytes<'a>(text: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's condition.
    unsafe { slice::from_raw_parts(text, length) }
}

/// Opens the editor for the program's one terminal; see `c/editor.h`.
// SAFETY: the only definition of this symbol, with the signature of `c/editor.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_editor_open(state: *mut c_void, ignore_environment: c_int) -> *mut Editor {
    let guest = Guest(state);
    let names = Box::new(move |line: &str| guest.names(line));
    Editor::open(ignore_environment != 0, names).map_or(std::ptr::null_mut(), |editor| {
        Box::into_raw(Box::new(editor))
    })
}

/// Reads a line; see `c/editor.h`.
///
/// `editor` is a result of `baton_editor_open`, and no other thread uses it meanwhile. `prompt` is
/// readable for `prompt_length` bytes; `text` and `length` are writable.
/// readable for `prompt_length` bytes; `text` and `length` are writable.
// SAFETY: the only definition of this symbol, with the signature of `c/editor.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_editor_read(
    editor: *mut Editor,
    prompt: *const u8,
    prompt_length: usize,
    text: *mut *const u8,
    length: *mut usize,
) -> c_int {
    // SAFETY: the caller's conditions.
    let (editor, prompt) = unsafe { (&mut *editor, bytes(prompt, prompt_length)) };
    let (how, line) = match editor.read(&String::from_utf8_lossy(prompt)) {
        Line::Text(line) => (0, line),
        Line::Interrupted => (1, ""),
        Line::Ended => (2, ""),
        Line::Failed(message) => (3, message),
    };
    // SAFETY: the caller's conditions. The editor owns the line, and does not change it until the
    // next call.
    unsafe {
        text.write(line.as_ptr());
        length.write(line.len());
    }
    how
}

/// Adds an input to the history; see `c/editor.h`.
///
/// # Safety
/// `editor` as for `baton_editor_read`; `text` is readable for `length` bytes.
// SAFETY: the only definition of this symbol, with the signature of `c/editor.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_editor_remember(editor: *mut Editor, text: *const u8, length: usize) {
    // SAFETY: the caller's conditions.
    let (editor, text) = unsafe { (&mut *editor, bytes(text, length)) };
    editor.remember(&String::from_utf8_lossy(text));
}

/// Returns the source of lua/prompt.lua; see `c/editor.h`.
///
/// # Safety
/// `length` is writable.
// SAFETY: the only definition of this symbol, with the signature of `c/editor.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_prompt_source(length: *mut usize) -> *const u8 {
    let source = include_str!("../lua/prompt.lua");
    // SAFETY: the caller's condition.
    unsafe { length.write(source.len()) };
    source.as_ptr()
}

/// Receives what is written to the standard streams; see `c/editor.h`.
///
/// # Safety
/// `text` is readable for `length` bytes.
// SAFETY: the only definition of this symbol, with the signature of `c/editor.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_editor_console(
    is_error: c_int,
    text: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: the caller's condition.
    let text = unsafe { bytes(text, length) };
    c_int::from(console::write(is_error != 0, text))
}
