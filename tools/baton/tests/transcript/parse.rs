//! The format of the cases. A line is one of
//!
//! ```text
//! # what the file is about
//! ## a section
//! == the name of a case
//! $ a line of its shell script
//! < a line of its standard input
//! <. the last one, without a line end
//! ~ the name of a difference between the two programs
//! ```

use std::mem;

/// One script to run with both programs.
#[derive(Default)]
pub(crate) struct Case {
    pub(crate) section: String,
    pub(crate) name: String,
    pub(crate) script: String,
    pub(crate) input: String,
    /// Names of the differences that are right.
    pub(crate) differences: Vec<String>,
}

/// Reads a file of cases.
///
/// # Errors
/// Which line is wrong, and how.
pub(crate) fn parse(text: &str) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    let mut section = String::new();
    let mut case = Case::default();
    for (index, line) in text.lines().enumerate() {
        let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
        match mark {
            "" | "#" => {}
            "##" | "==" => {
                finish(&mut cases, mem::take(&mut case))?;
                if mark == "##" {
                    section = rest.to_owned();
                } else {
                    case.name = rest.to_owned();
                    case.section.clone_from(&section);
                }
            }
            "$" => add_line(&mut case.script, rest),
            "<" => add_line(&mut case.input, rest),
            "<." => case.input.push_str(rest),
            "~" => case.differences.push(rest.to_owned()),
            _ => return Err(format!("line {}: '{mark}' begins no line", index + 1)),
        }
    }
    finish(&mut cases, case)?;
    Ok(cases)
}

fn add_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Adds a complete case. A case that was not begun is ignored.
fn finish(cases: &mut Vec<Case>, case: Case) -> Result<(), String> {
    if case.script.contains("lua") && !case.name.is_empty() {
        cases.push(case);
    } else if !(case.script.is_empty() && case.name.is_empty()) {
        return Err(format!(
            "the case '{}' has no name, or does not run lua",
            case.name
        ));
    }
    Ok(())
}
