//! Writes to standard output, which a reader such as `head` may close early.

use std::io::{self, ErrorKind, Write};

use anyhow::{Error, Result};

/// Writes to standard output and flushes it.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Whether an error only means that the reader of standard output has closed it.
pub(crate) fn reader_is_gone(error: &Error) -> bool {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_broken_pipe_is_told_apart_from_other_failures_under_any_context() {
        let broken: Result<()> =
            Err(io::Error::from(ErrorKind::BrokenPipe)).context("while printing");
        assert!(reader_is_gone(&broken.unwrap_err()));
        assert!(!reader_is_gone(&Error::from(io::Error::from(
            ErrorKind::NotFound
        ))));
        assert!(!reader_is_gone(&anyhow::anyhow!("a broken pipe")));
    }
}
