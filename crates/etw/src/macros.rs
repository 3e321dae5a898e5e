//! The public macros: their documentation, and `macro_rules!` wrappers that pass `$crate` to the procedural macros.

/// Defines a static [`Provider`](crate::Provider).
///
/// ```
/// etw::define_provider!(
///     /// Events of the shop.
///     pub SHOP,
///     "MyCompany.Shop",
///     group_id("f73b8292-f610-4fa7-ba62-708353d162c4"),
/// );
///
/// let _registration = SHOP.register();
/// assert_eq!(SHOP.id(), etw::Guid::from_name("MyCompany.Shop"));
/// ```
///
/// `define_provider!(visibility SYMBOL, "Name", options…)`. Attributes and documentation may precede the visibility. The symbol
/// is a static: it can be `pub`, re-exported, renamed by `use … as`, and borrowed.
///
/// | option | |
/// |---|---|
/// | `id("guid")` | the provider's GUID; by default [`Guid::from_name`](crate::Guid::from_name) of its name |
/// | `group_id("guid")` | the provider group that the provider belongs to |
/// | `debug()` | prints the expansion at compile time |
///
/// The provider writes events once it is [registered](crate::Provider::register).
///
/// # Errors
///
/// The macro does not compile if the name is not a string literal, contains a NUL or has more than 32767 bytes, or if a GUID is
/// malformed:
///
/// ```compile_fail
/// etw::define_provider!(SHOP, "MyCompany.Shop", id("f73b8292"));
/// ```
#[macro_export]
macro_rules! define_provider {
    ($($tokens:tt)*) => {
        $crate::rt::define_provider! { $crate $($tokens)* }
    };
}

