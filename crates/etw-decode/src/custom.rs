//! Decoders of custom-serialised fields (`TraceLoggingCustom`), by protocol.

use std::fmt;

/// What a decoder makes of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rendered {
    /// JSON text, as it is in JSON and in other formats.
    Json(String),
    /// Text; a string in JSON.
    Text(String),
}

/// Decodes the fields of a protocol. A function or closure of the same arguments is one, too.
pub trait CustomDecoder: Send + Sync {
    /// What the value says; `None` where `data` is not what the protocol makes. Both come from a trace and may be anything.
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
    /// None.
    pub const fn new() -> CustomDecoders {
        CustomDecoders { by_protocol: [None; 32] }
    }

    /// With one more, in place of what decoded the protocol before.
    ///
    /// # Panics
    /// For a protocol above 31: there is none.
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

    /// Is there a decoder of the protocol?
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

/// CBOR (RFC 8949) as JSON: byte strings as hex, tags as what they tag, keys that are no text as their JSON text, `undefined`
/// and other simple values as null, numbers that are not finite as strings.
///
/// Whatever the bytes say, the work and the text are bounded: by the data's length, and by 64 levels.
#[cfg(feature = "cbor")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Cbor;

#[cfg(feature = "cbor")]
impl CustomDecoder for Cbor {
    fn render(&self, _schema: &[u8], data: &[u8]) -> Option<Rendered> {
        let mut rest = data;
        let value: ciborium::Value =
            ciborium::de::from_reader_with_recursion_limit(&mut rest, 64).ok()?;
        // What stands behind the value is nobody's.
        if !rest.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        write_cbor(&mut out, &value);
        String::from_utf8(out).ok().map(Rendered::Json)
    }
}

#[cfg(feature = "cbor")]
fn write_cbor(out: &mut Vec<u8>, value: &ciborium::Value) {
    use crate::text::write_json_string;
    use ciborium::Value;
    match value {
        Value::Integer(number) => out.extend_from_slice(i128::from(*number).to_string().as_bytes()),
        Value::Bytes(bytes) => {
            out.push(b'"');
            crate::value::write_hex_bytes(out, bytes);
            out.push(b'"');
        }
        Value::Float(number) => {
            crate::Value::F64(*number).write_json(out, &crate::Style::default());
        }
        Value::Text(text) => write_json_string(out, text),
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Tag(_, value) => write_cbor(out, value),
        Value::Array(values) => {
            out.push(b'[');
            for (number, value) in values.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                write_cbor(out, value);
            }
            out.push(b']');
        }
        Value::Map(pairs) => {
            out.push(b'{');
            for (number, (key, value)) in pairs.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                match key {
                    Value::Text(text) => write_json_string(out, text),
                    _ => {
                        let mut text = Vec::new();
                        write_cbor(&mut text, key);
                        write_json_string(out, &String::from_utf8_lossy(&text));
                    }
                }
                out.push(b':');
                write_cbor(out, value);
            }
            out.push(b'}');
        }
        _ => out.extend_from_slice(b"null"),
    }
}

#[cfg(all(test, feature = "cbor"))]
mod tests {
    use super::*;

    fn json(data: &[u8]) -> Option<String> {
        match Cbor.render(&[], data)? {
            Rendered::Json(text) => Some(text),
            Rendered::Text(text) => panic!("{text}"),
        }
    }

    /// Examples of RFC 8949, appendix A.
    #[test]
    fn cbor_is_json() {
        for (data, expected) in [
            (&b"\x00"[..], "0"),
            (b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff", "-18446744073709551616"),
            (b"\xf9\x3e\x00", "1.5"),
            (b"\xf9\x7e\x00", "\"NaN\""),
            (b"\xf5", "true"),
            (b"\xf6", "null"),
            (b"\xf7", "null"),
            (b"\x44\x01\x02\x03\x04", "\"01020304\""),
            (b"\x62\x22\x5c", r#""\"\\""#),
            (b"\xc1\x1a\x51\x4b\x67\xb0", "1363896240"),
            (b"\x82\x01\x81\x02", "[1,[2]]"),
            (b"\xa2\x61a\x01\x61b\x82\x02\x03", r#"{"a":1,"b":[2,3]}"#),
            (b"\xa1\x01\x02", r#"{"1":2}"#),
            (b"\xbf\x61a\x01\xff", r#"{"a":1}"#),
        ] {
            assert_eq!(json(data).as_deref(), Some(expected), "{data:x?}");
        }
    }

    /// P5: what is no CBOR, cut, followed by something, too deep, or claims more than there is.
    #[test]
    fn hostile_cbor() {
        assert_eq!(json(b""), None);
        assert_eq!(json(b"\x01\x02"), None);
        assert_eq!(json(b"\x82\x01"), None);
        assert_eq!(json(b"\xff"), None);
        assert_eq!(json(&[0x81; 100_000]), None);
        assert_eq!(json(b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff\x01"), None);
        assert_eq!(json(b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff\x01"), None);
        assert_eq!(json(b"\xbb\x00\xff\xff\xff\xff\xff\xff\xff"), None);
    }
}
