//! Sessions: limits, modes, changes, leases.

use etw_wire::client::Client;
use etw_wire::control::{FileMode, Request, Response, Start, Update};

use crate::rig::*;

/// OV-2: 64 sessions; the next one fails as documented, and so does one of a name or file that is taken.
#[test]
fn sixty_four_sessions() {
    let rig = Rig::new();
    let small = || Start { buffer_size: 4096, buffers: 2, ..Start::default() };
    for number in 0..64 {
        let enable = vec![(etw::Guid::from_u128(number + 1), all())];
        rig.start_with(&format!("session{number}"), Start { enable, ..small() });
    }
    let start = |name: &str, file: &str| {
        let file = Some(rig.file(file));
        Request::Start(Box::new(Start { name: name.to_owned(), file, ..small() }))
    };
    assert_eq!(rig.refused(start("one more", "more.etl")), 1450);
    rig.stop("session5");
    assert_eq!(rig.refused(start("SESSION6", "more.etl")), 183);
    assert_eq!(rig.refused(start("one more", "session6.etl")), 161);
    assert_eq!(rig.refused(Request::Stop { session: "session5".to_owned() }), 4201);
    rig.session(start("one more", "more.etl"));
    let Response::Sessions { sessions } = rig.ask(Request::List) else { panic!() };
    assert_eq!(sessions.len(), 64);
}

/// OV-12: up to eight sessions a provider; the ninth is refused with its status. Each of the eight has every event.
#[test]
fn eight_sessions_of_a_provider() {
    let rig = Rig::new();
    let files: Vec<_> = (0..8).map(|number| rig.start(&format!("session{number}"))).collect();
    let start = Start {
        name: "ninth".to_owned(),
        file: Some(rig.file("ninth.etl")),
        enable: vec![(provider(), all())],
        ..Start::default()
    };
    assert_eq!(rig.refused(Request::Start(Box::new(start))), 1450);
    rig.wait_until(|rig| rig.ask(Request::Query { session: "ninth".to_owned() }).is_error());
    rig.program("threads", &[2, 5000]).end();
    for (number, file) in files.iter().enumerate() {
        let status = rig.stop(&format!("session{number}"));
        assert_eq!((status.stored, status.lost), (10_000, 0), "{status:?}");
        assert!(contiguous(&events(file)).values().all(|count| *count == 5000));
    }
}

trait IsError {
    fn is_error(&self) -> bool;
}

impl IsError for Response {
    fn is_error(&self) -> bool {
        matches!(self, Response::Error { .. })
    }
}

/// OV-4, OV-5: every log mode of private sessions.
#[test]
fn log_modes() {
    let rig = Rig::new();
    // Each by itself, so that one that is full or waits for its disk takes nothing from the others.
    let small =
        |start: Start| Start { buffer_size: 4096, buffers: 256, independent: true, ..start };
    let with_size = |mode| small(Start { mode, max_size: Some(64 << 10), ..Start::default() });
    let circular = rig.start_with("circular", with_size(FileMode::Circular));
    let full = rig.start_with("full", with_size(FileMode::Sequential));
    let compressed =
        rig.start_with("compressed", small(Start { compressed: true, ..Start::default() }));
    let memory = Start { buffers: 32, ..small(Start { buffering: true, ..Start::default() }) };
    rig.start_with("memory", memory);
    let series = rig.file("series%d.etl");
    let start = Start {
        name: "series".to_owned(),
        file: Some(series),
        enable: vec![(provider(), all())],
        ..with_size(FileMode::NewFile)
    };
    rig.session(Request::Start(Box::new(start)));
    let append = Start { clock: 2, mode: FileMode::Append, ..small(Start::default()) };
    let appended = rig.start_with("append", append.clone());

    rig.program("threads", &[1, 5000]).end();
    let snapshot = rig.file("snapshot.etl");
    rig.done(Request::Snapshot { session: "memory".to_owned(), file: snapshot.clone() });
    let memory = rig.query("memory");
    assert_eq!(memory.stored + memory.overwritten, 5000, "{memory:?}");
    let last = |events: &[Counted]| events.last().map(|event| event.number);
    let kept = events(&snapshot);
    assert_eq!((last(&kept), kept.len() as u64), (Some(4999), memory.stored));
    // The report of its end takes the place of the oldest.
    assert!(rig.stop("memory").stored <= memory.stored);

    let status = rig.stop("circular");
    let kept = events(&circular);
    assert_eq!((last(&kept), status.lost, status.stored), (Some(4999), 0, 5000));
    assert!(kept.len() < 5000);
    let status = rig.stop("full");
    let kept = events(&full);
    assert_eq!((kept.len() as u64, status.stored + status.lost), (status.stored, 5000));
    assert!(status.lost > 0 && std::fs::metadata(&full).unwrap().len() <= 64 << 10);
    assert_eq!(rig.stop("compressed").stored, 5000);
    assert_eq!(contiguous(&events(&compressed)).values().sum::<u64>(), 5000);
    assert_eq!(rig.stop("series").stored, 5000);
    let numbered = |number: u32| rig.file(&format!("series{number}.etl"));
    let series: Vec<_> = (1..).map(numbered).take_while(|path| path.exists()).collect();
    let series = events_of(&series);
    assert_eq!(contiguous(&series).values().sum::<u64>(), 5000);

    assert_eq!(rig.stop("append").stored, 5000);
    rig.start_with("append", append);
    rig.program("count", &[10, 0]).end();
    rig.stop("append");
    assert_eq!(events(&appended).len(), 5010);
}

