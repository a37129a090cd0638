//! Stacks of functions, without the lines at which they were, and without processes. The formats
//! that show functions begin here.

use std::collections::{BTreeMap, HashMap};

use super::{Frame, FrameKind, Measure, Profile, Sample};
use crate::interned::Interned;
use crate::text;

/// What one box of a flame graph stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// A function: its name, file, first line and kind.
    Function {
        name: String,
        file: String,
        first_line: u32,
        kind: FrameKind,
    },
    /// A VM, beneath all that it runs.
    Vm(String),
    /// An object that processes waited for, whoever had it.
    Wait { object: String },
    /// All waits for work or for a time.
    Idle,
    /// A stack without frames.
    Unknown,
}

impl Place {
    /// The function of a frame.
    pub(super) fn of_frame(frame: &Frame) -> Self {
        Self::Function {
            name: frame.function.clone(),
            file: frame.file.clone(),
            first_line: frame.first_line,
            kind: frame.kind,
        }
    }

    /// What a sample waited for, if that is known.
    pub(super) fn of_wait(sample: &Sample) -> Option<Self> {
        let object = &sample.labels.object;
        (!object.is_empty()).then(|| Self::Wait {
            object: object.clone(),
        })
    }

    /// The name with its place in the sources, as one visible line: `accept (server.lua:12)`.
    pub(super) fn label(&self) -> String {
        let label = match self {
            Self::Function {
                file,
                first_line,
                kind,
                ..
            } => {
                let name = self.name();
                match (file.as_str(), *first_line) {
                    _ if self.is_named_by_place() => name,
                    ("", _) if *kind == FrameKind::C => format!("{name} [C]"),
                    ("", 0) => name,
                    ("", line) => format!("{name} (line {line})"),
                    (file, 0) => format!("{name} ({file})"),
                    (file, line) => format!("{name} ({file}:{line})"),
                }
            }
            Self::Vm(_) | Self::Wait { .. } | Self::Idle | Self::Unknown => self.name(),
        };
        text::visible(&label)
    }

    /// A function without a name whose place is known.
    fn is_named_by_place(&self) -> bool {
        match self {
            Self::Function {
                name, file, kind, ..
            } => name.is_empty() && !file.is_empty() && *kind == FrameKind::Lua,
            Self::Vm(_) | Self::Wait { .. } | Self::Idle | Self::Unknown => false,
        }
    }

    /// A name that no other function has, for readers that merge those of one name: `f a.lua:12`,
    /// `a.lua:31`, `main chunk a.lua`, `execute sqlite3.so`. With the bytes that it has.
    pub(super) fn unique_name(&self) -> String {
        let name = self.name();
        match self {
            Self::Function { file, .. } if file.is_empty() || self.is_named_by_place() => name,
            Self::Function {
                file,
                first_line: 0,
                ..
            } => format!("{name} {file}"),
            Self::Function {
                file, first_line, ..
            } => format!("{name} {file}:{first_line}"),
            Self::Vm(_) | Self::Wait { .. } | Self::Idle | Self::Unknown => name,
        }
    }

    /// The name alone, with the bytes that it has. A function without a name has its place as one.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Function {
                file, first_line, ..
            } if self.is_named_by_place() => match first_line {
                0 => file.clone(),
                line => format!("{file}:{line}"),
            },
            Self::Vm(name) => format!("VM '{name}'"),
            Self::Function { name, .. } if name.is_empty() => "(anonymous)".to_owned(),
            Self::Function { name, .. } => name.clone(),
            Self::Wait { object } => format!("waits for {object}"),
            Self::Idle => "waits for work or for a time".to_owned(),
            Self::Unknown => "(unknown)".to_owned(),
        }
    }
}

/// What was measured by line.
pub(super) type Lines = BTreeMap<u32, u64>;

/// What was measured at one stack of places.
#[derive(Debug, Clone)]
pub(super) struct Path {
    /// Numbers of places, the outermost first. Never empty.
    pub(super) places: Vec<u32>,
    /// For each place, what was measured at which of its lines.
    pub(super) lines: Vec<Lines>,
    pub(super) value: u64,
    pub(super) count: u64,
}

/// All stacks of a profile by places.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) places: Interned<Place>,
    /// In the order in which they came; no two have the same places.
    pub(super) paths: Vec<Path>,
}

