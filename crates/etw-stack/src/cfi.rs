//! Call frame information: `.eh_frame` and its search table `.eh_frame_hdr` (LSB Core, "Exception Frames"; DWARF 5, 6.4).

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, NativeEndian,
    EhFrameOffset, Pointer, RegisterRule, UnwindContext, UnwindContextStorage,
    UnwindExpression, UnwindSection, UnwindTableRow,
};

use crate::arch;
use crate::expression;
use crate::memory::Memory;
use crate::registers::Registers;
use crate::rule::{Base, Rule};

type Bytes<'a> = EndianSlice<'a, NativeEndian>;

/// Space for the rules of a row, without allocation.
#[derive(Clone)]
struct Storage;

/// x86-64's signal frame has rules for all registers; AArch64 calls preserve 20, and there is a pseudo-register.
const RULES: usize = if cfg!(target_arch = "x86_64") { 17 } else { 22 };

impl UnwindContextStorage<usize> for Storage {
    type Rules = [(gimli::Register, RegisterRule<usize>); RULES];
    /// The current row, the initial row and one remembered row: compilers remember one at a time.
    type Stack = [UnwindTableRow<usize, Self>; 3];
}

/// The unwind tables of a module.
#[derive(Debug)]
pub(crate) struct Tables<'a> {
    header: &'a [u8],
    header_address: u64,
    /// The search table, sorted: for each function its start and the offset of its entry, both relative to the header, four bytes
    /// each.
    search: SearchTable<'a>,
    frame_bytes: &'a [u8],
    frame_address: u64,
    frame: EhFrame<Bytes<'a>>,
    bases: BaseAddresses,
}

/// Pairs of two distances from the header, four bytes each: a function's start, and its entry in `.eh_frame`.
#[derive(Clone, Copy, Debug)]
struct SearchTable<'a>(&'a [u8]);

impl SearchTable<'_> {
    fn len(self) -> usize {
        self.0.len() / 8
    }

    fn start(self, index: usize) -> i32 {
        self.number(8 * index)
    }

    fn entry(self, index: usize) -> i32 {
        self.number(8 * index + 4)
    }

    fn number(self, at: usize) -> i32 {
        i32::from_ne_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }
}

/// The address of `.eh_frame` in the search table's header.
pub(crate) fn frame_address(header: &[u8], address: u64) -> Option<u64> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(address);
    match EhFrameHdr::new(header, NativeEndian).parse(&bases, 8).ok()?.eh_frame_ptr() {
        Pointer::Direct(address) => Some(address),
        Pointer::Indirect(_) => None,
    }
}

/// The part up to the terminator, an entry of length 0. No header contains the size of `.eh_frame`.
pub(crate) fn used_part(bytes: &[u8]) -> &[u8] {
    let mut at = 0_usize;
    loop {
        let word = |at: usize| -> Option<[u8; 4]> { bytes.get(at..at + 4)?.try_into().ok() };
        let size = match word(at).map(u32::from_ne_bytes) {
            None => return &bytes[..at.min(bytes.len())],
            Some(0) => return &bytes[..at + 4],
            Some(u32::MAX) => {
                let size = bytes.get(at + 4..at + 12).and_then(|b| b.try_into().ok());
                size.map(u64::from_ne_bytes).and_then(|size| size.checked_add(12))
            }
            Some(size) => Some(u64::from(size) + 4),
        };
        match size.and_then(|size| at.checked_add(usize::try_from(size).ok()?)) {
            Some(next) if next <= bytes.len() => at = next,
            _ => return &bytes[..at],
        }
    }
}

