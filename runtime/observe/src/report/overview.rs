//! What the processes of a program wait for, by object, at the instant of a look.

use super::object_in_vm;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
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
    /// In how many steps the waits were read, those of each VM by themselves. With 1, the waits of
    /// a VM are of one instant.
    #[serde(default)]
    pub steps: u32,
    /// How long these steps took, in seconds.
    #[serde(default)]
    pub span: f64,
}

/// What one object is waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectWaits {
    /// The VM that it is in, as of a process.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vm: String,
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
    /// The VM that they are in, as of a process.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vm: String,
    /// Each has what the one before it waits for. Otherwise it is a guess, by who used the channels
    /// and conditions last.
    pub is_certain: bool,
    /// The numbers of the processes.
    pub ids: Vec<u64>,
    /// A sentence for each.
    pub lines: Vec<String>,
}

impl Overview {
    /// Adds what is waited for in another VM.
    pub fn add(&mut self, other: Overview) {
        self.objects.extend(other.objects);
        self.rings.extend(other.rings);
        self.moved_on += other.moved_on;
        self.steps = self.steps.max(other.steps);
        self.span = self.span.max(other.span);
    }

    /// Sorts the objects: those first that keep processes waiting, and that most wait for.
    pub fn sort(&mut self) {
        let rank = |object: &ObjectWaits| match object.class.as_str() {
            "object" => 0,
            "turn" => 1,
            _ => 2,
        };
        self.objects.sort_by(|one, other| {
            let key = |object: &ObjectWaits| (rank(object), Reverse(object.waiting));
            key(one)
                .cmp(&key(other))
                .then_with(|| one.object.cmp(&other.object))
        });
    }
}

impl fmt::Display for ObjectWaits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.waiting == 1 {
            "process waits"
        } else {
            "processes wait"
        };
        let object = object_in_vm(&self.object, &self.vm);
        write!(f, "{object}: {} {verb}", self.waiting)?;
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
        let these = object_in_vm("these", &self.vm);
        match self.is_certain {
            true => writeln!(f, "{these} wait for each other, for ever:")?,
            false => writeln!(
                f,
                "{these} may wait for each other, for ever (by who used the channels and \
                 conditions last):"
            )?,
        }
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
