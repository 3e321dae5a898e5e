//! `etw pack`

use crate::dump::gather;
use crate::output::{Failure, Outcome, Output};
use crate::output_file::{NewFile, ReplaceOption};
use crate::{files, pack_show, schemas};
use clap::{Args, Subcommand, ValueEnum};
use etw_decode::pack::PackBuilder;
use etw_etl::read::{Records, RecordsOptions};
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
    /// Gather manifests, programs and .bin files with compiled ones, TMF, PDB and MOF files, packs, and folders of them
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
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum ShowFormat {
    Text,
    Json,
}

#[derive(Args)]
struct Create {
    /// Write to this file; it appears when it is whole
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    #[command(flatten)]
    replace: ReplaceOption,
    /// Sources
    #[arg(required = true, value_name = "FILE|DIR")]
    sources: Vec<PathBuf>,
}

#[derive(Args)]
struct Learn {
    /// Write to this file [default: one in the user's store, which every command searches]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    #[command(flatten)]
    replace: ReplaceOption,
    /// Traces
    #[arg(required = true, value_name = "TRACE.etl")]
    traces: Vec<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match &arguments.command {
        Command::Create(create) => self::create(create),
        Command::Learn(learn) => self::learn(learn),
        Command::Show { pack, format } => show(pack, *format),
    }
}

/// Extensions of files that are packed from a folder.
const EXTENSIONS: [&str; 10] =
    ["man", "xml", "exe", "dll", "sys", "bin", "tmf", "pdb", "mof", "etwpack"];

fn create(create: &Create) -> Result<Outcome, Failure> {
    let mut builder = PackBuilder::default();
    for source in &create.sources {
        if !source.is_dir() {
            // One bad source does not cost the others.
            if let Err(failure) = add(&mut builder, source) {
                if create.sources.len() == 1 {
                    return Err(failure);
                }
                eprintln!("etw: note: left out: {}", failure.message().unwrap_or_default());
            }
            continue;
        }
        for path in EXTENSIONS.iter().flat_map(|extension| schemas::folder(source, extension)) {
            let path = path?;
            // A folder holds other files too; message tables belong to the resource beside them.
            let is_bin = path.extension().is_some_and(|found| found.eq_ignore_ascii_case("bin"));
            if is_bin && !schemas::is_bare_resource(&path) {
                continue;
            }
            if let Err(failure) = add(&mut builder, &path) {
                eprintln!("etw: note: left out: {}", failure.message().unwrap_or_default());
            }
        }
    }
    if builder.is_empty() {
        return Err(Failure::new("nothing to pack: no source describes events"));
    }
    write(&builder, &create.output, &create.sources, create.replace.force)
}

fn add(builder: &mut PackBuilder, path: &Path) -> Result<(), Failure> {
    let bytes = schemas::read(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_pdb = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("pdb"));
    let texts = schemas::texts_beside(path, &bytes);
    let added = match is_pdb {
        true => builder.add_pdb(&name, &bytes),
        false if !texts.is_empty() => builder.add_compiled(&name, &bytes, &texts),
        false => builder.add(&name, &bytes),
    };
    let warnings = added.map_err(|error| schemas::refused(path, error))?;
    schemas::tell(path, &warnings);
    Ok(())
}

fn learn(learn: &Learn) -> Result<Outcome, Failure> {
    let mut builder = PackBuilder::default();
    for path in &learn.traces {
        let records = Records::with_options(vec![files::open(path)?], RecordsOptions::default());
        let learnt = gather(records);
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
    match &learn.output {
        Some(output) => write(&builder, output, &learn.traces, learn.replace.force),
        None => {
            let Some(store) = etw_decode::registered::store() else {
                return Err(Failure::new("no home for a store: give -o OUT"));
            };
            std::fs::create_dir_all(&store)
                .map_err(|error| Failure::new(format!("{}: {error}", store.display())))?;
            let bytes = builder.finish();
            // By content: the same trace twice is one pack.
            let name = format!("learnt-{:016x}.etwpack", hash(&bytes));
            write(&builder, &store.join(name), &learn.traces, true)
        }
    }
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
) -> Result<Outcome, Failure> {
    let new = NewFile::create(path, inputs, force)?;
    new.file().write_all(&builder.finish()).map_err(|error| new.failure(&error))?;
    new.keep()?;
    let mut output = Output::open(None, &[])?;
    output.write(format!("{}: {} sources\n", path.display(), builder.len()).as_bytes())?;
    output.finish()?;
    Ok(Outcome::Done)
}

fn show(path: &Path, format: ShowFormat) -> Result<Outcome, Failure> {
    let pack = schemas::open_pack(path)?;
    let text = match format {
        ShowFormat::Json => pack_show::json_lines(&pack),
        ShowFormat::Text => {
            let mut text = String::new();
            for (kind, name, size, guids) in pack.sources() {
                // Writing to a String cannot fail.
                let _ = writeln!(
                    text,
                    "{:<18} {size:>9} bytes {:>6} GUIDs  {name}",
                    kind.name(),
                    guids.len()
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
