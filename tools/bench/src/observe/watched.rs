//! One run of `observe`: a program that is looked at, and not looked at, by turns.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::ways::{By, Way};
use crate::child::{self, Owned};
use crate::net::{self, Client, Protocol, Server};
use crate::{output, stats, usage};

/// The time for an observer to begin, before its cost is measured.
const BEGIN: Duration = Duration::from_millis(300);
/// The time limit for a program to be ready to be looked at.
const READY_LIMIT: Duration = Duration::from_secs(10);
/// The time limit for an observer to end by itself.
const END_LIMIT: Duration = Duration::from_secs(60);
/// Runs a script for ever, and writes the program's processor time after each run.
const AGAIN: &str = r#"
    arg = { size }
    print = function() end
    local run = assert(loadfile(script))
    while true do
      run()
      io.stdout:write(os.clock(), "\n")
      io.stdout:flush()
    end
"#;
/// The environment of a program that may be looked at and changed.
const OPEN: (&str, &str) = ("BATON_ATTACH", "all");

/// Runs a program with this Baton, looks at it in a way, and prints `cost`: how much more processor
/// time it takes, in percent.
pub(crate) fn run(baton: &str, way: &str, rest: &[&str]) -> Result<()> {
    let way = Way::named(way).with_context(|| format!("no way to look is named '{way}'"))?;
    let observer = Observer {
        baton: PathBuf::from(baton),
        way,
        files: tempfile::tempdir().context("cannot make a directory for what is written")?,
    };
    let cost = match *rest {
        ["echo", server, connections, seconds, pairs] => observer.echo(
            server,
            connections.parse()?,
            Duration::from_secs_f64(seconds.parse()?),
            pairs.parse()?,
        )?,
        ["crowd", script, count, seconds, pairs] => observer.crowd(
            script,
            count,
            Duration::from_secs_f64(seconds.parse()?),
            pairs.parse()?,
        )?,
        ["lua", script, size, seconds, pairs] => observer.plain_lua(
            script,
            size,
            Duration::from_secs_f64(seconds.parse()?),
            pairs.parse()?,
        )?,
        _ => bail!("echo, crowd or lua expected, got {rest:?}"),
    };
    output::print(&format!("cost {cost:.4}\n"))
}

/// Looks at programs in one way.
struct Observer {
    baton: PathBuf,
    way: &'static Way,
    files: TempDir,
}

