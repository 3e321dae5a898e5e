//! Events whose shape is known only at run time.

use etw_ring::prefix::Prefix;
use etw_tracelogging::{Count, EncodeError, InType, MetadataBuilder, OutType, PayloadBuilder};
use etw_types::{
    Channel, EventDescriptor, FileTime, Guid, Keyword, Level, Opcode, Status, SystemTime,
};

use crate::rt::{Plain, Text, U16, Zero8, Zero16};
use crate::write::{Event, TOO_LARGE, size_on_disk, write_any};
use crate::{Protocol, Provider};

/// Builds and writes TraceLogging events whose fields are known only at run time, as in a scripting language or a bridge from
/// another logging system. If the source names the fields, [`write_event!`](crate::write_event) costs a fraction.
///
/// Methods and arguments are those of `EventBuilder` in Microsoft's crate `tracelogging_dynamic`; arrays of constant count and
/// custom-serialised fields are added. Use one builder for many events: it keeps its memory.
///
/// ```
/// use etw::{EventBuilder, Guid, Keyword, Level, OutType, Provider};
///
/// let provider = Provider::dynamic("MyCompany.MyBridge", Guid::from_name("MyCompany.MyBridge"), None)?;
/// let _registration = provider.register_shared(None);
///
/// let mut event = EventBuilder::new();
/// if provider.is_enabled(Level::WARNING, Keyword(1)) {
///     let status = event
///         .reset("Opened", Level::WARNING, Keyword(1), 0)
///         .add_str8("path", "/etc/hosts", OutType::UTF8, 0)
///         .add_u32("error", 2, OutType::WIN32ERROR, 0)
///         .write(&provider, None, None);
///     assert!(status.is_success());
/// }
/// # Ok::<(), etw::Status>(())
/// ```
///
/// # Errors and loss
///
/// The builder remembers the first mistake (a name with a NUL, a tag over 28 bits, a struct without its members):
/// [`error`](EventBuilder::error) returns it, and [`write`](EventBuilder::write) returns `ERROR_INVALID_PARAMETER` (87). If a value or
/// the event is too large, the write returns `ERROR_ARITHMETIC_OVERFLOW` (534), and the event counts as lost. Nothing is
/// truncated.
#[derive(Clone, Debug, Default)]
pub struct EventBuilder {
    descriptor: EventDescriptor,
    meta: MetadataBuilder,
    payload: PayloadBuilder,
}

macro_rules! numbers {
    ($($scalar:ident, $sequence:ident, $array:ident: $ty:ty, $in_type:expr, $what:literal;)*) => {$(
        #[doc = concat!("Adds a field: ", $what, ".")]
        pub fn $scalar(&mut self, name: &str, value: $ty, out_type: OutType, tag: u32) -> &mut Self {
            self.raw_add_meta_scalar(name, $in_type, out_type, tag)
                .raw_add_data_value($in_type, &value.to_le_bytes())
        }

        #[doc = concat!("Adds an array of variable count: ", $what, ".")]
        pub fn $sequence<'a>(
            &mut self,
            name: &str,
            values: impl IntoIterator<Item = &'a $ty>,
            out_type: OutType,
            tag: u32,
        ) -> &mut Self {
            self.raw_add_meta_vcount(name, $in_type, out_type, tag).sequence(values, |event, value| {
                event.raw_add_data_value($in_type, &value.to_le_bytes());
            })
        }

        #[doc = concat!("Adds an array whose count is part of the metadata: ", $what, ".")]
        pub fn $array(&mut self, name: &str, values: &[$ty], out_type: OutType, tag: u32) -> &mut Self {
            // If the count is too long, `array` reports it to the payload builder.
            let count = u16::try_from(values.len()).unwrap_or(0);
            self.raw_add_meta_ccount(name, $in_type, out_type, count, tag).array(values, |event, value| {
                event.raw_add_data_value($in_type, &value.to_le_bytes());
            })
        }
    )*};
}

macro_rules! texts {
    ($($scalar:ident, $sequence:ident: [$unit:ty], $in_type:ident, |$value:ident| $bytes:expr, $what:literal;)*) => {$(
        #[doc = concat!("Adds a field: ", $what, ".")]
        pub fn $scalar(
            &mut self,
            name: &str,
            value: impl AsRef<[$unit]>,
            out_type: OutType,
            tag: u32,
        ) -> &mut Self {
            let $value = value.as_ref();
            self.raw_add_meta_scalar(name, InType::$in_type, out_type, tag)
                .raw_add_data_value(InType::$in_type, $bytes)
        }

        #[doc = concat!("Adds an array of variable count: ", $what, ".")]
        pub fn $sequence<I: IntoIterator<Item: AsRef<[$unit]>>>(
            &mut self,
            name: &str,
            values: I,
            out_type: OutType,
            tag: u32,
        ) -> &mut Self {
            self.raw_add_meta_vcount(name, InType::$in_type, out_type, tag).sequence(values, |event, value| {
                let $value = value.as_ref();
                event.raw_add_data_value(InType::$in_type, $bytes);
            })
        }
    )*};
}

