//! [`Renderer`]: names and the message of a record, as Windows adds them to rendered events.

use crate::translate::Translator;
use etw_decode::{Decoder, Style};
use etw_etl::record::RecordContext;
use etw_evtx::{Error, Record};
use etw_types::Level;
use std::fmt::Write;

/// The texts that a record's schema has for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendering {
    /// The language of the message and the names: `en-US`, or `und` if their source does not say.
    pub language: String,
    /// The message, with the values of the record.
    pub message: Option<String>,
    /// Name of the level.
    pub level: Option<String>,
    /// Name of the task.
    pub task: Option<String>,
    /// Name of the opcode.
    pub opcode: Option<String>,
    /// Name of the channel in the schema.
    pub channel: Option<String>,
    /// Name of the provider.
    pub provider: Option<String>,
    /// Names of the keywords.
    pub keywords: Vec<String>,
}

/// Finds the texts of records.
pub struct Renderer {
    translator: Translator,
    decoder: Decoder,
}

impl Renderer {
    /// A renderer with the schemas of a decoder.
    pub fn new(decoder: Decoder) -> Renderer {
        Renderer { translator: Translator::new(), decoder }
    }

    /// The texts of a record.
    ///
    /// # Errors
    /// [`Error::TooLarge`]: the record expands beyond all bounds.
    pub fn render(&mut self, record: &Record<'_>) -> Result<Rendering, Error> {
        let (bytes, _) = self.translator.stored(record)?;
        let Ok(event) = etw_etl::record::parse(bytes, &RecordContext::default()) else {
            unreachable!("the translator gives whole events");
        };
        let decoded = self.decoder.decode(&event);
        let names = decoded.names();
        Ok(Rendering {
            language: decoded.language().unwrap_or("en-US").to_owned(),
            message: decoded.message(&event, &Style::default()),
            level: level_name(event.descriptor.level),
            task: names.and_then(|names| names.task.clone()),
            opcode: names.and_then(|names| names.opcode.clone()),
            channel: names.and_then(|names| names.channel.clone()),
            provider: decoded.provider_name().map(|name| name.to_string()),
            keywords: names.map_or_else(Vec::new, |names| names.keywords.clone()),
        })
    }
}

impl Rendering {
    /// The XML of a record with its `RenderingInfo`.
    ///
    /// # Errors
    /// As [`Record::to_xml`].
    pub fn xml(&self, record: &Record<'_>) -> Result<String, Error> {
        let mut xml = record.to_xml()?;
        let end = xml.rfind("</Event>").unwrap_or(xml.len());
        xml.insert_str(end, &self.info());
        Ok(xml)
    }

    /// The element that Windows adds to rendered XML.
    fn info(&self) -> String {
        let language = escaped(&self.language).replace('\'', "&apos;");
        let mut xml = format!("<RenderingInfo Culture='{language}'>");
        for (element, value) in [
            ("Message", &self.message),
            ("Level", &self.level),
            ("Task", &self.task),
            ("Opcode", &self.opcode),
            ("Channel", &self.channel),
            ("Provider", &self.provider),
        ] {
            let value = escaped(value.as_deref().unwrap_or_default());
            // Writing to a String cannot fail.
            let _ = write!(xml, "<{element}>{value}</{element}>");
        }
        xml.push_str("<Keywords>");
        for keyword in &self.keywords {
            let _ = write!(xml, "<Keyword>{}</Keyword>", escaped(keyword));
        }
        xml + "</Keywords></RenderingInfo>"
    }
}

/// The name of a level as Windows shows it: events without a level are information.
fn level_name(level: Level) -> Option<String> {
    let name = match level {
        Level(0) | Level::INFO => Some("Information"),
        level => level.name(),
    };
    name.map(str::to_owned)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
