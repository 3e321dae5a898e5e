//! README.md, the crates' READMEs and the book: their commands and options exist, their outputs of committed traces are those that `etw`
//! prints, and the table of environment variables is that of the sources.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Commands whose options are those of Windows' tools.
const WINDOWS: [&str; 8] =
    ["tracerpt", "tracefmt", "tracelog", "logman", "xperf", "mc", "tracewpp", "wevtutil"];
const WITH_SUBCOMMANDS: [&str; 5] = ["session", "provider", "pack", "manifest", "log"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages with commands: README.md, those of the crates, and the book.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    pages.extend(crates.map(|entry| entry.unwrap().path().join("README.md")));
    pages.retain(|page| page.exists());
    collect(&root().join("docs"), "md", &mut pages);
    pages
}

#[test]
fn the_book_uses_only_options_that_exist() {
    let pages = pages();
    let mut helps = HashMap::new();
    let (mut faults, mut count) = (Vec::new(), 0);
    for page in &pages {
        let text = std::fs::read_to_string(page).unwrap();
        for command in text.split(['\n', '`']).filter_map(command) {
            count += 1;
            if let Some(fault) = fault(&command, &mut helps) {
                faults.push(format!("{}: {}: {fault}", page.display(), command.join(" ")));
            }
        }
    }
    assert!(count > 50, "{count} commands were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Where a page shows `$ etw dump testdata/…`, `etw` prints each of the lines below it; `…` stands for any text.
#[test]
fn outputs_of_committed_traces_are_what_etw_prints() {
    let mut shown = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(command) = line.strip_prefix("$ etw dump testdata/") else { continue };
            let output = Command::new(env!("CARGO_BIN_EXE_etw"))
                .arg("dump")
                .arg(format!("testdata/{command}"))
                .current_dir(root())
                .output()
                .unwrap();
            let printed = String::from_utf8(output.stdout).unwrap();
            for line in lines.by_ref().take_while(|line| !line.starts_with(['$', '`'])) {
                let is_printed = printed.lines().any(|printed| matches(line, printed));
                assert!(is_printed, "{}: etw dump does not print: {line}", page.display());
                shown += 1;
            }
        }
    }
    assert!(shown > 1, "{shown} lines were compared");
}

/// True if the pattern is the text, with any text for each `…` of it.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    let mut rest = rest;
    for part in middle {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

/// Each variable of the table occurs in a source, and each variable that a source reads is in the table.
#[test]
fn the_environments_page_names_the_variables_that_sources_read() {
    const PREFIXES: [&str; 6] =
        ["ETW_", "LOG_SINK_ETW_", "TRACE_FORMAT_", "XDG_", "LISTEN_", "NO_"];
    /// Names of constants in ETW's formats, a flag of xperf, and the variable of the tests.
    const OTHERS: [&str; 4] =
        ["ETW_BUFFER_FLAG_", "ETW_PROVIDER_TRAIT_TYPE", "NO_SYSCONFIG", "ETW_BLESS"];
    let page = std::fs::read_to_string(root().join("docs/reference/environment.md")).unwrap();
    let is_name = |text: &&str| {
        text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
            && PREFIXES.iter().any(|prefix| text.starts_with(prefix))
            && !OTHERS.iter().any(|other| text.starts_with(other))
    };
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let names = rows.filter_map(|row| row.split('|').nth(1));
    let documented: BTreeSet<&str> =
        names.flat_map(|names| names.split('`')).filter(is_name).collect();

    let mut sources = Vec::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.exists() {
            collect(&source, "rs", &mut sources);
        }
    }
    let texts: Vec<String> =
        sources.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let read = texts.iter().flat_map(|text| text.split('"')).filter(is_name);
    assert_eq!(documented, read.collect());
}

fn collect(folder: &Path, ending: &str, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(&path, ending, pages),
            false if path.extension().is_some_and(|extension| extension == ending) => {
                pages.push(path);
            }
            false => {}
        }
    }
}

/// The words behind `etw`, up to a recorded command or a pipe.
fn command(line: &str) -> Option<Vec<String>> {
    let line = line.trim();
    let words = line.strip_prefix("$ ").unwrap_or(line).strip_prefix("etw ")?;
    let words = words.split_whitespace().take_while(|word| !["--", "|", "#", "&&"].contains(word));
    Some(words.map(|word| word.trim_end_matches([',', ';', '.', ')']).to_owned()).collect())
}

/// The first part of a command that `etw` does not support.
fn fault(command: &[String], helps: &mut HashMap<String, Option<String>>) -> Option<String> {
    let first = command.first()?.as_str();
    // Messages, and placeholders such as COMMAND or FILE.
    if first.contains([':', '…', '-']) || first.chars().any(char::is_uppercase) {
        return None;
    }
    let mut path = vec![first.to_owned()];
    if WITH_SUBCOMMANDS.contains(&first) {
        // `start|stop`: any of them has a help.
        let next = command.get(1).and_then(|word| word.split(['|', '\\']).next());
        path.extend(next.filter(|word| !word.starts_with(['-', '…'])).map(str::to_owned));
    }
    let key = path.join(" ");
    let help = helps.entry(key.clone()).or_insert_with(|| help(&path)).as_ref();
    let Some(help) = help else { return Some(format!("`etw {key}` does not exist")) };
    if WINDOWS.contains(&first) || first == "help" {
        return None;
    }
    let options = command.iter().filter(|word| word.starts_with("--") && word.len() > 2);
    let options = options.map(|word| word.split(['=', '|', '[', ']']).next().unwrap_or(word));
    let unknown = |option: &&str| {
        !help.contains(&format!("{option} ")) && !help.contains(&format!("{option}\n"))
    };
    options.filter(unknown).map(|option| format!("no {option}")).next()
}

fn help(path: &[String]) -> Option<String> {
    let mut etw = Command::new(env!("CARGO_BIN_EXE_etw"));
    match path[0].as_str() {
        "help" => etw.arg("help"),
        // `-h` is an option of Windows' mc.
        "mc" => etw.args(["help", "mc"]),
        command if WINDOWS.contains(&command) => etw.args([command, "-h"]),
        _ => etw.args(path).arg("--help"),
    };
    let output = etw.output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
