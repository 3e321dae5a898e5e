//! The handling of full buffers in each log mode.
use crate::support::*;
use etw_session::*;
use etw_types::LogFileMode;

/// Ten events of 88 bytes fill a buffer of 1 KiB.
const IN_A_BUFFER: u64 = 10;

/// OV-4, OV-19: buffers come out in the order in which they filled, at rising places, each stream in order.
#[test]
fn a_sequential_file_has_buffers_in_the_order_in_which_they_filled() {
    let mut session = session(LogMode::Sequential { max_size: None }, 8);
    for number in 0..4 * IN_A_BUFFER + 3 {
        push(&mut session, number, (number % 2) as u16).unwrap();
    }
    assert!(session.take_full().is_none(), "what is not sealed is not final");
    let stored = store(&mut session, 1);
    assert_eq!(stored.len(), 4);
    session.stop(100);
    let rest = store(&mut session, 2);
    let all = [stored, rest].concat();
    let places: Vec<_> = all.iter().map(|(place, _)| (place.file, place.slot)).collect();
    assert_eq!(places, (1..=6).map(|slot| (1, slot)).collect::<Vec<_>>());
    let sequences: Vec<u8> = all.iter().map(|(_, bytes)| bytes[0x18]).collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5, 6]);
    // Only the last buffer of a flush is marked.
    assert_eq!(
        all.iter().map(|(_, bytes)| bytes[0x34] & 1).collect::<Vec<_>>(),
        [0, 0, 0, 0, 0, 1]
    );
    let mut found: Vec<u64> = all.iter().flat_map(|(_, bytes)| numbers(bytes)).collect();
    found.sort_unstable();
    assert_eq!(found, (0..4 * IN_A_BUFFER + 3).collect::<Vec<_>>());
    assert_eq!(push(&mut session, 99, 0), Err(Cause::SessionFull));
    assert_eq!((session.state(), session.facts().buffers), (State::Stopped, 6));
}

/// OV-4: at its maximum size, a sequential file accepts no more events, and later ones are counted as lost. Its last buffer is for the
/// session's reports at the end.
#[test]
fn a_full_file_takes_no_more() {
    let mut session = session(LogMode::Sequential { max_size: Some(4 * 1024) }, 8);
    let taken = (0..50).filter(|number| push(&mut session, *number, 0).is_ok()).count() as u64;
    assert_eq!((taken, session.state()), (2 * IN_A_BUFFER, State::FileFull));
    let report = Event::default();
    assert_eq!(session.push_report(&report), Err(Cause::SessionFull), "events may still come");
    session.begin_report();
    let reports = (0..50).filter(|_| session.push_report(&report).is_ok()).count() as u64;
    assert!(reports > 0 && reports < 50, "{reports}");
    assert_eq!(session.ledger().stored, taken);
    session.stop(0);
    assert_eq!(store(&mut session, 1).last().unwrap().0, Place { file: 1, slot: 3 });
    assert_eq!(session.ledger().lost(Cause::SessionFull), 50 - taken);
}

#[test]
fn circular_and_series() {
    for (mode, expected) in [
        (
            LogMode::Circular { max_size: 4096 },
            [(1, 1), (1, 2), (1, 3), (1, 1), (1, 2), (1, 3), (1, 1)],
        ),
        (
            LogMode::NewFile { max_size: 4096 },
            [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (3, 1)],
        ),
        (LogMode::Append, [(1, 5), (1, 6), (1, 7), (1, 8), (1, 9), (1, 10), (1, 11)]),
    ] {
        let append_to = (mode == LogMode::Append).then_some(FileEnd { slots: 5, last_sequence: 9 });
        let host = HostFacts { append_to, ..HostFacts::default() };
        let mut session = with_host(&config(mode), host, 3);
        let mut places = Vec::new();
        for number in 0..7 * IN_A_BUFFER {
            push(&mut session, number, 0).unwrap();
            places.extend(
                store(&mut session, number + 1).iter().map(|(p, b)| (p.file, p.slot, b[0x18])),
            );
        }
        session.stop(0);
        places.extend(store(&mut session, 1000).iter().map(|(p, b)| (p.file, p.slot, b[0x18])));
        let first = append_to.map_or(1, |end| end.last_sequence as u8 + 1);
        let expected: Vec<_> =
            expected.iter().zip(first..).map(|((file, slot), seq)| (*file, *slot, seq)).collect();
        assert_eq!(places, expected, "{mode:?}");
    }
}

