//! The commands of README.md and the book: each runs, from the top of its page to the bottom, and prints lines of the form that the page
//! shows. A comment above a block says why its commands cannot run here.

mod page;
mod shell;

use page::{Block, Step, blocks};
use shell::{Built, Shell, root};
use std::path::{Path, PathBuf};

/// The folders of the book.
const FOLDERS: [&str; 4] = ["docs/guide", "docs/reference", "docs/windows", "docs/design"];
/// Commands that build this project with optimisation, or test all of it, which takes minutes. Other checks run them.
const BUILDS: [&str; 2] = ["cargo ", "mdbook "];
/// So many commands of the pages run, and so many at most do not.
const RUN: usize = 80;
const NOT_RUN: usize = 18;

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    for folder in FOLDERS {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        pages.extend(entries.map(|entry| entry.unwrap().path()));
    }
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages
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

/// The command as a test runs it.
fn runnable(command: &str, has_jq: bool) -> String {
    let command = command.replace("target/release/examples/", "");
    match command.split_once(" | jq") {
        // Without jq, what it would read is printed.
        Some((command, _)) if !has_jq => command.to_owned(),
        // A reader of a page ends this with Ctrl-C.
        _ if command.starts_with("etw tail") && !command.contains("--limit") => {
            command + " --limit 1"
        }
        _ => command,
    }
}

/// Runs the commands of a block, and adds those that fail or print other lines to `faults`; how many ran.
fn run_steps(page: &Path, shell: &Shell, steps: &[Step], faults: &mut Vec<String>) -> usize {
    let has_jq = shell.output("jq --version").status.success();
    let mut count = 0;
    for Step { command, lines } in steps {
        if BUILDS.iter().any(|build| command.starts_with(build)) {
            continue;
        }
        count += 1;
        let page = page.display();
        let printed = match shell.try_run(&runnable(command, has_jq)) {
            Ok(printed) => printed,
            Err(error) => {
                faults.push(format!("{page}: {error}"));
                continue;
            }
        };
        for line in lines {
            if !printed.lines().any(|printed| has_form(printed, line)) {
                let what = "no line has the form of";
                faults.push(format!("{page}: {command}: {what}: {line}\n{printed}"));
            }
        }
        if let Some(start) = command.strip_prefix("etw session start ")
            && command.contains("'*Ticker")
        {
            shell.wait_for_event(start.split(' ').next().unwrap());
        }
    }
    count
}

#[test]
fn the_commands_of_the_book_run() {
    let built = Built::new();
    let (mut run, mut not_run, mut faults) = (0, 0, Vec::new());
    for (number, page) in pages().into_iter().enumerate() {
        let blocks = blocks(&page);
        let shell = match blocks.iter().any(|block| matches!(block, Block::Commands(_))) {
            true => Some(Shell::new(&format!("transcripts-{number}"), &built)),
            false => None,
        };
        if let Some(shell) = shell.as_ref().filter(|_| page.ends_with("event-log.md")) {
            shell.make_logs();
        }
        for block in blocks {
            match (block, &shell) {
                (Block::File { name, text }, Some(shell)) => shell.write(&name, text),
                (Block::File { .. }, None) => {}
                (Block::Commands(steps), Some(shell)) => {
                    run += run_steps(&page, shell, &steps, &mut faults);
                }
                (Block::Commands(_), None) => unreachable!("a page with commands has a shell"),
                (Block::NotRun { reason, commands }, _) => {
                    println!("{}: {commands} commands not run: {reason}", page.display());
                    not_run += commands;
                }
            }
        }
    }
    println!("{run} commands run, {not_run} not run");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(run >= RUN && not_run <= NOT_RUN, "{run} commands run, {not_run} not run");
}

#[test]
fn the_guide_shows_the_example_that_it_records() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let (page, example) =
        (read("docs/guide/slowest-request.md"), read("crates/etw/examples/requests.rs"));
    let (_, program) = example.split_once("//! ```\nuse ").unwrap();
    assert!(page.contains(program), "the page's program is not the example");
}