macro_rules! structures {
    ($($scalar:ident, $sequence:ident: $argument:ty, $ty:ty, $in_type:ident, |$value:ident| $bytes:expr, $what:literal;)*) => {$(
        #[doc = concat!("Adds a field: ", $what, ".")]
        pub fn $scalar(&mut self, name: &str, $value: $argument, out_type: OutType, tag: u32) -> &mut Self {
            self.raw_add_meta_scalar(name, InType::$in_type, out_type, tag)
                .raw_add_data_value(InType::$in_type, $bytes)
        }

        #[doc = concat!("Adds an array of variable count: ", $what, ".")]
        pub fn $sequence<'a>(
            &mut self,
            name: &str,
            values: impl IntoIterator<Item = &'a $ty>,
            out_type: OutType,
            tag: u32,
        ) -> &mut Self {
            self.raw_add_meta_vcount(name, InType::$in_type, out_type, tag).sequence(values, |event, $value| {
                event.raw_add_data_value(InType::$in_type, $bytes);
            })
        }
    )*};
}

const POINTER_SIZE: u8 = size_of::<usize>() as u8;
const INT_POINTER: InType = InType::int_ptr(POINTER_SIZE);
const UINT_POINTER: InType = InType::uint_ptr(POINTER_SIZE);
const HEX_POINTER: InType = InType::hex_pointer(POINTER_SIZE);

impl EventBuilder {
    /// A builder without an event: [`reset`](Self::reset) starts one.
    pub fn new() -> EventBuilder {
        EventBuilder::default()
    }

    /// Starts an event with a name, level, keyword and 28-bit tag (0: none). The rest has its default: opcode Info, channel 11, no
    /// id.
    pub fn reset(&mut self, name: &str, level: Level, keyword: Keyword, tag: u32) -> &mut Self {
        self.descriptor = EventDescriptor {
            channel: Channel::TRACE_LOGGING,
            level,
            keyword,
            ..EventDescriptor::default()
        };
        self.meta = std::mem::take(&mut self.meta).restart(name, tag);
        self.payload = std::mem::take(&mut self.payload).restart();
        self
    }

    /// Sets the opcode.
    pub fn opcode(&mut self, opcode: Opcode) -> &mut Self {
        self.descriptor.opcode = opcode;
        self
    }

    /// Sets the task.
    pub fn task(&mut self, task: u16) -> &mut Self {
        self.descriptor.task = task;
        self
    }

    /// Sets the channel.
    pub fn channel(&mut self, channel: Channel) -> &mut Self {
        self.descriptor.channel = channel;
        self
    }

    /// Sets the event's id and version.
    pub fn id_version(&mut self, id: u16, version: u8) -> &mut Self {
        self.descriptor.id = id;
        self.descriptor.version = version;
        self
    }

    /// The first mistake since the last [`reset`](Self::reset).
    pub fn error(&mut self) -> Option<EncodeError> {
        self.meta.as_bytes().err().or(self.payload.as_bytes().err())
    }

    /// Writes the event to the sessions that want it. The same event can be written again.
    ///
    /// Without `activity_id` the event carries the thread's current one.
    ///
    /// # Errors
    /// Those of [`write_event!`](crate::write_event), and those of [the type](EventBuilder).
    pub fn write(
        &mut self,
        provider: &Provider,
        activity_id: Option<&Guid>,
        related_activity_id: Option<&Guid>,
    ) -> Status {
        let descriptor = self.descriptor;
        if !provider.has_level(descriptor.level) {
            return Status::ERROR_SUCCESS;
        }
        let routes = provider.routes(descriptor.level, descriptor.keyword);
        if routes == 0 {
            return Status::ERROR_SUCCESS;
        }
        // An event that is too large goes on to the ring, which refuses and counts it.
        let (metadata, payload, payload_size) =
            match (self.meta.as_bytes(), self.payload.as_bytes()) {
                (Ok(metadata), Ok(payload)) => {
                    (metadata, payload, payload.len().min(TOO_LARGE as usize))
                }
                (Err(EncodeError::MetadataTooLong { .. }), _) => {
                    (&[][..], &[][..], TOO_LARGE as usize)
                }
                (Ok(metadata), Err(EncodeError::ValueTooLong { .. })) => {
                    (metadata, &[][..], TOO_LARGE as usize)
                }
                _ => return Status::ERROR_INVALID_PARAMETER,
            };
        let activity_id = activity_id.copied().unwrap_or_else(crate::activity::current);
        let prefix = Prefix {
            descriptor: Some(descriptor),
            activity_id: (!activity_id.is_zero()).then_some(activity_id),
            related_activity_id: related_activity_id.copied(),
            metadata,
            ..Prefix::default()
        };
        let event = Event {
            site: None,
            prefix,
            user: 0,
            payload_size: payload_size as u32,
            event_size: size_on_disk(provider.traits().len(), metadata.len()),
        };
        write_any(provider, routes, &event, &|room| room.put(payload))
    }

