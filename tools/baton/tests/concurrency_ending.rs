//! The program ends promptly whatever its daemons are doing, and calls that it abandons do no harm.

mod harness;

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use harness::{baton, baton_path};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::openpty;

/// The limit for the time of the end.
const AT_ONCE: Duration = Duration::from_millis(50);

/// The median of this many ends is judged. A single one may be late, if the program has to be
/// loaded from the disk or waits for the processor.
const ENDINGS: usize = 5;

/// A daemon that has ended already. Its test shows how long the machine takes for an end.
const NOTHING: &str = "";

/// What a daemon does when the program ends.
const PIPE: &str = "io.read()";
const COMMAND: &str = "os.execute 'exec sleep 5 <&- >&- 2>&-'";
const CALL: &str = "local ffi = require 'baton.ffi' ffi.cdef 'int sleep(unsigned);' ffi.C.sleep(5)";
const OWN_PIPE: &str = "io.popen('exec sleep 5 >&2 2>&-'):read()";
const OWN_FULL_PIPE: &str = "io.popen('exec sleep 5 >&- 2>&-', 'w'):write(('x'):rep(1000000))";
const FIFO: &str = "io.open(require 'check'.fifo())";

/// How the program ends, and its expected status.
const ENDS: [(&str, i32); 6] = [
    ("", 0),
    ("error 'failed'", 1),
    ("process.main:kill()", 1),
    ("os.exit(3)", 3),
    ("os.exit(3, true)", 3),
    ("process.spawn(os.exit, 4, true) process.sleep(100)", 4),
];

/// A standard input that provides nothing and stays open.
#[derive(Clone, Copy)]
enum Input {
    Pipe,
    Terminal,
    Socket,
}

/// Starts a program whose daemon runs `what`, and which then runs `end`. The second value keeps the
/// input open.
fn start(what: &str, end: &str, input: Input) -> (Child, Box<dyn std::any::Any>) {
    let code = format!(
        "local process = require 'baton.process'
         process.spawn({{ daemon = true }}, function() {what} end)
         process.sleep(0.03)
         io.stderr:write 'now\\n'
         {end}"
    );
    let (stdin, keep): (Stdio, Box<dyn std::any::Any>) = match input {
        Input::Pipe => {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            (reader.into(), Box::new(writer))
        }
        Input::Terminal => {
            let terminal = openpty(None, None).expect("a terminal");
            (terminal.slave.into(), Box::new(terminal.master))
        }
        Input::Socket => {
            let (one, other) = UnixStream::pair().expect("two sockets");
            (
                Stdio::from(std::os::fd::OwnedFd::from(one)),
                Box::new(other),
            )
        }
    };
    let scratch = tempfile_dir();
    let child = std::process::Command::new(baton_path())
        .arg("-e")
        .arg(code)
        .env(
            "LUA_PATH_5_4",
            format!("{}/?.lua;;", harness::lua_dir().display()),
        )
        .env("SCRATCH", &scratch)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("baton starts");
    (child, keep)
}

/// A directory for the one file that a program may create.
fn tempfile_dir() -> std::path::PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: the number only has to be unique.
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("end-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a directory");
    path
}

/// Returns the time from the program's last output to its end, and its status.
fn time_of_end(what: &str, end: &str, input: Input) -> (Duration, Option<i32>) {
    let (mut child, _keep) = start(what, end, input);
    let mut stderr: File =
        std::os::fd::OwnedFd::from(child.stderr.take().expect("stderr is piped")).into();
    let mut words = [0; 4];
    stderr
        .read_exact(&mut words)
        .expect("the program comes to its end");
    let before = Instant::now();
    let ended = await_end(&mut child);
    let status = ended
        .then(|| child.wait().expect("a status").code())
        .flatten();
    if !ended {
        child.kill().expect("the program can be killed");
        child.wait().expect("a status");
    }
    (before.elapsed(), status)
}

