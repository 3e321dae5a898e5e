//! Whether a session compresses the buffers of its file.

use std::fmt;

/// Whether a session compresses the buffers of its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// No buffer.
    #[default]
    Off,
    /// Every buffer.
    On,
    /// The buffers that the disk does not take fast enough.
    Auto,
}

impl Compression {
    /// All of them.
    pub const ALL: [Compression; 3] = [Compression::Off, Compression::On, Compression::Auto];

    /// Its word on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::Off => "off",
            Compression::On => "on",
            Compression::Auto => "auto",
        }
    }

    /// Its line in help texts.
    pub const fn description(self) -> &'static str {
        match self {
            Compression::Off => "No buffer",
            Compression::On => "Every buffer",
            Compression::Auto => "The buffers that the disk does not take fast enough",
        }
    }

    /// Whether a file of the session may have compressed buffers, and so buffers of any length.
    pub const fn is_possible(self) -> bool {
        !matches!(self, Compression::Off)
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `false`, `true` or `"auto"`: the key was a truth value before there was a third one.
#[cfg(feature = "serde")]
impl serde::Serialize for Compression {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Compression::Off => serializer.serialize_bool(false),
            Compression::On => serializer.serialize_bool(true),
            Compression::Auto => serializer.serialize_str("auto"),
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Compression {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Compression;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("false, true or \"auto\"")
            }

            fn visit_bool<E: serde::de::Error>(self, is_on: bool) -> Result<Compression, E> {
                Ok(if is_on { Compression::On } else { Compression::Off })
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Compression, E> {
                match word {
                    "auto" => Ok(Compression::Auto),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(word), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
