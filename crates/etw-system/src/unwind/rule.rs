//! Rules of call frames: where the caller's registers lie, whole and in a short form, and the frame that they change.

use std::cell::Cell;

use etw_types::le;
use gimli::{
    EhFrame, EndianSlice, Evaluation, EvaluationResult, LittleEndian, Location, UnwindExpression,
    Value,
};

use crate::perf::{UNWOUND_REGISTERS, UserState};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Operations of one expression at most, and expressions of one walk.
const MAX_STEPS: u32 = 100;
const MAX_EXPRESSIONS: u32 = 500;
/// No record has so many bytes of a stack: an address that lies farther away is that of something else.
const FARTHEST: usize = 64 << 10;
/// Registers by their numbers in DWARF.
const REGISTERS: usize = 33;

/// Numbers of registers in DWARF. The first two of [`number::SAVED`] are the return address and the frame pointer.
#[cfg(not(target_arch = "aarch64"))]
mod number {
    pub const FRAME_POINTER: usize = 6;
    pub const STACK_POINTER: usize = 7;
    pub const RETURN: usize = 16;
    pub const ADDRESS: usize = 16;
    /// Those of the kernel's copy, in its order.
    pub const COPIED: &[usize] = &[3, 5, 6, 7, 16, 12, 13, 14, 15];
    /// Those that functions save, and the address where they return.
    pub const SAVED: [usize; 7] = [RETURN, 6, 3, 12, 13, 14, 15];
}
/// Numbers of registers in DWARF.
#[cfg(target_arch = "aarch64")]
mod number {
    pub const FRAME_POINTER: usize = 29;
    pub const STACK_POINTER: usize = 31;
    pub const RETURN: usize = 30;
    pub const ADDRESS: usize = 32;
    /// Those of the kernel's copy, in its order.
    pub const COPIED: &[usize] = &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32];
    /// Those that functions save, and the address where they return.
    pub const SAVED: [usize; 12] = [RETURN, 29, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28];
}
pub(super) use number::{ADDRESS, FRAME_POINTER, RETURN, STACK_POINTER};
use number::{COPIED, SAVED};

const _: () = assert!(COPIED.len() == UNWOUND_REGISTERS.count_ones() as usize);

/// A word of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub at: u64,
    pub value: u64,
}

/// Where a caller's register is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Saved {
    /// In memory, so far from the frame's address.
    At(i64),
    /// It is the frame's address and this number.
    Is(i64),
    Register(u16),
    /// In memory, at the address that an expression gives.
    AtExpression(UnwindExpression<usize>),
    IsExpression(UnwindExpression<usize>),
    Unknown,
}

/// How the address of a frame (CFA) follows from registers.
#[derive(Clone, Copy, Debug)]
pub(super) enum FrameAddress {
    Register(u16, i64),
    Expression(UnwindExpression<usize>),
}

/// The rule of an address.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub frame: FrameAddress,
    pub saved: Vec<(u16, Saved)>,
    pub return_register: u16,
    /// The caller was interrupted there: its address is that of the next instruction, not of one behind a call.
    pub is_signal: bool,
    /// The entries of `.eh_frame` that expressions are in; empty: it has none.
    pub entries: Vec<u8>,
}

impl Rule {
    /// Bytes that it takes, about.
    pub fn size(&self) -> usize {
        const AROUND: usize = 128;
        AROUND + self.saved.len() * size_of::<(u16, Saved)>() + self.entries.len()
    }
}

/// A rule without expressions, as most are: every register that a function saves lies whole words from the frame's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The frame's address lies so far behind `register`.
    offset: i32,
    register: u8,
    pub is_signal: bool,
    /// The frame is the thread's first one.
    is_first: bool,
    /// Words from the frame's address, in the order of [`SAVED`].
    saved: [i16; SAVED.len()],
}

/// The caller has the register as it is.
const NOT_SAVED: i16 = i16::MIN;

