//! A hostile provider writes anything into its pool: the host neither panics nor works without bound, and records of another
//! provider stay whole.
use crate::support::*;
use etw_ring::layout::*;
use etw_ring::*;
use std::time::{Duration, Instant};

// Offsets of the layout table.
const SLOTS: u64 = 0x30;
const OVERFLOW: u64 = 0x1000;
const UNITS: u64 = 0x6000;
const LINES: u64 = 0x86000;
const SITES: u64 = 0x1c6000;

#[cfg(target_os = "linux")]
fn poke(rig: &Rig, offset: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let fd = rig.writer.segment(0).unwrap().fd().unwrap().try_clone_to_owned().unwrap();
    std::fs::File::from(fd).write_all_at(bytes, offset).unwrap();
}

#[cfg(target_os = "linux")]
fn poke64(rig: &Rig, offset: u64, value: u64) {
    poke(rig, offset, &value.to_le_bytes());
}

#[cfg(target_os = "linux")]
fn peek64(rig: &Rig, offset: u64) -> u64 {
    use std::os::unix::fs::FileExt;
    let fd = rig.writer.segment(0).unwrap().fd().unwrap().try_clone_to_owned().unwrap();
    let mut b = [0; 8];
    std::fs::File::from(fd).read_exact_at(&mut b, offset).unwrap();
    u64::from_le_bytes(b)
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;

    #[test]
    fn malicious_commit_past_end() {
        let mut rig = rig(1 << 20);
        put(&rig.writer, b"good").unwrap();
        let head = peek64(&rig, LINES);
        // 32767 words committed in a chunk of 4 KiB.
        poke64(&rig, LINES, head | 0x7fff);
        let done = rig.reader.drain(&patient(), |_| ());
        assert!(done.hostile >= 1);
        // The event that it should have committed then is late now.
        poke64(&rig, LINES, head);
        assert_eq!(rig.reader.drain(&patient(), |_| panic!("late")).late, 1);
    }

    #[test]
    fn malicious_commit_goes_back() {
        let mut rig = rig(1 << 20);
        for _ in 0..3 {
            put(&rig.writer, b"good").unwrap();
        }
        assert_eq!(all(&mut rig.reader).len(), 3);
        let head = peek64(&rig, LINES);
        poke64(&rig, LINES, head & !0x7fff);
        let done = rig.reader.drain(&patient(), |_| panic!("a record came twice"));
        assert_eq!(done.hostile, 1);
    }

    #[test]
    fn malicious_record_size() {
        for size in [u32::MAX, 1 << 20, 4096, 131_024] {
            let mut rig = rig(1 << 20);
            put(&rig.writer, b"first").unwrap();
            put(&rig.writer, b"second").unwrap();
            poke(&rig, DATA_OFFSET as u64, &size.to_le_bytes());
            let done = rig.reader.drain(&patient(), |_| panic!("garbage read as a record"));
            rig.reader.advance();
            assert_eq!(done.hostile, 1);
            // Only this chunk's bytes so far are lost.
            put(&rig.writer, b"third").unwrap();
            assert_eq!(all(&mut rig.reader), [b"third"]);
        }
    }

    #[test]
    fn malicious_metadata_size_exceeds_the_payload() {
        let mut rig = rig(1 << 20);
        put(&rig.writer, b"first").unwrap();
        poke(&rig, DATA_OFFSET as u64 + 32, &6u16.to_le_bytes());
        assert_eq!(rig.reader.drain(&patient(), |_| panic!()).hostile, 1);
    }

    #[test]
    fn malicious_overlapping_chunks_are_read_once() {
        let mut rig = rig(4 << 20);
        // Every unit says: closed, 128 KiB, full.
        for unit in 0..1024u64 {
            poke64(&rig, UNITS + unit * 8, 2 << 56 | 3 << 60 | 1 << 32 | 16384);
        }
        let start = Instant::now();
        let done = rig.reader.drain(&patient(), |_| ());
        assert!(start.elapsed() < Duration::from_secs(30));
        // 32 aligned chunks of zeros: empty records of time 0, each of 40 bytes.
        assert!(done.records + done.late <= (4 << 20) / 40);
        rig.reader.advance();
        let done = rig.reader.drain(&patient(), |_| panic!("consumed is consumed"));
        assert_eq!(done.records, 0);
    }

    #[test]
    fn malicious_time_of_the_far_future_stays_where_it_is() {
        let mut rig = rig(1 << 20);
        put(&rig.writer, b"future").unwrap();
        poke64(&rig, DATA_OFFSET as u64 + 8, u64::MAX);
        assert_eq!(rig.reader.drain(&patient(), |_| panic!()).records, 0);
        let writer = rig.writer.clone();
        std::thread::spawn(move || put(&writer, b"fine").unwrap()).join().unwrap();
        assert_eq!(all(&mut rig.reader), [b"fine"]);
    }

    #[test]
    fn malicious_writer_that_always_writes_is_waited_for_once() {
        let mut rig = rig(1 << 20);
        put(&rig.writer, b"x").unwrap();
        poke(&rig, SLOTS, &u32::MAX.to_le_bytes());
        for slot in 0..4096u64 {
            poke64(&rig, LINES + slot * 64, 1 << 56 | 1 << 15 | slot << 40);
        }
        let start = Instant::now();
        rig.reader.drain(&patient(), |_| ());
        // One patience for each of the 4096 would take 200 s.
        assert!(start.elapsed() < Duration::from_secs(60));
        // Not again. One quick drain is enough: the machine may have other things to do.
        let mut is_quick = || {
            let start = Instant::now();
            rig.reader.drain(&patient(), |_| ());
            start.elapsed() < Duration::from_millis(45)
        };
        assert!((0..200).any(|_| is_quick()));
    }

    #[test]
    fn malicious_directory_of_overflow_chunks() {
        let mut rig = rig(1 << 20);
        for _ in 0..4 {
            rig.writer.write_in_overflow(&request(8), |r| r.put(&[1; 8])).unwrap();
        }
        let word = (0..64).map(|i| peek64(&rig, OVERFLOW + i * 64)).find(|w| *w != 0).unwrap();
        let chunk = DATA_OFFSET as u64 + (word >> 48) * 4096;
        let entry = chunk + 16384 - 16;
        // The second record: behind the chunk's end, overlapping the first, as large as everything.
        for value in [1 << 63 | 48 << 32 | 0xffff_fff8, 1 << 63 | 48 << 32, u64::MAX, 1 << 63] {
            poke64(&rig, entry, value);
            let mut reader = Reader::new(
                Control::create(
                    Memory::heap(Control::SIZE).unwrap(),
                    rig.control.clock(),
                    Barrier::WriterFences,
                )
                .unwrap(),
                Source::Mapped(rig.writer.segment(0).unwrap().clone()),
            )
            .unwrap();
            let done = reader.drain(&patient(), |r| assert_eq!(r.payload, [1; 8]));
            assert_eq!((done.records, done.hostile), (3, 1), "{value:#x}");
        }
        // A count that the chunk cannot hold.
        for i in 0..64 {
            poke64(&rig, OVERFLOW + i * 64, word | 0x3fff << 26);
        }
        rig.reader.drain(&patient(), |_| ());
    }

    #[test]
    fn malicious_site_entries() {
        let rig = rig(1 << 20);
        let id = rig.writer.intern(&SiteCache::new(), b"good");
        let mut sites = rig.reader.site_table();
        assert_eq!(sites.get(id), Some(&b"good"[..]));
        // Later changes are not seen.
        poke64(&rig, SITES + 8, u64::MAX);
        assert_eq!(sites.get(id), Some(&b"good"[..]));
        for id in 2..2000u64 {
            poke64(&rig, SITES + id * 8, 1 << 63 | 65535 << 32);
        }
        poke64(&rig, SITES + 2000 * 8, u64::MAX);
        poke64(&rig, SITES + 2001 * 8, 1 << 63 | 8 << 32 | ((4 << 20) - 4));
        let total: usize = (2..2100).filter_map(|id| sites.get(id).map(|s| s.len())).sum();
        assert!(total <= 4 << 20);
        assert_eq!(sites.get(2000), None);
        assert_eq!(sites.get(2001), None);
    }

    #[test]
    fn malicious_holes_are_zeros() {
        let mut rig = rig(1 << 20);
        for _ in 0..1000 {
            put(&rig.writer, &[1; 100]).unwrap();
        }
        let fd = rig.writer.segment(0).unwrap().fd().unwrap();
        use std::os::fd::AsRawFd;
        // SAFETY: punches a hole into our own memfd.
        let r = unsafe {
            libc::fallocate(
                fd.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                DATA_OFFSET as i64,
                1 << 20,
            )
        };
        assert_eq!(r, 0);
        rig.reader.drain(&patient(), |r| assert!(r.payload.is_empty()));
    }

    /// Random words over all tables and data while the host drains, mapped and with `pread`; and beside it a provider of
    /// good faith, none of whose records is touched.
    #[test]
    fn malicious_scribbling_harms_no_other_provider() {
        for received in [false, true] {
            let rig = rig(1 << 20);
            let mut honest = crate::support::rig(1 << 20);
            for i in 0..2000u32 {
                put(&rig.writer, &vec![3; i as usize % 500]).unwrap();
            }
            for _ in 0..100 {
                rig.writer.write_in_overflow(&request(20), |r| r.put(&[4; 20])).unwrap();
            }
            let segment = rig.writer.segment(0).unwrap();
            let source = if received {
                Source::received(segment.fd().unwrap().try_clone_to_owned().unwrap()).unwrap()
            } else {
                Source::Mapped(segment.clone())
            };
            let mut reader = Reader::new(rig.control.clone(), source).unwrap();
            let mut sites = reader.site_table();
            let stop = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|s| {
                s.spawn(|| {
                    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
                    let mut random = move || {
                        seed ^= seed << 13;
                        seed ^= seed >> 7;
                        seed ^= seed << 17;
                        seed
                    };
                    let areas = [
                        (0x20, 0x100),
                        (OVERFLOW, 4096),
                        (UNITS, 2048),
                        (LINES, 4096),
                        (0xc6000, 4096),
                        (SITES, 2048),
                        (DATA_OFFSET as u64, 1 << 20),
                    ];
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        let (start, size) = areas[random() as usize % areas.len()];
                        let at = start + ((random() % size) & !7);
                        let value = match random() % 4 {
                            0 => random(),
                            1 => random() & random() & random(),
                            // A likely unit word or head.
                            2 => {
                                random() & 0x0fff_7fff
                                    | 1 << 32
                                    | (random() % 5) << 56
                                    | (random() % 4) << 60
                            }
                            _ => 1 << 56 | (random() % 256) << 40 | 1 << 16 | random() & 0xffff,
                        };
                        poke64(&rig, at, value);
                    }
                });
                let start = Instant::now();
                let (mut rounds, mut sent, mut got) = (0u32, 0u32, 0u32);
                let mut longest = Duration::ZERO;
                let is_busy = |rounds| rounds <= 10 && start.elapsed() < Duration::from_secs(60);
                while start.elapsed() < Duration::from_millis(1500) || is_busy(rounds) {
                    let before = Instant::now();
                    let options = DrainOptions {
                        patience: if rounds.is_multiple_of(4) { PATIENCE } else { Duration::ZERO },
                        reclaim_idle: Some(Duration::ZERO),
                        alive: Some(&|tid| tid % 2 == 0),
                        ..Default::default()
                    };
                    let mut last = 0;
                    reader.drain(&options, |r| {
                        assert!(r.time >= last);
                        last = r.time;
                        assert!(r.payload.len() <= MAX_PAYLOAD_SIZE);
                    });
                    reader.advance();
                    reader.ledger();
                    reader.gaps();
                    sites.get(1 + rounds % 256);
                    longest = longest.max(before.elapsed());
                    rounds += 1;
                    for _ in 0..50 {
                        put(&honest.writer, &sent.to_le_bytes()).unwrap();
                        sent += 1;
                    }
                    honest.reader.drain(&patient(), |r| {
                        assert_eq!(r.payload, got.to_le_bytes());
                        got += 1;
                    });
                    honest.reader.advance();
                    assert_eq!(got, sent);
                }
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                assert!(rounds > 10, "{rounds}");
                // It does not hang; on a busy machine a drain can take its time.
                assert!(longest < Duration::from_secs(5), "{longest:?}");
            });
        }
    }
}
