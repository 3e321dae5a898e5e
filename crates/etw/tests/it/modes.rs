//! Sessions of every kind: log modes, limits, clocks, filters, callbacks.
use crate::session::{greet, provider};
use crate::support::*;
use etw::*;
use etw_etl::read::{Records, TraceFile};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn numbers(path: &std::path::Path) -> Vec<u32> {
    read(path).0.iter().map(|e| u32::from_le_bytes(e.payload[..].try_into().unwrap())).collect()
}

/// Writes `range`; what finds no room is written again.
fn greet_all(provider: &Provider, range: std::ops::Range<u32>) {
    for n in range {
        while !greet(provider, n).is_success() {
            std::thread::yield_now();
        }
    }
}

pub fn small(name: &str) -> SessionBuilder {
    Session::builder(name).buffer_size_kb(4).buffers(32)
}

/// OV-4: a circular file keeps the newest events and its size, a series of files keeps all, a file with a maximum size stops.
#[test]
fn files_with_a_size() {
    let _permits = session_permits(3);
    provider!(PROVIDER, 0x200);
    let _registration = PROVIDER.register();
    let (circular, limited) = (TempPath::new("circular.etl"), TempPath::new("limited.etl"));
    let series = TempPath::new("series%d.etl");
    let sessions = [
        small("circular").file(&circular).circular(32 << 10).start().unwrap(),
        small("limited").file(&limited).max_size(32 << 10).start().unwrap(),
        small("series").file(&series).new_file(32 << 10).start().unwrap(),
    ];
    for session in &sessions {
        session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    }
    let mut refused = 0;
    for n in 0..3000 {
        if n % 100 == 0 {
            sessions.iter().for_each(|session| session.flush().unwrap());
        }
        refused += u32::from(!greet(&PROVIDER, n).is_success());
    }
    let ledgers = sessions.map(|session| session.stop().unwrap().ledger);
    assert!(ledgers.iter().all(|ledger| ledger.is_balanced()), "{ledgers:?}");

    assert_eq!(std::fs::metadata(&circular).unwrap().len(), 32 << 10);
    let newest = numbers(&circular);
    assert!(newest.len() > 50 && newest.last() == Some(&2999));
    assert!(newest.windows(2).all(|pair| pair[1] == pair[0] + 1));

    assert_eq!(std::fs::metadata(&limited).unwrap().len(), 32 << 10);
    let oldest = numbers(&limited);
    assert_eq!(oldest, (0..oldest.len() as u32).collect::<Vec<_>>());
    assert_eq!(ledgers[1].lost(Cause::SessionFull), 3000 - oldest.len() as u64);
    // Once the file is full, writes return a status.
    assert!(refused > 1000, "{refused}");

    let mut all = Vec::new();
    let mut count = 0;
    for number in 1.. {
        let path = series.0.to_string_lossy().replace("%d", &number.to_string());
        let Ok(metadata) = std::fs::metadata(&path) else { break };
        assert!(metadata.len() <= 32 << 10);
        all.extend(numbers(path.as_ref()));
        std::fs::remove_file(&path).unwrap();
        count = number;
    }
    assert!(count > 5);
    // Buffers are those of a CPU: if the thread moves to another one, later events may be in an earlier file.
    all.sort_unstable();
    assert_eq!(all, (0..3000).collect::<Vec<_>>());
}

#[test]
fn appending_goes_on_behind_what_is_there() {
    let _permits = session_permits(2);
    provider!(PROVIDER, 0x201);
    let _registration = PROVIDER.register();
    let path = TempPath::new("append.etl");
    for round in 0..3u32 {
        let session = small("append").file(&path).append().start().unwrap();
        session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
        greet_all(&PROVIDER, round * 100..round * 100 + 100);
        session.stop().unwrap();
    }
    assert_eq!(numbers(&path), (0..300).collect::<Vec<_>>());
    let refused = Session::builder("other").file(&path).append().buffer_size_kb(8).start();
    assert_eq!(refused.unwrap_err().status(), Status::ERROR_INVALID_PARAMETER);
    assert_eq!(numbers(&path).len(), 300);
}

