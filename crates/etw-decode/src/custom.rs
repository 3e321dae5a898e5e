//! Decoders of custom-serialised fields (`TraceLoggingCustom`), by protocol.

use std::fmt;

/// The result of a decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rendered {
    /// JSON text, as it is in JSON and in other formats.
    Json(String),
    /// Text; a string in JSON.
    Text(String),
}

/// Decodes the fields of a protocol. A function or closure of the same arguments is one, too.
pub trait CustomDecoder: Send + Sync {
    /// Decodes a value; `None` if `data` is not of the protocol. Both slices come from a trace and may contain anything.
    fn render(&self, schema: &[u8], data: &[u8]) -> Option<Rendered>;
}

impl<F: Fn(&[u8], &[u8]) -> Option<Rendered> + Send + Sync> CustomDecoder for F {
    fn render(&self, schema: &[u8], data: &[u8]) -> Option<Rendered> {
        self(schema, data)
    }
}

/// The decoders that are known, by protocol: in a static, for [`Style::custom`](crate::Style::custom).
///
/// ```
/// use etw_decode::{CustomDecoders, Rendered, Style};
///
/// fn roman(_schema: &[u8], data: &[u8]) -> Option<Rendered> {
///     Some(Rendered::Text("I".repeat(*data.first()? as usize % 4)))
/// }
///
/// static DECODERS: CustomDecoders = CustomDecoders::new().with(9, &roman);
/// let style = Style { custom: Some(&DECODERS), ..Style::default() };
/// # let _ = style;
/// ```
pub struct CustomDecoders {
    by_protocol: [Option<&'static dyn CustomDecoder>; 32],
}

impl CustomDecoders {
    /// Creates an empty table.
    pub const fn new() -> CustomDecoders {
        CustomDecoders { by_protocol: [None; 32] }
    }

    /// Adds a decoder; it replaces an earlier one of the same protocol.
    ///
    /// # Panics
    /// `protocol` is above 31.
    #[must_use]
    pub const fn with(
        mut self,
        protocol: u8,
        decoder: &'static dyn CustomDecoder,
    ) -> CustomDecoders {
        assert!(protocol < 32, "protocols are 0 to 31");
        self.by_protocol[protocol as usize] = Some(decoder);
        self
    }

    /// Whether there is a decoder of the protocol.
    pub fn knows(&self, protocol: u8) -> bool {
        self.by_protocol.get(usize::from(protocol)).is_some_and(Option::is_some)
    }

    pub(crate) fn render(&self, protocol: u8, schema: &[u8], data: &[u8]) -> Option<Rendered> {
        self.by_protocol.get(usize::from(protocol))?.as_ref()?.render(schema, data)
    }
}

impl Default for CustomDecoders {
    fn default() -> CustomDecoders {
        CustomDecoders::new()
    }
}

impl fmt::Debug for CustomDecoders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.by_protocol.iter().enumerate().filter(|(_, decoder)| decoder.is_some());
        f.debug_list().entries(known.map(|(protocol, _)| protocol)).finish()
    }
}