/// A series says how many buffers its current file still takes, so that a host can begin another one before.
#[test]
fn the_room_in_a_file_of_a_series() {
    let mut session = session(LogMode::NewFile { max_size: 5 * 1024 }, 8);
    let mut room = Vec::new();
    for number in 0..6 * IN_A_BUFFER {
        push(&mut session, number, 0).unwrap();
        room.push(session.room_in_series().unwrap());
        if number >= 2 * IN_A_BUFFER {
            store(&mut session, number + 1);
        }
    }
    room.dedup();
    let expected = [3, 2, 1, 0, 3, 2].map(|left| (left, 4));
    assert_eq!(room, expected, "whether buffers wait for the file or are in it");
    session.begin_file();
    assert_eq!(session.room_in_series(), Some((3, 4)), "one is filled in part");
    let sequential = with_host(&config(LogMode::default()), HostFacts::default(), 2);
    assert_eq!(sequential.room_in_series(), None);
}

/// OV-5: memory keeps the newest buffers; a snapshot changes nothing.
#[test]
fn memory_keeps_the_newest_buffers() {
    let mut session = session(LogMode::Buffering, 3);
    for number in 0..100 {
        push(&mut session, number, 0).unwrap();
        session.seal(number + 1);
        assert!(session.take_full().is_none());
    }
    let before = session.ledger().clone();
    for _ in 0..2 {
        let found: Vec<u64> =
            session.snapshot(500, &[]).iter().flat_map(|bytes| numbers(bytes)).collect();
        assert_eq!(found, (70..100).collect::<Vec<_>>());
    }
    assert_eq!(*session.ledger(), before);
    assert_eq!((before.stored, before.overwritten), (30, 70));
    push(&mut session, 100, 0).unwrap();
    assert_eq!(session.ledger().overwritten, 80);
}

/// OV-5, P2: what a session in memory keeps has no gap where a thread moved between processors, also after its host was killed.
#[test]
fn memory_has_no_gap_where_a_thread_moved() {
    const EVENTS: u64 = 300;
    for seed in 0..40u64 {
        let (config, host) = (config(LogMode::Buffering), HostFacts::default());
        let (mut state_memory, mut memories) = (vec![0; state::STATE_SIZE], [[0; 1024]; 6]);
        let mut batch = 1;
        let kept_by = |buffers: Vec<Vec<u8>>| {
            let mut kept: Vec<u64> = buffers.iter().flat_map(|bytes| numbers(bytes)).collect();
            kept.sort_unstable();
            kept
        };
        let kept = {
            let buffers = memories.iter_mut().map(|buffer| &mut buffer[..]).collect();
            let mut session = Session::new(&config, host, buffers).unwrap();
            session.enable(PROVIDER, EnableInfo::default());
            session.keep_state(&mut state_memory[..], 0);
            let (mut random, mut cpu) = (seed, 0);
            for number in 0..EVENTS {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(seed | 1);
                if random >> 60 == 0 {
                    cpu = (random >> 33) as u16 % 4;
                }
                session.push(&event(&number.to_le_bytes(), number as i64, cpu)).unwrap();
                if number % 7 == 0 {
                    batch += 1;
                    session.seal(batch);
                }
            }
            batch += 1;
            session.seal(batch);
            let kept = kept_by(session.snapshot(EVENTS as i64, &[]));
            assert_eq!(kept, (kept[0]..EVENTS).collect::<Vec<_>>(), "seed {seed}");
            assert!(kept.len() as u64 >= IN_A_BUFFER && session.ledger().is_balanced());
            assert_eq!(session.ledger().stored, kept.len() as u64);
            kept
        };
        let saved = state::Saved::read(&state_memory, batch).unwrap();
        let found = recover::recover(memories.iter().map(|buffer| &buffer[..]), batch);
        let killed = state::Killed { saved, found, batch };
        let memories = vec![vec![0; 1024]; 6];
        let resumed = Session::resume(&config, host, memories, killed, &etw_types::Guid::ZERO);
        let (mut session, _) = resumed.unwrap();
        assert_eq!(kept_by(session.snapshot(EVENTS as i64, &[])), kept, "seed {seed}");
        assert_eq!(session.ledger().stored, kept.len() as u64);
    }
}