/// OV-5: a session in memory keeps the newest events and writes them to a file on demand, again and again, without stopping.
#[test]
fn memory_is_written_on_demand() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x202);
    let _registration = PROVIDER.register();
    let session = small("memory").buffers(8).memory().start().unwrap();
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    let mut next = 0;
    for round in 0..3 {
        for _ in 0..20 {
            greet_all(&PROVIDER, next..next + 50);
            next += 50;
            session.flush().unwrap();
        }
        let path = TempPath::new("memory.etl");
        assert!(session.snapshot(&path).unwrap() > 0);
        let seen = numbers(&path);
        assert!(
            seen.len() > 100 && seen.last() == Some(&(next - 1)),
            "round {round}: {}",
            seen.len()
        );
        assert_eq!(seen, (seen[0]..next).collect::<Vec<_>>());
        // The file's own ledger has what it stores, and what newer events have replaced.
        let (stored, overwritten) = ledger_in(&path);
        assert_eq!(stored, seen.len() as u64);
        assert_eq!(stored + overwritten, u64::from(next));
    }
    let ledger = session.stop().unwrap().ledger;
    assert!(
        ledger.overwritten > 1000 && ledger.lost_total() == 0 && ledger.is_balanced(),
        "{ledger:?}"
    );
}

/// OV-6, OV-19: a consumer in the process is given the events while they are written: after the flush timer, or when a buffer is full.
#[test]
fn a_consumer_is_given_events_live() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x203);
    let _registration = PROVIDER.register();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let session = small("live")
        .consumer(move |buffer| {
            let (_, records) = etw_etl::read::buffer::open(buffer, 1 << 20).unwrap();
            let mut at = 0;
            while at + 0x50 < records.len() {
                let size = usize::from(u16::from_le_bytes([records[at], records[at + 1]]));
                let payload = &records[at + size - 4..at + size];
                sink.lock().unwrap().push(u32::from_le_bytes(payload.try_into().unwrap()));
                at += size.next_multiple_of(8);
            }
        })
        .flush_timer(Duration::from_millis(20))
        .start()
        .unwrap();
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    greet_all(&PROVIDER, 0..3);
    let end = std::time::Instant::now() + Duration::from_secs(120);
    while seen.lock().unwrap().len() < 3 {
        assert!(std::time::Instant::now() < end, "nothing came");
        std::thread::sleep(Duration::from_millis(5));
    }
    greet_all(&PROVIDER, 3..1000);
    session.flush().unwrap();
    assert_eq!(*seen.lock().unwrap(), (0..1000).collect::<Vec<_>>());
}

/// A storage that is slow when the session stops: what the session says of itself waits for room.
#[test]
fn a_slow_consumer_is_given_the_report() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x2f3);
    let _registration = PROVIDER.register();
    let reports = Arc::new(Mutex::new(0));
    let sink = reports.clone();
    let session = small("slow")
        .buffers(2)
        .consumer(move |buffer| {
            std::thread::sleep(Duration::from_millis(30));
            let (_, records) = etw_etl::read::buffer::open(buffer, 1 << 20).unwrap();
            let mut at = 0;
            while at + 0x50 < records.len() {
                let size = usize::from(u16::from_le_bytes([records[at], records[at + 1]]));
                let provider = Guid::read(&records, at + 0x18).unwrap();
                *sink.lock().unwrap() += usize::from(provider == etw_host::LEDGER_PROVIDER);
                at += size.next_multiple_of(8);
            }
        })
        .start()
        .unwrap();
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    greet_all(&PROVIDER, 0..200);
    session.stop().unwrap();
    assert_eq!(*reports.lock().unwrap(), 1);
}

/// A consumer that panics costs its session the events, which are counted, and nobody else anything.
#[test]
fn a_consumer_that_panics() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x2f4);
    let _registration = PROVIDER.register();
    let session = small("panics").consumer(|_| panic!("on purpose")).start().unwrap();
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    greet_all(&PROVIDER, 0..1000);
    let etw::Stopped { statistics, result } = session.stop_with_statistics();
    assert!(result.unwrap_err().to_string().contains("panicked"));
    assert!(statistics.ledger.is_balanced(), "{:?}", statistics.ledger);
    assert_eq!(statistics.ledger.lost(Cause::Disk), 1000);
}

