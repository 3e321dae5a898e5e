//! A reader of Perfetto's packets, with the texts that they name by number.

use prost::Message;
use std::collections::HashMap;

pub const SLICE_BEGIN: i32 = 1;
pub const SLICE_END: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct Packets {
    #[prost(message, repeated, tag = "1")]
    packets: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(uint64, tag = "8")]
    time: u64,
    #[prost(uint32, tag = "10")]
    sequence: u32,
    #[prost(message, optional, tag = "11")]
    event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned: Option<Interned>,
    #[prost(uint32, tag = "13")]
    flags: u32,
    #[prost(message, optional, tag = "60")]
    track: Option<Track>,
}

#[derive(Clone, PartialEq, Message)]
struct Interned {
    #[prost(message, repeated, tag = "1")]
    categories: Vec<Text>,
    #[prost(message, repeated, tag = "2")]
    names: Vec<Text>,
    #[prost(message, repeated, tag = "3")]
    annotation_names: Vec<Text>,
    #[prost(message, repeated, tag = "29")]
    values: Vec<Text>,
}

#[derive(Clone, PartialEq, Message)]
struct Text {
    #[prost(uint64, tag = "1")]
    number: u64,
    #[prost(string, tag = "2")]
    text: String,
}

#[derive(Clone, PartialEq, Message)]
struct Track {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    categories: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    annotations: Vec<Annotation>,
    #[prost(int32, tag = "9")]
    kind: i32,
    #[prost(uint64, optional, tag = "10")]
    name: Option<u64>,
    #[prost(uint64, tag = "11")]
    track: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Annotation {
    #[prost(uint64, tag = "1")]
    name: u64,
    #[prost(string, optional, tag = "6")]
    text: Option<String>,
    #[prost(uint64, optional, tag = "17")]
    text_number: Option<u64>,
}

pub struct Trace {
    pub events: Vec<Event>,
    /// Names of tracks, by number.
    pub tracks: HashMap<u64, String>,
}

pub struct Event {
    pub time: u64,
    pub kind: i32,
    pub track: u64,
    /// Empty: the end of a slice that needs none.
    pub name: String,
    pub categories: Vec<String>,
    /// Names and texts; a value that is no text is empty.
    pub annotations: Vec<(String, String)>,
}

/// The texts of a sequence: categories, names, names of annotations, values.
type State = [HashMap<u64, String>; 4];

/// Reads a file to its last byte. Numbers have to be introduced once, before their use or with it, after a packet that clears the state.
pub fn read(bytes: &[u8]) -> Trace {
    let mut trace = Trace { events: Vec::new(), tracks: HashMap::new() };
    let mut states: HashMap<u32, State> = HashMap::new();
    for packet in Packets::decode(bytes).unwrap().packets {
        if let Some(track) = packet.track {
            trace.tracks.insert(track.uuid, track.name);
        }
        if packet.flags & 1 != 0 {
            states.insert(packet.sequence, State::default());
        }
        if let Some(new) = packet.interned {
            let state = states.get_mut(&packet.sequence).expect("a cleared state");
            let lists = [new.categories, new.names, new.annotation_names, new.values];
            for (texts, list) in state.iter_mut().zip(lists) {
                for Text { number, text } in list {
                    assert_eq!(texts.insert(number, text), None, "number {number} has two texts");
                }
            }
        }
        if let Some(event) = packet.event {
            let state = (packet.flags & 2 != 0).then(|| &states[&packet.sequence]);
            trace.events.push(resolved(packet.time, event, state));
        }
    }
    trace
}

fn resolved(time: u64, event: TrackEvent, state: Option<&State>) -> Event {
    let text =
        |kind: usize, number: u64| state.expect("the flag of numbers")[kind][&number].clone();
    let annotations = event.annotations.into_iter().map(|annotation| {
        let value = annotation.text_number.map(|number| text(3, number)).or(annotation.text);
        (text(2, annotation.name), value.unwrap_or_default())
    });
    Event {
        time,
        kind: event.kind,
        track: event.track,
        annotations: annotations.collect(),
        name: event.name.map(|number| text(1, number)).unwrap_or_default(),
        categories: event.categories.into_iter().map(|number| text(0, number)).collect(),
    }
}
