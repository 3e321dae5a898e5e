//! Sessions: what the system's functions receive, byte for byte, and what becomes of their answers.

use std::time::Duration;

use etw::{
    Condition, Controller, EnableInfo, EnableProperties, EventKey, Filters, Guid, IdFilter,
    Keyword, Level, LevelKeyword, LevelKeywordFilter, NameFilter, PayloadFilter, PayloadOp,
    SessionConfig, StackFilter, Status,
};
use etw_types::LogFileMode;
use etw_wire::requests::{Request, Response};
use windows_sys::Win32::System::Diagnostics::Etw::{EVENT_TRACE_PROPERTIES_V2, WNODE_HEADER};

use crate::recorder::Recorder;
use crate::recorder::sessions::{self, Call, Enable, bytes_of};

/// `WNODE_FLAG_TRACED_GUID | WNODE_FLAG_VERSIONED_PROPERTIES`
const FLAGS: u32 = 0x0082_0000;
/// Bytes of the structure and two names of 1024 units.
const SIZE: u32 = 0x90 + 2 * 2048;
pub const HANDLE: u64 = 0x0102_0000_0000_0010;

pub fn expected(change: impl FnOnce(&mut EVENT_TRACE_PROPERTIES_V2)) -> Vec<u8> {
    let mut properties = EVENT_TRACE_PROPERTIES_V2 {
        Wnode: WNODE_HEADER { BufferSize: SIZE, Flags: FLAGS, ..WNODE_HEADER::default() },
        BufferSize: 64,
        MinimumBuffers: 64,
        MaximumBuffers: 64,
        LogFileNameOffset: 0x90 + 2048,
        LoggerNameOffset: 0x90,
        ..EVENT_TRACE_PROPERTIES_V2::default()
    };
    properties.Wnode.ClientContext = 1;
    properties.Anonymous2.V2Control = 2;
    change(&mut properties);
    bytes_of(&properties)
}

