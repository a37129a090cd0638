//! Tests the programs under `examples`: each does what its first lines say.

mod chat;
mod client;
mod first_server;
#[path = "../harness/mod.rs"]
mod harness;
mod hello;
mod notes;
mod orders;
mod philosophers;
mod race;
#[path = "../packages/server.rs"]
#[allow(dead_code, reason = "other tests need other servers")]
mod server;
mod several_vms;
mod web_chat;
mod web_server;

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Outcome, Run, baton, baton_path, missing};
use web_server::WebServer;

fn example(name: &str, arguments: &[&str]) -> Run {
    with_example(baton(), name, arguments)
}

/// The same for a program with few descriptors: at most [`CROWD`] connections.
fn example_with_few_descriptors(name: &str, arguments: &[&str]) -> Run {
    let run = Run::of(Path::new("/bin/sh"))
        .arg("-c")
        .arg(format!("ulimit -n {CROWD}; exec \"$0\" \"$@\""))
        .arg(baton_path());
    with_example(run, name, arguments)
}

/// A number of connections that exceeds the limit of a program with few descriptors.
const CROWD: usize = 40;

fn with_example(run: Run, name: &str, arguments: &[&str]) -> Run {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let run = run.arg(examples.join(name));
    arguments
        .iter()
        .fold(run, |run, argument| run.arg(argument))
}

/// Opens more connections than the program can have. They send nothing.
fn connect_crowd(port: u16) -> Vec<TcpStream> {
    let connect = |_| TcpStream::connect(("127.0.0.1", port)).expect("the program listens");
    (0..CROWD).map(connect).collect()
}

/// The program reported once, and only once, that it could not accept a connection.
fn complained_once(outcome: &Outcome, name: &str) {
    let complaint = format!("{name}: cannot accept: ");
    assert_eq!(outcome.stderr.matches(&complaint).count(), 1, "{outcome}");
}

/// The program wrote these lines in this order, possibly with others between them.
fn has_lines<'a>(outcome: &Outcome, expected: impl IntoIterator<Item = &'a str>) {
    let mut lines = outcome.stdout.lines();
    for wanted in expected {
        assert!(
            lines.any(|line| line == wanted),
            "no line {wanted:?} where it should be\n{outcome}"
        );
    }
}

/// Makes a named pipe in a new directory.
fn new_pipe(test: &str) -> PathBuf {
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the test can be made");
    let pipe = directory.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(
        made.is_ok_and(|status| status.success()),
        "mkfifo makes a named pipe"
    );
    pipe
}

fn remove_directory_of(pipe: &Path) {
    let directory = pipe.parent().expect("the pipe is in a directory");
    std::fs::remove_dir_all(directory).expect("the test's directory can be removed");
}

#[test]
fn the_link_checker_asks_for_all_links_at_once() {
    if missing::is_luasocket("the link checker") {
        return;
    }
    const LINKS: usize = 8;
    let links: String = (1..=LINKS)
        .map(|i| format!("<a href=\"/together/{i}\">{i}</a>\n"))
        .collect();
    // The server answers only after it has received all requests.
    let server = WebServer::start(LINKS, links);
    let outcome = example("link_checker.lua", &["-t", "30"])
        .arg(server.address())
        .run();
    outcome.succeeds().quietly();
    let counts = format!("{LINKS} links: {LINKS} ok, 0 dead, 0 skipped; ");
    assert!(outcome.stdout.contains(&counts), "{outcome}");
}

