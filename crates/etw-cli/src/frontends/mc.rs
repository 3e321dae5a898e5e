//! `mc`: manifests compiled to headers, resources and message tables.

use super::table::show_help;
use super::table::{ALL, Effect, Help, Row, Table, option, refused};
use crate::output::{Failure, Outcome};
use crate::output_file::NewFile;
use etw_decode::pack::PackBuilder;
use etw_eventlog::access::Access;
use etw_mc::header::{self, Code};
use etw_mc::manifest::Place;
use etw_mc::message_text::{self, Language, MessageText};
use etw_mc::messages::{self, MessageIds};
use etw_mc::{Diagnostic, Manifest, Severity, elf, resource_script, review, rust, wevt};
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Default)]
struct Command {
    manifests: Vec<PathBuf>,
    header: header::Options,
    has_user_code: bool,
    has_kernel_code: bool,
    header_folder: PathBuf,
    resource_folder: PathBuf,
    base_name: Option<String>,
    header_extension: Option<String>,
    encoding: Encoding,
    has_rust: bool,
    object: Option<PathBuf>,
    pack: Option<PathBuf>,
    baseline: Option<PathBuf>,
    new_baseline: Option<PathBuf>,
    has_lint: bool,
    message_text: message_text::Options,
    has_long_table_names: bool,
    /// `-m`: longer messages are worth a warning.
    longest_message: Option<usize>,
}

/// The encoding of generated text.
#[derive(Clone, Copy, Default)]
enum Encoding {
    /// Without a byte order mark.
    #[default]
    Ansi,
    Utf8,
    Utf16,
}

const ROWS: &[Row<Command>] = &[
    option(ALL, "? help -help", "", "Show this text", Effect::Help),
    option(
        ALL,
        "um",
        "",
        "Write code for user mode: macros that register, test and write",
        Effect::Flag(|command| command.has_user_code = true),
    ),
    option(
        ALL,
        "km",
        "",
        "Write code for kernel mode: macros take an activity id first",
        Effect::Flag(|command| command.has_kernel_code = true),
    ),
    option(
        ALL,
        "h",
        "DIR",
        "Write the header to DIR; default: the current folder",
        Effect::Text(|command, folder| command.header_folder = folder.into()),
    ),
    option(
        ALL,
        "r",
        "DIR",
        "Write the resource script, the resource and the message tables to DIR",
        Effect::Text(|command, folder| command.resource_folder = folder.into()),
    ),
    option(
        ALL,
        "z",
        "NAME",
        "Base name of the outputs; default: that of the manifest",
        Effect::Text(|command, name| command.base_name = Some(name.to_owned())),
    ),
    option(
        ALL,
        "e",
        "EXT",
        "Extension of the header; default: h",
        Effect::Text(|command, text| {
            command.header_extension = Some(text.trim_start_matches('.').to_owned());
        }),
    ),
    option(
        ALL,
        "p",
        "PREFIX",
        "Prefix of the macros that write; default: EventWrite",
        Effect::Text(|command, prefix| command.header.write_prefix = prefix.to_owned()),
    ),
    option(
        ALL,
        "P",
        "PREFIX",
        "Remove PREFIX from the beginning of events' symbols",
        Effect::Text(|command, prefix| command.header.removed_prefix = prefix.to_owned()),
    ),
    option(
        ALL,
        "co",
        "",
        "Call the function that MCGEN_CALLOUT names after each event",
        Effect::Flag(|command| command.header.has_callout = true),
    ),
    option(
        ALL,
        "cp",
        "ansi|utf-8|utf-16",
        "Encoding of the header and the resource script; the Unicode ones with a byte order mark",
        Effect::Values(|command, words, name| {
            let choices =
                [("ansi", Encoding::Ansi), ("utf-8", Encoding::Utf8), ("utf-16", Encoding::Utf16)];
            command.encoding = words.one_of(name, &choices)?;
            Ok(())
        }),
    ),
    option(
        ALL,
        "rust -rust",
        "",
        "Write Rust instead (NAME.rs): a typed function for each event, structs, enumerations for maps",
        Effect::Flag(|command| command.has_rust = true),
    ),
    option(
        ALL,
        "elf -elf",
        "OUT.o",
        "Also write an ELF object with the schemas of the events: link it, and traces explain themselves",
        Effect::Text(|command, path| command.object = Some(path.into())),
    ),
    option(
        ALL,
        "pack -pack",
        "OUT.etwpack",
        "Also write a schema pack, for etw dump --pack and for ETW_PACKS",
        Effect::Text(|command, path| command.pack = Some(path.into())),
    ),
    option(
        ALL,
        "b",
        "",
        "Message text files: put the file's name before that of its message tables",
        Effect::Flag(|command| command.has_long_table_names = true),
    ),
    option(
        ALL,
        "c",
        "",
        "Message text files: set the customer bit in all ids",
        Effect::Flag(|command| command.message_text.is_customer = true),
    ),
    option(
        ALL,
        "d",
        "",
        "Message text files: write facilities and severities in decimal",
        Effect::Flag(|command| command.message_text.has_decimal_names = true),
    ),
    option(
        ALL,
        "n",
        "",
        "Message text files: end texts with NUL alone, without a line end",
        Effect::Flag(|command| command.message_text.ends_with_nul = true),
    ),
    option(
        ALL,
        "a A o u U v",
        "",
        "Accepted; the encoding of files is found by their bytes, and tables are in UTF-16",
        Effect::Nothing,
    ),
    option(
        ALL,
        "m",
        "N",
        "Warn of each message that is longer than N characters",
        Effect::Count(|command, most| command.longest_message = Some(most as usize)),
    ),
    option(
        ALL,
        "x w W",
        "VALUE",
        "Accepted with their values; nothing changes",
        Effect::Text(|_, _| ()),
    ),
    option(
        ALL,
        "s",
        "DIR",
        "Keep the manifest in DIR, as the baseline for -t",
        Effect::Text(|command, folder| command.new_baseline = Some(folder.into())),
    ),
    option(
        ALL,
        "t",
        "DIR",
        "Reject the manifest if it breaks what the baseline in DIR promised: changed or missing events, keywords, channels, tasks, opcodes, levels, values of maps",
        Effect::Text(|command, folder| command.baseline = Some(folder.into())),
    ),
    option(
        ALL,
        "lint -lint",
        "",
        "Also warn of events without keyword, level or symbol, and of versions with other fields",
        Effect::Flag(|command| command.has_lint = true),
    ),
    refused("cs css generateProjections", "C# code is not generated"),
    refused("mof", "MOF is not generated; the manifest is enough for every decoder"),
];