pub fn start_of(calls: &[Call]) -> (&str, &[u8], &str) {
    match &calls[0] {
        Call::Start { name, properties, file } => (name, properties, file),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_with_a_file_starts_with_these_bytes() {
    let _recorder = Recorder::start();
    let host = Controller::connect().unwrap();
    let session = host
        .session("Bänke")
        .file(r"C:\traces\a.etl")
        .circular(10 << 20)
        .buffer_size_kb(128)
        .buffers(20)
        .flush_timer(Duration::from_millis(1500))
        .system_time()
        .independent()
        .secure()
        .no_per_processor_buffering()
        .start()
        .unwrap();
    let calls = sessions::take_calls();
    let bytes = expected(|properties| {
        properties.Wnode.ClientContext = 2;
        (properties.BufferSize, properties.MinimumBuffers, properties.MaximumBuffers) =
            (128, 20, 20);
        properties.MaximumFileSize = 10 << 10;
        // Circular, secure, kilobytes, milliseconds, independent, one stream.
        properties.LogFileMode = 0x2 | 0x80 | 0x2000 | 0x10 | 0x0800_0000 | 0x1000_0000;
        properties.FlushTimer = 1500;
    });
    assert_eq!(start_of(&calls), ("Bänke", &bytes[..], r"C:\traces\a.etl"));
    assert_eq!(calls.len(), 1);

    let status = session.query().unwrap();
    assert_eq!((status.name.as_str(), status.state.as_str()), ("Bänke", "running"));
    assert_eq!(status.file.as_deref(), Some(r"C:\traces\a.etl".as_ref()));
    assert_eq!((status.max_size, status.buffer_size, status.buffers), (10 << 20, 128 << 10, 20));
    assert_eq!((status.flush_timer_ms, status.lost, status.buffers_written), (1500, 2, 7));
    assert_eq!((status.free_buffers, status.id), (3, 0x10));
    session.flush().unwrap();
    session.set_buffers(40).unwrap();
    session.change_file(r"C:\traces\b.etl").unwrap();
    assert_eq!(host.sessions().unwrap().len(), 1);
    assert_eq!(session.stop().unwrap().state, "stopped");
    let codes: Vec<(u32, String)> = sessions::take_calls()
        .into_iter()
        .map(|call| match call {
            Call::Control { code, file, .. } => (code, file),
            other => panic!("{other:?}"),
        })
        .collect();
    let codes: Vec<(u32, &str)> = codes.iter().map(|(code, file)| (*code, &**file)).collect();
    let expected = [(0, ""), (3, ""), (0, ""), (2, ""), (0, ""), (2, r"C:\traces\b.etl"), (1, "")];
    assert_eq!(codes, expected);
    assert_eq!(host.open("Bänke").unwrap_err().status(), Status::ERROR_WMI_INSTANCE_NOT_FOUND);
}

#[test]
fn every_log_mode_has_its_bits() {
    let _recorder = Recorder::start();
    let host = Controller::connect().unwrap();
    let file = r"C:\a.etl";
    for (builder, mode, size) in [
        (host.session("a").file(file), LogFileMode::SEQUENTIAL, 0),
        (
            host.session("b").file(file).max_size(1 << 20).preallocate(),
            LogFileMode::SEQUENTIAL | LogFileMode::USE_KBYTES_FOR_SIZE | LogFileMode::PREALLOCATE,
            1024,
        ),
        (
            host.session("c").file(r"C:\a%d.etl").new_file(1 << 20),
            LogFileMode::NEWFILE | LogFileMode::USE_KBYTES_FOR_SIZE,
            1024,
        ),
        (host.session("d").memory(), LogFileMode::BUFFERING, 0),
        (
            host.session("e").file(file).compressed(),
            LogFileMode::SEQUENTIAL | LogFileMode::COMPRESSED,
            0,
        ),
    ] {
        builder.start().unwrap();
        let calls = sessions::take_calls();
        let (_, properties, _) = start_of(&calls);
        let field =
            |offset: usize| u32::from_le_bytes(properties[offset..][..4].try_into().unwrap());
        let modes = std::mem::offset_of!(EVENT_TRACE_PROPERTIES_V2, LogFileMode);
        let sizes = std::mem::offset_of!(EVENT_TRACE_PROPERTIES_V2, MaximumFileSize);
        assert_eq!((LogFileMode(field(modes)), field(sizes)), (mode, size));
    }
    // Appending is in system time, and a session for consumers is flushed each second.
    host.session("f").file(file).append().start().unwrap();
    host.session("g").real_time().start().unwrap();
    let calls = sessions::take_calls();
    let bytes = expected(|of| {
        of.Wnode.ClientContext = 2;
        of.LogFileMode = 4;
    });
    assert_eq!(start_of(&calls).1, bytes);
    let bytes = expected(|of| {
        (of.LogFileMode, of.FlushTimer, of.LogFileNameOffset) = (0x100, 1, 0);
    });
    assert_eq!(start_of(&calls[1..]).1, bytes);
}

pub fn enable_of(call: &Call) -> &Enable {
    match call {
        Call::Enable(enable) => enable,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_enablement_has_all_its_filters() {
    let _recorder = Recorder::start();
    let host = Controller::connect().unwrap();
    let session = host.session("filters").memory().start().unwrap();
    let of =
        LevelKeyword { level: Level(3), any: Keyword(6), all: Keyword(2), ignore_keyword_0: false };
    let names = NameFilter { of, include: true, names: vec!["One".into(), "Two".into()] };
    let ids = |include| IdFilter { include, ids: vec![1, 0x1234] };
    let payload = PayloadFilter {
        of: EventKey::Id { id: 7, version: Some(1) },
        conditions: vec![Condition::new("Size", PayloadOp::Between, &["5", "9"]).unwrap()],
        any: true,
        match_all: false,
        metadata: None,
    };
    let info = EnableInfo {
        wanted: LevelKeyword {
            level: Level(4),
            any: Keyword(0x11),
            all: Keyword(0x10),
            ignore_keyword_0: true,
        },
        properties: EnableProperties::STACK_TRACE,
        filters: Some(Box::new(Filters {
            event_ids: Some(ids(true)),
            event_names: Some(names.clone()),
            process_ids: vec![5, 600],
            executables: vec!["a.exe".into(), "b.exe".into()],
            payload: vec![payload],
            channels: Vec::new(),
            schematized: b"own".to_vec(),
            stacks: StackFilter {
                event_ids: Some(ids(false)),
                event_names: Some(names),
                level_keyword: Some(LevelKeywordFilter { of, include: true }),
            },
        })),
    };
    let id = Guid::from_u128(0x1d);
    session.enable_with(&id, info).unwrap();
    session.disable(&id).unwrap();
    session.capture_state(&id, Level(2), Keyword(8)).unwrap();
    let calls = sessions::take_calls();
    let enables: Vec<&Enable> =
        calls.iter().filter(|call| matches!(call, Call::Enable(_))).map(enable_of).collect();
    let level_keyword = [&[6, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 1][..]].concat();
    let names = [&level_keyword[..], &[2, 0], b"One\0Two\0"].concat();
    let wide: Vec<u8> = "a.exe;b.exe\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let expected = Enable {
        handle: HANDLE,
        provider: id,
        code: 1,
        level: 4,
        any: 0x11,
        all: 0x10,
        timeout: 1000,
        version: 2,
        property: 0x14,
        filters: vec![
            (0x8000_0004, vec![5, 0, 0, 0, 0x58, 2, 0, 0]),
            (0x8000_0008, wide),
            (0x8000_0200, vec![1, 0, 2, 0, 1, 0, 0x34, 0x12]),
            (0x8000_0400, names.clone()),
            (0x8000_0000, b"own".to_vec()),
            (0x8000_1000, vec![0, 0, 2, 0, 1, 0, 0x34, 0x12]),
            (0x8000_2000, names),
            (0x8000_4000, [&level_keyword[..], &[0; 6]].concat()),
            (0x8000_0100, sessions::PAYLOAD_FILTER.to_vec()),
        ],
    };
    assert_eq!(*enables[0], expected);
    assert_eq!((enables[1].code, enables[1].filters.len()), (0, 0));
    assert_eq!((enables[2].code, enables[2].level, enables[2].any), (2, 2, 8));
    assert_eq!(sessions::take_predicates(), [("Size".into(), 6, "5,9".into())]);
}

#[test]
fn requests_without_a_counterpart_are_refused_by_name() {
    let _recorder = Recorder::start();
    let host = Controller::connect().unwrap();
    let session = host.session("s").memory().start().unwrap();
    let payload = PayloadFilter {
        of: EventKey::Name("Request".into()),
        conditions: vec![Condition::new("status", PayloadOp::Eq, &["500"]).unwrap()],
        any: false,
        match_all: false,
        metadata: None,
    };
    let filters = Filters { payload: vec![payload], ..Filters::default() };
    let info = EnableInfo { filters: Some(Box::new(filters)), ..EnableInfo::default() };
    let one_process = etw_session::SystemConfig { process: Some(4), ..Default::default() };
    let system = SessionConfig {
        name: "system".into(),
        real_time: true,
        system: Some(one_process),
        ..SessionConfig::default()
    };
    for (error, part) in [
        (session.enable_with(&Guid::from_u128(1), info).unwrap_err(), "TraceLogging"),
        (host.session("log").file(r"C:\a.evtx").start().unwrap_err(), ".evtx"),
        (Controller::connect_to(r"C:\run").unwrap_err(), "runtime directories"),
        (host.request(&Request::Shutdown).unwrap_err().into(), "the system hosts sessions"),
        (host.request(&Request::start(system)).unwrap_err().into(), "of all processes"),
    ] {
        assert_eq!(error.status(), Status::ERROR_NOT_SUPPORTED, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    // Rules of ETW, and refusals of the system, with advice.
    let error = host.session("x").start().unwrap_err();
    assert_eq!(error.status(), Status::ERROR_BAD_PATHNAME, "{error}");
    sessions::refuse_start(5);
    let error = host.session("x").memory().start().unwrap_err();
    assert_eq!(error.status(), Status::ERROR_ACCESS_DENIED);
    assert!(error.to_string().contains("administrator"), "{error}");
    let error = host.session("S").memory().start().unwrap_err();
    assert_eq!(error.status(), Status::ERROR_ALREADY_EXISTS);
    drop(session);
}

#[test]
fn a_leased_session_ends_with_its_controller() {
    let _recorder = Recorder::start();
    let host = Controller::connect().unwrap();
    let session = host.session("leased").real_time().leased().start().unwrap();
    let other = host.session("stays").memory().start().unwrap();
    drop((session, other));
    sessions::take_calls();
    drop(host);
    let calls = sessions::take_calls();
    assert!(
        matches!(&calls[..], [Call::Control { name, code: 1, .. }] if name == "leased"),
        "{calls:?}"
    );
}

/// The kernel logger's GUID and flags, then group masks, call stacks and the sample interval.
#[test]
fn a_session_of_system_events_is_the_kernel_logger() {
    let _recorder = Recorder::start();
    let host = Controller::connect().unwrap();
    let system = etw_session::SystemConfig {
        masks: [0x10003, 0x4000_0001, 0, 0, 0, 0, 0, 0],
        stacks: vec![0x0f2e],
        sample_interval: 10_000,
        process: None,
    };
    let config = |name: &str| SessionConfig {
        name: name.into(),
        file: Some(r"C:\kernel.etl".into()),
        system: Some(system.clone()),
        ..SessionConfig::default()
    };
    host.request(&Request::start(config("NT Kernel Logger"))).unwrap();
    let calls = sessions::take_calls();
    let bytes = expected(|of| {
        let [a, b, c, d] = [0x9e81_4aad, 0x3204, 0x11d2, 0];
        assert_eq!(d, 0);
        of.Wnode.Guid = windows_sys::core::GUID {
            data1: a,
            data2: b as u16,
            data3: c as u16,
            data4: [0x9a, 0x82, 0, 0x60, 8, 0xa8, 0x69, 0x39],
        };
        (of.LogFileMode, of.EnableFlags) = (1, 0x10003);
    });
    assert_eq!(start_of(&calls).1, bytes);
    let masks: Vec<u8> = system.masks.iter().flat_map(|mask| mask.to_le_bytes()).collect();
    let class = Guid::from_u128(0xce1dbfb4_137e_4da6_87b0_3f59aa102cbc);
    let stack = [&class.0[..], &[0x2e, 0, 0, 0, 0, 0, 0, 0]].concat();
    let interval = [0u32.to_le_bytes(), 10_000u32.to_le_bytes()].concat();
    assert_eq!(
        calls[1..],
        [
            Call::SetInformation { handle: HANDLE, class: 4, bytes: masks },
            Call::SetInformation { handle: HANDLE, class: 3, bytes: stack },
            Call::SetInformation { handle: 0, class: 5, bytes: interval },
        ]
    );
    // Another session of system events says so by a bit, and has no such GUID.
    host.request(&Request::start(config("mine"))).unwrap();
    let calls = sessions::take_calls();
    let bytes = expected(|of| (of.LogFileMode, of.EnableFlags) = (0x0200_0001, 0x10003));
    assert_eq!(start_of(&calls).1, bytes);
}

#[test]
fn providers_have_their_names_processes_and_sessions() {
    let _recorder = Recorder::start();
    let host = Controller::connect().unwrap();
    let session = host.session("first").memory().start().unwrap();
    let providers = host.providers().unwrap();
    let of = |id: u128| providers.iter().find(|one| one.id == Guid::from_u128(id)).unwrap();
    assert_eq!(providers.len(), 3);
    assert_eq!(
        (of(0xa1).name.as_str(), &of(0xa1).pids[..]),
        ("Windows-Kernel-Test", &[100, 200][..])
    );
    assert_eq!(of(0xa1).sessions, ["first"]);
    assert_eq!((of(0xa2).name.as_str(), of(0xa2).pids.len()), ("Straße", 0));
    assert_eq!((of(0xb1).name.as_str(), of(0xb1).pids.len()), ("", 2));
    // A name is that of a registered provider, else it is hashed.
    sessions::take_calls();
    for (name, id) in
        [("straße", Guid::from_u128(0xa2)), ("MyCompany.Shop", Guid::from_name("MyCompany.Shop"))]
    {
        let provider = etw_session::ProviderKey::Name(name.into());
        let (info, timeout_ms) = (EnableInfo::default(), 0);
        let session = "first".to_owned();
        let request = Request::Enable { session, provider, info, timeout_ms };
        assert!(matches!(host.request(&request), Ok(Response::Done { .. })));
        let calls = sessions::take_calls();
        assert_eq!(enable_of(&calls[1]).provider, id, "{name}");
    }
    session.stop().unwrap();
}
