//! `etw tail` of a session whose flush timer never expires: a reader receives events without it.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use crate::controllers::{NAME, Place};

/// `etw tail` with its output.
struct Tail {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Tail {
    fn start(place: &Place, words: &[&str]) -> Tail {
        let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
        let mut child = command.args(words).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Tail { child, lines }
    }

    /// The next line; empty at the end.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    fn expect(&mut self, count: usize) {
        for number in 0..count {
            let line = self.line();
            assert!(line.contains("OpenEtw.Test.Controllers"), "{number}: {line:?}");
        }
    }

    fn interrupt(&self) {
        // SAFETY: the arguments are numbers; the child has not been reaped.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) }, 0);
    }
}

/// A reader of a session sees events from before it, events as they are written, and at Ctrl-C whatever was written before.
#[test]
fn a_reader_of_a_session_sees_events_at_once() {
    let place = Place::new("tail");
    place.does(&format!("session start live --real-time --flush-timer 600s -p {NAME}:4"));
    let mut program = place.program();
    program.writes(3);
    let mut tail = Tail::start(&place, &["tail", "live"]);
    tail.expect(3);
    program.writes(2);
    tail.expect(2);
    program.writes(4);
    tail.interrupt();
    tail.expect(4);
    assert_eq!(tail.line(), "");
    assert_eq!(tail.child.wait().unwrap().code(), Some(0));
    // The next reader continues there.
    let mut next = Tail::start(&place, &["tail", "live", "--limit", "1"]);
    program.writes(1);
    next.expect(1);
    assert_eq!(next.child.wait().unwrap().code(), Some(0));
    let status = place.does("session stop live");
    assert!(status.starts_with("10 events, none lost"), "{status}");
}

/// Regression: `pid` was the id that a record's header stores, which those of switches do not; in files it is the owner's.
#[test]
fn a_filter_of_a_stream_tests_the_owner() {
    let place = Place::new("tail-owner");
    let start = ["session", "start", "live", "--real-time", "--system", "cswitch"];
    let output = place.etw(&start);
    if !output.status.success() {
        let text = crate::fixture::stderr(&output);
        assert!(text.contains("CAP_PERFMON") || text.contains("tracefs"), "{text}");
        return eprintln!("left out: {text}");
    }
    let mut switching = place.command("sh".as_ref());
    let mut switching = switching.args(["-c", "while :; do sleep 0.01; done"]).spawn().unwrap();
    let filter = format!("pid == {} and event == 'Thread/CSwitch'", switching.id());
    let words = ["tail", "live", "--where", &filter, "--columns", "event,NewThreadId"];
    let mut tail = Tail::start(&place, &words);
    std::thread::sleep(std::time::Duration::from_secs(1));
    // It ends the stream.
    place.etw(&["session", "stop", "live"]);
    switching.kill().unwrap();
    switching.wait().unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut tail.lines, &mut text).unwrap();
    tail.child.wait().unwrap();
    let is_its = |line: &&str| line.contains(&switching.id().to_string());
    let (its, others): (Vec<&str>, Vec<&str>) = text.lines().skip(1).partition(is_its);
    assert!(its.len() > 10 && others.is_empty(), "{text}");
}

/// The same for a reader that starts its own session: Ctrl-C ends both.
#[test]
fn a_reader_with_its_own_session_sees_everything() {
    let place = Place::new("tail-own");
    let mut tail = Tail::start(&place, &["tail", "-p", &format!("{NAME}:4")]);
    // It waits until a session enables its provider.
    let mut program = place.program();
    program.writes(5);
    tail.interrupt();
    tail.expect(5);
    assert_eq!(tail.line(), "");
    assert_eq!(tail.child.wait().unwrap().code(), Some(0));
}