/// `ControlTrace` UPDATE: buffers, flush timer, and another file while programs go on.
#[test]
fn a_running_session_is_changed() {
    let rig = Rig::new();
    let first = rig.start_with("changed", Start { buffers: 4, ..Start::default() });
    let mut program = rig.program("endless", &[200]);
    program.expect("ready");
    rig.wait_until(|rig| rig.query("changed").stored > 100);
    let second = rig.file("second.etl");
    let update = |update| Request::Update { session: "changed".to_owned(), update };
    rig.done(update(Update { buffers: Some(16), ..Update::default() }));
    rig.done(update(Update { flush_timer_ms: Some(20), ..Update::default() }));
    rig.done(update(Update { file: Some(second.clone()), ..Update::default() }));
    assert_eq!(rig.query("changed").buffers, 16);
    let before = rig.query("changed").stored;
    rig.wait_until(|rig| rig.query("changed").stored > before + 200);
    // The timer brings events to the file without a flush.
    rig.wait_until(|_| std::fs::metadata(&second).unwrap().len() > 64 << 10);
    rig.done(Request::Flush { session: "changed".to_owned() });
    let status = rig.stop("changed");
    program.kill();
    let mut all = events(&first);
    let in_first = all.len();
    all.extend(events(&second));
    assert!(in_first > 0 && all.len() > in_first);
    assert_eq!((all.len() as u64, status.lost), (status.stored, 0));
    let from = all[0].number;
    assert!(all.iter().zip(from..).all(|(event, number)| event.number == number));
}

/// Changes of the file that come at once, with buffers on their way, are made one behind the other: none is refused, and each is answered
/// when the file before is complete. OV-5
#[test]
fn changes_of_the_file_are_made_in_order() {
    let rig = Rig::new();
    for compressed in [false, true] {
        let start = Start { buffers: 512, buffer_size: 8192, compressed, ..Start::default() };
        let name = format!("ordered{}", u8::from(compressed));
        let first = rig.start_with(&name, start);
        let mut program = rig.program("endless", &[20]);
        program.expect("ready");
        rig.wait_until(|rig| rig.query(&name).stored > 1000);
        let files: Vec<_> = (0..6).map(|n| rig.file(&format!("{name}-{n}.etl"))).collect();
        std::thread::scope(|scope| {
            for file in &files {
                let (runtime, name) = (rig.runtime(), &name);
                scope.spawn(move || {
                    let client = Client::connect(&runtime).unwrap();
                    let update = Update { file: Some(file.clone()), ..Update::default() };
                    let answer = client.ask(&Request::Update { session: name.clone(), update });
                    assert!(matches!(answer, Ok(Response::Done { .. })), "{answer:?}");
                });
            }
        });
        let before = rig.query(&name).stored;
        rig.wait_until(|rig| rig.query(&name).stored > before + 1000);
        let said = program.kill();
        let status = rig.stop(&name);
        let mut parts: Vec<_> = [first].iter().chain(&files).map(|file| events(file)).collect();
        parts.sort_by_key(|events| events.first().map(|event| event.number));
        let all = parts.concat();
        let count = contiguous(&all).values().sum::<u64>();
        assert!(count >= said && (count, 0) == (status.stored, status.lost), "{said}: {status:?}");
        // The last one has what came since.
        assert!(parts.last().unwrap().len() >= 1000);
    }
}

/// A leased session ends with its owner; its file is complete. OV-19: what the flush timer brings out.
#[test]
fn leased_sessions_end_with_their_owner() {
    let rig = Rig::new();
    let client = Client::connect(&rig.runtime()).unwrap();
    let file = rig.file("leased.etl");
    let start = Start {
        name: "leased".to_owned(),
        file: Some(file.clone()),
        leased: true,
        enable: vec![(provider(), all())],
        ..Start::default()
    };
    client.ask(&Request::Start(Box::new(start))).unwrap();
    rig.program("count", &[100, 0]).end();
    drop(client);
    rig.wait_until(|rig| rig.ask(Request::Query { session: "leased".to_owned() }).is_error());
    rig.wait_until(|_| etw_etl::read::TraceFile::open(&file).is_ok_and(|file| file.is_finalised()));
    assert_eq!(events(&file).len(), 100);
}

/// What cannot be is refused with ETW's status and a sentence, and leaves nothing behind.
#[test]
fn refusals() {
    let rig = Rig::new();
    let file = || Some(rig.file("refused.etl"));
    let named = || Start { name: "refused".to_owned(), ..Start::default() };
    let cases = [
        (named(), 161),
        (Start { file: file(), ..Start::default() }, 87),
        (Start { file: file(), buffers: 1, ..named() }, 87),
        (Start { file: file(), buffer_size: 1000, ..named() }, 87),
        (Start { file: file(), buffers: 1 << 20, ..named() }, 87),
        (Start { file: file(), clock: 9, ..named() }, 87),
        (Start { file: file(), mode: FileMode::Circular, ..named() }, 87),
        (Start { file: file(), buffering: true, ..named() }, 87),
        (Start { file: file(), preallocate: true, ..named() }, 87),
        (Start { file: Some(rig.file("no/such/folder.etl")), ..named() }, 161),
        (Start { file: Some("relative.etl".into()), ..named() }, 87),
        (Start { file: file(), enable: vec![(etw::Guid::ZERO, all())], ..named() }, 87),
    ];
    for (start, status) in cases {
        let text = format!("{start:?}");
        assert_eq!(rig.refused(Request::Start(Box::new(start))), status, "{text}");
        rig.wait_until(|rig| {
            let start = Start { name: "refused".to_owned(), real_time: true, ..Start::default() };
            !rig.ask(Request::Start(Box::new(start))).is_error()
        });
        rig.stop("refused");
    }
}
