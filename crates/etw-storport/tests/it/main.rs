//! One binary for all integration tests.
#![allow(missing_docs)]

use etw::{Keyword, Level, Session};
use etw_etl::read::{Records, TraceFile};
use etw_storport::*;
use std::path::PathBuf;
use std::sync::Mutex;

/// One provider for the process: one recording at a time.
static ONE: Mutex<()> = Mutex::new(());

#[derive(Debug, PartialEq)]
struct Seen {
    id: u16,
    version: u8,
    level: u8,
    opcode: u8,
    channel: u8,
    keyword: u64,
    fields: Vec<(String, String)>,
}

struct Fields(Vec<(String, String)>);

impl etw_decode::Visitor for Fields {
    fn value(&mut self, field: &etw_decode::Field, value: etw_decode::Value<'_>) {
        let mut text = Vec::new();
        value.write_text(&mut text, &etw_decode::Style::default());
        self.0.push((field.name.to_string(), String::from_utf8(text).unwrap()));
    }
    fn begin_array(&mut self, _: &etw_decode::Field, _: usize) {}
    fn end_array(&mut self, _: &etw_decode::Field) {}
    fn begin_struct(&mut self, _: &etw_decode::Field) {}
    fn end_struct(&mut self, _: &etw_decode::Field) {}
}

fn record(name: &str, run: impl FnOnce()) -> Vec<Seen> {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let path: PathBuf =
        std::env::temp_dir().join(format!("etw-storport-{}-{name}.etl", std::process::id()));
    let session = Session::builder(name).file(&path).portable().buffer_size_kb(8).start().unwrap();
    session.enable(&PROVIDER_ID, Level::VERBOSE, Keyword(0)).unwrap();
    run();
    session.stop().unwrap();
    let mut records = Records::new(vec![TraceFile::open(&path).unwrap()]);
    let mut decoder = etw_decode::Decoder::new();
    let mut seen = Vec::new();
    while let Some(record) = records.next() {
        if record.provider == Some(PROVIDER_ID) {
            let mut fields = Fields(Vec::new());
            let _ = decoder.decode(&record).visit(&record, &mut fields);
            let d = &record.descriptor;
            seen.push(Seen {
                id: d.id,
                version: d.version,
                level: d.level.0,
                opcode: d.opcode.0,
                channel: d.channel.0,
                keyword: d.keyword.0,
                fields: fields.0,
            });
        }
    }
    std::fs::remove_file(path).unwrap();
    seen
}

fn device() -> Device {
    Device {
        vendor: "ACME".into(),
        product: "Disk 9000".into(),
        serial_number: "S1".into(),
        is_boot_device: true,
        ..Device::new(3, "nvme0")
    }
}

const UNIT: Address = Address { path: 1, target: 2, lun: 3 };

fn stream(
    device: Option<&Device>,
    channel: u32,
    description: &str,
    level: u32,
    data: &[u8],
) -> StorStatus {
    let event = MiniportEvent {
        channel: EventChannel(channel),
        keywords: keyword::IO | keyword::POWER,
        level: EventLevel(level),
        opcode: EventOpcode::RECEIVE,
        ..MiniportEvent::new(7, description)
    };
    log_byte_stream(device, Some(&UNIT), event, data)
}

