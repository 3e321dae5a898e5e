//! BTF: the kernel's description of its own types, as `Documentation/bpf/btf.rst` has it. Every offset is checked.

use etw_types::le;

const MAGIC: u16 = 0xeb9f;
/// Bytes of a type in front of what its kind adds.
const TYPE: usize = 12;
/// Structures without names inside one another.
const MAX_DEPTH: u32 = 8;

const POINTER: u32 = 2;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const TYPEDEF: u32 = 8;
const FUNCTION: u32 = 13;
const VARIABLE: u32 = 14;
const SECTION: u32 = 15;

/// The types of a kernel.
#[derive(Debug)]
pub struct Btf {
    bytes: Vec<u8>,
    strings: usize,
    /// Where each type lies; the first one has number 1.
    types: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Type {
    name: usize,
    kind: u32,
    /// Members or parameters.
    count: usize,
    /// Members' offsets also have sizes of bit fields.
    has_bit_fields: bool,
    /// The type that it refers to, if it refers to one.
    target: u32,
    /// Where the members or parameters begin.
    members: usize,
}

impl Btf {
    /// Reads BTF; `None`: it is none, or is cut.
    pub fn parse(bytes: Vec<u8>) -> Option<Btf> {
        if le::u16(&bytes, 0)? != MAGIC {
            return None;
        }
        let header = le::u32(&bytes, 4)? as usize;
        let section = |at| header.checked_add(le::u32(&bytes, at)? as usize);
        let (first, strings) = (section(8)?, section(16)?);
        let end = first.checked_add(le::u32(&bytes, 12)? as usize)?.min(bytes.len());
        let mut types = Vec::new();
        let mut at = first;
        while at < end {
            types.push(at);
            let info = le::u32(&bytes, at + 4)?;
            at = at.checked_add(TYPE + added_size(info >> 24 & 31, info as usize & 0xffff)?)?;
        }
        Some(Btf { bytes, strings, types })
    }

    fn get(&self, number: u32) -> Option<Type> {
        let at = *self.types.get((number as usize).checked_sub(1)?)?;
        let word = |offset| le::u32(&self.bytes, at + offset);
        let info = word(4)?;
        Some(Type {
            name: word(0)? as usize,
            kind: info >> 24 & 31,
            count: info as usize & 0xffff,
            has_bit_fields: info >> 31 != 0,
            target: word(8)?,
            members: at + TYPE,
        })
    }

    fn is_named(&self, offset: usize, name: &str) -> bool {
        let at = self.strings.saturating_add(offset);
        let text = self.bytes.get(at..).and_then(|rest| rest.get(..name.len() + 1));
        text.is_some_and(|text| text.strip_suffix(&[0]) == Some(name.as_bytes()))
    }

    fn find(&self, kind: u32, name: &str) -> Option<(u32, Type)> {
        (1..=self.types.len() as u32).find_map(|number| {
            let one = self.get(number)?;
            (one.kind == kind && self.is_named(one.name, name)).then_some((number, one))
        })
    }

    /// The offset in bytes of a structure's member, those of structures without names inside it included.
    pub fn offset(&self, structure: &str, member: &str) -> Option<i16> {
        let (_, one) = self.find(STRUCT, structure)?;
        i16::try_from(self.offset_in(&one, member, 0)?).ok()
    }

    fn offset_in(&self, structure: &Type, member: &str, depth: u32) -> Option<u32> {
        for index in 0..structure.count {
            let at = structure.members + index * 12;
            let name = le::u32(&self.bytes, at)? as usize;
            let bits = le::u32(&self.bytes, at + 8)?;
            let bits = if structure.has_bit_fields { bits & 0xff_ffff } else { bits };
            if self.is_named(name, member) {
                return Some(bits / 8);
            }
            if self.is_named(name, "") && depth < MAX_DEPTH {
                let inner = self.get(le::u32(&self.bytes, at + 4)?)?;
                if matches!(inner.kind, STRUCT | UNION)
                    && let Some(offset) = self.offset_in(&inner, member, depth + 1)
                {
                    return Some(bits / 8 + offset);
                }
            }
        }
        None
    }

    /// Where a program's registers have the arguments of a system call.
    pub fn call_arguments(&self) -> Option<[i16; 6]> {
        let of = |member| self.offset("pt_regs", member);
        if cfg!(target_arch = "aarch64") {
            let first = of("regs")?;
            let rest = [8, 16, 24, 32, 40].map(|at| first + at);
            return Some([of("orig_x0")?, rest[0], rest[1], rest[2], rest[3], rest[4]]);
        }
        Some([of("di")?, of("si")?, of("dx")?, of("r10")?, of("r8")?, of("r9")?])
    }

