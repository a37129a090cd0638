//! The messages of pprof's `profile.proto` that Baton writes
//! (<https://github.com/google/pprof/blob/main/proto/profile.proto>).
//!
//! A text is a number in [`ProfileMessage::string_table`]. Fields that are not listed here are
//! skipped by a reader.

/// A whole profile (`Profile`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProfileMessage {
    /// What each value of a sample means.
    #[prost(message, repeated, tag = "1")]
    pub sample_type: Vec<ValueTypeMessage>,
    /// What was measured.
    #[prost(message, repeated, tag = "2")]
    pub sample: Vec<SampleMessage>,
    /// Programs and libraries in memory.
    #[prost(message, repeated, tag = "3")]
    pub mapping: Vec<MappingMessage>,
    /// Places in the code.
    #[prost(message, repeated, tag = "4")]
    pub location: Vec<LocationMessage>,
    /// Functions.
    #[prost(message, repeated, tag = "5")]
    pub function: Vec<FunctionMessage>,
    /// All texts; the first one is empty.
    #[prost(string, repeated, tag = "6")]
    pub string_table: Vec<String>,
    /// When it began, in nanoseconds since 1970.
    #[prost(int64, tag = "9")]
    pub time_nanos: i64,
    /// How long it lasted, in nanoseconds.
    #[prost(int64, tag = "10")]
    pub duration_nanos: i64,
    /// What lies between two samples.
    #[prost(message, optional, tag = "11")]
    pub period_type: Option<ValueTypeMessage>,
    /// How much of it.
    #[prost(int64, tag = "12")]
    pub period: i64,
    /// The type that a reader shows first, as a text.
    #[prost(int64, tag = "14")]
    pub default_sample_type: i64,
}

/// What a value means, and its unit (`ValueType`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueTypeMessage {
    /// A text such as `cpu`. The schema calls it `type`.
    #[prost(int64, tag = "1")]
    pub kind: i64,
    /// A text such as `nanoseconds`.
    #[prost(int64, tag = "2")]
    pub unit: i64,
}

/// What was measured at one stack (`Sample`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct SampleMessage {
    /// The locations, the innermost first.
    #[prost(uint64, repeated, tag = "1")]
    pub location_id: Vec<u64>,
    /// A value for each type of the profile.
    #[prost(int64, repeated, tag = "2")]
    pub value: Vec<i64>,
    /// What else is known.
    #[prost(message, repeated, tag = "3")]
    pub label: Vec<LabelMessage>,
}

/// Something that is known of a sample (`Label`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct LabelMessage {
    /// Its name, a text.
    #[prost(int64, tag = "1")]
    pub key: i64,
    /// Its value, if that is a text.
    #[prost(int64, tag = "2")]
    pub str: i64,
    /// Its value, if that is a number.
    #[prost(int64, tag = "3")]
    pub num: i64,
}

/// A program or library in memory (`Mapping`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct MappingMessage {
    /// Its number, not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its file, a text.
    #[prost(int64, tag = "5")]
    pub filename: i64,
    /// Whether the names of its functions are known.
    #[prost(bool, tag = "7")]
    pub has_functions: bool,
    /// Whether their files are known.
    #[prost(bool, tag = "8")]
    pub has_filenames: bool,
    /// Whether their lines are known.
    #[prost(bool, tag = "9")]
    pub has_line_numbers: bool,
}

/// A place in the code (`Location`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct LocationMessage {
    /// Its number, not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// The mapping that has it.
    #[prost(uint64, tag = "2")]
    pub mapping_id: u64,
    /// The line; several if functions were inlined.
    #[prost(message, repeated, tag = "4")]
    pub line: Vec<LineMessage>,
}

/// A line of a function (`Line`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct LineMessage {
    /// The function.
    #[prost(uint64, tag = "1")]
    pub function_id: u64,
    /// The line in its file; 0 if that is not known.
    #[prost(int64, tag = "2")]
    pub line: i64,
}

/// A function (`Function`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct FunctionMessage {
    /// Its number, not 0.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Its name, a text.
    #[prost(int64, tag = "2")]
    pub name: i64,
    /// Its name in the machine's code, a text.
    #[prost(int64, tag = "3")]
    pub system_name: i64,
    /// Its file, a text.
    #[prost(int64, tag = "4")]
    pub filename: i64,
    /// Its first line; 0 if that is not known.
    #[prost(int64, tag = "5")]
    pub start_line: i64,
}
