//! PE files with resources and a section of data.

/// RT_MESSAGETABLE
pub const MESSAGES: Kind = Kind::Number(11);
pub const TEMPLATES: Kind = Kind::Name("WEVT_TEMPLATE");
pub const MOF_DATA: Kind = Kind::Name("MOFDATA");

#[derive(Clone, Copy)]
pub enum Kind {
    Number(u32),
    Name(&'static str),
}

/// A resource: kind, language, bytes.
pub type Resource<'r> = (Kind, u32, &'r [u8]);

/// Languages and bytes of one kind.
type Languages<'r> = Vec<(u32, &'r [u8])>;

/// IMAGE_FILE_MACHINE_*
pub const I386: u16 = 0x14c;
pub const AMD64: u16 = 0x8664;
pub const ARM64: u16 = 0xaa64;

/// A library with a section of code, one of data, and one of resources.
pub fn library(machine: u16, data: &[u8], resources: &[Resource<'_>]) -> Vec<u8> {
    let code = [0xcc; 0x400];
    let sections: Vec<(&[u8; 8], Vec<u8>, u32)> = vec![
        (b".text\0\0\0", code.to_vec(), 0x6000_0020),
        (b".rdata\0\0", data.to_vec(), 0x4000_0040),
        (b".rsrc\0\0\0", self::resources(resources, 0x30_0000), 0x4000_0040),
    ];
    let is_wide = machine != I386;
    let optional_size: u16 = if is_wide { 240 } else { 224 };
    let mut file = vec![0; 64];
    file[..2].copy_from_slice(b"MZ");
    file[60] = 64;
    file.extend(b"PE\0\0");
    file.extend(machine.to_le_bytes());
    file.extend((sections.len() as u16).to_le_bytes());
    file.extend([0; 12]);
    file.extend(optional_size.to_le_bytes());
    file.extend(0x2022u16.to_le_bytes());
    let mut optional = vec![0; usize::from(optional_size)];
    optional[..2].copy_from_slice(&if is_wide { 0x20bu16 } else { 0x10b }.to_le_bytes());
    let directories = usize::from(optional_size) - 128;
    optional[directories - 4..directories].copy_from_slice(&16u32.to_le_bytes());
    if !resources.is_empty() {
        let size = (sections[2].1.len() as u32).to_le_bytes();
        optional[directories + 16..directories + 20].copy_from_slice(&0x30_0000u32.to_le_bytes());
        optional[directories + 20..directories + 24].copy_from_slice(&size);
    }
    file.extend(optional);
    let mut at = 0x400;
    for (number, (name, bytes, flags)) in sections.iter().enumerate() {
        file.extend(**name);
        let size = bytes.len() as u32;
        for value in [size, 0x10_0000 * (number as u32 + 1), size, at, 0, 0, 0, *flags] {
            file.extend(value.to_le_bytes());
        }
        at += size.next_multiple_of(0x200);
    }
    for (_, bytes, _) in &sections {
        file.resize(file.len().next_multiple_of(0x200).max(0x400), 0);
        file.extend(bytes);
    }
    file
}

/// A tree of three levels: kind, name, language. Kinds by name come first.
fn resources(resources: &[Resource<'_>], base: u32) -> Vec<u8> {
    let mut kinds: Vec<(Kind, Languages<'_>)> = Vec::new();
    let is_same = |a: Kind, b: Kind| match (a, b) {
        (Kind::Number(a), Kind::Number(b)) => a == b,
        (Kind::Name(a), Kind::Name(b)) => a == b,
        _ => false,
    };
    for (kind, language, bytes) in resources {
        match kinds.iter_mut().find(|(known, _)| is_same(*known, *kind)) {
            Some((_, list)) => list.push((*language, bytes)),
            None => kinds.push((*kind, vec![(*language, bytes)])),
        }
    }
    kinds.sort_by_key(|(kind, _)| matches!(kind, Kind::Number(_)));
    let named = kinds.iter().filter(|(kind, _)| matches!(kind, Kind::Name(_))).count();
    let mut out = Vec::new();
    let directory = |out: &mut Vec<u8>, named: usize, numbered: usize| {
        out.extend([0; 12]);
        out.extend((named as u16).to_le_bytes());
        out.extend((numbered as u16).to_le_bytes());
    };
    let number = |out: &mut Vec<u8>, value: u32| {
        out.extend(value.to_le_bytes());
        out.len() - 4
    };
    let set = |out: &mut Vec<u8>, at: usize, value: u32| {
        out[at..at + 4].copy_from_slice(&value.to_le_bytes());
    };
    directory(&mut out, named, kinds.len() - named);
    let mut heads = Vec::new();
    for (kind, _) in &kinds {
        let id = number(&mut out, if let Kind::Number(id) = kind { *id } else { 0 });
        heads.push((id, number(&mut out, 0)));
    }
    let mut data = Vec::new();
    for ((kind, list), (id, table)) in kinds.iter().zip(heads) {
        let at = out.len() as u32;
        set(&mut out, table, at | 1 << 31);
        directory(&mut out, 0, 1);
        number(&mut out, 1);
        let table = number(&mut out, 0);
        let at = out.len() as u32;
        set(&mut out, table, at | 1 << 31);
        directory(&mut out, 0, list.len());
        for (language, bytes) in list {
            number(&mut out, *language);
            data.push((number(&mut out, 0), *bytes));
        }
        if let Kind::Name(name) = kind {
            let at = out.len() as u32;
            set(&mut out, id, at | 1 << 31);
            out.extend((name.len() as u16).to_le_bytes());
            out.extend(name.encode_utf16().flat_map(u16::to_le_bytes));
        }
    }
    for (entry, bytes) in data {
        out.resize(out.len().next_multiple_of(4), 0);
        let at = out.len() as u32;
        set(&mut out, entry, at);
        number(&mut out, base + at + 16);
        number(&mut out, bytes.len() as u32);
        out.extend([0; 8]);
        out.extend(bytes);
    }
    out
}
