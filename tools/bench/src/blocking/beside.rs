//! The experiment `blocking --beside sockets`: the worst round trip of clients on sockets, beside
//! long C calls.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::postgres::Postgres;
use crate::bench::{Bench, progress};
use crate::calls::DIRECTORY;
use crate::chart::{Bars, Chart};
use crate::child::{self, Figures, Owned, first};
use crate::command_line::{BlockingOptions, Caller, Transport};
use crate::interpreters::Interpreter;
use crate::net::allow_descriptors;
use crate::report::{Report, notes};
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

const GOAL: Goal = Goal::at_most(20.0, " ms", 2);
const LIMIT: Duration = Duration::from_secs(180);
/// The smallest useful length of a call, as a share of the requested length. A shorter call tells
/// nothing.
const LEAST_PART: f64 = 0.2;

/// The calls: the name in the program, and the name in reports. The first one makes no call, and
/// shows what the machine itself does.
const CALLS: [(&str, &str); 14] = [
    (NOTHING, "nothing"),
    ("ffi_first", "a first call by ffi"),
    ("ffi_turning", "a long call by ffi after 3000 short ones"),
    ("sqlite_first", "a query of SQLite"),
    (
        "sqlite_turning",
        "a long query of SQLite after 3000 short ones",
    ),
    ("popen_write", "a write to a command that does not read"),
    ("fifo_open", "an open of a FIFO"),
    ("match", "a string.match"),
    ("ffi_load", "ffi.load of a library with a slow constructor"),
    ("require", "require of a library with a slow constructor"),
    ("main_polls", "poll by ffi, in the main process"),
    ("module_sleeps", "a sleep in a declared module"),
    (LIBPQ, "a query of libpq beside 50 others"),
    ("decode", "cjson.decode of 30 MB"),
];
const NOTHING: &str = "nothing";
const LIBPQ: &str = "libpq";

const NOTES: [&str; 3] = [
    "The server and the clients are two programs. Each holds all connections of its side, and a \
     process in one of them makes the call.",
    "One client sends a request every 10 ms; all others together send a thousand per second. A \
     round trip counts from the time when the request was due.",
    "Beside 'nothing', a round trip takes as long as the machine and the clients themselves need.",
];

type Call = (&'static str, &'static str);

/// The parameters of one measurement.
#[derive(Clone, Copy)]
struct Measurement {
    call: Call,
    transport: Transport,
    place: Caller,
    connections: u64,
}

/// Runs the experiment.
pub(super) fn run(bench: &Bench, options: &BlockingOptions) -> Result<Report> {
    let calls = chosen(&options.only)?;
    allow_descriptors(options.connections.iter().max().copied().unwrap_or(0))?;
    let lab = Equipment::new(bench, options, &calls)?;
    let mut report = Report {
        arms: vec![lab.baton.found()],
        notes: notes(&NOTES),
        ..Report::default()
    };
    let groups = options.transport.len() * options.place.len();
    let bar = progress(groups * calls.len() * options.connections.len() * options.runs as usize);
    let mut samples = Vec::new();
    for (&transport, &place) in each_of_both(&options.transport, &options.place) {
        let mut rows: Vec<CallRow> = calls.iter().map(|&call| CallRow::new(call)).collect();
        for (row, &connections) in each_of_both(&calls, &options.connections) {
            let case = Measurement {
                call: *row,
                transport,
                place,
                connections,
            };
            bar.set_message(case.what());
            let cell = lab.try_often(case, options.runs, || bar.inc(1));
            report.verdicts.extend(cell.verdict(case));
            samples.extend(cell.samples(case));
            if let Some(row) = rows.iter_mut().find(|row| row.call == case.call) {
                row.cells.push(cell);
            }
        }
        report
            .tables
            .push(table(transport, place, &options.connections, &rows));
        report
            .charts
            .push(chart(transport, place, &options.connections, &rows));
    }
    bar.finish_and_clear();
    report.samples = samples.into();
    Ok(report)
}

/// Every pair of an item of `a` and an item of `b`.
fn each_of_both<'a, A, B>(
    former: &'a [A],
    latter: &'a [B],
) -> impl Iterator<Item = (&'a A, &'a B)> {
    former
        .iter()
        .flat_map(move |one| latter.iter().map(move |other| (one, other)))
}

fn chosen(only: &[String]) -> Result<Vec<Call>> {
    if let Some(unknown) = only
        .iter()
        .find(|name| !CALLS.iter().any(|(known, _)| known == name))
    {
        let names = CALLS.map(|(name, _)| name);
        bail!(
            "no call is named '{unknown}'; there are {}",
            names.join(", ")
        );
    }
    let is_chosen = |(name, _): &Call| only.is_empty() || only.iter().any(|chosen| chosen == name);
    Ok(CALLS.into_iter().filter(is_chosen).collect())
}

