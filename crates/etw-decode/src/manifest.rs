//! Instrumentation manifests in XML: what `mc` compiles, what EventSource writes into a trace, and the forms that public collections use:
//! PerfView's regenerated manifests, and WEPExplorer's XML.
//!
//! Real manifests are sloppy: parts that make no sense are left out with a warning. Only a text that is not XML, or has no
//! provider, is an error.
//!
//! Source: Microsoft's documentation of the instrumentation manifest's schema; names of types as in `winmeta.xml`.

mod compiler;
mod named_values;
mod wep;
mod xml;

use crate::parsed::Parsed;
pub use crate::provider::{
    ChannelConfig, KeywordName, Manifest, ManifestChannel, ManifestProvider, NamedValue,
    NamedValueKind, ProviderDescription, ProviderTexts,
};
use crate::wevt::WevtError;
use compiler::Compiler;
use std::fmt;
use xml::{ParsedXml, Tree, decode_text};

/// Text of a manifest that is looked at; Windows' largest have 3 MiB.
pub const SIZE_LIMIT: usize = 64 << 20;
/// Bytes of what is compiled: events that share a template each have a copy of it, which a hostile manifest could make much of.
const COMPILED_LIMIT: usize = 256 << 20;

/// Why a text is not a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ManifestError {
    /// Larger than [`SIZE_LIMIT`].
    TooLarge,
    /// The text is not XML from this offset on, before any provider.
    Xml {
        /// Bytes of the text, as UTF-8.
        offset: u64,
        /// The message of the XML reader.
        what: String,
    },
    /// There is no `provider` with a GUID.
    NoProvider,
    /// An ELF file that carries no schemas.
    NoCarriedSchemas,
    /// A PE file or resource without a compiled manifest, or with a damaged one.
    Compiled(WevtError),
}

impl From<WevtError> for ManifestError {
    fn from(error: WevtError) -> ManifestError {
        ManifestError::Compiled(error)
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManifestError::TooLarge => f.write_str("larger than 64 MiB"),
            ManifestError::Xml { offset, what } => {
                write!(f, "not XML from offset {offset} on: {what}")
            }
            ManifestError::Compiled(error) => error.fmt(f),
            ManifestError::NoCarriedSchemas => f.write_str(
                "an ELF file that carries no schemas of events; etw mc -elf makes an object with them to link",
            ),
            ManifestError::NoProvider => {
                f.write_str("not an instrumentation manifest: it has no <provider> with a guid")
            }
        }
    }
}

impl std::error::Error for ManifestError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ManifestError::Compiled(error) => Some(error),
            _ => None,
        }
    }
}

/// Reads a manifest: UTF-8, or UTF-16 with its mark.
///
/// # Errors
/// [`ManifestError`].
pub fn parse(bytes: &[u8]) -> Result<Manifest, ManifestError> {
    parse_within(bytes, COMPILED_LIMIT)
}

/// Past `limit` bytes of compiled events further ones are left out.
pub(crate) fn parse_within(bytes: &[u8], limit: usize) -> Result<Manifest, ManifestError> {
    if bytes.len() > SIZE_LIMIT {
        return Err(ManifestError::TooLarge);
    }
    let text = decode_text(bytes);
    let ParsedXml { tree: source, error } = Tree::parse(&text);
    let Parsed { value: tree, warnings } = match wep::to_manifest(&source) {
        Some(converted) => converted,
        None => Parsed { value: source, warnings: Vec::new() },
    };
    let mut compiler = Compiler::new(&tree, limit);
    warnings.into_iter().for_each(|warning| compiler.warn(warning));
    if let Some(error) = &error {
        compiler.warn(error.to_string());
        compiler.manifest.is_cut = true;
    }
    compiler.strings();
    for provider in tree.all("provider") {
        compiler.provider(provider);
    }
    match (compiler.manifest, error) {
        (manifest, error) if manifest.providers.is_empty() => {
            Err(error.unwrap_or(ManifestError::NoProvider))
        }
        (manifest, _) => Ok(manifest),
    }
}

#[cfg(test)]
mod tests;