/// OV-6, OV-19: without a free buffer events are lost and counted, and the next buffer says so.
#[test]
fn slow_storage_and_failing_storage() {
    let mut session = with(&live(), 2);
    let taken = (0..30).filter(|number| push(&mut session, *number, 0).is_ok()).count() as u64;
    assert_eq!((taken, session.ledger().lost(Cause::SessionFull)), (2 * IN_A_BUFFER, 10));
    session.seal(1);
    let first = session.take_full().unwrap();
    assert!(session.is_storing());
    session.not_stored(first);
    assert_eq!(session.ledger().lost(Cause::Disk), IN_A_BUFFER);
    push(&mut session, 40, 0).unwrap();
    session.flush(99);
    let flags: Vec<u8> = store(&mut session, 2).iter().map(|(_, bytes)| bytes[0x34]).collect();
    // BUFFER_LOST on the first that follows it; EVENTS_LOST, and FLUSH_MARKER on the last.
    assert_eq!(flags, [0x24, 0x23]);
    assert_eq!(session.facts().buffers_lost, 1);
    assert!(session.ledger().is_balanced());
}

#[test]
fn the_flush_timer_hands_out_what_has_waited() {
    // 100 ticks.
    let flush_timer = Some(std::time::Duration::from_micros(10));
    let config = SessionConfig { flush_timer, ..config(LogMode::default()) };
    let mut session = with(&config, 4);
    push(&mut session, 10, 0).unwrap();
    push(&mut session, 60, 1).unwrap();
    session.tick(109);
    assert_eq!(store(&mut session, 1).len(), 0);
    session.tick(110);
    assert_eq!(
        store(&mut session, 2).iter().flat_map(|(_, b)| numbers(b)).collect::<Vec<_>>(),
        [10]
    );
    // A clock that goes back makes nobody wait for ever, and hands out nothing early.
    session.tick(i64::MIN);
    session.tick(160);
    assert_eq!(
        store(&mut session, 3).iter().flat_map(|(_, b)| numbers(b)).collect::<Vec<_>>(),
        [60]
    );
}

#[test]
fn events_above_the_maximum_size_are_rejected() {
    let mut session = session(LogMode::Sequential { max_size: None }, 4);
    let payload = vec![0; 70_000];
    let mut of = |size: usize| {
        let result = session.push(&Event {
            provider: PROVIDER,
            payload: &payload[..size],
            ..Event::default()
        });
        assert!(session.ledger().is_balanced());
        result
    };
    assert_eq!(of(1024 - 72 - 80), Ok(()));
    assert_eq!(of(1024 - 72 - 80 + 1), Err(Cause::TooLargeForSession));
    assert_eq!(of(65_535 - 80), Err(Cause::TooLargeForSession));
    assert_eq!(of(65_536 - 80), Err(Cause::TooLarge));
    for (size, buffers) in [(1000, 4), (0, 4), (32 << 20, 4), (1024, 1)] {
        let config = SessionConfig { buffer_size: size, ..SessionConfig::default() };
        let host = HostFacts::default();
        assert!(
            Session::new(&config, host, vec![vec![0; size as usize]; buffers]).is_err(),
            "{size} {buffers}"
        );
    }
}

/// The documented pairs that exclude each other, and what each mode needs.
#[test]
fn raw_log_file_modes() {
    use LogFileMode as Mode;
    for (mode, has_file, max, status) in [
        (Mode::SEQUENTIAL, true, 0, 0),
        (Mode::NONE, true, 0, 0),
        (Mode::NONE, false, 0, 161),
        (Mode::CIRCULAR, true, 0, 87),
        (Mode::CIRCULAR, true, 1, 0),
        (Mode::CIRCULAR | Mode::SEQUENTIAL, true, 1, 87),
        (Mode::CIRCULAR | Mode::APPEND, true, 1, 87),
        (Mode::NEWFILE, true, 1, 0),
        (Mode::NEWFILE | Mode::SEQUENTIAL, true, 1, 0),
        (Mode::NEWFILE | Mode::PREALLOCATE, true, 1, 87),
        (Mode::APPEND | Mode::REAL_TIME, true, 0, 87),
        (Mode::REAL_TIME, false, 0, 0),
        (Mode::REAL_TIME | Mode::PRIVATE_LOGGER, false, 0, 87),
        (Mode::BUFFERING, false, 0, 0),
        (Mode::BUFFERING | Mode::SEQUENTIAL, true, 0, 87),
        (Mode::USE_GLOBAL_SEQUENCE | Mode::USE_LOCAL_SEQUENCE, true, 0, 87),
        (Mode::RELOG, true, 0, 87),
        (Mode::RELOG | Mode::PRIVATE_LOGGER, true, 0, 0),
        (Mode::PREALLOCATE, true, 0, 87),
    ] {
        let found =
            check_log_file_mode(mode, has_file, max).map_or_else(|error| error.status().0, |()| 0);
        assert_eq!(found, status, "{mode}");
    }
}

