//! The names of the log modes that write a file.

use std::fmt;

/// The name of a log mode that writes a file, without its sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum FileMode {
    /// [`crate::LogMode::Sequential`]
    #[default]
    Sequential,
    /// [`crate::LogMode::Circular`]
    Circular,
    /// [`crate::LogMode::NewFile`]
    NewFile,
    /// [`crate::LogMode::Append`]
    Append,
}

impl FileMode {
    /// All modes.
    pub const ALL: [FileMode; 4] =
        [FileMode::Sequential, FileMode::Circular, FileMode::NewFile, FileMode::Append];

    /// The mode's word in settings and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            FileMode::Sequential => "sequential",
            FileMode::Circular => "circular",
            FileMode::NewFile => "new-file",
            FileMode::Append => "append",
        }
    }

    /// The mode's line in help texts.
    pub const fn description(self) -> &'static str {
        match self {
            FileMode::Sequential => "Write buffers one after another; stop at the maximum size",
            FileMode::Circular => "Overwrite the file's oldest events at the maximum size",
            FileMode::NewFile => {
                "Start a new file at each maximum size; %d in the file's name is its number"
            }
            FileMode::Append => "Write behind what the file holds already",
        }
    }
}

impl fmt::Display for FileMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
