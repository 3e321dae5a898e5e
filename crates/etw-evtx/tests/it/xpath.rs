//! OV-22: expressions over a log of our own, compared with an independent evaluator.
//!
//! `xpath/table.txt` has over 200 expressions and the ids that lxml gives for them on the log's XML. Where Python has lxml, it is asked
//! again, with as many expressions of another seed. `ETW_BLESS=1` writes the table from lxml's answers, never from ours.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use etw_evtx::Log;
use etw_evtx::query::{Query, QueryList, Selector};
use etw_evtx::tree::{Argument, Fragment, Instance, Node, Template};
use etw_evtx::value::{Value, ValueType};
use etw_evtx::write::{LogWriter, Retention};
use etw_types::{FileTime, Guid};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/xpath/table.txt");
const COUNT: usize = 212;
/// 2023-05-18T12:26:40Z
const START: i64 = 133_288_864_000_000_000;
const MINUTE: i64 = 600_000_000;
const RECORDS: u64 = 360;

const PROVIDERS: [&str; 3] = ["Shop", "Till & Co", "Door"];
const USERS: [&str; 4] = ["ann", "bob", "007", ""];

/// `System` as Windows has it, with the fields that expressions name, and the event's data as a fragment.
fn system() -> Arc<Template> {
    let of = |name: &str, index, value_type| {
        Node::element(name, vec![], vec![Node::value(index, value_type)])
    };
    let system = vec![
        Node::element("Provider", vec![("Name", Node::value(0, ValueType::STRING))], vec![]),
        of("EventID", 1, ValueType::UINT16),
        of("Version", 2, ValueType::UINT8),
        of("Level", 3, ValueType::UINT8),
        of("Task", 4, ValueType::UINT16),
        of("Keywords", 5, ValueType::HEX64),
        Node::element(
            "TimeCreated",
            vec![("SystemTime", Node::value(6, ValueType::FILETIME))],
            vec![],
        ),
        of("EventRecordID", 7, ValueType::UINT64),
        Node::element("Execution", vec![("ProcessID", Node::value(8, ValueType::UINT32))], vec![]),
        of("Channel", 9, ValueType::STRING),
        Node::element("Computer", vec![], vec![Node::Text("host".into())]),
    ];
    let event = Node::element(
        "Event",
        vec![],
        vec![Node::element("System", vec![], system), Node::value(10, ValueType::FRAGMENT)],
    );
    Arc::new(Template::new(Guid::from_name("xpath system"), vec![event]))
}

