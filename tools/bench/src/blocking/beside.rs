//! The experiment `blocking --beside sockets`: the worst round trip of clients on sockets, beside
//! long C calls.

use std::fmt::Display;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::postgres::Postgres;
use crate::bench::Bench;
use crate::calls::DIRECTORY;
use crate::chart::{Bars, Chart};
use crate::child::{self, Figures, Owned, first};
use crate::command_line::{BlockingOptions, Caller, Transport};
use crate::contest::{Arm, Case, Contest, Results};
use crate::interpreters::Interpreter;
use crate::net::allow_descriptors;
use crate::report::{Report, notes};
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

const GOAL: Goal = Goal::at_most(20.0, " ms", 2);
const LIMIT: Duration = Duration::from_secs(180);
/// The clients' figures: the longest round trip, from sending and from when it was due.
const ROUND_TRIP: &str = "worst_from_sending_ms";
const FROM_DUE: &str = "worst_ms";
/// The smallest useful length of a call, as a share of the requested length. A shorter call tells
/// nothing.
pub(super) const LEAST_PART: f64 = 0.2;

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
     round trip counts from sending to the answer, which the goals judge, and from the time when \
     the request was due. Beside a call in the clients' own program, a client waits for its slice \
     before it sends, too.",
    "Beside 'nothing', a round trip takes as long as the machine and the clients themselves need.",
];

pub(super) type Call = (&'static str, &'static str);

/// The connections of a measurement, and the program that makes the call.
#[derive(Clone, Copy)]
struct Setting {
    transport: Transport,
    place: Caller,
}

/// Runs the experiment.
pub(super) fn run(bench: &Bench, options: &BlockingOptions) -> Result<Report> {
    let calls = chosen_of(&CALLS, &options.only)?;
    let most = options.connections.iter().max().copied();
    allow_descriptors(most.unwrap_or(0))?;
    let lab = Equipment::new(bench, options, &calls)?;
    let mut report = Report {
        arms: vec![lab.baton.found()],
        notes: notes(&NOTES),
        ..Report::default()
    };
    let mut samples = Vec::new();
    for (&transport, &place) in each_of_both(&options.transport, &options.place) {
        let setting = Setting { transport, place };
        let pairs: Vec<_> = each_of_both(&calls, &options.connections).collect();
        let case = |&(call, connections): &(&Call, &u64)| {
            Case::new(
                call.0,
                setting.what(*call, *connections),
                &[&call.0, connections],
            )
        };
        let contest = Contest {
            arms: vec![Arm::interpreted("baton", &lab.baton, &lab.script, &[])],
            cases: pairs.iter().map(case).collect(),
            rounds: options.runs,
            figure: "lasted_s",
            limit: LIMIT,
        };
        let results = contest.run_by(|_, case, _| lab.try_once(setting, case));
        let verdicts = pairs.iter().enumerate();
        let verdicts = verdicts.filter_map(|(case, (call, _))| verdict(&results, case, call.0));
        report.verdicts.extend(verdicts);
        let sheet = SettingSheet {
            setting,
            results: &results,
            calls: &calls,
            connections: &options.connections,
        };
        report.tables.push(sheet.table());
        report.charts.push(sheet.chart());
        samples.push(json!({
            "transport": transport.to_string(),
            "place": place.to_string(),
            "runs": results.to_json(),
        }));
    }
    report.samples = samples.into();
    Ok(report)
}

/// The verdict on a case. `None` for one that is only there for comparison, unless it failed.
fn verdict(results: &Results, case: usize, call: &str) -> Option<Verdict> {
    let what = &results.cases[case].title;
    match results.failure(0, case) {
        Some(why) => Some(Verdict::unmet(what, why)),
        None if call == NOTHING => None,
        None => Some(GOAL.judge(what, worst(results, case, ROUND_TRIP))),
    }
}

