//! Profiles, put together from samples.

use baton_formats::profile::{Format, Frame, Labels, Measure, Profile};
use baton_observe::report::{self, Kind};
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::SystemTime;

/// The mean distance of two samples of allocations, in bytes.
const ALLOCATION_PERIOD: u64 = 512 << 10;

/// A profile without samples that begins now, of a program with this name. `rate` is the number of
/// samples for each second. It does not matter for allocations.
#[must_use]
pub fn begin(measure: Measure, program: &str, rate: u32) -> Profile {
    let mut profile = Profile::new(measure, program);
    profile.started = Some(SystemTime::now());
    profile.period = match measure {
        Measure::Allocation => ALLOCATION_PERIOD,
        Measure::CpuTime | Measure::WallTime | Measure::Waits => {
            1_000_000_000 / u64::from(rate.max(1))
        }
    };
    profile
}

/// Adds a part of an answer.
///
/// # Errors
/// It is not one.
pub fn add_part(profile: &mut Profile, part: Value) -> Result<(), String> {
    let samples: Vec<SentSample> =
        serde_json::from_value(part).map_err(|error| format!("a wrong answer: {error}"))?;
    for sample in samples {
        add(profile, sample);
    }
    Ok(())
}

/// Writes the profile to a file.
///
/// # Errors
/// What the system says, with the path.
pub fn write(profile: &Profile, format: Format, path: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    profile.write(format, &mut file).map_err(failed)?;
    file.flush().map_err(failed)
}

/// A sample, as the program sends it.
#[derive(Deserialize)]
struct SentSample {
    #[serde(default)]
    vm: String,
    id: u64,
    process: String,
    #[serde(default)]
    context: Vec<(String, String)>,
    frames: Vec<report::Frame>,
    #[serde(default)]
    object: String,
    #[serde(default)]
    holder: String,
    #[serde(default)]
    class: String,
    #[serde(default)]
    role: String,
    #[serde(default)]
    kind: SentKind,
    value: u64,
    count: u64,
}

/// What a sample says.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SentKind {
    #[default]
    Cost,
    Holder,
    Longest,
}

fn add(profile: &mut Profile, sample: SentSample) {
    // Two VMs may have objects of one name.
    let object = match sample.object.as_str() {
        "" => String::new(),
        object => report::object_in_vm(object, &sample.vm),
    };
    if matches!(sample.kind, SentKind::Longest) {
        profile.extend_longest_wait(&object, sample.value);
        return;
    }
    let mut frames = sample.frames;
    // What has called the outermost function of the program is no part of it.
    let has_more = frames.len() > 1;
    if has_more
        && frames
            .last()
            .is_some_and(|outermost| outermost.kind == Kind::C && outermost.name.is_empty())
    {
        frames.pop();
    }
    let stack = profile.stack(frames.into_iter().map(frame));
    if matches!(sample.kind, SentKind::Holder) {
        profile.add_holder(&object, &sample.role, stack, sample.value);
        return;
    }
    if !sample.class.is_empty() {
        profile.set_class(&object, &sample.class);
    }
    let labels = Labels::of_process(&sample.process, sample.id)
        .waiting_for(&object, &sample.holder)
        .in_vm(&sample.vm)
        .with_context(sample.context);
    profile.add(stack, sample.value, sample.count, labels);
}

/// A function in C by the name that its caller uses, and its symbol if that is another one.
fn name_in_c(frame: &report::Frame) -> String {
    match (frame.name.as_str(), frame.symbol.as_str()) {
        (name, "") => name.to_owned(),
        ("", symbol) => symbol.to_owned(),
        (name, symbol) if name == symbol => name.to_owned(),
        (name, symbol) => format!("{name} ({symbol})"),
    }
}

fn frame(frame: report::Frame) -> Frame {
    match frame.kind {
        Kind::C => Frame::c(name_in_c(&frame), &frame.library),
        Kind::Main => Frame::lua("main chunk", &frame.source, frame.line),
        Kind::Guest => {
            Frame::lua(&frame.name, &frame.source, frame.line).beginning_at(frame.defined)
        }
    }
}
