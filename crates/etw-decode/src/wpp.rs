//! WPP: formats of trace messages, from TMF files, programs and the annotations of PDBs.
//!
//! ```text
//! GUID component // SRC=file MJ= MN=
//! #typev file_line number "%0 text %10!d! %11!s!" // LEVEL=… FLAGS=… FUNC=…
//! {
//! expression, ItemLong -- 10
//! expression, ItemListByte(a,b) -- 11
//! }
//! ```
//!
//! Source: Microsoft's documentation of TMF files and WPP types; the grammar checked on TMF files that `tracepdb` made. Lines outside of the
//! grammar are left out with a warning.

use crate::schema::Schema;
use crate::text::CodePage;
use etw_types::Guid;

pub(crate) mod format;
#[cfg(feature = "pdb")]
pub mod pdb;
mod prefix;
mod printf;
pub mod program;
mod tmf;

pub use prefix::{Prefix, PrefixFacts};
pub use tmf::parse_tmf;

/// A message of a provider.
#[derive(Clone, Debug)]
pub struct WppMessage {
    /// Its GUID, one for a source file of a component.
    pub guid: Guid,
    /// Its number.
    pub number: u16,
    /// Names and arguments; [`Decoded::message`](crate::Decoded::message) is the text.
    pub schema: Schema,
}

/// Text as it is in files of formats.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    match encoding_rs::Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding.decode_with_bom_removal(bytes).0.into_owned(),
        None => crate::text::Text::Ansi(bytes).to_str(CodePage::default()).into_owned(),
    }
}

#[cfg(test)]
mod tests;
