//! `--simulate`: where things lie in memory is made the same for each run, and a range of seeds is
//! run one by one.

use nix::sys::personality::{self, Persona};
use nix::unistd::execv;
use std::ffi::{CStr, CString, OsStr, OsString, c_int};
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// This executable, whatever its name.
const THIS_PROGRAM: &CStr = c"/proc/self/exe";

/// How the program goes on.
pub(crate) enum Next {
    /// It runs, simulated with this seed.
    Run(u64),
    /// Other programs have run in its place; the exit status.
    Done(c_int),
}

/// A command line that asks for simulated runs.
pub(crate) struct Call {
    pub(crate) arguments: Vec<OsString>,
    /// Where the seeds stand among the arguments.
    pub(crate) seeds_at: usize,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Call {
    /// Does what is to be done before the program can run, or in its place. May replace the program
    /// by itself.
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

    /// The same call, with these seeds.
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

    /// Returns only if the system refuses: then the run is nearly as good.
    fn start_again_with_fixed_addresses(&self, now: nix::Result<Persona>) {
        let fixed = now.and_then(|now| personality::set(now | Persona::ADDR_NO_RANDOMIZE));
        // Not by a `Command`, which would change how signals are handled.
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

    /// Runs the program with each seed, up to the first that fails; shows what that one has
    /// written. Returns the exit status.
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
            // There is nobody to tell if these cannot be written.
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