/// OV-19: the next buffer that is stored reports one that could not be, whether it was sealed before or after.
#[test]
fn the_next_buffer_on_disk_tells_of_a_lost_one() {
    for closed_before in [true, false] {
        let mut session = with(&live(), 4);
        let number_of_events = if closed_before { 2 * IN_A_BUFFER + 1 } else { IN_A_BUFFER + 1 };
        for number in 0..number_of_events {
            push(&mut session, number, 0).unwrap();
        }
        session.seal(1);
        let first = session.take_full().unwrap();
        session.not_stored(first);
        session.flush(99);
        let flags: Vec<u8> = store(&mut session, 2).iter().map(|(_, b)| b[0x34] & 4).collect();
        let expected: &[u8] = if closed_before { &[4, 0] } else { &[4] };
        assert_eq!(flags, expected);
    }
}

/// An event's size is a u16, however large the buffers are.
#[test]
fn no_event_is_larger_than_its_size_field() {
    let config = SessionConfig { buffer_size: 256 << 10, ..config(LogMode::default()) };
    let mut session = with(&config, 2);
    let payload = vec![7; 70_000];
    for number in 0..2 {
        let event = |size: usize| Event {
            provider: PROVIDER,
            time: number,
            payload: &payload[..size],
            ..Event::default()
        };
        assert_eq!(session.push(&event(65_535 - 80)), Ok(()));
        assert_eq!(session.push(&event(65_536 - 80)), Err(Cause::TooLarge));
    }
}

/// OV-5: a memory session that has stopped takes nothing, and what it has can still be written.
#[test]
fn a_stopped_memory_session_takes_nothing() {
    let mut session = session(LogMode::Buffering, 3);
    for number in 0..5 {
        push(&mut session, number, (number % 2) as u16).unwrap();
    }
    session.stop(5);
    assert_eq!(push(&mut session, 5, 0), Err(Cause::SessionFull));
    let found = session.snapshot(6, &[]);
    let mut found: Vec<u64> = found.iter().flat_map(|bytes| numbers(bytes)).collect();
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2, 3, 4]);
}

/// More CPUs than buffers: what is open goes to the storage, so that a host that waits for it does not wait in vain.
#[test]
fn more_processors_than_buffers() {
    let mut session = session(LogMode::Sequential { max_size: None }, 2);
    let mut batch = 0;
    let mut stored = Vec::new();
    for number in 0..200u64 {
        let cpu = (number * 7 % 5) as u16;
        let mut tries = 0;
        while session.has_room(cpu, 88).is_err() {
            // As a host does: it waits only while something is on its way.
            assert!(session.is_storing(), "nothing is on its way, and nothing ever will be");
            batch += 1;
            stored.extend(store(&mut session, batch));
            tries += 1;
            assert!(tries < 3);
        }
        push(&mut session, number, cpu).unwrap();
    }
    session.stop(200);
    stored.extend(store(&mut session, batch + 1));
    let mut found: Vec<u64> = stored.iter().flat_map(|(_, bytes)| numbers(bytes)).collect();
    found.sort_unstable();
    assert_eq!(found, (0..200).collect::<Vec<_>>());
    assert_eq!(session.ledger().lost_total(), 0);
}

/// A full buffer leaves even when none is free to follow it.
#[test]
fn a_full_buffer_leaves_without_a_successor() {
    let mut session = with(&live(), 2);
    for cpu in 0..2 {
        for number in 0..IN_A_BUFFER {
            push(&mut session, number, cpu).unwrap();
        }
    }
    assert_eq!(push(&mut session, 10, 0), Err(Cause::SessionFull));
    assert_eq!(store(&mut session, 1).len(), 1);
    assert_eq!(push(&mut session, 11, 0), Ok(()));
}

