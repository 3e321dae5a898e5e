//! The walk from frame to frame.

use crate::memory::Memory;
use crate::registers::Registers;
use crate::rule::{Base, FRAME_RECORD, Rule};
use crate::snapshot::{self, Snapshot};
use crate::{MAX_FRAMES, arch, cache};

/// Frames that are left out at most; with [`MAX_FRAMES`] the bound of every walk.
const MAX_SKIP: usize = 1 << 16;

/// The current frame of the walk. The three registers that most rules use are separate.
struct Frame {
    pc: u64,
    sp: u64,
    fp: u64,
    /// The thread was interrupted at `pc`, which otherwise is behind a call.
    exact: bool,
    /// All known registers, if `all_known`. After a plain rule, only the three are known.
    all: Registers,
    all_known: bool,
}

/// Implements [`capture`](crate::capture). `here` contains the registers of the innermost frame.
#[inline]
pub(crate) fn walk(here: &Registers, out: &mut [u64], skip: usize) -> usize {
    let room = out.len().min(MAX_FRAMES);
    let out = &mut out[..room];
    if room == 0 || skip > MAX_SKIP {
        return 0;
    }
    match walk_with::<false>(here, out, skip) {
        Ok(count) => count,
        Err(_) => walk_thoroughly(here, out, skip),
    }
}

/// Repeats the walk from its start, with all registers.
#[cold]
#[inline(never)]
fn walk_thoroughly(here: &Registers, out: &mut [u64], skip: usize) -> usize {
    let (Ok(count) | Err(count)) = walk_with::<true>(here, out, skip);
    count
}

/// Returns the number of frames, or `Err` if the walk needs more registers to continue. With `THOROUGH` it follows all registers of the
/// unwind tables, otherwise only the three that nearly all rules use.
#[inline(never)]
fn walk_with<const THOROUGH: bool>(
    here: &Registers,
    out: &mut [u64],
    skip: usize,
) -> Result<usize, usize> {
    let mut frame = Frame::new(*here, false);
    let snapshot = snapshot::current();
    let generation = snapshot.map_or(0, |s| s.generation);
    let mut memory = Memory::new(frame.sp);
    let mut to_skip = skip;
    let mut count = 0;
    loop {
        let key = cache::Key::new(frame.address(), frame.exact, generation);
        let known = cache::get(key);
        let rule = match known {
            // Compares the whole rule: the processor then predicts the branch, and follows the chain of frame pointers without
            // waiting for the rules.
            Some(FRAME_RECORD) => None,
            _ => {
                let rule = known.and_then(Rule::unpack).unwrap_or_else(|| {
                    let rule = frame.find_rule(snapshot, &mut memory);
                    cache::put(key, rule);
                    rule
                });
                // The first is the caller, wherever its code is.
                if rule == Rule::Nonsense && count + skip - to_skip > 0 {
                    return Ok(count);
                }
                Some(rule)
            }
        };
        if to_skip > 0 {
            to_skip -= 1;
        } else {
            out[count] = frame.pc;
            count += 1;
            if count == out.len() {
                return Ok(count);
            }
        }
        let left = match rule {
            None | Some(Rule::Plain { .. }) if THOROUGH => {
                frame.leave_fully(snapshot, &mut memory)
            }
            None => frame.leave_record(&mut memory),
            Some(Rule::Plain { base, cfa, return_address, frame_pointer }) => {
                frame.leave_plain(base, cfa, return_address, frame_pointer, &mut memory)
            }
            Some(Rule::Full) => frame.leave_fully(snapshot, &mut memory),
            Some(Rule::Chain) => frame.follow_chain(&mut memory),
            Some(Rule::Called) => frame.leave_called(&mut memory),
            Some(Rule::Signal) => frame.leave_signal(&mut memory),
            Some(Rule::End | Rule::Nonsense) => None,
        };
        if left.is_none() {
            return if rule == Some(Rule::Full) && !frame.all_known { Err(count) } else { Ok(count) };
        }
    }
}

impl Frame {
    #[inline]
    fn new(all: Registers, exact: bool) -> Frame {
        let register = |number| all.get(number).unwrap_or(0);
        Frame {
            pc: register(arch::PC),
            sp: register(arch::SP),
            fp: register(arch::FP),
            exact,
            all,
            all_known: true,
        }
    }

    /// The address to look up in the tables: inside the call, which may be the last instruction of its function.
    #[inline]
    fn address(&self) -> u64 {
        if self.exact { self.pc } else { self.pc.wrapping_sub(1) }
    }