    numbers! {
        add_i8, add_i8_sequence, add_i8_array: i8, InType::INT8, "`i8`";
        add_u8, add_u8_sequence, add_u8_array: u8, InType::UINT8, "`u8`, also 8-bit characters and booleans";
        add_i16, add_i16_sequence, add_i16_array: i16, InType::INT16, "`i16`";
        add_u16, add_u16_sequence, add_u16_array: u16, InType::UINT16, "`u16`, also UTF-16 characters and ports";
        add_i32, add_i32_sequence, add_i32_array: i32, InType::INT32, "`i32`";
        add_u32, add_u32_sequence, add_u32_array: u32, InType::UINT32, "`u32`";
        add_i64, add_i64_sequence, add_i64_array: i64, InType::INT64, "`i64`";
        add_u64, add_u64_sequence, add_u64_array: u64, InType::UINT64, "`u64`";
        add_isize, add_isize_sequence, add_isize_array: isize, INT_POINTER, "`isize`";
        add_usize, add_usize_sequence, add_usize_array: usize, UINT_POINTER, "`usize`";
        add_f32, add_f32_sequence, add_f32_array: f32, InType::FLOAT, "`f32`";
        add_f64, add_f64_sequence, add_f64_array: f64, InType::DOUBLE, "`f64`";
        add_bool32, add_bool32_sequence, add_bool32_array: i32, InType::BOOL32, "a boolean of 32 bits";
        add_hex32, add_hex32_sequence, add_hex32_array: u32, InType::HEXINT32, "`u32`, shown in hexadecimal";
        add_hex64, add_hex64_sequence, add_hex64_array: u64, InType::HEXINT64, "`u64`, shown in hexadecimal";
        add_hexsize, add_hexsize_sequence, add_hexsize_array: usize, HEX_POINTER, "`usize`, shown in hexadecimal";
    }

    texts! {
        add_str8, add_str8_sequence: [u8], COUNTEDANSISTRING, |value| value, "a counted string of bytes, UTF-8 if the out type says so";
        add_str16, add_str16_sequence: [u16], COUNTEDSTRING, |value| units(value), "a counted string of UTF-16";
        add_cstr8, add_cstr8_sequence: [u8], ANSISTRING, |value| Zero8::cut(value), "a string of bytes up to the first NUL";
        add_cstr16, add_cstr16_sequence: [u16], UNICODESTRING, |value| units(Zero16::cut(value)), "a string of UTF-16 up to the first NUL";
        add_binaryc, add_binaryc_sequence: [u8], COUNTEDBINARY, |value| value, "bytes, as Windows knows them since 2018";
        add_sid, add_sid_sequence: [u8], SID, |value| value, "a security identifier";
    }

    /// Adds a field: bytes.
    pub fn add_binary(
        &mut self,
        name: &str,
        value: impl AsRef<[u8]>,
        out_type: OutType,
        tag: u32,
    ) -> &mut Self {
        self.raw_add_meta_scalar(name, InType::BINARY, out_type, tag)
            .raw_add_data_value(InType::BINARY, value.as_ref())
    }

    structures! {
        add_guid, add_guid_sequence: &Guid, Guid, GUID, |value| &value.0, "a GUID";
        add_filetime, add_filetime_sequence: FileTime, FileTime, FILETIME, |value| &value.0.to_le_bytes(), "a time, 100 ns units since 1601";
        add_systemtime, add_systemtime_sequence: &SystemTime, SystemTime, SYSTEMTIME, |value| &system_time(value), "a calendar time, whose parts are not checked";
    }

    /// Adds a struct: the next `member_count` fields (1–127) are its members. A struct among them counts as one, with all its members.
    pub fn add_struct(&mut self, name: &str, member_count: u8, tag: u32) -> &mut Self {
        self.change_meta(|meta| meta.structure(name, member_count, Count::Scalar, tag))
    }