/// OV-2: four private sessions, the fifth is refused with its status, and one that ends makes room.
#[test]
fn four_private_sessions() {
    // In a process of its own: other tests have theirs.
    if std::env::var_os("ETW_TEST_LIMIT").is_none() {
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        alone.args(["modes::four_private_sessions", "--exact"]).env("ETW_TEST_LIMIT", "1");
        let output = alone.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let start = || small("limit").memory().start();
    let mut sessions: Vec<_> = (0..MAX_PRIVATE_SESSIONS).map(|_| start().unwrap()).collect();
    assert_eq!(start().unwrap_err().status(), Status::ERROR_NO_SYSTEM_RESOURCES);
    sessions.pop().unwrap().stop().unwrap();
    start().unwrap();
}

/// OV-8, OV-9, OV-14, OV-16: level and keyword decide, in the provider already, and its own answer is the same.
#[test]
fn levels_and_keywords() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x204);
    let _registration = PROVIDER.register();
    let path = TempPath::new("levels.etl");
    let session = small("levels").file(&path).start().unwrap();
    let mut expected = Vec::new();
    let mut n = 0;
    for (level, any, all, ignore) in [
        (5, 0, 0, false),
        (4, 2, 0, false),
        (4, 4, 0, false),
        (3, 0, 0, false),
        (4, 3, 2, false),
        (4, 6, 6, false),
        (0, 0, 0, true),
    ] {
        let wanted = LevelKeyword {
            level: Level(level),
            any: Keyword(any),
            all: Keyword(all),
            ignore_keyword_0: ignore,
        };
        session.enable_with(&PROVIDER, EnableInfo { wanted, ..EnableInfo::default() }).unwrap();
        for (event_level, keyword) in [(4u8, 2u64), (4, 0), (5, 2), (0, 0), (2, 4)] {
            let passes = wanted.matches(Level(event_level), Keyword(keyword));
            assert_eq!(
                PROVIDER.is_enabled(Level(event_level), etw::Keyword(keyword)),
                passes,
                "{wanted:?}"
            );
            let status = match (event_level, keyword) {
                (4, 2) => write_event!(PROVIDER, "E", level(4), keyword(2), u32("n", &n)),
                (4, 0) => write_event!(PROVIDER, "E", level(4), keyword(0), u32("n", &n)),
                (5, 2) => write_event!(PROVIDER, "E", level(5), keyword(2), u32("n", &n)),
                (0, 0) => write_event!(PROVIDER, "E", level(0), keyword(0), u32("n", &n)),
                _ => write_event!(PROVIDER, "E", level(2), keyword(4), u32("n", &n)),
            };
            assert!(status.is_success());
            expected.extend(passes.then_some(n));
            n += 1;
        }
    }
    let ledger = session.stop().unwrap().ledger;
    assert_eq!(numbers(&path), expected);
    assert_eq!((ledger.stored, ledger.filtered), (expected.len() as u64, 0));
}

/// OV-17: filters of the session: event name, process id.
#[test]
fn filters_of_the_session() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x205);
    let _registration = PROVIDER.register();
    let path = TempPath::new("filters.etl");
    let session = small("filters").file(&path).start().unwrap();
    let with = |filters| EnableInfo { filters: Some(Box::new(filters)), ..EnableInfo::default() };
    let names = NameFilter { of: LevelKeyword::ALL, include: true, names: vec!["B".into()] };
    session
        .enable_with(&PROVIDER, with(Filters { event_names: Some(names), ..Filters::default() }))
        .unwrap();
    let write = |n: u32| {
        assert!(write_event!(PROVIDER, "A", level(4), u32("n", &n)).is_success());
        assert!(write_event!(PROVIDER, "B", level(4), u32("n", &(n + 1))).is_success());
    };
    write(0);
    session.flush().unwrap();
    let nobody = Filters { process_ids: vec![std::process::id() + 1], ..Filters::default() };
    session.enable_with(&PROVIDER, with(nobody)).unwrap();
    write(10);
    session.flush().unwrap();
    let us = Filters { process_ids: vec![std::process::id()], ..Filters::default() };
    session.enable_with(&PROVIDER, with(us)).unwrap();
    write(20);
    let ledger = session.stop().unwrap().ledger;
    assert_eq!(numbers(&path), [1, 20, 21]);
    assert_eq!((ledger.stored, ledger.filtered, ledger.lost_total()), (3, 3, 0));
}

