//! `net --calls`: the system calls of each answer, counted by `strace`.
//!
//! A traced server is slow. If each connection asked again at once, most requests would be there
//! before the server looks for them. Without a tracer they are not. So all connections ask, then
//! all wait for their answers.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::NamedTempFile;

use super::client::{Client, Protocol};
use super::drive::allow_descriptors;
use super::server::Server;
use super::{BESIDES, KINDS, cases, cases_of, servers};
use crate::bench::Bench;
use crate::child::Owned;
use crate::command_line::NetOptions;
use crate::contest::{Contest, Results};
use crate::output;
use crate::report::{Report, notes};
use crate::table::Table;

/// The figure of all calls together. Those of single calls have the call's name behind it.
const ALL: &str = "calls";
/// The time limit for the tracer to write its counts.
const TRACER_LIMIT: Duration = Duration::from_secs(20);
/// Calls that are rarer than this per answer share a column.
const RARE: f64 = 0.005;

/// Runs the experiment.
pub(super) fn run(bench: &Bench, options: &NetOptions) -> Result<Report> {
    let mut cases = cases(options);
    cases.retain(|case| !case.name.starts_with("wrk"));
    let results = Contest {
        arms: servers::arms(bench, "count-calls")?,
        cases,
        rounds: options.rounds,
        figure: ALL,
        limit: BESIDES + Duration::from_secs_f64(options.seconds * 2.0),
    }
    .run();
    let tables = KINDS.iter().flat_map(|(kind, title)| {
        let of_case =
            |(case, count)| table(&results, case, format!("{title} with {count} connections"));
        cases_of(&results, kind).map(of_case).collect::<Vec<_>>()
    });
    Ok(results.complete(Report {
        notes: notes(&[
            "System calls of the server for each answer, by strace. All connections ask, then all \
             wait for their answers.",
        ]),
        tables: tables.collect(),
        ..Report::default()
    }))
}

/// A table of one case: by server, each call that some server makes often.
fn table(results: &Results, case: usize, title: String) -> Table {
    let arms = || results.arms.iter().enumerate();
    let rounds = arms().flat_map(|(arm, _)| results.rounds(arm, case));
    let often = rounds.flat_map(|round| {
        let often = round.iter().filter(|(_, counts)| counts[0] >= RARE);
        often.filter_map(|(name, _)| name.strip_prefix(ALL)?.strip_prefix(' '))
    });
    let names: BTreeSet<&str> = often.collect();
    let header = ["server", "all"].into_iter().chain(names.iter().copied());
    let mut table = Table::new(format!("{title}: system calls of an answer"), header);
    for (arm, of_arm) in arms() {
        let of = |name: &str| results.shown(arm, case, name, 2);
        let single = names.iter().map(|name| of(&format!("{ALL} {name}")));
        table.named(of_arm.name, [of(ALL)].into_iter().chain(single));
    }
    table
}

/// Starts the server, traces it under load, and prints for each answer: `calls`, the number of
/// system calls, and `calls NAME`, that of each one.
pub(crate) fn count(server: &str, protocol: &str, connections: usize, seconds: f64) -> Result<()> {
    allow_descriptors(connections as u64)?;
    let words: Vec<String> = serde_json::from_str(server)
        .context("the server's command line is no list of words in JSON")?;
    let protocol = match protocol {
        "echo" => Protocol::Echo,
        "http" => Protocol::Http,
        "json" => Protocol::Json,
        other => bail!("expected echo or http for the protocol, got '{other}'"),
    };
    let server = Server::start(&words, protocol.name())?;
    let mut client = Client::connect(server.address(), protocol, connections)?;
    let tracer = Tracer::attach(server.id())?;
    let answered = client.ask_in_rounds(Duration::from_secs_f64(seconds))? as f64;
    let counts = tracer.end()?;
    let each: serde_json::Map<String, serde_json::Value> = counts
        .iter()
        .map(|(name, count)| (format!("{ALL} {name}"), (count / answered).into()))
        .collect();
    let all: f64 = counts.iter().map(|(_, count)| count).sum();
    output::print(&format!(
        "{ALL} {:.3}\n{}\n",
        all / answered,
        serde_json::Value::from(each)
    ))
}

/// `strace`, attached to a running program and all its threads.
struct Tracer {
    child: Owned,
    counts: NamedTempFile,
}

impl Tracer {
    fn attach(program: u32) -> Result<Self> {
        let counts = NamedTempFile::new()?;
        let mut command = Command::new("strace");
        command
            .args(["-f", "-c", "-U", "calls,name", "-o"])
            .arg(counts.path())
            .args(["-p", &program.to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = Owned::spawn(&mut command).context("apt-get install strace")?;
        let errors = child.inner.stderr.take().context("strace has no output")?;
        // It says "attached" when it has stopped all threads once. The pipe stays open: there is
        // little more to come.
        let mut said = String::new();
        let mut errors = BufReader::new(errors);
        while !said.contains("attached") {
            ensure!(errors.read_line(&mut said)? > 0, "strace: {said}");
        }
        thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        Ok(Self { child, counts })
    }

    /// Detaches. Returns the number of calls by name.
    fn end(mut self) -> Result<Vec<(String, f64)>> {
        let pid = Pid::from_raw(self.child.inner.id().cast_signed());
        kill(pid, Signal::SIGINT)?;
        let status = self.child.wait_at_most(TRACER_LIMIT)?;
        ensure!(
            status.is_some(),
            "strace did not end within {TRACER_LIMIT:?}"
        );
        let text = fs::read_to_string(self.counts.path())?;
        let counts = counts_of(&text);
        ensure!(!counts.is_empty(), "strace counted nothing:\n{text}");
        Ok(counts)
    }
}

/// The lines of a summary of `strace` that are a number and a name, without the sum.
fn counts_of(summary: &str) -> Vec<(String, f64)> {
    let parse = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let count: f64 = words.next()?.parse().ok()?;
        let name = words.next().filter(|&name| name != "total")?;
        Some((name.to_string(), count))
    };
    summary.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_strace_is_parsed() {
        let summary = "\
    calls syscall
--------- ----------------
      124 recvfrom
       17 epoll_pwait2
--------- ----------------
      141 total
";
        let expected = [("recvfrom", 124.0), ("epoll_pwait2", 17.0)];
        let expected = expected.map(|(name, count)| (name.to_string(), count));
        assert_eq!(counts_of(summary), expected);
        assert!(counts_of("").is_empty());
    }
}
