//! The experiment `spin`: the cost of each spin policy, for recorded waits and in running programs.
//!
//! For recorded waits, nothing runs: the policies decide about given times. So the figures are the
//! same on every machine. Each cost is divided by the smallest cost that hindsight could reach. In
//! running programs ([`live`]), the policies that Baton offers wait for others, in programs of one
//! process.

mod live;
mod partners;
mod policies;
mod traces;
pub(crate) mod waits;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use baton_core::spin::replay::{self, Bill};
use baton_core::spin::{Accuracy, Ema, Learned, Off, Policy, budget};
use serde_json::{Value, json};

use crate::chart::{Bars, Chart};
use crate::command_line::SpinOptions;
use crate::report::Report;
use crate::table::Table;
use crate::verdict::Verdict;
use policies::{BreakEven, GrowAndShrink};
use traces::Trace;

/// The limit with which Chromium introduced its rule.
const CHROMIUM_LIMIT: Duration = Duration::from_millis(2);

/// The cost of a park in the recorded waits.
const PARK_COST: Duration = Duration::from_micros(50);

/// The default budget of `learned`, as a share of all time.
const BUDGET: f64 = 0.01;

const POLICIES: [&str; 5] = [
    "never spin",
    "ema, 2 ms (Chromium)",
    "break-even",
    "grow/shrink (KVM)",
    "learned",
];

/// The policies that count how often they were right.
const JUDGED: [&str; 2] = [POLICIES[1], POLICIES[4]];

/// The costs of one trace, by policy.
struct Row {
    trace: Trace,
    bills: Vec<Bill>,
    /// In the order of [`JUDGED`].
    accuracies: [Accuracy; 2],
}

/// Runs the experiment: both parts of it, or one trace.
pub(crate) fn run(options: &SpinOptions) -> Result<Report> {
    let mut report = replay(options)?;
    if options.trace.is_none() {
        let live = report.add(live::run(options)?);
        report.samples = json!({ "traces": report.samples, "live": live });
    }
    Ok(report)
}

fn replay(options: &SpinOptions) -> Result<Report> {
    let list = match &options.trace {
        Some(file) => vec![traces::read(file)?],
        None => traces::five(),
    };
    let rows: Vec<Row> = list
        .into_iter()
        .map(|trace| Row {
            bills: policies()
                .iter_mut()
                .map(|policy| replay::run(policy.as_mut(), &trace.events, PARK_COST))
                .collect(),
            accuracies: accuracies(&trace),
            trace,
        })
        .collect();
    Ok(Report {
        notes: vec![
            format!(
                "A wait costs what is spun for it, and {PARK_COST:?} if the owner parks; hindsight \
                 pays the smaller of the wait and the park."
            ),
            RIGHT_AND_WRONG.to_string(),
        ],
        tables: vec![table(&rows), right_and_wrong(&rows)],
        charts: vec![chart(&rows)],
        samples: rows.iter().map(to_json).collect(),
        verdicts: rows.iter().flat_map(verdicts).collect(),
        ..Report::default()
    })
}

/// The policies, in the order of [`POLICIES`].
fn policies() -> [Box<dyn Policy>; 5] {
    // In a running program, the policy learns the cost of a park from its own wake-ups.
    let learned = Learned::new(BUDGET).with_park_cost(PARK_COST);
    [
        Box::new(Off),
        Box::new(Ema::new(CHROMIUM_LIMIT)),
        Box::new(BreakEven {
            park_cost: PARK_COST,
        }),
        Box::new(GrowAndShrink::default()),
        Box::new(learned),
    ]
}

/// Chromium's names for the four outcomes of a wait.
const RIGHT_AND_WRONG: &str = "TP: spun, and signalled; FP: spun, and not; TN: did not spin, and \
                               waited longer than the limit; FN: did not spin, \
     and waited no longer. The limit is ema's 2 ms, and for learned what a park costs.";

/// How often `ema` and `learned` are right about a trace.
fn accuracies(trace: &Trace) -> [Accuracy; 2] {
    let mut ema = Ema::new(CHROMIUM_LIMIT);
    let mut learned = Learned::new(BUDGET);
    // The policy must know the cost of a park, as it does in `policies`.
    (0..300).for_each(|_| learned.learn_park_cost(PARK_COST));
    let _ = replay::run(&mut ema, &trace.events, PARK_COST);
    let _ = replay::run(&mut learned, &trace.events, PARK_COST);
    [ema.accuracy(), learned.accuracy()]
}

