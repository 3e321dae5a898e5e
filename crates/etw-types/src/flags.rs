//! `flags!`: newtypes of bit masks that print Microsoft's names.

/// Declares a newtype of bit flags.
///
/// Each flag names its value and the spelling that `Display`, `Debug` and the documentation's search use.
#[doc(hidden)]
#[macro_export]
macro_rules! flags {
    ($(#[$doc:meta])* $name:ident($ty:ty) { $($(#[$bit_doc:meta])* $bit:ident = $value:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub $ty);

        impl $name {
            /// No flag.
            pub const NONE: $name = $name(0);
            $($(#[$bit_doc])* #[doc(alias = $text)] pub const $bit: $name = $name($value);)*

            /// Whether every flag of `other` is set.
            #[inline]
            pub const fn contains(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether at least one flag of `other` is set.
            #[inline]
            pub const fn intersects(self, other: $name) -> bool {
                self.0 & other.0 != 0
            }

            /// Whether no flag is set.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// The flags of both.
            #[inline]
            pub const fn union(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }

            /// These flags, those of `other` cleared.
            #[inline]
            pub const fn without(self, other: $name) -> $name {
                $name(self.0 & !other.0)
            }

            /// These flags if `condition` holds, else none.
            #[inline]
            pub const fn when(self, condition: bool) -> $name {
                if condition { self } else { $name(0) }
            }
        }

        impl ::core::ops::BitOr for $name {
            type Output = $name;

            #[inline]
            fn bitor(self, other: $name) -> $name {
                self.union(other)
            }
        }

        impl ::core::ops::BitOrAssign for $name {
            #[inline]
            fn bitor_assign(&mut self, other: $name) {
                *self = self.union(other);
            }
        }

        impl ::core::ops::BitAnd for $name {
            type Output = $name;

            #[inline]
            fn bitand(self, other: $name) -> $name {
                $name(self.0 & other.0)
            }
        }

        /// Microsoft's names joined by ` | `; bits without a name in hexadecimal; `0` if no bit is set.
        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                let mut rest = self.0;
                let mut separator = "";
                $(if rest & $value != 0 {
                    rest &= !$value;
                    f.write_str(separator)?;
                    f.write_str($text)?;
                    separator = " | ";
                })*
                match rest {
                    0 if !separator.is_empty() => Ok(()),
                    0 => f.write_str("0"),
                    _ => ::core::write!(f, "{separator}{rest:#x}"),
                }
            }
        }

        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::write!(f, "{}({self})", stringify!($name))
            }
        }
    };
}