impl Measurement {
    fn what(self) -> String {
        let how = match self.transport {
            Transport::Plain => "",
            Transport::Tls => " by TLS",
        };
        let count = self.connections;
        format!(
            "worst round trip, {count} connections{how}, beside {} ({})",
            self.call.1, self.place
        )
    }
}

/// Everything that the programs need.
struct Equipment<'a> {
    bench: &'a Bench,
    baton: Interpreter,
    script: PathBuf,
    seconds: f64,
    /// The certificate, if a client needs one.
    certificate: Option<Result<(), String>>,
    postgres: Option<Result<Postgres, String>>,
}

impl<'a> Equipment<'a> {
    fn new(bench: &'a Bench, options: &BlockingOptions, calls: &[Call]) -> Result<Self> {
        bench.script(
            "calls_that_last",
            include_str!("../../programs/beside/calls_that_last.lua"),
        )?;
        bench.named_pipe("fifo")?;
        let needs_certificate = options.transport.contains(&Transport::Tls);
        let needs_postgres = calls.iter().any(|(name, _)| *name == LIBPQ);
        Ok(Self {
            bench,
            baton: bench.paths.baton()?,
            script: bench.script("sockets", include_str!("../../programs/beside/sockets.lua"))?,
            seconds: options.seconds,
            certificate: needs_certificate.then(|| in_words(make_certificate(bench.directory()))),
            postgres: needs_postgres.then(|| in_words(Postgres::start())),
        })
    }

    /// Runs a case `runs` times. Returns the figures of every run; after a failure, also its error.
    fn try_often(
        &self,
        case: Measurement,
        runs: u32,
        mut one_is_done: impl FnMut(),
    ) -> CallFigures {
        let mut cell = CallFigures::default();
        for _ in 0..runs {
            match self.try_once(case) {
                Ok(found) => cell.runs.push(found),
                Err(error) => cell.failure = Some(format!("{error:#}")),
            }
            one_is_done();
        }
        cell
    }

    fn try_once(&self, case: Measurement) -> Result<Figures> {
        let mut server = self.command("server", case)?;
        server
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut server = Owned::spawn(&mut server)?;
        let errors = child::drain(server.inner.stderr.take());
        let asked = self.ask(&mut server, case);
        drop(server);
        // The server's output explains a failure. Commands that it ran may still hold its standard
        // error.
        asked.or_else(|error| {
            Err(error.context(format!(
                "beside a server that said: {}",
                child::collect(errors)?
            )))
        })
    }

    fn ask(&self, server: &mut Owned, case: Measurement) -> Result<Figures> {
        let port = server.read_port()?;
        let mut clients = self.command("clients", case)?;
        clients.arg(format!("port={port}"));
        let found = child::measure(&mut clients, LIMIT, "the clients' program", "lasted_s")?;
        let lasted = first(&found, "lasted_s").unwrap_or_default();
        ensure!(
            lasted >= self.seconds * LEAST_PART,
            "the call lasted {lasted} s, which is too short to tell anything"
        );
        Ok(found)
    }

    fn command(&self, role: &str, case: Measurement) -> Result<Command> {
        let at = |name: &str| self.bench.directory().join(name).display().to_string();
        let mut command = self.baton.script(&self.script);
        let mut word = |key: &str, value: &dyn Display| {
            command.arg(format!("{key}={value}"));
        };
        word("role", &role);
        word("place", &case.place);
        word("call", &case.call.0);
        word("transport", &case.transport);
        word("connections", &case.connections);
        word("seconds", &self.seconds);
        word("modules", &DIRECTORY);
        word("directory", &self.bench.directory().display());
        if case.transport == Transport::Tls {
            there(self.certificate.as_ref())?;
            word("key", &at(KEY));
            word("certificate", &at(CERTIFICATE));
        }
        if case.call.0 == LIBPQ {
            word(
                "postgres",
                &there(self.postgres.as_ref())?.directory().display(),
            );
        }
        command.env("SLOW_MICROSECONDS", format!("{:.0}", self.seconds * 1e6));
        Ok(command)
    }
}

fn in_words<T>(made: Result<T>) -> Result<T, String> {
    made.map_err(|error| format!("{error:#}"))
}

fn there<T>(made: Option<&Result<T, String>>) -> Result<&T> {
    match made {
        Some(Ok(made)) => Ok(made),
        Some(Err(why)) => bail!("{why}"),
        None => bail!("it was not made"),
    }
}

const KEY: &str = "key.pem";
const CERTIFICATE: &str = "certificate.pem";

/// Makes a key and a self-signed certificate.
fn make_certificate(directory: &Path) -> Result<()> {
    let words = "req -x509 -nodes -days 2 -subj /CN=localhost -newkey ec -pkeyopt \
                 ec_paramgen_curve:prime256v1";
    let mut command = Command::new("openssl");
    command
        .args(words.split(' '))
        .arg("-keyout")
        .arg(directory.join(KEY))
        .arg("-out")
        .arg(directory.join(CERTIFICATE));
    child::run(&mut command, LIMIT)
        .context("install it: apt-get install openssl")?
        .succeeded("openssl")?;
    Ok(())
}