    /// Where they have its number.
    pub fn call_number(&self) -> Option<i16> {
        let member = if cfg!(target_arch = "aarch64") { "syscallno" } else { "orig_ax" };
        self.offset("pt_regs", member)
    }

    /// The number of the type of a tracepoint's handlers, and their parameters behind the first one, which belongs to the kernel.
    pub fn tracepoint(&self, name: &str) -> Option<(u32, usize)> {
        let (number, definition) = self.find(TYPEDEF, &format!("btf_trace_{name}"))?;
        let pointer = self.get(definition.target)?;
        let function = self.get(pointer.target)?;
        let is_handler = pointer.kind == POINTER && function.kind == FUNCTION;
        is_handler.then_some((number, function.count.checked_sub(1)?))
    }

    /// The number of a variable.
    pub fn variable(&self, name: &str) -> Option<u32> {
        self.find(VARIABLE, name).map(|(number, _)| number)
    }

    /// Bytes from one variable of a section to another one of it.
    pub fn distance(&self, from: &str, to: &str) -> Option<i32> {
        let (from, to) = (self.variable(from)?, self.variable(to)?);
        (1..=self.types.len() as u32).find_map(|number| {
            let section = self.get(number).filter(|one| one.kind == SECTION)?;
            let offset_of = |variable| {
                let mut entries = (0..section.count).map(|index| section.members + index * 12);
                let is_of = |at: &usize| le::u32(&self.bytes, *at) == Some(variable);
                le::u32(&self.bytes, entries.find(is_of)? + 4)
            };
            i32::try_from(i64::from(offset_of(to)?) - i64::from(offset_of(from)?)).ok()
        })
    }
}

/// Bytes that a type of a kind has behind the common ones; `None`: the kind is not known.
fn added_size(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        1 | VARIABLE | 17 => 4,
        3 => 12,
        STRUCT | UNION | SECTION | 19 => count * 12,
        6 | FUNCTION => count * 8,
        POINTER | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct task { int a; struct { int b; }; }` and the handler of a tracepoint `go` with two parameters.
    fn small() -> Vec<u8> {
        let strings = b"\0task\0a\0b\0btf_trace_go\0count\0queue\0";
        let mut types: Vec<u32> = Vec::new();
        types.extend([0, 1 << 24, 4, 32]); // 1: int
        types.extend([0, STRUCT << 24 | 1, 4, 8, 1, 0]); // 2: struct { int b }
        types.extend([1, STRUCT << 24 | 2, 8, 6, 1, 0, 0, 2, 32]); // 3: struct task
        types.extend([0, FUNCTION << 24 | 3, 0, 0, 0, 0, 1, 0, 3]); // 4: function
        types.extend([0, POINTER << 24, 4]); // 5
        types.extend([10, TYPEDEF << 24, 5]); // 6
        types.extend([23, VARIABLE << 24, 1, 0]); // 7
        types.extend([29, VARIABLE << 24, 1, 0]); // 8
        types.extend([0, SECTION << 24 | 2, 96, 7, 16, 4, 8, 64, 4]); // 9
        let size = types.len() as u32 * 4;
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, size, size, strings.len() as u32] {
            bytes.extend(u32::to_le_bytes(word));
        }
        bytes.extend(types.into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn members_tracepoints_and_variables_are_found() {
        let btf = Btf::parse(small()).unwrap();
        assert_eq!((btf.offset("task", "a"), btf.offset("task", "b")), (Some(0), Some(4)));
        assert_eq!((btf.offset("task", "c"), btf.offset("tas", "a")), (None, None));
        assert_eq!(btf.tracepoint("go"), Some((6, 2)));
        assert_eq!((btf.variable("count"), btf.variable("coun")), (Some(7), None));
        assert_eq!(btf.distance("queue", "count"), Some(-48));
        assert_eq!(btf.distance("queue", "other"), None);
    }

    #[test]
    fn damage_is_no_panic() {
        let whole = small();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            for value in [0, 0x7f, 0xff] {
                bytes[at] = value;
                if let Some(btf) = Btf::parse(bytes.clone()) {
                    let _ = (btf.offset("task", "b"), btf.tracepoint("go"), btf.variable("count"));
                    let _ = btf.distance("queue", "count");
                }
            }
            if let Some(btf) = Btf::parse(whole[..at].to_vec()) {
                let _ = (btf.offset("task", "b"), btf.tracepoint("go"));
            }
        }
    }
}