/// Returns whether the program ends within a few seconds.
fn await_end(child: &mut Child) -> bool {
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        if child
            .try_wait()
            .expect("the child can be waited for")
            .is_some()
        {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Returns the median time of several ends. Each must have the status `wanted`.
fn usual_time_of_end(what: &str, end: &str, wanted: i32, input: Input) -> Duration {
    let mut times = [(); ENDINGS].map(|()| {
        let (time, status) = time_of_end(what, end, input);
        assert_eq!(status, Some(wanted), "after {time:?}: {what}; {end}");
        time
    });
    times.sort_unstable();
    times[ENDINGS / 2]
}

/// The end may take little longer than that of the same program with an idle daemon. A busy machine
/// makes both longer.
fn ends_at_once(what: &str, input: Input) {
    for (end, wanted) in ENDS {
        let idle = usual_time_of_end(NOTHING, end, wanted, input);
        let took = usual_time_of_end(what, end, wanted, input);
        assert!(
            took <= AT_ONCE + 3 * idle,
            "{what}; {end}: the end took {took:?}, and {idle:?} beside an idle daemon"
        );
    }
}

#[test]
fn a_daemon_that_reads_a_pipe_does_not_delay_the_end() {
    ends_at_once(PIPE, Input::Pipe);
}

#[test]
fn a_daemon_that_reads_a_terminal_does_not_delay_the_end() {
    ends_at_once(PIPE, Input::Terminal);
}

#[test]
fn a_daemon_that_reads_a_socket_does_not_delay_the_end() {
    ends_at_once(PIPE, Input::Socket);
}

#[test]
fn a_daemon_that_runs_a_command_does_not_delay_the_end() {
    ends_at_once(COMMAND, Input::Pipe);
}

#[test]
fn a_daemon_in_a_call_through_the_ffi_does_not_delay_the_end() {
    ends_at_once(CALL, Input::Pipe);
}

#[test]
fn a_daemon_that_reads_from_its_own_command_does_not_delay_the_end() {
    ends_at_once(OWN_PIPE, Input::Pipe);
}

#[test]
fn a_daemon_that_writes_to_a_command_which_does_not_read_does_not_delay_the_end() {
    ends_at_once(OWN_FULL_PIPE, Input::Pipe);
}

#[test]
fn a_daemon_that_opens_a_fifo_does_not_delay_the_end() {
    ends_at_once(FIFO, Input::Pipe);
}

#[test]
fn a_daemon_that_waits_for_a_mutex_of_a_daemon_in_a_call_does_not_delay_the_end() {
    ends_at_once(
        "local m = process.mutex()
         local c = process.condition(m)
         process.spawn({ daemon = true }, function() m:lock() c:wait() end)
         process.sleep(0.005)
         m:lock()
         local ffi = require 'baton.ffi'
         ffi.cdef 'int sleep(unsigned);'
         ffi.C.sleep(5)",
        Input::Pipe,
    );
}

#[test]
fn fifty_daemons_in_calls_do_not_delay_the_end() {
    let code = "local ffi = require 'baton.ffi'
         ffi.cdef 'int sleep(unsigned);'
         for _ = 1, 50 do process.spawn({ daemon = true }, ffi.C.sleep, 5) end";
    ends_at_once(code, Input::Pipe);
}

#[test]
fn written_data_is_not_lost_when_a_call_is_abandoned() {
    let mut program = baton()
        .process_code(
            "local ffi = require 'baton.ffi'
             ffi.cdef 'int sleep(unsigned); void *fopen(const char *, const char *); int \
             fputs(const char *, void *);'
             local file, path = ffi.C.fopen(os.getenv 'SCRATCH' .. '/file', 'w')
             ffi.C.fputs('in a file of C', file)
             kept = io.open(os.getenv 'SCRATCH' .. '/kept', 'w')
             kept:write 'in a file of Lua'
             process.spawn({ daemon = true }, ffi.C.sleep, 5)
             process.sleep(0.03)
             io.write(('x'):rep(65536)) -- the pipe is full
             io.stdout:flush()
             io.write(('x'):rep(3000))
             io.stderr:write 'now'",
        )
        .hold_stdout()
        .start();
    let scratch = program.scratch().to_owned();
    program.await_stderr("now");
    std::thread::sleep(Duration::from_millis(100)); // longer than the end waits for calls
    program.read_stdout();
    let files = || {
        ["file", "kept"].map(|name| std::fs::read_to_string(scratch.join(name)).unwrap_or_default())
    };
    let until = Instant::now() + Duration::from_secs(20);
    while files().iter().any(String::is_empty) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(files(), ["in a file of C", "in a file of Lua"]);
    let outcome = program.finish();
    outcome.succeeds();
    assert_eq!(outcome.stdout.len(), 68_536);
}

/// Guards against a time limit for files that no call uses, and against one file in use that hides
/// the others.
#[test]
fn an_exit_flushes_all_files_but_those_in_use_however_slowly_they_are_read() {
    let mut program = baton()
        .process_code(
            "local kept = io.open(os.getenv 'SCRATCH' .. '/kept', 'w')
             kept:write 'in a file'
             local slow = io.popen('sleep 0.1; wc -c', 'w')
             slow:setvbuf('full', 100000)
             slow:write(('x'):rep(66536)) -- more than a pipe holds
             local stuck = io.popen('exec sleep 5 >&- 2>&-', 'w')
             process.spawn({ daemon = true }, function() stuck:write(('x'):rep(1000000)) end)
             process.sleep(0.03)
             os.exit(0)",
        )
        .start();
    program.await_rest();
    let kept = std::fs::read_to_string(program.scratch().join("kept"));
    assert_eq!(kept.expect("a file"), "in a file");
    program.finish().succeeds().wrote("66536\n").quietly();
}

/// Guards against two processes that wait for each other until a time limit, busily.
#[test]
fn of_two_processes_that_exit_in_their_closing_methods_the_first_one_counts() {
    let exits = "local function closing(f) return setmetatable({}, { __close = f }) end
         process.spawn({ daemon = true }, function()
           local after <close> = closing(function() print 'closed' end)
           local exits <close> = closing(function()
             pcall(os.exit, 4, true)
             print 'never'
           end)
           process.sleep(1000)
         end)
         process.yield()";
    let by_another = "process.spawn(function()
           local exits <close> = closing(function() os.exit(3, true) end)
         end)
         process.sleep(1000)";
    for (end, status) in [(by_another, 3), ("os.exit(3, true)", 3), ("", 4)] {
        baton()
            .process_code(&format!("{exits} {end}"))
            .run()
            .ends_with(status)
            .wrote("closed\n")
            .quietly();
    }
}

#[test]
fn a_program_whose_main_process_was_killed_says_so_and_has_failed() {
    let end = |kill: &str| {
        let code = format!("process.spawn(function() process.yield() print 'rest' end) {kill}");
        baton().process_code(&code).run()
    };
    for (kill, why) in [
        (
            "process.main:kill()",
            "the main process was killed: killed\n",
        ),
        (
            "process.spawn(function() process.main:kill('gone') end) process.sleep(9)",
            "the main process was killed: gone\n",
        ),
        (
            "process.main:kill(setmetatable({}, { __tostring = error }))",
            "the main process was killed\n",
        ),
    ] {
        end(kill).ends_with(1).wrote("rest\n").complained(why);
    }
}

#[test]
fn a_daemons_print_into_a_full_pipe_arrives_once_when_the_pipe_is_read() {
    for end in ["", "os.exit(0)"] {
        let mut program = baton()
            .process_code(&format!(
                "process.spawn({{ daemon = true }}, function() while true do \
                 print(('y'):rep(9999)) end end)
                 process.sleep(0.1)
                 io.stderr:write 'now'
                 {end}"
            ))
            .hold_stdout()
            .start();
        program.await_stderr("now");
        std::thread::sleep(Duration::from_millis(100));
        program.read_stdout();
        let outcome = program.finish();
        outcome.succeeds();
        assert!(
            outcome.stdout.len() >= 60_000,
            "a pipe was full\n{}",
            outcome.stdout.len()
        );
        let lines: Vec<&str> = outcome.stdout.split('\n').collect();
        let (last, whole) = lines.split_last().expect("one at least");
        assert!(
            whole.iter().all(|line| line.len() == 9999),
            "each line is whole, and there once"
        );
        assert!(last.len() <= 9999);
    }
}

#[test]
fn a_close_method_of_a_daemon_that_reads_runs_at_the_end() {
    baton()
        .process_code(
            "process.spawn({ daemon = true }, function()
               local _ <close> = setmetatable({}, { __close = function() process.sleep(0.1) print \
               'closed' end })
               io.read()
             end)
             process.spawn({ daemon = true }, function()
               local _ <close> = setmetatable({}, { __close = function() os.execute 'sleep 0.1' \
               print 'closed too' end })
               os.execute 'exec sleep 5 >&- 2>&-'
             end)
             process.sleep(0.05)",
        )
        .open_stdin()
        .run()
        .succeeds()
        .wrote("closed\nclosed too\n")
        .quietly();
}