fn right_and_wrong(rows: &[Row]) -> Table {
    let header = ["waits"].into_iter().chain(JUDGED);
    let mut table = Table::new("right and wrong: TP / FP / TN / FN", header);
    for row in rows {
        let counts = row.accuracies.map(|accuracy| {
            let counts = counts(accuracy).map(|(_, count)| count.to_string());
            counts.join(" / ")
        });
        table.named(&row.trace.name, counts);
    }
    table
}

/// The four counts, by name.
fn counts(accuracy: Accuracy) -> [(&'static str, u64); 4] {
    [
        ("true_positives", accuracy.true_positives),
        ("false_positives", accuracy.false_positives),
        ("true_negatives", accuracy.true_negatives),
        ("false_negatives", accuracy.false_negatives),
    ]
}

fn table(rows: &[Row]) -> Table {
    let header = ["waits", "number"].into_iter().chain(POLICIES);
    let mut table = Table::new("cost / optimum (share of all time that is spun)", header);
    for Row { trace, bills, .. } in rows {
        let cost =
            |bill: &Bill| format!("{:.2} ({:.1} %)", bill.ratio(), 100.0 * bill.spin_share());
        let number = [trace.events.len().to_string()].into_iter();
        table.named(&trace.name, number.chain(bills.iter().map(cost)));
    }
    table
}

fn chart(rows: &[Row]) -> Chart {
    let title = "What waiting costs under each spin policy";
    let mut chart = Bars::new(title, "cost, divided by that of hindsight")
        .log()
        .from(1.0)
        .digits(2)
        .rows(rows.iter().map(|row| &row.trace.name));
    for (policy, name) in POLICIES.iter().enumerate() {
        chart = chart.series(name, rows.iter().map(|row| Some(row.bills[policy].ratio())));
    }
    chart.into()
}

/// The two promises of `learned`. It costs at most twice the optimum plus 1 ms per minute begun,
/// and its failed spins stay within the budget.
fn verdicts(row: &Row) -> [Verdict; 2] {
    let bill = &row.bills[POLICIES.len() - 1];
    let slack = Duration::from_millis(1) * (bill.elapsed.as_secs() / 60 + 1) as u32;
    let allowed = (bill.elapsed + budget::FILL).mul_f64(BUDGET) + bill.saved;
    let name = &row.trace.name;
    [
        Verdict::holds(
            &format!("{name}: learned pays at most twice the optimum and 1 ms a minute"),
            bill.paid <= bill.optimum * 2 + slack,
        ),
        Verdict::holds(
            &format!("{name}: the failed spins of learned are inside its budget"),
            bill.failed <= allowed,
        ),
    ]
}

fn to_json(row: &Row) -> Value {
    let of_one = |(name, bill): (&&str, &Bill)| {
        json!({
            "policy": name,
            "paid_ns": bill.paid.as_nanos() as u64,
            "optimum_ns": bill.optimum.as_nanos() as u64,
            "spun_ns": bill.spun.as_nanos() as u64,
            "failed_ns": bill.failed.as_nanos() as u64,
            "elapsed_ns": bill.elapsed.as_nanos() as u64,
        })
    };
    let bills: Vec<Value> = POLICIES.iter().zip(&row.bills).map(of_one).collect();
    let of_one = |(name, accuracy): (&&str, &Accuracy)| {
        let counts: BTreeMap<&str, u64> = counts(*accuracy).into();
        json!({ "policy": name, "counts": counts })
    };
    let accuracies: Vec<Value> = JUDGED.iter().zip(&row.accuracies).map(of_one).collect();
    json!({"trace": row.trace.name, "bills": bills, "accuracies": accuracies})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_of_a_trace_is_counted_as_right_or_wrong() {
        let trace = traces::five().swap_remove(2);
        assert_eq!(trace.events[0].after, Duration::from_micros(1900));
        let [ema, learned] =
            accuracies(&trace).map(|accuracy| counts(accuracy).map(|(_, count)| count));
        let waits = trace.events.len() as u64;
        assert_eq!(ema, [waits, 0, 0, 0], "it spins up to its limit");
        assert_eq!(
            learned,
            [0, 0, waits, 0],
            "it parks for what is longer than a park"
        );
    }
}
