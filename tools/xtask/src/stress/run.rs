//! Runs one test program once.

use std::fs;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::suite::StressedProgram;

/// The time limit of a run. A longer run is taken to hang, as the slowest program takes seconds.
const LIMIT: Duration = Duration::from_secs(300);

/// The number of tests in one program that run at the same time, for any number of CPUs. They
/// disturb each other, and while some wait, others run.
const TESTS_AT_ONCE: &str = "4";

/// The interval at which a running program is checked.
const INTERVAL: Duration = Duration::from_millis(5);

/// The CPUs that a test program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// One CPU.
    Pinned,
    /// Any CPU, while other processes keep all of them busy.
    Loaded,
}

impl Placement {
    /// The name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pinned => "pinned to one CPU",
            Self::Loaded => "unpinned under load",
        }
    }

    fn command(self, program: &StressedProgram) -> Command {
        match self {
            Self::Loaded => Command::new(&program.built.executable),
            Self::Pinned => {
                let mut command = Command::new("taskset");
                command
                    .arg("-c")
                    .arg(allowed_cpus()[0].to_string())
                    .arg(&program.built.executable);
                command
            }
        }
    }
}

/// The result of a run.
#[must_use]
pub(super) enum RunResult {
    Passed,
    Failed { ending: String, output: String },
}

/// Runs a test program to its end or to the time limit. An error means that it could not run.
pub(super) fn run(program: &StressedProgram, placement: Placement) -> Result<RunResult, String> {
    let of_program = program
        .name
        .replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let path =
        std::env::temp_dir().join(format!("baton-stress-{}-{of_program}", std::process::id()));
    let cannot = |why: std::io::Error| format!("stress: {}: {why}", path.display());
    // Output goes to a file, so that the program never waits for a reader.
    let options = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .clone();
    let mut log = options.open(&path).map_err(cannot)?;
    fs::remove_file(&path).map_err(cannot)?;

    let mut command = placement.command(program);
    command
        .current_dir(&program.built.directory)
        .env("CARGO_MANIFEST_DIR", &program.built.directory)
        .env("RUST_TEST_THREADS", TESTS_AT_ONCE);
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(cannot)?)
        .stderr(log.try_clone().map_err(cannot)?);
    // The program gets its own process group, so that everything it started can be killed with it.
    command.process_group(0);
    let mut child = command
        .spawn()
        .map_err(|why| format!("stress: cannot start {}: {why}", program.name))?;
    let ending = match wait(&mut child)? {
        Some(status) if status.success() => return Ok(RunResult::Passed),
        Some(status) => status.to_string(),
        None => format!("still running after {} s, and killed", LIMIT.as_secs()),
    };
    let mut output = Vec::new();
    log.rewind()
        .and_then(|()| log.read_to_end(&mut output))
        .map_err(cannot)?;
    Ok(RunResult::Failed {
        ending,
        output: String::from_utf8_lossy(&output).into_owned(),
    })
}

/// The program's status; `None` if it had to be killed.
fn wait(child: &mut Child) -> Result<Option<ExitStatus>, String> {
    let cannot = |why: std::io::Error| format!("stress: cannot wait for the test program: {why}");
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().map_err(cannot)? {
            return Ok(Some(status));
        }
        std::thread::sleep(INTERVAL);
    }
    let group = format!("-{}", child.id());
    // If the group could not be killed, its leader is killed here.
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    child.kill().map_err(cannot)?;
    child.wait().map_err(cannot)?;
    Ok(None)
}

/// The CPUs that this program may run on. In a container, the first need not be 0.
pub(super) fn allowed_cpus() -> Vec<u32> {
    allowed_cpus_of("/proc/self/status")
}

/// The allowed CPUs from the text of a `/proc` status file; CPU 0 if the text names none.
pub(super) fn allowed_cpus_of(status: &str) -> Vec<u32> {
    let status = fs::read_to_string(status).unwrap_or_default();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let cpus = cpus_of(list.unwrap_or_default());
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Reads a list of CPUs such as `0-3,8`.
fn cpus_of(list: &str) -> Vec<u32> {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod checks {
    use super::*;
    use crate::test_programs::TestProgram;

    fn program(executable: &str) -> StressedProgram {
        StressedProgram {
            name: executable.to_owned(),
            built: TestProgram {
                target: String::new(),
                executable: executable.into(),
                directory: "/".into(),
            },
        }
    }

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(cpus_of("\t0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(cpus_of("5"), [5]);
        assert_eq!(cpus_of(""), [0; 0]);
    }

    #[test]
    fn a_run_passes_by_its_status_alone() {
        assert!(matches!(
            run(&program("/bin/true"), Placement::Pinned),
            Ok(RunResult::Passed)
        ));
        assert!(matches!(
            run(&program("/bin/false"), Placement::Loaded),
            Ok(RunResult::Failed { .. })
        ));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error_and_not_a_failed_run() {
        assert!(run(&program("/nonexistent/program"), Placement::Loaded).is_err());
    }
}
