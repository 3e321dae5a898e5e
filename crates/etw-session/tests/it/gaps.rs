//! Where events are missing that a session could not store, its streams have marks.
use crate::support::*;
use etw_session::*;

fn contents(stored: &[(Place, Vec<u8>)]) -> Vec<Vec<Result<u64, i64>>> {
    stored.iter().map(|(_, bytes)| numbers_and_marks(bytes)).collect()
}

/// A session of the system's events.
fn of_the_system() -> Session<Vec<u8>> {
    with(&SessionConfig { system: Some(SystemConfig::default()), ..config(LogMode::default()) }, 2)
}

/// Ten events fill a buffer.
fn fill(session: &mut Session<Vec<u8>>, cpu: u16, numbers: std::ops::Range<u64>) {
    for number in numbers {
        push(session, number, cpu).unwrap();
    }
}

#[test]
fn the_next_buffer_of_a_stream_begins_with_the_mark_of_a_gap() {
    let mut session = of_the_system();
    fill(&mut session, 0, 0..10);
    fill(&mut session, 1, 10..20);
    // Both buffers are full, and nothing is stored.
    for number in 20..25 {
        assert_eq!(push(&mut session, number, 0), Err(Cause::SessionFull));
    }
    assert_eq!(push(&mut session, 30, 1), Err(Cause::SessionFull));
    assert_eq!(contents(&store(&mut session, 1)).len(), 2);
    push(&mut session, 40, 0).unwrap();
    push(&mut session, 41, 1).unwrap();
    push(&mut session, 42, 0).unwrap();
    session.stop(50);
    let stored = contents(&store(&mut session, 2));
    // The mark has the time of the first event that is missing, and there is one for each gap and CPU.
    assert_eq!(stored, [vec![Err(20), Ok(40), Ok(42)], vec![Err(30), Ok(41)]]);
    assert_eq!((session.ledger().attempted, session.ledger().stored), (29, 23));
}

#[test]
fn an_open_buffer_has_the_mark_at_once() {
    let mut session = of_the_system();
    fill(&mut session, 0, 0..2);
    let payload = [0; 2000];
    for time in [5, 6] {
        let large = Event { payload: &payload, ..event(&[0; 8], time, 0) };
        assert_eq!(session.push(&large), Err(Cause::TooLargeForSession));
    }
    fill(&mut session, 0, 7..8);
    session.stop(50);
    let stored = contents(&store(&mut session, 1));
    assert_eq!(stored, [[Ok(0), Ok(1), Err(5), Ok(7)]]);
}

/// The mark waits for a buffer in which the event that begins it leaves it room.
#[test]
fn an_event_as_large_as_a_buffer_comes_before_the_mark() {
    let mut session = of_the_system();
    fill(&mut session, 0, 0..10);
    fill(&mut session, 1, 10..20);
    assert_eq!(push(&mut session, 20, 0), Err(Cause::SessionFull));
    session.flush(20);
    store(&mut session, 1);
    let payload = vec![0; session.largest_event() - 80];
    session.push(&Event { payload: &payload, ..event(&[0; 8], 21, 0) }).unwrap();
    push(&mut session, 22, 0).unwrap();
    session.stop(50);
    session.seal(2);
    let first = session.take_full().unwrap();
    session.stored(first);
    // Its time is not earlier than that of an event before it.
    assert_eq!(contents(&store(&mut session, 3)), [[Err(21), Ok(22)]]);
}

/// A source of the system's events says by a mark of its own that the kernel lost some.
#[test]
fn marks_are_in_no_ledger() {
    let mut session = of_the_system();
    let record = LossMark::Events.record(0);
    let class = etw_types::EventClass {
        guid: etw_types::LOST_EVENT,
        kind: record[4],
        ..etw_types::EventClass::default()
    };
    let header = etw_types::ClassicHeader::Trace(class);
    let classic = etw_types::Classic { header, is_32_bit: false };
    let mark = Event { classic: Some(&classic), payload: &[], ..event(&[0; 8], 3, 0) };
    fill(&mut session, 0, 0..2);
    session.push(&mark).unwrap();
    fill(&mut session, 0, 4..5);
    assert_eq!((session.ledger().attempted, session.ledger().stored), (3, 3));
    fill(&mut session, 1, 5..6);
    session.stop(50);
    session.seal(1);
    let full = session.take_full().unwrap();
    assert_eq!(full.events(), 3);
    session.not_stored(full);
    assert_eq!(session.ledger().lost(Cause::Disk), 3);
    assert!(session.ledger().is_balanced());
}

/// The records of a session of programs are those of its programs.
#[test]
fn a_session_of_programs_has_no_marks() {
    let mut session = session(LogMode::default(), 2);
    fill(&mut session, 0, 0..10);
    fill(&mut session, 1, 10..20);
    assert_eq!(push(&mut session, 20, 0), Err(Cause::SessionFull));
    assert_eq!(push(&mut session, 30, 1), Err(Cause::SessionFull));
    assert_eq!(contents(&store(&mut session, 1)).len(), 2);
    push(&mut session, 40, 0).unwrap();
    session.stop(50);
    assert_eq!(contents(&store(&mut session, 2)), [vec![Ok(40)]]);
    assert_eq!(session.ledger().lost(Cause::SessionFull), 2);
}
