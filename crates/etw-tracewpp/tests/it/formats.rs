//! TMF files that Windows' tools made, against those of sources with the same calls.

use etw_tracewpp::{Options, run};
use std::fmt::Write;
use std::path::Path;

/// `#typev` and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    line: u32,
    number: u16,
    /// The format with its trailer, without the function's name.
    text: String,
    arguments: Vec<String>,
}

fn parse(tmf: &str, file: &str) -> Vec<Message> {
    let (stem, extension) = file.rsplit_once('.').unwrap();
    let place = format!("{stem}_{extension}");
    let mut messages: Vec<Message> = Vec::new();
    for line in tmf.lines() {
        if let Some(rest) = line.strip_prefix("#typev ") {
            let mut words = rest.splitn(3, ' ');
            let at = words.next().unwrap().strip_prefix(&place).unwrap().parse().unwrap();
            let number = words.next().unwrap().parse().unwrap();
            let text = words.next().unwrap();
            let text = text.rsplit_once(" FUNC=").map_or(text, |(text, _)| text).to_owned();
            messages.push(Message { line: at, number, text, arguments: Vec::new() });
        } else if line.contains(", Item") {
            messages.last_mut().unwrap().arguments.push(line.to_owned());
        }
    }
    messages.sort_by_key(|message| message.number);
    // A function that was inlined leaves several copies.
    messages.dedup();
    messages
}

/// The name of a type that has an item and a conversion.
fn type_name(item: &str, conversion: &str) -> String {
    let named = match item {
        "ItemNTSTATUS" => "!STATUS!",
        "ItemWINERROR" => "!WINERROR!",
        "ItemPWString" => "!USTR!",
        "ItemWString" => "S",
        "ItemDouble" => "f",
        "ItemListByte(Low,APC,DPC)" => "!irql!",
        _ => conversion,
    };
    named.to_owned()
}

/// A source with the calls of a TMF, each at its line.
fn source(messages: &[Message]) -> Option<String> {
    let mut by_line: Vec<&Message> = messages.iter().collect();
    by_line.sort_by_key(|message| message.line);
    // Headers that several sources include give lines of other files.
    if by_line
        .windows(2)
        .any(|pair| pair[0].line >= pair[1].line || pair[0].number > pair[1].number)
    {
        return None;
    }
    let mut text = String::from("void f(void) {");
    let mut line = 1;
    for message in by_line {
        while line < message.line {
            text.push('\n');
            line += 1;
        }
        let (format, trailer) = message.text.rsplit_once("\" //   ")?;
        let mut format = format.strip_prefix("\"%0")?.to_owned();
        let mut expressions = String::new();
        for argument in &message.arguments {
            let (argument, number) = argument.rsplit_once(" -- ")?;
            let (expression, item) = argument.rsplit_once(", Item")?;
            let item = format!("Item{item}");
            let start = format.find(&format!("%{number}!"))? + 1 + number.len();
            let size = format[start + 1..].find('!')?;
            let conversion = format[start + 1..start + 1 + size].to_owned();
            let name = type_name(&item, &conversion);
            format.replace_range(start - number.len()..start + size + 2, &name);
            write!(expressions, ", {expression}").ok()?;
        }
        let level = trailer.strip_prefix("LEVEL=")?;
        let (level, flags) = level.split_once(" FLAGS=")?;
        let format = format.replace('\\', "\\\\").replace('"', "\\\"");
        write!(text, "T({level}, {flags}, \"{format}\"{expressions});").ok()?;
    }
    text.push_str("\n}\n");
    Some(text)
}

#[test]
fn formats_equal_those_that_windows_tools_made() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/tmf");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: {} is absent", folder.display());
        return;
    };
    let (mut files, mut count, mut passed_over) = (0, 0, 0);
    for entry in entries {
        let tmf =
            String::from_utf8_lossy(&std::fs::read(entry.unwrap().path()).unwrap()).into_owned();
        let head = tmf.lines().find(|line| !line.starts_with("//")).unwrap();
        let component = head.split(' ').nth(1).unwrap().to_owned();
        let file = head.split("SRC=").nth(1).unwrap().split(' ').next().unwrap();
        let wanted = parse(&tmf, file);
        let Some(text) = source(&wanted).filter(|_| !file.ends_with(".h")) else {
            passed_over += 1;
            continue;
        };
        let mut options = Options::default();
        let first = wanted[0].number;
        for word in ["-func:T(LEVEL,FLAGS,MSG,...)", "-tmf:out", file] {
            options.apply(word).unwrap();
        }
        options.apply(&format!("-p:{component}")).unwrap();
        let range = format!("TRACERANGE({first},65535);");
        options.apply("-ini:range.ini").unwrap();
        let read = |path: &Path| match path.to_str() {
            Some("range.ini") => Ok(range.clone().into_bytes()),
            Some(path) if path == file => Ok(text.clone().into_bytes()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        };
        let outputs =
            run(&options, &read).unwrap_or_else(|error| panic!("{file}: {error}\n{text}"));
        let ours =
            outputs.files.iter().find(|file| file.path.extension().unwrap() == "tmf").unwrap();
        let found = parse(&ours.text, file);
        for (found, wanted) in found.iter().zip(&wanted) {
            // Numbers that messages of other configurations have taken leave gaps.
            let wanted = Message { number: found.number, ..wanted.clone() };
            assert_eq!(*found, wanted, "{file}");
        }
        assert_eq!(found.len(), wanted.len());
        files += 1;
        count += found.len();
    }
    println!("{count} messages of {files} files are equal, {passed_over} files passed over");
    assert!(files >= 40 && count >= 1000, "{count} messages of {files} files");
}