/// Writes an event: `write_event!(PROVIDER, "Event", options and fields…)`.
///
/// ```
/// use etw::write_event;
///
/// etw::define_provider!(SHOP, "MyCompany.Shop");
/// let _registration = SHOP.register();
///
/// let (customer, items) = (String::from("Ann"), vec![3u32, 5]);
/// write_event!(
///     SHOP,
///     "Sold",
///     level(Informational),
///     keyword(0x2),
///     str8("Customer", &customer),
///     u32_slice("Items", &items),
///     f64("Total", &12.5),
/// );
/// ```
///
/// The provider is any expression of type [`Provider`](crate::Provider) or a reference to one. If a session enabled this
/// provider, level and keyword, the macro evaluates all other expressions, once and in order. Otherwise it evaluates none of
/// them, and the event costs three instructions: load, compare, branch.
///
/// Names are string literals or constants of type `&str`. The compiler builds the description of the event and its fields. Each
/// recorded event contains its description, so any machine can decode it.
///
/// The macro returns a [`Status`](crate::Status), which most programs ignore. `ERROR_SUCCESS` means that all sessions that
/// enabled the event have it, or that none did. The other values say why it was lost: `ERROR_NOT_ENOUGH_MEMORY` (8: a session is
/// full), `ERROR_MORE_DATA` (234: larger than a session's buffers), `ERROR_ARITHMETIC_OVERFLOW` (534: larger than 64 KiB).
/// Sessions count their lost events. An event is never truncated.
///
/// The syntax is that of Microsoft's crate `tracelogging`, and so are the bytes of the events.
///
/// # Options
///
/// Options stand in any order, also between fields. Each except `keyword` occurs at most once. Their values are constants.
///
/// | option | without it |
/// |---|---|
/// | `level(Warning)`: `LogAlways`, `Critical`, `Error`, `Warning`, `Informational`, `Verbose`, or a constant `u8` or [`Level`](crate::Level) | `Verbose` |
/// | `keyword(0x4)`: `u64` or [`Keyword`](crate::Keyword); several are or-ed | `0x1` |
/// | `opcode(Start)`: `Info`, `Start`, `Stop`, `DC_Start`, `DC_Stop`, `Extension`, `Reply`, `Resume`, `Suspend`, `Send`, `Receive`, or a constant `u8` or [`Opcode`](crate::Opcode) | `Info` |
/// | `task(7)` | 0 |
/// | `channel(16)`: `u8` or [`Channel`](crate::Channel) | `TraceLogging`, 11 |
/// | `tag(0x1234)`: 28 bits whose meaning the provider defines | 0 |
/// | `id_version(1, 0)` | 0, 0: the name identifies the event |
/// | `activity_id(&id)`: [`Guid`](crate::Guid), `[u8; 16]`, [`Activity`](crate::Activity), an option of these | the thread's current activity |
/// | `related_id(&id)`: the same | none |
/// | `description("…")`: for readers of the source | |
/// | `debug()`: prints the expansion at compile time | |
///
/// The default keyword is that of Microsoft's Rust crate. The default of the C header is 0, and an event with keyword 0 passes
/// every keyword filter. An event with keyword 1 does not.
///
/// # Fields
///
/// A field is `type("Name", value, tag(0x1234), format(Hex), description("…"))`; the options after the value are optional.
/// `format` replaces the type's own out-type. It takes a name from the table below or a constant [`OutType`](crate::OutType).
///
/// | type | value | encoding |
/// |---|---|---|
/// | `u8` `u16` `u32` `u64` `i8` `i16` `i32` `i64` | `&u8` … | `UINT8` … `INT64` |
/// | `usize` `isize` | `&usize` `&isize` | `UINT32` or `UINT64`, `INT32` or `INT64` by the target's pointers |
/// | `u8_hex` `i8_hex` `u16_hex` `i16_hex` | `&u8` … | `UINT8`, `UINT16` + `Hex` |
/// | `u32_hex` `i32_hex` `u64_hex` `i64_hex` | `&u32` … | `HEXINT32`, `HEXINT64` |
/// | `usize_hex` `isize_hex` `pointer` | `&usize` `&isize` | `HEXINT32` or `HEXINT64` |
/// | `codepointer` | `&usize` | as `pointer` + `CodePointer` |
/// | `f32` `f64` | `&f32` `&f64` | `FLOAT`, `DOUBLE` |
/// | `bool8` | `&bool` | `UINT8` + `Boolean` |
/// | `bool32` | `&i32` or `&bool` | `BOOL32` |
/// | `char8_cp1252` `char16` | `&u8` `&u16` | `UINT8`, `UINT16` + `String` |
/// | `str8` `str8_json` `str8_xml` `str8_cp1252` | bytes | `COUNTEDANSISTRING` + `Utf8`, `Json`, `Xml`, none |
/// | `str16` `str16_json` `str16_xml` | UTF-16 | `COUNTEDSTRING` + none, `Json`, `Xml` |
/// | `cstr8` `cstr8_json` `cstr8_xml` `cstr8_cp1252` | bytes, up to the first NUL | `ANSISTRING` + `Utf8`, `Json`, `Xml`, none |
/// | `cstr16` `cstr16_json` `cstr16_xml` | UTF-16, up to the first NUL | `UNICODESTRING` + none, `Json`, `Xml` |
/// | `binary` `binaryc` | bytes | `BINARY`, `COUNTEDBINARY` |
/// | `guid` | `&Guid` | `GUID` |
/// | `ipv4` | `&[u8; 4]` or `&Ipv4Addr` | `UINT32` + `IPv4` |
/// | `ipv6` `ipv6c` | `&[u8; 16]` or `&Ipv6Addr` | `BINARY`, `COUNTEDBINARY` + `IPv6` |
/// | `port` | `&u16`, big-endian as in socket addresses | `UINT16` + `Port` |
/// | `socketaddress` `socketaddressc` | the bytes of a `sockaddr` | `BINARY`, `COUNTEDBINARY` + `SocketAddress` |
/// | `pid` `tid` | `&u32` | `UINT32` + `Pid`, `Tid` |
/// | `errno` `hresult` | `&i32` | `INT32` + none, `HResult` |
/// | `win_error` | `&u32` | `UINT32` + `Win32Error` |
/// | `win_ntstatus` | `&i32` | `HEXINT32` + `NtStatus` |
/// | `win_filetime` | `&i64` | `FILETIME` |
/// | `systemtime` | `&std::time::SystemTime` | `FILETIME`, clamped to the years 1601 to 30827 |
/// | `time32` `time64` | `&i32` `&i64`, seconds since 1970 | `FILETIME`, clamped likewise |
/// | `win_systemtime` `win_systemtime_utc` | `&[u16; 8]` | `SYSTEMTIME` + none, `DateTimeUtc` |
/// | `win_sid` | bytes that start with a SID | `SID`; an invalid SID is refused with status 534 |
///
/// *Bytes* means any type that implements `AsRef<[u8]>` or dereferences to one: `&str`, `&String`, `&Vec<u8>`, `&Cow<str>`,
/// `&Arc<str>`. *UTF-16* means the same for `AsRef<[u16]>`.
///
/// Each type has three more shapes, except `binary`, `ipv6` and `socketaddress`, whose arrays decoders do not support:
///
/// | shape | value | encoding |
/// |---|---|---|
/// | `u32_slice("Name", &list)` | a slice, a `Vec`, an array | an array of variable count |
/// | `u32_array("Name", &list, count(4))` | an array of exactly that length | an array whose count is part of the description |
/// | `opt_u32("Name", &option)` | `&Option<T>` or `Option<&T>` | an array of variable count, with 0 elements or 1 |
///
/// ## Structs
///
/// `struct("Name", { fields… })` groups fields. `struct_slice("Name", items, |item| { fields… })` writes an array of structs.
/// `items` is anything that can be cloned and iterated over, such as a reference to a collection. The macro evaluates the
/// members' expressions once for each item to compute the size, and once more for each host that records the event. They should
/// have no side effects. If they return different values, the event is refused with status 534 or does not decode.
///
/// ```
/// # use etw::write_event;
/// # etw::define_provider!(SHOP, "MyCompany.Shop");
/// struct Item {
///     name: &'static str,
///     price: Option<f64>,
/// }
/// let cart = vec![Item { name: "tea", price: Some(2.5) }, Item { name: "advice", price: None }];
/// write_event!(
///     SHOP,
///     "Cart",
///     struct("Owner", { str8("Name", "Ann"), u32("Id", &7) }),
///     struct_slice("Items", &cart, |item| {
///         str8("Name", item.name),
///         opt_f64("Price", &item.price),
///     }),
/// );
/// ```
///
/// ## Custom-serialised fields
///
/// `custom("Name", value, protocol(5), schema([0, 1, 2]))` writes bytes in the form of a protocol, and a schema for the decoder of
/// that protocol. The schema is an array or a constant `&[u8]`. `tag` and `description` may follow. A field without a name has the
/// source text of its value as its name. Programs may use protocols 5 to 31. Microsoft's protocols are `protocol(Microsoft(0))` to
/// `protocol(Microsoft(4))`. The protocol can also be a constant [`Protocol`](crate::Protocol).
///
/// ```
/// # use etw::write_event;
/// # etw::define_provider!(SHOP, "MyCompany.Shop");
/// const PROTOCOL: u8 = 7;
/// let receipt = vec![8, 1, 16, 2];
/// write_event!(SHOP, "Paid", custom("Receipt", &receipt, protocol(PROTOCOL), schema(b"shop.Receipt")));
/// ```
///
/// ## Raw fields
///
/// Raw fields express what no other field can. Their values are the bytes of the event, including counts and terminators. The
/// macro does not check that the bytes match the description.
///
/// | field | |
/// |---|---|
/// | `raw_field("Name", TYPE, bytes, …)` | a field of any type: an encoding by its name in Microsoft's crate (`U8`, `Str8`, `HexSize`, …), or a constant [`InType`](crate::InType) |
/// | `raw_field_slice("Name", TYPE, bytes, …)` | an array of variable count, whose count is part of the bytes |
/// | `raw_meta("Name", TYPE, …)` `raw_meta_slice(…)` | the same without bytes |
/// | `raw_data(bytes)` | bytes without a field |
/// | `raw_struct("Name", 2)` `raw_struct_slice(…)` | the next two fields are its members; for an array, `raw_data` contains the count and the values |
///
/// # Limits
///
/// An event has at most 128 fields, the limit of decoders, and a description of at most 65535 bytes. A struct has at most 127
/// members.
///
/// # Errors
///
/// A mistake is a compile error at its position in the source: an unknown type, an option that the type does not have, a name
/// that is missing or contains a NUL, a tag of more than 28 bits, a value of the wrong type, a count that differs from the array's.
///
/// ```compile_fail
/// # etw::define_provider!(SHOP, "MyCompany.Shop");
/// // unknown field type or option `u33`; did you mean `u32`?
/// etw::write_event!(SHOP, "E", u33("a", &1));
/// ```
///
/// ```compile_fail
/// # etw::define_provider!(SHOP, "MyCompany.Shop");
/// // expected `&u32`, found `&i64`
/// etw::write_event!(SHOP, "E", u32("a", &5i64));
/// ```
///
/// ```compile_fail
/// # etw::define_provider!(SHOP, "MyCompany.Shop");
/// // expected an array with a size of 4, found one with a size of 2
/// etw::write_event!(SHOP, "E", u32_array("a", &[1, 2], count(4)));
/// ```
///
/// ```compile_fail
/// # etw::define_provider!(SHOP, "MyCompany.Shop");
/// // evaluation panicked: a tag has 28 bits: at most 0x0fffffff
/// const TAG: u32 = 1 << 28;
/// etw::write_event!(SHOP, "E", u8("a", &1, tag(TAG)));
/// ```
///
/// ```compile_fail
/// # etw::define_provider!(SHOP, "MyCompany.Shop");
/// // evaluation panicked: protocols are 5 to 31, Microsoft's 0 to 4
/// const PROTOCOL: u8 = 32;
/// etw::write_event!(SHOP, "E", custom("a", &[1], protocol(PROTOCOL), schema([])));
/// ```
///
/// ```compile_fail
/// # etw::define_provider!(SHOP, "MyCompany.Shop");
/// // attempt to use a non-constant value in a constant
/// let level = 3;
/// etw::write_event!(SHOP, "E", level(level));
/// ```
#[macro_export]
macro_rules! write_event {
    ($($tokens:tt)*) => {
        $crate::rt::write_event! { $crate $($tokens)* }
    };
}

/// True if a session enabled this provider, level and keyword. For programs that prepare an event's data by hand.
///
/// In `provider_enabled!(PROVIDER, level, keyword)`, both are constants, written as in [`write_event!`](crate::write_event). For a
/// level and keyword known only at run time, call [`Provider::is_enabled`](crate::Provider::is_enabled).
///
/// ```
/// use etw::{provider_enabled, write_event};
///
/// etw::define_provider!(SHOP, "MyCompany.Shop");
/// if provider_enabled!(SHOP, Verbose, 0x8) {
///     let stock: Vec<u32> = (0..1000).filter(|n| n % 7 == 0).collect();
///     write_event!(SHOP, "Stock", level(Verbose), keyword(0x8), u32_slice("Stock", &stock));
/// }
/// ```
#[macro_export]
macro_rules! provider_enabled {
    ($($tokens:tt)*) => {
        $crate::rt::provider_enabled! { $crate $($tokens)* }
    };
}
