//! Writes, admission, losses, chunks and sites, in one process.
use crate::support::*;
use etw_ring::*;
use std::time::Duration;

#[test]
fn a_drained_record_equals_the_written_one() {
    let mut rig = rig(1 << 20);
    let request = Request {
        sessions: 1,
        kind: 9,
        registration: 77,
        site: 5,
        user: 0xdead,
        metadata_size: 3,
        payload_size: 64,
        event_size: 144,
    };
    let before = rig.writer.now();
    rig.writer
        .write(&request, |r| {
            r.put(b"met");
            r.put(b"payload")
        })
        .unwrap();
    let after = rig.writer.now();
    let mut n = 0;
    rig.reader.drain(&patient(), |r| {
        n += 1;
        assert!(before <= r.time && r.time <= after);
        assert_eq!((r.kind, r.registration, r.site, r.user), (9, 77, 5, 0xdead));
        assert_eq!((r.metadata_size, r.payload, r.sessions), (3, &b"metpayload"[..], 1));
        assert_eq!((r.seq, r.overflow), (0, false));
        #[cfg(target_os = "linux")]
        assert_eq!(r.tid, unsafe_tid());
    });
    assert_eq!(n, 1);
    balance(&rig.reader);
}

#[cfg(target_os = "linux")]
fn unsafe_tid() -> u32 {
    // SAFETY: plain call.
    unsafe { libc::gettid() as u32 }
}

#[test]
fn heap_and_fence_fallbacks_work() {
    for clock in [RawClock::best(), RawClock::Monotonic] {
        let mut rig = rig_of(1 << 18, Barrier::WriterFences, clock, false);
        for i in 0..5000u32 {
            put(&rig.writer, &i.to_le_bytes()).unwrap();
            if i % 1000 == 0 {
                rig.reader.drain(&patient(), |_| ());
                rig.reader.advance();
            }
        }
        rig.reader.drain(&patient(), |_| ());
        assert_eq!(rig.reader.drained()[0], 5000);
        assert_eq!(rig.reader.gaps(), 0);
        balance(&rig.reader);
    }
}

#[test]
fn every_size_fits_and_a_large_one_gets_a_chunk_of_its_own() {
    let mut rig = rig(4 << 20);
    let sizes = [0, 1, 7, 8, 9, 4055, 4056, 4057, 4096, 16344, 16345, 65000, 65535, 131000];
    for size in sizes {
        let bytes: Vec<u8> = (0..size).map(|i| i as u8).collect();
        let request = Request { event_size: 100, ..request(size) };
        rig.writer.write(&request, |r| r.put(&bytes)).unwrap();
    }
    let seen = all(&mut rig.reader);
    assert_eq!(seen.iter().map(|s| s.len()).collect::<Vec<_>>(), sizes);
    assert!(seen.iter().all(|s| s.iter().enumerate().all(|(i, b)| *b == i as u8)));
    let request = Request { event_size: 100, ..request(layout::MAX_PAYLOAD_SIZE + 1) };
    assert_eq!(rig.writer.write(&request, |_| ()), Err(Refused::ArithmeticOverflow));
    balance(&rig.reader);
}

#[test]
fn refused_writes_return_8_234_and_534() {
    let mut rig = rig(1 << 20);
    let size = |event_size| Request { event_size, ..request(8) };
    let write = |r: &Request| rig.writer.write(r, |r| r.put(&[1; 8]));
    rig.control.set_admission(0, Admission { largest_size: 1000, extra_size: 100, ..open() });
    assert_eq!(write(&size(900)), Ok(()));
    assert_eq!(write(&size(901)).unwrap_err().status(), 234);
    assert_eq!(write(&size(65435)).unwrap_err().status(), 234);
    assert_eq!(write(&size(65436)).unwrap_err().status(), 534);
    assert_eq!(write(&size(u32::MAX)).unwrap_err().status(), 534);
    rig.control.set_admission(0, Admission { full: true, ..open() });
    assert_eq!(write(&size(100)).unwrap_err().status(), 8);
    // Closed: nobody wants it, and nothing is counted.
    rig.control.set_admission(0, Admission::default());
    assert_eq!(write(&size(100)), Err(Refused::NotWanted));
    assert_eq!(write(&Request { sessions: 0, ..size(100) }), Err(Refused::NotWanted));
    rig.control.set_admission(0, open());
    assert_eq!(write(&size(100)), Ok(()));
    let ledger = rig.reader.ledger();
    assert_eq!(ledger.attempted[0], 7);
    assert_eq!(ledger.lost(Cause::TooLargeForSession, 0), 2);
    assert_eq!(ledger.lost(Cause::TooLarge, 0), 2);
    assert_eq!(ledger.lost(Cause::SessionFull, 0), 1);
    assert_eq!(all(&mut rig.reader).len(), 2);
    assert_eq!(rig.reader.gaps(), 5);
    balance(&rig.reader);
}

