//! Events of `Universal.System`, by which PerfView learns of processes, mappings and symbols of Linux.
//!
//! Numbers are ULEB128, texts UTF-8 behind their size in two bytes; the process is that of the header. Source: PerfView's document on
//! universal providers and TraceEvent's parser.

use crate::field::Field;
use crate::schema::{Names, Schema};
use etw_tracelogging::{Show, Wire};
use etw_types::{Guid, UNIVERSAL_SYSTEM};
use std::sync::LazyLock;

const PROVIDER_NAME: &str = "Universal.System";

/// Events by their ids. `n`: a number, `x`: an address, `s`: a text.
const EVENTS: [(&str, &str); 6] = [
    ("ExistingProcess", "NamespaceId:n Name:s NamespaceName:s"),
    ("ProcessCreate", "NamespaceId:n Name:s NamespaceName:s"),
    ("ProcessExit", ""),
    ("ProcessMapping", "Id:n StartAddress:x EndAddress:x FileOffset:x FileName:s MetadataId:n"),
    ("ProcessSymbol", "Id:n MappingId:n StartAddress:x EndAddress:x Name:s"),
    ("ProcessMappingMetadata", "Id:n SymbolMetadata:s VersionMetadata:s"),
];

static SCHEMAS: LazyLock<[Schema; 6]> = LazyLock::new(|| EVENTS.map(|(name, f)| schema(name, f)));

/// The schema of an event.
pub(crate) fn event(provider: &Guid, id: u16) -> Option<&'static Schema> {
    SCHEMAS.get(usize::from(id)).filter(|_| *provider == UNIVERSAL_SYSTEM)
}

fn schema(name: &str, fields: &str) -> Schema {
    let field = |text: &str| {
        let (name, code) = text.split_once(':').unwrap_or((text, ""));
        let (wire, show) = match code {
            "s" => (Wire::CountedAnsi, Show::Utf8),
            "x" => (Wire::VarUint, Show::Hex),
            _ => (Wire::VarUint, Show::Plain),
        };
        Field::new(name, wire, show)
    };
    let fields: Vec<Field> = fields.split_ascii_whitespace().map(field).collect();
    let (provider, event) = (Some(PROVIDER_NAME.to_owned()), Some(name.to_owned()));
    let (names, count) = (Names { provider, event, ..Names::default() }, fields.len());
    Schema::new(names, fields, count)
}

#[cfg(test)]
mod tests {
    use crate::{Decoder, Style};
    use etw_types::{EventRecord, HeaderType};

    fn texts(id: u16, payload: &[u8]) -> Option<Vec<(String, String)>> {
        let mut record = EventRecord::new(HeaderType::Event64, payload);
        (record.provider, record.descriptor.id) = (Some(etw_types::UNIVERSAL_SYSTEM), id);
        let mut decoder = Decoder::new();
        let decoded = decoder.decode(&record);
        assert_eq!(decoded.provider_name().as_deref(), Some("Universal.System"));
        decoded.fields_text(&record, &Style::default()).ok()
    }

    /// OV-23: the events by which PerfView finds symbols of ELF files.
    #[test]
    fn mappings_and_symbols_are_decoded() {
        let mapping =
            b"\x81\x01\x80\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x04\x00/a.\xc3\x05";
        let found = texts(3, mapping).unwrap();
        let values: Vec<&str> = found.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["129", "0x1000", "0xffffffffffffffff", "0x0", "/a.\u{fffd}", "5"]);
        let symbol = b"\x01\x02\x10\x1f\x03\x00f()";
        let found = texts(4, symbol).unwrap();
        assert_eq!(found[4], ("Name".to_owned(), "f()".to_owned()));
        assert!(texts(2, b"").is_some());
    }

    /// Damaged numbers are no numbers: they end behind the payload, or have more than 64 bits.
    #[test]
    fn damaged_numbers_are_refused() {
        for bad in [&b"\x80"[..], &[0xff; 12], b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", b""] {
            assert!(texts(5, bad).is_none(), "{bad:?}");
        }
    }
}
