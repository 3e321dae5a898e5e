//! [`gather`]: everything that a Windows says of its events, as a schema pack.

use crate::installation::{Installation, InstallationError, Publisher};
use crate::program;
use etw_decode::pack::{PackBuilder, ProgramSources, WindowsVersion};
use etw_decode::wevt::{Language, WevtError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Bytes that a MOF file may have.
const MOF_LIMIT: u64 = 16 << 20;
/// Bytes of all sources together, as a pack keeps them.
const SIZE_LIMIT: usize = 1 << 30;
/// A file with texts.
const TEXT_LIMIT: u64 = 64 << 20;

/// How to read a Windows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The language of texts; English or what is there without one.
    pub language: Option<Language>,
    /// Threads that read programs.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { language: None, threads: 2 }
    }
}

/// How far the reading is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Programs that were read.
    pub done: usize,
    /// All of them.
    pub total: usize,
}

/// Something that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The name of a provider, or the path of a file.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// The schemas of a Windows, with counts of its providers and programs.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Gathered {
    /// Which Windows it is.
    pub version: WindowsVersion,
    /// Its schemas.
    pub builder: PackBuilder,
    /// Providers that the registry lists.
    pub registered: usize,
    /// Those of them whose events are described.
    pub described: usize,
    /// Programs that were read.
    pub programs: usize,
    /// Providers and files that were left out.
    pub skipped: Vec<Skipped>,
    /// Warnings about parts of files, and of the registry.
    pub warnings: Vec<String>,
}

/// A program that is to be read.
#[derive(Default)]
struct Job {
    /// Numbers of the publishers whose manifest it should have.
    publishers: Vec<usize>,
    /// Programs with texts, apart from itself.
    texts: BTreeSet<PathBuf>,
}

/// The program's sources, or why it has none.
type Outcome = Result<ProgramSources, Failure>;

enum Failure {
    /// It describes no events.
    Nothing,
    Other(String),
}

/// Reads a Windows in a folder: the root of its volume, or the Windows folder.
///
/// Programs are those that the registry names, and those in System32 and its drivers. Files that cannot be read are left out, and
/// named in [`Gathered::skipped`].
///
/// # Errors
/// [`InstallationError`] if it is not a Windows, or its registry cannot be read.
pub fn gather(
    folder: &Path,
    options: &Options,
    mut progress: impl FnMut(Progress),
) -> Result<Gathered, InstallationError> {
    let installation = Installation::open(folder)?;
    let mut gathered = Gathered {
        version: installation.version.clone(),
        registered: installation.publishers.len(),
        warnings: installation.notes.clone(),
        ..Gathered::default()
    };
    let jobs = jobs(&installation, &mut gathered.skipped);
    gathered.programs = jobs.len();
    let outcomes = run(&installation, &jobs, options, &mut progress);
    let mut size = 0;
    for ((path, job), outcome) in jobs.iter().zip(outcomes) {
        let shown = path.display().to_string();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let publishers = job.publishers.iter().map(|number| &installation.publishers[*number]);
        let outcome = outcome.unwrap_or_else(|| Err(Failure::Other("not read".to_owned())));
        let outcome = match outcome {
            Ok(program) if size + program.size() > SIZE_LIMIT => {
                Err(Failure::Other("the pack is full".to_owned()))
            }
            other => other,
        };
        match outcome {
            Ok(program) => {
                size += program.size();
                gathered.described += describe(&program, publishers, &shown, &mut gathered.skipped);
                let warnings = program.warnings().iter();
                gathered.warnings.extend(warnings.map(|warning| format!("{shown}: {warning}")));
                gathered.builder.add_program(&name, program);
            }
            // A program that nobody names may well describe nothing.
            Err(Failure::Nothing) if job.publishers.is_empty() => {}
            Err(Failure::Nothing) => gathered.skipped.extend(publishers.map(|publisher| Skipped {
                what: publisher.name.clone(),
                why: format!("{shown}: no compiled manifest in it"),
            })),
            Err(Failure::Other(why)) if job.publishers.is_empty() => {
                gathered.skipped.push(Skipped { what: shown.clone(), why });
            }
            Err(Failure::Other(why)) => gathered.skipped.extend(publishers.map(|publisher| {
                Skipped { what: publisher.name.clone(), why: format!("{shown}: {why}") }
            })),
        }
    }
    add_mof(&installation, &mut gathered);
    gathered.builder.set_windows(&gathered.version);
    Ok(gathered)
}

/// Counts the publishers that a program describes; the others are left out.
fn describe<'p>(
    program: &ProgramSources,
    publishers: impl Iterator<Item = &'p Publisher>,
    shown: &str,
    skipped: &mut Vec<Skipped>,
) -> usize {
    let known: BTreeSet<_> = program.providers().collect();
    let mut described = 0;
    for publisher in publishers {
        if known.contains(&publisher.guid) {
            described += 1;
        } else {
            let why = format!("{shown}: its compiled manifest does not have this provider");
            skipped.push(Skipped { what: publisher.name.clone(), why });
        }
    }
    described
}

