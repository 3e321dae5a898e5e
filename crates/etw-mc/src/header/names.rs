//! Names of the header's symbols, as Microsoft's `mc` makes them.

use crate::manifest::{Event, Provider};

/// A name as a C identifier: leading digits and every character outside of A–Z, a–z, 0–9 and `_` become `_`.
pub fn identifier(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut is_leading = true;
    for c in name.chars() {
        is_leading &= c.is_ascii_digit();
        out.push(if is_leading || !c.is_ascii_alphanumeric() { '_' } else { c });
    }
    out
}

/// A symbol of the manifest, or `SYM_KIND_name`.
pub fn symbol(provider: &Provider, symbol: Option<&str>, kind: &str, name: &str) -> String {
    match symbol {
        Some(symbol) => symbol.to_owned(),
        None => format!("{}_{kind}_{}", provider.symbol, identifier(name)),
    }
}

/// The name of an event's descriptor: its symbol, without a prefix that the options remove, or its numbers.
pub fn event(provider: &Provider, event: &Event, removed_prefix: &str) -> String {
    if let Some(symbol) = &event.symbol {
        let prefix = symbol.get(..removed_prefix.len());
        return match prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(removed_prefix)) {
            true => symbol[removed_prefix.len()..].to_owned(),
            false => symbol.clone(),
        };
    }
    let numbers = provider.numbers_of(event);
    format!(
        "{}_EVENT_0x{:x}_{:x}_{:x}_{:x}_{:x}_{:x}_{:x}",
        provider.symbol,
        event.id,
        event.version,
        provider.descriptor_channel(event),
        numbers.level.0,
        numbers.opcode,
        numbers.task,
        provider.keyword_of(event).0
    )
}
