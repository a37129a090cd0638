//! `--simulate`: gives the program the same memory addresses in each run, runs a range of seeds,
//! and explains a run that fails.
//!
//! A program that searches or explains starts itself again for each run. An environment variable
//! tells such a child its role. Other programs, which the child starts, do not get it.
//!
//! | file | what it does |
//! |---|---|
//! | `simulation.rs` | what to do: run, search or explain |
//! | `simulation/search.rs` | runs the seeds of a range, several at once |
//! | `simulation/runs.rs` | one run in a child program |
//! | `simulation/ended.rs` | its result |
//! | `simulation/children.rs` | kills children: at their time limit, on a signal, or as not needed |
//! | `simulation/explanation.rs` | runs a failing seed again, recorded, and shows its switches |
//! | `simulation/minimize.rs` | the fewest decisions that fail: pure |
//! | `simulation/failure.rs` | how a run failed: pure |
//! | `simulation/table.rs` | the switches as a table: pure |

mod children;
mod ended;
mod explanation;
mod failure;
mod minimize;
mod runs;
mod search;
mod table;

use baton_core::recording::{Recording, RunDecision};
use baton_lua::Simulation;
use nix::sys::personality::{self, Persona};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{execv, execve};
use std::ffi::{CStr, CString, OsStr, OsString, c_int};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// This executable, whatever its name.
const THIS_PROGRAM: &CStr = c"/proc/self/exe";

/// The variable that tells a program its role; `BATON_SIMULATION` of c/command_line.h.
const ROLE: &str = "BATON_SIMULATION";

/// The roles: run the program; run it and record the run in the file that follows; do that, too,
/// and write a trace to the file in the next line; explain why the run ended with the status that
/// follows.
const RUN: &str = "run";
const RECORD: &str = "record=";
const TRACE: &str = "trace=";
const EXPLAIN: &str = "explain=";

/// How to continue.
pub(crate) enum Next {
    /// Run the program, simulated so.
    Run(Simulation),
    /// All was done in child programs; this is the exit status.
    Done(c_int),
}

/// A command line that asks for simulated runs.
pub(crate) struct Call {
    /// All arguments.
    pub(crate) all_arguments: Vec<&'static OsStr>,
    /// The arguments, without the options that are for the search and the explanation only. So a
    /// run has the same `arg` in a search and when it is repeated.
    pub(crate) arguments: Vec<&'static OsStr>,
    /// Index of the seeds among the arguments.
    pub(crate) seeds_at: usize,
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The decisions to make, as text.
    pub(crate) decisions: Option<&'static str>,
    /// How many seeds are run at once.
    pub(crate) jobs: usize,
    /// The time limit of a run.
    pub(crate) limit: Option<Duration>,
    /// The most runs that an explanation takes.
    pub(crate) explain: usize,
    /// Where to write the run as a trace.
    pub(crate) trace: Option<PathBuf>,
    /// The program itself comes from the input, so that it can be run only once.
    pub(crate) reads_input: bool,
    /// The directory at the start. The program may change it.
    pub(crate) directory: Option<PathBuf>,
}

/// The call of this program. It is kept in each role, because to free it would change the addresses
/// of what is allocated later.
static CALL: OnceLock<Call> = OnceLock::new();

impl Call {
    /// Prepares the run, or searches or explains. May replace the program by a new start of itself.
    /// `take_role` returns the role that the program was started in.
    pub(crate) fn begin(self, take_role: impl FnOnce() -> Option<&'static str>) -> Next {
        let call = CALL.get_or_init(|| self);
        let fixed = personality::get();
        let is_fixed = fixed.is_ok_and(|now| now.contains(Persona::ADDR_NO_RANDOMIZE));
        if call.first < call.last || call.limit.is_some() || call.trace.is_some() {
            // A child has one seed, no limit and no trace, so this is no child. A traced run is one
            // so that it has the same arguments, and objects at the same addresses, as without.
            return Next::Done(search::run(call));
        }
        if !is_fixed && std::env::var_os(ROLE).is_none() {
            start_again_with_fixed_addresses(call, fixed);
        }
        match take_role() {
            Some(RUN) => call.run_as_child(call.decisions.map(own_recording), None),
            Some(role) if role.starts_with(RECORD) => {
                call.run_as_child(Some(shared_recording(&role[RECORD.len()..])), None)
            }
            Some(role) if role.starts_with(TRACE) => {
                let (record, file) = role[TRACE.len()..].split_once('\n').unwrap_or_default();
                let recording = match record {
                    "" => call.decisions.map(own_recording),
                    record => Some(shared_recording(record)),
                };
                call.run_as_child(recording, Some(Path::new(file)))
            }
            Some(role) if role.starts_with(EXPLAIN) => {
                let status = role[EXPLAIN.len()..].parse().unwrap_or(1);
                explanation::of_status(call, status);
                Next::Done(status)
            }
            _ => Next::Run(Simulation {
                seed: call.first,
                recording: call.decisions.map(own_recording),
                trace: None,
                failed: call
                    .may_explain()
                    .then_some(explain_failure as extern "C" fn(c_int)),
            }),
        }
    }

