//! [`Symbolizer`]: answers addresses of modules, and remembers files and answers.

use crate::module::Module;
use crate::search::Search;
use crate::symbol_file::SymbolFile;
use crate::{Frame, Function, KernelSymbols};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Answers that are remembered.
const MAX_ANSWERS: usize = 1 << 20;

type SharedFile = Arc<Mutex<SymbolFile>>;

/// An address of a module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Query {
    module: Module,
    address: u64,
}

/// Finds names of functions. Files are read when an address first needs them.
#[derive(Debug, Default)]
pub struct Symbolizer {
    search: Search,
    files: Mutex<HashMap<Module, Option<SharedFile>>>,
    frames: Mutex<HashMap<Query, Arc<[Frame]>>>,
    kernel: OnceLock<KernelSymbols>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Symbolizer {
    /// A symbolizer that has read nothing.
    pub fn new(search: Search) -> Symbolizer {
        Symbolizer { search, ..Symbolizer::default() }
    }

    fn file(&self, module: &Module) -> Option<SharedFile> {
        let mut files = lock(&self.files);
        if let Some(known) = files.get(module) {
            return known.clone();
        }
        let found = self.search.find(module).map(|file| Arc::new(Mutex::new(file)));
        files.insert(module.clone(), found.clone());
        found
    }

    /// The symbols of this machine's kernel, if it is the recorded one.
    fn kernel(&self, module: &Module) -> Option<&KernelSymbols> {
        let kernel = self.kernel.get_or_init(KernelSymbols::of_this_machine);
        let is_recorded =
            !module.build_id.is_empty() && kernel.build_id.starts_with(&module.build_id);
        is_recorded.then_some(kernel)
    }

    /// The function at an address of a module: one of the file's headers, or the distance from the start of the kernel.
    pub fn function(&self, module: &Module, address: u64) -> Option<Function> {
        if module.is_kernel() {
            return self.kernel(module)?.function(address);
        }
        let file = self.file(module)?;
        let file = lock(&file);
        file.function(address).or_else(|| {
            let name = file.frames(address).pop()?.name;
            Some(Function { name, offset: 0 })
        })
    }

    /// The functions at an address, the innermost inlined one first; the address is that of [`function`](Symbolizer::function).
    pub fn frames(&self, module: &Module, address: u64) -> Arc<[Frame]> {
        let key = Query { module: module.clone(), address };
        if let Some(known) = lock(&self.frames).get(&key) {
            return known.clone();
        }
        let found: Arc<[Frame]> = match module.is_kernel() {
            true => {
                let function = self.kernel(module).and_then(|kernel| kernel.function(address));
                let frame =
                    function.map(|function| Frame { name: function.name, file: None, line: None });
                frame.into_iter().collect()
            }
            false => {
                self.file(module).map_or(Vec::new(), |file| lock(&file).frames(address)).into()
            }
        };
        let mut frames = lock(&self.frames);
        if frames.len() >= MAX_ANSWERS {
            frames.clear();
        }
        frames.insert(key, found.clone());
        found
    }
}
