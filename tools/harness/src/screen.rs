//! An X server without a visible screen.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::skip;

/// An X server without a visible screen. It ends with this value.
#[derive(Debug)]
pub struct Screen {
    server: Child,
    display: String,
}

impl Screen {
    /// Starts one on a free display. If there is no X server, returns none, and reports that `what`
    /// was not tested.
    pub fn start(what: &str) -> Option<Screen> {
        if skip::is_missing(&["Xvfb", "-help"], "xvfb", what) {
            return None;
        }
        let mut server = Command::new("Xvfb")
            .args(["-screen", "0", "800x600x24", "-nolisten", "tcp"])
            .args(["-noreset", "-displayfd", "1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the X server can be started");
        let mut number = String::new();
        let written = server.stdout.take().map(BufReader::new);
        let read = written.and_then(|mut written| written.read_line(&mut number).ok());
        assert!(read > Some(0), "the X server ends: {:?}", server.wait());
        let display = format!(":{}", number.trim());
        Some(Screen { server, display })
    }

    /// Its name, for the variable `DISPLAY`.
    pub fn display(&self) -> &str {
        &self.display
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // SIGTERM makes it remove its lock file. If it has ended already, there is nothing to do.
        if matches!(self.server.try_wait(), Ok(None)) {
            let number = self.server.id().to_string();
            let _ = Command::new("kill").args(["-TERM", &number]).status();
        }
        let _ = self.server.wait();
    }
}
