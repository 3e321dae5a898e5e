//! `mc`: manifests compiled to headers, resources and message tables.

use super::table::show_help;
use super::table::{ALL, Effect, Help, Row, Table, option, refused};
use crate::output::{Failure, Outcome};
use crate::output_file::NewFile;
use etw_mc::header::{self, Code};
use etw_mc::messages::{self, MessageIds};
use etw_mc::{Manifest, resource_script, wevt};
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
    option(ALL, "? help", "", "Show this text", Effect::Help),
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
        "a A b c d n o u U v",
        "",
        "Accepted; they concern message text files, which are not compiled",
        Effect::Nothing,
    ),
    option(
        ALL,
        "m x w W",
        "VALUE",
        "Accepted with their values; nothing changes",
        Effect::Text(|_, _| ()),
    ),
    refused("s t", "compatibility with an earlier manifest is not checked yet"),
    refused("cs css generateProjections", "C# code is not generated"),
    refused("mof", "MOF is not generated; the manifest is enough for every decoder"),
];

static TABLE: Table<Command> = Table {
    command: "mc",
    about: "Compile instrumentation manifests, as Windows' message compiler does",
    forms: &["[-um|-km] [-h DIR] [-r DIR] [-z NAME] FILE.man…"],
    repeatable: 0,
    actions: &[],
    operand: Some(|command, word| {
        command.manifests.push(word.into());
        Ok(())
    }),
    rows: ROWS,
    notes: "It writes NAME.h, NAME.rc, NAMETEMP.BIN (the WEVT_TEMPLATE resource) and NAME_MSG00001.bin (the message \
            table; one for each culture). Without -um or -km the header has constants and descriptors only. An error \
            in the manifest is reported with its line and column, and then nothing is written.",
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
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("mc")) {
        let text = format!("{shown}: message text files are not compiled; use windmc of binutils");
        return Err(Failure::Message(text));
    }
    let text = std::fs::read(path)
        .map_err(|error| Failure::Message(format!("{shown}: cannot be read: {error}")))?;
    let manifest = match Manifest::parse(&text) {
        Ok(manifest) => manifest,
        Err(problems) => {
            for problem in &problems {
                eprintln!("{shown}:{problem}");
            }
            return Err(Failure::Message(format!("{shown}: not compiled; nothing was written")));
        }
    };
    for warning in &manifest.warnings {
        eprintln!("{shown}:{warning}");
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = command.base_name.as_deref().unwrap_or(&stem);
    let extension = command.header_extension.as_deref().unwrap_or("h");
    let ids = MessageIds::new(&manifest);
    let template = format!("{name}TEMP.BIN");
    let tables: Vec<String> =
        (1..=manifest.cultures.len()).map(|number| format!("{name}_MSG{number:05}.bin")).collect();
    let header = encode(&header::write(&manifest, &command.header), command.encoding);
    let script = resource_script::write(&manifest, &tables, &template);
    let mut files = vec![
        (command.header_folder.join(format!("{name}.{extension}")), header),
        (command.resource_folder.join(format!("{name}.rc")), encode(&script, command.encoding)),
        (command.resource_folder.join(template), wevt::write(&manifest, wevt::Version::V5)),
    ];
    for (culture, table) in manifest.cultures.iter().zip(&tables) {
        files.push((command.resource_folder.join(table), messages::table(&ids, Some(culture))));
    }
    // All are written before one takes its name: a failure leaves the old ones.
    let mut written = Vec::new();
    for (path, bytes) in files {
        let file = NewFile::create(&path, &command.manifests, true)?;
        file.file().write_all(&bytes).map_err(|error| file.failure(&error))?;
        written.push(file);
    }
    written.into_iter().try_for_each(NewFile::keep)
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
