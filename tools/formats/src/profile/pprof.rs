//! The format of pprof: a message of Protocol Buffers, compressed with gzip.
//!
//! [`messages`] has the parts of its schema that are written here. Programs that read such files
//! can use them too.

pub mod messages;

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::time::UNIX_EPOCH;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use prost::Message;

use super::merged::Place;
use super::{Frame, Labels, Measure, Profile};
use crate::interned::Interned;
use messages::{
    FunctionMessage, LabelMessage, LineMessage, LocationMessage, MappingMessage, ProfileMessage,
    SampleMessage, ValueTypeMessage,
};

/// The number of the only mapping. It says that all names are known, so that no reader looks for
/// them in programs.
const MAPPING: u64 = 1;

/// Writes a profile, compressed.
pub(super) fn write(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let message = message(profile).encode_to_vec();
    let mut gzip = GzEncoder::new(out, Compression::default());
    gzip.write_all(&message)?;
    gzip.finish()?;
    Ok(())
}

/// Reads a file of pprof, compressed or not, of at most `limit` bytes when uncompressed.
///
/// # Errors
///
/// Those of `file`, and [`io::ErrorKind::InvalidData`] if it is not such a file or too large.
pub fn read(file: impl Read, limit: u64) -> io::Result<ProfileMessage> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut bytes = Vec::new();
    // One byte more, so that a file that is too large can be told from one that just fits.
    let most = limit.saturating_add(1);
    let mut file = io::BufReader::new(file);
    if io::BufRead::fill_buf(&mut file)?.starts_with(&[0x1f, 0x8b]) {
        MultiGzDecoder::new(file)
            .take(most)
            .read_to_end(&mut bytes)?;
    } else {
        file.take(most).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > limit {
        return Err(invalid(format!("a profile of more than {limit} bytes")));
    }
    ProfileMessage::decode(bytes.as_slice()).map_err(|why| invalid(format!("not a profile: {why}")))
}

/// A profile as a message.
#[must_use]
pub fn message(profile: &Profile) -> ProfileMessage {
    Builder::default().build(profile)
}

/// The names of the count and of the value, as Go's own profiles have them.
fn type_names(measure: Measure) -> (&'static str, &'static str) {
    match measure {
        Measure::CpuTime => ("samples", "cpu"),
        Measure::WallTime => ("samples", "wall"),
        Measure::Waits => ("contentions", "delay"),
        Measure::Allocation => ("alloc_objects", "alloc_space"),
    }
}

/// The tables of a message while it is made.
#[derive(Default)]
struct Builder {
    strings: Interned<str>,
    message: ProfileMessage,
    locations: HashMap<Frame, u64>,
    functions: HashMap<FunctionKey, u64>,
}

/// The numbers of a function's name and file, its first line, and its kind.
type FunctionKey = (i64, i64, u32, super::FrameKind);

impl Builder {
    fn build(mut self, profile: &Profile) -> ProfileMessage {
        // The first string must be empty: number 0 means that there is none.
        self.string("");
        let unit = profile.measure.unit().name();
        let (counted, valued) = type_names(profile.measure);
        let value_type = self.value_type(valued, unit);
        self.message.sample_type = vec![self.value_type(counted, "count"), value_type.clone()];
        self.message.default_sample_type = value_type.kind;
        self.message.period_type = Some(value_type);
        self.message.period = limited(profile.period);
        self.message.duration_nanos = limited(profile.duration_nanos());
        self.message.time_nanos = profile
            .started
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
            .map_or(0, |since| {
                i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
            });
        let filename = self.string(&profile.program);
        self.message.mapping = vec![MappingMessage {
            id: MAPPING,
            filename,
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
        }];
        for sample in profile.samples() {
            let frames = profile.frames(sample.stack);
            let location_id = frames.map(|frame| self.location(frame)).collect();
            let label = self.labels(&sample.labels);
            self.message.sample.push(SampleMessage {
                location_id,
                value: vec![limited(sample.count), limited(sample.value)],
                label,
            });
        }
        self.message.string_table = self.strings.iter().map(str::to_owned).collect();
        self.message
    }

