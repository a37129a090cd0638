//! Plain tables for a terminal. The first column is aligned to the left, and the others to the
//! right.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Rows of text below a header and a caption. Each column is as wide as its widest cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    caption: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with this caption and header.
    pub(crate) fn new(
        caption: impl Into<String>,
        header: impl IntoIterator<Item: ToString>,
    ) -> Self {
        Self {
            caption: caption.into(),
            rows: vec![header.into_iter().map(|cell| cell.to_string()).collect()],
        }
    }

    /// Adds a row. If it is shorter than the header, its last columns are empty.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a row that begins with a name.
    pub(crate) fn named(&mut self, name: impl ToString, cells: impl IntoIterator<Item = String>) {
        self.row([name.to_string()].into_iter().chain(cells));
    }

    /// The caption, which says what the figures are.
    pub(crate) fn caption(&self) -> &str {
        &self.caption
    }

    /// The cells of all rows, beginning with the header.
    pub(crate) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
        };
        (0..columns)
            .map(|column| width(column).unwrap_or(0))
            .collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        if !self.caption.is_empty() {
            writeln!(f, "{}", self.caption)?;
        }
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => line.push_str(&format!("{cell:<width$}")),
                    _ => line.push_str(&format!("  {cell:>width$}")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A figure with `digits` decimals; a dash if there is no figure.
pub(crate) fn figure(value: impl Into<Option<f64>>, digits: usize) -> String {
    figure_in(value, digits, "")
}

/// A figure with `digits` decimals and its unit; a dash if there is no figure.
pub(crate) fn figure_in(value: impl Into<Option<f64>>, digits: usize, unit: &str) -> String {
    match value.into() {
        Some(value) => format!("{value:.digits$}{unit}"),
        None => "-".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_do_not_end_in_blanks() {
        let mut table = Table::new("times", &["program", "ms", "note"]);
        table.row(["sort".to_string(), "3.5".to_string(), "ok".to_string()]);
        table.row(["a longer name".to_string(), "12345.6".to_string()]);
        assert_eq!(
            table.to_string(),
            "times\nprogram             ms  note\nsort               3.5    ok\na longer name  \
             12345.6\n"
        );
    }

    #[test]
    fn a_missing_figure_is_a_dash() {
        assert_eq!(figure(1.25, 1), "1.2");
        assert_eq!(figure_in(Some(1.25), 1, " ms"), "1.2 ms");
        assert_eq!(figure_in(None, 1, " ms"), "-");
    }
}
