//! Private sessions, from the write to the file and back.
use crate::support::*;
use etw::*;

macro_rules! provider {
    ($name:ident, $id:expr) => {
        static $name: etw::Provider =
            etw::Provider::new("Test", etw::Guid::from_u128($id), b"\x07\0Test\0");
    };
}
pub(crate) use provider;

/// `Greeting { n: u32 }`, level 4, keyword 2.
pub fn greet(provider: &Provider, n: u32) -> Status {
    write_event!(provider, "Greeting", level(Informational), keyword(2), u32("n", &n))
}

/// OV-7: provider, level, keyword, time, process, thread and CPU are those of the write.
#[test]
fn events_go_to_the_file_and_come_back() {
    let _permits = session_permits(1);
    provider!(PROVIDER, 1);
    let path = TempPath::new("basic.etl");
    let _registration = PROVIDER.register();
    assert_eq!(greet(&PROVIDER, 0), Status::ERROR_SUCCESS);
    let session = Session::builder("basic").file(&path).start().unwrap();
    greet(&PROVIDER, 1);
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    for n in 100..1100 {
        assert_eq!(greet(&PROVIDER, n), Status::ERROR_SUCCESS);
    }
    session.disable(&PROVIDER);
    greet(&PROVIDER, 2);
    let statistics = session.stop().unwrap();
    assert!(statistics.ledger.is_balanced(), "{:?}", statistics.ledger);
    assert_eq!((statistics.ledger.attempted, statistics.ledger.stored), (1000, 1000));
    let (events, reports) = read(&path);
    let fields: Vec<String> = events.iter().map(|e| e.fields.clone()).collect();
    assert_eq!(fields, (100..1100).map(|n| format!("n={n}")).collect::<Vec<_>>());
    let first = &events[0];
    assert_eq!((first.provider.as_str(), first.event.as_str()), ("Test", "Greeting"));
    assert_eq!((first.level, first.keyword, first.pid), (4, 2, std::process::id()));
    assert_eq!(reports.len(), 1);
    assert!(reports[0].fields.starts_with("attempted=1000 stored=1000"), "{}", reports[0].fields);
}