/// The programs to read, by path.
fn jobs(installation: &Installation, skipped: &mut Vec<Skipped>) -> BTreeMap<PathBuf, Job> {
    let mut jobs: BTreeMap<PathBuf, Job> = BTreeMap::new();
    for (number, publisher) in installation.publishers.iter().enumerate() {
        let resource = match &publisher.resource_file {
            Some(name) => installation.resolve(name),
            None => Err("the registry names no file with its manifest".to_owned()),
        };
        let resource = match resource {
            Ok(resource) => resource,
            Err(why) => {
                skipped.push(Skipped { what: publisher.name.clone(), why });
                continue;
            }
        };
        let texts =
            publisher.message_files.iter().filter_map(|name| installation.resolve(name).ok());
        let texts: Vec<PathBuf> = texts.filter(|text| *text != resource).collect();
        let job = jobs.entry(resource).or_default();
        job.publishers.push(number);
        job.texts.extend(texts);
    }
    for folder in [&["System32"][..], &["System32", "drivers"]] {
        let Some(folder) = installation.tree.find(&installation.windows, folder.iter().copied())
        else {
            continue;
        };
        for (lower, name) in installation.tree.names(&folder).iter() {
            if [".dll", ".exe", ".sys"].iter().any(|extension| lower.ends_with(extension)) {
                jobs.entry(folder.join(name)).or_default();
            }
        }
    }
    jobs
}

/// Reads the programs on several threads; outcomes are in the order of the jobs.
fn run(
    installation: &Installation,
    jobs: &BTreeMap<PathBuf, Job>,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Vec<Option<Outcome>> {
    let list: Vec<(&PathBuf, &Job)> = jobs.iter().collect();
    let mut outcomes: Vec<Option<Outcome>> = list.iter().map(|_| None).collect();
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::sync_channel(64);
    std::thread::scope(|scope| {
        for _ in 0..options.threads.clamp(1, 64) {
            let sender = sender.clone();
            let (list, next) = (&list, &next);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((path, job)) = list.get(number) else { return };
                    let outcome = read(installation, path, job, options);
                    if sender.send((number, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (done, (number, outcome)) in receiver.iter().enumerate() {
            outcomes[number] = Some(outcome);
            progress(Progress { done: done + 1, total: list.len() });
        }
    });
    outcomes
}

/// Reads a program with its texts.
fn read(installation: &Installation, path: &Path, job: &Job, options: &Options) -> Outcome {
    let bytes = program::read(path).map_err(Failure::Other)?;
    let wanted = options.language.as_ref();
    let tag = wanted.map(Language::tag);
    let mut texts = Vec::new();
    if !job.publishers.is_empty() {
        let mut files = installation.tree.muis(path, tag);
        for text in &job.texts {
            files.extend(installation.tree.muis(text, tag));
            files.push(text.clone());
        }
        let small = |file: &PathBuf| file.metadata().is_ok_and(|file| file.len() <= TEXT_LIMIT);
        for file in files.into_iter().filter(small) {
            // A file that is no library has no texts.
            texts.extend(program::read(&file));
        }
    } else if might_have_manifest(&bytes) {
        let muis = installation.tree.muis(path, tag);
        texts.extend(muis.iter().filter_map(|file| program::read(file).ok()));
    }
    match ProgramSources::read(&bytes, &texts, wanted) {
        Ok(program) => Ok(program),
        Err(WevtError::NoTemplates) => Err(Failure::Nothing),
        Err(error) => Err(Failure::Other(error.to_string())),
    }
}

/// Whether a program has the signature of a compiled manifest anywhere.
fn might_have_manifest(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b"CRIM").is_some()
}

/// Adds the MOF files of WMI's repository, which describe classic events.
fn add_mof(installation: &Installation, gathered: &mut Gathered) {
    let Some(folder) = installation.tree.find(&installation.windows, ["System32", "wbem"]) else {
        return;
    };
    let names = installation.tree.names(&folder);
    let mut files: Vec<_> = names.iter().filter(|(lower, _)| lower.ends_with(".mof")).collect();
    files.sort();
    for (_, name) in files {
        let path = folder.join(name);
        if !path.metadata().is_ok_and(|file| file.is_file() && file.len() <= MOF_LIMIT) {
            let why = format!("not a file of at most {} MiB", MOF_LIMIT >> 20);
            gathered.skipped.push(Skipped { what: path.display().to_string(), why });
            continue;
        }
        match std::fs::read(&path) {
            // Most files have classes of other things.
            Ok(text) => drop(gathered.builder.add(&name.to_string_lossy(), &text)),
            Err(error) => gathered
                .skipped
                .push(Skipped { what: path.display().to_string(), why: error.to_string() }),
        }
    }
}
