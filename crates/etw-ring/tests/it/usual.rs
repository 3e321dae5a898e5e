//! Writes on the usual machine, which find their pool in the thread's state.
use crate::support::*;
use etw_ring::*;

/// A pool to which this thread has written `first`. `None`: this machine is not the usual one, which has TSC, membarrier and rseq.
fn rig_with(first: &[u8]) -> Option<Rig> {
    let rig = rig(1 << 20);
    put(&rig.writer, first).unwrap();
    match put_usual(None, b"usual") {
        Some(written) => written.unwrap(),
        None => {
            eprintln!("left out: not the usual machine");
            return None;
        }
    }
    Some(rig)
}

#[test]
fn a_record_is_as_one_of_the_general_path() {
    let Some(mut rig) = rig_with(b"first") else { return };
    let cache = SiteCache::new();
    assert_eq!(put_usual(Some(&cache), b"unknown site"), None);
    let id = rig.writer.intern(&cache, b"site");
    put_usual(Some(&cache), b"of a site").unwrap().unwrap();
    let mut records = Vec::new();
    rig.reader.drain(&patient(), |it| {
        records.push((it.payload.to_vec(), it.kind, it.registration, it.site, it.tid, it.seq));
    });
    let tid = records[0].4;
    let expected = [(&b"first"[..], 0), (b"usual", 0), (b"of a site", id)].into_iter().enumerate();
    let expected: Vec<_> =
        expected.map(|(seq, (text, id))| (text.to_vec(), 7, 3, id, tid, seq as u32)).collect();
    assert_eq!(records, expected);
    balance(&rig.reader);
}

#[test]
fn nothing_is_written_once_the_pool_is_closed() {
    let Some(mut rig) = rig_with(b"first") else { return };
    rig.writer.close_usual();
    assert_eq!(put_usual(None, b"closed"), None);
    // The general path is still open, and does not open the other one.
    put(&rig.writer, b"general").unwrap();
    assert_eq!(put_usual(None, b"closed"), None);
    assert_eq!(all(&mut rig.reader), [&b"first"[..], b"usual", b"general"]);
    rig.writer.close();
    assert_eq!(put(&rig.writer, b"closed"), Err(Refused::Detached));
    balance(&rig.reader);
}

#[test]
fn a_thread_writes_to_the_pool_that_it_used_last() {
    let Some(mut first) = rig_with(b"first") else { return };
    let cache = SiteCache::new();
    first.writer.intern(&cache, b"site of the first pool");
    let Some(mut second) = rig_with(b"second") else { return };
    assert_eq!(put_usual(Some(&cache), b"site of another pool"), None);
    assert_eq!(all(&mut first.reader), [&b"first"[..], b"usual"]);
    assert_eq!(all(&mut second.reader), [&b"second"[..], b"usual"]);
    // The second writer's word may be used by a third one.
    drop(second);
    assert_eq!(put_usual(None, b"dropped"), None);
    let third = rig(1 << 20);
    assert_eq!(put_usual(None, b"no write yet"), None);
    put(&third.writer, b"third").unwrap();
    assert_eq!(put_usual(None, b"usual"), Some(Ok(())));
}

#[test]
fn a_thread_with_a_word_takes_the_general_path() {
    let Some(mut rig) = rig_with(b"first") else { return };
    assert_eq!(replace_thread_word([0, 1]), [0; 2]);
    assert_eq!(put_usual(None, b"refused"), None);
    // A pool that it meets with the word, too.
    let other = crate::support::rig(1 << 20);
    put(&other.writer, b"other").unwrap();
    assert_eq!(put_usual(None, b"refused"), None);
    put(&rig.writer, b"general").unwrap();
    assert_eq!(replace_thread_word([0; 2]), [0, 1]);
    assert_eq!(put_usual(None, b"again"), Some(Ok(())));
    assert_eq!(all(&mut rig.reader), [&b"first"[..], b"usual", b"general", b"again"]);
}

#[test]
fn a_write_that_is_not_filled_is_counted_as_abandoned() {
    let Some(mut rig) = rig_with(b"first") else { return };

    // SAFETY: the rig's writer stays at its place.
    let written =
        unsafe { try_write_usual(try_this_thread().unwrap(), 0, None, request(5), &b"four"[..]) };
    assert_eq!(written, Some(Err(Refused::Abandoned)));
    put_usual(None, b"next").unwrap().unwrap();
    assert_eq!(all(&mut rig.reader), [&b"first"[..], b"usual", b"next"]);
    assert_eq!(rig.reader.ledger().lost_total(0), 1);
    balance(&rig.reader);
}

/// A thread's first write to some sessions takes the general path, and so does every one beyond four sets of sessions.
#[test]
fn attempts_are_counted_for_each_set_of_sessions() {
    let Some(mut rig) = rig_with(b"first") else { return };
    for slot in 1..4 {
        rig.control.set_admission(slot, open());
    }
    let mut expected = [0; 4];
    expected[0] = 2;
    let of = |sessions| Request { sessions, ..request(4) };
    for round in 0..3 {
        for (number, sessions) in [1, 2, 3, 9, 8, 15].into_iter().enumerate() {
            // SAFETY: the rig's writer stays at its place.
            let usual = unsafe {
                try_write_usual(try_this_thread().unwrap(), 0, None, of(sessions), &b"four"[..])
            };
            let is_known = number == 0 || (round > 0 && number < 4);
            assert_eq!(usual, is_known.then_some(Ok(())), "{round} {sessions}");
            if usual.is_none() {
                rig.writer.write(&of(sessions), |room| room.put(b"four")).unwrap();
            }
            for (slot, count) in expected.iter_mut().enumerate() {
                *count += u64::from(sessions >> slot & 1);
            }
        }
    }
    assert_eq!(all(&mut rig.reader).len(), 2 + 3 * 6);
    assert_eq!(rig.reader.ledger().attempted[..4], expected);
    assert_eq!(rig.reader.drained()[..4], expected);
    balance(&rig.reader);

    // The counts of another pool are others.
    let other = crate::support::rig(1 << 20);
    other.control.set_admission(1, open());
    put(&other.writer, b"other").unwrap();
    // SAFETY: the rig's writer stays at its place.
    let usual =
        unsafe { try_write_usual(try_this_thread().unwrap(), 0, None, of(2), &b"four"[..]) };
    assert_eq!(usual, None);
}
