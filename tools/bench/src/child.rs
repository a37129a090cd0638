//! Runs programs as child processes, and collects output, times and exit status. A child that
//! exceeds its time limit is killed.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use serde_json::Value;

/// The time limit for a server to print its port.
const PORT_LIMIT: Duration = Duration::from_secs(60);

/// The result of one finished run. Times are in seconds. CPU time includes all children that the
/// child waited for.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) wall: f64,
    /// User and system CPU time together. The kernel counts the sum exactly, but only samples the
    /// split.
    pub(crate) cpu: f64,
    pub(crate) output: String,
    pub(crate) errors: String,
    pub(crate) status: ExitStatus,
}

impl Run {
    /// The run itself if it succeeded. Otherwise an error that quotes its output.
    pub(crate) fn succeeded(self, what: &str) -> Result<Self> {
        if self.status.success() {
            return Ok(self);
        }
        bail!(
            "{what} ended with {}:\n{}{}",
            self.status,
            self.output,
            self.errors
        )
    }
}

/// Runs `command` to its end without standard input, and kills it after `limit`.
///
/// CPU time is the growth of the CPU time of this process's ended children. So only one child may
/// run at a time.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<Run> {
    let before = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let start = Instant::now();
    let mut child = Owned::spawn(
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    )?;
    let output = drain(child.inner.stdout.take());
    let errors = drain(child.inner.stderr.take());
    let status = child.wait_at_most(limit)?;
    let wall = start.elapsed().as_secs_f64();
    let after = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let Some(status) = status else {
        bail!("{command:?} did not end within {limit:?} and was killed");
    };
    Ok(Run {
        wall,
        cpu: cpu_seconds(&after) - cpu_seconds(&before),
        output: collect(output)?,
        errors: collect(errors)?,
        status,
    })
}

/// Runs a measuring program to its end. Returns its figures; `needed` must be among them.
pub(crate) fn measure(
    command: &mut Command,
    limit: Duration,
    what: &str,
    needed: &str,
) -> Result<Figures> {
    let run = run(command, limit)?.succeeded(what)?;
    let found = figures(&run.output);
    ensure!(
        first(&found, needed).is_some(),
        "{what} printed no figure '{needed}':\n{}",
        run.output
    );
    Ok(found)
}

/// A command that runs this program once more, in the role that `words` say.
pub(crate) fn this_program(words: &[&str]) -> Result<Command> {
    let own = env::current_exe().context("cannot find this program's own executable")?;
    let mut command = Command::new(own);
    command.args(words);
    Ok(command)
}

/// A child process that is killed and reaped when this value is dropped.
pub(crate) struct Owned {
    pub(crate) inner: Child,
}

impl Owned {
    /// Starts the command.
    pub(crate) fn spawn(command: &mut Command) -> Result<Self> {
        let inner = command.spawn().with_context(|| {
            format!("cannot run {}", Path::new(command.get_program()).display())
        })?;
        Ok(Self { inner })
    }

    /// The port that the program prints first, in the form "port 1234".
    pub(crate) fn read_port(&mut self) -> Result<String> {
        let output = self
            .inner
            .stdout
            .take()
            .context("the server has no standard output")?;
        let line = lines(output).recv_timeout(PORT_LIMIT).unwrap_or_default();
        let Some(port) = line.strip_prefix("port ") else {
            bail!(
                "the server did not start, perhaps for want of LuaSocket (Debian's lua-socket): it \
                 said {line:?}"
            );
        };
        Ok(port.to_string())
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.inner.id().cast_signed())
    }

    /// Waits for the end and returns the status. After `limit`, kills the child and returns `None`.
    pub(crate) fn wait_at_most(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let pid = self.pid();
        let (ended, end) = mpsc::channel::<()>();
        let killer = thread::spawn(move || match end.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) => kill(pid, Signal::SIGKILL).is_ok(),
            _ => false,
        });
        // The child stays a zombie, so that its process id stays taken until the killing thread can
        // no longer use it.
        let waited = waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        drop(ended);
        let killed = killer
            .join()
            .map_err(|_| anyhow!("the thread that guards a child's time limit failed"))?;
        let status = self.inner.wait()?;
        waited?;
        Ok((!killed).then_some(status))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // Both fail only if the child has already been reaped.
        let _ = self.inner.kill();
        let _ = self.inner.wait();
    }
}