fn data() -> Arc<Template> {
    let name = |name: &str| ("Name", Node::Text(name.into()));
    let of = |known: &str, index, value_type| {
        Node::element("Data", vec![name(known)], vec![Node::value(index, value_type)])
    };
    let data = vec![
        of("User", 0, ValueType::STRING),
        of("Count", 1, ValueType::INT32),
        of("Open", 2, ValueType::BOOL),
        Node::element("Data", vec![], vec![Node::value(3, ValueType(0x81))]),
        // So that the log has several chunks.
        of("Note", 4, ValueType::STRING),
    ];
    let data = vec![Node::element("EventData", vec![], data)];
    Arc::new(Template::new(Guid::from_name("xpath data"), data))
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// The log: several chunks, a record a minute.
fn log(name: &str) -> Log {
    let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    let (system, data) = (system(), data());
    let mut writer = LogWriter::open(&path, u64::MAX, Retention::Keep).unwrap();
    for id in 1..=RECORDS {
        let time = START + id as i64 * MINUTE;
        let inner: Vec<(ValueType, Vec<u8>)> = vec![
            (ValueType::STRING, utf16(USERS[id as usize % 4])),
            (ValueType::INT32, ((id % 50) as i32 - 25).to_le_bytes().to_vec()),
            (ValueType::BOOL, u32::from(id % 3 == 0).to_le_bytes().to_vec()),
            (ValueType(0x81), utf16(&format!("one\0two\0{}\0", id % 6))),
            (ValueType::STRING, utf16(&"x".repeat(300))),
        ];
        let outer: Vec<(ValueType, Vec<u8>)> = vec![
            (ValueType::STRING, utf16(PROVIDERS[id as usize % 3])),
            (ValueType::UINT16, (4600 + (id % 30) as u16).to_le_bytes().to_vec()),
            (ValueType::UINT8, vec![(id % 2) as u8]),
            (ValueType::UINT8, vec![(id % 5) as u8 + 1]),
            (ValueType::UINT16, ((id % 7) as u16).to_le_bytes().to_vec()),
            (ValueType::HEX64, ((1u64 << 63) | (id % 16)).to_le_bytes().to_vec()),
            (ValueType::FILETIME, time.to_le_bytes().to_vec()),
            (ValueType::UINT64, id.to_le_bytes().to_vec()),
            (ValueType::UINT32, (id as u32 % 11 * 4).to_le_bytes().to_vec()),
            (ValueType::STRING, utf16(if id % 2 == 0 { "Shop/Admin" } else { "Shop/Debug" })),
        ];
        let arguments = |values: &'_ [(ValueType, Vec<u8>)]| -> Vec<Argument<'static>> {
            let leaked = values.iter().map(|(value_type, bytes)| {
                let bytes: &'static [u8] = Vec::leak(bytes.clone());
                Argument::Value(Value { value_type: *value_type, bytes })
            });
            leaked.collect()
        };
        let inner =
            Instance { template: data.clone(), arguments: arguments(&inner), has_header: false };
        let mut outer = arguments(&outer);
        outer.push(Argument::Fragment(Box::new(Fragment::Instance(inner))));
        let record = Instance { template: system.clone(), arguments: outer, has_header: true };
        assert_eq!(writer.append(FileTime(time), &Fragment::Instance(record)).unwrap(), id);
    }
    writer.close().unwrap();
    Log::open(&path).unwrap()
}

/// The time that `timediff` counts to.
const NOW: FileTime = FileTime(START + 460 * MINUTE);

/// The ids that each query selects, read in one pass over all records.
fn selected(log: &Log, queries: &[Query]) -> Vec<Vec<u64>> {
    let mut selected = vec![Vec::new(); queries.len()];
    let mut records = log.records();
    while let Some(record) = records.next().unwrap() {
        for (query, ids) in queries.iter().zip(&mut selected) {
            if query.matches(&record, NOW).unwrap() {
                ids.push(record.id());
            }
        }
    }
    selected
}

/// The ids that a query selects with the push-down to `System`.
fn selected_by_push_down(log: &Log, query: &Query) -> Vec<u64> {
    let selector = Selector::query(query.clone(), NOW);
    let mut ids = Vec::new();
    let mut records = log.candidates(&selector);
    while let Some(record) = records.next().unwrap() {
        if selector.matches(&record).unwrap() {
            ids.push(record.id());
        }
    }
    ids
}

/// A generator of expressions: the same ones for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    fn comparison(&mut self) -> &'static str {
        self.of(&["=", "!=", "<", "<=", ">", ">="])
    }

    fn query(&mut self) -> String {
        match self.below(8) {
            0 => format!("Event/System[{}]", self.system(2)),
            1 => format!("*[System[{}]][EventData[{}]]", self.system(1), self.data(1)),
            2 => format!("Event[EventData[{}]]", self.data(2)),
            3 => format!("*[System[{}] or EventData[{}]]", self.system(1), self.data(1)),
            4 | 5 => format!("*[System[{}] and EventData[{}]]", self.system(1), self.data(1)),
            _ => format!("*[System[{}]]", self.system(2)),
        }
    }

    fn joined(&mut self, depth: usize, one: fn(&mut Random, usize) -> String) -> String {
        let (a, b) = (one(self, depth - 1), one(self, depth - 1));
        match self.below(4) {
            0 => format!("{a} and {b}"),
            1 => format!("({a}) and ({b})"),
            _ => format!("({a} or {b})"),
        }
    }

    fn system(&mut self, depth: usize) -> String {
        if depth > 0 && self.below(3) > 0 {
            return self.joined(depth, Random::system);
        }
        let sign = self.comparison();
        match self.below(12) {
            0 | 1 => format!("EventID{sign}{}", 4600 + self.below(31)),
            2 => format!("Level {sign} {}", self.below(6)),
            3 => format!("{}{sign}Task", self.below(8)),
            4 => format!("EventRecordID{sign}{}", self.below(380)),
            5 => format!("Execution[@ProcessID{sign}{}]", self.below(45)),
            6 => format!("Provider[@Name='{}']", self.of(&["Shop", "Till & Co", "door", "Door"])),
            7 => format!("Channel{}'Shop/Admin'", self.of(&["=", "!="])),
            8 => format!("band(Keywords,{}) {sign} {}", self.below(16), self.below(8)),
            9 => {
                let (limit, end) = (self.below(360) * 60_000, "2023-05-18T18:26:40.000Z");
                format!("TimeCreated[timediff(@SystemTime, '{end}') {sign} {limit}]")
            }
            10 => self.of(&["Version", "Security", "Provider/@Name", "*[@Name]"]).to_owned(),
            _ => format!("Version={}", self.below(3)),
        }
    }

    fn data(&mut self, depth: usize) -> String {
        if depth > 0 && self.below(3) == 0 {
            return self.joined(depth, Random::data);
        }
        let sign = self.comparison();
        match self.below(8) {
            0 => format!("Data[@Name='User']{}'{}'", self.of(&["=", "!="]), self.of(&USERS)),
            1 => format!("Data[@Name='User']{sign}{}", self.below(9)),
            2 => format!("Data[@Name='Count'] {sign} {}", self.below(51) as i64 - 25),
            3 => format!("Data[@Name='Open']='{}'", self.of(&["true", "false"])),
            4 => format!("Data[{}]='{}'", self.below(8), self.of(&["one", "two", "bob", "3"])),
            // Not the boolean: to XPath it is text, to the Event Log a truth value that equals 1.
            5 => format!("Data[position()={}]{sign}{}", 4 + self.below(4), self.below(6)),
            6 => format!("Data[@Name='User']/text(){sign}{}", self.below(6)),
            _ => format!("Data='{}'", self.of(&["one", "5", "ann", "nobody"])),
        }
    }
}