impl<'a> Tables<'a> {
    /// Parses the header of the tables. Only headers with a search table are supported.
    pub(crate) fn new(
        header: &'a [u8],
        header_address: u64,
        frame_bytes: &'a [u8],
        frame_address: u64,
    ) -> Option<Tables<'a>> {
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(header_address)
            .set_eh_frame(frame_address);
        // All linkers write the table in this form: version 1; a count of four bytes; distances from the header.
        if header.first() != Some(&1) || header.get(2..4)? != [0x03, 0x3b] {
            return None;
        }
        let count = header.get(8..12)?.try_into().map(u32::from_ne_bytes).ok()?;
        let size = (count as usize).checked_mul(8)?;
        let search = SearchTable(header[12..].get(..size)?);
        let mut frame = EhFrame::new(frame_bytes, NativeEndian);
        frame.set_address_size(8);
        if cfg!(target_arch = "aarch64") {
            frame.set_vendor(gimli::Vendor::AArch64);
        }
        Some(Tables {
            header,
            header_address,
            search,
            frame_bytes,
            frame_address,
            frame,
            bases,
        })
    }

    pub(crate) fn header(&self) -> &'a [u8] {
        self.header
    }

    pub(crate) fn frame(&self) -> &'a [u8] {
        self.frame_bytes
    }

    /// True if the tables were loaded at this address.
    pub(crate) fn is_at(&self, header_address: u64) -> bool {
        self.header_address == header_address
    }

    /// The entry of the function that may contain an address, as an offset in `.eh_frame`.
    fn entry(&self, address: u64) -> Option<usize> {
        let at = |distance: i32| self.header_address.wrapping_add_signed(distance.into());
        let (mut before, mut end) = (0, self.search.len());
        while before < end {
            let middle = before + (end - before) / 2;
            match at(self.search.start(middle)) <= address {
                true => before = middle + 1,
                false => end = middle,
            }
        }
        let entry = at(self.search.entry(before.checked_sub(1)?));
        usize::try_from(entry.checked_sub(self.frame_address)?).ok()
    }

    /// Calls `f` with the row for an address, if there is one.
    fn with_row<T>(
        &self,
        address: u64,
        f: impl FnOnce(
            &FrameDescriptionEntry<Bytes<'a>>,
            &UnwindTableRow<usize, Storage>,
        ) -> Option<T>,
    ) -> Option<T> {
        let offset = EhFrameOffset(self.entry(address)?);
        let entry =
            self.frame.fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset).ok()?;
        let mut context = UnwindContext::<usize, Storage>::new_in();
        // Fails if the entry does not contain the address.
        let row = entry
            .unwind_info_for_address(&self.frame, &self.bases, &mut context, address)
            .ok()?;
        f(&entry, row)
    }

    /// The rule for an address, if there is one. `exact` is true if the frame was interrupted at the address and did not call there.
    #[inline(never)]
    pub(crate) fn rule(&self, address: u64, exact: bool) -> Option<Rule> {
        self.with_row(address, |entry, row| {
            let return_address = entry.cie().return_address_register();
            if entry.is_signal_trampoline()
                || usize::from(return_address.0) != arch::RETURN_ADDRESS
            {
                return Some(Rule::Full);
            }
            Some(plain(row, exact).unwrap_or(Rule::Full))
        })
    }

    /// The caller's registers, and whether the caller was interrupted rather than calling.
    #[inline(never)]
    pub(crate) fn caller(
        &self,
        address: u64,
        exact: bool,
        registers: &Registers,
        memory: &mut Memory,
    ) -> Option<(Registers, bool)> {
        self.with_row(address, |entry, row| {
            let encoding = entry.cie().encoding();
            let evaluate = |expression: &UnwindExpression<usize>,
                            cfa: Option<u64>,
                            memory: &mut Memory| {
                let code = expression.get(&self.frame).ok()?;
                expression::evaluate(code, encoding, cfa, registers, memory)
            };
            let cfa = match row.cfa() {
                CfaRule::RegisterAndOffset { register, offset } => {
                    registers.get(register.0.into())?.wrapping_add(*offset as u64)
                }
                CfaRule::Expression(expression) => evaluate(expression, None, memory)?,
            };

            let mut caller = *registers;
            caller.set(arch::SP, cfa);
            caller.forget(arch::PC);
            let return_address = usize::from(entry.cie().return_address_register().0);
            let mut found = false;
            for (register, rule) in row.registers() {
                let register = usize::from(register.0);
                found |= register == return_address;
                let value = match rule {
                    RegisterRule::SameValue => registers.get(register),
                    RegisterRule::Offset(offset) => memory.read(cfa.wrapping_add(*offset as u64)),
                    RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add(*offset as u64)),
                    RegisterRule::Register(other) => registers.get(other.0.into()),
                    RegisterRule::Expression(expression) => {
                        evaluate(expression, Some(cfa), memory).and_then(|at| memory.read(at))
                    }
                    RegisterRule::ValExpression(expression) => {
                        evaluate(expression, Some(cfa), memory)
                    }
                    RegisterRule::Constant(value) => Some(*value),
                    _ => None,
                };
                match value {
                    Some(value) => caller.set(register, value),
                    None => caller.forget(register),
                }
            }
            // Without a rule there is no caller, unless the return address is still where the call put it.
            let link = arch::LINK_REGISTER == Some(return_address);
            if !found {
                (exact && link).then_some(())?;
            }
            let pc = arch::strip_signature(caller.get(return_address)?);
            caller.set(arch::PC, pc);
            if link {
                // The call has overwritten the caller's own.
                caller.forget(return_address);
            }
            Some((caller, entry.is_signal_trampoline()))
        })
    }
}