/// OV-15: a callback hears of every change, with all sessions taken together, of what was enabled before, and of requests for state,
/// which it answers with events.
#[test]
fn callbacks_hear_of_every_change() {
    let _permits = session_permits(2);
    provider!(PROVIDER, 0x206);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = heard.clone();
    let path = TempPath::new("callback.etl");
    let first = small("first").file(&path).start().unwrap();
    first.enable(&PROVIDER, Level::ERROR, Keyword(6)).unwrap();
    let registration = PROVIDER.register_with(move |change| {
        log.lock().unwrap().push((change.control, change.level.0, change.any.0, change.all.0));
        if change.control == ControlCode::CaptureState {
            assert!(write_event!(PROVIDER, "Rundown", level(1), keyword(2)).is_success());
        }
    });
    let take = || std::mem::take(&mut *heard.lock().unwrap());
    assert_eq!(take(), [(ControlCode::Enable, 2, 6, 0)]);
    let second = small("second").memory().start().unwrap();
    let wanted =
        LevelKeyword { level: Level(4), any: Keyword(8), all: Keyword(8), ignore_keyword_0: false };
    second.enable_with(&PROVIDER, EnableInfo { wanted, ..EnableInfo::default() }).unwrap();
    assert_eq!(take(), [(ControlCode::Enable, 4, 14, 0)]);
    first.capture_state(&PROVIDER, Level::VERBOSE, Keyword(1));
    assert_eq!(take(), [(ControlCode::CaptureState, 5, 1, 0)]);
    second.stop().unwrap();
    assert_eq!(take(), [(ControlCode::Enable, 2, 6, 0)]);
    first.stop().unwrap();
    assert_eq!(take(), [(ControlCode::Disable, 0, 0, 0)]);
    assert_eq!(read(&path).0.iter().map(|e| e.event.as_str()).collect::<Vec<_>>(), ["Rundown"]);
    drop(registration);
}

/// OV-15: a callback has the session's schematised filter, whichever of the two was there first.
#[test]
fn callbacks_have_the_schematised_filter() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x20b);
    let session = small("schematised").memory().start().unwrap();
    let with = |data: &[u8]| EnableInfo {
        filters: Some(Box::new(Filters { schematized: data.to_vec(), ..Filters::default() })),
        ..EnableInfo::default()
    };
    session.enable_with(&PROVIDER, with(b"before")).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = heard.clone();
    let _registration = PROVIDER.register_with(move |change| {
        log.lock().unwrap().push((change.control, change.filter_data.to_vec()));
    });
    session.enable_with(&PROVIDER, with(b"behind")).unwrap();
    let enabled = |data: &[u8]| (ControlCode::Enable, data.to_vec());
    assert_eq!(*heard.lock().unwrap(), [enabled(b"before"), enabled(b"behind")]);
    session.stop().unwrap();
}

/// OV-11: an event carries the thread's activity or the one that is given, and the one it comes from; ids are unique.
#[test]
fn an_event_has_the_activity_of_its_thread_or_its_own() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x207);
    let _registration = PROVIDER.register();
    let path = TempPath::new("activities.etl");
    let session = small("activities").file(&path).start().unwrap();
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    let outer = Activity::new();
    let inner = {
        let _scope = outer.enter();
        assert!(write_event!(PROVIDER, "Start", level(4), opcode(Start)).is_success());
        let inner = Activity::new();
        assert_eq!(inner.related_id(), Some(outer.id()));
        let _scope = inner.enter();
        let related = inner.related_id().unwrap();
        assert!(write_event!(PROVIDER, "Inner", level(4), related_id(&related)).is_success());
        inner
    };
    assert!(write_event!(PROVIDER, "None", level(4)).is_success());
    session.stop().unwrap();
    let ids: Vec<_> = read(&path).0.iter().map(|e| (e.activity, e.related, e.opcode)).collect();
    assert_eq!(
        ids,
        [(outer.id(), None, 1), (inner.id(), Some(outer.id()), 0), (Guid::ZERO, None, 0)]
    );

    let mut ids: Vec<Guid> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (0..1000).map(|_| create_id()).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 8000);
    let mut id = Guid::ZERO;
    for (code, fits) in
        [(0, false), (1, true), (3, true), (5, true), (4, true), (2, true), (6, false)]
    {
        assert_eq!(event_activity_id_control(code, &mut id).is_success(), fits, "{code}");
    }
    let mut clear = Guid::ZERO;
    assert!(event_activity_id_control(2, &mut clear).is_success());
}