/// The shortest way asks all sessions at once; what it says is what each of them says, and every attempt is counted for each.
#[test]
fn events_for_several_sessions_are_admitted_and_counted_for_each() {
    let mut rig = rig(1 << 20);
    for slot in 0..layout::SESSIONS {
        rig.control.set_admission(slot, open());
    }
    let write = |sessions: u8, event_size: u32| {
        let request = Request { sessions, event_size, ..request(8) };
        let at_once = rig.writer.try_write(0, request, |room| room.put(&[1; 8]));
        let was_at_once = at_once.is_some();
        (at_once.unwrap_or_else(|| rig.writer.write(&request, |p| p.put(&[1; 8]))), was_at_once)
    };
    assert_eq!(write(1, 100), (Ok(()), false), "the first one gets a chunk");
    let mut attempts = [0; layout::SESSIONS];
    attempts[0] = 1;
    let mut at_once = 0;
    // More masks than are counted by themselves, some again and again.
    for n in 0..2000u32 {
        let mask = [0xff, 0x03, (n % 255 + 1) as u8, 1 << (n % 8), 0xff][n as usize % 5];
        let (written, was_at_once) = write(mask, 100);
        assert_eq!(written, Ok(()));
        at_once += u32::from(was_at_once);
        for (slot, attempts) in attempts.iter_mut().enumerate() {
            *attempts += u64::from(mask >> slot & 1);
        }
    }
    assert!(at_once > 1900, "nearly all: {at_once}");
    assert_eq!(rig.reader.ledger().attempted, attempts);
    // The smallest limit of those that are open, with its own addition, holds for the shortest way only.
    rig.control.set_admission(5, Admission { largest_size: 1000, extra_size: 100, ..open() });
    assert_eq!(write(0x20, 900), (Ok(()), true));
    assert_eq!(write(0x20, 901), (Err(Refused::MoreData), false));
    assert_eq!(write(0x01, 901), (Ok(()), false));
    rig.control.set_admission(5, Admission { full: true, ..open() });
    assert_eq!(write(0x01, 901), (Ok(()), true));
    assert_eq!(write(0x21, 901), (Err(Refused::NotEnoughMemory), false));
    rig.control.set_admission(5, Admission::default());
    assert_eq!(write(0x20, 901), (Err(Refused::NotWanted), false));
    assert_eq!(write(0, 80), (Err(Refused::NotWanted), false));
    assert_eq!(write(0x21, 901).0, Ok(()));
    all(&mut rig.reader);
    rig.reader.advance();
    balance(&rig.reader);
}