impl Row {
    /// The same rule in this form; `None`: it does not fit.
    pub fn of(rule: &Rule) -> Option<Row> {
        let FrameAddress::Register(register, offset) = rule.frame else { return None };
        if rule.return_register != RETURN as u16 || usize::from(register) >= REGISTERS {
            return None;
        }
        let mut row = Row {
            offset: offset.try_into().ok()?,
            register: register.try_into().ok()?,
            is_signal: rule.is_signal,
            is_first: false,
            saved: [NOT_SAVED; SAVED.len()],
        };
        for (register, saved) in &rule.saved {
            let register = usize::from(*register);
            match saved {
                // No rule reads it.
                _ if register >= REGISTERS => {}
                Saved::Unknown if register == RETURN => row.is_first = true,
                Saved::At(offset) => {
                    let words = i16::try_from(offset / 8).ok()?;
                    let number = SAVED.iter().position(|one| *one == register)?;
                    (offset % 8 == 0 && words != NOT_SAVED).then_some(())?;
                    row.saved[number] = words;
                }
                _ => return None,
            }
        }
        Some(row)
    }

    /// The words that it reads for the caller's address and frame pointer, if nothing else tells the caller's frame but the stack pointer
    /// and frame pointer of this one. `callers`: the frame that [`apply`](Row::apply) made.
    pub fn read_words(&self, callers: &Frame<'_>) -> Option<[Option<Word>; 2]> {
        let register = usize::from(self.register);
        if self.is_first {
            return (register == STACK_POINTER || register == FRAME_POINTER).then_some([None; 2]);
        }
        let has_all =
            [STACK_POINTER, FRAME_POINTER].contains(&register) && self.saved[0] != NOT_SAVED;
        has_all.then_some(())?;
        let frame_address = callers.get(STACK_POINTER)?;
        let word = |words: i16| {
            let at = frame_address.wrapping_add_signed(i64::from(words) * 8);
            Some(Word { at, value: callers.read(at)? })
        };
        let pointer = match self.saved[1] {
            NOT_SAVED => None,
            words => Some(word(words)?),
        };
        Some([Some(word(self.saved[0])?), pointer])
    }

    /// Whether the frame is found by the frame pointer.
    pub fn is_by_frame_pointer(&self) -> bool {
        usize::from(self.register) == FRAME_POINTER
    }

    /// Makes a frame that of its caller.
    pub fn apply(&self, frame: &mut Frame<'_>) -> Next {
        let Some(value) = frame.get(self.register.into()) else { return Next::Unknown };
        if self.is_first {
            return Next::End;
        }
        let address = value.wrapping_add_signed(self.offset.into());
        for (register, words) in SAVED.into_iter().zip(self.saved) {
            if words != NOT_SAVED {
                let value = frame.read(address.wrapping_add_signed(i64::from(words) * 8));
                frame.set(register, value);
            }
        }
        frame.set(STACK_POINTER, Some(address));
        frame.caller(RETURN)
    }
}

/// The registers of a frame, and the copied bytes of its stack.
pub(super) struct Frame<'a> {
    registers: [u64; REGISTERS],
    /// A bit for each register whose value is known.
    known: u64,
    stack: &'a [u8],
    /// The address of the first byte of `stack`.
    bottom: u64,
    /// Expressions that the rest of the walk may evaluate.
    expressions: Cell<u32>,
    /// Bytes of the stack up to the last word that was wanted, whether or not it was copied.
    reach: Cell<usize>,
}

