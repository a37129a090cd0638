//! The repository's own commands, run as `cargo xtask <command>`.
//!
//! Each command is one module:
//!
//! - [`testing`] installs what the tests need, and runs the tests.
//! - [`ci`] runs everything else that continuous integration checks.
//! - [`tidy`] checks rules on the sources that no compiler checks.
//! - [`generate`] writes the manual page, the completions and the book's reference pages.
//! - [`cost`] measures what the first build costs, beside a known program's.
//! - [`deb`] makes a Debian package, and [`dist`] makes packages for older and other systems.
//! - [`install`] installs the libraries for interpreters in C, and for programs that embed Lua.
//! - [`peers`] installs the systems that the benches compare Baton with, and [`readers`] the
//!   programs that read the files which Baton writes.
//! - [`cluster`] starts NATS servers for trying out.
//! - [`vsix`] packs the extension for VS Code.
//! - [`stress`] repeats the concurrent tests, and [`soak`] runs the interpreter under a long load.
//! - [`fuzz`] gives random bytes to the parsers, the server and the client of HTTP.
//! - [`races`] runs the runtime's tests under ThreadSanitizer, and [`miri`] those that can in Miri.
//! - [`mutants`] puts faults into the sources, which the tests must find.

#![forbid(unsafe_code)]

mod cargo;
mod checker;
mod ci;
mod cluster;
mod cost;
mod deb;
mod dist;
mod fuzz;
mod generate;
mod install;
mod miri;
mod mutants;
mod own_modules;
mod packages;
mod peers;
mod races;
mod readers;
mod side_by_side;
mod soak;
mod stress;
mod test_programs;
mod testing;
mod tidy;
mod vsix;
mod workspace;

use std::process::ExitCode;

/// The result of a command. The error is a message for the user, which says what to do.
type Outcome = Result<(), String>;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [--all] [--again] [-- ARGS]
                          install what the tests need, and run them with ARGS.
                          --all does what continuous integration does: it also tests a release,
                          all fallbacks, and Debian's Lua packages with their servers;
                          --again runs a test program that failed once more, by itself
  test --target aarch64-unknown-linux-gnu [--quick] [--again] [-- ARGS]
                          run the tests of the runtime, the ffi and the interpreter under qemu;
                          --quick: without the longest, and of the interpreter only the tour
  ci                      run fmt, clippy, tidy, doc, loom, cargo-deny and typos
  tidy [--graph]          check rules on the sources that no compiler checks; --graph prints
                          which file uses which
  cost [--rounds N]       build the interpreter in a clean clone, and ripgrep, in turns; print the
                          CPU time, the crates and the size of both
  generate                write the manual page, the shells' completions and the book's
                          reference pages
  deb [--try]             make a Debian package of the interpreter; --try installs it in a
                          clean system
  deb --libraries [--debug] [--try]
                          make Debian packages of the libraries for programs in C; --try builds
                          and runs programs with them; --debug: as for install
  dist [--target ARCHITECTURE] [--twice]
                          make archives and packages for Debian, pip and npm that run with an
                          older C library, and try them; --target: for x86_64 or aarch64 only;
                          --twice: build again, and compare every byte
  install --prefix DIR [--libdir DIR] [--destdir DIR] [--debug] [--lua]
                          install the library for interpreters in C: headers, libbaton.a,
                          libbaton.so.0, what pkg-config needs, and baton-conformance;
                          --lua: instead, the library for programs that embed Lua;
                          --destdir: put the files below DIR, to be packed;
                          --debug: a build that ends the program at a guest's mistakes
  mutants [--only TEXT] [--shard K/N]
                          put faults into the sources, each of which a test must notice;
                          --only: those whose name or file contains TEXT;
                          --shard: part K of N, counted from 0
  peers                   install the systems that the benches compare Baton with
  readers                 install the programs that read profiles, traces, metrics and heaps, for
                          the tests of tools/formats; the client that tests the debugger; and
                          the NATS server for the tests of baton.cluster
  cluster                 start three NATS servers that work together, for trying out; ctrl-C
                          stops them
  vsix                    pack the extension for VS Code
  stress [--runs N] [--pinned|--load] [--release] [--at-once N] [--keep-going] [--only NAMES]
                          repeat the concurrent tests N times (200), pinned to one CPU and under
                          load
  races                   run the runtime's tests under ThreadSanitizer
  miri                    run the tests without system calls in Miri: the scheduler, the spin
                          policies, the inbox, C declarations
  fuzz http [--seconds N] [--seed N]
                          give random and mutated bytes to the parsers, the server and the client
                          of baton.http for N seconds (600); what fails is made short, and kept
  soak foreign [--seconds N] [--seed N] [--release]
                          make random foreign calls for N seconds (600), and check that none
                          is lost
  soak vms [--seconds N] [--seed N] [--release]
                          start, use and kill VMs at random for N seconds (600), and check that
                          nothing is lost or left over; --seed repeats a run
  soak http [--seconds N] [--seed N] [--release]
                          let good and bad clients use servers of baton.http for N seconds (600),
                          and stop the servers under load; check that each answer comes to its
                          request, and that no request is lost and nothing left over
  soak net [--seconds N]  make sockets fail in every way for N seconds (600), and check that
                          nothing is left behind
  soak cluster [--jobs N] do N jobs (100000) over a NATS server, while a worker is killed every
                          second and the server three times, and check that no job is lost; then
                          check that everything goes on after 10 s without an answer
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Outcome {
    let Some((command, rest)) = arguments.split_first() else {
        return Err(format!("no command given\n\n{USAGE}"));
    };
    match command.as_str() {
        "test" => testing::run(rest),
        "ci" => without_arguments(command, rest).and_then(|()| ci::run()),
        "cost" => cost::run(rest),
        "cluster" => without_arguments(command, rest).and_then(|()| cluster::run()),
        "deb" => deb::run(rest),
        "dist" => dist::run(rest),
        "install" => install::run(rest),
        "generate" => without_arguments(command, rest).and_then(|()| generate::run()),
        "tidy" => tidy::run_with(rest),
        "mutants" => mutants::run(rest),
        "peers" => without_arguments(command, rest).and_then(|()| peers::run()),
        "readers" => without_arguments(command, rest).and_then(|()| readers::run()),
        "vsix" => without_arguments(command, rest).and_then(|()| vsix::run()),
        "races" => without_arguments(command, rest).and_then(|()| races::run()),
        "miri" => without_arguments(command, rest).and_then(|()| miri::run()),
        "fuzz" => fuzz::run(rest),
        "soak" => soak::run(rest),
        "stress" => stress::run(rest),
        stress::LOAD_COMMAND => stress::burn_until_stdin_ends(),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        unknown => Err(format!("unknown command '{unknown}'\n\n{USAGE}")),
    }
}

fn without_arguments(command: &str, rest: &[String]) -> Outcome {
    match rest.first() {
        None => Ok(()),
        Some(extra) => Err(format!("'{command}' takes no arguments, but got '{extra}'")),
    }
}