/// P2: whose events were lost is known, by every way to lose one; the sum is never more than the count.
#[test]
fn losses_are_counted_by_registration() {
    let rig = rig(1 << 20);
    let of = |registration: u32| Request { registration, ..request(8) };
    rig.control.set_admission(0, Admission { largest_size: 1000, ..open() });
    for _ in 0..3 {
        let large = Request { event_size: 2000, ..of(5) };
        assert_eq!(rig.writer.write(&large, |_| ()), Err(Refused::MoreData));
    }
    // The same place of the table as 5.
    let enormous = Request { payload_size: 1 << 20, ..of(261) };
    assert_eq!(rig.writer.write(&enormous, |_| ()), Err(Refused::ArithmeticOverflow));
    // Given up: by a value that is too long, by a reservation that is dropped, on the shortest path.
    assert_eq!(rig.writer.write(&of(7), |p| p.put(&[1; 9])), Err(Refused::Abandoned));
    drop(rig.writer.reserve_here(&of(8)).unwrap());
    let at_once = rig.writer.try_write(0, of(9), |room| room.put(&[1; 3]));
    assert_eq!(at_once, Some(Err(Refused::Abandoned)));
    rig.control.set_admission(0, Admission { full: true, ..open() });
    assert_eq!(rig.writer.write(&of(5), |_| ()), Err(Refused::NotEnoughMemory));
    let rows = rig.reader.losses_by_registration();
    let mut found: Vec<(u32, Cause, u32)> = Vec::new();
    for row in &rows {
        for cause in Cause::ALL.into_iter().filter(|cause| row.lost[*cause as usize][0] > 0) {
            found.push((row.registration, cause, row.lost[cause as usize][0]));
        }
    }
    found.sort();
    let expected = [
        (5, Cause::SessionFull, 1),
        (5, Cause::TooLargeForSession, 3),
        (7, Cause::Abandoned, 1),
        (8, Cause::Abandoned, 1),
        (9, Cause::Abandoned, 1),
        (261, Cause::TooLarge, 1),
    ];
    assert_eq!(found, expected);
    // More of them than the table has places.
    for registration in 0..1000 {
        assert!(rig.writer.write(&of(registration), |_| ()).is_err());
    }
    let rows = rig.reader.losses_by_registration();
    let known: u64 =
        rows.iter().map(|row| u64::from(row.lost[Cause::SessionFull as usize][0])).sum();
    let all = rig.reader.ledger().lost(Cause::SessionFull, 0);
    assert!(known > 200 && known <= all && all == 1001, "{known} of {all}");
}

#[test]
fn a_full_session_refuses_all_unless_it_is_independent() {
    let mut rig = rig(1 << 20);
    let three = Request { sessions: 0b111, ..request(8) };
    rig.control.set_admission(1, Admission { full: true, ..open() });
    rig.control.set_admission(2, open());
    assert_eq!(rig.writer.write(&three, |_| ()), Err(Refused::NotEnoughMemory));
    rig.control.set_admission(1, Admission { full: true, independent: true, ..open() });
    assert_eq!(rig.writer.write(&three, |_| ()), Ok(()));
    let mut masks = Vec::new();
    rig.reader.drain(&patient(), |r| masks.push(r.sessions));
    assert_eq!(masks, [0b101]);
    let ledger = rig.reader.ledger();
    assert_eq!(ledger.attempted[..3], [2, 2, 2]);
    assert_eq!(ledger.lost(Cause::SessionFull, 1), 2);
    assert_eq!(ledger.lost(Cause::AllOrNone, 0), 1);
    assert_eq!(ledger.lost(Cause::AllOrNone, 2), 1);
    for slot in 0..3 {
        assert_eq!(ledger.attempted[slot], rig.reader.drained()[slot] + ledger.lost_total(slot));
    }
}

#[test]
fn records_name_the_epoch_they_were_admitted_under() {
    let mut rig = rig(1 << 20);
    put(&rig.writer, b"old").unwrap();
    let epoch = rig.control.bump_epoch();
    put(&rig.writer, b"new").unwrap();
    let mut epochs = Vec::new();
    rig.reader.drain(&patient(), |r| epochs.push(r.epoch));
    assert_eq!(epochs, [epoch - 1, epoch]);
}

#[test]
fn an_exhausted_pool_loses_and_counts_and_recovers() {
    let mut rig = rig(128 * 1024);
    let mut refused = 0;
    for _ in 0..3 {
        for _ in 0..5000 {
            match put(&rig.writer, &[5; 100]) {
                Ok(()) => {}
                Err(r) => {
                    assert_eq!(r.status(), 8);
                    refused += 1;
                }
            }
        }
        balance_pending(&mut rig);
    }
    assert!(refused > 3 * 3000);
    // Nearly all of the pool was used before the first loss.
    assert!(rig.reader.drained()[0] > 3 * 700, "{}", rig.reader.drained()[0]);
    assert!(rig.writer.pressure() > 0);
}

fn balance_pending(rig: &mut Rig) {
    rig.reader.drain(&patient(), |_| ());
    rig.reader.advance();
    balance(&rig.reader);
}