fn expressions(seed: u64) -> Vec<String> {
    let mut random = Random(seed);
    (0..COUNT).map(|_| random.query()).collect()
}

/// The ids that lxml gives for each expression; `None`: Python or lxml is missing.
fn lxml(log: &Log, expressions: &[String]) -> Option<BTreeMap<String, Vec<u64>>> {
    let python = std::env::var("ETW_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_lxml = Command::new(&python).args(["-c", "import lxml.etree"]).output();
    if !has_lxml.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: {python} has no lxml; the table alone was compared");
        return None;
    }
    let mut input = String::new();
    let mut records = log.records();
    while let Some(record) = records.next().unwrap() {
        let _ = writeln!(input, "{}\t{}", record.id(), record.to_xml().unwrap());
    }
    input.push('\n');
    input.push_str(&expressions.join("\n"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/xpath/oracle.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    Some(table(&String::from_utf8(output.stdout).unwrap()))
}

/// Ids in short: `1 4-9`.
fn runs(ids: &[u64]) -> String {
    let runs = ids.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    runs.collect::<Vec<_>>().join(" ")
}

/// Lines of an expression, a tab and ids.
fn table(text: &str) -> BTreeMap<String, Vec<u64>> {
    let row = |line: &str| {
        let (expression, ids) = line.split_once('\t').unwrap();
        let run = |run: &str| {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            first.parse::<u64>().unwrap()..=last.parse().unwrap()
        };
        (expression.to_owned(), ids.split_whitespace().flat_map(run).collect())
    };
    text.lines().map(row).collect()
}

fn assert_equal(log: &Log, expected: &BTreeMap<String, Vec<u64>>) {
    let query =
        |text: &String| -> Query { text.parse().unwrap_or_else(|error| panic!("{text}: {error}")) };
    let queries: Vec<Query> = expected.keys().map(query).collect();
    let selected = selected(log, &queries);
    for ((query, selected), (text, expected)) in queries.iter().zip(selected).zip(expected) {
        assert_eq!(selected, *expected, "{text}");
        assert_eq!(selected_by_push_down(log, query), *expected, "{text}");
    }
}

/// OV-22
#[test]
fn the_expressions_of_the_table_select_the_records_that_lxml_selects() {
    let log = log("xpath_table.evtx");
    if std::env::var_os("ETW_BLESS").is_some()
        && let Some(answers) = lxml(&log, &expressions(0x5eed))
    {
        let mut text = String::new();
        for (expression, ids) in answers {
            let _ = writeln!(text, "{expression}\t{}", runs(&ids));
        }
        std::fs::write(TABLE, text).unwrap();
    }
    let expected = table(&std::fs::read_to_string(TABLE).unwrap());
    assert!(expected.len() >= 200, "{}", expected.len());
    // The expressions tell records apart.
    let telling = expected.values().filter(|ids| !ids.is_empty() && (ids.len() as u64) < RECORDS);
    assert!(telling.count() >= 120);
    assert_equal(&log, &expected);
}

/// OV-22
#[test]
fn generated_expressions_select_the_records_that_lxml_selects() {
    let log = log("xpath_generated.evtx");
    if let Some(answers) = lxml(&log, &expressions(0xfeed)) {
        assert!(answers.len() >= 200);
        assert_equal(&log, &answers);
    }
}

/// OV-22: a query on `System` reads no record but those that it selects, and a query on record numbers no other chunk.
#[test]
fn queries_on_ids_times_and_providers_read_only_what_they_select() {
    let log = log("xpath_pushdown.evtx");
    let candidates = |selector: &Selector| {
        let mut records = log.candidates(selector);
        let mut count = 0;
        while records.next().unwrap().is_some() {
            count += 1;
        }
        count
    };
    for (text, count) in [
        ("*[System[EventID=4607]]", 12),
        ("*[System[Provider[@Name='Door'] and (EventID=4608 or EventID=4611)]]", 24),
        ("*[System[TimeCreated[timediff(@SystemTime) < 6060000]]]", 1),
        (
            "*[System[TimeCreated[@SystemTime>='2023-05-18T12:30:00Z' and @SystemTime<'2023-05-18T12:40:00Z']]]",
            10,
        ),
        ("*[System[EventRecordID=200]]", 1),
        // The rest of a conjunction narrows what its conditions on other elements leave.
        ("*[System[EventID=4607] and EventData[Data='nobody']]", 12),
        ("*[System[EventID=4607] or EventData[Data='nobody']]", 360),
    ] {
        let selector = Selector::query(text.parse().unwrap(), NOW);
        assert_eq!(candidates(&selector), count, "{text}");
    }
    assert!(log.chunks().len() >= 3, "{}", log.chunks().len());
    let selector = Selector::query("*[System[EventRecordID=200]]".parse().unwrap(), NOW);
    assert_eq!(log.candidate_chunks(&selector).len(), 1);
    let list = QueryList::parse(
        "<QueryList><Query Path='Shop/Admin'><Select>*[System[EventID=4607]]</Select>\
         <Select>*[System[EventID=4608]]</Select></Query></QueryList>",
    );
    assert_eq!(candidates(&Selector::list(list.unwrap(), None, NOW)), 24);
}

/// OV-22: chunks without a match by time or event id are not read, as far as their headers are true.
#[test]
fn queries_by_time_and_id_skip_chunks_without_a_match() {
    let log = log("xpath_chunks.evtx");
    let chunks = |log: &Log, text: &str| {
        log.candidate_chunks(&Selector::query(text.parse().unwrap(), NOW)).len()
    };
    let all = log.chunks().len();
    let after = "*[System[TimeCreated[@SystemTime >= '2023-05-19T00:00:00Z']]]";
    let one = "*[System[TimeCreated[@SystemTime>='2023-05-18T12:30:00Z' and @SystemTime<'2023-05-18T12:31:00Z']]]";
    let recent = "*[System[TimeCreated[timediff(@SystemTime) < 6060000]]]";
    let old = "*[System[TimeCreated[timediff(@SystemTime) > 27530000]]]";
    for (text, count) in [
        ("*", all),
        (after, 0),
        (one, 1),
        (recent, 1),
        (old, 1),
        ("*[System[EventID=1102]]", 0),
        ("*[System[EventID=70000]]", 0),
        ("*[System[EventID=4607]]", all),
        ("*[System[EventID=1102 or Level=2]]", all),
        ("*[System[EventID!=4607]]", all),
    ] {
        assert_eq!(chunks(&log, text), count, "{text}");
    }
    // A chunk of another writer has no summary, and one whose end was moved has a summary of fewer records.
    let path = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("xpath_chunks.evtx");
    let bytes = std::fs::read(path).unwrap();
    for at in [56, 60] {
        let mut changed = bytes.clone();
        for chunk in changed[4096..].chunks_exact_mut(65536) {
            chunk[at] ^= 8;
            let checksum = etw_evtx::layout::header_checksum(chunk);
            chunk[124..128].copy_from_slice(&checksum.to_le_bytes());
        }
        let changed = Log::from_bytes(changed).unwrap();
        assert_eq!(chunks(&changed, after), all, "byte {at}");
    }
    // A header that its checksum does not cover is not believed.
    let mut changed = bytes.clone();
    changed[4096 + 72..4096 + 80].fill(0);
    assert_eq!(chunks(&Log::from_bytes(changed).unwrap(), one), 1);
    // The newest chunk of a log in use may have more records than its header says.
    let mut in_use = bytes;
    in_use[120] |= 1;
    let checksum = crc32fast::hash(&in_use[..120]).to_le_bytes();
    in_use[124..128].copy_from_slice(&checksum);
    assert_eq!(chunks(&Log::from_bytes(in_use).unwrap(), after), 1);
}
