//! The part file that a killed program leaves beside its trace, in the commands.
use crate::fixture::{etw, json_lines, stderr, stdout};
use ::etw::{Guid, Level, Provider, Session, write_event};
use etw_types::Keyword;
use std::path::{Path, PathBuf};

/// A folder of this test's own, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("etw-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

static PROVIDER: Provider = Provider::new("Part", Guid::from_u128(31), b"\x07\0Part\0");
const ROLE: &str = "ETW_CLI_TEST_PART";

/// Not a test by itself: the program that is killed.
#[test]
fn child_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let mut parts = role.splitn(3, ' ');
    let mut number = || parts.next().unwrap().parse::<u32>().unwrap();
    let (before, after) = (number(), number());
    let path = PathBuf::from(parts.next().unwrap());
    let _registration = PROVIDER.register();
    let session = Session::builder("left").file(&path).buffer_size_kb(4).start().unwrap();
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    let put = |count| {
        for _ in 0..count {
            assert!(write_event!(PROVIDER, "E", level(Informational)).is_success());
        }
    };
    put(before);
    session.flush().unwrap();
    put(after);
    std::process::abort();
}

/// Runs the program that is killed.
fn kill_program(trace: &Path, before: u32, after: u32) {
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["part::child_process", "--exact"])
        .env(ROLE, format!("{before} {after} {}", trace.display()))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success());
}

/// A trace of `before` events in its file and `after` ones more that its program left when it was killed.
fn left(folder: &Path, before: u32, after: u32) -> PathBuf {
    let trace = folder.join("left.etl");
    kill_program(&trace, before, after);
    // Not in memory, so that the test may damage it and leaves nothing there.
    let part = folder.join("left.etl.part");
    let bytes = std::fs::read(&part).unwrap();
    if let Ok(target) = std::fs::read_link(&part) {
        std::fs::remove_file(target).unwrap();
    }
    std::fs::remove_file(&part).unwrap();
    std::fs::write(&part, bytes).unwrap();
    trace
}

/// P3: `dump` and `check` read what is in the file and beside it, `repair` folds it in and completes the header, and may be run again.
#[test]
fn what_a_killed_program_left_is_read_and_folded_in() {
    let folder = Folder::new("part");
    let trace = left(&folder.0, 500, 300);
    let part = folder.0.join("left.etl.part");
    let events = |path: &Path| {
        let lines = json_lines(&stdout(&["dump", "--format", "json"], &[path], 0));
        lines.iter().filter(|line| line["event"] == "E" && line["provider_name"] == "Part").count()
    };
    assert_eq!((events(&trace), events(&part)), (800, 800));
    let checked = etw(&["check"], &[&trace]);
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
    assert!(stderr(&checked).contains("killed program"), "{}", stderr(&checked));
    assert!(part.exists());

    let first = stdout(&["repair"], &[&trace], 0);
    assert!(first.contains("finalised"), "{first}");
    assert!(!part.exists());
    assert_eq!(events(&trace), 800);
    let bytes = std::fs::read(&trace).unwrap();
    assert!(stdout(&["repair"], &[&trace], 0).contains("sound"));
    assert_eq!(std::fs::read(&trace).unwrap(), bytes);
    let stat = stdout(&["stat", "--format", "json"], &[&trace], 0);
    assert_eq!(json_lines(&stat)[0]["finalised"], true);
}

/// P5: any damage to it is reported, and costs neither the trace nor the command.
#[test]
fn a_damaged_part_costs_nothing_else() {
    let folder = Folder::new("part-damaged");
    let trace = left(&folder.0, 200, 100);
    let part = folder.0.join("left.etl.part");
    let whole = std::fs::read(&part).unwrap();
    let mut seed = 7u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize
    };
    for round in 0..24 {
        let mut bytes = whole.clone();
        match round % 4 {
            0 => bytes.truncate(random() % whole.len()),
            1 => {
                let at = random() % 0x200;
                bytes[at..at + 8].fill(0xff);
            }
            2 => {
                // Control, pool tables and buffers.
                for _ in 0..2000 {
                    let at = 0x100000 + random() % (whole.len() - 0x100008);
                    bytes[at] ^= 1 << (random() % 8);
                }
            }
            _ => {
                let at = random() % (whole.len() - 70_000);
                bytes[at..at + 65_536].fill(random() as u8);
            }
        }
        std::fs::write(&part, &bytes).unwrap();
        let output = etw(&["dump", "--format", "json"], &[&trace]);
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1)), "round {round}: {code:?} {}", stderr(&output));
        let lines = json_lines(&String::from_utf8(output.stdout).unwrap());
        assert!(lines.len() >= 201, "round {round}: {}", lines.len());
    }
}

