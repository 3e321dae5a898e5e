//! ELF objects with the schemas of a manifest's providers, to link into programs: a program then carries what decoders need of its events,
//! and sessions that it runs under write it into their traces.

use etw_types::{SCHEMA_NOTE_OWNER, SCHEMA_NOTE_TYPE};

use crate::{Manifest, schema};

/// The machine that an object is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Machine {
    /// x86-64
    X86_64,
    /// 64-bit Arm
    Aarch64,
}

impl Machine {
    /// The machine that this program runs on; `None` if objects for it are not made.
    pub const fn own() -> Option<Machine> {
        if cfg!(target_arch = "x86_64") {
            Some(Machine::X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(Machine::Aarch64)
        } else {
            None
        }
    }
}

const HEADER_SIZE: usize = 64;
const SECTION_SIZE: usize = 64;
/// Names of the sections; each offset is that of the name in it.
const NAMES: &[u8] = b"\0.note.openetw\0.note.GNU-stack\0.shstrtab\0";
const NOTE_NAME: u32 = 1;
const STACK_NAME: u32 = 15;
const NAMES_NAME: u32 = 31;

/// A section's header, as far as these differ.
#[derive(Default)]
struct Section {
    name: u32,
    kind: u32,
    flags: u64,
    offset: usize,
    size: usize,
    alignment: u64,
}

/// A relocatable object with a note for each provider. The note's description is the provider's blob ([`etw_types::SchemaBlob`]).
pub fn write(manifest: &Manifest, machine: Machine) -> Vec<u8> {
    let mut notes = Vec::new();
    for blob in schema::blobs(manifest) {
        note(&blob, &mut notes);
    }
    let notes_at = HEADER_SIZE;
    let names_at = notes_at + notes.len();
    let sections_at = (names_at + NAMES.len()).next_multiple_of(8);
    const NOTE: u32 = 7;
    const PROGRAM: u32 = 1;
    const STRINGS: u32 = 3;
    // Loaded with the program.
    const ALLOCATED: u64 = 2;
    let sections = [
        Section::default(),
        Section {
            name: NOTE_NAME,
            kind: NOTE,
            flags: ALLOCATED,
            offset: notes_at,
            size: notes.len(),
            alignment: 4,
        },
        // Without it, linkers make the stack executable.
        Section {
            name: STACK_NAME,
            kind: PROGRAM,
            offset: names_at,
            alignment: 1,
            ..Section::default()
        },
        Section {
            name: NAMES_NAME,
            kind: STRINGS,
            offset: names_at,
            size: NAMES.len(),
            alignment: 1,
            ..Section::default()
        },
    ];
    let mut out = header(machine, sections_at, sections.len());
    out.extend(&notes);
    out.extend(NAMES);
    out.resize(sections_at, 0);
    for section in &sections {
        section.put(&mut out);
    }
    out
}

fn note(description: &[u8], out: &mut Vec<u8>) {
    let owner = [SCHEMA_NOTE_OWNER.as_bytes(), b"\0"].concat();
    for word in [owner.len() as u32, description.len() as u32, SCHEMA_NOTE_TYPE] {
        out.extend(word.to_le_bytes());
    }
    for part in [&owner[..], description] {
        out.extend(part);
        out.resize(out.len().next_multiple_of(4), 0);
    }
}

/// The file header of a little-endian ELF64 object (gABI, "ELF Header").
fn header(machine: Machine, sections_at: usize, sections: usize) -> Vec<u8> {
    let mut out = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let machine: u16 = match machine {
        Machine::X86_64 => 62,
        Machine::Aarch64 => 183,
    };
    // Type: relocatable.
    out.extend(1u16.to_le_bytes());
    out.extend(machine.to_le_bytes());
    out.extend(1u32.to_le_bytes());
    // Entry and program headers: none.
    out.extend([0; 16]);
    out.extend((sections_at as u64).to_le_bytes());
    out.extend(0u32.to_le_bytes());
    let halves =
        [HEADER_SIZE as u16, 0, 0, SECTION_SIZE as u16, sections as u16, sections as u16 - 1];
    out.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
    out
}

impl Section {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.name.to_le_bytes());
        out.extend(self.kind.to_le_bytes());
        for word in [self.flags, 0, self.offset as u64, self.size as u64] {
            out.extend(word.to_le_bytes());
        }
        // Link and info: none.
        out.extend([0; 8]);
        for word in [self.alignment, 0] {
            out.extend(word.to_le_bytes());
        }
    }
}
