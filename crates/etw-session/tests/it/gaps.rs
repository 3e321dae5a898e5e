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

/// P3, P12: marks that wait when the host is killed come in the next one, also those of buffers that the file did not take.
#[test]
fn marks_outlive_a_killed_host() {
    let system = Some(SystemConfig::default());
    let (config, host) =
        (SessionConfig { system, ..config(LogMode::default()) }, HostFacts::default());
    for is_stored_again in [true, false] {
        let mut numbers = vec![0; state::STATE_SIZE];
        let mut buffers = [[0; 1024]; 3];
        {
            let buffers = buffers.iter_mut().map(|buffer| &mut buffer[..]).collect();
            let mut killed = Session::new(&config, host, buffers).unwrap();
            killed.enable(PROVIDER, EnableInfo::default());
            killed.keep_state(&mut numbers[..], 0);
            let push = |killed: &mut Session<&mut [u8]>, number: u64, cpu| {
                killed.push(&event(&number.to_le_bytes(), number as i64, cpu))
            };
            // The file does not take the first buffer of CPU 2, and takes another one perhaps.
            (1..11).for_each(|number| push(&mut killed, number, 2).unwrap());
            killed.flush(10);
            killed.seal(1);
            let full = killed.take_full().unwrap();
            killed.not_stored(full);
            push(&mut killed, 11, 2).unwrap();
            killed.flush(11);
            killed.seal(2);
            let full = killed.take_full().unwrap();
            if is_stored_again {
                killed.stored(full);
            } else {
                killed.not_stored(full);
            }
            // No buffer is free for CPU 130, nor for CPU 0 after its first one.
            (20..30).for_each(|number| push(&mut killed, number, 0).unwrap());
            (30..40).for_each(|number| push(&mut killed, number, 1).unwrap());
            push(&mut killed, 40, 3).unwrap();
            for (number, cpu) in [(41, 0), (42, 130), (43, 128), (44, 0)] {
                assert_eq!(push(&mut killed, number, cpu), Err(Cause::SessionFull));
            }
            killed.seal(3);
            // The next host takes these events again.
            assert_eq!(push(&mut killed, 45, 1), Err(Cause::SessionFull));
        }
        let saved = state::Saved::read(&numbers, 3).unwrap();
        let found = recover::recover(buffers.iter().map(|buffer| &buffer[..]), 3);
        let killed = state::Killed { saved, found, batch: 3 };
        let memories = vec![vec![0; 1024]; 8];
        let resumed = Session::resume(&config, host, memories, killed, &etw_types::Guid::ZERO);
        let (mut session, placed) = resumed.unwrap();
        assert!(placed.is_empty());
        session.enable(PROVIDER, EnableInfo::default());
        for (number, cpu) in [(50, 0), (51, 1), (52, 2), (53, 128), (54, 130)] {
            push(&mut session, number, cpu).unwrap();
        }
        session.stop(60);
        let stored = contents(&store(&mut session, 4));
        let lost_buffer = (!is_stored_again).then_some(Err(1));
        let new = [
            vec![Err(41), Ok(50)],
            vec![Ok(51)],
            lost_buffer.into_iter().chain([Ok(52)]).collect(),
            // Far CPUs share the latest time.
            vec![Err(43), Ok(53)],
            vec![Err(43), Ok(54)],
        ];
        assert_eq!(stored[3..], new, "{is_stored_again}");
        assert!(session.ledger().is_balanced());
    }
}
