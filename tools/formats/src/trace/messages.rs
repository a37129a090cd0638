//! The messages of Perfetto's schema that Baton writes, with the numbers of its public `.proto`
//! files (<https://github.com/google/perfetto/tree/main/protos/perfetto/trace>).
//!
//! A member of a `oneof` is an optional field here, which has the same bytes. Lists of numbers are
//! not packed, because the schema is in version 2 of its language.

/// A whole file (`Trace`). Files can be joined: each packet stands alone in it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TraceMessage {
    /// The packets, in any order.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<PacketMessage>,
}

/// One entry of a trace (`TracePacket`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct PacketMessage {
    /// Readings of several clocks at one moment.
    #[prost(message, optional, tag = "6")]
    pub clock_snapshot: Option<ClockSnapshotMessage>,
    /// When it happened, in nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// The writer's number.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// An event.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEventMessage>,
    /// Names that this packet and later ones use by their numbers.
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedDataMessage>,
    /// [`STATE_CLEARED`] and [`NEEDS_STATE`].
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// The description of a track.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptorMessage>,
    /// Whether this is the first packet of its writer.
    #[prost(bool, optional, tag = "87")]
    pub first_packet_on_sequence: Option<bool>,
}

/// A flag of a packet: names of earlier packets are no longer valid.
pub const STATE_CLEARED: u32 = 1;

/// A flag of a packet: it uses names of earlier packets.
pub const NEEDS_STATE: u32 = 2;

/// The clock of the trace (`BUILTIN_CLOCK_BOOTTIME`).
pub const BOOT_TIME: u32 = 6;

/// The time of day (`BUILTIN_CLOCK_REALTIME`).
pub const REAL_TIME: u32 = 1;

/// Readings of several clocks at one moment (`ClockSnapshot`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct ClockSnapshotMessage {
    /// A reading of each clock.
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<ClockMessage>,
}

/// A reading of a clock (`ClockSnapshot.Clock`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct ClockMessage {
    /// The clock: [`BOOT_TIME`] or [`REAL_TIME`].
    #[prost(uint32, optional, tag = "1")]
    pub clock_id: Option<u32>,
    /// Its time in nanoseconds.
    #[prost(uint64, optional, tag = "2")]
    pub timestamp: Option<u64>,
}

/// A line of the picture (`TrackDescriptor`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct TrackDescriptorMessage {
    /// Its number, unique in the trace.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// Its name, unless it is that of a thread.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// The process of the operating system that it stands for.
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessMessage>,
    /// The thread that it stands for.
    #[prost(message, optional, tag = "4")]
    pub thread: Option<ThreadMessage>,
    /// The track below which it is shown.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// What it counts, if it is a counter.
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterMessage>,
    /// How the tracks below it are sorted: [`EXPLICIT_ORDER`].
    #[prost(int32, optional, tag = "11")]
    pub child_ordering: Option<i32>,
    /// Its place among the tracks with the same parent.
    #[prost(int32, optional, tag = "12")]
    pub sibling_order_rank: Option<i32>,
    /// Whether it joins tracks of the same name: [`NEVER_MERGED`].
    #[prost(int32, optional, tag = "15")]
    pub sibling_merge_behavior: Option<i32>,
}

/// Tracks are sorted by `sibling_order_rank` (`EXPLICIT`).
pub const EXPLICIT_ORDER: i32 = 3;

/// A track is not joined with others of its name (`SIBLING_MERGE_BEHAVIOR_NONE`).
pub const NEVER_MERGED: i32 = 2;

/// A process of the operating system (`ProcessDescriptor`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProcessMessage {
    /// Its number.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Its name.
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
}

/// A thread of the operating system (`ThreadDescriptor`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct ThreadMessage {
    /// The number of its process.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Its number.
    #[prost(int64, optional, tag = "2")]
    pub tid: Option<i64>,
    /// Its name.
    #[prost(string, optional, tag = "5")]
    pub thread_name: Option<String>,
}

/// What a counter counts (`CounterDescriptor`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct CounterMessage {
    /// 1 nanoseconds, 2 a number of things, 3 bytes.
    #[prost(int32, optional, tag = "3")]
    pub unit: Option<i32>,
}

/// What an event is (`TrackEvent.Type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum EventType {
    /// Not known.
    Unspecified = 0,
    /// A slice begins.
    SliceBegin = 1,
    /// The last slice that began and has not ended on the track ends.
    SliceEnd = 2,
    /// A moment.
    Instant = 3,
    /// A counter has a new value.
    Counter = 4,
}

/// An event (`TrackEvent`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct TrackEventMessage {
    /// Numbers of its categories.
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub category_iids: Vec<u64>,
    /// What else is known of it.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<AnnotationMessage>,
    /// What it is.
    #[prost(enumeration = "EventType", optional, tag = "9")]
    pub r#type: Option<i32>,
    /// The number of its name.
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    /// Its track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// Its categories, if they have no number.
    #[prost(string, repeated, tag = "22")]
    pub categories: Vec<String>,
    /// Its name, if that has no number.
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    /// The new value of a counter, if it is whole.
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    /// The new value of a counter.
    #[prost(double, optional, tag = "44")]
    pub double_counter_value: Option<f64>,
    /// Flows that begin at it or pass through it.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    /// Flows that end at it.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
}

/// An argument of an event (`DebugAnnotation`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct AnnotationMessage {
    /// The number of its name.
    #[prost(uint64, optional, tag = "1")]
    pub name_iid: Option<u64>,
    /// Its value, if that is true or false.
    #[prost(bool, optional, tag = "2")]
    pub bool_value: Option<bool>,
    /// Its value, if that is a number from 0.
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    /// Its value, if that is a whole number.
    #[prost(int64, optional, tag = "4")]
    pub int_value: Option<i64>,
    /// Its value, if that is another number.
    #[prost(double, optional, tag = "5")]
    pub double_value: Option<f64>,
    /// Its value, if that is a text.
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
    /// Its name, if that has no number.
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
}

/// Names that get numbers (`InternedData`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct InternedDataMessage {
    /// Categories of events.
    #[prost(message, repeated, tag = "1")]
    pub event_categories: Vec<InternedNameMessage>,
    /// Names of events.
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<InternedNameMessage>,
    /// Names of arguments.
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<InternedNameMessage>,
}

/// A name and its number (`EventCategory`, `EventName`, `DebugAnnotationName`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct InternedNameMessage {
    /// The number, from 1.
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// The name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}
