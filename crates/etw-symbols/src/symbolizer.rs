//! [`Symbolizer`]: answers addresses of modules, and remembers files and answers.

use crate::debuginfod::Servers;
use crate::module::Module;
use crate::module_file::Mismatch;
use crate::search::{Facts, Found, Search};
use crate::symbol_file::SymbolFile;
use crate::{Frame, Frames, Function, KernelSymbols};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Answers that are remembered.
const MAX_ANSWERS: usize = 1 << 20;

/// Modules that a note names.
const MAX_NAMED: usize = 8;

type SharedFile = Arc<Mutex<SymbolFile>>;

/// An address of a module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Query {
    module: Module,
    address: u64,
}

/// Finds names of functions. Files are read when an address first needs them.
#[derive(Debug)]
pub struct Symbolizer {
    search: Search,
    servers: Servers,
    /// By module, whenever it was loaded.
    files: Mutex<HashMap<Module, Arc<Known>>>,
    notes: Mutex<Notes>,
    frames: Mutex<HashMap<Query, Arc<Frames>>>,
    kernel: OnceLock<KernelSymbols>,
}

/// The file of a module, and facts about it.
#[derive(Debug)]
struct Known {
    file: Option<SharedFile>,
    facts: Facts,
}

/// Modules that need a note.
#[derive(Debug, Default)]
struct Notes {
    /// They have no files, or not the recorded ones.
    rejected: BTreeMap<PathBuf, Mismatch>,
    /// Nothing shows whether their files are the recorded ones.
    trusted: BTreeSet<PathBuf>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Symbolizer {
    fn default() -> Symbolizer {
        Symbolizer::new(Search::default())
    }
}

impl Symbolizer {
    /// A symbolizer that has read nothing.
    pub fn new(search: Search) -> Symbolizer {
        Symbolizer {
            servers: Servers::new(search.report),
            search,
            files: Mutex::default(),
            notes: Mutex::default(),
            frames: Mutex::default(),
            kernel: OnceLock::new(),
        }
    }

    /// The file and facts of a module, whenever it was loaded. Processes share files.
    fn known(&self, module: &Module) -> Arc<Known> {
        let key = Module { loaded: None, process: None, ..module.clone() };
        let known = self.known_by(&key, || match key.is_vdso() {
            true => Found { file: crate::vdso::own(&key), ..Found::default() },
            false => self.search.find(&key, &self.servers),
        });
        if known.file.is_some() || module.process.is_none() || key.is_vdso() {
            return known;
        }
        let of_process = Module { process: module.process, ..key.clone() };
        let own = self.known_by(&of_process, || {
            let found = self.search.find_in_process(&of_process, &self.servers);
            found.unwrap_or(Found { file: None, facts: known.facts })
        });
        if own.file.is_some() {
            lock(&self.files).insert(key, own.clone());
        }
        own
    }

    fn known_by(&self, key: &Module, find: impl FnOnce() -> Found) -> Arc<Known> {
        if let Some(known) = lock(&self.files).get(key) {
            return known.clone();
        }
        let found = find();
        let file = found.file.map(|file| Arc::new(Mutex::new(file)));
        let known = Arc::new(Known { file, facts: found.facts });
        lock(&self.files).insert(key.clone(), known.clone());
        known
    }

    /// The file of a module, if it may be the one that was loaded.
    fn file(&self, module: &Module) -> Option<SharedFile> {
        let known = self.known(module);
        let (path, facts) = (module.unmarked_path(), &known.facts);
        let was_written_later = |loaded| facts.times.is_some_and(|times| times.written > loaded);
        let mismatch = match &known.file {
            None => facts.mismatch,
            // The program is the right one without its debug file.
            Some(_) if facts.mismatch.is_some() => facts.mismatch,
            Some(_) => module.loaded.filter(|at| was_written_later(*at)).map(|_| Mismatch::Changed),
        };
        if let Some(mismatch) = mismatch {
            lock(&self.notes).rejected.entry(path.to_owned()).or_insert(mismatch);
            if !matches!(mismatch, Mismatch::Checksum | Mismatch::NoSymbols) {
                return None;
            }
        }
        let is_older = |loaded| facts.times.is_some_and(|times| times.changed <= loaded);
        if facts.has_no_id && !module.loaded.is_some_and(is_older) {
            lock(&self.notes).trusted.insert(path.to_owned());
        }
        known.file.clone()
    }

    /// Sentences about modules whose names a reader should doubt or miss, for the end of a command.
    pub fn notes(&self) -> Vec<String> {
        let listed = |all: Vec<String>| {
            let rest = all.len().saturating_sub(MAX_NAMED);
            let named =
                all.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
            if rest == 0 { named } else { format!("{named} and {rest} more") }
        };
        let files = lock(&self.files);
        let cut = files.iter().filter_map(|(module, known)| {
            let is_cut = known.file.as_ref().is_some_and(|file| lock(file).is_cut());
            is_cut.then(|| module.unmarked_path().display().to_string())
        });
        let cut: BTreeSet<String> = cut.collect();
        drop(files);
        let notes = lock(&self.notes);
        let rejected =
            notes.rejected.iter().map(|(path, why)| format!("{} ({why})", path.display()));
        let trusted = notes.trusted.iter().map(|path| path.display().to_string());
        let (rejected, trusted): (Vec<_>, Vec<_>) = (rejected.collect(), trusted.collect());
        let mut all = Vec::new();
        if !rejected.is_empty() {
            all.push(format!("functions have no names in {}", listed(rejected)));
        }
        if !cut.is_empty() {
            all.push(format!(
                "symbols or debug information are left out, for they take more than 1 GiB: {}",
                listed(cut.into_iter().collect())
            ));
        }
        if !trusted.is_empty() {
            all.push(format!(
                "files without a build id may have been changed since: {}",
                listed(trusted)
            ));
        }
        all
    }

    /// Whether a module is this machine's running kernel.
    pub fn is_running_kernel(&self, module: &Module) -> bool {
        crate::kernel::is_running(module)
    }

    /// The symbols of this machine's kernel, if it is the recorded one.
    fn kernel(&self, module: &Module) -> Option<&KernelSymbols> {
        let kernel = self.kernel.get_or_init(KernelSymbols::of_this_machine);
        let is_recorded =
            !module.build_id.is_empty() && kernel.build_id.starts_with(&module.build_id);
        is_recorded.then_some(kernel)
    }

    /// The functions at an address, the innermost inlined one first. The address is one of the file's headers, or the distance from the start of the kernel.
    pub fn frames(&self, module: &Module, address: u64) -> Arc<Frames> {
        // Whether a file may be the recorded one depends on the time.
        let file = if module.is_kernel() { None } else { self.file(module) };
        let module = &Module { loaded: None, process: None, ..module.clone() };
        if !module.is_kernel() && file.is_none() {
            return Arc::default();
        }
        let key = Query { module: module.clone(), address };
        if let Some(known) = lock(&self.frames).get(&key) {
            return known.clone();
        }
        let found = match module.is_kernel() {
            true => {
                let function = self.kernel(module).and_then(|kernel| kernel.function(address));
                let frame = function.map(|Function { name, offset }| Frame {
                    name,
                    file: None,
                    line: None,
                    offset: Some(offset),
                });
                Frames { all: frame.into_iter().collect(), ..Frames::default() }
            }
            false => file.map_or(Frames::default(), |file| lock(&file).frames(address)),
        };
        let found = Arc::new(found);
        let mut frames = lock(&self.frames);
        if frames.len() >= MAX_ANSWERS {
            frames.clear();
        }
        frames.insert(key, found.clone());
        found
    }
}