    fn run_as_child(&self, recording: Option<Recording>, trace: Option<&'static Path>) -> Next {
        // A refusal only means that an interrupted search leaves a run behind.
        let _ = prctl::set_pdeathsig(Signal::SIGKILL);
        Next::Run(Simulation {
            seed: self.first,
            recording,
            trace,
            failed: None,
        })
    }

    fn may_explain(&self) -> bool {
        self.explain > 0 && !self.reads_input
    }

    /// The role of a run that is written as a trace. `record` is the file where it is recorded, if
    /// it is. `None` if no trace is wanted.
    fn trace_role(&self, record: &str) -> Option<String> {
        let file = self.trace.as_ref()?;
        Some(format!("{TRACE}{record}\n{}", file.display()))
    }

    fn given_decisions(&self) -> Option<Vec<RunDecision>> {
        self.decisions.map(decisions_in)
    }

    fn count(&self) -> u128 {
        u128::from(self.last - self.first) + 1
    }
}

/// The decisions of a text that the command line has checked.
fn decisions_in(text: &str) -> Vec<RunDecision> {
    let words = text.split(',').filter_map(|word| word.parse().ok());
    let mut decisions: Vec<RunDecision> = words.collect();
    decisions.sort_unstable();
    decisions
}

/// The recording of a run that is given decisions on the command line. Nobody reads it.
fn own_recording(decisions: &str) -> Recording {
    let made = Recording::new();
    let (_, recording) = made.unwrap_or_else(|error| give_up("no memory for decisions", &error));
    recording.prepare(Some(&decisions_in(decisions)));
    recording
}

fn shared_recording(path: &str) -> Recording {
    let file = File::options().read(true).write(true).open(Path::new(path));
    let opened = file.and_then(|file| Recording::open(&file));
    opened.unwrap_or_else(|error| give_up("cannot record the run", &error))
}

fn give_up(what: &str, error: &std::io::Error) -> ! {
    eprintln!("baton: {what}: {error}");
    std::process::exit(1);
}

/// Makes child programs start with fixed addresses. Returns only if the system refuses, or if it
/// was so already.
fn fix_addresses_of_children() {
    let fixed =
        personality::get().and_then(|now| personality::set(now | Persona::ADDR_NO_RANDOMIZE));
    if let Err(error) = fixed {
        warn_of_random_addresses(error);
    }
}

/// Returns only if the system refuses. Then the run uses random addresses, which rarely matters.
fn start_again_with_fixed_addresses(call: &Call, now: nix::Result<Persona>) {
    let fixed = now.and_then(|now| personality::set(now | Persona::ADDR_NO_RANDOMIZE));
    // A `Command` would change how signals are handled.
    let Err(error) = fixed.and_then(|_| execv(THIS_PROGRAM, &call.c_arguments()?));
    warn_of_random_addresses(error);
}

fn warn_of_random_addresses(error: nix::Error) {
    eprintln!(
        "baton: addresses differ from run to run here ({error}): a program whose order of doing \
         things depends on them, as that of `pairs` over tables with objects as keys does, may not \
         repeat itself"
    );
}

impl Call {
    fn c_arguments(&self) -> nix::Result<Vec<CString>> {
        let arguments = self.all_arguments.iter();
        let arguments = arguments.map(|argument| CString::new(argument.as_bytes()));
        arguments
            .collect::<Result<_, _>>()
            .map_err(|_| nix::Error::EINVAL)
    }
}

/// Replaces this program, which ends with `status`, by one that explains why. Returns if that is
/// impossible: then nothing is explained.
extern "C" fn explain_failure(status: c_int) {
    let Some(call) = CALL.get() else {
        return;
    };
    if let Some(directory) = &call.directory {
        let _ = std::env::set_current_dir(directory);
    }
    let role = OsString::from(format!("{ROLE}={EXPLAIN}{status}"));
    let variables = std::env::vars_os().map(|(mut variable, value)| {
        variable.push("=");
        variable.push(value);
        variable
    });
    let variables = variables.chain([role]);
    let variables: Result<Vec<_>, _> = variables
        .map(|variable| CString::new(variable.into_vec()))
        .collect();
    if let (Ok(arguments), Ok(variables)) = (call.c_arguments(), variables) {
        let Err(_) = execve(THIS_PROGRAM, &arguments, &variables);
    }
}