/// P3: a circle with more buffers on their way than it has places goes on after a kill where it was, whether the last place had been
/// told or not.
#[test]
fn a_circle_goes_on_behind_its_newest_buffer() {
    let mode = LogMode::Circular { max_size: 4 * 1024 };
    let (config, host) = (config(mode), HostFacts::default());
    for out in 1..=8u64 {
        for is_told in [true, false] {
            let mut numbers = vec![0; state::STATE_SIZE];
            let mut buffers = [[0; 1024]; 10];
            let mut before = 0;
            {
                let buffers = buffers.iter_mut().map(|buffer| &mut buffer[..]).collect();
                let mut killed = Session::new(&config, host, buffers).unwrap();
                killed.enable(PROVIDER, EnableInfo::default());
                killed.keep_state(&mut numbers[..], 0);
                for number in 0..8 * IN_A_BUFFER + 1 {
                    killed.push(&event(&number.to_le_bytes(), number as i64, 0)).unwrap();
                }
                killed.seal(1);
                for _ in 0..out {
                    before = killed.next_place().slot;
                    assert!(killed.take_full().is_some());
                }
            }
            if !is_told {
                // One file; the slot is in the low bytes.
                numbers[..4].copy_from_slice(&(before as u32).to_le_bytes());
            }
            let saved = state::Saved::read(&numbers, 1).unwrap();
            let found = recover::recover(buffers.iter().map(|buffer| &buffer[..]), 1);
            let killed = state::Killed { saved, found, batch: 1 };
            let memories = vec![vec![0; 1024]; 10];
            let (session, placed) =
                Session::resume(&config, host, memories, killed, &etw_types::Guid::ZERO).unwrap();
            assert_eq!(placed.len() as u64, out);
            assert_eq!(session.next_place(), Place { file: 1, slot: out % 3 + 1 }, "{is_told}");
        }
    }
}

/// P2, P10: events in overwritten buffers of a circular file are counted as overwritten, and the report at the end says what the
/// finished file holds.
#[test]
fn a_circular_file_counts_overwritten_events() {
    let mut session = session(LogMode::Circular { max_size: 4096 }, 3);
    let mut file = std::collections::BTreeMap::new();
    let mut put = |session: &mut Session<Vec<u8>>, batch| {
        for (place, bytes) in store(session, batch) {
            file.insert(place.slot, bytes);
        }
        file.len() as u64
    };
    for number in 0..10 * IN_A_BUFFER + 3 {
        push(&mut session, number, 0).unwrap();
        put(&mut session, number + 1);
    }
    // Ten full buffers went to three slots.
    let ledger = session.ledger();
    assert_eq!((ledger.stored, ledger.overwritten), (3 * IN_A_BUFFER + 3, 7 * IN_A_BUFFER));
    let at_end = session.ledger_at_end(100);
    session.stop(0);
    assert_eq!(put(&mut session, 1000), 3);
    assert_eq!(*session.ledger(), at_end);
    assert_eq!((at_end.stored, at_end.overwritten), (2 * IN_A_BUFFER + 3, 8 * IN_A_BUFFER));
    assert!(at_end.is_balanced());
}

/// P11: what a session writes at its end is whole in a circular file, or the size is known that has room for it.
#[test]
fn a_circular_file_knows_the_size_for_the_end_of_its_session() {
    const END: u64 = 1000;
    for (cpu, count) in (0..2).flat_map(|cpu| (1..60).map(move |count| (cpu, count))) {
        let mut session = session(LogMode::Circular { max_size: 4096 }, 4);
        let mut file = std::collections::BTreeMap::new();
        let mut batch = 0;
        let mut put = |session: &mut Session<Vec<u8>>| {
            batch += 1;
            file.extend(
                store(session, batch).into_iter().map(|(place, bytes)| (place.slot, bytes)),
            );
        };
        let before = (0..25).map(|number| (number, (number % 3 == 0).into()));
        let events = before.chain((END..END + count).map(|number| (number, cpu)));
        for (number, cpu) in events {
            if number == END {
                session.begin_end(END as i64);
            }
            push(&mut session, number, cpu).unwrap();
            put(&mut session);
        }
        let report = Event { time: 5000, ..Event::default() };
        let size = session.size_for_end(report.size(&[]));
        session.push_report(&report).unwrap();
        put(&mut session);
        let first = session.position().next_sequence;
        session.stop(5000);
        put(&mut session);
        let numbers: Vec<u64> = file.values().flat_map(|bytes| numbers(bytes)).collect();
        assert_eq!(numbers.contains(&END), size.is_none(), "{cpu} {count} {first}");
        // Each further buffer is in a further slot.
        assert!(size.is_none_or(|size| size > 4096 && size % 1024 == 0), "{size:?}");
    }
}