/// A provider can be registered from several places, and is there until the last of them is gone.
#[test]
fn registrations_are_counted() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x208);
    let session = small("counted").memory().start().unwrap();
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    assert!(!PROVIDER.is_enabled(Level::ERROR, etw::Keyword(0)));
    let first = PROVIDER.register();
    let second = PROVIDER.register();
    assert!(PROVIDER.is_enabled(Level::ERROR, etw::Keyword(0)));
    drop(first);
    assert!(PROVIDER.is_enabled(Level::ERROR, etw::Keyword(0)));
    drop(second);
    assert!(!PROVIDER.is_enabled(Level::ERROR, etw::Keyword(0)));
    let _third = PROVIDER.register();
    assert!(PROVIDER.is_enabled(Level::ERROR, etw::Keyword(0)));
}

/// All clocks give times between those before and after.
#[test]
fn times_of_all_clocks_lie_between_those_before_and_after() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x209);
    let _registration = PROVIDER.register();
    for clock in [SessionClock::Qpc, SessionClock::System, SessionClock::Cycles] {
        let path = TempPath::new("clock.etl");
        let session = small("clock").file(&path).clock(clock).start().unwrap();
        session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
        let filetime = || {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            (since.as_nanos() / 100) as i64 + 116_444_736_000_000_000
        };
        std::thread::sleep(Duration::from_millis(30));
        let before = filetime();
        greet_all(&PROVIDER, 0..10);
        let after = filetime();
        session.stop().unwrap();
        let file = etw_etl::read::TraceFile::open(&path).unwrap();
        let meaning = *file.clock();
        for event in read(&path).0 {
            let time = meaning.filetime(event.time).unwrap().0;
            // The header has the cycle counter's frequency in whole MHz, and the wall clock may be slewed.
            assert!(
                (before - 20_000..=after + 20_000).contains(&time),
                "{clock:?} {} {}",
                time - before,
                after - time
            );
        }
    }
}

