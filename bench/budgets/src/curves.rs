//! Curves: a cost against the number of something. Each line of the output is a point: the curve's name, x and y, with tabs between.

use std::error::Error;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use etw::{Guid, Keyword, Level, Provider, Session};
use etw_decode::Decoder;
use etw_etl::read::{ByteSource, Records, TraceFile};
use etw_etl::write::FileBuilder;
use etw_tracelogging::provider_traits;
use etw_types::BufferHeader;

use crate::host::{Host, Size};
use crate::read::{Body, put_requests, record};
use crate::write::{PROVIDER, write_static};

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type Curve = fn() -> Result<()>;

const CURVES: [(&str, Curve); 7] = [
    ("sessions", sessions),
    ("programs", programs),
    ("threads", threads),
    ("providers", providers),
    ("streams", streams),
    ("schemas", schemas),
    ("file-size", file_size),
];

pub fn run(wanted: &str) -> Result<()> {
    for (name, curve) in CURVES {
        if name.contains(wanted) {
            curve()?;
        }
    }
    Ok(())
}

fn point(curve: &str, x: impl std::fmt::Display, y: f64) {
    println!("{curve}\t{x}\t{y:.3}");
}

/// Nanoseconds of the shortest run.
fn shortest(runs: usize, mut run: impl FnMut() -> Result<Duration>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..runs {
        best = best.min(run()?.as_nanos() as f64);
    }
    Ok(best)
}

fn timed(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

/// The cost of an event of 36 bytes, for its program and for the host, against the sessions that record it.
fn sessions() -> Result<()> {
    const EVENTS: u32 = 10_000;
    for sessions in 1..=8 {
        let mut host = Host::new(Size {
            sessions,
            programs: 1,
            pool: 16 << 20,
            buffers: 64,
            is_remote: false,
        })?;
        let mut write = f64::INFINITY;
        let drain = shortest(40, || {
            let start = Instant::now();
            host.write(EVENTS, &[7; 36])?;
            write = write.min(start.elapsed().as_nanos() as f64);
            Ok(timed(|| _ = host.engine.round(Duration::ZERO)))
        })?;
        point("sessions: host", sessions, drain / f64::from(EVENTS));
        point("sessions: program", sessions, write / f64::from(EVENTS));
    }
    Ok(())
}

/// The cost of an event for the host, against the programs that write at the same time; a round of the host when none has written
/// since the last one; and when all have been quiet for some time.
fn programs() -> Result<()> {
    const EVENTS: u32 = 4000;
    for programs in [1, 2, 5, 10, 20, 50, 100, 200, 500] {
        let mut host =
            Host::new(Size { sessions: 1, programs, pool: 1 << 20, buffers: 64, is_remote: true })?;
        let each = EVENTS / programs as u32;
        let drain = shortest(20, || {
            host.write(each, &[7; 36])?;
            Ok(timed(|| _ = host.engine.round(Duration::ZERO)))
        })?;
        point("programs: events", programs, drain / f64::from(each * programs as u32));
        let idle = || Ok(timed(|| _ = host.engine.round(Duration::ZERO)));
        point("programs: idle", programs, shortest(8, idle)? / 1e3);
        let quiet_after = Instant::now() + Duration::from_millis(200);
        while Instant::now() < quiet_after {
            host.engine.round(Duration::ZERO);
        }
        let round = shortest(100, || Ok(timed(|| _ = host.engine.round(Duration::ZERO))))?;
        point("programs: quiet", programs, round / 1e3);
    }
    Ok(())
}

/// The cost of an event for a thread, against the threads that write; and the share of events that were lost. Each thread counts its best
/// batch: the others have waited for a processor.
fn threads() -> Result<()> {
    const BATCHES: usize = 10;
    const BATCH: u32 = 50;
    let _registration = PROVIDER.register();
    for threads in [1, 4, 16, 64, 256, 1000, 4000] {
        let session = Session::builder("curves").memory().pool_size(64 << 20, 64 << 20).start()?;
        session.enable(&PROVIDER, Level::VERBOSE, Keyword(0))?;
        let (start, costs) = (Barrier::new(threads), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let write = || {
                    start.wait();
                    let batch = |_| timed(|| write_static(BATCH)).as_nanos() as f64;
                    let best = (0..BATCHES).map(batch).fold(f64::INFINITY, f64::min);
                    if let Ok(mut costs) = costs.lock() {
                        costs.push(best / f64::from(BATCH));
                    }
                };
                std::thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, write)?;
            }
            Ok::<_, io::Error>(())
        })?;
        let costs = costs.into_inner()?;
        point("threads: event", threads, costs.iter().sum::<f64>() / costs.len() as f64);
        let ledger = session.stop()?.ledger;
        let lost = ledger.lost_total() as f64 / ledger.attempted.max(1) as f64;
        point("threads: lost", threads, lost * 100.0);
    }
    Ok(())
}