fn text(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// SP-1: a byte stream arrives with everything that it was given.
#[test]
fn a_byte_stream_has_all_its_arguments() {
    let device = device();
    let seen = record("stream", || {
        assert_eq!(stream(Some(&device), 1, "größe", 3, &[0xab, 0, 1]), StorStatus::SUCCESS);
    });
    let unit = [
        ("PortNumber", "3"),
        ("PathID", "1"),
        ("TargetID", "2"),
        ("LUN", "3"),
        ("ClassDeviceGuid", "00000000-0000-0000-0000-000000000000"),
        ("AdapterGuid", "00000000-0000-0000-0000-000000000000"),
        ("MiniportName", "nvme0"),
        ("VendorId", "ACME"),
        ("ProductId", "Disk 9000"),
        ("SerialNumber", "S1"),
        ("BootDevice", "true"),
        ("DataLength", "3"),
        ("Data", "ab0001"),
        ("MiniportEventId", "7"),
        ("MiniportEventDescription", "größe"),
        ("EventChannel", "1"),
    ];
    let keyword = 0x2000_0000_0005;
    let expected = Seen {
        id: 570,
        version: 1,
        level: 3,
        opcode: 240,
        channel: 11,
        keyword,
        fields: text(&unit),
    };
    assert_eq!(seen, [expected]);
}

/// OV-22: operational events have the channel that the program names; the others keep theirs.
#[test]
fn a_named_channel_is_in_the_descriptors_of_its_events() {
    let device = device();
    let seen = record("channel", || {
        let health = EventChannel(EventChannel::HEALTH.0 + 1);
        assert_eq!(set_channel(health, etw::Channel(16)), StorStatus::INVALID_PARAMETER);
        assert_eq!(set_channel(EventChannel::OPERATIONAL, etw::Channel(16)), StorStatus::SUCCESS);
        for channel in [EventChannel::OPERATIONAL, EventChannel::HEALTH] {
            let event = MiniportEvent { channel, ..MiniportEvent::new(1, "x") };
            log_byte_stream(Some(&device), None, event, b"x");
        }
        set_channel(EventChannel::OPERATIONAL, etw::Channel::TRACE_LOGGING);
    });
    assert_eq!(seen.iter().map(|event| event.channel).collect::<Vec<_>>(), [16, 11]);
}

/// SP-1: channel and level give the id.
#[test]
fn ids_of_byte_streams() {
    let device = device();
    let cases: Vec<(u32, u32)> = (0..3).flat_map(|c| (0..6).map(move |l| (c, l))).collect();
    let seen = record("ids", || {
        for (channel, level) in &cases {
            assert_eq!(stream(Some(&device), *channel, "x", *level, b"x"), StorStatus::SUCCESS);
        }
    });
    let ids: Vec<u16> = seen.iter().map(|event| event.id).collect();
    assert_eq!(
        ids,
        [566, 566, 566, 566, 566, 566, 569, 571, 571, 570, 569, 569, 567, 568, 568, 568, 567, 567]
    );
    assert!(seen.iter().zip(&cases).all(|(event, (_, level))| u32::from(event.level) == *level));
}

/// SP-1: an event of level LOG_ALWAYS passes every level and keyword that a session asks for, as Microsoft documents it; others do not.
#[test]
fn an_event_that_is_always_logged_passes_every_filter() {
    let device = device();
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (any, all) in [(0, 0), (keyword::PERFORMANCE.0, 0), (u64::MAX, u64::MAX)] {
        let session = Session::builder("always").memory().start().unwrap();
        let wanted = etw::LevelKeyword {
            level: Level::CRITICAL,
            any: Keyword(any),
            all: Keyword(all),
            ..etw::LevelKeyword::ALL
        };
        let info = etw::EnableInfo { wanted, ..etw::EnableInfo::default() };
        session.enable_with(&PROVIDER_ID, info).unwrap();
        for level in [EventLevel::ERROR, EventLevel::LOG_ALWAYS] {
            assert_eq!(stream(Some(&device), 0, "x", level.0, b"x"), StorStatus::SUCCESS);
            let event = MiniportEvent { level, ..MiniportEvent::new(9, "x") };
            let parameters = [Parameter::new("a", 1), Parameter::new("b", 2)];
            let status = log_event(Some(&device), None, event, None, &parameters);
            assert_eq!(status, StorStatus::SUCCESS);
        }
        let ledger = session.stop().unwrap().ledger;
        assert_eq!((ledger.stored, ledger.lost_total()), (2, 0), "{any:x} {all:x}");
    }
}

/// SP-2: what cannot be is refused, wanted or not; what is wanted and finds no room is another failure.
#[test]
fn invalid_calls_and_full_sessions_have_different_statuses() {
    let device = device();
    let long = "x".repeat(33);
    let check = || {
        let invalid = StorStatus::INVALID_PARAMETER;
        assert_eq!(invalid.0, 0xc100_0006);
        assert_eq!(stream(None, 0, "x", 4, b"x"), invalid);
        assert_eq!(stream(Some(&device), 3, "x", 4, b"x"), invalid);
        assert_eq!(stream(Some(&device), u32::MAX, "x", 4, b"x"), invalid);
        assert_eq!(stream(Some(&device), 0, &long, 4, b"x"), invalid);
        assert_eq!(stream(Some(&device), 0, "x\0y", 4, b"x"), invalid);
        assert_eq!(stream(Some(&device), 0, "x", 6, b"x"), invalid);
        assert_eq!(stream(Some(&device), 0, "x", 4, b""), invalid);
        assert_eq!(stream(Some(&device), 0, "x", 4, &[0; 4097]), invalid);
    };
    // Nobody listens.
    {
        let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        check();
        assert_eq!(stream(Some(&device), 0, "x", 4, b"x"), StorStatus::SUCCESS);
    }
    let seen = record("statuses", || {
        check();
        assert_eq!(stream(Some(&device), 0, &long[1..], 4, &[0; 4096]), StorStatus::SUCCESS);
    });
    assert_eq!(seen.len(), 1);
    // Buffers of 4 KiB hold no event of 4 KiB.
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let session = Session::builder("small").memory().buffer_size_kb(4).start().unwrap();
    session.enable(&PROVIDER_ID, Level::VERBOSE, Keyword(0)).unwrap();
    let status = stream(Some(&device), 0, "x", 4, &[0; 4096]);
    assert_eq!((status, status.0), (StorStatus::UNSUCCESSFUL, 0xc100_0001));
    assert_eq!(session.stop().unwrap().ledger.lost_total(), 1);
}

/// SP-3: without an address the adapter is meant.
#[test]
fn an_event_without_an_address_is_the_adapters() {
    let device = device();
    let parameters = [Parameter::new("a", 1), Parameter::new("b", 2)];
    let seen = record("adapter", || {
        for address in [None, Some(&UNIT)] {
            let event = MiniportEvent { opcode: EventOpcode::START, ..MiniportEvent::new(9, "x") };
            let status = log_event(Some(&device), address, event, None, &parameters);
            assert_eq!(status, StorStatus::SUCCESS);
        }
    });
    assert_eq!(seen.iter().map(|event| event.id).collect::<Vec<_>>(), [250, 253]);
    let has_unit = |event: &Seen| event.fields.iter().any(|(name, _)| name == "LUN");
    assert_eq!(seen.iter().map(has_unit).collect::<Vec<_>>(), [false, true]);
}

/// SP-4: events of 2, 4 and 8 parameters, and errors.
#[test]
fn events_of_two_four_and_eight_parameters_are_recorded() {
    let device = device();
    let all: Vec<Parameter<'_>> = ["one", "two", "", "four", "five", "six", "seven", "eight"]
        .into_iter()
        .zip(1..)
        .map(|(name, value)| Parameter::new(name, value))
        .collect();
    let log = |parameters: &[Parameter<'_>], channel, level, srb| {
        let event = MiniportEvent {
            channel,
            keywords: keyword::IO,
            level,
            opcode: EventOpcode::STOP,
            ..MiniportEvent::new(9, "x")
        };
        log_event(Some(&device), Some(&UNIT), event, srb, parameters)
    };
    let seen = record("siblings", || {
        for count in [2, 4, 8] {
            let status =
                log(&all[..count], EventChannel::OPERATIONAL, EventLevel::ERROR, Some(0xfeed));
            assert_eq!(status, StorStatus::SUCCESS);
        }
        for count in [0, 1, 3, 7] {
            let status = log(&all[..count], EventChannel::HEALTH, EventLevel::WARNING, None);
            assert_eq!(status, StorStatus::INVALID_PARAMETER);
        }
        let long = [Parameter::new("12345678901234567", 1), Parameter::default()];
        let status = log(&long, EventChannel::HEALTH, EventLevel::WARNING, None);
        assert_eq!(status, StorStatus::INVALID_PARAMETER);
        let fits = [Parameter::new("1234567890123456", 1), Parameter::default()];
        let status = log(&fits, EventChannel::HEALTH, EventLevel::WARNING, Some(1));
        assert_eq!(status, StorStatus::SUCCESS);
        assert_eq!(log_error(Some(&device), None, 11, "broken", b"why"), StorStatus::SUCCESS);
        assert_eq!(log_error(Some(&device), None, 11, "broken", b""), StorStatus::SUCCESS);
        assert_eq!(log_error(None, None, 11, "broken", b"x"), StorStatus::INVALID_PARAMETER);
        let status = log_error(Some(&device), None, 11, "broken", &[0; 4097]);
        assert_eq!(status, StorStatus::INVALID_PARAMETER);
    });
    let ids: Vec<_> = seen.iter().map(|event| (event.id, event.version, event.level)).collect();
    assert_eq!(ids, [(522, 3, 2), (523, 3, 2), (524, 3, 2), (546, 3, 3), (534, 4, 2), (534, 4, 2)]);
    let value = |event: &Seen, name: &str| {
        event.fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone())
    };
    assert_eq!(value(&seen[2], "Srb").as_deref(), Some("0xfeed"));
    assert_eq!(value(&seen[2], "Parameter8Name").as_deref(), Some("eight"));
    assert_eq!(value(&seen[2], "Parameter8Value").as_deref(), Some("8"));
    let unnamed = (value(&seen[2], "Parameter3Name"), value(&seen[2], "Parameter3Value"));
    assert_eq!(unnamed, (Some("NULL".into()), Some("0".into())));
    assert_eq!(value(&seen[0], "Parameter3Name"), None);
    assert_eq!(value(&seen[4], "Data").as_deref(), Some("776879"));
}