/// A damaged part is damage of the trace, and `repair` leaves both as they are. One that is no file, or of another session, is not read.
#[test]
fn damage_and_strangers_beside_a_trace_are_told() {
    let folder = Folder::new("part-told");
    let trace = left(&folder.0, 200, 100);
    let part = folder.0.join("left.etl.part");
    let (whole, file) = (std::fs::read(&part).unwrap(), std::fs::read(&trace).unwrap());
    let mut damaged = whole.clone();
    // The registrations of providers: no event in the pool has a known one.
    damaged[0x10000..0x11000].fill(0);
    for (bytes, why) in
        [(&damaged[..], "places of what the program left"), (&whole[..4096], "cannot be read")]
    {
        std::fs::write(&part, bytes).unwrap();
        let checked = etw(&["check"], &[&trace]);
        assert_eq!(checked.status.code(), Some(1), "{}", stderr(&checked));
        let text = String::from_utf8(checked.stdout).unwrap();
        assert!(text.contains("damaged in 1 place") && text.contains(why), "{text}");
        let repaired = etw(&["repair", "--json"], &[&trace]);
        assert_ne!(repaired.status.code(), Some(0), "{}", stderr(&repaired));
        assert!(std::fs::read(&part).unwrap() == bytes && std::fs::read(&trace).unwrap() == file);
    }
    // The trace of another session, in the name of the killed one's.
    std::fs::write(&part, &whole).unwrap();
    let sound = crate::fixture::greetings(10);
    std::fs::write(&trace, &sound).unwrap();
    let checked = etw(&["check"], &[&trace]);
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
    assert!(stderr(&checked).contains("of another session"), "{}", stderr(&checked));
    assert!(String::from_utf8(checked.stdout).unwrap().contains("sound, 11 records"));
    assert_eq!(etw(&["repair"], &[&trace]).status.code(), Some(3));
    assert!(std::fs::read(&trace).unwrap() == sound && part.exists());
    // A pipe would wait for its writer.
    #[cfg(unix)]
    {
        std::fs::remove_file(&part).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&part).status().unwrap();
        assert!(made.success());
        let text = stdout(&["check"], &[&trace], 0);
        assert!(text.contains("sound, 11 records"), "{text}");
    }
}

