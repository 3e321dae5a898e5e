//! [`ProgramSources`]: what a program or library says of its events, ready for a pack.

use super::{PackBuilder, Source, SourceKind, compiled, join};
use crate::mof;
use crate::parsed::Parsed;
use crate::tracelogging::program::{ProgramMetadata, to_blobs};
use crate::wevt::{self, Language, WevtError};
use etw_types::Guid;
use std::collections::BTreeSet;

/// The sources of one program: made on any thread, then added to a [`PackBuilder`].
#[derive(Clone, Debug, Default)]
pub struct ProgramSources {
    sources: Vec<Source>,
    warnings: Vec<String>,
}

impl ProgramSources {
    /// Reads a PE file or a bare WEVT_TEMPLATE: its compiled manifest, its TraceLogging metadata and its binary MOF. `texts`: files with texts that it
    /// lacks, which are PE files (`.mui`) or bare message tables; the first text of a message counts. `language`: the one that comes
    /// first, before English.
    ///
    /// # Errors
    /// It has none of them, or a damaged manifest alone.
    pub fn read(
        bytes: &[u8],
        texts: &[Vec<u8>],
        language: Option<&Language>,
    ) -> Result<ProgramSources, WevtError> {
        let mut program = ProgramSources::default();
        if wevt::is_bare(bytes) {
            program.manifest(vec![(wevt::TEMPLATES, bytes.to_vec())], texts, language)?;
            return Ok(program);
        }
        let manifest = wevt::template_parts(bytes).and_then(|mut parts| {
            program.add_texts(&mut parts, bytes, language);
            program.manifest(parts, texts, language)
        });
        program.metadata(bytes);
        program.classes(bytes);
        match manifest {
            Err(error) if program.sources.is_empty() => return Err(error),
            Err(WevtError::NoTemplates) | Ok(()) => {}
            Err(error) => program.warnings.push(error.to_string()),
        }
        Ok(program)
    }

    /// Adds the message tables of a PE file.
    fn add_texts(
        &mut self,
        parts: &mut Vec<(u8, Vec<u8>)>,
        file: &[u8],
        language: Option<&Language>,
    ) {
        match wevt::message_parts(file, language) {
            Ok(tables) => parts.extend(tables),
            Err(error) => self.warnings.push(wevt::lost_texts(&error)),
        }
    }

    fn manifest(
        &mut self,
        mut parts: Vec<(u8, Vec<u8>)>,
        texts: &[Vec<u8>],
        language: Option<&Language>,
    ) -> Result<(), WevtError> {
        for text in texts {
            match text.starts_with(b"MZ") {
                true => self.add_texts(&mut parts, text, language),
                // A bare table does not say its language.
                false => {
                    parts.push((wevt::LANGUAGE, vec![0, 0]));
                    parts.push((wevt::MESSAGES, text.clone()));
                }
            }
        }
        let joined = join(parts.iter().map(|(kind, part)| (*kind, &part[..])));
        let manifest = compiled(&joined)?;
        let providers = manifest.providers.iter();
        let guids = providers.flat_map(|one| [Some(one.guid), one.control_guid]).flatten();
        self.sources.push(Source::new(SourceKind::Compiled, &joined, guids.collect()));
        self.warnings.extend(manifest.warnings);
        Ok(())
    }

    fn metadata(&mut self, bytes: &[u8]) {
        let found = ProgramMetadata::find(bytes);
        let guids: BTreeSet<Guid> =
            found.providers.iter().filter_map(|provider| provider.guid).collect();
        if !found.providers.is_empty() || !found.events.is_empty() {
            self.sources.push(Source::new(SourceKind::TraceLogging, &to_blobs(&found), guids));
        }
        self.warnings.extend(found.warnings);
    }

    /// Classes of classic events in its binary MOF. Most such MOF has classes of other things.
    fn classes(&mut self, bytes: &[u8]) {
        for resource in wevt::binary_mof(bytes) {
            let Parsed { value: events, warnings } = mof::parse(resource);
            self.warnings.extend(warnings);
            if !events.is_empty() {
                let guids = events.iter().map(|event| event.class).collect();
                self.sources.push(Source::new(SourceKind::Mof, resource, guids));
            }
        }
    }

    /// Warnings about what was left out.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether it has a compiled manifest; otherwise it has TraceLogging metadata alone.
    pub fn has_manifest(&self) -> bool {
        self.sources.iter().any(|source| source.kind == SourceKind::Compiled)
    }

    /// The providers that it describes or names.
    pub fn providers(&self) -> impl Iterator<Item = Guid> {
        self.sources.iter().flat_map(|source| source.guids.iter().copied())
    }

    /// Bytes in a pack.
    pub fn size(&self) -> usize {
        self.sources.iter().map(|source| source.deflated.len()).sum()
    }
}

impl PackBuilder {
    /// Adds what a program says of its events.
    pub fn add_program(&mut self, name: &str, program: ProgramSources) {
        for source in program.sources {
            self.put_source(name, source);
        }
    }
}
