//! What a rule finds.

use std::fmt;

/// Whether a finding fails the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// Worth a look; does not fail the check.
    Warning,
    /// Fails the check.
    Error,
}

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// The file's name within the workspace.
    file: String,
    /// The line, counted from 1; 0 where the finding is about the file as a whole.
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

    /// The line of the finding, for the rules' own tests.
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
