//! Keeps the last events in memory, and writes them to a file when the program panics.
//!
//! ```sh
//! cargo run --release -p openetw --features session --example flight_recorder -- crash.etl
//! cargo run --release -p etw-cli -- dump crash.etl
//! ```
use etw::{Keyword, Level, Session, define_provider, write_event};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

define_provider!(ENGINE, "OpenEtw.Example.Engine");

static RECORDER: OnceLock<Session> = OnceLock::new();

/// Two microseconds of work, and its event.
fn step(number: u64) {
    let until = Instant::now() + Duration::from_micros(2);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    let pressure = 100 + number * number % 977;
    write_event!(
        ENGINE,
        "Step",
        level(Verbose),
        u64("Number", &number),
        u64("Pressure", &pressure)
    );
    assert!(number < 60_000, "pressure {pressure} in step {number}");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: flight_recorder FILE.etl")?;
    let _registration = ENGINE.register();
    // 64 buffers of 64 KiB: the last 4 MiB, whatever happened before.
    let session =
        Session::builder("flight recorder").memory().pool_size(4 << 20, 16 << 20).start()?;
    session.enable(&ENGINE, Level::VERBOSE, Keyword(0))?;
    let _ = RECORDER.set(session);

    let usual = std::panic::take_hook();
    let file = path.clone();
    std::panic::set_hook(Box::new(move |panic| {
        // The one event that must not be missing: where the recorder has no room at this moment, it is written again.
        for _ in 0..100 {
            let status =
                write_event!(ENGINE, "Panic", level(Critical), str8("What", &panic.to_string()));
            if status.is_success() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        match RECORDER.get().map(|session| session.snapshot(&file)) {
            Some(Ok(buffers)) => eprintln!("{buffers} buffers in {file}; next: etw dump {file}"),
            Some(Err(error)) => eprintln!("{file}: {error}"),
            None => {}
        }
        usual(panic);
    }));

    let worker = std::thread::spawn(|| (0..1_000_000).for_each(step));
    if worker.join().is_err() {
        println!("the worker has ended early, and {path} tells what it did before");
    }
    Ok(())
}