#[test]
fn a_pool_grows() {
    let mut rig = rig(128 * 1024);
    let write = |n: u32| (0..n).filter(|_| put(&rig.writer, &[5; 100]).is_ok()).count();
    let first = write(5000);
    let more = Memory::heap(1 << 20).unwrap();
    assert_eq!(rig.writer.grow(more).unwrap(), 1);
    let second = write(5000);
    assert!(second > first * 3, "{first} {second}");
    let source = Source::Mapped(rig.writer.segment(1).unwrap().clone());
    rig.reader.add_segment(source).unwrap();
    balance_pending(&mut rig);
    assert!(rig.writer.grow(Memory::heap(4096).unwrap()).is_err());
}

#[test]
fn an_abandoned_reservation_is_a_counted_loss() {
    let mut rig = rig(1 << 20);
    put(&rig.writer, b"a").unwrap();
    let panicked = std::panic::catch_unwind(|| {
        let _ = rig.writer.write(&request(10), |_| panic!("while filling"));
    });
    assert!(panicked.is_err());
    let over = rig.writer.write(&request(3), |r| r.put(b"toolong"));
    assert_eq!(over, Err(Refused::Abandoned));
    put(&rig.writer, b"b").unwrap();
    assert_eq!(all(&mut rig.reader), [b"a", b"b"]);
    assert_eq!(rig.reader.ledger().lost(Cause::Abandoned, 0), 2);
    assert_eq!(rig.reader.gaps(), 2);
    balance(&rig.reader);
}

#[test]
fn one_event_in_two_pools_has_one_time() {
    let mut one = rig(1 << 18);
    let mut two = rig(1 << 18);
    let (t1, t2) = (ThreadState::new(), ThreadState::new());
    let mut a = one.writer.reserve(&t1, &request(4)).unwrap();
    let mut b = two.writer.reserve(&t2, &request(4)).unwrap();
    let now = one.writer.now();
    for r in [&mut a, &mut b] {
        r.stamp(now, 1);
        r.put(b"both");
    }
    a.commit().unwrap();
    b.commit().unwrap();
    for rig in [&mut one, &mut two] {
        let mut n = 0;
        rig.reader.drain(&patient(), |r| {
            n += 1;
            assert_eq!((r.time, r.payload), (now, &b"both"[..]));
        });
        assert_eq!(n, 1);
    }
}

#[test]
fn a_write_through_an_overflow_chunk_needs_no_thread_state() {
    let mut rig = rig(1 << 20);
    for i in 0..4000u32 {
        let size = if i % 100 == 0 { 20_000 } else { 30 };
        let request = Request { event_size: 100, ..request(size) };
        rig.writer.write_in_overflow(&request, |r| r.put(&i.to_le_bytes())).unwrap();
        if i % 400 == 399 {
            rig.reader.drain(&patient(), |r| assert!(r.overflow));
            rig.reader.advance();
        }
    }
    rig.reader.drain(&patient(), |_| ());
    assert_eq!(rig.reader.drained()[0], 4000);
    assert_eq!(rig.reader.gaps(), 0);
    balance(&rig.reader);
}

#[test]
fn a_restarted_host_neither_loses_nor_doubles() {
    let mut rig = rig(1 << 20);
    let mut expected = 0u32;
    for round in 0..60u32 {
        for i in 0..200u32 {
            let value = round * 200 + i;
            if i % 3 == 0 {
                rig.writer.write_in_overflow(&request(4), |r| r.put(&value.to_le_bytes())).unwrap();
            } else {
                put(&rig.writer, &value.to_le_bytes()).unwrap();
            }
        }
        let mut seen = Vec::new();
        rig.reader
            .drain(&patient(), |r| seen.push(u32::from_le_bytes(r.payload.try_into().unwrap())));
        let kept = round % 3 != 1;
        if kept {
            rig.reader.advance();
            assert_eq!(seen, (expected..expected + seen.len() as u32).collect::<Vec<_>>());
            expected += seen.len() as u32;
        }
        // The host dies here, in some rounds before it advanced.
        if round % 2 == 0 || !kept {
            let control = Control::open_shared(rig.control.memory().clone()).unwrap();
            let source = Source::Mapped(rig.writer.segment(0).unwrap().clone());
            rig.reader = Reader::new(control, source).unwrap();
        }
    }
    rig.reader.drain(&patient(), |_| expected += 1);
    assert_eq!(expected, 60 * 200);
}

