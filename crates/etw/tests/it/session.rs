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

/// OV-9: a provider that registers while a session enables it gets the enablement once the session stores its events.
#[cfg(target_os = "linux")]
#[test]
fn a_provider_that_registers_while_it_is_enabled_loses_no_event() {
    const ARMED: &str = "ETW_TEST_ARMED";
    let Some(armed) = std::env::var_os(ARMED) else {
        // In a process of its own, whose controller is held where it asks.
        let armed = TempPath::new("armed");
        std::fs::write(&armed, "hold").unwrap();
        let name = "session::a_provider_that_registers_while_it_is_enabled_loses_no_event";
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        alone.args([name, "--exact"]).env(ARMED, &*armed);
        alone.env("ETWD_FAULT", format!("enablement asked:{}", armed.display()));
        let output = alone.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    };
    provider!(PROVIDER, 0x902);
    let session = Session::builder("meanwhile").memory().start().unwrap();
    let (_registration, is_enabled) = std::thread::scope(|scope| {
        let enabled = scope.spawn(|| session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)));
        while std::fs::read(&armed).unwrap() != b"held" {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let registration = PROVIDER.register();
        let is_enabled = PROVIDER.is_enabled(Level(4), Keyword(2));
        greet(&PROVIDER, 1);
        // The event is drained.
        session.statistics().unwrap();
        std::fs::remove_file(&armed).unwrap();
        enabled.join().unwrap().unwrap();
        (registration, is_enabled)
    });
    greet(&PROVIDER, 2);
    let ledger = session.stop().unwrap().ledger;
    assert_eq!((ledger.stored, ledger.filtered), (1 + u64::from(is_enabled), 0), "{ledger:?}");
}
