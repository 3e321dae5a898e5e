//! Fields: the parameters of a function, the members of a struct, and what is put into the payload for each.

use etw_tracelogging::tdh::InType;

use super::maps;
use super::names::{Used, pascal, snake};
use crate::manifest::{Extent, Field, Provider, Template};

/// The fields of a template or a struct.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// `name: type` of those that the caller gives.
    pub parameters: Vec<String>,
    /// An expression of type `Field` for each field.
    pub values: Vec<String>,
    /// Conditions on sizes and counts.
    checks: Vec<String>,
    /// The definitions of the template's structs.
    pub structs: Vec<String>,
}

/// The place where types and expressions stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Parameters of a function.
    Function,
    /// Members of a struct, which borrow for `'a`.
    Struct,
}

impl Fields {
    /// The fields of a template. `structs`: names of structs of the module.
    pub fn of(provider: &Provider, template: &Template, structs: &mut Used) -> Fields {
        let mut made = Fields::default();
        let mut types = Vec::new();
        for field in template.fields.iter().filter(|field| !field.members.is_empty()) {
            let name = structs.unique(pascal(&format!("{} {}", template.id, field.name)));
            made.structs.push(structure(provider, field, &name));
            types.push(name);
        }
        let writer = Writer { provider, fields: &template.fields, place: Place::Function };
        writer.fill(&mut made, &types);
        made
    }

    /// The sum of the sizes of variables that are named by a prefix and their number.
    pub fn size(&self, prefix: &str) -> String {
        let mut sum = "0usize".to_owned();
        for index in 0..self.values.len() {
            sum.push_str(&format!(".saturating_add({prefix}{index}.size())"));
        }
        match self.checks.is_empty() {
            true => sum,
            false => format!("__etw::rt::checked({}, {sum})", self.checks.join(" && ")),
        }
    }
}

/// The definition of a struct.
fn structure(provider: &Provider, field: &Field, name: &str) -> String {
    let mut made = Fields::default();
    let writer = Writer { provider, fields: &field.members, place: Place::Struct };
    writer.fill(&mut made, &[]);
    let generics = match made.parameters.iter().any(|one| one.contains("'a")) {
        true => "<'a>",
        false => "",
    };
    let members: String =
        made.parameters.iter().map(|one| format!("        pub {one},\n")).collect();
    let values: String = made
        .values
        .iter()
        .enumerate()
        .map(|(index, value)| format!("            let __f{index} = {value};\n"))
        .collect();
    let puts: String = (0..made.values.len())
        .map(|index| format!("            let __room = __f{index}.put(__room);\n"))
        .collect();
    format!(
        "    /// Struct `{}`.\n    #[derive(Clone, Copy, Debug)]\n    pub struct {name}{generics} {{\n{members}    }}\n    \
         impl{generics} __etw::rt::Field for {name}{generics} {{\n        fn size(&self) -> usize {{\n{values}            {}\n        }}\n        \
         fn put<'r>(&self, __room: __etw::rt::Room<'r>) -> __etw::rt::Room<'r> {{\n{values}{puts}            __room\n        }}\n    }}\n",
        super::doc(&field.name),
        made.size("__f"),
    )
}

struct Writer<'m> {
    provider: &'m Provider,
    fields: &'m [Field],
    place: Place,
}

/// How a single value is passed and put: its type, and the expression for a reference `{}` to it.
struct One {
    rust_type: String,
    /// The name of the codec whose values have that type, for slices of them.
    codec: Option<&'static str>,
    /// An expression, where `{}` is a reference to the value.
    field: String,
    is_reference: bool,
}

