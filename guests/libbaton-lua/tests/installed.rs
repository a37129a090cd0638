//! The installed library: the programs of examples/embedding are built with it, and run; and it
//! takes the place of liblua5.4.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Set by `cargo xtask test`: a file whose lines it prints at the end.
const SKIPPED_LIST: &str = "BATON_SKIPPED_LIST";

/// Whether a test program fails. If so, reports that `what` was not tested. In CI that is an error.
fn is_missing(probe: &[&str], package: &str, what: &str) -> bool {
    let mut command = Command::new(probe[0]);
    command
        .args(&probe[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if command.status().is_ok_and(|status| status.success()) {
        return false;
    }
    let line = format!("{what}: install {package}\n");
    assert!(std::env::var_os("CI").is_none(), "{line}");
    // Nothing better can be done if stderr is closed.
    let _ = write!(std::io::stderr(), "SKIPPED: {line}");
    if let Some(list) = std::env::var_os(SKIPPED_LIST) {
        let list = OpenOptions::new().append(true).open(list);
        list.and_then(|mut list| list.write_all(line.as_bytes()))
            .expect("the list of what was skipped can be written");
    }
    true
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command that succeeds. Returns what it prints.
#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}{errors}");
    said
}

/// The directory of the debug build, installed once.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
        let mut install = Command::new(env!("CARGO"));
        install
            .args(["run", "--offline", "--quiet", "-p", "xtask", "--"])
            .args(["install", "--debug", "--lua", "--prefix"])
            .arg(&prefix)
            .current_dir(repository());
        succeed(&mut install);
        prefix
    })
}

/// Builds a program of the examples in a directory of its own. Returns its path.
fn example(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("embedding-{name}"));
    fs::create_dir_all(&directory).expect("a directory for the program");
    for file in ["Makefile", "scripts.lua", "frames.c", "uv.c", "window.c"] {
        let from = repository().join("examples/embedding").join(file);
        fs::copy(from, directory.join(file)).expect("the file is there");
    }
    let mut make = Command::new("make");
    make.args(["-B", name])
        .current_dir(&directory)
        .env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
    succeed(&mut make);
    directory.join(name)
}

/// Runs an example. Returns the numbers of what it prints.
#[track_caller]
fn numbers(program: &Path, arguments: &[&str], display: Option<&str>) -> Vec<f64> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(program.parent().expect("it is in a directory"))
        .env("LD_LIBRARY_PATH", prefix().join("lib"));
    if let Some(display) = display {
        command.env("DISPLAY", display);
    }
    let said = succeed(&mut command);
    let words = said.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    words.filter_map(|word| word.parse().ok()).collect()
}

const PKG_CONFIG: [&str; 2] = ["pkg-config", "--version"];

#[test]
fn a_games_loop_gives_scripts_their_time() {
    if is_missing(&PKG_CONFIG, "pkg-config", "a game's loop") {
        return;
    }
    let said = numbers(&example("frames"), &["scripts.lua", "2"], None);
    let [frames, _late, _limit, _longest, slept, blocked, computed] = said[..] else {
        panic!("{said:?}")
    };
    assert_eq!(frames, 120.0);
    // 200 sleeps and 40 calls, if nothing delays them.
    assert!(
        slept >= 40.0 && blocked >= 5.0 && computed > 1000.0,
        "{said:?}"
    );
}

#[test]
fn the_loop_of_libuv_runs_processes() {
    if is_missing(
        &["pkg-config", "libuv", "--exists"],
        "pkg-config and libuv1-dev",
        "the loop of libuv",
    ) {
        return;
    }
    let said = numbers(&example("uv"), &["scripts.lua", "2"], None);
    let [ticks, slept, blocked, computed] = said[..] else {
        panic!("{said:?}")
    };
    // 200 ticks and sleeps, and 40 calls, if nothing delays them.
    assert!(ticks >= 40.0 && slept >= 40.0, "{said:?}");
    assert!(blocked >= 5.0 && computed > 1000.0, "{said:?}");
}

/// An X server without a visible screen. It ends with this value.
struct Screen {
    server: Child,
    display: String,
}

impl Screen {
    /// Starts one on a free display.
    fn start() -> Screen {
        let mut server = Command::new("Xvfb")
            .args(["-screen", "0", "800x600x24", "-nolisten", "tcp"])
            .args(["-noreset", "-displayfd", "1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the X server can be started");
        let mut number = String::new();
        let written = server.stdout.take().map(BufReader::new);
        let read = written.and_then(|mut written| written.read_line(&mut number).ok());
        assert!(read > Some(0), "the X server ends: {:?}", server.wait());
        let display = format!(":{}", number.trim());
        Screen { server, display }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // SIGTERM makes it remove its lock file. If it has ended already, there is nothing to do.
        if matches!(self.server.try_wait(), Ok(None)) {
            let number = self.server.id().to_string();
            let _ = Command::new("kill").args(["-TERM", &number]).status();
        }
        let _ = self.server.wait();
    }
}

#[test]
fn a_window_redraws_while_scripts_sleep_block_and_compute() {
    let what = "a window of SDL";
    if is_missing(&["Xvfb", "-help"], "xvfb", what)
        || is_missing(
            &["pkg-config", "sdl2", "--exists"],
            "pkg-config and libsdl2-dev",
            what,
        )
    {
        return;
    }
    let program = example("window");
    let screen = Screen::start();
    let said = numbers(&program, &["scripts.lua", "2"], Some(&screen.display));
    let [frames, late, _limit, _latest, slept, blocked, computed] = said[..] else {
        panic!("{said:?}")
    };
    assert_eq!(frames, 120.0);
    // A machine with other work may delay some of them.
    assert!(late < 60.0, "{said:?}");
    assert!(
        slept >= 20.0 && blocked >= 5.0 && computed > 1000.0,
        "{said:?}"
    );
}

/// Draws with gnuplot's terminal `tikz`, which is written in Lua. The libraries of the directory
/// come first. Without comments, as one of them has the time.
fn drawing(libraries: Option<&Path>) -> String {
    let mut gnuplot = Command::new("gnuplot");
    gnuplot.args([
        "-e",
        "set terminal tikz; set samples 50; plot sin(x), cos(x) with points",
    ]);
    if let Some(libraries) = libraries {
        gnuplot.env("LD_LIBRARY_PATH", libraries);
    }
    let said = succeed(&mut gnuplot);
    let lines = said.lines().filter(|line| !line.starts_with('%'));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn gnuplot_draws_the_same_with_this_library_in_place_of_liblua() {
    if is_missing(&["gnuplot", "--version"], "gnuplot-nox", "gnuplot's Lua") {
        return;
    }
    let libraries = Path::new(env!("CARGO_TARGET_TMPDIR")).join("in-place-of-liblua");
    fs::create_dir_all(&libraries).expect("a directory for the library");
    let library = prefix().join("lib/libbaton-lua.so.0");
    fs::copy(library, libraries.join("liblua5.4.so.0")).expect("the library is installed");
    let with_lua = drawing(None);
    assert!(with_lua.contains("\\gp3point{"), "{with_lua}");
    assert_eq!(drawing(Some(&libraries)), with_lua);
}
