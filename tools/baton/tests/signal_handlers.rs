//! Tests code that runs inside signal handlers, at any point of the interrupted program.
#![cfg(target_os = "linux")]

mod harness;

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use harness::{Run, baton, baton_path, modules, signals};
use nix::pty::openpty;
use nix::sys::termios::{LocalFlags, tcgetattr};

const SIGABRT: i32 = 6;

/// A run whose allocator raises signals in its middle, and ends the program if a handler allocates.
fn with_raising_malloc(code: &str) -> Run {
    baton()
        .process_code(code)
        .env("LD_PRELOAD", modules::dir().join("raising_malloc.so"))
}

fn overflow_in(function: &str) -> String {
    format!(
        "local overflow = require 'overflow'
         local options = {{name = 'deep', stack_size = 256 * 1024}}
         process.spawn(options, function() overflow.{function}() end):join()"
    )
}

fn overflow_report(function: &str) -> String {
    format!("inside '{function}'; give it more with the option stack_size of spawn\n")
}

#[test]
fn an_overflow_names_the_process_its_stack_and_the_function() {
    let got = baton().process_code(&overflow_in("by_recursion")).run();
    got.ended_by_signal(SIGABRT)
        .complained(" 'deep' overflowed its C stack of ")
        .complained(" bytes (stack_size) ")
        .complained(&overflow_report("by_recursion"));
}

/// A regression test: the report read the frame before the first one of a coroutine that was about
/// to begin. There is none.
#[test]
fn an_overflow_by_nested_coroutines_is_reported() {
    for stack_size in (64..72).map(|kibibytes| kibibytes * 1024) {
        let program = format!(
            "local function nest() return coroutine.wrap(nest)() end
             process.spawn({{ name = 'nested', stack_size = {stack_size} }}, nest):join()"
        );
        let got = baton().process_code(&program).run();
        got.ended_by_signal(SIGABRT)
            .complained(" 'nested' overflowed its C stack of ");
    }
}

/// A regression test: to learn the function's name, the report entered the VM. It omitted the name
/// if that enter would have been slow, as here, where another process waits for the VM.
#[test]
fn an_overflow_names_the_function_while_others_wait_for_the_vm() {
    let other = "process.spawn(function() while true do end end)\n";
    let code = format!("{other}{}", overflow_in("after_a_wait"));
    let got = baton().process_code(&code).run();
    got.ended_by_signal(SIGABRT)
        .complained(&overflow_report("after_a_wait"));
    assert!(!got.stderr.contains("baton: processes"), "{}", got.stderr);
}

#[test]
fn an_overflow_in_the_middle_of_malloc_is_reported() {
    let got = with_raising_malloc(&overflow_in("in_malloc")).run();
    got.ended_by_signal(SIGABRT)
        .complained(&overflow_report("in_malloc"));
}

/// A regression test: the handler of SIGINT changed the signal's action through a table that the
/// VM's owner may be changing. Two interrupts cover both paths of the handler.
#[test]
fn sigint_in_the_middle_of_malloc_interrupts_and_a_second_one_ends_the_program() {
    const SIGINT: i32 = 2;
    let interrupt = "pcall(function() C.malloc(0x5EED1) while true do end end)";
    let got = with_raising_malloc(&format!(
        "local ffi = require 'baton.ffi'
         ffi.cdef 'void *malloc(size_t)'
         local C = ffi.C
         io.stderr:write(select(2, {interrupt}))
         io.stderr:write ' caught'
         {interrupt}"
    ))
    .run();
    got.ended_by_signal(SIGINT)
        .complained("interrupted! caught");
}