/// 64 threads on however many CPUs: each CPU's stream is in order of time, each thread's events in the order written.
#[test]
fn sixty_four_threads_in_order() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x20a);
    let _registration = PROVIDER.register();
    let path = TempPath::new("threads.etl");
    let session =
        Session::builder("threads").file(&path).pool_size(4 << 20, 32 << 20).start().unwrap();
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    let seconds = std::env::var("ETW_ORDER_SECONDS").map_or(0.3, |s| s.parse().unwrap());
    let start = std::time::Instant::now();
    let counts: Vec<u32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..64u32)
            .map(|thread| {
                scope.spawn(move || {
                    let mut n = 0;
                    while start.elapsed().as_secs_f64() < seconds {
                        greet_all(&PROVIDER, thread << 24 | n..(thread << 24 | n) + 10);
                        n += 10;
                        std::thread::sleep(Duration::from_micros(50));
                    }
                    n
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let statistics = session.stop().unwrap();
    assert_eq!(statistics.facts.out_of_order, 0);
    let file = etw_etl::read::TraceFile::open(&path).unwrap();
    let mut records = etw_etl::read::Records::new(vec![file]);
    let mut next = vec![0u32; 64];
    let mut found = 0;
    while let Some(record) = records.next() {
        if record.payload.len() == 4 && record.hook.is_none() {
            let n = u32::from_le_bytes(record.payload.try_into().unwrap());
            let thread = (n >> 24) as usize;
            // In the order written; what is missing has to be in the ledger.
            assert!(n & 0xff_ffff >= next[thread]);
            next[thread] = (n & 0xff_ffff) + 1;
            found += 1;
        }
    }
    assert_eq!(records.out_of_order(0), 0);
    let written: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    // A thread that is not scheduled for 50 ms in the middle of a write is late, and told.
    assert_eq!(written - found, statistics.ledger.lost(Cause::Late), "{:?}", statistics.ledger);
    assert!(statistics.ledger.is_balanced());
}

/// Stopping a session whose file was removed is an error.
#[test]
fn a_removed_file_is_reported() {
    let _permits = session_permits(2);
    provider!(PROVIDER, 0x3e0);
    let _registration = PROVIDER.register();
    let path = TempPath::new("gone.etl");
    let session = small("gone").file(&path).start().unwrap();
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    greet_all(&PROVIDER, 0..10);
    session.flush().unwrap();
    std::fs::remove_file(&path).unwrap();
    greet_all(&PROVIDER, 10..20);
    assert!(session.flush().unwrap_err().to_string().contains("removed"));
    let ledger = session.statistics().unwrap().ledger;
    assert_eq!((ledger.stored, ledger.lost(Cause::Disk)), (0, 20), "{ledger:?}");
    let error = session.stop().unwrap_err();
    assert!(error.to_string().contains("removed"), "{error}");
    let busy = TempPath::new("busy.etl");
    let first = small("first").file(&busy).start().unwrap();
    let second = small("second").file(&busy).start().unwrap_err();
    assert_eq!(second.status(), Status::ERROR_BAD_PATHNAME);
    // Others still see that the first one runs: it has not lost its lock to the attempt.
    let part = std::fs::canonicalize(etw_host::part::part_path(&busy)).unwrap();
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(part).unwrap());
    assert!(locks.lines().any(|line| line.contains(&format!(":{inode} "))), "{locks}");
    first.stop().unwrap();
    let nowhere = Session::builder("x").file("/nonexistent/folder/x.etl").start().unwrap_err();
    assert_eq!(nowhere.status(), Status::ERROR_BAD_PATHNAME);
    let text = nowhere.to_string();
    assert!(
        text.contains("/nonexistent/folder/x.etl: the folder /nonexistent/folder does not exist"),
        "{text}"
    );
}

/// If another process cuts or empties the file, the session's numbers are those of what is left.
#[test]
fn the_events_of_a_cut_file_are_lost() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x20d);
    let _registration = PROVIDER.register();
    type Configure = fn(SessionBuilder) -> SessionBuilder;
    let modes: [(&str, Configure); 4] = [
        ("sequential", |builder| builder),
        ("circular", |builder| builder.circular(32 << 10)),
        ("compressed", SessionBuilder::compressed),
        ("series%d", |builder| builder.new_file(1 << 20)),
    ];
    for (mode, configure) in modes {
        for share in [0, 3, 5] {
            let path = TempPath::new(&format!("cut-{mode}-{share}.etl"));
            let session = configure(small("cut").file(&path)).start().unwrap();
            session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
            let write = |range: std::ops::Range<u32>| {
                for n in range.step_by(25) {
                    greet_all(&PROVIDER, n..n + 25);
                    session.flush().unwrap();
                }
            };
            write(0..800);
            let name = path.0.to_string_lossy().replace("%d", "1");
            let file = std::fs::OpenOptions::new().write(true).open(&name).unwrap();
            let length = file.metadata().unwrap().len();
            file.set_len(length * share / 6).unwrap();
            write(800..850);
            let queried = session.statistics().unwrap().ledger;
            assert!(queried.lost(Cause::Disk) > 0 && queried.stored < 850, "{mode} {queried:?}");
            // And once more, behind the last event.
            let length = file.metadata().unwrap().len();
            file.set_len(length - 100).unwrap();
            let error = session.stop().unwrap_err().to_string();
            assert!(error.contains("made shorter"), "{mode} {error}");
            let mut records = Records::new(vec![TraceFile::open(&name).unwrap()]);
            let (mut events, mut ledger) = (0, None);
            while let Some(record) = records.next() {
                match record.provider {
                    Some(etw_types::SESSION_REPORTS) => {
                        ledger = ledger.or(Some(record.payload.to_vec()))
                    }
                    _ => events += u64::from(record.hook.is_none()),
                }
            }
            let ledger = ledger.unwrap_or_else(|| panic!("{mode} {share}: the report is cut"));
            let field = |n: usize| u64::from_le_bytes(ledger[n * 8..][..8].try_into().unwrap());
            assert_eq!((field(0), field(1)), (850, events), "{mode} {share}");
            assert_eq!(field(0), field(1) + field(2) + field(4), "{mode} {share}");
        }
    }
}

