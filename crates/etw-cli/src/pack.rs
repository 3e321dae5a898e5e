//! `etw pack`

mod sources;
mod windows;

use crate::dump::gather_with_records;
use crate::output::{Failure, JsonOption, Outcome, Output, counted, file_size};
use crate::output_file::{NewFile, ReplaceOption};
use crate::threads::ThreadsOption;
use crate::{files, pack_show, schemas};
use clap::{Args, Subcommand, ValueEnum};
use etw_decode::pack::PackBuilder;
use std::fmt::Write;
use std::io::Write as _;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Gather manifests, programs and .bin files with compiled ones, TMF, PDB and MOF files, packs, folders of them, or a whole Windows
    Create(Create),
    /// Gather what traces tell of their own events
    Learn(Learn),
    /// List the contents of a pack
    Show {
        /// The pack
        #[arg(value_name = "PACK")]
        pack: PathBuf,
        /// A table of sources, or JSON lines: every provider with its events, fields, maps, channels and keywords
        #[arg(long, value_enum, default_value_t = ShowFormat::Text)]
        format: ShowFormat,
        /// Short for --format json
        #[arg(long, conflicts_with = "format")]
        json: bool,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum ShowFormat {
    Text,
    Json,
}

#[derive(Args)]
struct Create {
    /// Write to this file; it appears when it is whole [default with --windows: one in the user's store, named after the build]
    #[arg(short, long, value_name = "OUT", required_unless_present = "windows")]
    output: Option<PathBuf>,
    #[command(flatten)]
    replace: ReplaceOption,
    #[command(flatten)]
    json: JsonOption,
    #[command(flatten)]
    windows: windows::Options,
    /// Sources; folders with all that is below them
    #[arg(required_unless_present = "windows", value_name = "FILE|DIR")]
    sources: Vec<PathBuf>,
}

#[derive(Args)]
struct Learn {
    /// Write to this file [default: one in the user's store, which every command searches]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    #[command(flatten)]
    replace: ReplaceOption,
    #[command(flatten)]
    json: JsonOption,
    /// Traces
    #[arg(required = true, value_name = "TRACE.etl")]
    traces: Vec<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match &arguments.command {
        Command::Create(create) => self::create(create),
        Command::Learn(learn) => self::learn(learn),
        Command::Show { pack, json: true, .. } => show(pack, ShowFormat::Json),
        Command::Show { pack, format, .. } => show(pack, *format),
    }
}

fn create(create: &Create) -> Result<Outcome, Failure> {
    let (mut builder, name) = match create.windows.gather()? {
        Some(found) => (found.builder, Some(found.file_name)),
        None => (PackBuilder::default(), None),
    };
    sources::add_all(&mut builder, &create.sources)?;
    if builder.is_empty() {
        return Err(Failure::new("nothing to pack: no source describes events"));
    }
    // The pack of a build replaces an older one of the same.
    let (path, force) = match &create.output {
        Some(output) => (output.clone(), create.replace.force),
        None => (store()?.join(name.unwrap_or_default()), true),
    };
    write(&builder, &path, &create.sources, force)?;
    print_result(create.json, &builder, &path)
}

/// The user's store, made if it is not there.
fn store() -> Result<PathBuf, Failure> {
    let Some(store) = etw_decode::registered::store() else {
        return Err(Failure::new("no home for a store: give -o OUT"));
    };
    std::fs::create_dir_all(&store).map_err(|error| schemas::refused(&store, error))?;
    Ok(store)
}

fn learn(learn: &Learn) -> Result<Outcome, Failure> {
    let mut builder = PackBuilder::default();
    let mut outcome = Outcome::Done;
    for path in &learn.traces {
        let parts = ThreadsOption::default().parts();
        let (learnt, records) = gather_with_records(&[files::open(path)?], parts);
        outcome = outcome.worse(files::report(&records));
        if learnt.refused() > 0 {
            eprintln!(
                "etw: note: {}: {} descriptions found no room",
                path.display(),
                learnt.refused()
            );
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        builder.add_trace(&name, &learnt);
    }
    if builder.is_empty() {
        return Err(Failure::new("nothing to learn: the traces do not describe their events"));
    }
    let (path, force) = match &learn.output {
        Some(output) => (output.clone(), learn.replace.force),
        None => {
            // By content: the same trace twice is one pack.
            let name = format!("learnt-{:016x}.etwpack", hash(&builder.finish()));
            (store()?.join(name), true)
        }
    };
    write(&builder, &path, &learn.traces, force)?;
    print_result(learn.json, &builder, &path)?;
    Ok(outcome)
}

/// FNV-1a
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn write(
    builder: &PackBuilder,
    path: &Path,
    inputs: &[PathBuf],
    force: bool,
) -> Result<(), Failure> {
    let new = NewFile::create(path, inputs, force)?;
    new.file().write_all(&builder.finish()).map_err(|error| new.failure(&error))?;
    new.keep()
}

fn print_result(json: JsonOption, builder: &PackBuilder, path: &Path) -> Result<Outcome, Failure> {
    let text = format!("{}: {}", path.display(), counted(builder.len(), "source"));
    json.print(&text, || {
        let sources = builder.len();
        serde_json::json!({
            "file": path.to_string_lossy(), "bytes": file_size(path), "sources": sources,
        })
    })?;
    Ok(Outcome::Done)
}

fn show(path: &Path, format: ShowFormat) -> Result<Outcome, Failure> {
    let pack = schemas::open_pack(path)?;
    let text = match format {
        ShowFormat::Json => pack_show::json_lines(&pack),
        ShowFormat::Text => {
            let mut text = String::new();
            for source in pack.sources() {
                // Writing to a String cannot fail.
                let _ = writeln!(
                    text,
                    "{:<18} {:>9} bytes {:>6} GUIDs  {}",
                    source.kind.name(),
                    source.size,
                    source.guids.len(),
                    source.name
                );
            }
            text
        }
    };
    let mut output = Output::open(None, &[])?;
    output.write(text.as_bytes())?;
    output.finish()?;
    Ok(Outcome::Done)
}
