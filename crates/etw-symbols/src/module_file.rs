//! Files that may be those of a module.

use crate::module::Module;
use crate::symbol_file::{Identity, SymbolFile};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The largest file that is read.
pub(crate) const MAX_FILE: u64 = 4 << 30;

/// Why functions of a file have no names: none was found, or it is not the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mismatch {
    Absent,
    NoSymbols,
    BuildId,
    Size,
    Checksum,
    Changed,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mismatch::Absent => "no file",
            Mismatch::NoSymbols => "no symbols",
            Mismatch::BuildId => "another build id",
            Mismatch::Size => "another size",
            Mismatch::Checksum => "a debug file with another checksum",
            Mismatch::Changed => "written later",
        })
    }
}

/// Opens a regular file; `None`: it does not exist, or is too large.
pub(crate) fn open(path: &Path) -> Option<File> {
    let mut options = File::options();
    // A pipe without a writer would block.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NONBLOCK | libc::O_NOCTTY,
    );
    let file = options.read(true).open(path).ok()?;
    let data = file.metadata().ok()?;
    (data.is_file() && data.len() <= MAX_FILE).then_some(file)
}

pub(crate) fn read(file: File) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Whether a file may be a module's. A module without a build id has a file without one, of its size.
fn check(identity: &Identity, module: &Module) -> Result<(), Mismatch> {
    let (known, found) = (&module.build_id, &identity.build_id);
    if known.is_empty() != found.is_empty() || !found.starts_with(known) {
        return Err(Mismatch::BuildId);
    }
    let has_other_size = module.size != 0 && !identity.may_have_size(module.size);
    match known.is_empty() && has_other_size {
        true => Err(Mismatch::Size),
        false => Ok(()),
    }
}

/// Reads a file if it is the module's. `None`: it is no ELF file.
pub(crate) fn matching(file: File, module: &Module) -> Option<Result<SymbolFile, Mismatch>> {
    let bytes = read(file)?;
    if let Err(mismatch) = check(&Identity::of(&bytes)?, module) {
        return Some(Err(mismatch));
    }
    SymbolFile::of(bytes.into()).map(Ok)
}
