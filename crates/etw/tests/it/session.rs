//! Private sessions, from the write to the file and back.
use crate::support::*;
use etw::rt::{Site, descriptor_bytes, write};
use etw::*;

/// `Greeting { n: u32 }`, level 4, keyword 2.
static GREETING: [u8; 16 + 15] = {
    let descriptor = descriptor_bytes(&EventDescriptor {
        id: 0,
        version: 0,
        channel: Channel::TRACE_LOGGING,
        level: Level::INFO,
        opcode: Opcode::INFO,
        task: 0,
        keyword: Keyword(2),
    });
    let metadata = *b"\x0f\0\0Greeting\0n\0\x08";
    let mut bytes = [0; 31];
    let mut at = 0;
    while at < 16 {
        bytes[at] = descriptor[at];
        at += 1;
    }
    while at < 31 {
        bytes[at] = metadata[at - 16];
        at += 1;
    }
    bytes
};
static SITE: Site = Site::new(&GREETING);

macro_rules! provider {
    ($name:ident, $id:expr) => {
        static $name: etw::Provider =
            etw::Provider::new("Test", etw::Guid::from_u128($id), b"\x07\0Test\0");
    };
}
pub(crate) use provider;

pub fn greet(provider: &Provider, n: u32) -> Status {
    if !provider.has_level(4) {
        return Status::ERROR_SUCCESS;
    }
    write(provider, &SITE, None, None, 4, |sink| sink.put(&n.to_le_bytes()))
}

/// OV-7: provider, level, keyword, time, process, thread and CPU are those of the write.
#[test]
fn events_go_to_the_file_and_come_back() {
    provider!(PROVIDER, 1);
    let path = TempPath::new("basic.etl");
    let _registration = PROVIDER.register();
    assert_eq!(greet(&PROVIDER, 0), Status::ERROR_SUCCESS);
    let session = Session::builder("basic").file(&path).start().unwrap();
    greet(&PROVIDER, 1);
    session.enable(&PROVIDER, Level::VERBOSE, 0).unwrap();
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
