//! Reads trace files as Perfetto does: tracks, their slices, and arrows.

use baton_formats::trace::messages::{
    AnnotationMessage, EventType, InternedDataMessage, InternedNameMessage, TraceMessage,
    TrackEventMessage,
};
use prost::Message;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// A slice of a track, or an instant, which begins and ends at the same time. In nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) track: String,
    pub(crate) name: String,
    pub(crate) category: String,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// The number of slices around it.
    pub(crate) depth: usize,
    pub(crate) causes: Vec<u64>,
    pub(crate) caused_by: Vec<u64>,
    /// Arguments that are texts or numbers, as texts.
    pub(crate) arguments: Vec<(String, String)>,
}

/// A whole file.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) pieces: Vec<Piece>,
}

/// Names by their numbers.
#[derive(Default)]
struct Names(HashMap<u64, String>);

impl Names {
    fn learn(&mut self, names: Vec<InternedNameMessage>) {
        let named = names
            .into_iter()
            .map(|name| (name.iid(), name.name().to_owned()));
        self.0.extend(named);
    }

    fn get(&self, number: Option<u64>, name: Option<&str>) -> String {
        match (number, name) {
            (Some(number), _) => self.0[&number].clone(),
            (None, name) => name.unwrap_or_default().to_owned(),
        }
    }
}

#[derive(Default)]
struct Tables {
    categories: Names,
    events: Names,
    arguments: Names,
}

impl Tables {
    fn learn(&mut self, data: InternedDataMessage) {
        self.categories.learn(data.event_categories);
        self.events.learn(data.event_names);
        self.arguments.learn(data.debug_annotation_names);
    }

    fn argument(&self, annotation: &AnnotationMessage) -> (String, String) {
        let name = self
            .arguments
            .get(annotation.name_iid, annotation.name.as_deref());
        let value = match (&annotation.string_value, annotation.uint_value) {
            (Some(text), _) => text.clone(),
            (None, Some(number)) => number.to_string(),
            (None, None) => String::new(),
        };
        (name, value)
    }

    fn piece(&self, event: &TrackEventMessage, track: &str, at: u64) -> Piece {
        let category = event.category_iids.first().copied();
        Piece {
            track: track.to_owned(),
            name: self.events.get(event.name_iid, event.name.as_deref()),
            category: self.categories.get(category, None),
            begin: at,
            end: at,
            depth: 0,
            causes: event.flow_ids.clone(),
            caused_by: event.terminating_flow_ids.clone(),
            arguments: event
                .debug_annotations
                .iter()
                .map(|annotation| self.argument(annotation))
                .collect(),
        }
    }
}

impl Trace {
    /// Reads a file. Fails the test if it is none, or if a slice ends before it begins.
    pub(crate) fn read(path: &Path) -> Trace {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let message = TraceMessage::decode(&bytes[..]).expect("packets of Perfetto");
        let mut tables = Tables::default();
        let mut tracks: HashMap<u64, String> = HashMap::new();
        let mut open: HashMap<u64, Vec<Piece>> = HashMap::new();
        let mut pieces = Vec::new();
        let mut last = 0;
        // Within a track, events are in the order of their times.
        let mut latest: HashMap<u64, u64> = HashMap::new();
        for packet in message.packet {
            if let Some(data) = packet.interned_data {
                tables.learn(data);
            }
            if let Some(track) = packet.track_descriptor {
                let of_thread = track.thread.and_then(|thread| thread.thread_name);
                let name = track.name.or(of_thread).unwrap_or_default();
                tracks.insert(track.uuid.unwrap_or_default(), name);
            }
            let Some(event) = packet.track_event else {
                continue;
            };
            let (at, track) = (packet.timestamp.unwrap_or(0), event.track_uuid());
            let name = tracks.get(&track).expect("a track is described first");
            let before = latest.insert(track, at).unwrap_or(0);
            assert!(before <= at, "on '{name}', {at} comes after {before}");
            last = last.max(at);
            let stack = open.entry(track).or_default();
            match event.r#type() {
                EventType::SliceBegin => {
                    let depth = stack.len();
                    let piece = tables.piece(&event, name, at);
                    stack.push(Piece { depth, ..piece });
                }
                EventType::SliceEnd => {
                    let begun = stack.pop().expect("a slice ends that has begun");
                    pieces.push(Piece { end: at, ..begun });
                }
                EventType::Instant => pieces.push(Piece {
                    depth: stack.len(),
                    ..tables.piece(&event, name, at)
                }),
                EventType::Counter | EventType::Unspecified => {}
            }
        }
        let left = open.into_values().flatten();
        assert_eq!(left.count(), 0, "all slices have ended");
        pieces.sort_by_key(|piece| piece.begin);
        Trace { pieces }
    }

    /// The slices and instants of a track.
    pub(crate) fn of<'a>(&'a self, track: &'a str) -> impl Iterator<Item = &'a Piece> {
        self.pieces.iter().filter(move |piece| piece.track == track)
    }

    /// The names of the slices and instants of a track, in order.
    pub(crate) fn names<'a>(&'a self, track: &'a str) -> Vec<&'a str> {
        self.of(track).map(|piece| piece.name.as_str()).collect()
    }

    /// The first slice or instant of a track with this name. Fails the test if there is none.
    pub(crate) fn find(&self, track: &str, name: &str) -> &Piece {
        let mut pieces = self.pieces.iter();
        let found = pieces.find(|piece| piece.track == track && piece.name == name);
        found.unwrap_or_else(|| panic!("no '{name}' on '{track}' in {self:#?}"))
    }

    /// Whether an arrow leads from one to the other.
    pub(crate) fn leads(from: &Piece, to: &Piece) -> bool {
        from.causes.iter().any(|flow| to.caused_by.contains(flow))
    }
}

impl Piece {
    pub(crate) fn nanoseconds(&self) -> u64 {
        self.end - self.begin
    }
}
