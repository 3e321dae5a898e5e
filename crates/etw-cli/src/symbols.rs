//! Options of commands that name functions.

use crate::join::Names;
use crate::output::Failure;
use clap::Args;
use etw_symbols::{Search, Symbolizer};
#[cfg(target_os = "linux")]
use etw_system::process_root::{LastLink, open_in_root};
use etw_types::FileTime;
use std::path::PathBuf;

/// Where names of functions come from.
#[derive(Args, Clone, Debug, Default)]
pub struct SymbolOptions {
    /// Folder with programs or their debug files, by name or in .build-id/; searched before those of the system
    #[arg(long, value_name = "DIR")]
    pub symbols: Vec<PathBuf>,
    /// Symbols of code that was compiled at run time on Linux, from perf-PID.map or a folder of such files
    #[arg(long, value_name = "PATH")]
    pub perf_map: Vec<PathBuf>,
}

impl SymbolOptions {
    /// Whether the user named any source.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty() && self.perf_map.is_empty()
    }

    /// Gives the names of a trace, which began at `start`, their functions.
    pub fn apply(&self, names: &mut Names, start: FileTime) -> Result<(), Failure> {
        if let Some(missing) = self.symbols.iter().find(|folder| !folder.is_dir()) {
            return Err(Failure::Usage(format!(
                "--symbols {}: there is no such folder",
                missing.display()
            )));
        }
        let report: fn(&str) = |text| eprintln!("etw: note: {text}");
        let search = Search {
            folders: self.symbols.clone(),
            report,
            #[cfg(target_os = "linux")]
            open_in_process: |process, path| open_in_root(process, path, LastLink::Followed),
            ..Search::default()
        };
        names.set_symbolizer(Symbolizer::new(search));
        names.read_perf_maps(&self.perf_map, start)
    }
}
