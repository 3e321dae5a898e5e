//! Compiled manifests: WEVT_TEMPLATE resources, as PE resources or bare files, and their message tables.
//!
//! Offsets count from CRIM. A text is u32 size with these four bytes, UTF-16, NUL.
//!
//! ```text
//! "CRIM" u32 size, u16 major (3, from SDK 18362 on 5), u16 minor, u32 providers, each { GUID, u32 offset of WEVT }
//! "WEVT" u32 size, u32 message, u32 slots, each { u32 kind, u32 offset of a block, 0 for none }
//! block: u32 signature, u32 size (0 if it is empty), u32 count, entries:
//!   PRVA  u32 kind, u32 offset          10000001 provider name (UTF-16, NUL), 20000001 control GUID, 20000002 group GUID
//!   CHAN  u32 flags (1 imported), u32 name, u32 value, u32 message
//!   LEVL  u32 value, u32 message, u32 name
//!   OPCO  u16 task, u16 value, u32 message, u32 name
//!   TASK  u32 value, u32 message, GUID, u32 name
//!   KEYW  u64 mask, u32 message, u32 name
//!   MAPS  u32 offset of { "VMAP" or "BMAP", u32 size, u32 name, u32 flags, u32 n, n × { u32 value, u32 message } }
//!   EVTA  u8 kind (11 name, 12 attributes), u8 version, u16 id, u32 offset of UTF-16 with NUL
//!   EVNT  u32 0 before the entries; 48 bytes: EVENT_DESCRIPTOR, u32 message, u32 offsets of template, opcode, level, task,
//!         u32 keywords, u32 offset of their offsets, u32 offset of the channel
//!   TTBL  "TEMP" u32 size, u32 top-level properties, u32 properties, u32 offset of the properties, u32 kind, GUID, binary XML
//! property, 20 bytes: u32 flags, u8 in-type, u8 out-type, u16 0 (of a struct: u16 first member, u16 members), u32 map,
//!   u16 count, u16 length, u32 name; members of structs stand behind all top-level properties
//!   flags: 1 struct, 2 fixed length, 4 length of a property, 8 fixed count, 10 count of a property
//! ```
//!
//! Source: what `mc.exe` of three SDKs makes of public manifests; the format as documented by the libfwevt project. Unknown kinds of
//! blocks (pattern maps, filters) are skipped.

mod language;
mod messages;
mod pe;
mod reader;

pub use language::Language;
pub(crate) use language::UNDETERMINED;
pub use messages::Messages;

use crate::provider::Manifest;
use pe::{Kind, resources};
use std::fmt;

/// Why a file has no schemas.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WevtError {
    /// It is not a PE file; the message of the PE reader.
    NotPe(String),
    /// It has no WEVT_TEMPLATE resource.
    NoTemplates,
    /// The resource is cut or refers beyond its end.
    Bad {
        /// Bytes from the start of the resource.
        offset: usize,
        /// The item that was expected there.
        what: &'static str,
    },
    /// It describes more than any program has: its blocks overlap.
    TooMuch,
}

impl fmt::Display for WevtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WevtError::NotPe(what) => write!(f, "neither a manifest nor a PE file: {what}"),
            WevtError::NoTemplates => f.write_str(
                "a PE file without a WEVT_TEMPLATE resource, TraceLogging metadata and classes of events",
            ),
            WevtError::Bad { offset, what } => {
                write!(f, "bad WEVT_TEMPLATE resource: {what} was expected at offset {offset:#x}")
            }
            WevtError::TooMuch => {
                f.write_str("bad WEVT_TEMPLATE resource: it describes more than a program can have")
            }
        }
    }
}

impl std::error::Error for WevtError {}

/// Whether bytes are a bare WEVT_TEMPLATE resource, as `mc.exe` writes it to a `.bin`.
pub fn is_bare(bytes: &[u8]) -> bool {
    bytes.starts_with(b"CRIM")
}