/// A compressed file says so, is smaller, and holds the same; other modes refuse it.
#[test]
fn a_compressed_file_is_smaller_and_has_the_same_events() {
    let _permits = session_permits(3);
    provider!(PROVIDER, 0x20c);
    let _registration = PROVIDER.register();
    let (plain, compressed) = (TempPath::new("plain.etl"), TempPath::new("compressed.etl"));
    let sessions = [
        Session::builder("plain").file(&plain).start().unwrap(),
        Session::builder("compressed").file(&compressed).compressed().start().unwrap(),
    ];
    for session in &sessions {
        session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    }
    greet_all(&PROVIDER, 0..20_000);
    let ledgers = sessions.map(|session| session.stop().unwrap().ledger);
    assert!(ledgers.iter().all(|ledger| ledger.stored == 20_000), "{ledgers:?}");
    let everything: Vec<u32> = (0..20_000).collect();
    assert!(numbers(&plain) == everything && numbers(&compressed) == everything);
    let size = |path: &TempPath| std::fs::metadata(path).unwrap().len();
    assert!(size(&compressed) * 2 < size(&plain), "{} {}", size(&compressed), size(&plain));
    let file = etw_etl::read::TraceFile::open(&*compressed).unwrap();
    let header = file.header().unwrap();
    assert!(header.log_file_mode.contains(etw_types::LogFileMode::COMPRESSED));
    assert_eq!(header.version, [10, 0, 2, 0]);
    for builder in [
        small("circular").file(&plain).circular(64 << 10),
        small("limited").file(&plain).max_size(64 << 10),
    ] {
        let error = builder.compressed().start().unwrap_err();
        assert_eq!(error.status(), Status::ERROR_INVALID_PARAMETER);
    }
}

/// OV-17: conditions on fields, and what is refused.
#[test]
fn payload_filters_of_the_session() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x3e1);
    let _registration = PROVIDER.register();
    let path = TempPath::new("payload.etl");
    let session = small("payload").file(&path).start().unwrap();
    let filter = |of: &str, op, value| PayloadFilter {
        of: EventKey::Name(of.into()),
        conditions: vec![Condition::new("n", op, &[value]).unwrap()],
        any: false,
        match_all: false,
        metadata: None,
    };
    let with = |payload| EnableInfo {
        filters: Some(Box::new(Filters { payload, ..Filters::default() })),
        ..EnableInfo::default()
    };
    let filters = vec![filter("A", PayloadOp::Modulo, "2"), filter("B", PayloadOp::Ge, "5")];
    session.enable_with(&PROVIDER, with(filters)).unwrap();
    for n in 0..8u32 {
        assert!(write_event!(PROVIDER, "A", level(4), u32("n", &n)).is_success());
        assert!(
            write_event!(PROVIDER, "B", level(4), str8("text", "x"), u32("n", &n)).is_success()
        );
        assert!(write_event!(PROVIDER, "C", level(4), u32("n", &n)).is_success());
    }
    let nine = vec![filter("A", PayloadOp::Eq, "1").conditions[0].clone(); 9];
    let nine = PayloadFilter { conditions: nine, ..filter("A", PayloadOp::Eq, "1") };
    let error = session.enable_with(&PROVIDER, with(vec![nine])).unwrap_err();
    assert_eq!(error.status(), Status::ERROR_INVALID_PARAMETER);
    let ledger = session.stop().unwrap().ledger;
    let names: Vec<String> = read(&path).0.into_iter().map(|e| e.event).collect();
    assert_eq!(names.iter().filter(|name| *name == "A").count(), 4);
    assert_eq!(names.iter().filter(|name| *name == "B").count(), 3);
    assert_eq!(names.iter().filter(|name| *name == "C").count(), 8);
    assert_eq!((ledger.stored, ledger.filtered), (15, 9));
}

