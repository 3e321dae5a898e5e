//! The transcripts of README.md and the guide: each command runs, from the top of its page to the bottom, and prints lines of the form
//! that the page shows.

use crate::controllers::Place;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PAGES: [&str; 6] = [
    "README.md",
    "docs/guide/first-trace.md",
    "docs/guide/slowest-request.md",
    "docs/guide/sessions.md",
    "docs/guide/filters.md",
    "docs/guide/troubleshooting.md",
];
/// The examples that the pages record.
const EXAMPLES: [&str; 2] = ["ticker", "requests"];
/// Parts of commands whose input a test cannot have: a killed program's file, a program that filters JSON, a trace of the repository
/// (which `book.rs` compares to the letter), the providers of a host with sessions of others.
const SKIPPED: [&str; 4] = ["killed.etl", "| jq", "testdata/", "provider list"];

/// A command of a page and the lines that the page shows below it.
struct Step {
    command: String,
    lines: Vec<String>,
}

fn steps(page: &Path) -> Vec<Step> {
    let text = std::fs::read_to_string(page).unwrap();
    let mut steps: Vec<Step> = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
            steps.push(Step { command: String::new(), lines: Vec::new() });
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_code) {
            steps.push(Step { command: command.to_owned(), lines: Vec::new() });
        } else if let Some(step) = steps.last_mut().filter(|_| is_code) {
            step.lines.push(line.to_owned());
        }
    }
    steps.retain(|step| {
        step.command.starts_with("etw ") && !SKIPPED.iter().any(|part| step.command.contains(part))
    });
    steps
}

/// The words of a line that are the same in each run: those without digits, paths and omissions.
fn form(line: &str) -> Vec<&str> {
    let varies = |word: &str| {
        word.contains(|c: char| c.is_ascii_digit() || c == '…') || word.contains("/tmp/")
    };
    line.split_whitespace().filter(|word| !varies(word)).collect()
}

fn has_form(printed: &str, shown: &str) -> bool {
    let mut words = printed.split_whitespace();
    form(shown).into_iter().all(|word| words.any(|printed| printed == word))
}

/// The examples that the pages record, in the order of [`EXAMPLES`].
fn examples() -> [PathBuf; EXAMPLES.len()] {
    let selected = EXAMPLES.iter().flat_map(|name| ["--example", name]);
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "-p", "openetw"])
        .args(selected)
        .arg("--message-format=json")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let messages = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let executables: Vec<PathBuf> =
        messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).collect();
    EXAMPLES.map(|name| {
        let built = executables.iter().find(|path| path.file_stem().is_some_and(|it| it == name));
        built.unwrap_or_else(|| panic!("no executable {name}")).clone()
    })
}

struct Shell {
    place: Place,
    /// Ticks all the time, as the program that the guide's sessions record.
    ticker: Child,
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.ticker.kill();
        let _ = self.ticker.wait();
    }
}

impl Shell {
    fn new(name: &str, examples: &[PathBuf]) -> Shell {
        let place = Place::new(name);
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/sample.etl");
        std::fs::copy(sample, place.file("trace.etl")).unwrap();
        let programs = place.file("bin");
        std::fs::create_dir(&programs).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_etw"), programs.join("etw")).unwrap();
        for (name, example) in EXAMPLES.iter().zip(examples) {
            std::os::unix::fs::symlink(example, programs.join(name)).unwrap();
        }
        let ticker = place.command(&examples[0]).args(["10000000", "1000"]).spawn().unwrap();
        Shell { place, ticker }
    }

    /// Standard output and errors of a command that has to succeed.
    fn run(&self, command: &str) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = self
            .place
            .command("sh".as_ref())
            .args(["-c", command])
            .env("PATH", format!("{}:{path}", self.place.file("bin").display()))
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        // `etw doctor` fails if it finds a problem, and the page shows one.
        let may_fail = command.starts_with("etw doctor");
        assert!(output.status.success() || may_fail, "{command}: {}: {printed}", output.status);
        printed
    }

    /// Waits until a session has an event of the ticker, so that its next transcripts show events.
    fn wait_for_event(&self, session: &str) {
        let end = Instant::now() + Duration::from_secs(120);
        while !self.run(&format!("etw session query {session}")).lines().any(|line| {
            let count = line.strip_prefix("attempted").map(str::trim);
            count.is_some_and(|count| count != "0")
        }) {
            assert!(Instant::now() < end, "session {session} has no events");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn the_transcripts_of_the_guide_run() {
    let examples = examples();
    let mut count = 0;
    for page in PAGES {
        let steps = steps(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page));
        let shell = Shell::new(&format!("transcripts-{count}"), &examples);
        for Step { command, lines } in steps {
            let mut run = command.replace("target/release/examples/", "");
            // A reader of a page ends this with Ctrl-C.
            if run.starts_with("etw tail") && !run.contains("--limit") {
                run += " --limit 1";
            }
            let printed = shell.run(&run);
            for line in &lines {
                assert!(
                    printed.lines().any(|printed| has_form(printed, line)),
                    "{page}: {command}: no line has the form of: {line}\n{printed}"
                );
            }
            if let Some(start) = command.strip_prefix("etw session start ") {
                shell.wait_for_event(start.split(' ').next().unwrap());
            }
            count += 1;
        }
    }
    assert!(count >= 22, "{count} commands");
}

#[test]
fn the_guide_shows_the_example_that_it_records() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let (page, example) =
        (read("docs/guide/slowest-request.md"), read("crates/etw/examples/requests.rs"));
    let (_, program) = example.split_once("//! ```\nuse ").unwrap();
    assert!(page.contains(program), "the page's program is not the example");
}