/// The worst figure of all runs.
fn worst(results: &Results, case: usize, name: &str) -> Option<f64> {
    stats::maximum(&results.values(0, case, name))
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

/// The calls with these names; all if there are no names.
pub(super) fn chosen_of(calls: &[Call], only: &[String]) -> Result<Vec<Call>> {
    let is_known = |name: &String| calls.iter().any(|(known, _)| known == name);
    if let Some(unknown) = only.iter().find(|name| !is_known(name)) {
        let names: Vec<_> = calls.iter().map(|(name, _)| *name).collect();
        bail!(
            "no call is named '{unknown}'; there are {}",
            names.join(", ")
        );
    }
    let is_chosen = |(name, _): &&Call| only.is_empty() || only.iter().any(|chosen| chosen == name);
    Ok(calls.iter().filter(is_chosen).copied().collect())
}

impl Setting {
    fn what(self, call: Call, connections: u64) -> String {
        let how = match self.transport {
            Transport::Plain => "",
            Transport::Tls => " by TLS",
        };
        format!(
            "worst round trip, {connections} connections{how}, beside {} ({})",
            call.1, self.place
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

    fn try_once(&self, setting: Setting, case: &Case) -> Result<Figures> {
        let mut server = self.command("server", setting, case)?;
        server
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut server = Owned::spawn(&mut server)?;
        let errors = child::drain(server.inner.stderr.take());
        let asked = self.ask(&mut server, setting, case);
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

    fn ask(&self, server: &mut Owned, setting: Setting, case: &Case) -> Result<Figures> {
        let port = server.read_port()?;
        let mut clients = self.command("clients", setting, case)?;
        clients.arg(format!("port={port}"));
        let found = child::measure(&mut clients, LIMIT, "the clients' program", "lasted_s")?;
        let lasted = first(&found, "lasted_s").unwrap_or_default();
        ensure!(
            lasted >= self.seconds * LEAST_PART,
            "the call lasted {lasted} s, which is too short to tell anything"
        );
        Ok(found)
    }

    fn command(&self, role: &str, setting: Setting, case: &Case) -> Result<Command> {
        let at = |name: &str| self.bench.directory().join(name).display().to_string();
        let mut command = self.baton.script(&self.script);
        let mut word = |key: &str, value: &dyn Display| {
            command.arg(format!("{key}={value}"));
        };
        word("role", &role);
        word("place", &setting.place);
        word("call", &case.arguments[0]);
        word("transport", &setting.transport);
        word("connections", &case.arguments[1]);
        word("seconds", &self.seconds);
        word("modules", &DIRECTORY);
        word("directory", &self.bench.directory().display());
        if setting.transport == Transport::Tls {
            there(self.certificate.as_ref())?;
            word("key", &at(KEY));
            word("certificate", &at(CERTIFICATE));
        }
        if case.name == LIBPQ {
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

/// The table and the chart of one setting.
struct SettingSheet<'a> {
    setting: Setting,
    /// A case for each call, by number of connections.
    results: &'a Results,
    calls: &'a [Call],
    connections: &'a [u64],
}

impl SettingSheet<'_> {
    fn title(&self) -> String {
        let library = match self.setting.transport {
            Transport::Plain => "LuaSocket",
            Transport::Tls => "LuaSec",
        };
        let place = self.setting.place;
        format!("round trips by {library}, ms, beside a call of the {place}")
    }

    /// The indices of a call's cases.
    fn cases_of(&self, call: usize) -> Range<usize> {
        let count = self.connections.len();
        call * count..(call + 1) * count
    }

    fn table(&self) -> Table {
        let columns = self.connections.iter().flat_map(|count| {
            [&format!("{count} conn., median"), "worst", "from due"].map(str::to_string)
        });
        let header = ["beside".to_string()].into_iter().chain(columns);
        let mut table = Table::new(self.title(), header.chain(["the call, s".to_string()]));
        for (call, (_, name)) in self.calls.iter().enumerate() {
            let of_case = |case| {
                let median = self.results.median(0, case, "median_ms");
                let [worst, from_due] =
                    [ROUND_TRIP, FROM_DUE].map(|name| worst(self.results, case, name));
                [median, worst, from_due].map(|time| figure(time, 2))
            };
            let cases = self.cases_of(call);
            let lasted = cases
                .clone()
                .flat_map(|case| self.results.values(0, case, "lasted_s"));
            let lasted = figure(stats::median(&lasted.collect::<Vec<_>>()), 2);
            table.named(name, cases.flat_map(of_case).chain([lasted]));
        }
        table
    }

    fn chart(&self) -> Chart {
        let mut chart = Bars::new(self.title(), "worst round trip, ms")
            .log()
            .mark("goal", GOAL.limit())
            .digits(2)
            .rows(self.calls.iter().map(|(_, name)| name));
        for (column, count) in self.connections.iter().enumerate() {
            let case = |call| self.cases_of(call).start + column;
            let worst = |call| worst(self.results, case(call), ROUND_TRIP);
            let name = format!("{count} connections");
            chart = chart.series(name, (0..self.calls.len()).map(worst));
        }
        chart.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::figures;

    #[test]
    fn calls_are_chosen_by_name_and_an_unknown_one_is_refused() {
        let names = |only: &[&str]| -> Result<Vec<&str>> {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            Ok(chosen_of(&CALLS, &only)?
                .into_iter()
                .map(|(name, _)| name)
                .collect())
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
        let setting = Setting {
            transport: Transport::Plain,
            place: Caller::Server,
        };
        let run = |figures_of: &str| ((0, 0), Ok(figures(figures_of)));
        let verdict = |measured: Vec<((usize, usize), Result<Figures>)>| {
            let case = Case::new("ffi_first", setting.what(CALLS[1], 1), &[]);
            let results = Results::of(vec![Arm::missing("baton", "")], vec![case], measured);
            verdict(&results, 0, CALLS[1].0).unwrap().to_string()
        };
        let runs = || {
            vec![
                run("worst_from_sending_ms 3"),
                run("worst_from_sending_ms 25"),
            ]
        };
        assert_eq!(
            verdict(runs()),
            "MISSED  worst round trip, 1 connections, beside a first call by ffi (server) <= 20 \
             ms  (measured 25.00 ms)"
        );
        let mut failed = runs();
        failed.push(((0, 0), Err(anyhow::anyhow!("it ended"))));
        assert!(verdict(failed).starts_with("UNMET"));
    }
}