/// OV-7: user, terminal session and start key on request; what they take counts when an event is too large.
#[test]
fn properties_of_the_process() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 0x3e2);
    let _registration = PROVIDER.register();
    let path = TempPath::new("properties.etl");
    let session = small("properties").file(&path).start().unwrap();
    let properties = EnableProperties(
        EnableProperties::SID.0 | EnableProperties::TS_ID.0 | EnableProperties::PROCESS_START_KEY.0,
    );
    session.enable_with(&PROVIDER, EnableInfo { properties, ..EnableInfo::default() }).unwrap();
    assert!(greet(&PROVIDER, 1).is_success());
    // An event that fits a buffer of 4096 bytes, but not with 16 + 8 + 8 bytes and three headers more.
    let large = vec![7u8; 4096 - 72 - 80 - 80];
    let write = || write_event!(PROVIDER, "L", level(4), binary("b", &large[..]));
    assert_eq!(write(), Status::ERROR_MORE_DATA);
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    assert_eq!(write(), Status::ERROR_SUCCESS);
    let ledger = session.stop().unwrap().ledger;
    let process = Some(std::process::id());
    let whose = etw::Loss {
        cause: Cause::TooLargeForSession,
        provider: Some(PROVIDER.id()),
        process_id: process,
        count: 1,
    };
    assert_eq!(ledger.losses().collect::<Vec<_>>(), [whose]);

    let file = etw_etl::read::TraceFile::open(&*path).unwrap();
    let mut items = Vec::new();
    let mut records = etw_etl::read::Records::new(vec![file]);
    while let Some(record) = records.next() {
        if record.provider == Some(PROVIDER.id()) {
            items.extend(record.extended.into_iter().map(|i| (i.ext_type.0, i.data.to_vec())));
        }
    }
    let of = |ext_type: u16| {
        let found: Vec<_> = items.iter().filter(|(t, _)| *t == ext_type).collect();
        assert_eq!(found.len(), 1);
        found[0].1.clone()
    };
    // SAFETY: a number.
    let user = unsafe { libc::geteuid() };
    let sid = [&[1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0][..], &user.to_le_bytes()].concat();
    assert_eq!(of(2), sid);
    assert_eq!(of(3).len(), 4);
    let key = u64::from_le_bytes(of(13).try_into().unwrap());
    assert_eq!(key & 0x3f_ffff, u64::from(std::process::id()));
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    assert!(stat.split(' ').any(|field| field == (key >> 22).to_string()), "{key} {stat}");
}

/// A session that enables a provider group hears every provider in it, those that register later too.
#[test]
fn a_provider_group_enables_all_its_providers() {
    let _permits = session_permits(1);
    let group = Guid::from_u128(0x20b_0000);
    let path = TempPath::new("group.etl");
    let session = small("group").file(&path).start().unwrap();
    let dynamic =
        |name: &str, id| Provider::dynamic(name, Guid::from_u128(id), Some(group)).unwrap();
    let (early, late) = (dynamic("Early", 0x20b_0001), dynamic("Late", 0x20b_0002));
    provider!(OTHER, 0x20b_0003);
    let _registrations = (early.register_shared(None), OTHER.register());
    session.enable(&group, Level::VERBOSE, Keyword(0)).unwrap();
    let _registration = late.register_shared(None);
    greet(&early, 1);
    greet(&OTHER, 2);
    greet(&late, 3);
    session.disable(&group);
    greet(&early, 4);
    let ledger = session.stop().unwrap().ledger;
    assert_eq!(numbers(&path), [1, 3]);
    assert_eq!((ledger.attempted, ledger.stored), (2, 2));
}

/// The events stored and overwritten, by the ledger in a trace.
fn ledger_in(path: &TempPath) -> (u64, u64) {
    let mut records =
        etw_etl::read::Records::new(vec![etw_etl::read::TraceFile::open(path).unwrap()]);
    while let Some(record) = records.next() {
        if record.provider == Some(etw_host::LEDGER_PROVIDER) && record.payload.len() == 40 {
            let number =
                |at: usize| u64::from_le_bytes(record.payload[at..at + 8].try_into().unwrap());
            return (number(8), number(16));
        }
    }
    panic!("the trace has no ledger");
}
