//! Writes a trace packet by packet.

use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prost::Message;

use super::messages::{
    AnnotationMessage, BOOT_TIME, ClockMessage, ClockSnapshotMessage, CounterMessage,
    EXPLICIT_ORDER, EventType, InternedDataMessage, NEEDS_STATE, NEVER_MERGED, PacketMessage,
    ProcessMessage, REAL_TIME, STATE_CLEARED, ThreadMessage, TraceMessage, TrackDescriptorMessage,
    TrackEventMessage,
};
use super::names::{Named, Names};
use super::{CounterUnit, CounterValue, Event, Track, Value};
use crate::text;

/// The number of the only writer of a trace.
const WRITER: u32 = 1;

/// Writes a trace to `out` as it goes. Each method appends one packet, so the file is whole at any
/// time. Give it a buffered writer, and [`finish`](Self::finish) it.
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    out: W,
    packet: Vec<u8>,
    process_id: i32,
    /// The track of the program, above all others.
    program: Track,
    /// The track above those of the processes, once there is one.
    processes: Option<Track>,
    /// For each track, by its number, how many slices have begun and not ended.
    open: Vec<u32>,
    categories: Names,
    event_names: Names,
    argument_names: Names,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace of a program with this name and number. Bytes of names that are not UTF-8
    /// become U+FFFD, here and in all other methods.
    ///
    /// # Errors
    ///
    /// Those of `out`, as in all other methods.
    pub fn new(out: W, program: impl AsRef<[u8]>, process_id: u32) -> io::Result<Self> {
        let mut writer = Self {
            out,
            packet: Vec::new(),
            process_id: i32::try_from(process_id).unwrap_or(i32::MAX),
            program: Track(0),
            processes: None,
            // Number 0 is a track that all traces have.
            open: vec![0],
            categories: Names::default(),
            event_names: Names::default(),
            argument_names: Names::default(),
        };
        writer.append(PacketMessage {
            sequence_flags: Some(STATE_CLEARED),
            first_packet_on_sequence: Some(true),
            ..PacketMessage::default()
        })?;
        writer.program = writer.describe(TrackDescriptorMessage {
            process: Some(ProcessMessage {
                pid: Some(writer.process_id),
                process_name: Some(text::lossy(program)),
            }),
            ..TrackDescriptorMessage::default()
        })?;
        Ok(writer)
    }

    /// Tells what the time of day was at a moment of the trace's clock. Moments before 1970 are
    /// left out.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn time_of_day(&mut self, at: Duration, time: SystemTime) -> io::Result<()> {
        let Ok(since) = time.duration_since(UNIX_EPOCH) else {
            return Ok(());
        };
        let clock = |id: u32, time: Duration| ClockMessage {
            clock_id: Some(id),
            timestamp: Some(nanoseconds(time)),
        };
        self.append(PacketMessage {
            timestamp: Some(nanoseconds(at)),
            clock_snapshot: Some(ClockSnapshotMessage {
                clocks: vec![clock(BOOT_TIME, at), clock(REAL_TIME, since)],
            }),
            ..PacketMessage::default()
        })
    }

    /// Describes the track of a process with this number and name. Tracks are sorted by number.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn process_track(&mut self, id: u64, name: impl AsRef<[u8]>) -> io::Result<Track> {
        let group = match self.processes {
            Some(group) => group,
            None => self.describe_group()?,
        };
        let name = match text::lossy(name) {
            name if name.is_empty() => format!("process #{id}"),
            name => format!("{name} #{id}"),
        };
        self.describe(TrackDescriptorMessage {
            name: Some(name),
            parent_uuid: Some(group.0),
            sibling_order_rank: Some(i32::try_from(id).unwrap_or(i32::MAX)),
            sibling_merge_behavior: Some(NEVER_MERGED),
            ..TrackDescriptorMessage::default()
        })
    }

    /// Describes the track of a native thread with this number and name.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn thread_track(&mut self, thread_id: u32, name: impl AsRef<[u8]>) -> io::Result<Track> {
        self.describe(TrackDescriptorMessage {
            parent_uuid: Some(self.program.0),
            thread: Some(ThreadMessage {
                pid: Some(self.process_id),
                tid: Some(i64::from(thread_id)),
                thread_name: Some(text::lossy(name)),
            }),
            ..TrackDescriptorMessage::default()
        })
    }

    /// Describes a track for the values of a counter.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn counter_track(
        &mut self,
        name: impl AsRef<[u8]>,
        unit: CounterUnit,
    ) -> io::Result<Track> {
        let unit = match unit {
            CounterUnit::Nanoseconds => 1,
            CounterUnit::Count => 2,
            CounterUnit::Bytes => 3,
        };
        self.describe(TrackDescriptorMessage {
            name: Some(text::lossy(name)),
            parent_uuid: Some(self.program.0),
            counter: Some(CounterMessage { unit: Some(unit) }),
            ..TrackDescriptorMessage::default()
        })
    }

    /// Begins a slice on a track. It lies within the one that began before it and has not ended.
    ///
    /// # Errors
    ///
    /// Those of the output.
    ///
    /// # Panics
    ///
    /// The track is of another trace, in this method and in those below.
    pub fn begin(&mut self, track: Track, event: &Event) -> io::Result<()> {
        self.open[index(track)] += 1;
        self.happened(track, EventType::SliceBegin, event)
    }

    /// Ends the slice that began last on a track and has not ended. If there is none, because the
    /// trace began within it, nothing is written.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn end(&mut self, track: Track, at: Duration) -> io::Result<()> {
        let open = &mut self.open[index(track)];
        if *open == 0 {
            return Ok(());
        }
        *open -= 1;
        self.append_event(
            at,
            TrackEventMessage {
                track_uuid: Some(track.0),
                r#type: Some(EventType::SliceEnd.into()),
                ..TrackEventMessage::default()
            },
        )
    }

    /// Marks a moment on a track.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn instant(&mut self, track: Track, event: &Event) -> io::Result<()> {
        self.happened(track, EventType::Instant, event)
    }

    /// Gives a counter a new value.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn count(&mut self, track: Track, at: Duration, value: CounterValue) -> io::Result<()> {
        let mut message = TrackEventMessage {
            track_uuid: Some(track.0),
            r#type: Some(EventType::Counter.into()),
            ..TrackEventMessage::default()
        };
        match value {
            CounterValue::Whole(value) => message.counter_value = Some(value),
            CounterValue::Real(value) => message.double_counter_value = Some(value),
        }
        self.append_event(at, message)
    }

    /// Flushes the output.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Flushes the output and returns it. A slice that has not ended lasts until the end of the
    /// trace.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// Describes the track above those of the processes.
    fn describe_group(&mut self) -> io::Result<Track> {
        let group = self.describe(TrackDescriptorMessage {
            name: Some("processes".to_owned()),
            parent_uuid: Some(self.program.0),
            child_ordering: Some(EXPLICIT_ORDER),
            ..TrackDescriptorMessage::default()
        })?;
        self.processes = Some(group);
        Ok(group)
    }

    fn describe(&mut self, mut descriptor: TrackDescriptorMessage) -> io::Result<Track> {
        let track = Track(self.open.len() as u64);
        descriptor.uuid = Some(track.0);
        self.append(PacketMessage {
            track_descriptor: Some(descriptor),
            ..PacketMessage::default()
        })?;
        self.open.push(0);
        Ok(track)
    }

    fn happened(&mut self, track: Track, kind: EventType, event: &Event) -> io::Result<()> {
        let mut message = TrackEventMessage {
            track_uuid: Some(track.0),
            r#type: Some(kind.into()),
            flow_ids: event.causes.iter().map(|flow| flow.0).collect(),
            terminating_flow_ids: event.caused_by.iter().map(|flow| flow.0).collect(),
            ..TrackEventMessage::default()
        };
        match self.event_names.named(&event.name) {
            Named::Number(number) => message.name_iid = Some(number),
            Named::Name(name) => message.name = Some(name),
        }
        if !event.category.is_empty() {
            match self.categories.named(&event.category) {
                Named::Number(number) => message.category_iids.push(number),
                Named::Name(name) => message.categories.push(name),
            }
        }
        for (name, value) in &event.arguments {
            let annotation = self.annotation(name, value);
            message.debug_annotations.push(annotation);
        }
        self.append_event(event.at, message)
    }

    fn annotation(&mut self, name: &str, value: &Value) -> AnnotationMessage {
        let mut message = AnnotationMessage::default();
        match self.argument_names.named(name) {
            Named::Number(number) => message.name_iid = Some(number),
            Named::Name(name) => message.name = Some(name),
        }
        match value {
            Value::Bool(value) => message.bool_value = Some(*value),
            Value::Natural(value) => message.uint_value = Some(*value),
            Value::Whole(value) => message.int_value = Some(*value),
            Value::Real(value) => message.double_value = Some(*value),
            Value::Text(value) => message.string_value = Some(value.clone()),
        }
        message
    }

    /// Appends an event, with the names that got numbers for it.
    fn append_event(&mut self, at: Duration, event: TrackEventMessage) -> io::Result<()> {
        let names = InternedDataMessage {
            event_categories: self.categories.take_new(),
            event_names: self.event_names.take_new(),
            debug_annotation_names: self.argument_names.take_new(),
        };
        let is_new = names != InternedDataMessage::default();
        self.append(PacketMessage {
            timestamp: Some(nanoseconds(at)),
            track_event: Some(event),
            interned_data: is_new.then_some(names),
            sequence_flags: Some(NEEDS_STATE),
            ..PacketMessage::default()
        })
    }

    fn append(&mut self, mut packet: PacketMessage) -> io::Result<()> {
        packet.trusted_packet_sequence_id = Some(WRITER);
        let trace = TraceMessage {
            packet: vec![packet],
        };
        self.packet.clear();
        trace
            .encode(&mut self.packet)
            .expect("a vector takes everything");
        self.out.write_all(&self.packet)
    }
}

