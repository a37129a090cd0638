//! Writes one page for several reports. The page contains its styles and drawings, so it needs no
//! network.

use std::fmt::Write;

use anyhow::Result;
use serde_json::Value;

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

/// The page for these documents.
pub(crate) fn page(documents: &[Document]) -> Result<String> {
    let mut page = String::new();
    writeln!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">"
    )?;
    writeln!(
        page,
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
    )?;
    writeln!(
        page,
        "<title>baton-bench</title>\n<style>\n{STYLE}</style>\n</head>\n<body>"
    )?;
    writeln!(page, "<h1>Baton beside its peers</h1>")?;
    writeln!(
        page,
        "<p class=\"lead\">Absolute times mean little on another machine; the ratios between arms \
         that ran interleaved are \
         the result.</p>"
    )?;
    write_summary(&mut page, documents)?;
    for (number, document) in documents.iter().enumerate() {
        write_document(&mut page, number, document)?;
    }
    writeln!(page, "</body>\n</html>")?;
    Ok(page)
}

/// Writes one line for each experiment: its name, and the number of goals by outcome.
fn write_summary(page: &mut String, documents: &[Document]) -> Result<()> {
    writeln!(
        page,
        "<nav><table><thead><tr><th>experiment</th>\
         <th>met</th><th>missed</th><th>unmet</th></tr></thead>"
    )?;
    writeln!(page, "<tbody>")?;
    for (number, document) in documents.iter().enumerate() {
        let verdicts = &document.report.verdicts;
        let count = |class: &str| {
            verdicts
                .iter()
                .filter(|verdict| class_of(verdict) == class)
                .count()
        };
        let name = escaped(&document.experiment);
        write!(
            page,
            "<tr><td><a href=\"#experiment-{number}\">{name}</a></td>"
        )?;
        for class in ["met", "missed", "unmet"] {
            let figure = count(class);
            let shade = if figure > 0 { class } else { "none" };
            write!(page, "<td class=\"{shade}\">{figure}</td>")?;
        }
        writeln!(page, "</tr>")?;
    }
    writeln!(page, "</tbody></table></nav>")?;
    Ok(())
}

fn write_document(page: &mut String, number: usize, document: &Document) -> Result<()> {
    let (name, report) = (escaped(&document.experiment), &document.report);
    writeln!(
        page,
        "<section id=\"experiment-{number}\">\n<h2>{name}</h2>"
    )?;
    let arguments = escaped(&document.arguments.join(" "));
    writeln!(page, "<p><code>baton-bench {arguments}</code></p>")?;
    if !report.verdicts.is_empty() {
        writeln!(page, "<ul class=\"verdicts\">")?;
        for verdict in &report.verdicts {
            let text = escaped(&verdict.sentence());
            writeln!(
                page,
                "<li><span class=\"{0}\">{0}</span>{text}</li>",
                class_of(verdict)
            )?;
        }
        writeln!(page, "</ul>")?;
    }
    for chart in &report.charts {
        writeln!(
            page,
            "<figure role=\"img\" aria-label=\"{}\">",
            escaped(chart.title())
        )?;
        writeln!(page, "{}</figure>", chart.to_svg()?)?;
    }
    for note in &report.notes {
        writeln!(page, "<p class=\"note\">{}</p>", escaped(note))?;
    }
    for table in &report.tables {
        write_table(page, table)?;
    }
    write_origin(page, document)?;
    writeln!(page, "</section>")?;
    Ok(())
}

fn write_table(page: &mut String, table: &Table) -> Result<()> {
    writeln!(
        page,
        "<div class=\"wide\"><table>\n<caption>{}</caption>",
        escaped(table.caption())
    )?;
    for (index, row) in table.rows().iter().enumerate() {
        let tag = if index == 0 { "th" } else { "td" };
        write!(page, "<tr>")?;
        for cell in row {
            write!(page, "<{tag}>{}</{tag}>", escaped(cell))?;
        }
        writeln!(page, "</tr>")?;
    }
    writeln!(page, "</table></div>")?;
    Ok(())
}

/// Writes a section, closed at first, about the machine and the programs that were measured.
fn write_origin(page: &mut String, document: &Document) -> Result<()> {
    writeln!(
        page,
        "<details><summary>machine and programs</summary><table>"
    )?;
    for (key, name) in FACTS {
        let value = match document.machine.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => continue,
            Some(other) => other.to_string(),
        };
        writeln!(page, "<tr><td>{name}</td><td>{}</td></tr>", escaped(&value))?;
    }
    for found in &document.report.arms {
        let (name, version, path) = (
            escaped(&found.name),
            escaped(&found.version),
            escaped(&found.path),
        );
        writeln!(
            page,
            "<tr><td>{name}</td><td>{version}<br><code>{path}</code></td></tr>"
        )?;
    }
    let flags = escaped(&document.stock_flags);
    writeln!(
        page,
        "<tr><td>stock's flags</td><td><code>{flags}</code></td></tr>"
    )?;
    writeln!(page, "</table></details>")?;
    Ok(())
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
