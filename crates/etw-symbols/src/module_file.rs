//! Files that may be those of a module.

use crate::bytes::Bytes;
use crate::module::Module;
use crate::symbol_file::{Identity, SymbolFile};
use std::fmt;
use std::fs::File;

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
    let bytes = Bytes::of_file(file)?;
    if let Err(mismatch) = check(&Identity::of(&bytes)?, module) {
        return Some(Err(mismatch));
    }
    SymbolFile::of(&bytes).map(Ok)
}