/// `repair` takes the name of the part, too; a trace that is named twice, or with its part, is read once.
#[test]
fn a_trace_and_its_part_are_one() {
    let folder = Folder::new("part-named");
    let trace = left(&folder.0, 20, 10);
    let part = folder.0.join("left.etl.part");
    let output = etw(&["dump", "--json"], &[&trace, &part]);
    let lines = json_lines(std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!(lines.iter().filter(|line| line["event"] == "E").count(), 30);
    assert!(stderr(&output).contains("is named again"), "{}", stderr(&output));
    let repaired = stdout(&["repair"], &[&part], 0);
    assert!(repaired.contains("finalised") && !part.exists(), "{repaired}");
    let merged = folder.0.join("merged.etl");
    etw(&["merge", "-o", merged.to_str().unwrap()], &[&trace, &trace]);
    let count = |path: &Path| json_lines(&stdout(&["dump", "--json"], &[path], 0)).len();
    assert_eq!(count(&merged), count(&trace));
}

/// By a link of any kind, an output may be an input, which stays.
#[cfg(unix)]
#[test]
fn an_input_is_never_overwritten_by_another_name() {
    let folder = Folder::new("linked");
    let [trace, hard, soft] = ["in.etl", "hard.etl", "soft.etl"].map(|name| folder.0.join(name));
    let bytes = crate::fixture::greetings(10);
    std::fs::write(&trace, &bytes).unwrap();
    std::fs::hard_link(&trace, &hard).unwrap();
    std::os::unix::fs::symlink(&trace, &soft).unwrap();
    for link in [&hard, &soft] {
        let link = link.to_str().unwrap();
        for words in [
            &["dump", "--force", "-o", link][..],
            &["stat", "--force", "-o", link],
            &["relog", "--force", "-o", link],
            &["report", "--force", "-o", link],
            &["tracerpt", "-y", "-summary", link],
        ] {
            let (behind, before) = match words[0] {
                "tracerpt" => (&words[1..], &words[..1]),
                _ => (&[][..], words),
            };
            let files: Vec<&Path> =
                [&*trace].into_iter().chain(behind.iter().map(Path::new)).collect();
            let output = etw(before, &files);
            assert_eq!(output.status.code(), Some(3), "{words:?}: {}", stderr(&output));
            assert!(stderr(&output).contains("is an input file"), "{}", stderr(&output));
            assert!(std::fs::read(&trace).unwrap() == bytes, "{words:?}");
        }
    }
    // Schemas and parts are inputs, too.
    let manifest = folder.0.join("k.man");
    const MANIFEST: &str = "<instrumentationManifest><instrumentation><events>\
        <provider name='A' symbol='A' guid='{00000000-0000-0000-0000-000000000041}' messageFileName='a' resourceFileName='a'/>\
        </events></instrumentation></instrumentationManifest>";
    std::fs::write(&manifest, MANIFEST).unwrap();
    let shown = manifest.to_str().unwrap();
    let part = folder.0.join("in.etl.part");
    std::fs::write(&part, "left").unwrap();
    let beside = part.to_str().unwrap();
    for words in [
        ["dump", "--force", "--manifest", shown, "-o", shown],
        ["stat", "--force", "--manifest", shown, "-o", shown],
        ["relog", "--force", "--manifest", shown, "-o", shown],
        ["merge", "--force", "--manifest", shown, "-o", shown],
        ["report", "--force", "--manifest", shown, "-o", shown],
        ["dump", "--force", "--format", "text", "-o", beside],
    ] {
        let output = etw(&words, &[&trace]);
        assert_eq!(output.status.code(), Some(3), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("is an input file"), "{words:?}: {}", stderr(&output));
    }
    assert_eq!(std::fs::read_to_string(&manifest).unwrap(), MANIFEST);
    assert_eq!(std::fs::read(&part).unwrap(), b"left");
}

/// OV-3: memory whose trace was removed is listed by `doctor`, with its trace and size, and removed by the next command that
/// records or repairs, which says so.
#[cfg(target_os = "linux")]
#[test]
fn memory_without_a_trace_is_listed_and_removed() {
    let folder = Folder::new("part-orphan");
    let sound = left(&folder.0, 5, 0);
    stdout(&["repair"], &[&sound], 0);
    // Every private session removes such memory, those of other tests, too.
    for _ in 0..20 {
        let gone = folder.0.join("gone");
        std::fs::create_dir(&gone).unwrap();
        let trace = gone.join("gone.etl");
        kill_program(&trace, 0, 5);
        let Ok(memory) = std::fs::read_link(gone.join("gone.etl.part")) else {
            return eprintln!("skipped: the folder itself is in memory");
        };
        std::fs::remove_dir_all(&gone).unwrap();
        let doctor = String::from_utf8(etw(&["doctor"], &[]).stdout).unwrap();
        let repaired = stderr(&etw(&["repair"], &[&sound]));
        assert!(!memory.exists());
        let is_listed = |text: &str, verb: &str| {
            text.lines().any(|line| {
                let has = |part: &Path| line.contains(&part.display().to_string());
                line.contains(verb) && line.contains("KiB") && has(&memory) && has(&trace)
            })
        };
        if is_listed(&doctor, "WRONG") && is_listed(&repaired, "removed") {
            return;
        }
    }
    panic!("neither listed nor removed");
}

/// A circular file says how many events newer ones have replaced.
#[test]
fn overwritten_events_are_counted_in_the_file() {
    static PROVIDER: Provider = Provider::new("Newest", Guid::from_u128(33), b"\x09\0Newest\0");
    let folder = Folder::new("overwritten");
    let trace = folder.0.join("circular.etl");
    let _registration = PROVIDER.register();
    let session = Session::builder("circular").file(&trace).circular(32 << 10).buffer_size_kb(4);
    let session = session.start().unwrap();
    session.enable(&PROVIDER, Level::VERBOSE, Keyword(0)).unwrap();
    for number in 0..2000 {
        while !write_event!(PROVIDER, "E", level(Informational)).is_success() {
            std::thread::yield_now();
        }
        if number % 100 == 0 {
            session.flush().unwrap();
        }
    }
    let overwritten = session.stop().unwrap().ledger.overwritten;
    assert!(overwritten > 0);
    let text = stdout(&["stat"], &[&trace], 0);
    assert!(text.contains(&format!("; {overwritten} events overwritten by newer ones")), "{text}");
    let row = json_lines(&stdout(&["stat", "--json"], &[&trace], 0)).remove(0);
    assert_eq!(row["overwritten"], overwritten);
    let events = row["by_event"].as_array().unwrap().iter().find(|row| row["event"] == "E");
    // Attempts that found no space are lost; the file has the others.
    assert_eq!(events.unwrap()["count"], 2000 - overwritten);
}