#[test]
fn the_chunk_of_an_idle_thread_is_revoked() {
    let mut rig = rig(128 * 1024);
    put(&rig.writer, b"idle").unwrap();
    let reclaim = DrainOptions {
        patience: PATIENCE,
        reclaim_idle: Some(Duration::ZERO),
        ..Default::default()
    };
    for _ in 0..3 {
        rig.reader.drain(&reclaim, |_| ());
        rig.reader.advance();
    }
    // The thread's chunk is free again: another thread may get it, and this thread gets a new one.
    let writer = rig.writer.clone();
    std::thread::spawn(move || {
        for _ in 0..80 {
            put(&writer, &[2; 1000]).unwrap()
        }
    })
    .join()
    .unwrap();
    put(&rig.writer, b"again").unwrap();
    let seen = all(&mut rig.reader);
    assert_eq!(seen.len(), 81);
    assert_eq!(seen[80], b"again");
    balance(&rig.reader);
    assert_eq!(rig.reader.gaps(), 0);
}

#[test]
fn sites_are_interned_once_and_bounded() {
    let rig = rig(1 << 20);
    let cache = SiteCache::new();
    let id = rig.writer.intern(&cache, b"metadata of a site");
    assert_eq!(id, 1);
    assert_eq!(rig.writer.intern(&cache, b"not looked at"), 1);
    let mut sites = rig.reader.site_table();
    assert_eq!(sites.get(1), Some(&b"metadata of a site"[..]));
    assert_eq!(sites.get(2), None);
    assert_eq!(rig.writer.intern(&SiteCache::new(), b"second"), 2);
    assert_eq!(sites.get(2), Some(&b"second"[..]));
    assert_eq!(sites.get(u32::MAX), None);
    // The cached id is of the other pool's generation.
    let other = crate::support::rig(1 << 18);
    other.writer.intern(&SiteCache::new(), b"x");
    assert_eq!(other.writer.intern(&cache, b"metadata of a site"), 2);
    assert_eq!(rig.writer.intern(&cache, b"metadata of a site"), 3);
    assert_eq!(rig.writer.intern(&SiteCache::new(), &[0; MAX_SITE_SIZE + 1]), 0);
    // 4 MiB of metadata, then inline.
    let ids: Vec<u32> =
        (0..70).map(|_| rig.writer.intern(&SiteCache::new(), &[7; 65528])).collect();
    assert_eq!(ids.iter().filter(|id| **id != 0).count(), 64);
    assert_eq!(sites.get(5).map(|s| s.len()), Some(65528));
}

#[test]
fn the_site_table_holds_65535_entries() {
    let rig = rig(1 << 18);
    let ids = (0..65540).map(|_| rig.writer.intern(&SiteCache::new(), b"12345678"));
    assert_eq!(ids.filter(|id| *id != 0).count(), 65535);
}

#[test]
fn a_closed_writer_refuses() {
    let rig = rig(1 << 18);
    put(&rig.writer, b"1").unwrap();
    rig.writer.close();
    assert_eq!(put(&rig.writer, b"2"), Err(Refused::Detached));
    assert_eq!(rig.writer.write_in_overflow(&request(1), |_| ()), Err(Refused::Detached));
    assert!(rig.writer.grow(Memory::heap(1 << 20).unwrap()).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn a_descriptor_is_checked_and_read_with_pread() {
    use std::os::fd::AsFd;
    let rig = rig(1 << 20);
    let fd = rig.writer.segment(0).unwrap().fd().unwrap().try_clone_to_owned().unwrap();
    assert!(check_pool_fd(fd.as_fd()).is_ok());
    let mut reader = Reader::new(rig.control.clone(), Source::received(fd).unwrap()).unwrap();
    for i in 0..10_000u32 {
        put(&rig.writer, &i.to_le_bytes()).unwrap();
    }
    let mut next = 0u32;
    reader.drain(&patient(), |r| {
        assert_eq!(r.payload, next.to_le_bytes());
        next += 1;
    });
    assert_eq!(next, 10_000);
    let plain = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(Source::received(plain.into()).is_err());
}
