//! DWARF expressions in unwind tables (DWARF 5, 2.5 and 6.4.2): signal frames, procedure linkage tables and realigned stacks
//! have them.

use gimli::{Encoding, EndianSlice, Expression, NativeEndian, Operation};

use crate::memory::Memory;
use crate::registers::Registers;

/// Expressions of compilers have depth 3 and some ten operations; the limits end hostile ones.
const DEPTH: usize = 16;
const OPERATIONS: usize = 256;

/// A stack of values.
struct Stack {
    values: [u64; DEPTH],
    len: usize,
}

impl Stack {
    fn push(&mut self, value: u64) -> Option<()> {
        *self.values.get_mut(self.len)? = value;
        self.len += 1;
        Some(())
    }

    fn pop(&mut self) -> Option<u64> {
        self.len = self.len.checked_sub(1)?;
        Some(self.values[self.len])
    }

    /// The value `index` places below the top.
    fn pick(&self, index: usize) -> Option<u64> {
        Some(self.values[self.len.checked_sub(index.checked_add(1)?)?])
    }
}

/// The value of an expression, if all registers and memory that it reads are known. The stack starts with `initial`: the CFA, unless
/// the expression computes the CFA itself.
pub(crate) fn evaluate(
    expression: Expression<EndianSlice<'_, NativeEndian>>,
    encoding: Encoding,
    initial: Option<u64>,
    registers: &Registers,
    memory: &mut Memory,
) -> Option<u64> {
    let whole = expression.0;
    let mut code = whole;
    let mut stack = Stack { values: [0; DEPTH], len: 0 };
    if let Some(initial) = initial {
        stack.push(initial)?;
    }
    for _ in 0..OPERATIONS {
        if code.is_empty() {
            return stack.pop();
        }
        let value = match Operation::parse(&mut code, encoding).ok()? {
            Operation::Nop => continue,
            Operation::Drop => {
                stack.pop()?;
                continue;
            }
            Operation::Swap => {
                let (b, a) = (stack.pop()?, stack.pop()?);
                stack.push(b)?;
                a
            }
            Operation::Rot => {
                let (c, b, a) = (stack.pop()?, stack.pop()?, stack.pop()?);
                stack.push(c)?;
                stack.push(a)?;
                b
            }
            Operation::Skip { target } => {
                code = jump(whole, code, target)?;
                continue;
            }
            Operation::Bra { target } => {
                if stack.pop()? != 0 {
                    code = jump(whole, code, target)?;
                }
                continue;
            }
            Operation::Pick { index } => stack.pick(index.into())?,
            Operation::UnsignedConstant { value } => value,
            Operation::SignedConstant { value } => value as u64,
            Operation::Address { address } => address,
            Operation::RegisterOffset { register, offset, .. } => {
                registers.get(register.0.into())?.wrapping_add(offset as u64)
            }
            Operation::Deref { size: 8, space: false, .. } => memory.read(stack.pop()?)?,
            Operation::PlusConstant { value } => stack.pop()?.wrapping_add(value),
            Operation::Abs => (stack.pop()? as i64).unsigned_abs(),
            Operation::Neg => stack.pop()?.wrapping_neg(),
            Operation::Not => !stack.pop()?,
            operation => {
                let (b, a) = (stack.pop()?, stack.pop()?);
                binary(operation, a, b)?
            }
        };
        stack.push(value)?;
    }
    None
}

