//! Writes one page for several reports. The page contains its styles and drawings, so it needs no
//! network.

use anyhow::Result;
use serde_json::Value;

use crate::chart::Chart;
use crate::report::Document;
use crate::table::Table;
use crate::verdict::{Outcome, Verdict};

const STYLE: &str = include_str!("html/style.css");

/// The machine facts in the order of the page: the key in the document, and the label.
const FACTS: [(&str, &str); 7] = [
    ("cpu_model", "CPU"),
    ("cpus", "CPUs"),
    ("kernel", "kernel"),
    ("memory_kib", "memory, KiB"),
    ("load_average", "load average"),
    ("governor", "frequency governor"),
    ("time", "time"),
];

const CLASSES: [&str; 3] = ["met", "missed", "unmet"];

/// The page for these documents.
pub(crate) fn page(documents: &[Document]) -> Result<String> {
    let summary = all(documents.iter().enumerate(), summary);
    let header = all(["experiment"].iter().chain(&CLASSES), |name| {
        element("th", name)
    });
    let sections: Result<String> = documents.iter().enumerate().map(section).collect();
    let sections = sections?;
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>baton-bench</title>\n<style>\n{STYLE}</style>\n</head>\n<body>
<h1>Baton beside its peers</h1>
<p class=\"lead\">Absolute times mean little on another machine; the ratios between arms that ran \
         interleaved are the result.</p>
<nav><table><thead><tr>{header}</tr></thead>
<tbody>\n{summary}</tbody></table></nav>\n{sections}</body>\n</html>\n"
    ))
}

/// The texts of all items, one after the other.
fn all<T>(items: impl IntoIterator<Item = T>, text: impl Fn(T) -> String) -> String {
    items.into_iter().map(text).collect()
}

/// An element with this text.
fn element(tag: &str, text: &str) -> String {
    format!("<{tag}>{}</{tag}>", escaped(text))
}

/// One line for an experiment: its name, and the number of goals by outcome.
fn summary((number, document): (usize, &Document)) -> String {
    let count = |class: &str| {
        let verdicts = document.report.verdicts.iter();
        verdicts
            .filter(|verdict| class_of(verdict) == class)
            .count()
    };
    let cell = |class: &&str| match count(class) {
        0 => "<td class=\"none\">0</td>".to_string(),
        figure => format!("<td class=\"{class}\">{figure}</td>"),
    };
    let name = escaped(&document.experiment);
    let cells = all(&CLASSES, cell);
    format!("<tr><td><a href=\"#experiment-{number}\">{name}</a></td>{cells}</tr>\n")
}

fn section((number, document): (usize, &Document)) -> Result<String> {
    let report = &document.report;
    let line = |verdict: &Verdict| {
        let (class, text) = (class_of(verdict), escaped(&verdict.sentence()));
        format!("<li><span class=\"{class}\">{class}</span>{text}</li>\n")
    };
    let figure = |chart: &Chart| -> Result<String> {
        let (title, svg) = (escaped(chart.title()), chart.to_svg()?);
        Ok(format!(
            "<figure role=\"img\" aria-label=\"{title}\">\n{svg}</figure>\n"
        ))
    };
    let figures: Result<String> = report.charts.iter().map(figure).collect();
    let figures = figures?;
    let note = |note: &String| format!("<p class=\"note\">{}</p>\n", escaped(note));
    let verdicts = match report.verdicts.is_empty() {
        true => String::new(),
        false => format!(
            "<ul class=\"verdicts\">\n{}</ul>\n",
            all(&report.verdicts, line)
        ),
    };
    Ok(format!(
        "<section id=\"experiment-{number}\">\n{}<p><code>baton-bench {}</code></p>
{verdicts}{figures}{}{}{}</section>\n",
        element("h2", &document.experiment),
        escaped(&document.arguments.join(" ")),
        all(&report.notes, note),
        all(&report.tables, table),
        origin(document)
    ))
}

fn table(table: &Table) -> String {
    let row = |(index, row): (usize, &Vec<String>)| {
        let tag = if index == 0 { "th" } else { "td" };
        format!("<tr>{}</tr>\n", all(row, |cell| element(tag, cell)))
    };
    let caption = element("caption", table.caption());
    let rows = all(table.rows().iter().enumerate(), row);
    format!("<div class=\"wide\"><table>\n{caption}\n{rows}</table></div>\n")
}

/// A section, closed at first, about the machine and the programs that were measured.
fn origin(document: &Document) -> String {
    let row = |name: &str, value: String| format!("<tr><td>{name}</td><td>{value}</td></tr>\n");
    let fact = |&(key, name): &(&str, &str)| match document.machine.get(key) {
        Some(Value::String(text)) => row(name, escaped(text)),
        Some(Value::Null) | None => String::new(),
        Some(other) => row(name, escaped(&other.to_string())),
    };
    let arms = all(&document.report.arms, |found| {
        let version = escaped(&found.version);
        let path = element("code", &found.path);
        row(&escaped(&found.name), format!("{version}<br>{path}"))
    });
    let flags = row("stock's flags", element("code", &document.stock_flags));
    let facts = all(&FACTS, fact);
    format!(
        "<details><summary>machine and programs</summary><table>\n{facts}{arms}{flags}</table>\
         </details>\n"
    )
}

fn class_of(verdict: &Verdict) -> &'static str {
    match verdict.outcome() {
        Outcome::Met => "met",
        Outcome::Missed => "missed",
        Outcome::Unmet(_) => "unmet",
    }
}

/// Text with the characters escaped that have a meaning in HTML elements and quoted attributes.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample_document;

    #[test]
    fn the_page_has_every_verdict_table_and_chart_of_every_document() {
        let page = page(&[sample_document(), sample_document()]).unwrap();
        assert_eq!(page.matches("<section").count(), 2);
        assert_eq!(page.matches("<svg").count(), 2);
        assert_eq!(page.matches("<span class=\"unmet\">").count(), 2);
        assert!(page.contains("missing: run cargo xtask peers"), "{page}");
        assert!(
            page.contains("<td>12.5</td>") && page.contains("a CPU"),
            "{page}"
        );
    }

    #[test]
    fn text_cannot_break_out_of_its_element() {
        let mut document = sample_document();
        document.experiment = "<script>\"&".to_string();
        let page = page(&[document]).unwrap();
        assert!(
            page.contains("&lt;script&gt;&quot;&amp;") && page.contains("ns per &lt;operation&gt;")
        );
        assert!(!page.contains("<script"), "{page}");
    }

    #[test]
    fn the_page_needs_no_network() {
        let page = page(&[sample_document()]).unwrap();
        let links: Vec<&str> = page
            .match_indices("http")
            .map(|(at, _)| &page[at..at + 30])
            .collect();
        assert!(
            links
                .iter()
                .all(|link| link.starts_with("http://www.w3.org/2000/svg")),
            "{links:?}"
        );
        assert!(!page.contains("src=") && !page.contains("@import") && !page.contains("<link"));
    }
}
