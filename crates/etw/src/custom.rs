//! Custom-serialised fields (`TraceLoggingCustom`).

use std::fmt;

/// The encoding of a custom-serialised field: a number under which its decoders are registered.
///
/// Numbers 0 to 4 are Microsoft's; 5 to 31 are free for all.
#[doc(alias = "TRACELOGGING_PROTOCOL_MICROSOFT_RESERVED0")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// A protocol of Microsoft, 0 to 4.
    Microsoft(u8),
    /// A protocol of your own, 5 to 31.
    User(u8),
}

impl Protocol {
    /// The number; `None` if it is outside the variant's range.
    pub const fn number(self) -> Option<u8> {
        match self {
            Protocol::Microsoft(number @ 0..=4) | Protocol::User(number @ 5..=31) => Some(number),
            _ => None,
        }
    }

    #[track_caller]
    pub(crate) const fn number_or_panic(self) -> u8 {
        match self.number() {
            Some(number) => number,
            None => panic!("protocols are 5 to 31, Microsoft's 0 to 4"),
        }
    }

    /// The protocol with this number, as a decoder reads it; `None` above 31.
    pub const fn from_number(number: u8) -> Option<Protocol> {
        match number {
            0..=4 => Some(Protocol::Microsoft(number)),
            5..=31 => Some(Protocol::User(number)),
            _ => None,
        }
    }
}

impl fmt::Display for Protocol {
    /// The number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Protocol::Microsoft(number) | Protocol::User(number)) = self;
        fmt::Display::fmt(number, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TC-1
    #[test]
    fn numbers_belong_to_one_variant() {
        for number in 0..=255 {
            let microsoft = (number <= 4).then_some(number);
            let user = (5..=31).contains(&number).then_some(number);
            assert_eq!(Protocol::Microsoft(number).number(), microsoft);
            assert_eq!(Protocol::User(number).number(), user);
            let found = Protocol::from_number(number);
            assert_eq!(found.and_then(Protocol::number), microsoft.or(user));
        }
    }
}