#[test]
fn the_main_process_s_own_commands_are_awaited_as_in_lua() {
    let before = Instant::now();
    baton()
        .process_code(
            "process.spawn({ daemon = true }, io.read)
             pipe = io.popen 'sleep 0.3'
             process.sleep(0.01)",
        )
        .open_stdin()
        .run()
        .succeeds()
        .quietly();
    assert!(before.elapsed() >= Duration::from_millis(300));
}

#[test]
fn the_state_is_closed_while_a_call_that_uses_a_file_is_left_behind() {
    let outcome = baton()
        .process_code(
            "warn '@on'
             local file = io.popen('exec sleep 5 >&- 2>&-', 'w')
             process.spawn({ daemon = true }, function() file:write(('x'):rep(1000000)) end)
             process.sleep(0.3)
             last = setmetatable({}, { __gc = function()
               print(pcall(file.write, file, 'more'))
               print(pcall(file.close, file))
             end })",
        )
        .run();
    outcome.succeeds();
    assert_eq!(
        outcome
            .stdout
            .matches("a call that has not returned uses this file")
            .count(),
        2,
        "{outcome}"
    );
}

#[test]
fn an_exit_within_a_finalizer_at_the_end_runs_the_others_first_as_in_lua() {
    let code = "collectgarbage 'stop'
         kept = { setmetatable({}, { __gc = function() print 'last' end }),
           setmetatable({}, { __gc = function() os.exit(6, true) end }),
           setmetatable({}, { __gc = function()
             local _ <close> = setmetatable({}, { __close = function() print 'closed' end })
             print 'leaves'
             os.exit(5, true)
             print 'never'
           end }),
           setmetatable({}, { __gc = function() print 'first' end }) }";
    baton()
        .code(code)
        .run()
        .ends_with(6)
        .wrote("first\nleaves\nclosed\nlast\n")
        .quietly();
    let with_others = format!("process.spawn({{ daemon = true }}, process.sleep, 100) {code}");
    baton()
        .process_code(&with_others)
        .run()
        .ends_with(6)
        .wrote("first\nleaves\nclosed\nlast\n")
        .quietly();
}

