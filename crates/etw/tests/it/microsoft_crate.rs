//! The bytes of Microsoft's crate `tracelogging_dynamic`, read from `EventBuilder`'s derived `Debug`.

use tracelogging_dynamic::{EventBuilder, Level, Provider};

/// An event `E` with level 5 and keyword 1, which are the defaults of `write_event!`.
pub fn event() -> EventBuilder {
    let mut event = EventBuilder::new();
    event.reset("E", Level::Verbose, 1, 0);
    event
}

/// The bytes of `name: [1, 2, 3]` in a derived `Debug`.
fn printed_bytes(event: &EventBuilder, name: &str) -> Vec<u8> {
    let text = format!("{event:?}");
    let (_, list) = text.split_once(&format!("{name}: [")).expect("field in Debug text");
    let (list, _) = list.split_once(']').unwrap();
    list.split(", ").filter(|item| !item.is_empty()).map(|item| item.parse().unwrap()).collect()
}

/// Metadata and payload. The event is written, which fills its size in, to a provider that nobody registered.
pub fn bytes(event: &mut EventBuilder) -> (Vec<u8>, Vec<u8>) {
    let provider = Provider::new("P", &Provider::options());
    event.write(&provider, None, None);
    (printed_bytes(event, "meta"), printed_bytes(event, "data"))
}