/// Operations on two values; comparisons and divisions are of signed numbers (2.5.1.4, 2.5.1.5).
fn binary(operation: Operation<EndianSlice<'_, NativeEndian>>, a: u64, b: u64) -> Option<u64> {
    let (x, y) = (a as i64, b as i64);
    let shift = u32::try_from(b).ok();
    Some(match operation {
        Operation::And => a & b,
        Operation::Or => a | b,
        Operation::Xor => a ^ b,
        Operation::Plus => a.wrapping_add(b),
        Operation::Minus => a.wrapping_sub(b),
        Operation::Mul => a.wrapping_mul(b),
        Operation::Div => x.checked_div(y)? as u64,
        Operation::Mod => a.checked_rem(b)?,
        Operation::Shl => shift.and_then(|by| a.checked_shl(by)).unwrap_or(0),
        Operation::Shr => shift.and_then(|by| a.checked_shr(by)).unwrap_or(0),
        Operation::Shra => (x >> b.min(63)) as u64,
        Operation::Eq => u64::from(x == y),
        Operation::Ge => u64::from(x >= y),
        Operation::Gt => u64::from(x > y),
        Operation::Le => u64::from(x <= y),
        Operation::Lt => u64::from(x < y),
        Operation::Ne => u64::from(x != y),
        _ => return None,
    })
}

/// The code at a distance in bytes from the end of the operation.
fn jump<'a>(
    whole: EndianSlice<'a, NativeEndian>,
    code: EndianSlice<'a, NativeEndian>,
    target: i16,
) -> Option<EndianSlice<'a, NativeEndian>> {
    let at = (whole.len() - code.len()).checked_add_signed(target.into())?;
    (at <= whole.len()).then(|| whole.range_from(at..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(code: &[u8], initial: Option<u64>) -> Option<u64> {
        let encoding =
            Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
        let mut registers = Registers::unknown();
        registers.set(7, 0x1000);
        registers.set(1, 0x2f);
        let code = Expression(EndianSlice::new(code, NativeEndian));
        evaluate(code, encoding, initial, &registers, &mut Memory::new(0))
    }

    #[test]
    fn the_expression_of_the_linkage_table_is_evaluated() {
        // CFA of x86-64's PLT: sp + 8 + ((pc & 15) >= 11) * 8, here with register 1 for pc.
        let code = [0x77, 8, 0x71, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        assert_eq!(value(&code, None), Some(0x1010));
    }

    #[test]
    fn each_operation_has_its_value() {
        let two = |op| value(&[0x08, 7, 0x09, 0xfe, op], None); // 7, -2
        assert_eq!(two(0x1b), Some(-3_i64 as u64)); // div
        assert_eq!(two(0x1c), Some(9)); // minus
        assert_eq!(two(0x2b), Some(1)); // gt, signed
        assert_eq!(two(0x24), Some(0)); // shl by far too much
        assert_eq!(two(0x26), Some(0)); // shra
        assert_eq!(value(&[0x31, 0x32, 0x33, 0x17, 0x1c], None), Some((1_i64 - 2) as u64)); // rot, minus
        assert_eq!(value(&[0x31, 0x32, 0x16, 0x1c], None), Some(1)); // swap, minus
        assert_eq!(value(&[0x31, 0x32, 0x14], None), Some(1)); // over
        assert_eq!(value(&[0x23, 5], Some(10)), Some(15)); // plus_uconst on the CFA
        assert_eq!(value(&[0x31, 0x28, 1, 0, 0x96, 0x35], None), Some(5)); // bra
    }

    #[test]
    fn memory_is_read() {
        let word = Box::new(0x55aa_u64);
        let mut code = vec![0x03];
        code.extend(((&raw const *word) as u64).to_ne_bytes());
        code.push(0x06);
        assert_eq!(value(&code, None), Some(0x55aa));
    }

    #[test]
    fn malicious_expressions_have_no_value() {
        for code in [
            &[][..],                    // nothing to give
            &[0x22],                    // plus of nothing
            &[0x30, 0x06],              // reads address 0
            &[0x2f, 0xfd, 0xff],        // jumps to itself for ever
            &[0x2f, 0x00, 0x80],        // jumps out
            &[0x31; 17],                // too deep
            &[0x31, 0x30, 0x1b],        // divides by 0
            &[0x72, 0],                 // a register that is not known
            &[0x50],                    // a location, not a value
            &[0x92, 0xff, 0x7f, 0],     // a register that does not exist
            &[0x31, 0x15, 0xff],        // picks from below
        ] {
            assert_eq!(value(code, None), None, "{code:x?}");
        }
    }
}