#[test]
fn the_link_checker_tells_good_links_from_dead_ones() {
    if missing::is_luasocket("the link checker") {
        return;
    }
    // No server listens on port 1.
    let page = r##"<p><a href="/good">a</a> <A class="x" HREF='/missing'>b</A> <a href="#top">c</a>
        <a href="moved?again">d</a> <a href="/good#part">e</a>
        <a href="/loop">f</a> <a href="/silent">g</a>
        <a href="http://127.0.0.1:1/">h</a> <a href="mailto:somebody@example.org">i</a>
        <a href="/no-head">j</a> <a href="/closes-on-head">k</a></p>"##;
    let server = WebServer::start(1, page.to_owned());
    let address = server.address();
    let outcome = example("link_checker.lua", &["-t", "2"])
        .arg(&address)
        .run();
    outcome.ends_with(1).quietly();
    let expected = [
        format!("ok       {address}good (status 200)"),
        format!("dead     {address}missing (status 404)"),
        format!("ok       {address}moved?again (status 200)"),
        format!("dead     {address}loop (too many redirections)"),
        format!("dead     {address}silent (timeout)"),
        "dead     http://127.0.0.1:1/ (connection refused)".to_owned(),
        "skipped  mailto:somebody@example.org (no mailto here)".to_owned(),
        format!("ok       {address}no-head (status 200)"),
        format!("ok       {address}closes-on-head (status 200)"),
    ];
    has_lines(&outcome, expected.iter().map(String::as_str));
    assert!(
        outcome
            .stdout
            .contains("9 links: 4 ok, 4 dead, 1 skipped; "),
        "{outcome}"
    );
}

#[test]
fn the_link_checker_takes_no_page_without_end() {
    if missing::is_luasocket("the link checker") {
        return;
    }
    let server = WebServer::start(1, "x".repeat((1 << 20) + 1));
    let outcome = example("link_checker.lua", &[]).arg(server.address()).run();
    outcome.ends_with(1).complained("too large");
}

#[test]
fn the_word_count_goes_on_beside_a_file_that_blocks() {
    let pipe = new_pipe("word-count");
    let plain = pipe.with_file_name("plain");
    // Longer than a block of the program, to test that it does not cut words.
    std::fs::write(&plain, "the quick, the Lazy\n".repeat(10_000)).expect("a file can be written");

    let mut counting = example("word_count.lua", &["-w", "2"])
        .arg(&pipe)
        .arg(&plain)
        .start();
    // The pipe has no writer yet, so its reader blocks in fopen.
    counting.await_stdout(&format!(
        "   10000    40000     200000  {}\n",
        plain.display()
    ));
    let mut writer = OpenOptions::new()
        .write(true)
        .open(&pipe)
        .expect("the pipe has a reader");
    writer
        .write_all(b"one word more:\nlazy")
        .expect("the pipe takes a few bytes");
    drop(writer);
    let outcome = counting.finish();
    remove_directory_of(&pipe);
    outcome.succeeds().quietly();
    let of_pipe = format!("       1        4         19  {}", pipe.display());
    has_lines(
        &outcome,
        [
            of_pipe.as_str(),
            "   10001    40004     200019  total",
            "   20000  the",
            "   10001  lazy",
        ],
    );
}

#[test]
fn the_word_count_names_a_file_that_cannot_be_read() {
    let outcome = example("word_count.lua", &[]).arg("no-such-file").run();
    outcome
        .ends_with(1)
        .complained("no-such-file: No such file or directory");
    has_lines(&outcome, ["       0        0          0  total"]);
}

#[test]
fn the_workers_do_every_job_though_one_of_them_is_killed() {
    let Some(server) = harness::nats::Server::start() else {
        return;
    };
    let run = example("workers.lua", &["30"]).env("NATS_URL", server.url());
    let outcome = run.run();
    outcome.succeeds();
    assert!(
        outcome
            .stdout
            .starts_with("30 jobs are stored\na worker was killed\nall are done, "),
        "{outcome}"
    );
}

#[test]
fn the_job_queue_reports_each_command() {
    let jobs = "echo one; echo two >&2\nexit 3\n\n0.2: sleep 60\n";
    let outcome = example("job_queue.lua", &["-n", "1"]).stdin(jobs).run();
    outcome.ends_with(1).quietly().wrote(
        "done       echo one; echo two >&2\n    one\n    two\n\
         exit 3     exit 3\n\
         late 0.2 s sleep 60\n",
    );
}

#[test]
fn the_job_queue_runs_commands_side_by_side() {
    let pipe = new_pipe("side-by-side");
    // Opening either end of a named pipe waits for the other end. Run one after the other, these
    // two would wait for ever.
    let jobs = format!("cat {0}\necho met >{0}\n", pipe.display());
    let outcome = example("job_queue.lua", &["-n", "2"]).stdin(&jobs).run();
    remove_directory_of(&pipe);
    outcome.succeeds().quietly();
    has_lines(&outcome, ["    met"]);
}