static TABLE: Table<Command> = Table {
    command: "mc",
    about: "Compile instrumentation manifests and message text files, as Windows' message compiler does",
    forms: &["[-um|-km|-rust] [-h DIR] [-r DIR] [-z NAME] [-elf OUT.o] FILE.man|FILE.mc…"],
    repeatable: 0,
    actions: &[],
    operand: Some(|command, word| {
        command.manifests.push(word.into());
        Ok(())
    }),
    rows: ROWS,
    notes: "It writes NAME.h, NAME.rc, NAMETEMP.BIN (the WEVT_TEMPLATE resource) and NAME_MSG00001.bin (the message \
            table; one for each culture), or with -rust NAME.rs. Without -um or -km the header has constants and descriptors only. Of a message text file \
            (NAME.mc) it writes NAME.h, NAME.rc and MSG00001.bin. An error in a file is reported with its line and column, and then nothing is written. Files of an earlier run \
            are replaced.",
};

pub fn help() -> Help {
    TABLE.help()
}

pub fn run(words: &[String]) -> Result<Outcome, Failure> {
    let mut command = Command::default();
    if TABLE.parse(words, &mut command)?.is_none() {
        return show_help(&TABLE.help());
    }
    command.header.code = match (command.has_user_code, command.has_kernel_code) {
        (true, true) => return Err(TABLE.wrong("km", "-um stands beside it; choose one")),
        (true, false) => Code::User,
        (false, true) => Code::Kernel,
        (false, false) => Code::None,
    };
    if command.manifests.is_empty() {
        return Err(super::answer::usage("mc: no manifest is given; mc -? shows how"));
    }
    let is_named = [&command.object, &command.pack].iter().any(|path| path.is_some());
    if is_named && command.manifests.len() > 1 {
        return Err(TABLE.wrong("elf", "one file for several manifests; compile them one by one"));
    }
    if command.base_name.is_some() && command.manifests.len() > 1 {
        return Err(TABLE.wrong("z", "one name for several manifests; compile them one by one"));
    }
    for path in &command.manifests {
        compile(&command, path)?;
    }
    Ok(Outcome::Done)
}

