//! The vocabulary of fields: which name stands for which encoding.

/// A field's InType, in TraceLogging's numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InType {
    Known(u8),
    /// A constant of `etw::rt` that depends on the target's pointers.
    Target(&'static str),
}

/// How a value lies in the payload.
#[derive(Clone, Copy, Debug)]
pub enum Codec {
    /// Always as many bytes: an `etw::rt::Plain`.
    Plain(&'static str),
    /// From a slice of `u8`: an `etw::rt::Text`.
    Bytes(&'static str),
    /// From a slice of `u16`: an `etw::rt::Text`.
    Units(&'static str),
}

#[derive(Debug)]
pub struct Type {
    pub name: &'static str,
    pub in_type: InType,
    pub out_type: u8,
    pub codec: Codec,
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Scalar,
    /// `…_slice`: an array of variable count.
    Slice,
    /// `…_array`: an array of a count in the metadata.
    Array,
    /// `opt_…`: an array of variable count that is 0 or 1.
    Opt,
}

const BINARY: u8 = 14;

const fn row(name: &'static str, in_type: u8, out_type: u8, codec: Codec) -> Type {
    Type { name, in_type: InType::Known(in_type), out_type, codec }
}

const fn target(name: &'static str, in_type: &'static str, out_type: u8, codec: Codec) -> Type {
    Type { name, in_type: InType::Target(in_type), out_type, codec }
}

use Codec::{Bytes, Plain, Units};

/// Names and encodings are those of Microsoft's crate `tracelogging`.
pub const TYPES: &[Type] = &[
    row("binary", BINARY, 0, Bytes("Counted8")),
    row("binaryc", 25, 0, Bytes("Counted8")),
    row("bool8", 4, 3, Plain("Bool8")),
    row("bool32", 13, 0, Plain("Bool32::<_>")),
    row("char8_cp1252", 4, 2, Plain("U8")),
    row("char16", 6, 2, Plain("U16")),
    target("codepointer", "HEX_POINTER", 37, Plain("Usize")),
    row("cstr8", 2, 35, Bytes("Zero8")),
    row("cstr8_cp1252", 2, 0, Bytes("Zero8")),
    row("cstr8_json", 2, 12, Bytes("Zero8")),
    row("cstr8_xml", 2, 11, Bytes("Zero8")),
    row("cstr16", 1, 0, Units("Zero16")),
    row("cstr16_json", 1, 12, Units("Zero16")),
    row("cstr16_xml", 1, 11, Units("Zero16")),
    row("errno", 7, 0, Plain("I32")),
    row("f32", 11, 0, Plain("F32")),
    row("f64", 12, 0, Plain("F64")),
    row("guid", 15, 0, Plain("GuidCodec")),
    row("hresult", 7, 15, Plain("I32")),
    row("i8", 3, 0, Plain("I8")),
    row("i8_hex", 4, 4, Plain("I8")),
    row("i16", 5, 0, Plain("I16")),
    row("i16_hex", 6, 4, Plain("I16")),
    row("i32", 7, 0, Plain("I32")),
    row("i32_hex", 20, 0, Plain("I32")),
    row("i64", 9, 0, Plain("I64")),
    row("i64_hex", 21, 0, Plain("I64")),
    row("ipv4", 8, 8, Plain("Ipv4::<_>")),
    row("ipv6", BINARY, 9, Plain("Ipv6::<_>")),
    row("ipv6c", 25, 9, Plain("Ipv6::<_>")),
    target("isize", "INT_POINTER", 0, Plain("Isize")),
    target("isize_hex", "HEX_POINTER", 0, Plain("Isize")),
    row("pid", 8, 5, Plain("U32")),
    target("pointer", "HEX_POINTER", 0, Plain("Usize")),
    row("port", 6, 7, Plain("U16")),
    row("socketaddress", BINARY, 10, Bytes("Counted8")),
    row("socketaddressc", 25, 10, Bytes("Counted8")),
    row("str8", 23, 35, Bytes("Counted8")),
    row("str8_cp1252", 23, 0, Bytes("Counted8")),
    row("str8_json", 23, 12, Bytes("Counted8")),
    row("str8_xml", 23, 11, Bytes("Counted8")),
    row("str16", 22, 0, Units("Counted16")),
    row("str16_json", 22, 12, Units("Counted16")),
    row("str16_xml", 22, 11, Units("Counted16")),
    row("systemtime", 17, 0, Plain("StdTime")),
    row("tid", 8, 6, Plain("U32")),
    row("time32", 17, 0, Plain("Time32")),
    row("time64", 17, 0, Plain("Time64")),
    row("u8", 4, 0, Plain("U8")),
    row("u8_hex", 4, 4, Plain("U8")),
    row("u16", 6, 0, Plain("U16")),
    row("u16_hex", 6, 4, Plain("U16")),
    row("u32", 8, 0, Plain("U32")),
    row("u32_hex", 20, 0, Plain("U32")),
    row("u64", 10, 0, Plain("U64")),
    row("u64_hex", 21, 0, Plain("U64")),
    target("usize", "UINT_POINTER", 0, Plain("Usize")),
    target("usize_hex", "HEX_POINTER", 0, Plain("Usize")),
    row("win_error", 8, 13, Plain("U32")),
    row("win_filetime", 17, 0, Plain("I64")),
    row("win_ntstatus", 20, 14, Plain("I32")),
    row("win_sid", 19, 0, Bytes("Sid")),
    row("win_systemtime", 18, 0, Plain("Parts")),
    row("win_systemtime_utc", 18, 38, Plain("Parts")),
];

/// Fields that are not a value of one type.
pub const OTHERS: &[&str] = &[
    "struct",
    "struct_slice",
    "custom",
    "raw_field",
    "raw_field_slice",
    "raw_meta",
    "raw_meta_slice",
    "raw_struct",
    "raw_struct_slice",
    "raw_data",
];

/// What stands beside fields in `write_event!`.
pub const OPTIONS: &[&str] = &[
    "level",
    "keyword",
    "opcode",
    "task",
    "channel",
    "tag",
    "id_version",
    "activity_id",
    "related_id",
    "description",
    "debug",
];

/// The type and shape that a name stands for.
pub fn find(name: &str) -> Result<(&'static Type, Shape), String> {
    let of = |name: &str| TYPES.iter().find(|row| row.name == name);
    let (base, shape) = if let Some(base) = name.strip_prefix("opt_") {
        (of(base), Shape::Opt)
    } else if let Some(base) = name.strip_suffix("_slice") {
        (of(base), Shape::Slice)
    } else if let Some(base) = name.strip_suffix("_array") {
        (of(base), Shape::Array)
    } else {
        (of(name), Shape::Scalar)
    };
    match base {
        Some(base) if shape != Shape::Scalar && base.in_type == InType::Known(BINARY) => {
            let other = name.replace(base.name, &format!("{}c", base.name));
            Err(format!("no decoder takes arrays of `{}`; use `{other}`", base.name))
        }
        Some(base) => Ok((base, shape)),
        None => Err(unknown(name)),
    }
}

/// Whether it is a field type or an option.
pub fn is_known(name: &str) -> bool {
    OPTIONS.contains(&name) || OTHERS.contains(&name) || find(name).is_ok()
}

fn unknown(name: &str) -> String {
    if OPTIONS.contains(&name) {
        return format!("`{name}` is an option of the event, not a member");
    }
    let (prefix, bare) = match name.strip_prefix("opt_") {
        Some(bare) => ("opt_", bare),
        None => ("", name),
    };
    let (bare, suffix) = match (bare.strip_suffix("_slice"), bare.strip_suffix("_array")) {
        (Some(bare), _) => (bare, "_slice"),
        (_, Some(bare)) => (bare, "_array"),
        _ => (bare, ""),
    };
    let typed = TYPES.iter().map(|row| row.name).map(|of| (of, format!("{prefix}{of}{suffix}")));
    let whole = OTHERS.iter().chain(OPTIONS).map(|of| (*of, (*of).to_owned()));
    let nearest = typed
        .map(|(of, shown)| (distance(bare, of), shown))
        .chain(whole.map(|(of, shown)| (distance(name, of), shown)))
        .min_by_key(|(distance, _)| *distance);
    match nearest {
        Some((distance, other)) if distance <= (bare.len() / 2).min(2) => {
            format!("unknown field type or option `{name}`; did you mean `{other}`?")
        }
        _ => format!("unknown field type or option `{name}`"),
    }
}

/// Insertions, deletions, replacements and swaps of neighbours that make `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, _) => j,
                (_, 0) => i,
                _ => {
                    let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    let swapped = if swapped { rows[i - 2][j - 2] + 1 } else { usize::MAX };
                    replaced.min(swapped).min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1)
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

/// Numbers that have names in Microsoft's crate.
pub type Names = &'static [(&'static str, u8)];

pub const LEVELS: Names = &[
    ("LogAlways", 0),
    ("Critical", 1),
    ("Error", 2),
    ("Warning", 3),
    ("Informational", 4),
    ("Info", 4),
    ("Verbose", 5),
];

pub const OPCODES: Names = &[
    ("Info", 0),
    ("Start", 1),
    ("Stop", 2),
    ("DC_Start", 3),
    ("DC_Stop", 4),
    ("ActivityStart", 1),
    ("ActivityStop", 2),
    ("CollectionStart", 3),
    ("CollectionStop", 4),
    ("Extension", 5),
    ("Reply", 6),
    ("Resume", 7),
    ("Suspend", 8),
    ("Send", 9),
    ("Receive", 240),
];

pub const CHANNELS: Names = &[("TraceClassic", 0), ("TraceLogging", 11), ("ProviderMetadata", 12)];

pub const OUT_TYPES: Names = &[
    ("Default", 0),
    ("NoPrint", 1),
    ("String", 2),
    ("Boolean", 3),
    ("Hex", 4),
    ("Pid", 5),
    ("Tid", 6),
    ("Port", 7),
    ("IPv4", 8),
    ("IPv6", 9),
    ("SocketAddress", 10),
    ("Xml", 11),
    ("Json", 12),
    ("Win32Error", 13),
    ("NtStatus", 14),
    ("HResult", 15),
    ("DateTime", 16),
    ("Signed", 17),
    ("Unsigned", 18),
    ("DateTimeCultureInsensitive", 33),
    ("Utf8", 35),
    ("Pkcs7WithTypeInfo", 36),
    ("CodePointer", 37),
    ("DateTimeUtc", 38),
];

pub const IN_TYPES: Names = &[
    ("CStr16", 1),
    ("CStr8", 2),
    ("I8", 3),
    ("U8", 4),
    ("I16", 5),
    ("U16", 6),
    ("I32", 7),
    ("U32", 8),
    ("I64", 9),
    ("U64", 10),
    ("F32", 11),
    ("F64", 12),
    ("Bool32", 13),
    ("Binary", BINARY),
    ("Guid", 15),
    ("FileTime", 17),
    ("SystemTime", 18),
    ("Sid", 19),
    ("Hex32", 20),
    ("Hex64", 21),
    ("Str16", 22),
    ("Str8", 23),
    ("BinaryC", 25),
];

/// As [`IN_TYPES`], with the constants of `etw::rt` that they are on the target.
pub const TARGET_IN_TYPES: &[(&str, &str)] =
    &[("ISize", "INT_POINTER"), ("USize", "UINT_POINTER"), ("HexSize", "HEX_POINTER")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_every_shape() {
        let found = |name| find(name).map(|(row, shape)| (row.name, shape));
        assert_eq!(found("u32"), Ok(("u32", Shape::Scalar)));
        assert_eq!(found("char8_cp1252_slice"), Ok(("char8_cp1252", Shape::Slice)));
        assert_eq!(found("i8_hex_array"), Ok(("i8_hex", Shape::Array)));
        assert_eq!(found("opt_str8"), Ok(("str8", Shape::Opt)));
        assert!(find("opt_u8_slice").is_err());
        for row in TYPES {
            assert_eq!(TYPES.iter().filter(|other| other.name == row.name).count(), 1);
            assert_eq!(found(row.name), Ok((row.name, Shape::Scalar)));
        }
    }

    #[test]
    fn arrays_of_binary_are_refused() {
        for (name, other) in [
            ("binary_slice", "binaryc_slice"),
            ("opt_ipv6", "opt_ipv6c"),
            ("socketaddress_array", "socketaddressc_array"),
        ] {
            let refused = find(name).unwrap_err();
            assert!(refused.ends_with(&format!("use `{other}`")), "{refused}");
            assert!(find(other).is_ok());
        }
    }

    #[test]
    fn near_names_are_suggested() {
        for (name, near) in [
            ("u33", "u32"),
            ("string8", ""),
            ("str_8", "str8"),
            ("u32_hexx_slice", "u32_hex_slice"),
            ("opt_sttr8", "opt_str8"),
            ("lvele", "level"),
            ("srtuct", "struct"),
            ("raw_metaslice", "raw_meta_slice"),
            ("foo", ""),
            ("x", ""),
        ] {
            let told = find(name).unwrap_err();
            let expected = match near {
                "" => format!("unknown field type or option `{name}`"),
                near => format!("unknown field type or option `{name}`; did you mean `{near}`?"),
            };
            assert_eq!(told, expected);
        }
    }
}
