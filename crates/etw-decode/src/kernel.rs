//! Classic classes of the kernel: the table of their fields, by class GUID, type and version.

use crate::field::{Count, Field, Kind, Length};
use crate::schema::{Names, Schema};
use etw_tracelogging::{Show, Wire};
use etw_types::Guid;
use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

// Not a constant, which may have several addresses.
static TABLE: &str = include_str!("kernel.txt");

/// An event of a class.
#[derive(Debug)]
pub(crate) struct KernelEvent {
    version: u8,
    /// The row describes only payloads that its fields fill.
    needs_exact_fit: bool,
    /// `Class/Type`
    pub name: String,
    /// Its fields in the table.
    fields: &'static str,
    schema: OnceLock<Option<Schema>>,
}

impl KernelEvent {
    /// Its schema, which is built when the first event needs it; `None` if only its name is known.
    pub fn schema(&self) -> Option<&Schema> {
        let is_known = self.fields.trim() != "?";
        let build = || is_known.then(|| schema(&self.name, self.fields, self.needs_exact_fit));
        self.schema.get_or_init(build).as_ref()
    }
}

/// The provider of all classes, as Windows names it.
pub(crate) const PROVIDER: &str = "MSNT_SystemTrace";

/// A class, whose rows are parsed when the first event needs them: most traces have a few of them.
struct Class {
    name: &'static str,
    rows: &'static str,
    events: OnceLock<Events>,
}

/// The events of a class by their type, those of lower versions first.
type Events = Vec<Vec<KernelEvent>>;

type Classes = HashMap<Guid, Class, foldhash::fast::RandomState>;

static CLASSES: LazyLock<Classes> = LazyLock::new(classes);

/// The rows for an event of a class, in the order of the table: those of the newest version that is not above the record's.
pub(crate) fn events(class: Guid, kind: u8, version: u8) -> &'static [KernelEvent] {
    let versions = CLASSES.get(&class).map_or(&[][..], |class| class.versions(kind));
    let end = versions.partition_point(|event| event.version <= version);
    let Some(newest) = versions[..end].last() else { return &[] };
    let start = versions.partition_point(|event| event.version < newest.version);
    &versions[start..end]
}

/// The name of an event whatever its version, as that of a class that is known.
pub(crate) fn name(class: Guid, kind: u8) -> Option<&'static str> {
    CLASSES.get(&class)?.versions(kind).last().map(|event| event.name.as_str())
}

/// The name of a class whose event is not known.
pub(crate) fn class_name(class: &Guid) -> Option<&'static str> {
    CLASSES.get(class).map(|class| class.name)
}

/// Finds the classes in the table: the lines that begin with neither a space nor `#`.
fn classes() -> Classes {
    let starts = TABLE.lines().filter(|line| !line.starts_with(['#', ' ']));
    let mut starts = starts.filter_map(|line| line.split_once(' ')).peekable();
    let mut classes = Classes::default();
    while let Some((guid, name)) = starts.next() {
        let start = place(name) + name.len();
        let rows = &TABLE[start..starts.peek().map_or(TABLE.len(), |(next, _)| place(next))];
        if let Ok(guid) = guid.parse() {
            classes.insert(guid, Class { name, rows, events: OnceLock::new() });
        }
    }
    classes
}

