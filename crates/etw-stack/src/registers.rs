//! The registers of a frame.

use crate::arch;

/// Register values by DWARF number; some are unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Registers {
    values: [u64; arch::COUNT],
    /// A bit for each known register.
    known: u64,
}

impl Registers {
    /// All registers unknown.
    pub(crate) fn unknown() -> Registers {
        Registers { values: [0; arch::COUNT], known: 0 }
    }

    /// The caller's registers that calls preserve.
    #[allow(unsafe_code)]
    #[inline(always)]
    pub(crate) fn here() -> Registers {
        let mut here = Registers { values: [0; arch::COUNT], known: arch::STORED };
        // SAFETY: writes the array and nothing else; follows the C ABI.
        unsafe { arch::store_registers(&raw mut here.values) };
        here
    }

    pub(crate) fn get(&self, register: usize) -> Option<u64> {
        (register < arch::COUNT && self.known >> register & 1 != 0)
            .then(|| self.values[register])
    }

    /// Does nothing for a register that is not kept (of vectors, for example).
    pub(crate) fn set(&mut self, register: usize, value: u64) {
        if let Some(place) = self.values.get_mut(register) {
            *place = value;
            self.known |= 1 << register;
        }
    }

    pub(crate) fn forget(&mut self, register: usize) {
        if register < arch::COUNT {
            self.known &= !(1 << register);
        }
    }
}