/// The cost of registering a further provider, and of an event that no session wants, against the providers of the program.
fn providers() -> Result<()> {
    const MORE: u32 = 100;
    let _registration = PROVIDER.register();
    let traits: &'static [u8] = provider_traits("OpenEtw.Curves", None)?.leak();
    let mut made = 0u32;
    let mut make = |count: u32| -> Vec<&'static Provider> {
        let ids = made + 1..=made + count;
        made += count;
        let provider = |id| {
            let id = Guid::from_u128(0x5eed << 64 | u128::from(id));
            &*Box::leak(Box::new(Provider::new("OpenEtw.Curves", id, traits)))
        };
        ids.map(provider).collect()
    };
    let mut kept = Vec::new();
    for providers in [1, 10, 100, 1000, 10_000] {
        kept.extend(make(providers - kept.len() as u32).into_iter().map(Provider::register));
        let each = shortest(10, || {
            let (more, mut registered) = (make(MORE), Vec::new());
            Ok(timed(|| registered.extend(more.into_iter().map(Provider::register))))
        })?;
        point("providers: registering", providers, each / f64::from(MORE) / 1e3);
        let event = shortest(20, || Ok(timed(|| write_static(100_000))))?;
        point("providers: event", providers, event / 1e5);
    }
    Ok(())
}

/// The cost of a merged record, against the CPU streams of its file.
fn streams() -> Result<()> {
    const RECORDS: u32 = 200_000;
    for streams in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
        let mut file = FileBuilder::new();
        put_requests(&mut file, RECORDS, streams)?;
        let bytes = file.finish();
        let each = shortest(5, || {
            let mut records = Records::new(vec![TraceFile::from_bytes("x.etl", bytes.clone())?]);
            let mut count = 0;
            let time = timed(|| {
                while let Some(record) = records.next() {
                    black_box(&record);
                    count += 1;
                }
            });
            if count < RECORDS { Err("records are missing".into()) } else { Ok(time) }
        })?;
        point("streams", streams, each / f64::from(RECORDS));
    }
    Ok(())
}

/// The cost of finding an event's schema and of visiting its five fields, against the schemas of the trace, whose events come in any
/// order.
fn schemas() -> Result<()> {
    const EVENTS: u64 = 200_000;
    for schemas in [1u64, 10, 100, 1000, 10_000, 100_000] {
        let mut bodies = Vec::new();
        for number in 0..schemas {
            let body = Body::request(&format!("Request{number}"), number as u32)?;
            bodies.push((body.items()?, body));
        }
        let mut decoder = Decoder::new();
        let mut visit = |number: u64| {
            let (items, body) = &bodies[number as usize];
            let record = record(&body.payload, items);
            black_box(decoder.decode(&record).visit(&record, &mut ()).is_ok());
        };
        (0..schemas).for_each(&mut visit);
        let each = shortest(3, || {
            let mut random = 1u64;
            Ok(timed(|| {
                for _ in 0..EVENTS {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    visit((random >> 33) % schemas);
                }
            }))
        })?;
        point("schemas", schemas, each / EVENTS as f64);
    }
    Ok(())
}

/// A file of one buffer, many times, which is nowhere stored.
struct Repeated {
    header: Vec<u8>,
    buffer: Vec<u8>,
    count: u64,
}

impl ByteSource for Repeated {
    fn size(&self) -> u64 {
        self.buffer.len() as u64 * self.count
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let size = self.buffer.len() as u64;
        let (number, start) = (offset / size, (offset % size) as usize);
        if number >= self.count {
            return Ok(0);
        }
        let mut head = [0; BufferHeader::SIZE];
        let body = if number == 0 { &self.header } else { &self.buffer };
        head.copy_from_slice(&body[..BufferHeader::SIZE]);
        if number > 0 {
            BufferHeader::SEQUENCE_NUMBER.put(&mut head, number as i64 + 1);
        }
        let count = out.len().min(body.len() - start);
        out[..count].copy_from_slice(&body[start..start + count]);
        if let Some(head) = head.get(start..) {
            let changed = head.len().min(count);
            out[..changed].copy_from_slice(&head[..changed]);
        }
        Ok(count)
    }
}

/// The cost of opening a file, which reads the headers of all buffers, against its size.
fn file_size() -> Result<()> {
    let mut file = FileBuilder::new();
    put_requests(&mut file, 2000, 1)?;
    let mut buffers = file.finish_buffers();
    let size = buffers[0].len() as u64;
    let (header, buffer) = (buffers.swap_remove(0), buffers.swap_remove(0));
    for megabytes in [1u64, 10, 100, 1000, 10_000, 100_000] {
        let count = megabytes * 1_000_000 / size;
        let opened = shortest(if megabytes > 1000 { 2 } else { 5 }, || {
            let (header, buffer) = (header.clone(), buffer.clone());
            let source = Box::new(Repeated { header, buffer, count });
            let start = Instant::now();
            let file = TraceFile::from_source(Path::new("x.etl"), source)?;
            let time = start.elapsed();
            let is_whole = file.totals().buffers == count;
            if is_whole { Ok(time) } else { Err(format!("{:?}", file.totals()).into()) }
        })?;
        point("file-size", megabytes, opened / count as f64);
    }
    Ok(())
}
