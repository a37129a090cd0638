//! Samples of what the program does, at random distances around a period.
//!
//! | what | samples of | file |
//! |---|---|---|
//! | `cpu` | the processor time of the running process | `cpu.rs` |
//! | `wall` | the time of all processes, running or not | `everyone.rs` |
//! | `waits` | the time of processes that wait, by what they wait for | `waits.rs` |
//! | `alloc` | the bytes that Lua allocates | `allocations.rs` |
//!
//! All VMs of the program are sampled, each by a sampler of its own (`sampled.rs`); allocations of
//! the first one only.
//!
//! The samples are sent again and again, so that a program that ends has sent almost all of its.
//! See [`sending_after`]. [`nearby`] tells from where samples are taken.

pub(super) mod allocations;
mod clocks;
mod cpu;
pub(super) mod ending;
mod everyone;
mod nearby;
mod packed;
mod random;
mod sampled;
mod waits;

use super::stop::Stop;
use super::{parent, symbols};
use allocations::AllocationProfile;
use baton_core::vm::{NoLook, Vm};
use baton_observe::observer::{Part, send_part};
use baton_observe::report::{FIRST_VM, Frame};
use cpu::CpuSampler;
use ending::Unfinished;
use everyone::EveryoneSampler;
use packed::PackedFrames;
use random::Random;
use sampled::{ProgramIs, SampledVms};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};
use waits::WaitSampler;

/// The longest time in which no sample can be taken.
const PATIENCE: Duration = Duration::from_secs(10);

/// The name of the frame for Lua's collector.
const COLLECTOR: &str = "(garbage collector)";

/// The maximal number of frames of a sample.
const MOST_FRAMES: c_int = 128;

/// The time between two sendings at first, and the longest one.
const SENDING: Duration = Duration::from_millis(200);
const LONGEST_SENDING: Duration = Duration::from_secs(1);

/// The time between two sendings, at some time after the beginning. To send takes as long as to
/// sample, so a long profile sends less often. A program that ends loses a twentieth at most, or
/// what it did in [`SENDING`].
fn sending_after(elapsed: Duration) -> Duration {
    (elapsed / 20).clamp(SENDING, LONGEST_SENDING)
}

/// The mean time between two samples, at some time after the beginning. A sample has the time since
/// the one before, so more of them at first make nothing wrong; and a program that lasts for some
/// milliseconds has more than one.
fn period_after(elapsed: Duration, period: Duration) -> Duration {
    const SHORTEST: Duration = Duration::from_millis(1);
    (elapsed / 8).max(SHORTEST).min(period)
}

/// The details of the question.
#[derive(Deserialize)]
struct ProfileWanted {
    what: What,
    /// For how long, in seconds.
    seconds: f64,
    /// Samples for each second.
    rate: u32,
}

/// What is sampled.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum What {
    Cpu,
    Wall,
    Waits,
    Alloc,
}

/// Where a process was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Place {
    /// Its number and how messages name it; 0 and empty if all processes count as one.
    id: u64,
    process: String,
    /// The fields of its context, by their names.
    context: Vec<(String, String)>,
    /// Its frames, the innermost first.
    frames: PackedFrames,
    /// Whether Lua's collector worked for it.
    collects: bool,
    /// What it waits for, and who holds that; empty if it does not wait.
    object: String,
    holder: String,
    /// For waits: the class of the object, and why the holder may end them.
    class: &'static str,
    role: &'static str,
    kind: SampleKind,
}

/// What a sample says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
enum SampleKind {
    /// The time, or bytes, of processes at a place.
    #[default]
    Cost,
    /// The time for which others waited for what the process at the place holds.
    Holder,
    /// By how much the longest wait for an object has grown.
    Longest,
}

impl SampleKind {
    fn is_cost(&self) -> bool {
        *self == SampleKind::Cost
    }
}

impl Place {
    /// Forgets what was seen, and has memory for another place.
    fn make_room(&mut self) {
        const MOST_OF_TITLE: usize = 64;
        self.process.clear();
        self.process.reserve(MOST_OF_TITLE);
        self.context.clear();
        self.frames.make_room();
        self.collects = false;
        self.object.clear();
        self.holder.clear();
    }
}

impl Place {
    /// Its frames, the innermost first.
    fn stack(&self) -> Vec<Frame> {
        let mut frames = self.frames.unpack();
        if self.collects {
            let collector = Frame {
                source: "[C]".to_owned(),
                name: COLLECTOR.to_owned(),
                ..Frame::default()
            };
            frames.insert(0, collector);
        }
        frames
    }
}

/// What was seen at a place, as it is sent. (Flattening the place would make a map of it first.)
#[derive(Serialize)]
struct Sample<'a> {
    vm: &'a str,
    id: u64,
    process: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    context: &'a [(String, String)],
    frames: &'a [Frame],
    #[serde(skip_serializing_if = "str::is_empty")]
    object: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    holder: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    class: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    role: &'a str,
    #[serde(skip_serializing_if = "SampleKind::is_cost")]
    kind: SampleKind,
    /// In nanoseconds, or bytes.
    value: u64,
    /// How many samples these are.
    count: u64,
}

fn is_empty(fields: &&[(String, String)]) -> bool {
    fields.is_empty()
}