/// An open channel receives SIGINT in place of the handler. After its close, the handler is back.
#[test]
fn a_channel_for_sigint_leaves_the_second_interrupt_deadly() {
    const SIGINT: i32 = 2;
    let got = with_raising_malloc(
        "local ffi = require 'baton.ffi'
         ffi.cdef 'void *malloc(size_t)'
         local malloc = ffi.C.malloc
         print(pcall(function() malloc(0x5EED1) while true do end end))
         local signals = process.signals 'INT'
         malloc(0x5EED1)
         print(signals:receive())
         signals:close()
         io.stdout:flush()
         malloc(0x5EED1)
         while true do end",
    )
    .run();
    got.ended_by_signal(SIGINT);
    assert!(got.stdout.contains("interrupted!"), "{got}");
    assert!(got.stdout.ends_with("\nINT\n"), "{got}");
}

/// The handlers of the preemption signal, of a channel of signals, and of SIGQUIT.
#[test]
fn handlers_that_interrupt_malloc_take_no_memory() {
    let got = with_raising_malloc(
        "local signals = process.signals('USR1')
         local received, is_over = 0, false
         local receiver = process.spawn({priority = 50}, function()
           while not is_over do
             if signals:receive(0.01) then received = received + 1 end
           end
         end)
         local workers = {}
         for i = 1, 4 do
           workers[i] = process.spawn(function()
             for round = 1, 20000 do
               local t = {}
               for j = 1, 5 do t[j] = ('x'):rep(round % 100 + j) end
             end
           end)
         end
         for i = 1, 4 do workers[i]:join() end
         is_over = true
         receiver:join()
         print(received > 0)",
    )
    .run();
    got.ends_with(0)
        .wrote("true\n")
        .complained("baton: processes");
}

/// The process that SIGINT would interrupt runs a command, which then gets the signal alone.
#[test]
fn sigint_in_the_middle_of_malloc_is_left_to_a_command() {
    let got = with_raising_malloc(
        r#"local ffi = require 'baton.ffi'
           ffi.cdef 'void *malloc(size_t)'
           local malloc = ffi.C.malloc
           local path = require 'check'.fifo()
           process.spawn(function()
             local runs <close> = io.open(path, 'w')
             for _ = 1, 20 do malloc(0x5EED1) end
           end)
           print(pcall(os.execute, ("cat '%s'"):format(path)))"#,
    )
    .run();
    got.succeeds().wrote("true\ttrue\texit\t0\n");
}

/// While a line is edited, a deadly signal first puts the terminal's mode back.
#[test]
fn a_deadly_signal_in_the_middle_of_malloc_puts_the_terminal_back() {
    const SIGTERM: i32 = 15;
    const EDITS: &str = "\x1b[?2004h";
    const PUT_BACK: &str = "\x1b[?2004l";
    let terminal = openpty(None, None).expect("a terminal");
    let end = || Stdio::from(terminal.slave.try_clone().expect("a descriptor"));
    signals::give_children_default_actions();
    let mut child = Command::new(baton_path())
        .env("LD_PRELOAD", modules::dir().join("raising_malloc.so"))
        .env("TERM", "xterm")
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .expect("baton starts");
    drop(terminal.slave);
    let mut master = File::from(terminal.master);
    // The signal is raised only while there is a handler for it: while the next line is edited.
    let line = "ffi = require 'baton.ffi' ffi.cdef 'void *malloc(size_t)' process = require \
                'baton.process' process.spawn(function() while true do ffi.C.malloc(0x5EED2) \
                process.sleep(0.001) end end)";
    writeln!(master, "{line}\r").expect("the terminal takes it");
    let mut shown = Vec::new();
    let mut piece = [0; 1024];
    // Reading a terminal whose last user has closed it gives an error.
    while let Ok(length @ 1..) = master.read(&mut piece) {
        shown.extend_from_slice(&piece[..length]);
    }
    let status = child.wait().expect("baton's status");
    let shown = String::from_utf8_lossy(&shown);
    assert_eq!(status.signal(), Some(SIGTERM), "{status}: {shown}");
    let (_, last) = shown.rsplit_once(EDITS).expect("a line is edited");
    assert!(last.contains(PUT_BACK), "{last:?}");
    let mode = tcgetattr(&master).expect("the terminal's mode");
    assert!(mode.local_flags.contains(LocalFlags::ICANON), "{mode:?}");
}
