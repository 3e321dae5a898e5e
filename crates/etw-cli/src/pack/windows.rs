//! `etw pack create --windows`: all that a Windows in a folder can emit.

use crate::output::{Failure, Progress};
use clap::Args;
use etw_decode::pack::PackBuilder;
use etw_decode::wevt::Language;
use etw_windows::{Gathered, InstallationError, Skipped};
use std::path::PathBuf;

/// Notes that are printed without `--verbose`.
const SHOWN: usize = 20;

#[derive(Args)]
pub struct Options {
    /// Gather what a Windows can emit: from a mounted image, a share, a backup or a copy, the root of its volume or its Windows folder
    #[arg(long, value_name = "DIR")]
    windows: Option<PathBuf>,
    /// Language of its texts, such as de-DE [default: English, else what is there]
    #[arg(long, value_name = "LANGUAGE", requires = "windows")]
    language: Option<Language>,
    /// Name all providers and files that are left out, and print all warnings
    #[arg(long, requires = "windows")]
    verbose: bool,
}

/// The schemas of a Windows.
pub struct Found {
    pub builder: PackBuilder,
    /// The pack's name in a store.
    pub file_name: String,
}

impl Options {
    /// Reads the Windows, if one is named.
    pub fn gather(&self) -> Result<Option<Found>, Failure> {
        let Some(folder) = &self.windows else { return Ok(None) };
        let mut options = etw_windows::Options::default();
        options.language.clone_from(&self.language);
        options.threads = std::thread::available_parallelism().map_or(2, usize::from);
        let mut progress = Progress::start();
        let gathered = etw_windows::gather(folder, &options, |step| {
            progress.show(|| format!("{} of {} programs", step.done, step.total));
        });
        drop(progress);
        let gathered =
            gathered.map_err(|error: InstallationError| Failure::new(error.to_string()))?;
        self.print(&gathered);
        let version = &gathered.version;
        let language = self.language.as_ref().map(|language| format!("-{}", language.tag()));
        let file_name = format!(
            "windows-{}.{}.{}.{}{}.etwpack",
            version.major,
            version.minor,
            version.build,
            version.revision,
            language.unwrap_or_default()
        );
        Ok(Some(Found { builder: gathered.builder, file_name }))
    }

    fn print(&self, gathered: &Gathered) {
        let Gathered { version, registered, described, programs, skipped, warnings, .. } = gathered;
        eprintln!(
            "etw: note: {version}: {described} of {registered} registered providers described; {programs} programs read"
        );
        let left_out =
            skipped.iter().map(|Skipped { what, why }| format!("left out: {what}: {why}"));
        self.print_list(left_out, skipped.len(), "are left out");
        self.print_list(warnings.iter().cloned(), warnings.len(), "are warnings");
    }

    fn print_list(&self, list: impl Iterator<Item = String>, count: usize, what: &str) {
        let shown = if self.verbose { count } else { SHOWN };
        for line in list.take(shown) {
            eprintln!("etw: note: {line}");
        }
        if count > shown {
            eprintln!("etw: note: {} more {what}; --verbose names all", count - shown);
        }
    }
}
