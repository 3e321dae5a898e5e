//! Call stacks in events: captured by the program, in the trace of a session that wants them.
use crate::modes::small;
use crate::session::{greet, provider};
use crate::support::*;
use etw::evntprov::*;
use etw::*;
use etw_types::{ExtType, LoadedModule};

fn with_stacks(stacks: StackFilter) -> EnableInfo {
    EnableInfo {
        properties: EnableProperties::STACK_TRACE,
        filters: Some(Box::new(Filters { stacks, ..Filters::default() })),
        ..EnableInfo::default()
    }
}

/// An event's number and its stack; and what the trace says is loaded.
type Found = (Vec<(u32, Vec<u64>)>, Vec<(u32, LoadedModule)>);

fn found(path: &std::path::Path) -> Found {
    let file = etw_etl::read::TraceFile::open(path).unwrap();
    let mut records = etw_etl::read::Records::new(vec![file]);
    let (mut events, mut modules) = (Vec::new(), Vec::new());
    while let Some(record) = records.next() {
        if let Some(found) = etw_host::report::read_module(&record) {
            modules.push((found.process_id, found.module));
        } else if record.hook.is_none() && !etw_types::is_session_report(&record) {
            let number = u32::from_le_bytes(*record.payload.last_chunk().unwrap());
            let items =
                record.extended.into_iter().filter(|i| i.ext_type == ExtType::STACK_TRACE64);
            let items: Vec<&[u8]> = items.map(|item| item.data).collect();
            assert!(items.len() <= 1);
            let stack = items.first().map_or(Vec::new(), |data| {
                assert_eq!(data[..8], [0; 8], "the match id of a whole stack");
                data[8..].chunks(8).map(|a| u64::from_le_bytes(a.try_into().unwrap())).collect()
            });
            assert_eq!(stack, record.stack().collect::<Vec<_>>());
            events.push((number, stack));
        }
    }
    assert_eq!(records.damage().count(), 0, "{:?}", records.damage().kept());
    (events, modules)
}

/// The walker's frames of the caller's callers.
#[inline(always)]
fn here() -> Vec<u64> {
    let mut frames = [0; 192];
    let count = etw_stack::capture(&mut frames, 0);
    frames[1..count].to_vec()
}

/// OV-7, OV-17: every way to write; the stack is the writer's own, of the functions that called it.
#[test]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn events_have_their_writers_stack() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x401);
    let _registration = PROVIDER.register();
    let path = TempPath::new("stacks.etl");
    let session = small("stacks").file(&path).start().unwrap();
    session.enable_with(&PROVIDER, with_stacks(StackFilter::default())).unwrap();
    let handle = event_register(&PROVIDER.id(), None).unwrap();

    #[inline(never)]
    fn static_site() -> Vec<u64> {
        assert!(greet(&PROVIDER, 1).is_success());
        here()
    }
    #[inline(never)]
    fn in_activity() -> Vec<u64> {
        let activity = Activity::new();
        let _scope = activity.enter();
        assert!(greet(&PROVIDER, 2).is_success());
        here()
    }
    #[inline(never)]
    fn manifest(handle: RegHandle) -> Vec<u64> {
        let descriptor =
            EventDescriptor { id: 7, level: Level::INFO, ..EventDescriptor::default() };
        let number = 3u32.to_le_bytes();
        let data = [EventDataDescriptor::new(&number)];
        assert!(event_write(handle, Some(&descriptor), &data).is_success());
        here()
    }
    #[inline(never)]
    fn built() -> Vec<u64> {
        let mut event = EventBuilder::new();
        event.reset("B", Level::INFO, etw::Keyword(1), 0).add_u32("n", 4, OutType::NULL, 0);
        assert!(event.write(&PROVIDER, None, Some(&create_id())).is_success());
        here()
    }
    let expected = [static_site(), in_activity(), manifest(handle), built()];
    event_unregister(handle);
    session.stop().unwrap();
    let (events, modules) = found(&path);
    assert_eq!(events.len(), 4);
    for ((number, stack), callers) in events.iter().zip(&expected) {
        // The call in the test itself is another one for each event: that of `here`'s caller.
        assert!(callers.len() > 3 && stack.ends_with(callers), "{number} {stack:x?} {callers:x?}");
        let own = stack.len() - callers.len();
        assert!((1..=16).contains(&own), "{number} {stack:x?}");
        for address in stack {
            let of = |(_, module): &&(u32, LoadedModule)| {
                (module.base..module.base + module.size).contains(address)
            };
            assert!(modules.iter().any(|m| of(&m)), "{address:x} of {number}");
        }
    }
    // The loaded modules, so that another machine can name the addresses.
    let this = std::env::current_exe().unwrap();
    let code = static_site as *const () as u64;
    let (process, module) = modules
        .iter()
        .find(|(_, module)| (module.base..module.base + module.size).contains(&code))
        .unwrap();
    assert_eq!((*process, &*module.path), (std::process::id(), this.to_str().unwrap()));
    assert_eq!(module.build_id, elf_build_id(&std::fs::read(&this).unwrap()));
}

