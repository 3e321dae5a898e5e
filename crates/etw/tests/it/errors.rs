//! Errors of an invocation: the message, and the tokens it points at.

use etw::rt::{event_error, provider_error};

/// `write_event!`'s tokens without `$crate`, the message, the source pointed at.
macro_rules! event_errors {
    ($({ $($tokens:tt)* } => $message:expr, $source:expr;)*) => {$(
        assert_eq!(event_error!($crate $($tokens)*), ($message, $source));
    )*};
}

macro_rules! provider_errors {
    ($({ $($tokens:tt)* } => $message:expr, $source:expr;)*) => {$(
        assert_eq!(provider_error!($crate $($tokens)*), ($message, $source));
    )*};
}

#[test]
fn what_is_right_is_no_error() {
    event_errors! {
        { P, "E" } => "", "";
        { P, "E", } => "", "";
        { P, "E", u32("a", &f::<A, B>(x)), u8("b", &(|a, b| a + b)(1, 2)), u8("c", &<A as B<C, D>>::e()) } => "", "";
        { a::b::P, NAME, level(LEVEL), struct("s", { u8("a", &1), }, tag(TAG)) } => "", "";
        { P, "E", struct_slice("a", f(1, 2), |(x, y): (u8, u8)| { u8("b", &x) }, tag(1),) } => "", "";
        { P, "E", raw_struct("a", 2), raw_struct("b", 1), raw_meta("c", U8), raw_meta("d", U8) } => "", "";
    }
    provider_errors! {
        { P, "Name" } => "", "";
        { #[a] /** b */ pub(in a::b) P, "Name", } => "", "";
    }
}

#[test]
fn a_missing_name_is_a_compile_error() {
    event_errors! {
        { } => "the provider is missing", "";
        { "P", "E" } => "the first argument is a provider: the symbol that `define_provider!` defines, not a name", "\"P\"";
        { P } => "the name of the event is missing", "";
        { P, u32("a", &1) } => "the name of the event is missing: write it behind the provider", "u32";
        { P, "a\0" } => "the name of the event holds a NUL", "\"a\\0\"";
        { P, b"E" } => "the name of the event has to be a string", "b\"E\"";
        { P, "E", u32("a\u{0}b", &1) } => "the name of `u32` holds a NUL", "\"a\\u{0}b\"";
        { P, "E", u32(7, &1) } => "the name of `u32` has to be a string", "7";
        { P, "E", u32(&1) } => "the name of `u32` is missing: write it before the value", "&";
        { P, "E", u32() } => "the name of `u32` is missing", ")";
        { P, "E", struct({ u8("a", &1) }) } => "the name of `struct` is missing", ")";
    }
}

#[test]
fn an_unknown_type_is_a_compile_error() {
    event_errors! {
        { P, "E", u33("a", &1) } => "unknown field type or option `u33`; did you mean `u32`?", "u33";
        { P, "E", lvel(5) } => "unknown field type or option `lvel`; did you mean `level`?", "lvel";
        { P, "E", string("a", "b") } => "there is no field type `string`: use `str8`", "string";
        { P, "E", binary_slice("a", &x) } => "no decoder takes arrays of `binary`; use `binaryc_slice`", "binary_slice";
        { P, "E", opt_ipv6("a", &x) } => "no decoder takes arrays of `ipv6`; use `opt_ipv6c`", "opt_ipv6";
        { P, "E", "a" } => "not an option or a field, as `level(Warning)` or `u32(\"name\", &value)`", "\"a\"";
        { P, "E", u32 } => "not an option or a field, as `level(Warning)` or `u32(\"name\", &value)`", "u32";
        { P, "E", struct("s", { level }) } => "a struct has fields only, as `u32(\"name\", &value)`", "level";
        { P, "E", struct("s", { level(5) }) } => "`level` is an option of the event, not a member", "level";
    }
}

#[test]
fn a_wrong_value_is_a_compile_error() {
    event_errors! {
        { P, "E", u32("a") } => "the value of `u32` is missing", ")";
        { P, "E", u32("a", ) } => "the value of `u32` is missing", ")";
        { P, "E", u32("a", &1, &2) } => "`u32` has one value; this is a second one", "&";
        { P, "E", u32("a", &1, colour(2)) } => "unknown option `colour` of `u32`", "colour";
        { P, "E", u32("a", &1, count(2)) } => "`u32` has no option `count`", "count";
        { P, "E", u32("a", &1, tag(2), tag(3)) } => "`tag` is given twice", "tag";
        { P, "E", u32_array("a", &x) } => "`u32_array` needs `count(…)`", "u32_array";
        { P, "E", u32_array("a", &x, count(65536)) } => "the count of an array is at most 65535", "65536";
        { P, "E", raw_meta("a", U8, &1) } => "`raw_meta` has no value; `raw_data` has", "&";
        { P, "E", raw_field("a", U8) } => "the value of `raw_field` is missing", ")";
        { P, "E", raw_field("a") } => "an in-type is missing", ")";
        { P, "E", raw_data() } => "the value of `raw_data` is missing", ")";
    }
}

#[test]
fn a_number_out_of_range_is_a_compile_error() {
    event_errors! {
        { P, "E", tag(0x10000000) } => "a tag has 28 bits: at most 0x0fffffff", "0x10000000";
        { P, "E", u8("a", &1, tag(0xffffffff)) } => "a tag has 28 bits: at most 0x0fffffff", "0xffffffff";
        { P, "E", level(256) } => "a level is at most 255", "256";
        { P, "E", level("x") } => "a level has to be an integer", "\"x\"";
        { P, "E", level() } => "`level` takes one value", "()";
        { P, "E", level(1), level(2) } => "`level` is given twice", "level";
        { P, "E", task(65536) } => "a task is at most 65535", "65536";
        { P, "E", id_version(1) } => "`id_version` takes an id and a version", "(1)";
        { P, "E", id_version(1, 256) } => "a version is at most 255", "256";
        { P, "E", keyword(18446744073709551616) } => "a keyword has to be an integer", "18446744073709551616";
        { P, "E", u8("a", &1, format(128)) } => "a format is at most 127", "128";
        { P, "E", raw_meta("a", 32) } => "an in-type is at most 31", "32";
        { P, "E", debug(1) } => "`debug` takes nothing", "(1)";
        { P, "E", description(5) } => "a description is a string literal", "(5)";
        { P, "E", u8("a", &1, description(x)) } => "a description is a string literal", "(x)";
    }
}

#[test]
fn a_struct_without_members_is_a_compile_error() {
    event_errors! {
        { P, "E", struct("s") } => "the members, `{ … }`, are missing", ")";
        { P, "E", struct("s", {}) } => "`struct` needs a member", "{}";
        { P, "E", struct("s", { raw_data(&x) }) } => "`struct` needs a member", "{ raw_data(&x) }";
        { P, "E", struct("s", &x, { u8("a", &1) }) } => "a struct has a name and members", "&";
        { P, "E", struct("s", { raw_struct("t", 1), u8("a", &1) }) }
            => "`raw_struct` cannot stand in a struct, whose members have to be counted", "raw_struct";
        { P, "E", raw_struct("s", 2), u8("a", &1) } => "1 members of a `raw_struct` are missing", "";
        { P, "E", raw_struct("s", 0) } => "a struct has at least one member", "(\"s\", 0)";
        { P, "E", raw_struct("s", 128) } => "the count of members is at most 127", "128";
        { P, "E", raw_struct("s", 2, &x) } => "a `raw_struct` has no value", "&";
        { P, "E", struct_slice("s", items) } => "`struct_slice` is (\"name\", items, |item| { members })", ")";
        { P, "E", struct_slice("s", |item| { u8("a", item) }) }
            => "`struct_slice` is (\"name\", items, |item| { members })", "|";
        { P, "E", struct_slice("s", items, || { u8("a", item) }) }
            => "`struct_slice` is (\"name\", items, |item| { members })", "|";
    }
}

/// A forgotten comma is reported at the token that follows it.
#[test]
fn a_missing_comma_is_named() {
    event_errors! {
        { P "E" } => "a comma is missing before \"E\"", "\"E\"";
        { P, "E",, u32("a", &1) } => "an option or a field is missing before this comma", ",";
        { P, "E" u32("a", &1) } => "a comma is missing behind the name \"E\"", "u32";
        { P, "E" level(Warning), u32("a", &1) } => "a comma is missing behind the name \"E\"", "level";
        { P, "E", u32("a" &1) } => "a comma is missing behind the name \"a\"", "&";
        { P, "E", u32("a", &1) u32("b", &2) } => "a comma is missing behind `u32(…)`", "u32";
        { P, "E", level(Warning) u32("b", &2) } => "a comma is missing behind `level(…)`", "u32";
        { P, "E", struct("s", { u8("a", &1) u8("b", &2) }) } => "a comma is missing behind `u8(…)`", "u8";
        { P, "E", u32("a", &1 tag(2)) } => "a comma is missing before `tag(…)`", "tag";
        { P, "E", u32("a", &x format(Hex)) } => "a comma is missing before `format(…)`", "format";
        { P, "E", u32("a", &f(1)(2)) } => "", "";
        { P, "E", u32("a", &x::tag(2)) } => "", "";
    }
    provider_errors! {
        { P "Name" } => "a comma is missing before \"Name\"", "\"Name\"";
        { P, "Name" id("68fdd900-4a3e-11d1-84f4-0000f80464e3") }
            => "a comma is missing behind the name \"Name\"", "id";
    }
}

#[test]
fn types_of_rust_that_have_no_field_lead_to_one() {
    event_errors! {
        { P, "E", duration("a", &d) }
            => "there is no field type `duration`: a `Duration` is a number: \
                `u64(\"name\", &(value.as_nanos() as u64))`", "duration";
        { P, "E", Duration("a", &d) }
            => "there is no field type `Duration`: a `Duration` is a number: \
                `u64(\"name\", &(value.as_nanos() as u64))`", "Duration";
        { P, "E", bool("a", &b) } => "there is no field type `bool`: use `bool8`, or `bool32` for four bytes", "bool";
        { P, "E", opt_string("a", &b) } => "there is no field type `opt_string`: use `str8`", "opt_string";
        { P, "E", u128("a", &b) } => "there is no field type `u128`: use `binaryc` with `&value.to_le_bytes()`", "u128";
    }
}

#[test]
fn a_misspelt_option_gets_a_suggestion() {
    event_errors! {
        { P, "E", u32("a", &1, tga(2)) } => "unknown option `tga` of `u32`; did you mean `tag`?", "tga";
        { P, "E", u32("a", &1, fromat(Hex)) } => "unknown option `fromat` of `u32`; did you mean `format`?", "fromat";
        { P, "E", keywrod(2) } => "unknown field type or option `keywrod`; did you mean `keyword`?", "keywrod";
        { P, "E", activity(&id) } => "there is no field type `activity`: use the option `activity_id`", "activity";
        { P, "E", event_id(7) } => "there is no field type `event_id`: use the option `id_version(id, version)`", "event_id";
    }
    provider_errors! {
        { P, "Name", group_di("x") }
            => "unknown option `group_di` of a provider: did you mean `group_id`?; there are `id(\"guid\")`, \
                `group_id(\"guid\")`, `debug()`", "group_di";
    }
}

#[test]
fn a_misspelt_level_or_opcode_gets_a_suggestion() {
    event_errors! {
        { P, "E", level(Informatoinal) } => "`Informatoinal` is not a level; did you mean `Informational`?", "Informatoinal";
        { P, "E", level(warning) } => "`warning` is not a level; did you mean `Warning`?", "warning";
        { P, "E", level(Verb) } => "`Verb` is not a level; did you mean `Verbose`?", "Verb";
        { P, "E", level(Info) } => "", "";
        { P, "E", opcode(Strat) } => "`Strat` is not an opcode; did you mean `Start`?", "Strat";
        { P, "E", u32("a", &1, format(hex)) } => "`hex` is not a format; did you mean `Hex`?", "hex";
        { P, "E", level(LEVEL), opcode(OPCODE), keyword(SALES) } => "", "";
        { P, "E", level(levels::WARNING) } => "", "";
    }
}

#[test]
fn a_name_of_run_time_leads_to_the_event_builder() {
    event_errors! {
        { P, &name } => "the name of the event is not a string literal or a constant; for names known only at run time, \
            use `EventBuilder`", "&";
        { P, format!("{x}") } => "the name of the event is not a string literal or a constant; for names known only at \
            run time, use `EventBuilder`", "format";
        { P, "E", u32(name.to_string(), &1) } => "the name of `u32` is not a string literal or a constant; for names \
            known only at run time, use `EventBuilder`", "name";
        { P, "E", u32(names::COUNT, &1) } => "", "";
        { P, names::EVENT } => "", "";
        { P, NAME } => "", "";
        { P, name } => "the name of the event is not a string literal or a constant; for names known only at run time, \
            use `EventBuilder`", "name";
        { P, self.name } => "the name of the event is not a string literal or a constant; for names known only at run \
            time, use `EventBuilder`", "self";
        { P, "E", u32(name, &1) } => "the name of `u32` is not a string literal or a constant; for names known only at \
            run time, use `EventBuilder`", "name";
    }
}

/// TC-1
#[test]
fn a_wrong_custom_field_is_a_compile_error() {
    event_errors! {
        { P, "E", custom() } => "the value of `custom` is missing", ")";
        { P, "E", custom("a", protocol(5), schema([])) } => "the value of `custom` is missing", ")";
        { P, "E", custom(&x, schema([])) } => "`custom` needs `protocol(…)`", "custom";
        { P, "E", custom(&x, protocol(5)) } => "`custom` needs `schema(…)`", "custom";
        { P, "E", custom(&x, protocol(32), schema([])) } => "a protocol is at most 31", "32";
        { P, "E", custom(&x, protocol(4), schema([])) }
            => "protocols 0 to 4 are Microsoft's: write `protocol(Microsoft(n))`", "4";
        { P, "E", custom(&x, protocol(Microsoft(5)), schema([])) }
            => "Microsoft's protocols are the literals 0 to 4", "(5)";
        { P, "E", custom(&x, protocol(5), schema([]), format(Hex)) } => "`custom` has no option `format`", "format";
    }
}

/// `u8("a", &1),` 128 times in all.
macro_rules! fields_128 {
    ($macro:ident! { $($tokens:tt)* }) => { fields_128!(@ $macro 0 { $($tokens)* } u8("a", &1),) };
    (@ $macro:ident 0 { $($t:tt)* } $($f:tt)*) => { fields_128!(@ $macro 1 { $($t)* } $($f)* $($f)*) };
    (@ $macro:ident 1 { $($t:tt)* } $($f:tt)*) => { fields_128!(@ $macro 2 { $($t)* } $($f)* $($f)*) };
    (@ $macro:ident 2 { $($t:tt)* } $($f:tt)*) => { fields_128!(@ $macro 3 { $($t)* } $($f)* $($f)*) };
    (@ $macro:ident 3 { $($t:tt)* } $($f:tt)*) => { fields_128!(@ $macro 4 { $($t)* } $($f)* $($f)*) };
    (@ $macro:ident 4 { $($t:tt)* } $($f:tt)*) => { fields_128!(@ $macro 5 { $($t)* } $($f)* $($f)*) };
    (@ $macro:ident 5 { $($t:tt)* } $($f:tt)*) => { fields_128!(@ $macro 6 { $($t)* } $($f)* $($f)*) };
    (@ $macro:ident 6 { $($t:tt)* } $($f:tt)*) => { fields_128!(@ $macro 7 { $($t)* } $($f)* $($f)*) };
    (@ event 7 { $($t:tt)* } $($f:tt)*) => { event_error!($crate P, "E", $($f)* $($t)*) };
    (@ members 7 { $($t:tt)* } $($f:tt)*) => { event_error!($crate P, "E", struct("s", { $($f)* })) };
}

#[test]
fn too_many_fields_are_a_compile_error() {
    let too_many = "too many fields: decoders take 128 of an event";
    assert_eq!(fields_128!(event! {}), ("", ""));
    assert_eq!(fields_128!(event! { raw_data(&x) }), ("", ""));
    assert_eq!(fields_128!(event! { i8("b", &1) }), (too_many, "i8"));
    assert_eq!(fields_128!(event! { struct("b", { u8("c", &1) }) }), (too_many, "struct"));
    assert_eq!(fields_128!(members! {}).0, "too many fields: a struct has at most 127");
}

#[test]
fn a_wrong_provider_is_a_compile_error() {
    provider_errors! {
        { } => "a provider is (SYMBOL, \"Name\", options…)", "";
        { "Name" } => "a provider is (SYMBOL, \"Name\", options…)", "\"Name\"";
        { P } => "the name of the provider is missing", "";
        { P, NAME } => "a provider's name must be a string literal, since its GUID is derived from it; for names known only at run \
            time, use `Provider::dynamic`", "NAME";
        { P, "a\0" } => "the name of the provider holds a NUL", "\"a\\0\"";
        { mod P, "Name" } => "not a visibility", "mod";
        { P, "Name", id("68fdd900") } => "not a GUID of the form xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "\"68fdd900\"";
        { P, "Name", id(GUID) } => "a GUID is a string literal", "GUID";
        { P, "Name", id() } => "write one GUID, as `id(\"guid\")`", "id";
        { P, "Name", group("x") }
            => "unknown option `group` of a provider; there are `id(\"guid\")`, `group_id(\"guid\")`, `debug()`", "group";
        { P, "Name", "x" } => "not an option, as `id(\"guid\")`", "\"x\"";
        {
            P, "Name", id("68fdd900-4a3e-11d1-84f4-0000f80464e3"), id("68fdd900-4a3e-11d1-84f4-0000f80464e3")
        } => "`id` is given twice", "id";
    }
}