impl Class {
    fn versions(&'static self, kind: u8) -> &'static [KernelEvent] {
        let events = self.events.get_or_init(|| self.parse());
        events.get(usize::from(kind)).map_or(&[], Vec::as_slice)
    }

    fn parse(&self) -> Events {
        let mut by_kind = Events::new();
        let mut lines = self.rows.lines().filter(|line| !line.starts_with('#')).peekable();
        while let Some(line) = lines.next() {
            let Some(events) = line.strip_prefix("  v") else { continue };
            let (version, events) = events.split_once(' ').unwrap_or((events, ""));
            let (version, needs_exact_fit) = match version.strip_suffix('=') {
                Some(version) => (version, true),
                None => (version, false),
            };
            let version = version.parse().unwrap_or(0);
            let mut fields = "";
            while let Some(more) = lines.next_if(|line| line.starts_with("    ")) {
                fields = joined(fields, more);
            }
            for event in events.split(", ") {
                let Some((kind, event)) = event.split_once(' ') else { continue };
                let Ok(kind) = kind.parse::<u8>() else { continue };
                let kind = usize::from(kind);
                by_kind.resize_with(by_kind.len().max(kind + 1), Vec::new);
                let name = format!("{}/{event}", self.name);
                let schema = OnceLock::new();
                by_kind[kind].push(KernelEvent { version, needs_exact_fit, name, fields, schema });
            }
        }
        for versions in &mut by_kind {
            versions.sort_by_key(|event| event.version);
        }
        by_kind
    }
}

/// The offset of a part of the table.
fn place(part: &'static str) -> usize {
    part.as_ptr() as usize - TABLE.as_ptr() as usize
}

/// The part of the table from the start of `first` to the end of `last`, which comes behind it.
fn joined(first: &'static str, last: &'static str) -> &'static str {
    if first.is_empty() {
        return last;
    }
    &TABLE[place(first)..place(last) + last.len()]
}

fn schema(name: &str, text: &str, needs_exact_fit: bool) -> Schema {
    let mut fields: Vec<Field> = Vec::new();
    // The struct at the end of the fields, and its members.
    let mut members: Option<Vec<Field>> = None;
    let mut optional_from = usize::MAX;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    for token in lines.flat_map(str::split_ascii_whitespace) {
        if let Some((name, source)) = token.split_once("{@") {
            let count = count_of(source, &fields);
            fields.push(Field { count, ..Field::new(name, Wire::Nothing, Show::Plain) });
            members = Some(Vec::new());
            continue;
        }
        let Some((name, code)) = token.split_once(':') else { continue };
        let code = match code.strip_suffix('?') {
            Some(code) => {
                optional_from = optional_from.min(fields.len());
                code
            }
            None => code,
        };
        let list = members.as_mut().unwrap_or(&mut fields);
        if let Some((code, count)) = code.split_once('#') {
            let numbers = 1..=count.parse().unwrap_or(0);
            list.extend(numbers.map(|number| field(&format!("{name}{number}"), code)));
            continue;
        }
        let (code, count) = match code.split_once('@') {
            Some((code, source)) => (code, count_of(source, list)),
            None => match code.strip_suffix('*') {
                Some(code) => (code, Count::Rest),
                None => (code, Count::One),
            },
        };
        list.push(Field { count, ..field(name, code) });
    }
    let names =
        Names { provider: Some(PROVIDER.into()), event: Some(name.to_owned()), ..Names::default() };
    // A compressed text is not walked: it is read behind the others.
    let ends_compressed = text.trim_end().ends_with(":z");
    let count = fields.len() - usize::from(ends_compressed);
    if let (Some(members), Some(last)) = (members, fields.last_mut()) {
        last.kind = Kind::Struct { first: count, count: members.len() };
        fields.extend(members);
    }
    Schema {
        ends_early: !needs_exact_fit,
        optional_from,
        ends_compressed,
        needs_exact_fit,
        ..Schema::new(names, fields, count)
    }
}

/// As many as the field of this name says.
fn count_of(source: &str, fields: &[Field]) -> Count {
    let source = fields.iter().position(|field| field.name == source);
    source.map_or(Count::One, Count::Field)
}