impl Observer {
    /// The cost for each request of an echo server.
    fn echo(&self, server: &str, connections: usize, time: Duration, pairs: u32) -> Result<f64> {
        net::allow_descriptors(connections as u64)?;
        let words = [
            "env",
            &format!("{}={}", OPEN.0, OPEN.1),
            &self.baton.display().to_string(),
            server,
        ]
        .map(str::to_string);
        let server = Server::start(&words, "echo")?;
        let mut client = Client::connect(server.address(), Protocol::Echo, connections)?;
        let answered = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&answered);
        // Each interval has a beginning and an end besides.
        let all = (time + BEGIN * 4) * (pairs * 2 + 1) + BEGIN;
        let load = thread::spawn(move || client.load_awake(all, &counter));
        let each = || -> Result<f64> {
            let used = || -> Result<(f64, f64)> {
                let cpu = server.usage()?.cpu.as_secs_f64();
                Ok((cpu, answered.load(Ordering::Relaxed) as f64))
            };
            let (cpu, requests) = difference(used, time)?;
            ensure!(requests > 0.0, "the server answered nothing");
            Ok(cpu / requests)
        };
        thread::sleep(BEGIN);
        let cost = self.relative(server.id(), time, pairs, each)?;
        ensure!(
            !load.is_finished(),
            "the load ended before the measurement did"
        );
        Ok(cost)
    }

    /// The cost for sleeping processes, as a share of a processor.
    fn crowd(&self, script: &str, count: &str, time: Duration, pairs: u32) -> Result<f64> {
        let mut command = Command::new(&self.baton);
        command
            .args([script, count])
            .env(OPEN.0, OPEN.1)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut crowd = Owned::spawn(&mut command)?;
        let said = child::lines(crowd.inner.stdout.take().context("it has an output")?);
        said.recv_timeout(READY_LIMIT)
            .context("the processes did not start")?;
        let pid = crowd.inner.id();
        let tasks = PathBuf::from(format!("/proc/{pid}/task"));
        let mut shares = Vec::new();
        for _ in 0..pairs {
            let share = |looks: bool| -> Result<f64> {
                let look = self.begin(pid, time, looks)?;
                let used = || Ok((cpu_of_threads(&tasks)?, 0.0));
                let (cpu, _) = difference(used, time)?;
                self.end(look)?;
                Ok(cpu / time.as_secs_f64() * 100.0)
            };
            shares.push(share(true)? - share(false)?);
        }
        stats::median(&shares).context("no pairs")
    }

    /// The cost for each run of a small program in plain Lua that runs again and again.
    fn plain_lua(&self, script: &str, size: &str, time: Duration, pairs: u32) -> Result<f64> {
        let mut command = Command::new(&self.baton);
        command
            .arg("-e")
            .arg(format!(
                "local script, size = {script:?}, {size:?}\n{AGAIN}"
            ))
            .env(OPEN.0, OPEN.1)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut program = Owned::spawn(&mut command)?;
        let said = child::lines(program.inner.stdout.take().context("it has an output")?);
        said.recv_timeout(READY_LIMIT)
            .context("the program did not end its first run")?;
        let each = || -> Result<f64> {
            said.try_iter().for_each(drop);
            thread::sleep(time);
            let clocks: Vec<f64> = said
                .try_iter()
                .map(|clock| clock.parse())
                .collect::<Result<_, _>>()
                .context("a processor time expected")?;
            let [first, .., last] = clocks[..] else {
                bail!("the program ran fewer than two times in {time:?}");
            };
            Ok((last - first) / (clocks.len() - 1) as f64)
        };
        self.relative(program.inner.id(), time, pairs, each)
    }

    /// The median cost of pairs of intervals, in percent.
    fn relative(
        &self,
        pid: u32,
        time: Duration,
        pairs: u32,
        each: impl Fn() -> Result<f64>,
    ) -> Result<f64> {
        let mut ratios = Vec::new();
        for pair in 0..pairs {
            let measure = |looks: bool| -> Result<f64> {
                let look = self.begin(pid, time, looks)?;
                let each = each()?;
                self.end(look)?;
                Ok(each)
            };
            // Which one comes first changes, so that a slow drift of the machine counts for both.
            let first = measure(pair % 2 == 0)?;
            let second = measure(pair % 2 == 1)?;
            let ratio = if pair % 2 == 0 {
                first / second
            } else {
                second / first
            };
            ratios.push((ratio - 1.0) * 100.0);
        }
        stats::median(&ratios).context("no pairs")
    }

    /// Begins to look at a program, for this time at least. `None` if no observer stays with it.
    fn begin(&self, pid: u32, time: Duration, looks: bool) -> Result<Option<Owned>> {
        let look = match &self.way.by {
            By::Command(words) if looks => Some(self.attach(pid, words, time)?),
            By::Parameter(name, value) => {
                self.set(pid, name, if looks { value } else { "0" })?;
                None
            }
            By::Nobody | By::Command(_) => None,
        };
        Ok(look)
    }

    /// Ends what [`Self::begin`] began.
    fn end(&self, look: Option<Owned>) -> Result<()> {
        let Some(mut look) = look else { return Ok(()) };
        if self.way.name == super::TOP {
            return Ok(()); // It is killed.
        }
        let status = look
            .wait_at_most(END_LIMIT)?
            .context("the observer did not end")?;
        ensure!(status.success(), "the observer ended with {status}");
        Ok(())
    }

    /// Starts an observer, again if the program is not yet ready, and gives it time to begin.
    fn attach(&self, pid: u32, words: &[&str], time: Duration) -> Result<Owned> {
        let limit = Instant::now() + READY_LIMIT;
        loop {
            let mut command = Command::new(&self.baton);
            let seconds = (time + BEGIN * 2).as_secs_f64().to_string();
            let file = self.files.path().join("x").display().to_string();
            let words = words.iter().map(|word| {
                word.replace("PID", &pid.to_string())
                    .replace("SECONDS", &seconds)
                    .replace("FILE", &file)
            });
            command
                .args(words)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped());
            let mut look = Owned::spawn(&mut command)?;
            thread::sleep(BEGIN);
            let Some(status) = look.inner.try_wait()? else {
                return Ok(look);
            };
            let why = child::collect(child::drain(look.inner.stderr.take()))?;
            ensure!(
                Instant::now() < limit,
                "the observer ended with {status}: {why}"
            );
        }
    }

    fn set(&self, pid: u32, name: &str, value: &str) -> Result<()> {
        let limit = Instant::now() + READY_LIMIT;
        loop {
            let mut command = Command::new(&self.baton);
            command.args(["set", &pid.to_string(), name, value]);
            let run = child::run(&mut command, END_LIMIT)?;
            if run.status.success() {
                return Ok(());
            }
            ensure!(
                Instant::now() < limit,
                "{name} cannot be set to {value}: {}",
                run.errors
            );
        }
    }
}

/// How much two numbers grow in an interval.
fn difference(now: impl Fn() -> Result<(f64, f64)>, interval: Duration) -> Result<(f64, f64)> {
    let before = now()?;
    thread::sleep(interval);
    let after = now()?;
    Ok((after.0 - before.0, after.1 - before.1))
}

/// The CPU time of all threads, in seconds.
fn cpu_of_threads(tasks: &Path) -> Result<f64> {
    let threads = usage::snapshot(tasks)?;
    let nanoseconds: u64 = threads.values().map(|used| used.nanoseconds).sum();
    Ok(nanoseconds as f64 / 1e9)
}