impl Sample<'_> {
    fn of<'a>(
        vm: &'a str,
        place: &'a Place,
        frames: &'a [Frame],
        (value, count): (u64, u64),
    ) -> Sample<'a> {
        Sample {
            vm,
            id: place.id,
            process: &place.process,
            context: &place.context,
            frames,
            object: &place.object,
            holder: &place.holder,
            class: place.class,
            role: place.role,
            kind: place.kind,
            value,
            count,
        }
    }
}

/// Takes samples of one VM.
trait Sampler {
    /// Takes those of one tick: places, and nanoseconds for each.
    fn sample(&mut self, vm: &Vm) -> Result<Vec<(Place, u64)>, NoLook>;

    /// Takes what is left after the last tick.
    fn finish(&mut self, _vm: &Vm) -> Vec<(Place, u64)> {
        Vec::new()
    }
}

/// Samples by place: nanoseconds or bytes, and counts.
type Seen = HashMap<Place, (u64, u64)>;

/// What the asker has to say to a profile, and hears of it.
pub(super) struct Control<'a> {
    /// Ends the profile early.
    pub(super) stop: &'a Arc<Stop>,
    /// Called when it has begun.
    pub(super) has_begun: &'a dyn Fn(),
}

pub(super) fn answer(
    vm: &Vm,
    with: &Value,
    control: &Control<'_>,
    part: Part<'_>,
) -> Result<Value, String> {
    let wanted = ProfileWanted::deserialize(with).map_err(|error| {
        format!("'what' (cpu, wall, waits or alloc), 'seconds' and 'rate' expected: {error}")
    })?;
    if !(0.01..=3600.0).contains(&wanted.seconds) {
        return Err(format!(
            "from 0.01 to 3600 seconds expected, got {}",
            wanted.seconds
        ));
    }
    if !(1..=1000).contains(&wanted.rate) {
        return Err(format!(
            "a rate from 1 to 1000 samples a second expected, got {}",
            wanted.rate
        ));
    }
    let duration = Duration::from_secs_f64(wanted.seconds);
    let _unfinished = Unfinished::new(control.stop);
    let times = (duration, Duration::from_secs(1) / wanted.rate);
    let passed = match wanted.what {
        What::Cpu => sample(CpuSampler::new, times, control, part)?,
        What::Wall => sample(|_, _| EveryoneSampler::new(), times, control, part)?,
        What::Waits => sample(|_, _| WaitSampler::new(), times, control, part)?,
        What::Alloc => sample_allocations(vm, duration, control, part)?,
    };
    Ok(json!({ "seconds": passed.as_secs_f64() }))
}

/// Samples all VMs at random moments, and sends what was seen. The two times are the duration and
/// the mean period. Returns how long that took.
fn sample<S: Sampler>(
    make: impl Fn(&Vm, bool) -> S,
    (duration, period): (Duration, Duration),
    control: &Control<'_>,
    part: Part<'_>,
) -> Result<Duration, String> {
    let began = Instant::now();
    let until = began + duration;
    let mut random = Random::new();
    let mut sampled = SampledVms::new(make);
    let first = period_after(Duration::ZERO, period);
    let (mut due, mut sent_at) = (began + random.around(first), began);
    (control.has_begun)();
    while due <= until {
        if control
            .stop
            .wait(due.saturating_duration_since(Instant::now()))
        {
            break;
        }
        if sampled.sample() == ProgramIs::Ending {
            break;
        }
        let now = Instant::now();
        while due <= now {
            due += random.around(period_after(now - began, period));
        }
        if now - sent_at >= sending_after(now - began) {
            sampled.send(part)?;
            sent_at = now;
        }
    }
    let passed = began.elapsed();
    sampled.finish();
    sampled.send(part)?;
    Ok(passed)
}

/// Sends what the allocating processes sample themselves. Returns how long that took.
fn sample_allocations(
    vm: &Vm,
    duration: Duration,
    control: &Control<'_>,
    part: Part<'_>,
) -> Result<Duration, String> {
    parent::go_on(); // only a VM that runs can be looked at
    let profile = AllocationProfile::begin(vm)?;
    let began = Instant::now();
    (control.has_begun)();
    while let Some(left) = duration.checked_sub(began.elapsed()) {
        let stopped = control.stop.wait(left.min(sending_after(began.elapsed())));
        send(FIRST_VM, &mut profile.take(), part)?;
        if stopped {
            break;
        }
    }
    Ok(began.elapsed())
}

/// Sends the samples of a VM so far, and forgets them.
fn send(vm: &str, seen: &mut Seen, part: Part<'_>) -> Result<(), String> {
    let all: Vec<(Place, (u64, u64))> = seen.drain().collect();
    let mut stacks: Vec<Vec<Frame>> = all.iter().map(|(place, _)| place.stack()).collect();
    symbols::resolve(&mut stacks.iter_mut().flatten().collect::<Vec<_>>());
    let with_frames = all.iter().zip(&stacks);
    let samples: Vec<Sample<'_>> = with_frames
        .map(|((place, figures), frames)| Sample::of(vm, place, frames, *figures))
        .collect();
    send_part(part, &samples).map_err(|error| error.to_string())
}