fn field(name: &str, code: &str) -> Field {
    if let Some(units) = code.strip_prefix('c') {
        let length = Length::Fixed(units.parse().unwrap_or(0));
        return Field { length, ..Field::new(name, Wire::Utf16, Show::Plain) };
    }
    if let Some(bytes) = code.strip_prefix('x') {
        let length = Length::Fixed(bytes.parse().unwrap_or(0));
        return Field { length, ..Field::new(name, Wire::Binary, Show::Plain) };
    }
    let (wire, show) = match code {
        "b" => (Wire::U8, Show::Plain),
        "B" => (Wire::I8, Show::Plain),
        "h" => (Wire::U16, Show::Plain),
        "H" => (Wire::I16, Show::Plain),
        "u" => (Wire::U32, Show::Plain),
        "i" => (Wire::I32, Show::Plain),
        "q" | "t" => (Wire::U64, Show::Plain),
        "Q" => (Wire::I64, Show::Plain),
        "p" => (Wire::Pointer, Show::Hex),
        "o" => (Wire::U8, Show::Boolean),
        "f" => (Wire::FileTime, Show::Plain),
        "g" => (Wire::Guid, Show::Plain),
        "S" => (Wire::WbemSid, Show::Plain),
        "4" => (Wire::U32, Show::Ipv4),
        "6" => (Wire::Binary, Show::Ipv6),
        "P" => (Wire::U16, Show::Port),
        "s" | "z" => (Wire::Utf16, Show::Plain),
        "a" => (Wire::Ansi, Show::Plain),
        // The table is ours: its test finds this.
        _ => (Wire::Nothing, Show::Plain),
    };
    Field::new(name, wire, show)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_types::{EventRecord, HeaderType};

    /// The XML of WinSAT, compressed; if it is damaged its bytes are the rest.
    #[test]
    fn compressed_text_is_a_field_and_damaged_text_is_the_rest() {
        let xml: Vec<u8> = "<WinSAT/>\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let stored = 0x3000 | (xml.len() as u16 - 1);
        let mut payload = [1u32, xml.len() as u32].map(u32::to_le_bytes).concat();
        payload.extend(stored.to_le_bytes());
        payload.extend(&xml);
        let mut decoder = crate::Decoder::new();
        let class = "ed54dff8-c409-4cf6-bf83-05e1e61a09c4".parse().ok();
        let mut record = EventRecord::new(HeaderType::Full64, &payload);
        (record.provider, record.descriptor.opcode.0) = (class, 33);
        let decoded = decoder.decode(&record);
        let style = crate::Style::default();
        let mut texts = crate::field_texts::FieldTexts::new(&style);
        let visited = decoded.visit_part(&record, &mut texts).unwrap();
        assert!(visited.rest.is_empty() && visited.reason.is_none());
        assert_eq!(texts.get(2).as_deref(), Some("<WinSAT/>"));
        let damaged = &payload[..payload.len() - 1];
        let mut record = EventRecord::new(HeaderType::Full64, damaged);
        (record.provider, record.descriptor.opcode.0) = (class, 33);
        let decoded = decoder.decode(&record);
        assert_eq!(decoded.visit_part(&record, &mut ()).unwrap().rest, &damaged[8..]);
    }

    fn decoded(hook: u16, version: u8, payload: &[u8]) -> (Option<String>, Vec<(String, String)>) {
        let mut decoder = crate::Decoder::new();
        let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
        record.hook = Some(etw_types::Hook(hook));
        record.descriptor.version = version;
        record.pointer_size = 8;
        let decoded = decoder.decode(&record);
        let fields = decoded.fields_text(&record, &crate::Style::default()).unwrap();
        (decoded.event_name().map(str::to_owned), fields)
    }

    /// Memory counts of several builds: the row that fills the payload counts; a payload that no row fills stays undecoded.
    #[test]
    fn of_several_rows_the_one_that_fills_the_payload_counts() {
        let pages = |count: u64| (1..=count).flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
        for (payload, first, count) in [
            (pages(21), "ZeroPageCount", 21),
            (pages(22), "ZeroPageCount", 22),
            (pages(26), "ZeroPageCount", 26),
            ([&[8][..], &pages(26)].concat(), "PriorityLevels", 27),
        ] {
            let (name, fields) = decoded(0x0270, 2, &payload);
            assert_eq!(name.as_deref(), Some("PageFault/SystemMemInfo"));
            assert_eq!((&*fields[0].0, fields.len()), (first, count));
        }
        let (name, fields) = decoded(0x0270, 2, &pages(23));
        assert_eq!((name.as_deref(), fields.len()), (Some("PageFault/SystemMemInfo"), 0));
    }

    /// A record that is cut between two fields has a reason, like one that is cut in a field. Older versions, and fields that builds may lack,
    /// are not cut.
    #[test]
    fn a_record_that_ends_between_two_fields_says_so() {
        let reason = |hook: u16, version: u8, size: usize| {
            let payload = [&[7; 8][..], &vec![0; size.saturating_sub(8)]].concat();
            let mut decoder = crate::Decoder::new();
            let mut record = EventRecord::new(HeaderType::PerfInfo64, &payload[..size]);
            record.hook = Some(etw_types::Hook(hook));
            record.descriptor.version = version;
            let decoded = decoder.decode(&record);
            let fit = decoded.fit(&record).unwrap();
            let reason = decoded.visit_part(&record, &mut ()).unwrap().reason;
            assert_eq!(fit.is_cut, reason.is_some());
            reason.map(|reason| reason.to_string())
        };
        const DISK_READ: u16 = 0x010a;
        let names = ["IrpFlags", "TransferSize", "Reserved", "ByteOffset", "FileObject", "Irp"];
        let names = names.into_iter().chain(["HighResResponseTime", "IssuingThreadId"]);
        for (name, size) in names.zip([4, 8, 12, 16, 24, 32, 40, 48]) {
            let told = format!("payload ends before field \"{name}\" at offset {size}");
            assert!(reason(DISK_READ, 3, size).is_some_and(|reason| reason.ends_with(&told)));
            // Inside the field behind it.
            let told = format!("payload ends inside field \"{name}\" at offset {size}");
            assert!(reason(DISK_READ, 3, size + 1).is_some_and(|reason| reason.ends_with(&told)));
        }
        assert_eq!((reason(DISK_READ, 3, 52), reason(DISK_READ, 2, 48)), (None, None));
        const THREAD_START: u16 = 0x0501;
        assert_eq!((reason(THREAD_START, 3, 72), reason(THREAD_START, 3, 76)), (None, None));
        assert!(reason(THREAD_START, 3, 71).unwrap().contains("ends before field \"ThreadFlags\""));
        const FILE_READ: u16 = 0x0443;
        assert_eq!((reason(FILE_READ, 3, 44), reason(FILE_READ, 3, 48)), (None, None));
        assert!(reason(FILE_READ, 3, 40).unwrap().contains("ends before field \"IoFlags\""));
        // A stack without frames, and lists without elements.
        assert_eq!((reason(0x1820, 2, 16), reason(0x1820, 2, 24)), (None, None));
        assert!(reason(0x1820, 2, 12).is_some());
    }

    /// The working sets of two processes, in the forms of Windows 7 and 10.
    #[test]
    fn structs_of_an_array_are_read_one_by_one() {
        for pages in [4, 8] {
            let mut payload = 2u32.to_le_bytes().to_vec();
            for process in [4u32, 77] {
                payload.extend(process.to_le_bytes());
                (0..pages).for_each(|page: u64| payload.extend((page + 0x10).to_le_bytes()));
            }
            let (name, fields) = decoded(0x027d, 2, &payload);
            assert_eq!(name.as_deref(), Some("PageFault/ProcessMemInfo"));
            assert_eq!(fields.len(), 2);
            assert!(fields[1].1.contains("77") && fields[1].1.contains("0x10"), "{fields:?}");
        }
    }

    fn all_versions(class: &'static Class) -> &'static [Vec<KernelEvent>] {
        class.events.get_or_init(|| class.parse())
    }

    /// Rows of one version: each name once, and at most one that takes any payload.
    #[test]
    fn rows_of_one_version_differ_in_their_fields_alone() {
        for versions in CLASSES.values().flat_map(all_versions) {
            for rows in versions.chunk_by(|a, b| a.version == b.version) {
                assert!(rows.iter().all(|row| row.name == rows[0].name), "{rows:?}");
                let known = rows.iter().filter(|row| row.schema().is_some());
                let any = known.filter(|row| !row.needs_exact_fit).count();
                assert!(any <= 1, "{}", rows[0].name);
            }
        }
    }

    #[test]
    fn an_event_that_is_not_known_has_the_names_of_its_class_and_provider() {
        let mut record = EventRecord::new(HeaderType::Full64, &[1, 2, 3]);
        record.provider = "9b79ee91-b5fd-41c0-a243-4248e266e9d0".parse().ok();
        record.descriptor.opcode.0 = 37;
        let mut decoder = crate::Decoder::new();
        let decoded = decoder.decode(&record);
        assert!(decoded.schema().is_none());
        assert_eq!(decoded.provider_name().as_deref(), Some(PROVIDER));
        assert_eq!(decoded.event_name(), Some("SysConfigEx"));
    }

    #[test]
    fn the_table_is_whole() {
        let mut classes = Vec::new();
        for line in TABLE.lines().filter(|line| !line.starts_with([' ', '#'])) {
            let (guid, name) = line.split_once(' ').unwrap();
            let guid: Guid = guid.parse().unwrap();
            assert_eq!(class_name(&guid), Some(name), "each class is in one place");
            classes.push(guid);
        }
        assert!(classes.len() > 20 && classes.len() == CLASSES.len());
        for event in CLASSES.values().flat_map(all_versions).flatten() {
            for field in event.schema().into_iter().flat_map(|schema| &schema.fields) {
                let unknown = matches!(field.kind, Kind::Scalar { wire: Wire::Nothing, .. });
                assert!(!unknown, "{} {}", event.name, field.name);
            }
        }
        let event =
            |class: &str, kind, version| events(class.parse().unwrap(), kind, version).first();
        // MIB_IF_ROW2 has 1,352 bytes, as the records seen.
        let interface = event("9b79ee91-b5fd-41c0-a243-4248e266e9d0", 36, 0).unwrap();
        let schema = interface.schema().unwrap();
        assert_eq!(crate::walk(schema, &[1; 1352], 8, &mut ()), Ok(1352));
        let optical = event("01853a65-418f-4f36-aefc-dc0f1d2fd235", 18, 2).unwrap();
        let payload = [&[0; 64][..], b"D\0:\0\0\0U\0\0\0Drive\0Maker\0"].concat();
        let whole = crate::walk(optical.schema().unwrap(), &payload, 8, &mut ());
        assert_eq!(whole, Ok(payload.len()));
        let portable = event("b3e675d7-2554-4f18-830b-2762732560de", 38, 2).unwrap();
        assert_eq!(portable.name, "ImageID/DbgPPDB");
        assert_eq!(crate::walk(portable.schema().unwrap(), &[1; 20], 8, &mut ()), Ok(20));
        let fault = "3d6fa8d3-fe05-11d0-9dda-00c04fd7ba7c";
        let access = event(fault, 118, 2).unwrap();
        for size in [24, 32] {
            let whole = crate::walk(access.schema().unwrap(), &vec![1; size], 8, &mut ());
            assert_eq!(whole, Ok(size));
        }
        assert_eq!(event(fault, 112, 2).unwrap().name, "PageFault/SystemMemInfo");
        let processor = "01853a65-418f-4f36-aefc-dc0f1d2fd235".parse().unwrap();
        assert_eq!(name(processor, 35), Some("SystemConfig/Processor"));
        let process = "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c";
        assert_eq!(event(process, 1, 9).unwrap().version, 4);
        assert_eq!(event(process, 11, 1).map(|event| &event.name), None);
        let walk = event("def2fe46-7bd6-4b80-bd94-f57fe20d0ce3", 32, 2).unwrap();
        assert_eq!(walk.schema().unwrap().fields.len(), 3 + 192);
    }
}