    #[cold]
    #[inline(never)]
    fn find_rule(&self, snapshot: Option<&Snapshot>, memory: &mut Memory) -> Rule {
        let code = snapshot.and_then(|s| s.find(self.address()));
        let tables = code.and_then(|code| code.tables);
        if let Some(rule) = tables.and_then(|tables| tables.rule(self.address(), self.exact)) {
            return rule;
        }
        if self.exact {
            // Linkage tables, for which some linkers write no unwind information, and jumps to invalid addresses.
            return match memory.bytes_from(self.pc) {
                Some(bytes) if code.is_none() || !arch::is_linkage(bytes) => Rule::Chain,
                _ => Rule::Called,
            };
        }
        let next = self.pc.checked_add(8).and_then(|next| memory.bytes_from(next));
        let code_here = memory.bytes_from(self.pc).zip(next);
        if code_here.is_some_and(|(first, second)| arch::is_signal_return([first, second])) {
            return Rule::Signal;
        }
        // Code outside of all modules, where nothing else identifies a return address.
        if code.is_some() || memory.bytes_before(self.pc).is_some_and(arch::ends_in_call) {
            Rule::Chain
        } else {
            Rule::Nonsense
        }
    }

    /// Goes to the caller by the rule [`FRAME_RECORD`].
    #[inline]
    fn leave_record(&mut self, memory: &mut Memory) -> Option<()> {
        match memory.read_record(self.fp, self.sp) {
            Some([fp, pc]) => {
                let sp = self.fp.wrapping_add(16);
                self.fp = fp;
                self.called_by(pc, sp)
            }
            None => self.follow_chain(memory),
        }
    }

    /// Goes to the caller by a plain rule.
    #[inline(always)] // The loop's registers stay registers.
    fn leave_plain(
        &mut self,
        base: Base,
        cfa: i32,
        return_address: i32,
        frame_pointer: Option<i32>,
        memory: &mut Memory,
    ) -> Option<()> {
        let base = match base {
            Base::StackPointer => self.sp,
            Base::FramePointer => self.fp,
        };
        let cfa = base.wrapping_add_signed(cfa.into());
        // Each frame lies above the previous one; a caller at the same address has no frame of its own.
        if cfa < self.sp || (cfa == self.sp && !self.exact) {
            return None;
        }
        let pc = memory.read(cfa.wrapping_add_signed(return_address.into()))?;
        if let Some(at) = frame_pointer {
            self.fp = memory.read(cfa.wrapping_add_signed(at.into()))?;
        }
        self.called_by(pc, cfa)
    }

    #[inline]
    fn called_by(&mut self, pc: u64, sp: u64) -> Option<()> {
        self.pc = arch::strip_signature(pc);
        self.sp = sp;
        self.exact = false;
        self.all_known = false;
        (self.pc != 0).then_some(())
    }

    /// Goes to the caller by the frame record at any address: the caller's frame pointer, then the return address (x86-64 psABI, 3.2.2; AAPCS64, 6.4.6).
    #[inline(never)]
    fn follow_chain(&mut self, memory: &mut Memory) -> Option<()> {
        let record = self.fp;
        if record < self.sp {
            return None;
        }
        let pc = memory.read(record.checked_add(8)?)?;
        self.fp = memory.read(record)?;
        self.called_by(pc, record.checked_add(16)?)
    }

    #[cold]
    #[inline(never)]
    fn leave_fully(&mut self, snapshot: Option<&Snapshot>, memory: &mut Memory) -> Option<()> {
        let mut registers = if self.all_known { self.all } else { Registers::unknown() };
        registers.set(arch::PC, self.pc);
        registers.set(arch::SP, self.sp);
        registers.set(arch::FP, self.fp);
        let tables = snapshot?.find(self.address())?.tables?;
        let (caller, exact) = tables.caller(self.address(), self.exact, &registers, memory)?;
        let caller = Frame::new(caller, exact);
        if exact {
            // The signal may have interrupted any stack.
            memory.enter(caller.sp);
        } else if caller.pc == 0 || caller.sp < self.sp || (caller.sp == self.sp && !self.exact) {
            return None;
        }
        *self = caller;
        Some(())
    }

    #[cold]
    #[inline(never)]
    fn leave_called(&mut self, memory: &mut Memory) -> Option<()> {
        match arch::LINK_REGISTER {
            Some(register) => self.called_by(self.all.get(register)?, self.sp),
            None => self.called_by(memory.read(self.sp)?, self.sp.checked_add(8)?),
        }
    }

    #[cold]
    #[inline(never)]
    fn leave_signal(&mut self, memory: &mut Memory) -> Option<()> {
        *self = Frame::new(arch::interrupted(self.sp, memory)?, true);
        memory.enter(self.sp);
        Some(())
    }
}
