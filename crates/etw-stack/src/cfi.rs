//! Call frame information: `.eh_frame` and its search table `.eh_frame_hdr` (LSB Core, "Exception Frames"; DWARF 5, 6.4).

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, NativeEndian,
    ParsedEhFrameHdr, Pointer, RegisterRule, UnwindContext, UnwindContextStorage,
    UnwindExpression, UnwindSection, UnwindTableRow,
};

use crate::arch;
use crate::expression;
use crate::memory::Memory;
use crate::registers::Registers;
use crate::rule::{Base, Rule};

type Bytes<'a> = EndianSlice<'a, NativeEndian>;

/// Room for the rules of a row, without allocation.
#[derive(Clone)]
struct Storage;

/// x86-64's signal frame has rules for 17 registers; AArch64 calls preserve 20, and there is a pseudo-register.
const RULES: usize = 22;

impl UnwindContextStorage<usize> for Storage {
    type Rules = [(gimli::Register, RegisterRule<usize>); RULES];
    /// The current row, the initial one, and two that are remembered: compilers remember one at a time.
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

/// The unwind tables of a module.
#[derive(Debug)]
pub(crate) struct Tables<'a> {
    header_bytes: &'a [u8],
    header: ParsedEhFrameHdr<Bytes<'a>>,
    header_address: u64,
    frame_bytes: &'a [u8],
    frame: EhFrame<Bytes<'a>>,
    bases: BaseAddresses,
}

/// Where the search table says that `.eh_frame` lies.
pub(crate) fn frame_address(header: &[u8], address: u64) -> Option<u64> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(address);
    match EhFrameHdr::new(header, NativeEndian).parse(&bases, 8).ok()?.eh_frame_ptr() {
        Pointer::Direct(address) => Some(address),
        Pointer::Indirect(_) => None,
    }
}

/// The part up to the terminator, an entry of length 0: no header tells the size of `.eh_frame`.
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
    /// Tables of a header that has a search table.
    pub(crate) fn new(
        header: &'a [u8],
        header_address: u64,
        frame_bytes: &'a [u8],
        frame_address: u64,
    ) -> Option<Tables<'a>> {
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(header_address)
            .set_eh_frame(frame_address);
        let parsed = EhFrameHdr::new(header, NativeEndian).parse(&bases, 8).ok()?;
        parsed.table()?;
        let mut frame = EhFrame::new(frame_bytes, NativeEndian);
        frame.set_address_size(8);
        if cfg!(target_arch = "aarch64") {
            frame.set_vendor(gimli::Vendor::AArch64);
        }
        Some(Tables {
            header_bytes: header,
            header: parsed,
            header_address,
            frame_bytes,
            frame,
            bases,
        })
    }

    pub(crate) fn header(&self) -> &'a [u8] {
        self.header_bytes
    }

    pub(crate) fn frame(&self) -> &'a [u8] {
        self.frame_bytes
    }

    /// Were they loaded at this address?
    pub(crate) fn is_at(&self, header_address: u64) -> bool {
        self.header_address == header_address
    }

    /// Gives `f` the row for an address, if there is one.
    fn with_row<T>(
        &self,
        address: u64,
        f: impl FnOnce(
            &FrameDescriptionEntry<Bytes<'a>>,
            &UnwindTableRow<usize, Storage>,
        ) -> Option<T>,
    ) -> Option<T> {
        let table = self.header.table()?;
        let entry = table.lookup(address, &self.bases).ok()?;
        let offset = table.pointer_to_offset(entry).ok()?;
        let entry =
            self.frame.fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset).ok()?;
        let mut context = UnwindContext::<usize, Storage>::new_in();
        // Fails where the entry does not contain the address.
        let row = entry
            .unwind_info_for_address(&self.frame, &self.bases, &mut context, address)
            .ok()?;
        f(&entry, row)
    }

    /// The rule for an address, if there is any. `exact`: the frame was interrupted there, and did not call.
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
            // Without a rule there is no caller, unless the frame still has its address where the call put it.
            let link = arch::LINK_REGISTER == Some(return_address);
            if !found {
                (exact && link).then_some(())?;
            }
            let pc = arch::strip_signature(caller.get(return_address)?);
            caller.set(arch::PC, pc);
            if link {
                // The caller's own was lost when it called.
                caller.forget(return_address);
            }
            Some((caller, entry.is_signal_trampoline()))
        })
    }
}

/// A row as a plain rule, if it is one.
fn plain(row: &UnwindTableRow<usize, Storage>, exact: bool) -> Option<Rule> {
    let register = |number: usize| row.register(gimli::Register(number as u16));
    let small = |offset: i64| i32::try_from(offset).ok();

    let return_address = match register(arch::RETURN_ADDRESS) {
        Some(RegisterRule::Offset(offset)) => small(offset)?,
        Some(RegisterRule::Undefined) => return Some(Rule::End),
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
        Some(RegisterRule::Offset(offset)) => Some(small(offset)?),
        _ => return None,
    };
    match register(arch::SP) {
        None | Some(RegisterRule::ValOffset(0)) => {}
        _ => return None,
    }
    let rule = Rule::Plain { base, cfa, return_address, frame_pointer };
    rule.pack().map(|_| rule)
}
