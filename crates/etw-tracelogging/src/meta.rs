//! [`EventMetadata`]: the metadata of an event, read in place.

use std::iter::FusedIterator;

use crate::cursor::Cursor;
use crate::error::MetadataError;
use crate::types::{InType, OutType, flags};

/// The metadata of one event: its name, its tag, and its fields.
///
/// It comes with the event as extended data of type 11 (`EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL`):
///
/// ```text
/// u16   size of the blob, these two bytes included
/// u8…   the event's tag: at least one byte, another after each that has bit 7 set; seven bits each, the most
///       significant first; bytes past the fourth are ignored
/// u8…   the event's name, UTF-8, NUL
/// …     fields (see Field) up to the end
/// ```
#[derive(Clone, Copy, Debug)]
pub struct EventMetadata<'a> {
    bytes: &'a [u8],
    name: &'a [u8],
    tag: u32,
    fields_offset: usize,
}

impl<'a> EventMetadata<'a> {
    /// Reads the head of a blob; bytes behind the end its size gives it are ignored.
    ///
    /// # Errors
    ///
    /// The size is below 4 (too small for a tag and a NUL) or above `blob.len()`; the tag or the name does not end.
    pub fn parse(blob: &'a [u8]) -> Result<EventMetadata<'a>, MetadataError> {
        let mut cursor = Cursor::open(blob, 4)?;
        let tag = cursor.tag()?;
        let name = cursor.name()?;
        Ok(EventMetadata { bytes: cursor.bytes, name, tag, fields_offset: cursor.offset })
    }

    /// The event's name without its NUL: UTF-8 if the writer kept to the rules.
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// The 28 bits whose meaning the provider gives; 0 where none were given.
    pub fn tag(&self) -> u32 {
        self.tag
    }

    /// The blob from its size to its last field: equal bytes describe equal events.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The fields in the order written, members of structs among them.
    ///
    /// Ends after the first error: the start of the next field is not known.
    pub fn fields(&self) -> Fields<'a> {
        Fields { cursor: Cursor { bytes: self.bytes, offset: self.fields_offset } }
    }
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Count {
    /// One; a custom field too.
    Scalar,
    /// An array of this many, with no count in the payload.
    Fixed(u16),
    /// An array whose `u16` count of values precedes them in the payload.
    Variable,
}

/// The metadata of a custom-serialised field (`TraceLoggingCustom`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Custom<'a> {
    /// 0–31: which family of serializers wrote the payload; 0–4 are Microsoft's.
    pub protocol: u8,
    /// The schema that this family needs to decode it.
    pub schema: &'a [u8],
}

/// One field of an event.
///
/// ```text
/// u8…   the field's name, UTF-8, NUL
/// u8    InType byte: type | count flags | 0x80 if an OutType byte follows
/// u8    [that flag] OutType byte: type | 0x80 if a tag follows
/// u8…   [that flag] tag, encoded as the event's
/// u16   [count flags 0x20] number of values
/// u16,  [count flags 0x60] size of the custom schema, and the schema
/// u8…
/// ```
///
/// The payload of a custom field is a `u16` byte count and the bytes, as [`InType::BINARY`]'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Field<'a> {
    /// Without its NUL: UTF-8 if the writer kept to the rules.
    pub name: &'a [u8],
    /// How the value is encoded. [`InType::BINARY`] for a custom field, whose InType byte holds the protocol in the
    /// type's place: that is the field a decoder sees that does not know custom fields.
    pub in_type: InType,
    /// How the value is shown; [`OutType::NULL`] for a struct, whose OutType byte counts its members.
    pub out_type: OutType,
    /// How many values it has.
    pub count: Count,
    /// Protocol and schema of a custom field.
    pub custom: Option<Custom<'a>>,
    /// For [`InType::STRUCT`] the number of fields behind it that are its members, a struct among them counting, with
    /// all of its members, as one; 0–127. For any other type 0. Whether so many follow is not checked here.
    pub struct_field_count: u8,
    /// The 28 bits whose meaning the provider gives; 0 where none were given.
    pub tag: u32,
}

impl<'a> Field<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Field<'a>, MetadataError> {
        let name = cursor.name()?;
        let in_byte = cursor.u8()?;
        let out_byte = if in_byte & flags::CHAIN != 0 { cursor.u8()? } else { 0 };
        let tag = if out_byte & flags::CHAIN != 0 { cursor.tag()? } else { 0 };
        let mut field = Field {
            name,
            in_type: InType(in_byte & flags::TYPE_MASK),
            out_type: OutType(out_byte & flags::OUT_TYPE_MASK),
            count: Count::Scalar,
            custom: None,
            struct_field_count: 0,
            tag,
        };
        match in_byte & flags::COUNT_MASK {
            flags::CCOUNT => field.count = Count::Fixed(cursor.u16()?),
            flags::VCOUNT => field.count = Count::Variable,
            flags::CUSTOM => field.read_custom(cursor)?,
            _ => {}
        }
        field.move_struct_field_count();
        Ok(field)
    }

    fn read_custom(&mut self, cursor: &mut Cursor<'a>) -> Result<(), MetadataError> {
        let schema_size = cursor.u16()?;
        let schema = cursor.take(usize::from(schema_size))?;
        self.custom = Some(Custom { protocol: self.in_type.0, schema });
        self.in_type = InType::BINARY;
        Ok(())
    }

    /// Runs after the custom test: protocol 24 is not a struct.
    fn move_struct_field_count(&mut self) {
        if self.in_type == InType::STRUCT {
            self.struct_field_count = self.out_type.0;
            self.out_type = OutType::NULL;
        }
    }
}

