//! Circular files: what is missing of one, and what a session has overwritten.

use super::*;

/// The buffers of a finalised circular file that never wrapped, by a maximum size of so many buffers. The header counts `written` buffers.
fn circular(max_buffers: usize, written: impl Fn(usize) -> usize) -> Vec<Vec<u8>> {
    let mut file = builder(GRID as u32);
    file.header.logfile.log_file_mode = LogFileMode::CIRCULAR | LogFileMode::USE_KBYTES_FOR_SIZE;
    file.header.logfile.maximum_file_size = (max_buffers * GRID / 1024) as u32;
    push_numbered(&mut file, 2, 60);
    let mut buffers = file.finish_buffers();
    for (sequence, buffer) in buffers.iter_mut().enumerate() {
        let field = BufferHeader::SEQUENCE_NUMBER.offset();
        buffer[field..field + 8].copy_from_slice(&(sequence as u64).to_le_bytes());
    }
    let count = buffers.len();
    put_u32(&mut buffers[0], buffers_written_at(), written(count) as u32);
    buffers
}

/// The same, wrapped: the oldest buffers are gone and the newest are in their places.
fn wrapped(overwritten: usize, written: impl Fn(usize) -> usize) -> Vec<Vec<u8>> {
    let count = circular(0, |count| count).len();
    let mut buffers = circular(count - overwritten, written);
    let newest = buffers.split_off(count - overwritten);
    buffers.splice(1..=overwritten, newest);
    buffers
}

/// Offset of `BuffersWritten` in a file: the header's record begins with 32 bytes of its own.
fn buffers_written_at() -> usize {
    HEAD + 32 + etw_etl::header::LogfileHeader::BUFFERS_WRITTEN.offset()
}

#[test]
fn a_circular_file_that_never_wrapped_and_was_cut_is_truncated() {
    let buffers = circular(800, |count| count);
    let count = buffers.len();
    assert!(count > 6, "enough buffers to cut");
    for kept in 1..=count {
        let outcome = read(&buffers[..kept].concat());
        let missing = count - kept;
        let expected =
            if missing > 0 { damages([(kept * GRID, truncated(0, missing))]) } else { vec![] };
        assert_eq!(outcome.damage, expected, "{kept} of {count}");
        assert!(!outcome.totals.wrapped, "{kept} of {count}: nothing was overwritten");
    }
    // With a buffer from the middle removed.
    let mut buffers = buffers;
    buffers.remove(3);
    let outcome = read(&buffers.concat());
    assert_eq!(outcome.damage, damages([((count - 1) * GRID, truncated(0, 1))]));
    assert!(!outcome.totals.wrapped);
}

#[test]
fn numbers_that_a_session_skipped_do_not_make_a_circular_file_wrapped() {
    let mut buffers = circular(800, |count| count - 2);
    // The disk took neither of these, and the session did not count them.
    buffers.drain(2..4);
    let outcome = read(&buffers.concat());
    assert_eq!((outcome.damage, outcome.totals.wrapped), (vec![], false));
}

/// Windows counts what was overwritten, too; sessions of this project count the buffers in the file.
#[test]
fn a_wrapped_file_that_is_shorter_than_its_maximum_size_is_truncated() {
    for counts_all in [true, false] {
        let written = |count| if counts_all { count } else { count - 3 };
        let buffers = wrapped(3, written);
        let count = buffers.len();
        let whole = read(&buffers.concat());
        assert_eq!((whole.damage, whole.totals.wrapped), (vec![], true));
        assert!(whole.rows.iter().filter_map(Row::number).is_sorted());
        for kept in 2..count {
            let outcome = read(&buffers[..kept].concat());
            assert_eq!(outcome.damage, damages([(kept * GRID, truncated(0, count - kept))]));
            assert!(outcome.totals.wrapped);
        }
        let mut without = buffers.clone();
        without.drain(3..5);
        let outcome = read(&without.concat());
        assert_eq!(outcome.damage, damages([((count - 2) * GRID, truncated(0, 2))]));
        let cut = &buffers.concat()[..count * GRID - 0x100];
        let end = count * GRID - 0x100;
        assert_eq!(read(cut).damage, damages([(end, truncated(0x100, 0))]));
    }
}

#[test]
fn a_circular_file_whose_maximum_size_is_unknown_proves_nothing() {
    let buffers = circular(0, |count| count);
    let outcome = read(&buffers[..4].concat());
    assert_eq!(outcome.damage, []);
    // A session that was killed left its header as it was.
    let mut buffers = circular(800, |count| count);
    let end_time = HEAD + 32 + etw_etl::header::LogfileHeader::END_TIME.offset();
    buffers[0][end_time..end_time + 8].fill(0);
    let outcome = read(&buffers[..4].concat());
    assert_eq!((outcome.damage, outcome.totals.wrapped), (vec![], false));
}

#[test]
fn a_buffer_that_a_circular_file_has_twice() {
    let both =
        [circular(800, |count| count), wrapped(3, |count| count), wrapped(3, |count| count - 3)];
    for buffers in both {
        let (count, sound) = (buffers.len(), read(&buffers.concat()));
        let mut twice = buffers.clone();
        twice.push(buffers[count - 1].clone());
        let outcome = read(&twice.concat());
        let first = ((count - 1) * GRID) as u64;
        let expected = damages([(count * GRID, DamageKind::RepeatedBuffer { first })]);
        assert_eq!(outcome.damage, expected);
        assert_same("twice", &outcome.rows, &sound.rows);
        assert_eq!(outcome.totals.wrapped, sound.totals.wrapped);
    }
}

#[test]
fn a_real_circular_trace_that_was_cut_is_truncated() {
    let cuts = [("clr-gc-circular.etl", 0x10000, 3, 2), ("wpp-systemtime.etl", 0x1000, 1, 1)];
    for path in crate::corpus::files() {
        let Some(cut) = cuts.iter().find(|cut| path.ends_with(cut.0)) else { continue };
        let bytes = std::fs::read(&path).unwrap();
        let &(name, size, kept, missing) = cut;
        let outcome = read(&bytes[..kept * size]);
        assert_eq!(outcome.damage, damages([(kept * size, truncated(0, missing))]), "{name}");
        assert!(!outcome.totals.wrapped, "{name}");
    }
}
