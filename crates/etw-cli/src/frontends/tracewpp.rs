//! `tracewpp`: headers and formats of trace calls in C and C++.

use super::answer::usage;
use super::table::show_help;
use super::table::{ALL, Effect, Help, Row, Table, option, refused};
use crate::output::{Failure, Outcome};
use crate::output_file::NewFile;
use etw_tracewpp::{Options, Outputs, Severity};
use std::io::Write;
use std::path::Path;

/// An option whose value the library reads: the rows make the help and the manual page.
const fn row(names: &'static str, values: &'static str, help: &'static str) -> Row<Options> {
    option(ALL, names, values, help, Effect::Nothing)
}

const ROWS: &[Row<Options>] = &[
    option(ALL, "? help -help", "", "Show this text", Effect::Help),
    row("func", ":F{A=1}(LEVEL,MSG,...)", "Declare a trace function; can be repeated"),
    row("scan", ":FILE", "Read the configuration in FILE's comments (begin_wpp config … end_wpp)"),
    row("ini", ":FILE", "Read a configuration behind the default one"),
    row("defwpp", ":FILE", "Read FILE instead of the default configuration"),
    row("cfgdir I", ":DIR[;DIR]", "Look for configurations and templates in DIR first"),
    row("odir", ":DIR", "Write the headers to DIR; default: the current folder"),
    row(
        "tmf",
        ":DIR",
        "Write the formats (.tmf, .tmc) to DIR, too; the program has them in any case",
    ),
    row("gen", ":{FILE.tpl}*.EXT", "Make *.EXT from a template; default: {um-default.tpl}*.tmh"),
    row("ext", ":.c.cpp", "Extensions that wildcards find; default: .c.c++.cpp.cxx.cc"),
    row("preserveext", ":.c.h", "Keep these extensions in the output's name: file.c.tmh"),
    row("lookfor", ":WORD", "Let templates ask for WORD with FOUND"),
    row("p", ":NAME", "Name of the component; default: that of the current folder"),
    row(
        "ctl",
        ":GUID",
        "The provider, if the source names none; its flags are Error, Unusual and Noise",
    ),
    row("D", "NAME[=VALUE]", "Define a macro in the header"),
    row("argbase", ":N", "Number of a message's first argument; default: 10"),
    row("noshrieks", "", "Types need no exclamation marks: %NAME is %!NAME!, too"),
    row("reorder", "", "Put larger values of a message first"),
    row(
        "km um dll",
        "",
        "Define WPP_KERNEL_MODE or WPP_DLL; -km selects templates for kernel mode",
    ),
    row("v verbose", "", "List sources and outputs"),
    refused("man", "manifests are not made of messages; use etw mc"),
];

static TABLE: Table<Options> = Table {
    command: "tracewpp",
    about: "Make headers and formats of WPP trace calls, as Windows' preprocessor does",
    forms: &["[-scan:FILE] [-func:…] [-odir:DIR] [-tmf:DIR] SOURCE…"],
    repeatable: 0,
    actions: &[],
    operand: None,
    rows: ROWS,
    notes: "It writes NAME.tmh for each source, which the source includes. Values follow a colon, options start with - \
            or /, and names of sources may have * and ?. The formats of the messages are in the section .etw.tmf of the \
            compiled program: etw dump --tmf PROGRAM reads them. The environment variable WPP_FLAGS may have options, too. Headers of an earlier run are replaced. An error is reported with its file and line, and then \
            nothing is written.",
};

pub fn help() -> Help {
    TABLE.help()
}

pub fn run(words: &[String]) -> Result<Outcome, Failure> {
    let asks = ["-?", "/?", "-h", "-help", "--help", "help"];
    if words.is_empty() || words.iter().any(|word| asks.contains(&word.as_str())) {
        return show_help(&TABLE.help());
    }
    let mut options = Options::default();
    if let Ok(flags) = std::env::var("WPP_FLAGS") {
        let applied = options.apply_all(&flags);
        applied.map_err(|what| usage(format!("tracewpp: WPP_FLAGS: {what}")))?;
    }
    for word in words {
        options.apply(word).map_err(|what| usage(format!("tracewpp: {what}")))?;
    }
    let outputs = match etw_tracewpp::run(&options, &|path| std::fs::read(path)) {
        Ok(outputs) => outputs,
        Err(problem) => {
            let text = format!("{problem}; nothing was written");
            return Err(Failure::Message(text));
        }
    };
    for warning in outputs.warnings.iter().filter(|one| one.severity == Severity::Warning) {
        eprintln!("etw: {warning}");
    }
    write(&outputs)?;
    if options.is_verbose {
        let count = outputs.message_count;
        println!("{} sources, {count} messages", outputs.sources.len());
        for file in &outputs.files {
            println!("{}", file.path.display());
        }
    }
    Ok(Outcome::Done)
}

/// Writes all files before one takes its name: a failure leaves the old ones.
fn write(outputs: &Outputs) -> Result<(), Failure> {
    let mut written = Vec::new();
    for output in &outputs.files {
        let folder = output.path.parent().unwrap_or(Path::new(""));
        if !folder.as_os_str().is_empty() {
            std::fs::create_dir_all(folder)
                .map_err(|error| crate::schemas::refused(folder, error))?;
        }
        let file = NewFile::create(&output.path, &outputs.sources, true)?;
        file.file().write_all(output.text.as_bytes()).map_err(|error| file.failure(&error))?;
        written.push(file);
    }
    written.into_iter().try_for_each(NewFile::keep_generated)
}
