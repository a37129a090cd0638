//! The results of experiments, and the documents that store them. They can be printed, or written
//! as JSON, charts or a page.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chart::Chart;
use crate::output;
use crate::table::Table;
use crate::verdict::Verdict;

/// The complete result of an experiment. Nothing is printed before it is complete.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The systems that took part.
    pub(crate) arms: Vec<Found>,
    /// Lines before the tables: what ran, and how to read the tables.
    pub(crate) notes: Vec<String>,
    pub(crate) tables: Vec<Table>,
    pub(crate) charts: Vec<Chart>,
    pub(crate) verdicts: Vec<Verdict>,
    /// Every sample, in a form that the experiment chooses.
    pub(crate) samples: Value,
}

impl Report {
    /// Adds the notes, tables, charts and verdicts of a part of the experiment. Returns the part's
    /// samples.
    pub(crate) fn add(&mut self, part: Report) -> Value {
        self.notes.extend(part.notes);
        self.tables.extend(part.tables);
        self.charts.extend(part.charts);
        self.verdicts.extend(part.verdicts);
        part.samples
    }
}

/// Notes that are always the same.
pub(crate) fn notes(notes: &[&str]) -> Vec<String> {
    notes.iter().map(ToString::to_string).collect()
}

/// A report with its origin, as stored in a JSON file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) experiment: String,
    /// The words of the command line after the program's name.
    pub(crate) arguments: Vec<String>,
    pub(crate) machine: Value,
    pub(crate) stock_flags: String,
    #[serde(flatten)]
    pub(crate) report: Report,
}

/// An interpreter or another peer that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) path: String,
}

/// The contents of a file: the document of one experiment, or a list of several.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum File {
    One(Box<Document>),
    Several(Vec<Document>),
}

impl Document {
    /// Prints which build of Baton was measured, notes, tables and verdicts.
    pub(crate) fn print(&self) -> Result<()> {
        for arm in self.report.arms.iter().filter(|arm| arm.name == "baton") {
            output::print(&format!("baton is {}\n", arm.path))?;
        }
        for note in &self.report.notes {
            output::print(&format!("{note}\n"))?;
        }
        for table in &self.report.tables {
            output::print(&format!("\n{table}"))?;
        }
        output::print("\n")?;
        for verdict in &self.report.verdicts {
            output::print(&format!("{verdict}\n"))?;
        }
        Ok(())
    }
}

/// Writes one document by itself, and several as a list.
pub(crate) fn write_json(file: &Path, documents: &[Document]) -> Result<()> {
    let text = match documents {
        [one] => serde_json::to_string_pretty(one)?,
        several => serde_json::to_string_pretty(several)?,
    };
    write(file, &(text + "\n"))
}

/// Reads the documents of a file that [`write_json`] wrote.
pub(crate) fn read_json(file: &Path) -> Result<Vec<Document>> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let read = serde_json::from_str(&text)
        .with_context(|| format!("{} is no report of this program's --json", file.display()))?;
    Ok(match read {
        File::One(document) => vec![*document],
        File::Several(documents) => documents,
    })
}

/// Writes every chart as an SVG file, named after its experiment and its title. Makes the directory
/// if it does not exist.
pub(crate) fn write_charts(directory: &Path, documents: &[Document]) -> Result<()> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    for document in documents {
        for chart in &document.report.charts {
            let name = format!("{}-{}.svg", document.experiment, chart.file_stem());
            write(&directory.join(name), &chart.to_svg()?)?;
        }
    }
    Ok(())
}

/// Writes a file. The error names it.
pub(crate) fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// A report with one of everything, for tests.
#[cfg(test)]
pub(crate) fn sample_document() -> Document {
    use crate::chart::Bars;
    use crate::verdict::Goal;

    let mut table = Table::new("ns per <operation>", &["arm", "yield"]);
    table.row(["baton".to_string(), "12.5".to_string()]);
    let chart = Bars::new("Price of a switch", "ns")
        .log()
        .rows(["yield"])
        .series("baton", [Some(12.5)]);
    Document {
        experiment: "switch".to_string(),
        arguments: vec!["switch".to_string()],
        machine: serde_json::json!({"cpu_model": "a CPU", "cpus": 2}),
        stock_flags: "-O2".to_string(),
        report: Report {
            arms: vec![Found {
                name: "baton".to_string(),
                version: "Lua 5.4".to_string(),
                path: "target/dist/baton".to_string(),
            }],
            notes: vec!["a note".to_string()],
            tables: vec![table],
            charts: vec![chart.into()],
            verdicts: vec![
                Goal::at_most(20.0, " ns", 1).judge("yield", Some(12.5)),
                Verdict::unmet("against Go", "missing: run cargo xtask peers"),
            ],
            samples: serde_json::json!([12.5]),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read_back_as_they_were_written_one_or_several() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("report.json");
        for count in [1, 2] {
            let written = vec![sample_document(); count];
            write_json(&file, &written).unwrap();
            let read = read_json(&file).unwrap();
            assert_eq!(
                serde_json::to_value(&read).unwrap(),
                serde_json::to_value(&written).unwrap()
            );
        }
    }

    #[test]
    fn a_file_that_is_no_report_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("other.json");
        fs::write(&file, "{\"answer\": 42}").unwrap();
        let error = format!("{:#}", read_json(&file).unwrap_err());
        assert!(error.contains("other.json is no report"), "{error}");
        let error = format!(
            "{:#}",
            read_json(&directory.path().join("absent.json")).unwrap_err()
        );
        assert!(
            error.contains("cannot read") && error.contains("absent.json"),
            "{error}"
        );
    }

    #[test]
    fn charts_become_files_named_after_experiment_and_title() {
        let directory = tempfile::tempdir().unwrap();
        let charts = directory.path().join("new").join("charts");
        write_charts(&charts, &[sample_document()]).unwrap();
        let svg = fs::read_to_string(charts.join("switch-price-of-a-switch.svg")).unwrap();
        assert!(svg.starts_with("<svg"), "{svg}");
    }
}