fn index(track: Track) -> usize {
    usize::try_from(track.0).expect("tracks are numbered from 0")
}

/// A time in nanoseconds, at most the greatest number.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod checks {
    use super::*;
    use crate::trace::Flow;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const SECOND: Duration = Duration::from_secs(1);

    fn writer() -> TraceWriter<Vec<u8>> {
        TraceWriter::new(Vec::new(), "a.lua", 7).expect("a vector takes everything")
    }

    fn packets(writer: TraceWriter<Vec<u8>>) -> Vec<PacketMessage> {
        let bytes = writer.finish().expect("a vector takes everything");
        TraceMessage::decode(&bytes[..]).expect("a trace").packet
    }

    /// The names of all events in their order, as a reader finds them by their numbers.
    fn names(packets: &[PacketMessage]) -> Vec<(String, Vec<String>)> {
        let mut events: HashMap<u64, String> = HashMap::new();
        let mut arguments: HashMap<u64, String> = HashMap::new();
        let mut found = Vec::new();
        for packet in packets {
            let data = packet.interned_data.clone().unwrap_or_default();
            for (table, new) in [
                (&mut events, data.event_names),
                (&mut arguments, data.debug_annotation_names),
            ] {
                table.extend(
                    new.into_iter()
                        .map(|new| (new.iid(), new.name().to_owned())),
                );
            }
            let Some(event) = packet
                .track_event
                .as_ref()
                .filter(|event| event.name_iid() > 0)
            else {
                continue;
            };
            let annotations = event.debug_annotations.iter();
            found.push((
                events[&event.name_iid()].clone(),
                annotations
                    .map(|one| arguments[&one.name_iid()].clone())
                    .collect(),
            ));
        }
        found
    }

    proptest! {
        #[test]
        fn names_and_times_can_be_read_back(
            events in vec((any::<Vec<u8>>(), any::<Vec<u8>>(), any::<u64>()), 0..20),
        ) {
            let mut writer = writer();
            let track = writer.process_track(1, "p")?;
            for (name, argument, at) in &events {
                let event = Event::new(Duration::from_nanos(*at), "c", name)
                    .with(argument, Value::text(name));
                writer.instant(track, &event)?;
            }
            let packets = packets(writer);
            let expected: Vec<(String, Vec<String>)> = events
                .iter()
                .map(|(name, argument, _)| (text::lossy(name), vec![text::lossy(argument)]))
                .collect();
            prop_assert_eq!(names(&packets), expected);
            let times: Vec<u64> = packets.iter().filter_map(|packet| packet.timestamp).collect();
            let expected: Vec<u64> = events.iter().map(|(.., at)| *at).collect();
            prop_assert_eq!(times, expected);
        }
    }

    #[test]
    fn an_end_without_a_beginning_is_left_out() -> io::Result<()> {
        let mut writer = writer();
        let track = writer.thread_track(8, "home")?;
        writer.end(track, SECOND)?;
        writer.begin(track, &Event::new(SECOND, "c", "call"))?;
        writer.end(track, 2 * SECOND)?;
        writer.end(track, 3 * SECOND)?;
        let kinds: Vec<EventType> = packets(writer)
            .iter()
            .filter_map(|packet| packet.track_event.as_ref())
            .map(TrackEventMessage::r#type)
            .collect();
        assert_eq!(kinds, [EventType::SliceBegin, EventType::SliceEnd]);
        Ok(())
    }

    #[test]
    fn tracks_of_processes_are_below_one_that_sorts_them() -> io::Result<()> {
        let mut writer = writer();
        writer.process_track(2, "")?;
        writer.process_track(1, "main")?;
        let tracks: Vec<TrackDescriptorMessage> = packets(writer)
            .into_iter()
            .filter_map(|packet| packet.track_descriptor)
            .collect();
        let names: Vec<&str> = tracks.iter().map(TrackDescriptorMessage::name).collect();
        assert_eq!(names, ["", "processes", "process #2", "main #1"]);
        let parents: Vec<u64> = tracks
            .iter()
            .map(TrackDescriptorMessage::parent_uuid)
            .collect();
        assert_eq!(parents, [0, 1, 2, 2]);
        let ranks: Vec<i32> = tracks[2..]
            .iter()
            .map(TrackDescriptorMessage::sibling_order_rank)
            .collect();
        assert_eq!(ranks, [2, 1]);
        Ok(())
    }

    #[test]
    fn numbers_of_flows_are_not_packed() -> io::Result<()> {
        let mut writer = writer();
        let track = writer.process_track(1, "p")?;
        let flow = Flow(0x1122_3344_5566_7788);
        writer.instant(track, &Event::new(SECOND, "", "wake").causing(flow))?;
        writer.begin(track, &Event::new(SECOND, "", "run").caused_by(flow))?;
        let bytes = writer.finish()?;
        // Fields 47 and 48 as fixed numbers of 64 bits: the type of the wire is 1.
        for field in [(47_u32 << 3) | 1, (48 << 3) | 1] {
            let mut expected = vec![((field & 0x7f) | 0x80) as u8, (field >> 7) as u8];
            expected.extend(flow.0.to_le_bytes());
            let is_there = bytes.windows(expected.len()).any(|part| part == expected);
            assert!(is_there, "{field}");
        }
        Ok(())
    }

    #[test]
    fn a_trace_can_be_read_at_any_time() -> io::Result<()> {
        let mut writer = writer();
        let track = writer.process_track(1, "p")?;
        for second in 0..3 {
            writer.instant(track, &Event::new(second * SECOND, "c", "e"))?;
            let so_far = TraceMessage::decode(&writer.out[..]).expect("a trace");
            assert_eq!(names(&so_far.packet).len(), second as usize + 1);
        }
        Ok(())
    }

    #[test]
    fn counters_keep_whole_numbers_whole() -> io::Result<()> {
        let mut writer = writer();
        let track = writer.counter_track("heap", CounterUnit::Bytes)?;
        writer.count(track, SECOND, CounterValue::Whole(1 << 60))?;
        writer.count(track, SECOND, CounterValue::Real(0.5))?;
        writer.time_of_day(SECOND, UNIX_EPOCH + 2 * SECOND)?;
        let packets = packets(writer);
        let values: Vec<(Option<i64>, Option<f64>)> = packets
            .iter()
            .filter_map(|packet| packet.track_event.as_ref())
            .map(|event| (event.counter_value, event.double_counter_value))
            .collect();
        assert_eq!(values, [(Some(1 << 60), None), (None, Some(0.5))]);
        let clocks = &packets[packets.len() - 1].clock_snapshot.as_ref();
        let times: Vec<(u32, u64)> = clocks
            .expect("a reading of the clocks")
            .clocks
            .iter()
            .map(|clock| (clock.clock_id(), clock.timestamp()))
            .collect();
        assert_eq!(
            times,
            [(BOOT_TIME, 1_000_000_000), (REAL_TIME, 2_000_000_000)]
        );
        Ok(())
    }
}
