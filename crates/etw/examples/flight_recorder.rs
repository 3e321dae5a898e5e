//! Keeps the last events in memory, and writes them to a file when the program panics.
//!
//! ```sh
//! cargo run --release -p etw --features session --example flight_recorder -- crash.etl
//! cargo run --release -p etw-cli -- dump crash.etl
//! ```
use etw::{Level, Session, define_provider, write_event};
use std::sync::OnceLock;

define_provider!(ENGINE, "OpenEtw.Example.Engine");

static RECORDER: OnceLock<Session> = OnceLock::new();

fn step(number: u64) {
    let pressure = 100 + number * number % 977;
    write_event!(
        ENGINE,
        "Step",
        level(Verbose),
        u64("Number", &number),
        u64("Pressure", &pressure)
    );
    assert!(number < 123_456, "pressure {pressure} in step {number}");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: flight_recorder FILE.etl")?;
    let _registration = ENGINE.register();
    // 64 buffers of 64 KiB: the last 4 MiB, whatever happened before.
    let session = Session::builder("flight recorder").memory().start()?;
    session.enable(&ENGINE, Level::VERBOSE, 0)?;
    let _ = RECORDER.set(session);

    let usual = std::panic::take_hook();
    let file = path.clone();
    std::panic::set_hook(Box::new(move |panic| {
        write_event!(ENGINE, "Panic", level(Critical), str8("What", &panic.to_string()));
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