/// The table of `LogFileMode` bits works in both directions.
#[test]
fn log_file_mode_bits_and_options_come_back() {
    use LogFileMode as Mode;
    let all = [
        (Mode::SEQUENTIAL, true, None),
        (Mode::SEQUENTIAL | Mode::COMPRESSED, true, None),
        (Mode::SEQUENTIAL | Mode::PREALLOCATE, true, Some(1 << 20)),
        (Mode::CIRCULAR, true, Some(1 << 20)),
        (Mode::NEWFILE | Mode::REAL_TIME, true, Some(1 << 20)),
        (Mode::APPEND | Mode::NO_PER_PROCESSOR_BUFFERING, true, None),
        (Mode::BUFFERING | Mode::INDEPENDENT_SESSION, false, None),
        (Mode::REAL_TIME, false, None),
    ];
    for (bits, has_file, max_size) in all {
        let file = has_file.then(|| "/a%d.etl".into());
        let mut config = SessionConfig { file, ..SessionConfig::default() };
        config.set_log_file_mode(bits, max_size).unwrap();
        let unit = Mode::USE_KBYTES_FOR_SIZE.when(max_size.is_some());
        assert_eq!(config.log_file_mode(), bits | unit, "{bits}");
        let mode = LogMode::of_header(bits, max_size.unwrap_or(0));
        assert_eq!(mode, config.mode, "{bits}");
    }
    let mut config = SessionConfig::default();
    let of_files = Mode::CIRCULAR | Mode::PREALLOCATE | Mode::COMPRESSED | Mode::SECURE;
    config.set_log_file_mode(of_files, None).unwrap();
    assert_eq!(config, SessionConfig { secure: true, ..SessionConfig::default() });
    config.file = Some("/a.etl".into());
    assert!(config.set_log_file_mode(Mode::CIRCULAR, None).is_err());
    assert!(config.set_log_file_mode(Mode::APPEND, Some(1 << 20)).is_err());
}

/// Options that commands take on purpose: an option without effect is an error that names it.
#[test]
fn an_option_that_has_no_effect_is_named() {
    let error =
        |buffering, mode, size| LogMode::of_options(buffering, mode, size).unwrap_err().option();
    let circular = Some(FileMode::Circular);
    assert_eq!(error(true, circular, Some(1)), ConfigOption::LogMode);
    assert_eq!(error(true, None, Some(1)), ConfigOption::MaxSize);
    assert_eq!(error(false, circular, None), ConfigOption::LogMode);
    assert_eq!(LogMode::of_options(true, None, None), Ok(LogMode::Buffering));
    assert_eq!(LogMode::of_options(false, None, None), Ok(LogMode::default()));
    let live = |mode| SessionConfig { mode, real_time: true, ..named() };
    for (mode, option) in [
        (LogMode::Sequential { max_size: Some(1 << 20) }, ConfigOption::MaxSize),
        (LogMode::Circular { max_size: 1 << 20 }, ConfigOption::LogMode),
    ] {
        let error = live(mode).validate().unwrap_err();
        assert_eq!(error, ConfigError::Needs { option, needs: ConfigOption::File });
    }
    let system =
        SessionConfig { system: Some(SystemConfig::default()), ..live(LogMode::default()) };
    assert_eq!(system.validate(), Ok(()));
    let error = SessionConfig { per_processor: false, ..system }.validate().unwrap_err();
    let (option, other) = (ConfigOption::OneStream, ConfigOption::System);
    assert_eq!(error, ConfigError::Exclusive { option, other });
    let append = SessionConfig { mode: LogMode::Append, ..named() };
    let append = SessionConfig { file: Some("/a.etl".into()), ..append };
    for clock in [SessionClock::Qpc, SessionClock::Cycles] {
        let error = SessionConfig { clock, ..append.clone() }.validate().unwrap_err();
        assert_eq!(error.option(), ConfigOption::Clock);
    }
    let append = SessionConfig { clock: SessionClock::default_of(LogMode::Append), ..append };
    assert_eq!(append.validate(), Ok(()));
}

fn named() -> SessionConfig {
    SessionConfig { name: "s".to_owned(), ..SessionConfig::default() }
}