impl<'a> Frame<'a> {
    /// The innermost frame; `None`: it has no stack pointer.
    pub fn innermost(user: &UserState<'a>) -> Option<Frame<'a>> {
        let mut frame = Frame {
            registers: [0; REGISTERS],
            known: 0,
            stack: user.stack,
            bottom: 0,
            expressions: Cell::new(MAX_EXPRESSIONS),
            reach: Cell::new(0),
        };
        for (index, register) in COPIED.iter().enumerate() {
            frame.set(*register, le::u64(user.registers, index * 8));
        }
        frame.bottom = frame.get(STACK_POINTER)?;
        Some(frame)
    }

    pub fn read(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.bottom)?).ok()?;
        if at < FARTHEST && at >= self.reach.get() {
            self.reach.set(at + 8);
        }
        le::u64(self.stack, at)
    }

    /// Bytes of the stack that the walk has needed so far.
    pub fn reach(&self) -> usize {
        self.reach.get()
    }

    pub fn get(&self, register: usize) -> Option<u64> {
        let value = self.registers.get(register)?;
        (self.known & 1 << register != 0).then_some(*value)
    }

    fn set(&mut self, register: usize, value: Option<u64>) {
        let Some(one) = self.registers.get_mut(register) else { return };
        match value {
            Some(value) => (*one, self.known) = (value, self.known | 1 << register),
            None => self.known &= !(1 << register),
        }
    }

    /// The caller, whose address a register has.
    fn caller(&self, register: usize) -> Next {
        match self.get(register) {
            Some(caller) => Next::Caller(strip_signature(caller)),
            None => Next::Unknown,
        }
    }
}

/// The caller of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Caller(u64),
    /// The frame is the thread's first one.
    End,
    Unknown,
}

pub(super) fn leave_by_frame_pointer(frame: &mut Frame<'_>) -> Next {
    let caller = || {
        let pointer = frame.get(FRAME_POINTER)?;
        Some((pointer, frame.read(pointer)?, frame.read(pointer.checked_add(8)?)?))
    };
    let Some((pointer, above, caller)) = caller() else { return Next::Unknown };
    frame.set(FRAME_POINTER, Some(above));
    frame.set(STACK_POINTER, pointer.checked_add(16));
    Next::Caller(caller)
}

/// The words that [`leave_by_frame_pointer`] read to make this frame.
pub(super) fn words_at_frame_pointer(callers: &Frame<'_>) -> Option<[Option<Word>; 2]> {
    let end = callers.get(STACK_POINTER)?;
    let word = |at: u64| Some(Word { at, value: callers.read(at)? });
    Some([Some(word(end.checked_sub(8)?)?), Some(word(end.checked_sub(16)?)?)])
}

/// Makes a frame that of its caller.
pub(super) fn apply(frame: &mut Frame<'_>, rule: &Rule) -> Next {
    let entries = &rule.entries[..];
    let address = match &rule.frame {
        FrameAddress::Register(register, offset) => {
            frame.get(usize::from(*register)).map(|value| value.wrapping_add_signed(*offset))
        }
        FrameAddress::Expression(expression) => evaluate(frame, *expression, entries, None),
    };
    let Some(address) = address else { return Next::Unknown };
    let (mut callers, mut known) = (frame.registers, frame.known);
    for (register, saved) in &rule.saved {
        let value = match saved {
            Saved::At(offset) => frame.read(address.wrapping_add_signed(*offset)),
            Saved::Is(offset) => Some(address.wrapping_add_signed(*offset)),
            Saved::Register(other) => frame.get(usize::from(*other)),
            Saved::AtExpression(expression) => {
                evaluate(frame, *expression, entries, Some(address)).and_then(|at| frame.read(at))
            }
            Saved::IsExpression(expression) => evaluate(frame, *expression, entries, Some(address)),
            Saved::Unknown => None,
        };
        if *register == rule.return_register && matches!(saved, Saved::Unknown) {
            return Next::End;
        }
        if let Some(one) = callers.get_mut(usize::from(*register)) {
            *one = value.unwrap_or(0);
            known = known & !(1 << register) | u64::from(value.is_some()) << register;
        }
    }
    let has_stack_pointer =
        rule.saved.iter().any(|(register, _)| usize::from(*register) == STACK_POINTER);
    (frame.registers, frame.known) = (callers, known);
    if !has_stack_pointer {
        frame.set(STACK_POINTER, Some(address));
    }
    frame.caller(usize::from(rule.return_register))
}