/// The GNU build id in an ELF file's section of notes: name size 4, id size 20, type 3, "GNU".
fn elf_build_id(file: &[u8]) -> Vec<u8> {
    let head = [4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0];
    let at = file.windows(head.len()).position(|bytes| bytes == head);
    at.map_or(Vec::new(), |at| file[at + 16..at + 36].to_vec())
}

/// OV-17: stacks by id, by name, by level and keyword; a session that wants none has none.
#[test]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn stacks_of_some_events() {
    let _permits = session_permits(2);
    provider!(PROVIDER, 0x402);
    let _registration = PROVIDER.register();
    let handle = event_register(&PROVIDER.id(), None).unwrap();
    let write = |number: u32, id: u16, level: u8, keyword: u64| {
        let descriptor = EventDescriptor {
            id,
            level: Level(level),
            keyword: Keyword(keyword),
            ..EventDescriptor::default()
        };
        let number = number.to_le_bytes();
        let data = [EventDataDescriptor::new(&number)];
        assert!(event_write(handle, Some(&descriptor), &data).is_success());
    };
    let ids = StackFilter {
        event_ids: Some(IdFilter { include: true, ids: vec![7] }),
        ..StackFilter::default()
    };
    let names = StackFilter {
        event_names: Some(NameFilter {
            of: LevelKeyword::ALL,
            include: true,
            names: vec!["Yes".to_owned()],
        }),
        // Ids are of no concern to TraceLogging's events, names none to others.
        event_ids: Some(IdFilter { include: false, ids: vec![7, 8] }),
        ..StackFilter::default()
    };
    let levels = StackFilter {
        level_keyword: Some(LevelKeywordFilter {
            of: LevelKeyword { level: Level(3), any: Keyword(2), ..LevelKeyword::ALL },
            include: true,
        }),
        ..StackFilter::default()
    };
    let pairs = [
        [(with_stacks(ids), vec![1, 3, 4]), (with_stacks(levels), vec![2, 4])],
        [(with_stacks(names), vec![3]), (EnableInfo::default(), vec![])],
    ];
    for pair in pairs {
        let start = |(info, expected)| {
            let path = TempPath::new("some.etl");
            let session = small("some").file(&path).start().unwrap();
            session.enable_with(&PROVIDER, info).unwrap();
            (path, session, expected)
        };
        let sessions = pair.map(start);
        write(1, 7, 4, 1);
        write(2, 8, 3, 2);
        assert!(write_event!(PROVIDER, "Yes", level(4), keyword(1), u32("n", &3)).is_success());
        assert!(write_event!(PROVIDER, "No", level(2), keyword(2), u32("n", &4)).is_success());
        for (path, session, expected) in sessions {
            let facts = session.stop().unwrap().facts;
            let (events, modules) = found(&path);
            assert_eq!(events.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1, 2, 3, 4]);
            let with = events.iter().filter(|(_, stack)| !stack.is_empty());
            let with: Vec<u32> = with.map(|(number, _)| *number).collect();
            assert_eq!((&with, facts.without_stack), (&expected, 0));
            assert_eq!(modules.is_empty(), expected.is_empty());
        }
    }
    event_unregister(handle);
}

/// OV-7: a stack is no reason to lose an event, and what has none is counted; disabled, they are captured no more.
#[test]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn events_without_room_for_their_stack() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x403);
    let _registration = PROVIDER.register();
    let path = TempPath::new("large.etl");
    let session = small("large").file(&path).start().unwrap();
    session.enable_with(&PROVIDER, with_stacks(StackFilter::default())).unwrap();
    // An event that fits a buffer of 4096 bytes by itself.
    let large = vec![7u8; 4096 - 72 - 80 - 80];
    assert!(
        write_event!(PROVIDER, "L", level(4), binary("b", &large[..]), u32("n", &1)).is_success()
    );
    assert!(greet(&PROVIDER, 2).is_success());
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    assert!(greet(&PROVIDER, 3).is_success());
    let statistics = session.stop().unwrap();
    assert_eq!((statistics.ledger.stored, statistics.ledger.lost_total()), (3, 0));
    assert_eq!(statistics.facts.without_stack, 1);
    let stacks: Vec<(u32, bool)> =
        found(&path).0.into_iter().map(|(number, stack)| (number, !stack.is_empty())).collect();
    assert_eq!(stacks, [(1, false), (2, true), (3, false)]);
}

/// OV-7: every snapshot lists the loaded modules, whatever has been overwritten since.
#[test]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn snapshots_tell_what_is_loaded() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x404);
    let _registration = PROVIDER.register();
    let path = TempPath::new("memory.etl");
    let session = small("memory").memory().buffers(4).no_per_processor_buffering().start().unwrap();
    session.enable_with(&PROVIDER, with_stacks(StackFilter::default())).unwrap();
    for number in 0..200 {
        assert!(greet(&PROVIDER, number).is_success());
        if number % 10 == 0 {
            session.flush().unwrap();
        }
    }
    session.snapshot(&path).unwrap();
    let (events, modules) = found(&path);
    assert!(events.len() < 100 && events.iter().all(|(_, stack)| stack.len() > 3));
    let code = snapshots_tell_what_is_loaded as *const () as u64;
    assert!(modules.iter().any(|(_, m)| (m.base..m.base + m.size).contains(&code)));
}
