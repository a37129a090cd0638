//! The findings of the rules.

use std::fmt;

/// Whether a finding fails the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// Does not fail the check, but deserves attention.
    Warning,
    /// Fails the check.
    Error,
}

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// The path of the file in the workspace.
    file: String,
    /// The line, counted from 1; 0 if the finding is about the whole file.
    line: usize,
    /// What was expected, what was found, and what to do.
    message: String,
}

impl Finding {
    /// A finding that fails the check.
    pub(super) fn error(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            file: file.to_owned(),
            line,
            message: message.into(),
        }
    }

    /// A finding that does not fail the check.
    pub(super) fn warning(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(file, line, message)
        }
    }

    /// The line of the finding. The tests of the rules use it.
    #[cfg(test)]
    pub(super) fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        match self.line {
            0 => write!(out, "{}: {severity}: {}", self.file, self.message),
            line => write!(out, "{}:{line}: {severity}: {}", self.file, self.message),
        }
    }
}
