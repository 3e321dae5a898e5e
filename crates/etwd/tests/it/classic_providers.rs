//! Classic providers in global sessions: the newest session has the provider.

use std::path::{Path, PathBuf};

use etw::Guid;
use etw_etl::read::{Records, TraceFile};
use etw_session::{EnableInfo, SessionConfig};
use etw_types::{HeaderType, Keyword, Level, LevelKeyword};
use etw_wire::requests::{Request, Response};

use crate::daemon::Daemon;
use crate::rig::*;

pub const CONTROL: Guid = Guid::from_u128(0xc1a5_5c0d);
/// The class of the events; sessions enable the control GUID.
pub const CLASS: Guid = Guid::from_u128(0xc1a5_5c1a);

fn enable(session: &str, level: u8) -> Request {
    let wanted = LevelKeyword::new(Level(level), Keyword(level.into()));
    Request::Enable {
        session: session.to_owned(),
        provider: CONTROL.into(),
        info: EnableInfo { wanted, ..EnableInfo::default() },
        timeout_ms: 5000,
    }
}

/// Process and number of each classic event, in order.
fn numbers(path: &Path) -> Vec<(u32, u64)> {
    let mut records = Records::new(vec![TraceFile::open(path).unwrap()]);
    let mut numbers = Vec::new();
    while let Some(record) = records.next() {
        if record.provider == Some(CLASS) {
            assert_eq!(record.header, HeaderType::Full64);
            let number = u64::from_le_bytes(record.payload.try_into().unwrap());
            numbers.push((record.process_id.unwrap(), number));
        }
    }
    assert!(records.damage().is_empty(), "{:?}", records.damage().kept());
    numbers
}

/// The next line that is not a number.
#[track_caller]
fn told(program: &mut Program, wanted: &str) {
    let line = loop {
        let line = program.line().unwrap();
        if line.parse::<u64>().is_err() {
            break line;
        }
    };
    assert_eq!(line, wanted);
}

/// OV-12, P3: of two sessions the newest has the provider, also in programs that start later, and after the host's worker is
/// killed. Each event is recorded once.
#[test]
fn the_newest_global_session_has_a_classic_provider() {
    let daemon = Daemon::new();
    let files: Vec<PathBuf> =
        ["a", "b"].map(|name| daemon.start(name, SessionConfig::default())).to_vec();
    let done = |request: &Request| {
        let answer = daemon.ask(request);
        assert!(matches!(answer, Response::Done { .. }), "{answer:?}");
    };
    done(&enable("b", 2));
    done(&enable("a", 1));
    done(&enable("b", 3));
    let mut program = daemon.rig.program("classic", &[0]);
    // The callback receives the newest session only.
    told(&mut program, "EnableEvents 3 3");
    told(&mut program, "ready");
    let mut killed = 0;
    while killed < 3 {
        if program.line().unwrap().parse::<u64>().is_ok() {
            daemon.kill_worker();
            killed += 1;
        }
    }
    // A program that connects to a new worker receives the same.
    assert!(matches!(daemon.ask(&Request::List), Response::Sessions { .. }));
    let mut later = daemon.rig.program("classic", &[0]);
    told(&mut later, "EnableEvents 3 3");
    told(&mut later, "ready");
    later.kill();
    // The new worker sends the first program its enablement again; the callback receives nothing.
    done(&enable("a", 4));
    told(&mut program, "EnableEvents 4 4");
    program.line().unwrap();
    done(&Request::Disable { session: "b".to_owned(), provider: CONTROL.into() });
    program.line().unwrap();
    let a = daemon.stop("a");
    told(&mut program, "DisableEvents 0 0");
    done(&enable("b", 5));
    told(&mut program, "EnableEvents 5 5");
    program.line().unwrap();
    let id = program.id();
    let said = program.kill();
    let b = daemon.stop("b");
    let (of_a, of_b) = (numbers(&files[0]), numbers(&files[1]));
    assert_eq!((of_a.len() as u64, of_b.len() as u64), (a.stored, b.stored));
    assert!(of_a.len() >= 100 && of_b.len() >= 400, "{} {}", of_a.len(), of_b.len());
    let mut all = [of_a, of_b].concat();
    all.retain(|(process, _)| *process == id);
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "an event is in both, or twice in one");
    // An event that was on its way when its session ended is counted as lost.
    let end = all.last().unwrap().1 + 1;
    let missing: Vec<u64> = (0..end).filter(|n| !all.contains(&(id, *n))).collect();
    assert!(end >= said, "{said}");
    assert_eq!(missing.len() as u64, a.lost, "{missing:?} {:?}", a.losses);
    // The events that the two killed programs were writing are counted as lost, too.
    assert!(missing.len() <= 1 && b.lost <= 2, "{missing:?} {:?}", b.losses);
}

/// OV-12: an event that a child writes with its parent's handle is recorded as the child's.
#[test]
fn children_of_a_fork_write_classic_events() {
    let rig = Rig::new();
    let file = rig.start("fork");
    rig.done(enable("fork", 1));
    let mut program = rig.program("classic", &[10]);
    loop {
        if program.line().unwrap() == "100" {
            break;
        }
    }
    let id = program.id();
    program.kill();
    rig.stop("fork");
    let numbers = numbers(&file);
    assert!(numbers.len() >= 100);
    for (at, (process, number)) in numbers.iter().enumerate() {
        assert_eq!((*number, *process == id), (at as u64, at >= 10));
    }
}
