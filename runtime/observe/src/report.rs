//! Processes and their stacks, as data and as text.

mod groups;
mod overview;

pub use groups::{Group, Groups, group};
pub use overview::{ObjectWaits, Overview, PartnerOfWait, WaitRing};

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// The maximal number of frames of one stack that texts show.
const MOST_LEVELS: usize = 22;

/// The name of the program's first VM.
pub const FIRST_VM: &str = "main";

/// Whether this is the name of another VM than the program's first one. Empty: it is not known.
fn is_beside(vm: &str) -> bool {
    !matches!(vm, "" | FIRST_VM)
}

/// An object that is waited for, with its VM if that is not the first one: two VMs may have objects
/// of one name.
#[must_use]
pub fn object_in_vm(object: &str, vm: &str) -> String {
    in_vm("in", object, vm)
}

/// What is in a VM: with `word`, such as "in", and the VM, if that is not the first one.
fn in_vm(word: &str, what: &str, vm: &str) -> String {
    match is_beside(vm) {
        true => format!("{what} {word} VM '{vm}'"),
        false => what.to_owned(),
    }
}

/// What kind of function a frame is of.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The outermost code of a file or chunk.
    Main,
    /// A function of the guest's language.
    Guest,
    /// A function in C.
    #[default]
    C,
}

/// A frame of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    /// The file or chunk, as messages give it, such as `server.lua`; `[C]` for C.
    pub source: String,
    /// The present line; 0: not known.
    pub line: u32,
    /// The line where the function begins; 0: not known.
    pub defined: u32,
    /// What kind of function it is.
    pub kind: Kind,
    /// What the caller calls it by, such as `method`; empty if that is not known.
    pub called_as: String,
    /// The name that the caller uses; empty if that is not known.
    pub name: String,
    /// For C: the symbol that its library exports at the function's address; empty if there is
    /// none, or it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub symbol: String,
    /// For C: the file name of the library; empty for the executable, and if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub library: String,
    /// For C, in the program itself: the address of the function, until its symbol was looked up.
    #[serde(skip)]
    pub address: usize,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: in ", self.source)?,
            line => write!(f, "{}:{line}: in ", self.source)?,
        }
        match (self.name.is_empty(), self.kind) {
            (false, _) if self.called_as.is_empty() => write!(f, "function '{}'", self.name),
            (false, _) => write!(f, "{} '{}'", self.called_as, self.name),
            (true, Kind::Main) => f.write_str("main chunk"),
            (true, Kind::Guest) => write!(f, "function <{}:{}>", self.source, self.defined),
            (true, Kind::C) => f.write_str("?"),
        }?;
        // What the caller does not say.
        let symbol = if self.symbol == self.name {
            ""
        } else {
            self.symbol.as_str()
        };
        match (symbol, self.library.as_str()) {
            ("", "") => Ok(()),
            ("", library) => write!(f, " ({library})"),
            (symbol, "") => write!(f, " ({symbol})"),
            (symbol, library) => write!(f, " ({symbol} in {library})"),
        }
    }
}

/// The frames of one stack, the innermost first. A process has one for each coroutine that it is
/// in, the innermost first, and then its own.
pub type Stack = Vec<Frame>;

/// A process, and what it does at the moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// The name of its VM. `main` is the program's first one; empty if that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vm: String,
    /// Its number, unique in its VM.
    pub id: u64,
    /// How messages name it, such as `process 7 'clerk'`.
    pub title: String,
    /// `running`, `runnable`, `waiting`, `sleeping`, `suspended` or `foreign`.
    pub state: String,
    /// What it waits for, and who holds that; empty if it does not wait.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waits: String,
    /// The object of that wait, without its holder; empty if it does not wait.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// It has run since the instant of the look: what it waits for is of that instant, and its
    /// stacks are later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_moved_on: bool,
    /// It has used up a whole slice and runs a level below its own, as its option `decay` says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_sunk: bool,
    /// Seconds since it last ran, if it does not run and that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<f64>,
    /// Where it was spawned, such as `server.lua:12`; empty if that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spawned_at: String,
    /// The fields of its context, with their values as texts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, String>,
    /// Its running time so far, in seconds.
    pub running: f64,
    /// Its processor time so far, in seconds.
    pub cpu: f64,
    /// Its stacks, the innermost first; none after its end.
    pub stacks: Vec<Stack>,
}

