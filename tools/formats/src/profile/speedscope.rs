//! The JSON of speedscope, after its published schema
//! (<https://www.speedscope.app/file-format-schema.json>).

use std::io::{self, Write};

use serde::Serialize;

use super::Profile;
use super::merged::{Merged, Place};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
struct SpeedscopeFile<'a> {
    #[serde(rename = "$schema")]
    schema: &'a str,
    exporter: &'a str,
    name: &'a str,
    #[serde(rename = "activeProfileIndex")]
    active_profile_index: u32,
    shared: Shared,
    profiles: [Sampled<'a>; 1],
}

#[derive(Serialize)]
struct Shared {
    frames: Vec<SharedFrame>,
}

#[derive(Serialize)]
struct SharedFrame {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    file: String,
    #[serde(skip_serializing_if = "is_unknown")]
    line: u32,
}

#[derive(Serialize)]
struct Sampled<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    name: &'a str,
    unit: &'a str,
    #[serde(rename = "startValue")]
    start_value: u64,
    #[serde(rename = "endValue")]
    end_value: u64,
    /// Numbers of frames, the outermost first.
    samples: Vec<&'a [u32]>,
    weights: Vec<u64>,
}

fn is_unknown(line: &u32) -> bool {
    *line == 0
}

/// Writes one profile of all processes. A weight is the value of a stack.
pub(super) fn write(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let merged = Merged::of(profile);
    let weights: Vec<u64> = merged.paths.iter().map(|path| path.value).collect();
    let heading = profile.heading();
    let file = SpeedscopeFile {
        schema: SCHEMA,
        exporter: concat!("baton ", env!("CARGO_PKG_VERSION")),
        name: &heading,
        active_profile_index: 0,
        shared: Shared {
            frames: merged.places.iter().map(shared_frame).collect(),
        },
        profiles: [Sampled {
            kind: "sampled",
            name: &heading,
            unit: profile.measure.unit().name(),
            start_value: 0,
            end_value: weights.iter().copied().fold(0, u64::saturating_add),
            samples: merged.paths.iter().map(|path| &path.places[..]).collect(),
            weights,
        }],
    };
    serde_json::to_writer(&mut *out, &file)?;
    out.write_all(b"\n")
}

fn shared_frame(place: &Place) -> SharedFrame {
    let (file, line) = match place {
        Place::Function {
            file, first_line, ..
        } => (file.clone(), *first_line),
        Place::Vm(_) | Place::Wait { .. } | Place::Idle | Place::Unknown => (String::new(), 0),
    };
    SharedFrame {
        name: place.unique_name(),
        file,
        line,
    }
}

#[cfg(test)]
mod checks {
    use super::*;
    use crate::profile::{Frame, Labels, Measure};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::Value;

    fn written(profile: &Profile) -> Value {
        let mut out = Vec::new();
        write(profile, &mut out).expect("a vector takes everything");
        serde_json::from_slice(&out).expect("it is JSON")
    }

    proptest! {
        #[test]
        fn names_and_weights_can_be_read_back(
            stacks in vec((vec(any::<String>(), 1..5), any::<u32>()), 1..8),
        ) {
            let mut profile = Profile::new(Measure::WallTime, "</script>\"\n");
            for (names, value) in &stacks {
                let stack = profile.stack(names.iter().map(|name| Frame::lua(name, name, 1)));
                profile.add(stack, u64::from(*value), 1, Labels::default());
            }
            let file = written(&profile);
            prop_assert_eq!(&file["name"], "Wall time of </script>\"\n");
            let sampled = &file["profiles"][0];
            let numbers = |value: &Value| -> Vec<u64> {
                let items = value.as_array().expect("an array").iter();
                items.map(|item| item.as_u64().expect("a number")).collect()
            };
            let weights = numbers(&sampled["weights"]);
            prop_assert_eq!(weights.iter().sum::<u64>(), profile.total());
            prop_assert_eq!(sampled["endValue"].as_u64(), Some(profile.total()));
            let samples = sampled["samples"].as_array().expect("an array");
            prop_assert_eq!(samples.len(), weights.len());
            let first: Vec<String> = numbers(&samples[0])
                .iter()
                .map(|&at| {
                    let frame = &file["shared"]["frames"][usize::try_from(at).expect("small")];
                    frame["name"].as_str().expect("a name").to_owned()
                })
                .collect();
            let expected: Vec<String> = stacks[0]
                .0
                .iter()
                .rev()
                .map(|name| match name.as_str() {
                    "" => "(anonymous)".to_owned(),
                    name => format!("{name} {name}"),
                })
                .collect();
            prop_assert_eq!(first, expected);
        }
    }

    #[test]
    fn what_is_not_known_of_a_frame_is_left_out() {
        let mut profile = Profile::new(Measure::CpuTime, "a.lua");
        let frame = Frame::lua("f", "a.lua", 3).beginning_at(2);
        let stack = profile.stack([Frame::c("read", ""), frame]);
        profile.add(stack, 1, 1, Labels::default());
        let frames = &written(&profile)["shared"]["frames"];
        let expected = serde_json::json!([
            {"name": "f a.lua:2", "file": "a.lua", "line": 2},
            {"name": "read"},
        ]);
        assert_eq!(*frames, expected);
    }
}