/// The fields of an event, from [`EventMetadata::fields`].
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    cursor: Cursor<'a>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, MetadataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.is_at_end() {
            return None;
        }
        let field = Field::read(&mut self.cursor);
        if field.is_err() {
            self.cursor.offset = self.cursor.bytes.len();
        }
        Some(field)
    }
}

impl FusedIterator for Fields<'_> {}

/// The name in an event's metadata (`u16` size, tag bytes, name, NUL), for filters: the rest is not looked at. Async-signal-safe.
pub fn event_name(metadata: &[u8]) -> Option<&[u8]> {
    let behind_size = metadata.get(2..)?;
    let tags = behind_size.iter().position(|byte| byte & 0x80 == 0)?;
    let name = &behind_size[tags + 1..];
    Some(&name[..name.iter().position(|byte| *byte == 0)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::MetadataErrorKind;

    /// The head of an event named `E`, then `fields`, then two bytes that are not the blob's.
    fn blob(fields: &[u8]) -> Vec<u8> {
        let size = 5 + fields.len() as u16;
        [&size.to_le_bytes(), &b"\0E\0"[..], fields, &[0xee, 0xee]].concat()
    }

    fn first_field(fields: &[u8]) -> Result<Option<Field<'static>>, MetadataError> {
        let blob = blob(fields).leak();
        EventMetadata::parse(blob).unwrap().fields().next().transpose()
    }

    #[test]
    fn head_is_checked() {
        use MetadataErrorKind::*;
        let parse = |blob: &'static [u8]| EventMetadata::parse(blob).err();
        assert_eq!(parse(&[]), Some(Truncated { needed: 2, room: 0 }.at(0)));
        assert_eq!(parse(&[3, 0, 0]), Some(BadSize { size: 3, room: 3 }.at(0)));
        assert_eq!(parse(&[5, 0, 0, 0]), Some(BadSize { size: 5, room: 4 }.at(0)));
        assert_eq!(parse(&[4, 0, 0x80, 0x80, 0, 0]), Some(UnterminatedTag.at(2)));
        assert_eq!(parse(&[4, 0, 0, b'E', 0]), Some(UnterminatedName.at(3)));
        assert_eq!(parse(&[4, 0, 0, 0]), None);
    }

    #[test]
    fn bytes_past_the_size_are_ignored() {
        let blob = blob(b"");
        let metadata = EventMetadata::parse(&blob).unwrap();
        assert_eq!(metadata.as_bytes(), &blob[..5]);
        assert_eq!(metadata.fields().next(), None);
    }

    #[test]
    fn malicious_fields_end_the_iteration() {
        use MetadataErrorKind::*;
        for (fields, error) in [
            (&b"name"[..], UnterminatedName.at(5)),
            (b"n\0", Truncated { needed: 1, room: 0 }.at(7)),
            (b"n\0\x84", Truncated { needed: 1, room: 0 }.at(8)),
            (b"n\0\x84\x80", UnterminatedTag.at(9)),
            (b"n\0\x84\x80\xff\xff\xff\xff\xff", UnterminatedTag.at(9)),
            (b"n\0\x24\x01", Truncated { needed: 2, room: 1 }.at(8)),
            (b"n\0\x65\x04\x00abc", Truncated { needed: 4, room: 3 }.at(10)),
        ] {
            let blob = blob(fields);
            let found: Vec<_> = EventMetadata::parse(&blob).unwrap().fields().collect();
            assert_eq!(found, [Err(error)]);
        }
    }

    #[test]
    fn tags_ignore_what_follows_the_fourth_byte() {
        let long = b"n\0\x84\x80\x80\x80\x81\x82\x83\x04";
        assert_eq!(first_field(long).unwrap().unwrap().tag, 0x82);
    }

    /// TC-4
    #[test]
    fn a_custom_protocol_is_not_a_type() {
        for protocol in 0..32 {
            let field = first_field(&[b'c', 0, 0x60 | protocol, 1, 0, 0xab]).unwrap().unwrap();
            assert_eq!(field.in_type, InType::BINARY);
            assert_eq!((field.count, field.struct_field_count), (Count::Scalar, 0));
            assert_eq!(field.custom, Some(Custom { protocol, schema: &[0xab] }));
        }
    }

    #[test]
    fn custom_field_may_have_an_out_type() {
        let field = first_field(&[b'c', 0, 0xf8, 4, 0, 0]).unwrap().unwrap();
        assert_eq!((field.out_type, field.struct_field_count), (OutType::HEX, 0));
    }

    #[test]
    fn struct_without_out_type_has_no_members() {
        let field = first_field(b"s\0\x18").unwrap().unwrap();
        assert_eq!((field.in_type, field.struct_field_count), (InType::STRUCT, 0));
    }

    #[test]
    fn errors_say_where() {
        let error = EventMetadata::parse(&[9, 0, 0, 0]).unwrap_err();
        let text = "TraceLogging metadata, offset 0: size 9 of a blob that has 4 bytes";
        assert_eq!(error.to_string(), text);
    }
}