/// A row as a plain rule, if it is one.
fn plain(row: &UnwindTableRow<usize, Storage>, exact: bool) -> Option<Rule> {
    let register = |number: usize| {
        row.registers().find(|(register, _)| usize::from(register.0) == number).map(|(_, rule)| rule)
    };
    let small = |offset: i64| i32::try_from(offset).ok();

    let return_address = match register(arch::RETURN_ADDRESS) {
        Some(RegisterRule::Offset(offset)) => small(*offset)?,
        // No rule, or one that says that there is none, which gimli does not tell apart.
        None if arch::LINK_REGISTER.is_none() || !exact => return Some(Rule::End),
        _ => return None,
    };
    let (base, cfa) = match *row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => match usize::from(register.0) {
            arch::SP => (Base::StackPointer, small(offset)?),
            arch::FP => (Base::FramePointer, small(offset)?),
            _ => return None,
        },
        CfaRule::Expression(_) => return None,
    };
    let frame_pointer = match register(arch::FP) {
        None | Some(RegisterRule::SameValue) => None,
        Some(RegisterRule::Offset(offset)) => Some(small(*offset)?),
        _ => return None,
    };
    match register(arch::SP) {
        None | Some(RegisterRule::ValOffset(0)) => {}
        _ => return None,
    }
    let rule = Rule::Plain { base, cfa, return_address, frame_pointer };
    rule.pack().map(|_| rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object;

    /// This program's header and frames, and their addresses.
    fn own() -> (Vec<u8>, u64, Vec<u8>, u64) {
        let mut own = None;
        object::each(|object| {
            if own.is_none() {
                let at = object.find(libc::PT_GNU_EH_FRAME).next().unwrap();
                let header = object.bytes(at.clone()).to_vec();
                let frame_at = frame_address(&header, at.start).unwrap();
                let frame = used_part(object.bytes(frame_at..u64::MAX)).to_vec();
                own = Some((header, at.start, frame, frame_at));
            }
        });
        own.unwrap()
    }

    fn addresses(tables: &Tables) -> Vec<u64> {
        let starts = (0..tables.search.len()).map(|index| tables.search.start(index));
        starts.map(|start| tables.header_address.wrapping_add_signed(start.into())).collect()
    }

    #[test]
    fn all_functions_have_rules() {
        let (header, header_at, frame, frame_at) = own();
        let tables = Tables::new(&header, header_at, &frame, frame_at).unwrap();
        let addresses = addresses(&tables);
        assert!(addresses.len() > 1000);
        let known = addresses.iter().filter(|a| tables.rule(**a, true).is_some()).count();
        assert_eq!(known, addresses.len());
        // A function begins with its return address on the stack, or in its register.
        let begins = |a: &&u64| match tables.rule(**a, true) {
            Some(Rule::Plain { base: Base::StackPointer, cfa: 8, return_address: -8, .. }) => true,
            rule => arch::LINK_REGISTER.is_some() && rule == Some(Rule::Full),
        };
        let begin = addresses.iter().filter(begins).count();
        assert!(begin > addresses.len() * 9 / 10, "{begin} of {}", addresses.len());
        assert_eq!(tables.rule(frame_at, true), None);
        assert_eq!(tables.rule(0, true), None);
    }

    #[test]
    fn the_used_part_ends_with_the_terminator() {
        let (_, _, frame, _) = own();
        assert!(frame.len() > 10_000 && frame.ends_with(&[0; 4]));
        let mut more = frame.clone();
        more.extend([0x55; 100]);
        assert_eq!(used_part(&more), frame);
        assert_eq!(used_part(&frame[..frame.len() - 4]), &frame[..frame.len() - 4]);
        // Entries whose length exceeds the section.
        for size in [100_u32, u32::MAX - 1, u32::MAX] {
            let mut bytes = vec![4, 0, 0, 0, 1, 2, 3, 4];
            bytes.extend(size.to_ne_bytes());
            bytes.extend([0xff; 12]);
            assert_eq!(used_part(&bytes), &bytes[..8]);
        }
        assert_eq!(used_part(&[1, 2]), &[]);
    }

    /// No bytes of tables cause a panic or an endless loop.
    #[test]
    fn malicious_tables_cause_no_panic() {
        let (header, header_at, frame, frame_at) = own();
        let sound = Tables::new(&header, header_at, &frame, frame_at).unwrap();
        let addresses = addresses(&sound);
        let mut registers = Registers::here();
        let mut memory = Memory::new(registers.get(arch::SP).unwrap());
        registers.set(0, u64::MAX);

        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % below as u64) as usize
        };
        let (mut bad_header, mut bad_frame) = (header.clone(), frame.clone());
        let (mut same, mut other, mut none) = (0, 0, 0);
        for round in 0..60_000 {
            let address = addresses[next(addresses.len())] + next(40) as u64;
            let entry = sound.entry(address).unwrap();
            // The second word of the entry contains the distance to its CIE.
            let behind = u32::from_ne_bytes(frame[entry + 4..entry + 8].try_into().unwrap());
            let cie = entry + 4 - behind as usize;
            // Some bytes of one of the three change.
            for _ in 0..1 + next(6) {
                let byte = [0, 0xff, 0x7f, 0x80, next(256) as u8][next(5)];
                match round % 8 {
                    0 => bad_header[next(32)] = byte,
                    1 | 2 => bad_frame[cie + next(24)] = byte,
                    _ => bad_frame[(entry + next(64)).min(frame.len() - 1)] = byte,
                }
            }
            let exact = round % 2 == 0;
            used_part(&bad_frame[entry..]);
            frame_address(&bad_header, header_at);
            // Cut short, too.
            let len = if round % 16 == 3 { entry + next(64) } else { frame.len() };
            let len = len.min(frame.len());
            match Tables::new(&bad_header, header_at, &bad_frame[..len], frame_at) {
                None => none += 1,
                Some(tables) => {
                    match tables.rule(address, exact) {
                        None => none += 1,
                        rule if rule == sound.rule(address, exact) => same += 1,
                        _ => other += 1,
                    }
                    tables.caller(address, exact, &registers, &mut memory);
                }
            }
            bad_header[..32].copy_from_slice(&header[..32]);
            for part in [cie..cie + 24, entry..(entry + 64).min(frame.len())] {
                bad_frame[part.clone()].copy_from_slice(&frame[part]);
            }
        }
        assert!(bad_frame == frame && bad_header == header);
        assert!(same > 1000 && other > 1000 && none > 1000, "{same} {other} {none}");
    }
}
