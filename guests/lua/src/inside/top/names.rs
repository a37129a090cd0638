//! Rows of the table, merged by the names of their processes.

use super::{Row, Sort};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// The processes of one name.
struct SameName {
    /// The first of them, with the sums of all.
    row: Row,
    states: BTreeMap<String, u64>,
    /// What they wait for, without holders.
    waits: BTreeMap<String, u64>,
}

/// All names.
#[derive(Default)]
pub(super) struct Names {
    named: Vec<SameName>,
    places: HashMap<String, usize>,
}

impl Names {
    /// Adds processes.
    pub(super) fn add(&mut self, rows: Vec<Row>) {
        for row in rows {
            self.add_one(row);
        }
    }

    fn add_one(&mut self, mut row: Row) {
        let next = self.named.len();
        let name = row.process.name().to_owned();
        let place = *self.places.entry(name).or_insert(next);
        let state = std::mem::take(&mut row.process.state);
        let wait = std::mem::take(&mut row.process.waits);
        if place == next {
            row.process.stacks.clear();
            row.count = Some(0);
            self.named.push(SameName {
                row,
                states: BTreeMap::new(),
                waits: BTreeMap::new(),
            });
        } else {
            let (sums, process) = (&mut self.named[place].row, &row.process);
            sums.share += row.share;
            sums.process.cpu += process.cpu;
            sums.process.running += process.running;
            sums.process.since = longer(sums.process.since, process.since);
        }
        let named = &mut self.named[place];
        named.row.count = named.row.count.map(|count| count + 1);
        *named.states.entry(state).or_default() += 1;
        if !wait.is_empty() {
            let object = wait.split(", held by ").next().unwrap_or_default();
            *named.waits.entry(object.to_owned()).or_default() += 1;
        }
    }

    /// The first `most` names of the order.
    pub(super) fn into_rows(self, sort: Sort, most: usize) -> Vec<Row> {
        let mut rows: Vec<Row> = self.named.into_iter().map(SameName::into_row).collect();
        let rank = |row: &Row| match sort {
            Sort::Cpu => (row.share, row.process.cpu),
            Sort::Total => (row.process.cpu, row.share),
            Sort::Idle => (row.process.since.unwrap_or(0.0), 0.0),
        };
        rows.sort_by(|one, other| {
            let (one_rank, other_rank) = (rank(one), rank(other));
            let by_rank = other_rank.0.total_cmp(&one_rank.0);
            by_rank
                .then(other_rank.1.total_cmp(&one_rank.1))
                .then(one.process.id.cmp(&other.process.id))
        });
        rows.truncate(most);
        rows
    }
}

impl SameName {
    fn into_row(self) -> Row {
        let SameName {
            mut row,
            states,
            waits,
        } = self;
        let count = row.count.unwrap_or(0);
        let most = |of: &BTreeMap<String, u64>| {
            let most = of
                .iter()
                .max_by_key(|&(text, &count)| (count, Reverse(text)));
            most.map(|(text, &count)| (text.clone(), count))
        };
        row.process.state = match states.len() {
            1 => most(&states).map(|(state, _)| state).unwrap_or_default(),
            _ => "mixed".to_owned(),
        };
        let waits = most(&waits).map(|(wait, some)| match some == count {
            true => wait,
            false => format!("{some} {wait}"),
        });
        row.process.waits = match (states.len(), waits) {
            (1, waits) => waits.unwrap_or_default(),
            (_, waits) => {
                let states = states.iter().map(|(state, some)| format!("{some} {state}"));
                states.chain(waits).collect::<Vec<_>>().join(", ")
            }
        };
        row
    }
}

/// The longer of two times that may be unknown.
fn longer(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_observe::report::Process;
    use std::collections::BTreeMap;

    fn row(id: u64, name: &str, state: &str, waits: &str, share: f64) -> Row {
        Row {
            process: Process {
                vm: String::new(),
                id,
                title: format!("process {id} '{name}'"),
                state: state.into(),
                waits: waits.into(),
                object: String::new(),
                has_moved_on: false,
                has_sunk: false,
                since: Some(id as f64),
                spawned_at: String::new(),
                context: BTreeMap::new(),
                running: 2.0,
                cpu: 1.0,
                stacks: Vec::new(),
            },
            key: None,
            share,
            count: None,
        }
    }

    #[test]
    fn processes_of_one_name_are_added_up() {
        let mutex = |holder: u64| format!("for the mutex 'm', held by process {holder} 'x'");
        let mut names = Names::default();
        names.add(vec![
            row(2, "clerk", "waiting", &mutex(7), 0.25),
            row(3, "main", "running", "", 0.375),
        ]);
        names.add(vec![
            row(4, "clerk", "waiting", &mutex(8), 0.25),
            row(5, "reader", "sleeping", "until a time", 0.0),
            row(6, "reader", "runnable", "", 0.0),
        ]);
        let rows = names.into_rows(Sort::Cpu, 10);
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                let process = &row.process;
                let texts = (process.name(), &process.state[..], &process.waits[..]);
                (row.count.unwrap_or(0), texts, row.share, process.cpu)
            })
            .collect();
        let mixed = "1 runnable, 1 sleeping, 1 until a time";
        let expected = [
            (2, ("clerk", "waiting", "for the mutex 'm'"), 0.5, 2.0),
            (1, ("main", "running", ""), 0.375, 1.0),
            (2, ("reader", "mixed", mixed), 0.0, 2.0),
        ];
        assert_eq!(shown, expected);
        assert_eq!(rows[0].process.since, Some(4.0));
    }

    #[test]
    fn each_order_of_names_has_its_first() {
        let first = |sort| {
            let mut names = Names::default();
            names.add(vec![
                row(2, "a", "running", "", 0.5),
                row(3, "b", "runnable", "", 0.0),
                row(4, "b", "runnable", "", 0.0),
            ]);
            names.into_rows(sort, 1).remove(0).process.name().to_owned()
        };
        assert_eq!(first(Sort::Cpu), "a");
        assert_eq!(first(Sort::Total), "b");
        assert_eq!(first(Sort::Idle), "b");
    }
}
