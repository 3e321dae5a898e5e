//! [`Cbor`]: a decoder of custom-serialised fields in CBOR.

use crate::custom::{CustomDecoder, Rendered};
use crate::hex::write_hex_bytes;
use crate::text::write_json_string;
use ciborium::Value;

/// CBOR (RFC 8949) as JSON: byte strings as hex, tags as what they tag, keys that are no text as their JSON text, `undefined`
/// and other simple values as null, numbers that are not finite as strings.
///
/// For any bytes, the work and the text are bounded by the length of the data and by 64 levels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cbor;

impl CustomDecoder for Cbor {
    fn render(&self, _schema: &[u8], data: &[u8]) -> Option<Rendered> {
        let mut rest = data;
        let value: Value = ciborium::de::from_reader_with_recursion_limit(&mut rest, 64).ok()?;
        // Bytes behind the value are not CBOR.
        if !rest.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        write_cbor(&mut out, &value);
        String::from_utf8(out).ok().map(Rendered::Json)
    }
}

fn write_cbor(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Integer(number) => out.extend_from_slice(i128::from(*number).to_string().as_bytes()),
        Value::Bytes(bytes) => {
            out.push(b'"');
            write_hex_bytes(out, bytes);
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

#[cfg(test)]
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

    /// P5: bytes that are not CBOR, or are cut, followed by others, too deep, or shorter than they say.
    #[test]
    fn malicious_cbor_gives_nothing() {
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