fn compile(command: &Command, path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    let text = std::fs::read(path)
        .map_err(|error| Failure::Message(format!("{shown}: cannot be read: {error}")))?;
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("mc")) {
        return write_all(command, message_files(command, path, &text)?);
    }
    let manifest = parse(path, &text)?;
    let file_name = path.file_name().unwrap_or_default();
    if let Some(folder) = &command.baseline {
        let earlier = folder.join(file_name);
        let earlier = parse(&earlier, &crate::schemas::read(&earlier)?)?;
        let breaks = review::compare(&earlier, &manifest);
        if !breaks.is_empty() {
            return Err(rejected(path, &breaks));
        }
    }
    let lint = if command.has_lint { review::lint(&manifest) } else { Vec::new() };
    let most = command.longest_message;
    let long = most.map_or(Vec::new(), |most| messages::longer_than(&manifest, most));
    let rights = rights(&manifest);
    for warning in manifest.warnings.iter().chain(&rights).chain(&lint).chain(&long) {
        eprintln!("{shown}:{warning}");
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = command.base_name.as_deref().unwrap_or(&stem);
    let extension = command.header_extension.as_deref().unwrap_or("h");
    let ids = MessageIds::new(&manifest);
    let template = format!("{name}TEMP.BIN");
    let tables: Vec<String> =
        (1..=manifest.cultures.len()).map(|number| format!("{name}_MSG{number:05}.bin")).collect();
    let mut files = Vec::new();
    if command.has_rust {
        let text = rust::write(&manifest, &rust::Options::default());
        files.push((command.header_folder.join(format!("{name}.rs")), text.into_bytes()));
    } else {
        let header = encode(&header::write(&manifest, &command.header), command.encoding);
        let script = resource_script::write(&manifest, &tables, &template);
        let resource = wevt::write(&manifest, wevt::Version::V5);
        let folder = &command.resource_folder;
        files.push((command.header_folder.join(format!("{name}.{extension}")), header));
        files.push((folder.join(format!("{name}.rc")), encode(&script, command.encoding)));
        files.push((folder.join(template), resource));
        for (culture, table) in manifest.cultures.iter().zip(&tables) {
            files.push((folder.join(table), messages::table(&ids, Some(culture))));
        }
    }
    if let Some(folder) = &command.new_baseline {
        files.push((folder.join(file_name), text.clone()));
    }
    if let Some(path) = &command.object {
        let machine = elf::Machine::own().ok_or_else(|| {
            Failure::Message("mc: -elf makes objects for x86-64 and AArch64 only".to_owned())
        })?;
        files.push((path.clone(), elf::write(&manifest, machine)));
    }
    if let Some(out) = &command.pack {
        let mut builder = PackBuilder::default();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        builder.add(&file, &text).map_err(|error| crate::schemas::refused(path, error))?;
        files.push((out.clone(), builder.finish()));
    }
    write_all(command, files)
}

/// Warnings of channels' rights that logs cannot have. mc takes any text; the log is refused where the manifest is installed.
fn rights(manifest: &Manifest) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    for channel in manifest.providers.iter().flat_map(|provider| &provider.channels) {
        let Some(Err(error)) = channel.access.as_deref().map(Access::parse) else { continue };
        let Place { line, column } = channel.place;
        let message = format!("channel `{}`: {error}", channel.name);
        warnings.push(Diagnostic { severity: Severity::Warning, line, column, message });
    }
    warnings
}

/// The outputs of a message text file.
fn message_files(
    command: &Command,
    path: &Path,
    bytes: &[u8],
) -> Result<Vec<(PathBuf, Vec<u8>)>, Failure> {
    let shown = path.display();
    let needs_manifest = command.has_rust || command.object.is_some() || command.pack.is_some();
    if needs_manifest || command.baseline.is_some() || command.new_baseline.is_some() {
        let text = format!(
            "{shown}: -rust, -elf, -pack, -s and -t need a manifest; a message text file has no events"
        );
        return Err(Failure::Message(text));
    }
    let messages = MessageText::parse(bytes).map_err(|problems| rejected(path, &problems))?;
    let most = command.longest_message;
    let long = most.map_or(Vec::new(), |most| messages.longer_than(most));
    for warning in messages.warnings.iter().chain(&long) {
        eprintln!("{shown}:{warning}");
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = command.base_name.as_deref().unwrap_or(&stem);
    let extension = command.header_extension.as_deref().unwrap_or("h");
    let table = |language: &Language| match command.has_long_table_names {
        true => format!("{name}_{}.bin", language.file),
        false => format!("{}.bin", language.file),
    };
    let options = &command.message_text;
    let header = encode(&messages.header(options), command.encoding);
    let script = encode(&messages.script(table), command.encoding);
    let folder = &command.resource_folder;
    let mut files = vec![
        (command.header_folder.join(format!("{name}.{extension}")), header),
        (folder.join(format!("{name}.rc")), script),
    ];
    for language in messages.languages() {
        files.push((folder.join(table(language)), messages.table(language, options)));
    }
    Ok(files)
}

/// Writes all files before one takes its name: a failure leaves the old ones.
fn write_all(command: &Command, files: Vec<(PathBuf, Vec<u8>)>) -> Result<(), Failure> {
    let mut written = Vec::new();
    for (path, bytes) in files {
        let file = NewFile::create(&path, &command.manifests, true)?;
        file.file().write_all(&bytes).map_err(|error| file.failure(&error))?;
        written.push(file);
    }
    written.into_iter().try_for_each(NewFile::keep)
}

fn parse(path: &Path, text: &[u8]) -> Result<Manifest, Failure> {
    Manifest::parse(text).map_err(|problems| rejected(path, &problems))
}

/// Prints the problems of a manifest.
fn rejected(path: &Path, problems: &[Diagnostic]) -> Failure {
    let shown = path.display();
    for problem in problems {
        eprintln!("{shown}:{problem}");
    }
    Failure::Message(format!("{shown}: not compiled; nothing was written"))
}

fn encode(text: &str, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Ansi => text.as_bytes().to_vec(),
        Encoding::Utf8 => [b"\xef\xbb\xbf", text.as_bytes()].concat(),
        Encoding::Utf16 => {
            [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
        }
    }
}
