//! Names in `write_event!`: fields in every shape, options, levels, opcodes and channels.

use etw_tracelogging::InType;
use etw_tracelogging::vocabulary::{FIELDS, FieldName, Stored};

use crate::hints::{distance, foreign};

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

/// Options of an event, beside its fields.
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
pub fn find(name: &str) -> Result<(&'static FieldName, Shape), String> {
    let of = |name: &str| FIELDS.iter().find(|row| row.name == name);
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
        Some(base) if shape != Shape::Scalar && base.stored == Stored::Fixed(InType::BINARY) => {
            let other = name.replace(base.name, &format!("{}c", base.name));
            Err(format!("no decoder takes arrays of `{}`; use `{other}`", base.name))
        }
        Some(base) => Ok((base, shape)),
        None => Err(unknown(name)),
    }
}

/// Whether the name is a field type or an option.
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
    if let Some(hint) = foreign(bare) {
        return format!("there is no field type `{name}`: {hint}");
    }
    let typed = FIELDS.iter().map(|row| row.name).map(|of| (of, format!("{prefix}{of}{suffix}")));
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
        for row in FIELDS {
            assert_eq!(FIELDS.iter().filter(|other| other.name == row.name).count(), 1);
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
