//! Programs that observers look into.

use super::{Outcome, Run, Started, baton, baton_path};
use std::path::PathBuf;

/// The same run, with its requests and its socket in its own scratch directory.
pub(crate) fn in_own_directory(run: Run) -> Run {
    let own = run.scratch().to_owned();
    run.env("XDG_RUNTIME_DIR", own)
}

/// A run of this code that can be looked into.
pub(crate) fn observed(code: &str) -> Run {
    in_own_directory(baton().process_code(code))
}

/// A program that has written "ready".
pub(crate) fn ready(run: Run) -> Started {
    let mut program = run.start();
    program.await_stdout("ready\n");
    program
}

/// What a command says of a program.
pub(crate) fn ask(command: &str, program: &Started, more: &[&str]) -> Outcome {
    let run = Run::of(baton_path())
        .arg(command)
        .arg(program.pid().to_string());
    more.iter()
        .fold(run, |run, argument| run.arg(argument))
        .run()
}

/// What `baton stacks` writes.
pub(crate) fn stacks(program: &Started, more: &[&str]) -> String {
    let outcome = ask("stacks", program, more);
    outcome.succeeds();
    outcome.stdout
}

/// Has `baton profile` write a program's profile in each format. `options` say what is profiled.
pub(crate) fn assert_each_suffix_gives_its_format(program: &Started, options: &[&str]) {
    let begins: [(&str, &[u8]); 4] = [
        ("x.svg", b"<"),
        ("x.pb.gz", &[0x1f, 0x8b]),
        ("x.json", b"{"),
        ("x.folded", b"main chunk"),
    ];
    for (name, beginning) in begins {
        let file = program.scratch().join(name);
        let path = file.to_string_lossy().into_owned();
        let options = [options, &["-d", "0.5", "-o", &path]].concat();
        ask("profile", program, &options).succeeds();
        let written = std::fs::read(&file).expect("it was written");
        assert!(written.starts_with(beginning), "{name} begins otherwise");
    }
}

/// The directory of a program's requests and of its socket.
pub(crate) fn directory(program: &Started) -> PathBuf {
    program.scratch().join("baton")
}

/// The socket of a program's observer.
pub(crate) fn socket(program: &Started) -> PathBuf {
    directory(program).join(format!("{}.socket", program.pid()))
}

#[track_caller]
pub(crate) fn assert_has(text: &str, part: &str) {
    assert!(text.contains(part), "no '{part}' in:\n{text}");
}

/// Processes that wait for each other, and one that sleeps.
pub(crate) const WAITERS: &str = "
    local mutex = process.mutex { name = 'accounts' }
    local function inner() mutex:lock() end
    local function outer() inner() return 1 end
    mutex:lock()
    for _ = 1, 3 do process.spawn({ name = 'clerk' }, outer) end
    process.spawn({ name = 'sleeper' }, function()
      coroutine.wrap(function() process.sleep(3600) end)()
    end)
    process.sleep(0)
    print 'ready'
    io.stdout:flush()
    process.channel():receive()";