#[test]
fn a_program_whose_input_is_a_terminal_ends_without_a_key() {
    let idle = usual_time_of_end(NOTHING, "", 0, Input::Terminal);
    let took = usual_time_of_end("io.read('a')", "", 0, Input::Terminal);
    assert!(
        took < Duration::from_secs(1) + 3 * idle,
        "{took:?}, {idle:?}"
    );
}

#[test]
fn a_killed_reader_ends_at_once_and_takes_no_later_input() {
    let mut program = baton()
        .process_code(
            "for _, how in ipairs { 'l', 'n', 'a', 100000 } do
               local reader = process.spawn(function() return io.read(how) end)
               repeat process.yield() until reader:status() == 'waiting'
               reader:kill()
               assert(reader:join(10) == false)
             end
             io.stderr:write 'now'
             print(process.spawn(io.read):join())",
        )
        .open_stdin()
        .start();
    program.await_stderr("now");
    program.write_stdin("a line\n");
    program.finish().succeeds().wrote("true\ta line\n");
}

#[test]
fn readers_of_pipes_take_no_native_thread() {
    let mut program = baton()
        .process_code(
            "local all, pipes = {}, {}
             for i = 1, 20 do
               pipes[i] = io.popen('read x; echo ' .. i)
             end
             for i = 1, 20 do all[i] = process.spawn(function() return pipes[i]:read 'n' end) end
             for i = 1, 20 do repeat process.sleep(0.001) until all[i]:status() == 'waiting' end
             print(process.threads() <= 6)
             for i = 1, 20 do all[i]:kill() assert(all[i]:join(10) == false) end
             io.stderr:write 'now'",
        )
        .open_stdin()
        .start();
    program.await_stderr("now");
    program.close_stdin();
    program.finish().succeeds().wrote("true\n");
}

/// Input arrives byte by byte, while the formats read many bytes at a time.
#[test]
fn all_formats_read_from_a_pipe_beside_others_as_in_lua() {
    let code = "local total = 0
         print(io.read 'n', io.read(1), io.read 'L', io.read(5), io.read(0))
         print(#io.read(9000), #io.read(20000))
         for line in io.lines() do
           total = total + #line
           if total > 100000 then break end
         end
         print(total, #io.read 'a', io.read(1), io.read 'a', io.read 'l')";
    let line = format!("{}\n", "z".repeat(999));
    let text = format!("12.5 rest of it\nfive!{}", line.repeat(500));
    let alone = baton().code(code).stdin(&text).run();
    alone.succeeds();
    let beside = format!(
        "process.spawn({{ daemon = true }}, function() while true do process.sleep(0.0001) end \
         end) {code}"
    );
    baton()
        .process_code(&beside)
        .stdin(&text)
        .run()
        .succeeds()
        .wrote(&alone.stdout);
    let mut program = baton().process_code(&beside).open_stdin().start();
    for piece in text.as_bytes().chunks(7777) {
        program.write_stdin(std::str::from_utf8(piece).expect("ASCII"));
    }
    program.close_stdin();
    program.finish().succeeds().wrote(&alone.stdout);
}

/// Another process polls the same descriptor.
#[test]
fn an_input_that_is_set_to_be_non_blocking_fails_as_in_lua() {
    let (ours, theirs) = UnixStream::pair().expect("two sockets");
    theirs.set_nonblocking(true).expect("it can be");
    let child = std::process::Command::new(baton_path())
        .args([
            "-e",
            "local process = require 'baton.process'
             process.spawn({ daemon = true }, process.sleep, 100)
             print(io.read())",
        ])
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .spawn()
        .expect("baton starts");
    let output = child.wait_with_output().expect("it ends");
    let mut asked = [PollFd::new(ours.as_fd(), PollFlags::POLLHUP)];
    assert!(poll(&mut asked, PollTimeout::ZERO).is_ok());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.starts_with("nil\tResource temporarily unavailable"),
        "{text}"
    );
}
