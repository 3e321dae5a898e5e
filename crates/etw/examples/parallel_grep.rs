//! Searches the files of a folder for a text on several threads, and records what it does when asked to.
//!
//! ```sh
//! cargo run --release -p openetw --features session --example parallel_grep -- --trace grep.etl fn crates
//! cargo run --release -p etw-cli -- dump grep.etl
//! ```
use etw::{Activity, Keyword, Level, Session, define_provider, write_event};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

define_provider!(GREP, "OpenEtw.Example.Grep");

/// Events of single matches have a keyword of their own, since they are many.
const MATCHES: u64 = 0x2;

#[derive(Default)]
struct Totals {
    files: AtomicU64,
    bytes: AtomicU64,
    matches: AtomicU64,
    errors: AtomicU64,
}

fn search(path: &Path, text: &str, totals: &Totals) {
    // Everything written below, on this thread, belongs to this file; the file to the run.
    let file = Activity::new();
    let _scope = file.enter();
    write_event!(
        GREP,
        "File",
        opcode(Start),
        level(Informational),
        related_id(file.related_id()),
        str8("Path", &path.to_string_lossy())
    );
    let content = match std::fs::read(path) {
        Ok(content) => content,
        Err(error) => {
            totals.errors.fetch_add(1, Ordering::Relaxed);
            write_event!(
                GREP,
                "CannotRead",
                level(Error),
                errno("Error", &error.raw_os_error().unwrap_or(0))
            );
            return;
        }
    };
    let mut matches = 0u32;
    for (number, line) in (1u32..).zip(content.split(|byte| *byte == b'\n')) {
        if line.windows(text.len()).any(|part| part == text.as_bytes()) {
            matches += 1;
            write_event!(
                GREP,
                "Match",
                level(Verbose),
                keyword(MATCHES),
                u32("Line", &number),
                str8("Text", line)
            );
        }
    }
    totals.files.fetch_add(1, Ordering::Relaxed);
    totals.bytes.fetch_add(content.len() as u64, Ordering::Relaxed);
    totals.matches.fetch_add(u64::from(matches), Ordering::Relaxed);
    write_event!(
        GREP,
        "File",
        opcode(Stop),
        level(Informational),
        u32("Matches", &matches),
        u64("Bytes", &(content.len() as u64))
    );
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => files(&entry.path(), found)?,
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let trace = match arguments.iter().position(|argument| argument == "--trace") {
        Some(at) if at + 1 < arguments.len() => arguments.drain(at..at + 2).nth(1),
        _ => None,
    };
    let [text, folder] = &arguments[..] else {
        return Err("usage: parallel_grep [--trace FILE.etl] TEXT FOLDER".into());
    };

    let _registration = GREP.register();
    let session = match &trace {
        None => None,
        Some(path) => {
            let session = Session::builder("parallel_grep").file(path).start()?;
            session.enable(&GREP, Level::VERBOSE, Keyword(0))?;
            Some(session)
        }
    };

    let run = Activity::new();
    let _scope = run.enter();
    write_event!(
        GREP,
        "Run",
        opcode(Start),
        level(Informational),
        str8("Text", text),
        str8("Folder", folder)
    );
    let mut found = Vec::new();
    files(Path::new(folder), &mut found)?;
    let (totals, queue) = (Totals::default(), Mutex::new(found));
    let threads = std::thread::available_parallelism()?.get();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let _scope = run.enter();
                loop {
                    let next = queue.lock().map(|mut queue| queue.pop());
                    let Ok(Some(path)) = next else { return };
                    search(&path, text, &totals);
                }
            });
        }
    });
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (files, bytes, matches) =
        (count(&totals.files), count(&totals.bytes), count(&totals.matches));
    write_event!(GREP, "Run", opcode(Stop), level(Informational), struct("Totals", {
        u64("Files", &files),
        u64("Bytes", &bytes),
        u64("Matches", &matches),
        u64("Errors", &count(&totals.errors)),
    }));
    println!("{matches} matches in {files} files, {bytes} bytes");

    if let (Some(session), Some(path)) = (session, trace) {
        let ledger = session.stop()?.ledger;
        println!(
            "{} events in {path}, {} lost; next: etw dump {path}",
            ledger.stored,
            ledger.lost_total()
        );
    }
    Ok(())
}
