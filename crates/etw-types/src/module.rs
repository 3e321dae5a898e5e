//! `LoadedModule`: an executable file in the memory of a process, by which addresses get names.

use crate::le;

/// A mapping of executable code.
///
/// As programs tell of it, and as the event `Module` of a trace has it behind the process id:
///
/// ```text
/// 00 u64 base   08 u64 size   10 u64 file offset   18 u64 bias   20 u16 n, path (n bytes)   u16 m, build id (m bytes)
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LoadedModule {
    /// Address of the mapping.
    pub base: u64,
    /// Its bytes.
    pub size: u64,
    /// Offset of the mapping in the file.
    pub file_offset: u64,
    /// Difference between addresses in memory and those in the file's headers and symbols.
    pub bias: u64,
    /// The file as the process named it; at most [`MAX_PATH`](Self::MAX_PATH) bytes.
    pub path: String,
    /// The GNU build id, or empty; at most [`MAX_BUILD_ID`](Self::MAX_BUILD_ID) bytes.
    pub build_id: Vec<u8>,
}

impl LoadedModule {
    /// Most bytes of a path: Linux has no longer ones.
    pub const MAX_PATH: usize = 4096;
    /// Most bytes of a build id: linkers make 8 to 32.
    pub const MAX_BUILD_ID: usize = 64;

    /// Adds its bytes. What is longer than it may be is left out.
    pub fn put(&self, out: &mut Vec<u8>) {
        for number in [self.base, self.size, self.file_offset, self.bias] {
            out.extend(number.to_le_bytes());
        }
        for (blob, most) in
            [(self.path.as_bytes(), Self::MAX_PATH), (&self.build_id, Self::MAX_BUILD_ID)]
        {
            let blob = if blob.len() > most { &[] } else { blob };
            out.extend((blob.len() as u16).to_le_bytes());
            out.extend(blob);
        }
    }

    /// Reads one from the front of `bytes`; and what stands behind it. `None` where it is not as said above.
    pub fn read(bytes: &[u8]) -> Option<(LoadedModule, &[u8])> {
        let number = |at| le::u64(bytes, at);
        let blob = |at: usize, most: usize| {
            let size = le::u16(bytes, at).map(usize::from).filter(|size| *size <= most)?;
            bytes.get(at + 2..at + 2 + size)
        };
        let path = blob(0x20, Self::MAX_PATH)?;
        let build_id = blob(0x22 + path.len(), Self::MAX_BUILD_ID)?;
        let module = LoadedModule {
            base: number(0)?,
            size: number(8)?,
            file_offset: number(0x10)?,
            bias: number(0x18)?,
            path: std::str::from_utf8(path).ok()?.to_owned(),
            build_id: build_id.to_vec(),
        };
        Some((module, &bytes[0x24 + path.len() + build_id.len()..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_back_and_nothing_else_does() {
        let module = LoadedModule {
            base: 0x7f00_0000_1000,
            size: 0x2000,
            file_offset: 0x1000,
            bias: 0x7f00_0000_0000,
            path: "/lib/a.so".to_owned(),
            build_id: vec![9; 20],
        };
        let mut bytes = Vec::new();
        module.put(&mut bytes);
        let size = bytes.len();
        LoadedModule::default().put(&mut bytes);
        let (read, rest) = LoadedModule::read(&bytes).unwrap();
        assert_eq!(read, module);
        assert_eq!(LoadedModule::read(rest), Some((LoadedModule::default(), &[][..])));
        for end in 0..size {
            assert_eq!(LoadedModule::read(&bytes[..end]), None);
        }
        // A path that is no text, a build id that is none.
        let mut other = bytes.clone();
        other[0x22] = 0xff;
        assert_eq!(LoadedModule::read(&other), None);
        bytes[size - 22] = LoadedModule::MAX_BUILD_ID as u8 + 1;
        assert_eq!(LoadedModule::read(&bytes), None);
    }
}