#[test]
fn the_job_queue_cancels_the_rest_when_one_fails() {
    let jobs = "sleep 60\nexit 7\nsleep 61\n";
    let outcome = example("job_queue.lua", &["-n", "2", "-x"])
        .stdin(jobs)
        .run();
    outcome
        .ends_with(1)
        .quietly()
        .wrote("exit 7     exit 7\ncancelled  sleep 60\n");
}

#[test]
fn the_job_queue_leaves_nothing_behind_when_interrupted() {
    let pipe = new_pipe("interrupted");
    let mut queue = example("job_queue.lua", &[]).open_stdin().start();
    queue.write_stdin(&format!(
        "exec 9>{}; echo started >&9; sleep 600\n",
        pipe.display()
    ));
    // Reads until no process has the pipe open for writing: neither the command's shell nor its
    // child.
    let mut watcher = Run::of(Path::new("/bin/cat")).arg(&pipe).start();
    watcher.await_stdout("started");
    queue.signal("INT");
    let outcome = queue.finish();
    outcome.ends_with(1).complained("interrupted!");
    has_lines(
        &outcome,
        [format!(
            "cancelled  exec 9>{}; echo started >&9; sleep 600",
            pipe.display()
        )
        .as_str()],
    );
    watcher.finish().succeeds();
    remove_directory_of(&pipe);
}

/// Starts each worker so that SIGUSR1 kills it, while the program goes on.
const KILLS_WORKERS: &str = r#"
local process = require "baton.process"
local spawn = process.spawn
function process.spawn(options, f, ...)
  if not options.name:find "^worker" then return spawn(options, f, ...) end
  local signals = process.signals "USR1"
  return spawn(options, function(...)
    local worker = spawn({ quiet = true }, f, ...)
    signals:receive()
    worker:kill()
    process.event():wait()
  end, ...)
end
"#;

#[test]
fn the_job_queue_ends_the_command_of_a_worker_that_is_killed() {
    let pipe = new_pipe("killed");
    let run = baton().arg("-e").arg(KILLS_WORKERS);
    let mut queue = with_example(run, "job_queue.lua", &["-n", "1"])
        .open_stdin()
        .start();
    queue.write_stdin(&format!(
        "exec 9>{}; echo started >&9; sleep 600\n",
        pipe.display()
    ));
    let mut watcher = Run::of(Path::new("/bin/cat")).arg(&pipe).start();
    watcher.await_stdout("started");
    queue.signal("USR1");
    watcher.finish().succeeds(); // no process of the command has the pipe open
    queue.signal_until_it_ends("KILL");
    remove_directory_of(&pipe);
}

#[test]
fn the_examples_say_how_they_are_called() {
    for (name, arguments) in [
        ("link_checker.lua", &["-n", "none", "http://127.0.0.1/"][..]),
        ("link_checker.lua", &[]),
        ("word_count.lua", &[]),
        ("job_queue.lua", &["-t"]),
        ("philosophers.lua", &["-n", "1"]),
        ("philosophers.lua", &["--round"]),
        ("chat_server.lua", &["-p"]),
        ("chat_load.lua", &["-n"]),
        ("notes_service.lua", &[]),
        ("notes_service_luasocket.lua", &[]),
        ("resize.lua", &[]),
        ("resize.lua", &["-n", "0", "x"]),
    ] {
        let outcome = example(name, arguments).run();
        if missing::is_for_want_of_a_package(&outcome, &format!("the usage of {name}")) {
            continue;
        }
        outcome.ends_with(2).complained(&format!("usage: {name} "));
    }
}

#[test]
fn every_example_is_in_the_readme() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README is there");
    let files = std::fs::read_dir(root.join("examples")).expect("the examples are there");
    for file in files {
        let name = file.expect("a directory entry can be read").file_name();
        let link = format!("(examples/{})", OsStr::display(&name));
        assert!(readme.contains(&link), "the README does not link to {link}");
    }
}