/// SP-5: the block monitor records what the machine's disks do, by tracepoints or by their counters.
#[test]
#[cfg(target_os = "linux")]
fn the_block_monitor() {
    let folder = std::env::temp_dir().join(format!("etw-block-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let out = folder.join("block.etl");
    let mut child = std::process::Command::new(env!("CARGO"))
        .args(["run", "-q", "--locked", "-p", "etw-storport", "--example", "block_monitor", "--"])
        .arg("--seconds")
        .arg("3")
        .arg(&out)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Something to see.
    let file = folder.join("data");
    while child.try_wait().unwrap().is_none() {
        use std::io::Write;
        let mut data = std::fs::File::create(&file).unwrap();
        data.write_all(&vec![7; 1 << 20]).unwrap();
        let _ = data.sync_all();
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(3) {
        eprintln!("skipped: {said}");
        std::fs::remove_dir_all(folder).unwrap();
        return;
    }
    assert!(output.status.success(), "{said}");
    let mut records = Records::new(vec![TraceFile::open(&out).unwrap()]);
    let (mut count, mut decoder) = (0, etw_decode::Decoder::new());
    let mut last = String::new();
    while let Some(record) = records.next() {
        if record.provider == Some(PROVIDER_ID) {
            count += 1;
            let mut fields = Fields(Vec::new());
            let _ = decoder.decode(&record).visit(&record, &mut fields);
            last = format!("{:?}", fields.0);
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
    assert!(count > 0, "{said}");
    assert!(last.contains("MiniportEventDescription"), "{last}");
}
