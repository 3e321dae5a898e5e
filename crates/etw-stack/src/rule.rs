//! The rule for one address: how to get from a frame to its caller.

/// The register from which the caller's stack pointer is counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Base {
    StackPointer,
    FramePointer,
}

/// How to get from a frame at a certain address to its caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    /// The canonical frame address (CFA), which is the caller's stack pointer, lies `cfa` bytes from the base; the return
    /// address and the caller's frame pointer (unless it was not changed) so many bytes from the CFA.
    Plain { base: Base, cfa: i32, return_address: i32, frame_pointer: Option<i32> },
    /// Unwind information of any other form.
    Full,
    /// Code without unwind information: only its frame pointer leads to the caller.
    Chain,
    /// Interrupted before the called function did anything: the return address is where the call put it.
    Called,
    /// A handler returns here; the interrupted registers lie on the stack.
    Signal,
    /// The outermost frame.
    End,
    /// The address is not a return address.
    Nonsense,
}

/// The rule of every function with a frame pointer, behind its prologue, packed: the CFA is two words above the frame
/// pointer, which points to the caller's; the return address lies between.
pub(crate) const FRAME_RECORD: u64 = PLAIN
    | 1 << 4
    | 16 << 5
    | (-1_i64 as u64 & ((1 << SLOT_BITS) - 1)) << 30
    | 1 << 46
    | (-2_i64 as u64 & ((1 << SLOT_BITS) - 1)) << 47;

const PLAIN: u64 = 1;
const FULL: u64 = 2;
const CHAIN: u64 = 3;
const SIGNAL: u64 = 4;
const END: u64 = 5;
const CALLED: u64 = 6;

/// Sizes in bits of a packed plain rule's parts, from bit 4 on: base, CFA, return address, has a frame pointer, frame
/// pointer. The last three parts count words.
const CFA_BITS: u32 = 25;
const SLOT_BITS: u32 = 16;

impl Rule {
    /// The rule as a word that is not 0, if the rule may be cached and fits.
    pub(crate) fn pack(self) -> Option<u64> {
        Some(match self {
            Rule::Plain { base, cfa, return_address, frame_pointer } => {
                let base = u64::from(base == Base::FramePointer);
                let cfa = bits(cfa, CFA_BITS)?;
                let return_address = slot(return_address)?;
                let saved = u64::from(frame_pointer.is_some());
                let frame_pointer = slot(frame_pointer.unwrap_or(0))?;
                PLAIN
                    | base << 4
                    | cfa << 5
                    | return_address << 30
                    | saved << 46
                    | frame_pointer << 47
            }
            Rule::Full => FULL,
            Rule::Chain => CHAIN,
            Rule::Called => CALLED,
            Rule::Signal => SIGNAL,
            Rule::End => END,
            // Not cached: code may be loaded at this address later.
            Rule::Nonsense => return None,
        })
    }

    /// Unpacks a rule.
    #[inline]
    pub(crate) fn unpack(packed: u64) -> Option<Rule> {
        let part = |from: u32, bits: u32| ((packed << (64 - from - bits)) as i64 >> (64 - bits)) as i32;
        Some(match packed & 15 {
            PLAIN => Rule::Plain {
                base: if packed & 16 != 0 { Base::FramePointer } else { Base::StackPointer },
                cfa: part(5, CFA_BITS),
                return_address: part(30, SLOT_BITS) * 8,
                frame_pointer: (packed >> 46 & 1 != 0).then(|| part(47, SLOT_BITS) * 8),
            },
            FULL => Rule::Full,
            CHAIN => Rule::Chain,
            CALLED => Rule::Called,
            SIGNAL => Rule::Signal,
            END => Rule::End,
            _ => return None,
        })
    }
}

fn slot(offset: i32) -> Option<u64> {
    if offset % 8 == 0 { bits(offset / 8, SLOT_BITS) } else { None }
}

/// The lowest bits of a number, if they hold it.
fn bits(number: i32, bits: u32) -> Option<u64> {
    let low = number as u32 & ((1 << bits) - 1);
    (((low << (32 - bits)) as i32 >> (32 - bits)) == number).then_some(u64::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_rules_come_back() {
        let plain = |base, cfa, return_address, frame_pointer| Rule::Plain {
            base,
            cfa,
            return_address,
            frame_pointer,
        };
        for rule in [
            plain(Base::FramePointer, 16, -8, Some(-16)),
            plain(Base::StackPointer, 8, -8, None),
            plain(Base::StackPointer, (1 << 24) - 1, 8 * 32767, Some(-8 * 32768)),
            plain(Base::FramePointer, -(1 << 24), -8 * 32768, Some(8 * 32767)),
            Rule::Full,
            Rule::Chain,
            Rule::Called,
            Rule::Signal,
            Rule::End,
        ] {
            let packed = rule.pack().unwrap();
            assert_ne!(packed, 0);
            assert_eq!(Rule::unpack(packed), Some(rule));
        }
    }

    #[test]
    fn frame_record_is_packed_right() {
        let rule = Rule::Plain {
            base: Base::FramePointer,
            cfa: 16,
            return_address: -8,
            frame_pointer: Some(-16),
        };
        assert_eq!(rule.pack(), Some(FRAME_RECORD));
    }

    #[test]
    fn rules_that_do_not_fit_are_not_packed() {
        let plain = |cfa, return_address, frame_pointer| {
            Rule::Plain { base: Base::StackPointer, cfa, return_address, frame_pointer }.pack()
        };
        assert_eq!(plain(1 << 24, -8, None), None);
        assert_eq!(plain(8, -4, None), None);
        assert_eq!(plain(8, -8, Some(8 * 32768)), None);
        assert_eq!(Rule::Nonsense.pack(), None);
        assert_eq!(Rule::unpack(0), None);
    }
}