impl Writer<'_> {
    /// `types`: names of the structs, in the order of their fields.
    fn fill(&self, made: &mut Fields, types: &[String]) {
        let mut used = Used::default();
        let names: Vec<String> =
            self.fields.iter().map(|field| used.unique(snake(&field.name))).collect();
        let mut types = types.iter();
        for (index, field) in self.fields.iter().enumerate() {
            if let Some(source) = self.source(index) {
                made.values.push(self.derived(field, &self.place_of(&names[source])));
                made.checks
                    .extend(limit_of(field.in_type).map(|limit| {
                        format!("{}.len() <= {limit}", self.place_of(&names[source]))
                    }));
                continue;
            }
            let structure = match field.members.is_empty() {
                true => None,
                false => types.next(),
            };
            let (rust_type, value) = self.field(field, &names, index, structure);
            made.parameters.push(format!("{}: {rust_type}", names[index]));
            made.values.push(value);
            self.check(made, &names, index);
        }
    }

    /// How expressions name a parameter or member.
    fn place_of(&self, name: &str) -> String {
        match self.place {
            Place::Function => name.to_owned(),
            Place::Struct => format!("self.{name}"),
        }
    }

    /// The field whose slice gives the value of this one: the first that has it as its count, or as its length and no count.
    fn source(&self, index: usize) -> Option<usize> {
        let of = Extent::Field(index as u16);
        self.fields
            .iter()
            .position(|field| {
                field.count == of || (field.length == of && field.count == Extent::None)
            })
            .filter(|source| !self.is_packed(*source))
    }

    /// Whether a field is one slice of units: several values whose length another field has.
    fn is_packed(&self, index: usize) -> bool {
        let field = &self.fields[index];
        matches!(field.length, Extent::Field(_)) && field.count != Extent::None
    }

    fn derived(&self, field: &Field, source: &str) -> String {
        let (codec, number) = number_of(field.in_type).unwrap_or(("U32", "u32"));
        format!("__etw::rt::scalar::<__etw::rt::{codec}>(&({source}.len() as {number}))")
    }

    /// The number that a length or count has, as an expression.
    fn number(&self, extent: Extent, names: &[String]) -> Option<String> {
        match extent {
            Extent::None => None,
            Extent::Fixed(number) => Some(number.to_string()),
            Extent::Field(index) => {
                let index = usize::from(index);
                Some(match self.source(index) {
                    Some(source) => format!("{}.len()", self.place_of(&names[source])),
                    None => format!("{} as usize", self.place_of(&names[index])),
                })
            }
        }
    }

    /// Lengths and counts that do not follow from the types.
    fn check(&self, made: &mut Fields, names: &[String], index: usize) {
        let field = &self.fields[index];
        let place = self.place_of(&names[index]);
        let has_number = |extent: Extent| matches!(extent, Extent::Field(_));
        if self.is_packed(index) {
            let (length, count) =
                (self.number(field.length, names), self.number(field.count, names));
            if let (Some(length), Some(count)) = (length, count) {
                made.checks
                    .push(format!("Some({place}.len()) == usize::checked_mul({length}, {count})"));
            }
            return;
        }
        let extent = if field.count == Extent::None { field.length } else { field.count };
        let is_source =
            matches!(extent, Extent::Field(of) if self.source(of.into()) == Some(index));
        if has_number(extent)
            && !is_source
            && let Some(number) = self.number(extent, names)
        {
            made.checks.push(format!("{place}.len() == {number}"));
        }
    }

    /// The type and the expression of a field.
    fn field(
        &self,
        field: &Field,
        names: &[String],
        index: usize,
        structure: Option<&String>,
    ) -> (String, String) {
        let place = self.place_of(&names[index]);
        let borrow = if self.place == Place::Struct { "&'a " } else { "&" };
        if self.is_packed(index) {
            let codec = if field.in_type == InType::UNICODESTRING { "U16" } else { "U8" };
            let unit = if codec == "U16" { "u16" } else { "u8" };
            let value = format!("__etw::rt::values::<__etw::rt::{codec}>(&{place}[..])");
            return (format!("{borrow}[{unit}]"), value);
        }
        let one = self.one(field, structure, field.count == Extent::None);
        let count = match field.count {
            Extent::None => {
                let reference = match one.is_reference {
                    true => place,
                    false => format!("&{place}"),
                };
                return (one.rust_type, one.field.replace("{}", &reference));
            }
            Extent::Fixed(count) => format!("; {count}"),
            Extent::Field(_) => String::new(),
        };
        let value = match one.codec {
            Some(codec) => format!("__etw::rt::values::<__etw::rt::{codec}>(&{place}[..])"),
            None => {
                // Items that are references are reached through one more.
                let item = if one.is_reference { "*item" } else { "item" };
                let field = one.field.replace("{}", item);
                format!("__etw::rt::each(&{place}[..], |item| {field})")
            }
        };
        (format!("{borrow}[{}{count}]", one.rust_type), value)
    }

    /// `is_single`: outside of an array, where a parameter may be of any type that has text.
    fn one(&self, field: &Field, structure: Option<&String>, is_single: bool) -> One {
        let (borrow, is_function) = match self.place {
            Place::Function => ("&", true),
            Place::Struct => ("&'a ", false),
        };
        let reference = |rust_type: &str, field: &str| One {
            rust_type: format!("{borrow}{rust_type}"),
            codec: None,
            field: field.to_owned(),
            is_reference: true,
        };
        let value = |rust_type: &str, field: &str| One {
            rust_type: rust_type.to_owned(),
            codec: None,
            field: field.to_owned(),
            is_reference: false,
        };
        if let Some(name) = structure {
            return match is_single {
                true => reference(name, "{}"),
                false => value(name, "{}"),
            };
        }
        if let Some((codec, number)) = number_of(field.in_type) {
            if let Some(map) = field.map {
                let name = maps::type_name(self.provider, map);
                let code = format!(
                    "__etw::rt::scalar::<__etw::rt::{codec}>(&(({{}}).value() as {number}))"
                );
                return value(&name, &code);
            }
            let code = format!("__etw::rt::scalar::<__etw::rt::{codec}>({{}})");
            return One { codec: Some(codec), ..value(number, &code) };
        }
        let open = is_single && is_function;
        let bytes = if open { "(impl AsRef<[u8]> + ?Sized)" } else { "[u8]" };
        let wide = if open { "(impl __etw::rt::Wide + ?Sized)" } else { "str" };
        let as_ref = if open { "AsRef::<[u8]>::as_ref({})" } else { "{}" };
        let text = |codec: &str| format!("__etw::rt::text::<__etw::rt::{codec}>({as_ref})");
        let array = |unit: &str, codec: &str, length: u16| {
            let code = format!("__etw::rt::values::<__etw::rt::{codec}>(&({{}})[..])");
            match is_single {
                true => reference(&format!("[{unit}; {length}]"), &code),
                false => value(&format!("[{unit}; {length}]"), &code),
            }
        };
        match (field.in_type, field.length) {
            (InType::UNICODESTRING, Extent::Fixed(length)) => array("u16", "U16", length),
            (InType::ANSISTRING | InType::BINARY, Extent::Fixed(length)) => {
                array("u8", "U8", length)
            }
            (InType::UNICODESTRING, Extent::Field(_)) => {
                reference("[u16]", "__etw::rt::values::<__etw::rt::U16>(&({})[..])")
            }
            (InType::ANSISTRING | InType::BINARY, Extent::Field(_)) => {
                reference("[u8]", "__etw::rt::values::<__etw::rt::U8>(&({})[..])")
            }
            (InType::UNICODESTRING, Extent::None) => reference(wide, "__etw::rt::wide({})"),
            (InType::ANSISTRING, Extent::None) => reference(bytes, &text("Zero8")),
            (InType::MANIFEST_COUNTEDSTRING, _) => reference(wide, "__etw::rt::counted_wide({})"),
            (InType::MANIFEST_COUNTEDANSISTRING, _) => reference(bytes, &text("Counted8")),
            (InType::MANIFEST_COUNTEDBINARY, _) => {
                reference("[u8]", "__etw::rt::text::<__etw::rt::Counted8>({})")
            }
            (InType::SID, _) => reference("[u8]", "__etw::rt::text::<__etw::rt::Sid>({})"),
            (InType::GUID, _) => One {
                codec: Some("GuidCodec"),
                ..value("__etw::Guid", "__etw::rt::scalar::<__etw::rt::GuidCodec>({})")
            },
            (InType::BOOLEAN, _) => One {
                codec: Some("Bool32::<bool>"),
                ..value("bool", "__etw::rt::scalar::<__etw::rt::Bool32<bool>>({})")
            },
            (InType::FILETIME, _) => {
                value("__etw::FileTime", "__etw::rt::scalar::<__etw::rt::I64>(&({}).0)")
            }
            (InType::SYSTEMTIME, _) => value("__etw::SystemTime", "__etw::rt::system_time({})"),
            // Types that manifests do not have, and binary fields that decoders cannot delimit.
            _ => reference("[u8]", "__etw::rt::raw({})"),
        }
    }
}