/// Whether a PE file has message tables.
pub fn has_messages(file: &[u8]) -> bool {
    resources(file, &Kind::MESSAGE_TABLE, None).is_ok_and(|tables| !tables.is_empty())
}

/// The providers of a WEVT_TEMPLATE resource, with warnings about what is damaged or unknown in it.
///
/// # Errors
/// [`WevtError::Bad`] if it does not begin as one; [`WevtError::TooMuch`].
pub fn parse(blob: &[u8], messages: &Messages) -> Result<Manifest, WevtError> {
    reader::read(blob, messages)
}

/// The providers of a PE file. `messages`: texts of other files, for those that it lacks.
///
/// # Errors
/// [`WevtError`].
pub fn parse_pe(file: &[u8], messages: &Messages) -> Result<Manifest, WevtError> {
    let blobs = resources(file, &Kind::WEVT_TEMPLATE, None)?;
    let mut texts = Messages::default();
    let lost = texts.add_pe(file).err();
    texts.fill(messages);
    let mut all = parse_all(blobs.into_iter().map(|blob| blob.bytes), &texts)?;
    lost.into_iter().for_each(|error| all.warn(lost_texts(&error)));
    if all.providers.is_empty() { Err(WevtError::NoTemplates) } else { Ok(all) }
}

/// The warning about texts that cannot be read.
pub(crate) fn lost_texts(error: &WevtError) -> String {
    format!("its texts are left out: {error}")
}

/// The providers of several WEVT_TEMPLATE resources, as of several languages. A bad one costs itself, and a warning, if there are others.
///
/// # Errors
/// The error of the first resource, if none has a provider; `TooMuch`.
pub(crate) fn parse_all<'b>(
    blobs: impl Iterator<Item = &'b [u8]>,
    messages: &Messages,
) -> Result<Manifest, WevtError> {
    let (mut all, mut first_error) = (Manifest::default(), None);
    for blob in blobs {
        match parse(blob, messages) {
            Ok(one) => all.append(one),
            Err(error @ WevtError::Bad { .. }) => {
                all.warn(error.to_string());
                first_error = first_error.or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    match first_error {
        Some(error) if all.providers.is_empty() => Err(error),
        _ => Ok(all),
    }
}

/// Kinds of the parts of a PE file that describe events.
pub(crate) const TEMPLATES: u8 = 1;
pub(crate) const MESSAGES: u8 = 2;
/// The number of the language of the messages behind it.
pub(crate) const LANGUAGE: u8 = 3;

/// The WEVT_TEMPLATE resources of a PE file.
pub(crate) fn template_parts(file: &[u8]) -> Result<Vec<(u8, Vec<u8>)>, WevtError> {
    let templates = resources(file, &Kind::WEVT_TEMPLATE, None)?;
    if templates.is_empty() {
        return Err(WevtError::NoTemplates);
    }
    Ok(templates.into_iter().map(|blob| (TEMPLATES, blob.bytes.to_vec())).collect())
}

/// The binary MOF in a PE file.
pub(crate) fn binary_mof(file: &[u8]) -> Vec<&[u8]> {
    let found = resources(file, &Kind::MOF_DATA, None).unwrap_or_default();
    found.into_iter().map(|resource| resource.bytes).collect()
}

/// The message tables of a PE file: those in the wanted language, then those in English, come first.
pub(crate) fn message_parts(
    file: &[u8],
    language: Option<&Language>,
) -> Result<Vec<(u8, Vec<u8>)>, WevtError> {
    let tables = resources(file, &Kind::MESSAGE_TABLE, language)?;
    let parts = tables.into_iter().flat_map(|table| {
        let language = table.language.unwrap_or(0).to_le_bytes();
        [(LANGUAGE, language.to_vec()), (MESSAGES, table.bytes.to_vec())]
    });
    Ok(parts.collect())
}

#[cfg(test)]
mod tests;
