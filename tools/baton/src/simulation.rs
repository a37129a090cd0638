//! `--simulate`: gives the program the same memory addresses in each run, and runs a range of seeds
//! one by one.

use nix::sys::personality::{self, Persona};
use nix::unistd::execv;
use std::ffi::{CStr, CString, OsStr, OsString, c_int};
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// This executable, whatever its name.
const THIS_PROGRAM: &CStr = c"/proc/self/exe";

/// How to continue.
pub(crate) enum Next {
    /// Run the program, simulated with this seed.
    Run(u64),
    /// All seeds were run in child programs; this is the exit status.
    Done(c_int),
}

/// A command line that asks for simulated runs.
pub(crate) struct Call {
    pub(crate) arguments: Vec<OsString>,
    /// Index of the seeds among the arguments.
    pub(crate) seeds_at: usize,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Call {
    /// Prepares the run, or runs a range of seeds. May replace the program by a new start of
    /// itself.
    pub(crate) fn begin(&self) -> Next {
        if self.first < self.last {
            return Next::Done(self.run_all());
        }
        match personality::get() {
            Ok(now) if now.contains(Persona::ADDR_NO_RANDOMIZE) => {}
            now => self.start_again_with_fixed_addresses(now),
        }
        Next::Run(self.first)
    }

    /// Returns the arguments of this call, with other seeds.
    fn with_seeds(&self, seeds: &OsStr) -> Command {
        let mut command = Command::new(OsStr::from_bytes(THIS_PROGRAM.to_bytes()));
        if let Some((name, arguments)) = self.arguments.split_first() {
            command.arg0(name);
            for (i, argument) in arguments.iter().enumerate() {
                command.arg(if i + 1 == self.seeds_at {
                    seeds
                } else {
                    argument
                });
            }
        }
        command
    }

    /// Returns only if the system refuses. Then the run uses random addresses, which rarely
    /// matters.
    fn start_again_with_fixed_addresses(&self, now: nix::Result<Persona>) {
        let fixed = now.and_then(|now| personality::set(now | Persona::ADDR_NO_RANDOMIZE));
        // A `Command` would change how signals are handled.
        let arguments = self
            .arguments
            .iter()
            .map(|argument| CString::new(argument.as_bytes()));
        let arguments: Result<Vec<CString>, _> = arguments.collect();
        let Err(error) =
            fixed.and_then(|_| execv(THIS_PROGRAM, &arguments.map_err(|_| nix::Error::EINVAL)?));
        eprintln!(
            "baton: addresses differ from run to run here ({error}): a program whose order of \
             doing things depends on them, as that of `pairs` \
             over tables with objects as keys does, may not repeat itself"
        );
    }

    /// Runs the program with each seed, up to the first seed that fails, and prints the output of
    /// that run. Returns the exit status.
    fn run_all(&self) -> c_int {
        let (first, last) = (self.first, self.last);
        let shows_progress = std::io::stderr().is_terminal();
        for seed in first..=last {
            if shows_progress {
                eprint!("\rseed {seed} of {first} to {last} ");
            }
            let output = self
                .with_seeds(OsStr::new(&seed.to_string()))
                .stdin(Stdio::null())
                .output();
            let output = match output {
                Ok(output) => output,
                Err(error) => {
                    eprintln!("baton: cannot run the program with the seed {seed}: {error}");
                    return 1;
                }
            };
            if output.status.success() {
                continue;
            }
            if shows_progress {
                eprintln!();
            }
            // An error of these writes cannot be reported.
            let _ = std::io::stdout().write_all(&output.stdout);
            let _ = std::io::stderr().write_all(&output.stderr);
            if output.status.code().is_none() {
                eprintln!(
                    "baton: the run with the seed {seed} ended by a signal: {}",
                    output.status
                );
            }
            return output.status.code().unwrap_or(1);
        }
        if shows_progress {
            eprintln!();
        }
        eprintln!("baton: {} seeds, none failed", u128::from(last - first) + 1);
        0
    }
}
