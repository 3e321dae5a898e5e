//! The macros as users see them: documentation, and `$crate` for what does the work.

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
/// `define_provider!(visibility SYMBOL, "Name", options…)`, where attributes and documentation may stand before the
/// visibility. The symbol is a static like any other: it can be `pub`, re-exported, renamed by `use … as`, borrowed.
///
/// | option | |
/// |---|---|
/// | `id("guid")` | its GUID; without, [`Guid::from_name`](crate::Guid::from_name) of the name |
/// | `group_id("guid")` | the provider group it belongs to |
/// | `debug()` | prints the expansion while compiling |
///
/// Nothing is written before it is [registered](crate::Provider::register).
///
/// # Errors
///
/// A name that is no string literal, holds a NUL or has more than 32767 bytes does not compile, nor does a malformed GUID:
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
/// The provider is any expression that is a [`Provider`](crate::Provider) or a reference to one. Nothing else is
/// evaluated unless a session wants events of this provider, level and keyword; then every expression is, once, in order.
/// While nobody wants anything the event costs three instructions: load, compare, branch.
///
/// Names are string literals or constants of type `&str`. The description of event and fields is made while compiling and
/// travels with the event, so that it can be decoded anywhere.
///
/// The value is a [`Status`](crate::Status), which most programs ignore: `ERROR_SUCCESS` also where nobody wanted it, else
/// why it was lost: `ERROR_NOT_ENOUGH_MEMORY` (8: a session is full), `ERROR_MORE_DATA` (234: larger than a session's
/// buffers), `ERROR_ARITHMETIC_OVERFLOW` (534: larger than 64 KiB). Losses are counted. Nothing is ever cut to fit.
///
/// Syntax and vocabulary are those of Microsoft's crate `tracelogging`, and the bytes are the same.
///
/// # Options
///
/// Each at most once, but for `keyword`; in any order, also between fields. Values are constants.
///
/// | option | without it |
/// |---|---|
/// | `level(Warning)`: `LogAlways`, `Critical`, `Error`, `Warning`, `Informational`, `Verbose`, or a constant `u8` or [`Level`](crate::Level) | `Verbose` |
/// | `keyword(0x4)`: `u64` or [`Keyword`](crate::Keyword); several are or-ed | `0x1` |
/// | `opcode(Start)`: `Info`, `Start`, `Stop`, `DC_Start`, `DC_Stop`, `Extension`, `Reply`, `Resume`, `Suspend`, `Send`, `Receive`, or a constant `u8` or [`Opcode`](crate::Opcode) | `Info` |
/// | `task(7)` | 0 |
/// | `channel(16)`: `u8` or [`Channel`](crate::Channel) | `TraceLogging`, 11 |
/// | `tag(0x1234)`: 28 bits, for whatever the provider likes | 0 |
/// | `id_version(1, 0)` | 0, 0: the event is known by its name |
/// | `activity_id(&id)`: [`Guid`](crate::Guid), `[u8; 16]`, [`Activity`](crate::Activity), an option of these | the thread's current activity |
/// | `related_id(&id)`: the same | none |
/// | `description("…")`: for readers of the source | |
/// | `debug()`: prints the expansion while compiling | |
///
/// The default keyword is that of Microsoft's Rust crate. The C header's is 0, which passes the filters of sessions that
/// ask for other keywords; with 1 an event without a keyword of its own does not.
///
/// # Fields
///
/// `type("Name", value, tag(0x1234), format(Hex), description("…"))`, of which the options may be left out. `format`
/// replaces the type's own: a name as below, or a constant [`OutType`](crate::OutType).
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
/// | `port` | `&u16`, big-endian as sockets have it | `UINT16` + `Port` |
/// | `socketaddress` `socketaddressc` | the bytes of a `sockaddr` | `BINARY`, `COUNTEDBINARY` + `SocketAddress` |
/// | `pid` `tid` | `&u32` | `UINT32` + `Pid`, `Tid` |
/// | `errno` `hresult` | `&i32` | `INT32` + none, `HResult` |
/// | `win_error` | `&u32` | `UINT32` + `Win32Error` |
/// | `win_ntstatus` | `&i32` | `HEXINT32` + `NtStatus` |
/// | `win_filetime` | `&i64` | `FILETIME` |
/// | `systemtime` | `&std::time::SystemTime` | `FILETIME`, clamped to the years 1601 to 30827 |
/// | `time32` `time64` | `&i32` `&i64`, seconds since 1970 | `FILETIME`, clamped likewise |
/// | `win_systemtime` `win_systemtime_utc` | `&[u16; 8]` | `SYSTEMTIME` + none, `DateTimeUtc` |
/// | `win_sid` | bytes that begin with a SID | `SID`; what is none is refused (534) |
///
/// *Bytes* are whatever is `AsRef<[u8]>`, if need be after dereferencing: `&str`, `&String`, `&Vec<u8>`, `&Cow<str>`,
/// `&Arc<str>`; *UTF-16* likewise with `AsRef<[u16]>`.
///
/// All of these but `binary`, `ipv6` and `socketaddress`, of whose arrays there is no decoder, come in three more shapes:
///
/// | shape | value | encoding |
/// |---|---|---|
/// | `u32_slice("Name", &list)` | a slice, a `Vec`, an array | an array of variable count |
/// | `u32_array("Name", &list, count(4))` | an array of just that length | an array whose count is part of the description |
/// | `opt_u32("Name", &option)` | `&Option<T>` or `Option<&T>` | an array of variable count that is 0 or 1 |
///
/// ## Structs
///
/// `struct("Name", { fields… })` groups fields. `struct_slice("Name", items, |item| { fields… })` is an array of them:
/// `items` is anything that can be iterated over and cloned, like a reference to a collection. The members' expressions
/// are evaluated for each item once to sum up the size, and once for each host that takes the event, so they should do
/// nothing else. If they answer differently, the event is refused (534) or does not decode.
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
/// `custom("Name", value, protocol(5), schema([0, 1, 2]))` carries bytes that only a decoder for their protocol
/// understands, and what it needs to know, the schema: an array or a constant `&[u8]`. `tag` and `description` may follow.
/// Without a name the field is called by the text of its value. Protocols 5 to 31 are anyone's; those of Microsoft are
/// written `protocol(Microsoft(0))` to `protocol(Microsoft(4))`. A [`Protocol`](crate::Protocol) in a constant does too.
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
/// For what nothing else can say. Their values are bytes as they lie in the event, with counts and terminators; whether
/// they are what the description says is not checked.
///
/// | field | |
/// |---|---|
/// | `raw_field("Name", TYPE, bytes, …)` | a field of any type, a name of the encodings as in Microsoft's crate (`U8`, `Str8`, `HexSize`, …) or a constant [`InType`](crate::InType) |
/// | `raw_field_slice("Name", TYPE, bytes, …)` | an array of variable count, whose count is part of the bytes |
/// | `raw_meta("Name", TYPE, …)` `raw_meta_slice(…)` | the same without bytes |
/// | `raw_data(bytes)` | bytes without a field |
/// | `raw_struct("Name", 2)` `raw_struct_slice(…)` | the next two fields are its members; of an array, `raw_data` has count and values |
///
/// # Limits
///
/// 128 fields, as many as decoders take; 127 members of a struct; 65535 bytes of description.
///
/// # Errors
///
/// A mistake is an error where it stands, which names it: an unknown type, an option that is none of the type's, a name
/// that is missing or holds a NUL, a tag of more than 28 bits, a value of the wrong type, a count that is not the array's.
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

/// Whether a session wants events of this provider, level and keyword: for programs that prepare an event's data by hand.
///
/// `provider_enabled!(PROVIDER, level, keyword)`, both constants, written as in [`write_event!`](crate::write_event). With
/// a level and keyword known only at run time it is [`Provider::is_enabled`](crate::Provider::is_enabled).
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