/// The figures of one call at one number of connections.
#[derive(Default)]
struct CallFigures {
    runs: Vec<Figures>,
    failure: Option<String>,
}

impl CallFigures {
    fn values(&self, name: &str) -> Vec<f64> {
        self.runs
            .iter()
            .filter_map(|found| first(found, name))
            .collect()
    }

    /// The worst figure of all runs.
    fn worst(&self) -> Option<f64> {
        stats::maximum(&self.values("worst_ms"))
    }

    /// The verdict. `None` for a case that is only there for comparison, unless it failed.
    fn verdict(&self, case: Measurement) -> Option<Verdict> {
        match &self.failure {
            Some(why) => Some(Verdict::unmet(&case.what(), why.as_str())),
            None if case.call.0 == NOTHING => None,
            None => Some(GOAL.judge(&case.what(), self.worst())),
        }
    }

    fn samples(&self, case: Measurement) -> Vec<Value> {
        let sample = |found: &Figures| {
            json!({
                "call": case.call.0,
                "transport": case.transport.to_string(),
                "place": case.place.to_string(),
                "connections": case.connections,
                "figures": found,
            })
        };
        self.runs.iter().map(sample).collect()
    }
}

/// The figures of one call at every number of connections.
struct CallRow {
    call: Call,
    cells: Vec<CallFigures>,
}

impl CallRow {
    fn new(call: Call) -> Self {
        Self {
            call,
            cells: Vec::new(),
        }
    }
}

fn title(transport: Transport, place: Caller) -> String {
    let library = match transport {
        Transport::Plain => "LuaSocket",
        Transport::Tls => "LuaSec",
    };
    format!("round trips by {library}, ms, beside a call of the {place}")
}

fn table(transport: Transport, place: Caller, connections: &[u64], rows: &[CallRow]) -> Table {
    let columns = connections.iter().flat_map(|count| {
        [&format!("{count} conn., median"), "worst", "from sending"].map(str::to_string)
    });
    let header = ["beside".to_string()]
        .into_iter()
        .chain(columns)
        .chain(["the call, s".to_string()]);
    let mut table = Table::new(title(transport, place), header);
    for row in rows {
        let of_cell = |cell: &CallFigures| {
            let median = stats::median(&cell.values("median_ms"));
            let from_sending = stats::maximum(&cell.values("worst_from_sending_ms"));
            [median, cell.worst(), from_sending].map(|time| figure(time, 2))
        };
        let lasted = row.cells.iter().flat_map(|cell| cell.values("lasted_s"));
        let lasted = figure(stats::median(&lasted.collect::<Vec<_>>()), 2);
        table.named(
            row.call.1,
            row.cells.iter().flat_map(of_cell).chain([lasted]),
        );
    }
    table
}

fn chart(transport: Transport, place: Caller, connections: &[u64], rows: &[CallRow]) -> Chart {
    let mut chart = Bars::new(title(transport, place), "worst round trip, ms")
        .log()
        .mark("goal", GOAL.limit())
        .digits(2)
        .rows(rows.iter().map(|row| row.call.1));
    for (column, count) in connections.iter().enumerate() {
        let worst = rows.iter().map(|row| row.cells[column].worst());
        chart = chart.series(format!("{count} connections"), worst);
    }
    chart.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::figures;

    #[test]
    fn calls_are_chosen_by_name_and_an_unknown_one_is_refused() {
        let names = |only: &[&str]| -> Result<Vec<&str>> {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            Ok(chosen(&only)?.into_iter().map(|(name, _)| name).collect())
        };
        assert_eq!(names(&[]).unwrap().len(), CALLS.len());
        assert_eq!(names(&["decode", "match"]).unwrap(), ["match", "decode"]);
        let error = names(&["sleep"]).unwrap_err().to_string();
        assert!(
            error.starts_with("no call is named 'sleep'; there are nothing, ffi_first,"),
            "{error}"
        );
    }

    #[test]
    fn the_worst_of_all_runs_counts_and_a_failed_run_is_reported() {
        let case = Measurement {
            call: CALLS[1],
            transport: Transport::Plain,
            place: Caller::Server,
            connections: 1,
        };
        let mut cell = CallFigures {
            runs: vec![
                figures("worst_ms 3\nlasted_s 1"),
                figures("worst_ms 25\nlasted_s 1"),
            ],
            failure: None,
        };
        assert_eq!(
            cell.verdict(case).unwrap().to_string(),
            "MISSED  worst round trip, 1 connections, beside a first call by ffi (server) <= 20 \
             ms  (measured 25.00 ms)"
        );
        cell.failure = Some("it ended".to_string());
        assert!(cell.verdict(case).unwrap().to_string().starts_with("UNMET"));
    }
}
