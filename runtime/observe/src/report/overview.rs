//! What the processes of a program wait for, by object, at the instant of a look.

use serde::{Deserialize, Serialize};
use std::fmt;

/// All that is waited for at an instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    /// The objects: first those of the class `object`, the one that most wait for first.
    #[serde(default)]
    pub objects: Vec<ObjectWaits>,
    /// Processes that wait for each other.
    #[serde(default)]
    pub rings: Vec<WaitRing>,
    /// How many processes have run since the instant, before their stacks were read.
    #[serde(default)]
    pub moved_on: usize,
    /// In how many steps the waits were read. With 1, they are of one instant.
    #[serde(default)]
    pub steps: u32,
    /// How long these steps took, in seconds.
    #[serde(default)]
    pub span: f64,
}

/// What one object is waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectWaits {
    /// The object, such as `the mutex 'accounts'`.
    pub object: String,
    /// `object`: others keep the processes waiting. `idle`: they wait for work, or for a time.
    /// `turn`: they could run.
    pub class: String,
    /// How many processes wait for it.
    pub waiting: usize,
    /// The longest wait so far, in seconds, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<f64>,
    /// Those that may end the waits, as far as that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partners: Vec<PartnerOfWait>,
    /// What else is known, such as a signal that woke nobody; empty if there is nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// A process that may end waits for an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartnerOfWait {
    /// Its number; 0 if it has ended.
    pub id: u64,
    /// How messages name it.
    pub title: String,
    /// Why it may end them, such as `held by`.
    pub role: String,
}

/// Processes of which each waits for the next one, and the last one for the first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitRing {
    /// Each has what the one before it waits for. Otherwise it is a guess, by who used the channels
    /// and conditions last.
    pub is_certain: bool,
    /// The numbers of the processes.
    pub ids: Vec<u64>,
    /// A sentence for each.
    pub lines: Vec<String>,
}

impl fmt::Display for ObjectWaits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.waiting == 1 {
            "process waits"
        } else {
            "processes wait"
        };
        write!(f, "{}: {} {verb}", self.object, self.waiting)?;
        match self.longest {
            Some(longest) if self.waiting == 1 => write!(f, ", for {longest:.3} s")?,
            Some(longest) => write!(f, ", the longest for {longest:.3} s")?,
            None => {}
        }
        match self.note.as_str() {
            "" => Ok(()),
            note => write!(f, "; {note}"),
        }
    }
}

impl fmt::Display for WaitRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.is_certain {
            true => "these wait for each other, for ever:\n",
            false => {
                "these may wait for each other, for ever (by who used the channels and conditions \
                 last):\n"
            }
        })?;
        self.lines
            .iter()
            .try_for_each(|line| writeln!(f, "\t{line}"))
    }
}

/// The rings, and what is not of one instant.
impl fmt::Display for Overview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ring in &self.rings {
            write!(f, "\n{ring}")?;
        }
        if self.steps > 1 {
            let span = self.span * 1e3;
            let steps = self.steps;
            writeln!(
                f,
                "\nwhat processes wait for was read in {steps} steps, within {span:.1} ms"
            )?;
        }
        match self.moved_on {
            0 => Ok(()),
            1 => writeln!(f, "\n1 process has run since the look: its stack is later"),
            count => writeln!(
                f,
                "\n{count} processes have run since the look: their stacks are later"
            ),
        }
    }
}
