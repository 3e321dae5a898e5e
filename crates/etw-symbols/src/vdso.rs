//! The kernel's `[vdso]`: functions that it maps into each process, of which there is no file.

use crate::bytes::{Bytes, Source};
use crate::module::Module;
use crate::symbol_file::{Identity, SymbolFile};

/// The symbols of this process's own one, if a module is the same: by its build id, or by its size where a trace of this kernel has no id.
pub(crate) fn own(module: &Module) -> Option<SymbolFile> {
    let bytes = read()?;
    let size = bytes.len() as u64;
    let bytes = Bytes::of(Source::Memory(bytes.into()))?;
    let id = Identity::of(&bytes)?.build_id;
    let is_same = match module.build_id.as_slice() {
        [] => module.size == size,
        known => id.starts_with(known),
    };
    is_same.then(|| SymbolFile::of(&bytes))?
}

#[cfg(target_os = "linux")]
fn read() -> Option<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    /// Bytes; it has two pages or so.
    const MAX: u64 = 1 << 20;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with(" [vdso]"))?;
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).ok());
    let (start, size) = (start?, end?.checked_sub(start?).filter(|size| *size <= MAX)?);
    let mut bytes = vec![0; size as usize];
    std::fs::File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}

#[cfg(not(target_os = "linux"))]
fn read() -> Option<Vec<u8>> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_own_vdso_is_that_of_its_build_id_or_size() {
        let Some(bytes) = read() else { return eprintln!("left out: there is no vdso") };
        let size = bytes.len() as u64;
        let id = Identity::of(&Bytes::of(Source::Memory(bytes.into())).unwrap()).unwrap().build_id;
        let module = |build_id: &[u8], size| {
            let build_id = build_id.to_vec();
            Module { path: "[vdso]".into(), build_id, size, loaded: None, process: None }
        };
        let file = own(&module(&[], size)).unwrap();
        assert!(file.has_symbols());
        assert!(own(&module(&[], size + 4096)).is_none() && own(&module(&[], 0)).is_none());
        assert!(own(&module(&id, 0)).is_some());
        assert!(own(&module(&[0xaa; 20], size)).is_none());
    }
}