/// The codec and the type of a number.
fn number_of(in_type: InType) -> Option<(&'static str, &'static str)> {
    Some(match in_type {
        InType::INT8 => ("I8", "i8"),
        InType::UINT8 => ("U8", "u8"),
        InType::INT16 => ("I16", "i16"),
        InType::UINT16 => ("U16", "u16"),
        InType::INT32 => ("I32", "i32"),
        InType::UINT32 | InType::HEXINT32 => ("U32", "u32"),
        InType::INT64 => ("I64", "i64"),
        InType::UINT64 | InType::HEXINT64 => ("U64", "u64"),
        InType::FLOAT => ("F32", "f32"),
        InType::DOUBLE => ("F64", "f64"),
        InType::POINTER | InType::SIZET => ("Usize", "usize"),
        _ => return None,
    })
}

/// The largest number of elements that an integer of this type can count, if slices may have more.
fn limit_of(in_type: InType) -> Option<&'static str> {
    Some(match in_type {
        InType::INT8 => "i8::MAX as usize",
        InType::UINT8 => "u8::MAX as usize",
        InType::INT16 => "i16::MAX as usize",
        InType::UINT16 => "u16::MAX as usize",
        InType::INT32 => "i32::MAX as usize",
        InType::UINT32 | InType::HEXINT32 => "u32::MAX as usize",
        _ => return None,
    })
}
