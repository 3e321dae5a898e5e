//! The highest rate at which paced writers lose nothing, beside what bounds it in the same run: what a new file takes, and how
//! fast one core drains. One JSON object a figure.
//!
//! `cargo run --release -p openetw --features session --example rate -- [SECONDS [OUT.etl]]`: SECONDS that each rate is held (10 for
//! the claim).
use etw::{Keyword, Level, Session};
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[path = "measuring/event.rs"]
mod measuring;
use measuring::{BENCH, TEXT, event, figure};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Bytes a second to a new file, in 1 MiB writes, for as long as an offered rate is held: page cache first, then what the
/// system lets through.
fn file_bandwidth(path: &Path, seconds: f64) -> std::io::Result<f64> {
    let bytes = vec![7; 1 << 20];
    let mut file = std::fs::File::create(path)?;
    let start = Instant::now();
    let mut written = 0u64;
    while start.elapsed().as_secs_f64() < seconds && written < 24 << 30 {
        file.write_all(&bytes)?;
        written += bytes.len() as u64;
    }
    let rate = written as f64 / start.elapsed().as_secs_f64();
    drop(file);
    std::fs::remove_file(path)?;
    Ok(rate)
}

/// Events a second that the session's thread takes out of a full pool into buffers, with nobody else at work.
fn drain_rate() -> Result<f64> {
    const COUNT: i32 = 100_000;
    let session = Session::builder("drain").memory().pool_size(16 << 20, 16 << 20).start()?;
    session.enable(&BENCH, Level::VERBOSE, Keyword(0))?;
    let mut rates = Vec::new();
    for _ in 0..30 {
        let start = Instant::now();
        (0..COUNT).for_each(|n| event(black_box(n), black_box(TEXT)));
        let written = start.elapsed();
        session.statistics()?;
        let all = start.elapsed();
        // The thread may have begun while we wrote: the slower of both counts.
        rates.push(f64::from(COUNT) / (all - written).max(all / 2).as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    Ok(rates[rates.len() / 2])
}

struct Offered {
    events: u64,
    seconds: f64,
    lost: u64,
    size: u64,
}

/// `threads` writers, paced to `rate` events a second together, for some seconds.
fn offer(
    path: &Path,
    (threads, compressed): (u64, bool),
    rate: f64,
    seconds: f64,
) -> Result<Offered> {
    // 80 MiB in all, as much as LTTng is given.
    let builder = Session::builder("rate").file(path).buffer_size_kb(1024).buffers(64);
    let builder = builder.pool_size(16 << 20, 16 << 20);
    let session = if compressed { builder.compressed().start()? } else { builder.start()? };
    session.enable(&BENCH, Level::VERBOSE, Keyword(0))?;
    let late = AtomicBool::new(false);
    let start = Instant::now();
    let share = rate / threads as f64;
    let write = || {
        let mut written = 0u64;
        loop {
            let elapsed = start.elapsed().as_secs_f64();
            if elapsed > seconds {
                // Behind by more than 50 ms, so the program did not reach the rate.
                let due = (seconds * share) as u64;
                late.fetch_or(due > written + (share * 0.05) as u64, Ordering::Relaxed);
                return written;
            }
            let due = (elapsed * share) as u64;
            let until = due.min(written + 10_000);
            (written..until).for_each(|n| event(n as i32, TEXT));
            written = until.max(written);
            if written >= due {
                // Others may have this processor.
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    };
    let events = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads).map(|_| scope.spawn(write)).collect();
        writers.into_iter().map(|writer| writer.join().unwrap_or(0)).sum::<u64>()
    });
    let elapsed = start.elapsed().as_secs_f64();
    let statistics = session.stop()?;
    let size = std::fs::metadata(path)?.len();
    std::fs::remove_file(path)?;
    if !statistics.ledger.is_balanced() {
        return Err(format!("the ledger is not exact: {:?}", statistics.ledger).into());
    }
    let behind = u64::from(late.load(Ordering::Relaxed));
    let lost = statistics.ledger.lost_total();
    if std::env::var_os("RATE_VERBOSE").is_some() {
        let losses =
            statistics.ledger.losses().map(|loss| format!("{} {}", loss.cause, loss.count));
        let losses = losses.collect::<Vec<_>>().join(", ");
        eprintln!("{threads} x: {:.2} M/s offered, lost: {losses}, behind {behind}", rate / 1e6);
    }
    Ok(Offered { events, seconds: elapsed, lost: lost + behind, size })
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().map_or(Ok(2.0), |text| text.parse())?;
    let path = arguments.next().map(PathBuf::from);
    let path = path.unwrap_or_else(|| std::env::temp_dir().join("openetw-rate.etl"));
    let _registration = BENCH.register();
    let drain = drain_rate()?;
    figure("one core drains", drain / 1e6, "M/s");
    for (threads, compressed, s) in [
        (1, false, "one thread"),
        (2, false, "two threads"),
        (1, true, "one thread, compressed"),
        (2, true, "two threads, compressed"),
    ] {
        let (mut good, mut bad) = (0.0f64, 64e6);
        let mut size = 0.0;
        let mut bandwidth = Vec::new();
        while bad / good.max(1e5) > 1.1 && bad > 2e5 {
            let rate = if good == 0.0 { bad / 8.0 } else { (good * bad).sqrt() };
            if !compressed {
                bandwidth.push(file_bandwidth(&path, seconds)?);
            }
            let offered = offer(&path, (threads, compressed), rate, seconds)?;
            if offered.lost == 0 {
                good = offered.events as f64 / offered.seconds;
                size = offered.size as f64 / offered.events.max(1) as f64;
            } else {
                bad = rate;
            }
        }
        figure(&format!("offered without loss, {s}"), good / 1e6, "M/s");
        figure(&format!("bytes an event, {s}"), size, "B");
        if compressed {
            continue;
        }
        bandwidth.sort_by(f64::total_cmp);
        let bandwidth = bandwidth[bandwidth.len() / 2];
        figure(&format!("file write bandwidth, {s}"), bandwidth / 1e9, "GB/s");
        let bound = (bandwidth / size).min(drain);
        figure(&format!("offered / what file and core take, {s}"), good / bound, "x");
    }
    Ok(())
}