impl Merged {
    /// Merges the stacks of a profile. If it is of several VMs, each is the outermost place of its
    /// stacks. In a profile of waits, what was waited for becomes the innermost place, and all that
    /// waited for work stands apart.
    pub(super) fn of(profile: &Profile) -> Self {
        let mut places = Interned::default();
        let mut paths: Vec<Path> = Vec::new();
        let mut known: HashMap<Vec<u32>, usize> = HashMap::new();
        let has_several_vms = profile.has_several_vms();
        for sample in profile.samples() {
            let vm = has_several_vms.then(|| Place::Vm(sample.labels.vm.clone()));
            let is_idle = profile.wait_details.is_idle(&sample.labels.object);
            let idle = is_idle.then_some(Place::Idle);
            let mut path: Vec<u32> = vm
                .into_iter()
                .chain(idle)
                .map(|place| places.add(place))
                .collect();
            let frames = profile.frames(sample.stack).rev();
            path.extend(frames.map(|frame| places.add(Place::of_frame(frame))));
            if profile.measure == Measure::Waits
                && let Some(wait) = Place::of_wait(sample)
            {
                path.push(places.add(wait));
            }
            if path.is_empty() {
                path.push(places.add(Place::Unknown));
            }
            let next = paths.len();
            let at = *known.entry(path.clone()).or_insert(next);
            if at == next {
                paths.push(Path {
                    lines: vec![Lines::new(); path.len()],
                    places: path,
                    value: 0,
                    count: 0,
                });
            }
            paths[at].value = paths[at].value.saturating_add(sample.value);
            paths[at].count = paths[at].count.saturating_add(sample.count);
            let frames = profile.frames(sample.stack).rev();
            for (lines, frame) in paths[at].lines.iter_mut().zip(frames) {
                if frame.line != 0 {
                    let value = lines.entry(frame.line).or_default();
                    *value = value.saturating_add(sample.value);
                }
            }
        }
        Self { places, paths }
    }
}

#[cfg(test)]
mod checks {
    use super::*;
    use crate::profile::Labels;

    #[test]
    fn stacks_that_differ_only_in_lines_and_processes_are_one() {
        let mut profile = Profile::new(Measure::CpuTime, "a.lua");
        for (line, process) in [(2, 1), (3, 1), (2, 2)] {
            let frame = Frame::lua("f", "a.lua", line).beginning_at(1);
            let stack = profile.stack([frame]);
            profile.add(stack, 10, 1, Labels::of_process("p", process));
        }
        let merged = Merged::of(&profile);
        assert_eq!(merged.paths.len(), 1);
        assert_eq!((merged.paths[0].value, merged.paths[0].count), (30, 3));
        assert_eq!(merged.paths[0].lines, [Lines::from([(2, 20), (3, 10)])]);
        assert_eq!(merged.places.get(0).label(), "f (a.lua:1)");
    }

    #[test]
    fn what_was_waited_for_is_the_innermost_place_of_a_profile_of_waits() {
        for (measure, depth) in [(Measure::Waits, 2), (Measure::CpuTime, 1)] {
            let mut profile = Profile::new(measure, "a.lua");
            let stack = profile.stack([Frame::lua("f", "a.lua", 2)]);
            let labels = Labels::default().waiting_for("mutex 'm'", "q");
            profile.add(stack, 10, 1, labels);
            let merged = Merged::of(&profile);
            assert_eq!(merged.paths[0].places.len(), depth);
            let last = *merged.paths[0].places.last().expect("a place");
            let is_wait = merged.places.get(last).label() == "waits for mutex 'm'";
            assert_eq!(is_wait, measure == Measure::Waits);
        }
    }

    #[test]
    fn names_tell_functions_apart() {
        let name = |frame: Frame| Place::of_frame(&frame).unique_name();
        let lua = |name, line| Frame::lua(name, "a.lua", line + 1).beginning_at(line);
        assert_eq!(name(lua("f", 49)), "f a.lua:49");
        assert_eq!(name(lua("f", 50)), "f a.lua:50");
        assert_eq!(name(lua("", 31)), "a.lua:31");
        assert_eq!(
            name(Frame::lua("main chunk", "a.lua", 7)),
            "main chunk a.lua"
        );
        assert_eq!(
            name(Frame::c("execute", "sqlite3.so")),
            "execute sqlite3.so"
        );
        assert_eq!(name(Frame::c("read", "")), "read");
        assert_eq!(name(Frame::c("", "")), "(anonymous)");
    }

    #[test]
    fn a_vm_is_the_outermost_place_if_there_are_several() {
        let mut profile = Profile::new(Measure::CpuTime, "a.lua");
        let stack = profile.stack([Frame::lua("f", "a.lua", 2)]);
        profile.add(stack, 10, 1, Labels::default().in_vm("main"));
        assert_eq!(Merged::of(&profile).paths[0].places.len(), 1);
        profile.add(stack, 5, 1, Labels::default().in_vm("worker"));
        let merged = Merged::of(&profile);
        let outermost = |path: &Path| merged.places.get(path.places[0]).label();
        let labels: Vec<String> = merged.paths.iter().map(outermost).collect();
        assert_eq!(labels, ["VM 'main'", "VM 'worker'"]);
    }

    #[test]
    fn each_kind_of_place_has_a_label() {
        let c = |name: &str, file: &str| Place::of_frame(&Frame::c(name, file)).label();
        assert_eq!(c("read", ""), "read [C]");
        assert_eq!(c("read", "libc.so.6"), "read (libc.so.6)");
        let lua = |frame: Frame| Place::of_frame(&frame).label();
        assert_eq!(lua(Frame::lua("", "", 3)), "(anonymous)");
        assert_eq!(
            lua(Frame::lua("", "a.lua", 33).beginning_at(31)),
            "a.lua:31"
        );
        let of_a_string = Frame::lua("f\n", "", 3).beginning_at(2);
        assert_eq!(lua(of_a_string), "f\u{240a} (line 2)");
        assert_eq!(Place::Unknown.label(), "(unknown)");
    }
}
