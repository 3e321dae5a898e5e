//! Commands in README.md and the book: their subcommands and options exist.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Commands whose options are those of Windows' tools.
const WINDOWS: [&str; 6] = ["tracerpt", "tracefmt", "tracelog", "logman", "xperf", "mc"];
const WITH_SUBCOMMANDS: [&str; 3] = ["session", "provider", "pack"];

#[test]
fn the_book_uses_only_options_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    collect(&root.join("docs"), &mut pages);
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

fn collect(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(&path, pages),
            false if path.extension().is_some_and(|extension| extension == "md") => {
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

/// What `etw` does not know of a command.
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
