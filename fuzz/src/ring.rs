//! A pool that its program has overwritten.

use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use etw_ring::layout::{DATA_OFFSET, MAX_PAYLOAD_SIZE, RECORD_HEADER_SIZE};
use etw_ring::{
    Admission, Barrier, Control, DrainOptions, Memory, PoolOptions, RawClock, Reader, Request,
    SiteCache, Source, Writer,
};

const DATA_SIZE: usize = 256 << 10;
const PAGE: usize = 4096;
/// The tables of a pool (`etw_ring::layout`), so that inputs hit the words that a host reads; then the data.
const AREAS: [usize; 8] = [0, 0x1000, 0x2000, 0x6000, 0x8_6000, 0xc_6000, 0x1c_6000, DATA_OFFSET];
/// In the position of an area: the host drains.
const DRAIN: u8 = 0xff;

/// Pages by their offset.
type Pages = Vec<(usize, Vec<u8>)>;

fn control() -> Control {
    let memory = Memory::heap(Control::SIZE).expect("memory");
    let control =
        Control::create(memory, RawClock::best(), Barrier::WriterFences).expect("a control");
    for slot in 0..4 {
        let open = Admission { open: true, largest_size: 65535, ..Admission::default() };
        control.set_admission(slot, open);
    }
    control
}

/// The non-zero pages, by offset, of a pool with records of every kind.
fn valid() -> &'static (usize, Pages) {
    static POOL: OnceLock<(usize, Pages)> = OnceLock::new();
    POOL.get_or_init(|| {
        let control = control();
        let options = PoolOptions { chunk_size: DATA_SIZE, prefault: 0 };
        let size = options.memory_size();
        let memory = Memory::shared(size).expect("memory");
        let file = memory.fd().expect("a descriptor").try_clone_to_owned().expect("another");
        let writer = Writer::new(memory, control.memory().clone(), options, 7).expect("a writer");
        let (writer, cache) = (&writer, SiteCache::new());
        // Separate threads: a host also finds chunks of threads that have ended.
        std::thread::scope(|scope| {
            for thread in 0..3u8 {
                let cache = &cache;
                scope.spawn(move || {
                    let site = writer.intern(cache, b"metadata of a site");
                    for number in 0..40u32 {
                        let size = (number * 37 % 900) as usize;
                        let request = Request {
                            sessions: 1 << (number % 4),
                            registration: 1,
                            site: if number % 3 == 0 { site } else { 0 },
                            payload_size: size as u32,
                            event_size: size as u32 + 80,
                            ..Request::default()
                        };
                        let bytes = vec![thread; size];
                        let written = match number % 8 {
                            7 => writer.write_in_overflow(&request, |event| event.put(&bytes)),
                            _ => writer.write(&request, |event| event.put(&bytes)),
                        };
                        written.expect("there is room");
                    }
                });
            }
        });
        let file = std::fs::File::from(file);
        let mut pages = Vec::new();
        for at in (0..size).step_by(PAGE) {
            let mut page = vec![0; PAGE.min(size - at)];
            file.read_exact_at(&mut page, at as u64).expect("what was just written");
            if page.iter().any(|byte| *byte != 0) {
                pages.push((at, page));
            }
        }
        (size, pages)
    })
}

/// The first byte says how the host drains. Then steps of eleven bytes: an area of the pool (255: drain), a `u16` index of a word
/// in it, and the new word. No record lies outside of its pool, and no drain returns more than a pool holds.
pub fn pool(data: &[u8]) {
    let Some((how, steps)) = data.split_first() else { return };
    let (size, pages) = valid();
    let mut memory = Memory::shared(*size).expect("memory");
    let file = std::fs::File::from(memory.take_fd().expect("a descriptor"));
    for (at, page) in pages {
        file.write_all_at(page, *at as u64).expect("room");
    }
    let source = file.try_clone().expect("a descriptor");
    // Sealed memory, as programs send it.
    let source = Source::received(source.into()).expect("a pool of ours");
    let poke = |step: &[u8; 11]| {
        let area = AREAS[usize::from(step[0]) % AREAS.len()];
        let at = area + 8 * usize::from(u16::from_le_bytes([step[1], step[2]]));
        if at + 8 <= *size {
            file.write_all_at(&step[3..], at as u64).expect("room");
        }
    };
    // Some steps precede the host's first look at the pool, which it may reject then.
    let steps: Vec<[u8; 11]> =
        steps.chunks_exact(11).filter_map(|step| step.first_chunk().copied()).collect();
    let before = if how & 4 != 0 { steps.len() / 2 } else { 0 };
    steps[..before].iter().filter(|step| step[0] != DRAIN).for_each(poke);
    let Ok(mut reader) = Reader::new(control(), source) else { return };
    let mut sites = reader.site_table();
    let mut drain = |reader: &mut Reader| {
        let alive = |thread: u32| thread % 2 == 0;
        let options = DrainOptions {
            ended: how & 1 != 0,
            alive: (how & 2 != 0).then_some(&alive as _),
            reclaim_idle: (how & 8 != 0).then_some(std::time::Duration::ZERO),
            ..DrainOptions::default()
        };
        let (mut records, mut bytes, mut last) = (0u64, 0, 0);
        let drained = reader.drain(&options, |record| {
            assert!(record.payload.len() <= MAX_PAYLOAD_SIZE, "{} bytes", record.payload.len());
            assert!(usize::from(record.metadata_size) <= record.payload.len());
            assert!(record.time >= last, "records are given in their order");
            last = record.time;
            records += 1;
            bytes += RECORD_HEADER_SIZE + record.payload.len();
            let metadata = sites.get(record.site).map_or(0, <[u8]>::len);
            assert!(metadata <= etw_ring::MAX_SITE_SIZE, "{metadata} bytes of metadata");
        });
        reader.advance();
        assert_eq!(drained.records, records);
        // Chunks that overlap are read once.
        assert!(bytes <= DATA_SIZE, "{bytes} bytes of records in a pool of {DATA_SIZE}");
        let _ = (reader.ledger(), reader.gaps(), reader.late(), reader.pressure());
    };
    for step in &steps[before..] {
        match step[0] {
            DRAIN => drain(&mut reader),
            _ => poke(step),
        }
    }
    drain(&mut reader);
    drain(&mut reader);
}