    fn string(&mut self, text: &str) -> i64 {
        i64::from(self.strings.add(text))
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueTypeMessage {
        ValueTypeMessage {
            kind: self.string(kind),
            unit: self.string(unit),
        }
    }

    fn location(&mut self, frame: &Frame) -> u64 {
        if let Some(&id) = self.locations.get(frame) {
            return id;
        }
        let function_id = self.function(frame);
        let id = self.message.location.len() as u64 + 1;
        self.message.location.push(LocationMessage {
            id,
            mapping_id: MAPPING,
            line: vec![LineMessage {
                function_id,
                line: i64::from(frame.line),
            }],
        });
        self.locations.insert(frame.clone(), id);
        id
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        // Readers merge functions of the same name.
        let name = self.string(&Place::of_frame(frame).unique_name());
        let system_name = self.string(&frame.function);
        let filename = self.string(&frame.file);
        let key = (name, filename, frame.first_line, frame.kind);
        let next = self.message.function.len() as u64 + 1;
        let id = *self.functions.entry(key).or_insert(next);
        if id == next {
            self.message.function.push(FunctionMessage {
                id,
                name,
                system_name,
                filename,
                start_line: i64::from(frame.first_line),
            });
        }
        id
    }

    fn labels(&mut self, labels: &Labels) -> Vec<LabelMessage> {
        let mut messages = Vec::new();
        let own = [
            ("process", &labels.process),
            ("object", &labels.object),
            ("holder", &labels.holder),
            ("vm", &labels.vm),
        ];
        // A name of ours says what it always says.
        let is_free = |name: &str| own.iter().all(|(key, _)| *key != name) && name != "process_id";
        let others = labels
            .context
            .iter()
            .map(|(name, text)| (name.as_str(), text));
        for (key, text) in own
            .into_iter()
            .chain(others.filter(|(name, _)| is_free(name)))
        {
            if !text.is_empty() {
                messages.push(LabelMessage {
                    key: self.string(key),
                    str: self.string(text),
                    ..LabelMessage::default()
                });
            }
        }
        if labels.process_id != 0 {
            messages.push(LabelMessage {
                key: self.string("process_id"),
                num: limited(labels.process_id),
                ..LabelMessage::default()
            });
        }
        messages
    }
}

/// The numbers of a profile are signed.
fn limited(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod checks {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::time::Duration;

    fn read_back(profile: &Profile) -> ProfileMessage {
        let mut file = Vec::new();
        write(profile, &mut file).expect("a vector takes everything");
        read(file.as_slice(), 1 << 20).expect("it is a profile")
    }

    /// The texts that a message's numbers name.
    fn text(message: &ProfileMessage, number: i64) -> &str {
        &message.string_table[usize::try_from(number).expect("a number of a string")]
    }

    /// The name, file, line and first line of each frame of a sample.
    fn frames(message: &ProfileMessage, sample: usize) -> Vec<(String, String, i64, i64)> {
        let ids = &message.sample[sample].location_id;
        let frame = |id: &u64| {
            let is_its = |location: &&LocationMessage| location.id == *id;
            let location = message.location.iter().find(is_its).expect("a location");
            let line = &location.line[0];
            let is_its = |function: &&FunctionMessage| function.id == line.function_id;
            let function = message.function.iter().find(is_its).expect("a function");
            (
                text(message, function.system_name).to_owned(),
                text(message, function.filename).to_owned(),
                line.line,
                function.start_line,
            )
        };
        ids.iter().map(frame).collect()
    }

    proptest! {
        #[test]
        fn what_was_written_can_be_read_back(
            stacks in {
                let frame = (".{1,9}", any::<Vec<u8>>(), any::<u32>());
                vec((vec(frame, 0..5), any::<u64>()), 0..8)
            },
        ) {
            let mut profile = Profile::new(Measure::Allocation, "a.lua");
            for (frames, value) in &stacks {
                let frames = frames.iter().map(|(name, file, line)| {
                    Frame::lua(name, file, *line).beginning_at(line / 2)
                });
                let stack = profile.stack(frames.collect::<Vec<_>>());
                profile.add(stack, *value, 1, Labels::default());
            }
            let message = read_back(&profile);
            prop_assert_eq!(message.string_table[0].as_str(), "");
            prop_assert_eq!(message.sample.len(), profile.samples().len());
            for (number, sample) in profile.samples().iter().enumerate() {
                let expected: Vec<_> = profile
                    .frames(sample.stack)
                    .map(|frame| {
                        let lines = (i64::from(frame.line), i64::from(frame.first_line));
                        (frame.function.clone(), frame.file.clone(), lines.0, lines.1)
                    })
                    .collect();
                prop_assert_eq!(frames(&message, number), expected);
                let values = [limited(sample.count), limited(sample.value)];
                prop_assert_eq!(&message.sample[number].value[..], &values[..]);
            }
        }

        #[test]
        fn bytes_that_are_no_profile_are_refused_or_read(bytes: Vec<u8>) {
            // Some bytes are a message by chance. None may panic.
            let _ = read(bytes.as_slice(), 1 << 20);
        }
    }

    #[test]
    fn the_head_tells_what_was_measured_and_when() {
        let mut profile = Profile::new(Measure::Waits, "a.lua");
        profile.started = Some(UNIX_EPOCH + Duration::from_nanos(1_500_000_000_000_000_007));
        profile.duration = Duration::from_millis(10);
        profile.period = 1;
        let message = read_back(&profile);
        let types: Vec<(&str, &str)> = message
            .sample_type
            .iter()
            .map(|kind| (text(&message, kind.kind), text(&message, kind.unit)))
            .collect();
        assert_eq!(types, [("contentions", "count"), ("delay", "nanoseconds")]);
        assert_eq!(text(&message, message.default_sample_type), "delay");
        assert_eq!(message.time_nanos, 1_500_000_000_000_000_007);
        assert_eq!((message.duration_nanos, message.period), (10_000_000, 1));
        let mapping = &message.mapping[0];
        assert_eq!(text(&message, mapping.filename), "a.lua");
        assert!(mapping.has_functions && mapping.has_filenames && mapping.has_line_numbers);
    }

    #[test]
    fn labels_that_are_not_known_are_left_out() {
        let mut profile = Profile::new(Measure::Waits, "a.lua");
        let stack = profile.stack([]);
        let labels = Labels::of_process("p", 7).waiting_for("mutex 'm'", "");
        profile.add(stack, 1, 1, labels);
        let message = read_back(&profile);
        let labels: Vec<(&str, &str, i64)> = message.sample[0]
            .label
            .iter()
            .map(|label| {
                (
                    text(&message, label.key),
                    text(&message, label.str),
                    label.num,
                )
            })
            .collect();
        let expected = [
            ("process", "p", 0),
            ("object", "mutex 'm'", 0),
            ("process_id", "", 7),
        ];
        assert_eq!(labels, expected);
    }

    #[test]
    fn fields_of_a_context_are_labels_unless_they_have_a_name_of_ours() {
        let mut profile = Profile::new(Measure::CpuTime, "a.lua");
        let stack = profile.stack([]);
        let fields = [("user", "ann"), ("process", "x"), ("process_id", "1")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        profile.add(stack, 1, 1, Labels::default().with_context(fields.to_vec()));
        let message = read_back(&profile);
        let label = &message.sample[0].label;
        assert_eq!(label.len(), 1);
        assert_eq!(text(&message, label[0].key), "user");
        assert_eq!(text(&message, label[0].str), "ann");
    }

    #[test]
    fn a_profile_that_is_too_large_is_refused() {
        let mut file = Vec::new();
        let profile = Profile::new(Measure::CpuTime, "a".repeat(1000));
        write(&profile, &mut file).expect("a vector takes everything");
        assert!(file.len() < 1000, "{}", file.len());
        let why = read(file.as_slice(), 1000).expect_err("a limit");
        assert_eq!(why.to_string(), "a profile of more than 1000 bytes");
        assert_eq!(why.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn the_same_profile_gives_the_same_bytes() {
        let profile = Profile::new(Measure::CpuTime, "a.lua");
        let mut files = [Vec::new(), Vec::new()];
        for file in &mut files {
            write(&profile, file).expect("a vector takes everything");
        }
        assert_eq!(files[0], files[1]);
    }
}