impl Process {
    /// The name that the program gave it, or else where it was spawned, or else its title.
    #[must_use]
    pub fn name(&self) -> &str {
        let named = self.title.split_once('\'').map(|(_, rest)| rest);
        match named.and_then(|rest| rest.strip_suffix('\'')) {
            Some(name) => name,
            None if self.spawned_at.is_empty() => &self.title,
            None => &self.spawned_at,
        }
    }

    /// Its name, after its VM if that is not the first one: `worker: clerk`.
    #[must_use]
    pub fn name_with_vm(&self) -> Cow<'_, str> {
        match self.is_beside() {
            true => Cow::Owned(format!("{}: {}", self.vm, self.name())),
            false => Cow::Borrowed(self.name()),
        }
    }

    /// Whether it is in another VM than the program's first one.
    #[must_use]
    pub fn is_beside(&self) -> bool {
        is_beside(&self.vm)
    }

    /// Its title, with its VM if that is not the first one.
    #[must_use]
    pub fn full_title(&self) -> String {
        in_vm("of", &self.title, &self.vm)
    }

    /// Whether a text says since when it is in this state.
    fn is_still(&self) -> bool {
        matches!(
            self.state.as_str(),
            "waiting" | "sleeping" | "suspended" | "foreign"
        )
    }

    /// The fields of its context, if it has any.
    fn write_context(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, value)) in self.context.iter().enumerate() {
            f.write_str(if place == 0 { ", with " } else { " " })?;
            let is_plain = |c: char| c.is_alphanumeric() || "-_.:/@+".contains(c);
            match !value.is_empty() && value.chars().all(is_plain) {
                true => write!(f, "{name}={value}")?,
                false => write!(f, "{name}={value:?}")?,
            }
        }
        Ok(())
    }

    /// Its state, what it waits for, and since when.
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.state)?;
        if self.has_sunk {
            f.write_str(", a level below its own")?;
        }
        if !self.waits.is_empty() {
            write!(f, ", {}", self.waits)?;
        }
        if let Some(since) = self.since.filter(|_| self.is_still()) {
            write!(f, ", since {since:.3} s")?;
        }
        match self.has_moved_on {
            true => f.write_str(", and has moved on since the look"),
            false => Ok(()),
        }
    }
}

/// Its state on one line, and its stacks below.
impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.full_title())?;
        self.describe(f)?;
        if !self.spawned_at.is_empty() {
            write!(f, " (spawned at {})", self.spawned_at)?;
        }
        self.write_context(f)?;
        writeln!(f)?;
        if self.stacks.is_empty() {
            return Ok(());
        }
        write_stacks(f, &self.stacks)
    }
}

fn write_stacks(f: &mut fmt::Formatter<'_>, stacks: &[Stack]) -> fmt::Result {
    writeln!(f, "stack traceback:")?;
    for stack in stacks {
        for frame in stack.iter().take(MOST_LEVELS) {
            writeln!(f, "\t{frame}")?;
        }
        if stack.len() > MOST_LEVELS {
            writeln!(f, "\t...")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_comes_behind_the_place_of_the_spawn() {
        let fields = [("user", "ann"), ("note", "two words"), ("empty", "")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let process = Process {
            vm: String::new(),
            id: 7,
            title: "process 7".to_owned(),
            state: "runnable".to_owned(),
            waits: String::new(),
            object: String::new(),
            has_moved_on: false,
            has_sunk: false,
            since: None,
            spawned_at: "a.lua:3".to_owned(),
            context: fields.into_iter().collect(),
            running: 0.0,
            cpu: 0.0,
            stacks: Vec::new(),
        };
        let fields = "with empty=\"\" note=\"two words\" user=ann";
        let expected = format!("process 7: runnable (spawned at a.lua:3), {fields}\n");
        assert_eq!(process.to_string(), expected);
    }
}