/// An address without the signature that AArch64 may put into its upper bits.
fn strip_signature(address: u64) -> u64 {
    if cfg!(target_arch = "aarch64") { address & 0x0000_ffff_ffff_ffff } else { address }
}

fn evaluate(
    frame: &Frame<'_>,
    expression: UnwindExpression<usize>,
    entries: &[u8],
    initial: Option<u64>,
) -> Option<u64> {
    frame.expressions.set(frame.expressions.get().checked_sub(1)?);
    let section = EhFrame::new(entries, LittleEndian);
    let expression = expression.get(&section).ok()?;
    let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
    let mut evaluation: Evaluation<Bytes<'_>> = expression.evaluation(encoding);
    evaluation.set_max_iterations(MAX_STEPS);
    if let Some(initial) = initial {
        evaluation.set_initial_value(initial);
    }
    let mut state = evaluation.evaluate().ok()?;
    loop {
        state = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                evaluation.resume_with_memory(Value::Generic(frame.read(address)?)).ok()?
            }
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = frame.get(usize::from(register.0))?;
                evaluation.resume_with_register(Value::Generic(value)).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.result().first()?.location {
        Location::Address { address } => Some(address),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(frame: FrameAddress, saved: Vec<(u16, Saved)>) -> Rule {
        let return_register = RETURN as u16;
        Rule { frame, saved, return_register, is_signal: false, entries: Vec::new() }
    }

    #[test]
    fn a_row_and_its_rule_find_the_same_caller() {
        let mut seed = 7u64;
        let mut next = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            seed >> 33
        };
        for _ in 0..5_000 {
            let mut saved = Vec::new();
            for register in SAVED.into_iter().chain([REGISTERS + 1]) {
                if next() % 3 != 0 {
                    saved.push((register as u16, Saved::At((next() % 24) as i64 * 8 - 128)));
                }
            }
            if next() % 10 == 0 {
                saved.retain(|(register, _)| *register != RETURN as u16);
                saved.push((RETURN as u16, Saved::Unknown));
            }
            let register = [SAVED[1] as u16, STACK_POINTER as u16, 2][next() as usize % 3];
            let rule = rule(FrameAddress::Register(register, (next() % 300) as i64 - 9), saved);
            let row = Row::of(&rule).unwrap();
            let stack: Vec<u8> = (0..512).map(|_| next() as u8).collect();
            let (registers, known) = (std::array::from_fn(|_| next() % 700), next() << 31 | next());
            let frame = || {
                let expressions = Cell::new(MAX_EXPRESSIONS);
                let reach = Cell::new(0);
                Frame { registers, known, stack: &stack, bottom: 100, expressions, reach }
            };
            let (mut by_row, mut by_rule) = (frame(), frame());
            let caller = row.apply(&mut by_row);
            assert_eq!(caller, apply(&mut by_rule, &rule), "{rule:?}");
            if caller != Next::End && by_row.get(usize::from(register)).is_some() {
                let all =
                    |frame: &Frame<'_>| (0..REGISTERS).map(|n| frame.get(n)).collect::<Vec<_>>();
                assert_eq!(all(&by_row), all(&by_rule), "{rule:?}");
            }
        }
    }

    #[test]
    fn a_rule_that_does_not_fit_has_no_row() {
        let frame = FrameAddress::Register(STACK_POINTER as u16, 16);
        let register = SAVED[1] as u16;
        assert!(Row::of(&rule(frame, vec![(register, Saved::At(-16))])).is_some());
        for saved in [Saved::At(-12), Saved::At(1 << 19), Saved::Is(8), Saved::Unknown] {
            assert_eq!(Row::of(&rule(frame, vec![(register, saved)])), None, "{saved:?}");
        }
        let saved = vec![(STACK_POINTER as u16, Saved::At(-16))];
        assert_eq!(Row::of(&rule(frame, saved)), None);
        let other = Rule { return_register: register, ..rule(frame, Vec::new()) };
        assert_eq!(Row::of(&other), None);
    }
}
