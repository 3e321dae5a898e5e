//! A channel's settings as XML: what `wevtutil gl /f:xml` prints and `wevtutil sl /c:FILE` reads.

use crate::channel::{Change, Isolation};
use etw_types::{Keyword, Level};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::fmt;

/// Bytes of the text.
const MAX_TEXT: usize = 1 << 20;

/// A text that is not a channel's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigFileError {
    /// Offset in the text.
    pub offset: u64,
    /// The problem.
    pub what: String,
}

impl fmt::Display for ConfigFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {}: {}", self.offset, self.what)
    }
}

impl std::error::Error for ConfigFileError {}

/// The settings of a channel in XML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    /// The channel's name.
    pub name: String,
    /// The settings that the text has.
    pub change: Change,
}

/// Reads the settings of a channel. Elements and attributes that are not settings are ignored.
///
/// # Errors
/// Text that is not XML, has no `channel` with a name, or has a value that is not of its type.
pub fn parse(bytes: &[u8]) -> Result<ConfigFile, ConfigFileError> {
    let error = |offset, what: &str| ConfigFileError { offset, what: what.to_owned() };
    if bytes.len() > MAX_TEXT {
        return Err(error(MAX_TEXT as u64, "larger than the settings of a log (1 MiB)"));
    }
    let text = decode(bytes).ok_or_else(|| error(0, "the text is neither UTF-8 nor UTF-16"))?;
    let mut reader = Reader::from_str(&text);
    let mut path: Vec<String> = Vec::new();
    let (mut name, mut change) = (None, Change::default());
    loop {
        let offset = reader.buffer_position();
        let event = reader.read_event().map_err(|what| error(offset, &what.to_string()))?;
        let is_empty = matches!(event, Event::Empty(_));
        match event {
            Event::Start(start) | Event::Empty(start) => {
                let local = String::from_utf8_lossy(start.local_name().into_inner()).into_owned();
                path.push(local);
                if path.len() > 16 {
                    return Err(error(offset, "elements are nested too deeply"));
                }
                if path == ["channel"] {
                    name =
                        Some(attributes(&start, &mut change).map_err(|what| error(offset, &what))?);
                }
                if is_empty {
                    path.pop();
                }
            }
            Event::End(_) => {
                path.pop();
            }
            Event::Text(text) => {
                let value = text.decode().unwrap_or_default();
                let names: Vec<&str> = path.iter().map(String::as_str).collect();
                set(&names, value.trim(), &mut change).map_err(|what| error(offset, &what))?;
            }
            Event::Eof => break,
            _ => {}
        }
    }
    let name = name.flatten().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| error(0, "no channel element with a name"))?;
    Ok(ConfigFile { name, change })
}

fn decode(bytes: &[u8]) -> Option<String> {
    match bytes {
        [0xff, 0xfe, units @ ..] => {
            let units: Vec<u16> =
                units.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
            String::from_utf16(&units).ok()
        }
        [0xef, 0xbb, 0xbf, text @ ..] | text => String::from_utf8(text.to_vec()).ok(),
    }
}

fn attributes(start: &BytesStart<'_>, change: &mut Change) -> Result<Option<String>, String> {
    let mut name = None;
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|what| what.to_string())?;
        let value = attribute.unescape_value().map_err(|what| what.to_string())?.into_owned();
        match attribute.key.local_name().into_inner() {
            b"name" => name = Some(value),
            b"enabled" => change.is_enabled = Some(truth(&value)?),
            b"isolation" => {
                let isolation = Isolation::parse(&value);
                let what =
                    || format!("{value:?} is not an isolation: Application, System or Custom");
                change.isolation = Some(isolation.ok_or_else(what)?);
            }
            b"access" => change.access = Some(value),
            _ => {}
        }
    }
    Ok(name)
}

fn set(path: &[&str], value: &str, change: &mut Change) -> Result<(), String> {
    match path {
        ["channel", "logging", "logFileName"] => change.file = Some(value.into()),
        ["channel", "logging", "retention"] => change.retention = Some(truth(value)?),
        ["channel", "logging", "autoBackup"] => change.auto_backup = Some(truth(value)?),
        ["channel", "logging", "maxSize"] => change.max_size = Some(number(value)?),
        ["channel", "publishing", "level"] => {
            let level = u8::try_from(number(value)?);
            let level = level.map_err(|_| format!("{value}: a level is 0 to 255"))?;
            change.level = Some(Level(level));
        }
        ["channel", "publishing", "keywords"] => change.keywords = Some(Keyword(number(value)?)),
        _ => {}
    }
    Ok(())
}

fn truth(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let number = hex.map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    number.map_err(|_| format!("{text:?} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_from_xml() {
        let text = "<?xml version='1.0'?><channel name='Shop/Admin' isolation='custom' enabled='false' access='D:(A;;1;;;BA)' \
                    xmlns='http://schemas.microsoft.com/win/2004/08/events'><logging><maxSize>2097152</maxSize>\
                    <retention>true</retention><autoBackup>true</autoBackup></logging>\
                    <publishing><level>3</level><keywords>0x10</keywords><fileMax>1</fileMax></publishing></channel>";
        let ConfigFile { name, change } = parse(text.as_bytes()).unwrap();
        assert_eq!(name, "Shop/Admin");
        let expected = Change {
            is_enabled: Some(false),
            isolation: Some(Isolation::Custom),
            file: None,
            retention: Some(true),
            auto_backup: Some(true),
            max_size: Some(2 << 20),
            access: Some("D:(A;;1;;;BA)".to_owned()),
            level: Some(Level(3)),
            keywords: Some(Keyword(16)),
        };
        assert_eq!(change, expected);
        let mut wide = vec![0xff, 0xfe];
        wide.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
        assert_eq!(parse(&wide).unwrap().change, expected);
    }

    #[test]
    fn malicious_settings_are_rejected() {
        for text in [
            "",
            "<channel/>",
            "<channel name=''/>",
            "<x name='a'/>",
            "<channel name='a' enabled='maybe'/>",
            "<channel name='a'><logging><maxSize>-1</maxSize></logging></channel>",
            "<channel name='a'><publishing><level>999</level></publishing></channel>",
            "<channel name='a'",
            "\u{fffd}",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse("<a>".repeat(1000).as_bytes()).is_err());
        assert!(parse(&vec![b' '; MAX_TEXT + 1]).is_err());
        assert!(parse(&[0xff, 0xfe, 0x00, 0xd8]).is_err());
    }
}