    /// Adds a custom-serialised field: bytes for a decoder that is registered for `protocol`, and the `schema` that it needs (TC-1).
    #[doc(alias = "TraceLoggingCustom")]
    pub fn add_custom(
        &mut self,
        name: &str,
        value: impl AsRef<[u8]>,
        protocol: Protocol,
        schema: &[u8],
        tag: u32,
    ) -> &mut Self {
        // The metadata builder refuses 255, and remembers the mistake.
        let number = protocol.number().unwrap_or(u8::MAX);
        self.change_meta(|meta| meta.custom(name, number, schema, tag))
            .raw_add_data_value(InType::BINARY, value.as_ref())
    }

    /// Adds a field of any type, without a value: `raw_add_data_…` adds it.
    pub fn raw_add_meta_scalar(
        &mut self,
        name: &str,
        in_type: InType,
        out_type: OutType,
        tag: u32,
    ) -> &mut Self {
        self.change_meta(|meta| meta.field(name, in_type, out_type, Count::Scalar, tag))
    }

    /// Adds an array of variable count, without values: add the count and as many values next.
    pub fn raw_add_meta_vcount(
        &mut self,
        name: &str,
        in_type: InType,
        out_type: OutType,
        tag: u32,
    ) -> &mut Self {
        self.change_meta(|meta| meta.field(name, in_type, out_type, Count::Variable, tag))
    }

    /// Adds an array of constant count, without values.
    pub fn raw_add_meta_ccount(
        &mut self,
        name: &str,
        in_type: InType,
        out_type: OutType,
        count: u16,
        tag: u32,
    ) -> &mut Self {
        self.change_meta(|meta| meta.field(name, in_type, out_type, Count::Fixed(count), tag))
    }

    /// Adds an array of structs of variable count. Next add the metadata of `member_count` members, then the count, then the values
    /// of each struct.
    pub fn raw_add_struct_vcount(&mut self, name: &str, member_count: u8, tag: u32) -> &mut Self {
        self.change_meta(|meta| meta.structure(name, member_count, Count::Variable, tag))
    }

    /// Adds the count before the values of an array of variable count.
    pub fn raw_add_data_count(&mut self, count: usize) -> &mut Self {
        self.change_payload(|payload| payload.count(count))
    }

    /// Adds one value: its bytes without count or terminator.
    pub fn raw_add_data_value(&mut self, in_type: InType, value: &[u8]) -> &mut Self {
        self.change_payload(|payload| payload.value(in_type, value))
    }

    /// Adds bytes to the payload as they are.
    pub fn raw_add_data(&mut self, bytes: &[u8]) -> &mut Self {
        self.change_payload(|payload| payload.raw(bytes))
    }

    fn change_meta(
        &mut self,
        change: impl FnOnce(MetadataBuilder) -> MetadataBuilder,
    ) -> &mut Self {
        self.meta = change(std::mem::take(&mut self.meta));
        self
    }

    fn change_payload(
        &mut self,
        change: impl FnOnce(PayloadBuilder) -> PayloadBuilder,
    ) -> &mut Self {
        self.payload = change(std::mem::take(&mut self.payload));
        self
    }

    /// Adds the count and the values of an array of variable count.
    fn sequence<I: IntoIterator>(
        &mut self,
        values: I,
        mut add: impl FnMut(&mut EventBuilder, I::Item),
    ) -> &mut Self {
        let count_offset = self.payload.as_bytes().map(<[u8]>::len);
        self.raw_add_data_count(0);
        let mut count = 0usize;
        for value in values {
            add(self, value);
            count += 1;
        }
        if let Ok(offset) = count_offset {
            self.change_payload(|payload| payload.set_count(offset, count));
        }
        self
    }

    /// Adds the values of an array of constant count.
    fn array<T>(&mut self, values: &[T], mut add: impl FnMut(&mut EventBuilder, &T)) -> &mut Self {
        match u16::try_from(values.len()) {
            Ok(_) => values.iter().for_each(|value| add(self, value)),
            // The payload builder remembers the count as too long.
            Err(_) => {
                self.raw_add_data_count(values.len());
            }
        }
        self
    }
}

fn units(value: &[u16]) -> &[u8] {
    // The crate compiles for little-endian targets alone.
    U16::as_bytes(value).unwrap_or_default()
}

fn system_time(value: &SystemTime) -> [u8; 16] {
    let date = [value.year, value.month, value.day_of_week, value.day];
    let time = [value.hour, value.minute, value.second, value.milliseconds];
    let mut bytes = [0; 16];
    for (to, part) in bytes.chunks_exact_mut(2).zip(date.into_iter().chain(time)) {
        to.copy_from_slice(&part.to_le_bytes());
    }
    bytes
}