/// The lines of a pipe. A new thread reads it to its end, so that the child never waits for a
/// reader.
pub(crate) fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            // A line that nobody receives is discarded.
            let _ = sender.send(line);
        }
    });
    receiver
}

pub(crate) type Drained = thread::JoinHandle<std::io::Result<Vec<u8>>>;

/// Reads a pipe to its end on a new thread, so that the child never waits for a reader.
pub(crate) fn drain(pipe: Option<impl Read + Send + 'static>) -> Drained {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    })
}

/// The text that [`drain`] has read.
pub(crate) fn collect(drained: Drained) -> Result<String> {
    let bytes = drained
        .join()
        .map_err(|_| anyhow!("the thread that reads a child's output failed"))??;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// User and system CPU time together, in seconds.
pub(crate) fn cpu_seconds(usage: &Usage) -> f64 {
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6
}

/// Figures by name.
pub(crate) type Figures = BTreeMap<String, Vec<f64>>;

/// The figures that a measuring program prints. A line is a name followed by numbers, or a JSON
/// object whose values are numbers or lists of numbers. Other lines are ignored.
pub(crate) fn figures(output: &str) -> Figures {
    let words = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?.to_string();
        let numbers: Vec<f64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
        (!numbers.is_empty()).then_some((name, numbers))
    };
    let parse = |line: &str| match line.starts_with('{') {
        true => json_figures(line),
        false => words(line).into_iter().collect(),
    };
    output.lines().flat_map(parse).collect()
}

fn json_figures(line: &str) -> Vec<(String, Vec<f64>)> {
    let numbers = |value: Value| match value {
        Value::Array(values) => values.iter().map(Value::as_f64).collect(),
        value => value.as_f64().map(|number| vec![number]),
    };
    let object: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap_or_default();
    object
        .into_iter()
        .filter_map(|(name, value)| Some((name, numbers(value)?)))
        .collect()
}

/// The first number with this name.
pub(crate) fn first(figures: &Figures, name: &str) -> Option<f64> {
    figures.get(name)?.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_run_yields_output_errors_and_status() {
        let run = run(&mut shell("echo out; echo err >&2; exit 3"), LONG).unwrap();
        assert_eq!(
            (run.output.as_str(), run.errors.as_str()),
            ("out\n", "err\n")
        );
        assert_eq!(run.status.code(), Some(3));
        let message = run.succeeded("the script").unwrap_err().to_string();
        assert!(
            message.starts_with("the script ended with exit status: 3"),
            "{message}"
        );
    }

    #[test]
    fn output_larger_than_a_pipe_does_not_block_the_child() {
        let run = run(
            &mut shell("head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2"),
            LONG,
        )
        .unwrap();
        assert_eq!((run.output.len(), run.errors.len()), (1_000_000, 1_000_000));
    }

    #[test]
    fn a_child_that_outlives_its_limit_is_killed_and_reported() {
        let error = run(&mut shell("exec sleep 1000"), Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("was killed"), "{error}");
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = run(&mut Command::new("/no/such/lua"), LONG).unwrap_err();
        assert!(error.to_string().contains("/no/such/lua"), "{error}");
    }

    #[test]
    fn figures_are_lines_of_a_name_and_numbers() {
        let found = figures("spawn 1.5\nhello world\nlate 1 2 -3e2\nempty\n");
        assert_eq!(found.len(), 2);
        assert_eq!(found["spawn"], [1.5]);
        assert_eq!(found["late"], [1.0, 2.0, -300.0]);
    }

    #[test]
    fn figures_may_come_as_lines_of_json() {
        let found = figures(
            "started\n{\"ns\": 12.5, \"late\": [1, 2], \"what\": \"yield\"}\n{\"end\": \
             7}\n{broken\n",
        );
        assert_eq!(found.len(), 3);
        assert_eq!(
            (first(&found, "ns"), first(&found, "end")),
            (Some(12.5), Some(7.0))
        );
        assert_eq!(found["late"], [1.0, 2.0]);
        assert_eq!(first(&found, "what"), None);
    }
}
