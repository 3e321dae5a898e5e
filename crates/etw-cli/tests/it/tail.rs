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
