//! A program in Rust that writes every event of manifests through the functions that are generated for them.

use std::fmt::Write;

use etw_mc::Manifest;
use etw_mc::manifest::{Extent, Field, Provider};
use etw_mc::rust::{pascal, snake};
use etw_tracelogging::tdh::InType;

use super::values::{Source, Value, payload_of};

/// A part of the program, and the payloads that it writes.
pub struct Driver {
    /// A function `pub fn run()` in a module of its own.
    pub source: String,
    pub payloads: Vec<Vec<u8>>,
}

/// `generated`: the text of the manifest's Rust file; the module of the driver includes it.
pub fn driver(manifest: &Manifest, generated: &str, path: &str) -> Driver {
    let lines = generated.lines().map(str::trim);
    let mut functions = lines
        .filter_map(|line| line.strip_prefix("pub fn "))
        .filter(|function| function.ends_with("-> __etw::Status {"));
    let mut modules = generated
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(" {")));
    let mut body = String::new();
    let mut payloads = Vec::new();
    // The same values as those of the driver in C: it writes some events twice.
    let mut seed = 0;
    for provider in &manifest.providers {
        let module = modules.next().expect("each provider has a module");
        for event in provider.events.iter().filter(|event| event.is_logged) {
            let function = functions.next().expect("each logged event has a function");
            let (name, parameters) = function.split_once('(').unwrap();
            let fields = event.template.map_or(&[][..], |index| &provider.templates[index].fields);
            let values = Source(seed).values(fields);
            let tid = event.template.map(|index| provider.templates[index].id.as_str());
            let call = Call { provider, module, structs: generated, template: tid.unwrap_or("") };
            let arguments = call.arguments(fields, &values, parameters);
            let _ = writeln!(body, "    assert!({module}::{name}_enabled());");
            let _ = writeln!(body, "    assert!({module}::{name}({arguments}).is_success());");
            payloads.push(payload_of(fields, &values));
            seed += 1 + u64::from(super::c_driver::has_null(fields));
        }
    }
    let mut begin = String::new();
    for (number, provider) in manifest.providers.iter().enumerate() {
        let module = snake(&provider.symbol);
        let all = "etw::Level(255), etw::Keyword(0)";
        let _ = writeln!(begin, "    let _registration{number} = {module}::register();");
        let _ = writeln!(begin, "    session.enable(&{module}::PROVIDER, {all}).unwrap();");
    }
    let source = format!(
        "include!({path:?});

pub fn run(out: &str) {{
    let session = etw::Session::builder(\"rust\").file(out).start().unwrap();
{begin}{body}    assert_eq!(session.stop().unwrap().ledger.lost_total(), 0);
}}
"
    );
    Driver { source, payloads }
}

struct Call<'m> {
    provider: &'m Provider,
    module: &'m str,
    /// The generated text, whose structs say which members they have.
    structs: &'m str,
    template: &'m str,
}

impl Call<'_> {
    /// The arguments of a function, or the members of a struct, of those fields that `parameters` names.
    fn arguments(&self, fields: &[Field], values: &[Value], parameters: &str) -> String {
        let mut names = parameters.split(&['(', ',', '{', ' ', '\n'][..]);
        let mut list = Vec::new();
        for (field, value) in fields.iter().zip(values) {
            let name = snake(&field.name) + ":";
            // Fields whose values follow from slices are no parameters; the order is that of the fields.
            let mut rest = names.clone();
            if rest.any(|word| word == name) {
                names = rest;
                list.push(self.argument(field, value));
            }
        }
        list.join(", ")
    }

    fn argument(&self, field: &Field, value: &Value) -> String {
        match value {
            Value::Array(items) if is_packed(field) => {
                let bytes = items.iter().flat_map(|item| match item {
                    Value::Bytes(bytes) => bytes.clone(),
                    other => panic!("{other:?} has no length"),
                });
                format!("&{}", units(field, &bytes.collect::<Vec<u8>>()))
            }
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.one(field, item)).collect();
                format!("&[{}]", items.join(", "))
            }
            Value::Struct(_) => format!("&{}", self.one(field, value)),
            Value::Bytes(_) if is_fixed(field) => format!("&{}", self.one(field, value)),
            _ => self.one(field, value),
        }
    }

    fn one(&self, field: &Field, value: &Value) -> String {
        match value {
            Value::Struct(members) => self.structure(field, members),
            Value::Number(bits) => match field.in_type {
                InType::BOOLEAN => (*bits != 0).to_string(),
                InType::FLOAT => format!("f32::from_bits({bits:#x})"),
                InType::DOUBLE => format!("f64::from_bits({bits:#x})"),
                _ => match field.map {
                    Some(map) => self.map_value(map, *bits),
                    None => format!("{bits:#x}u64 as _"),
                },
            },
            Value::Bytes(bytes) => match field.in_type {
                InType::GUID => format!("etw::Guid({bytes:?})"),
                InType::FILETIME => {
                    let ticks = i64::from_le_bytes(bytes[..].try_into().unwrap());
                    format!("etw::FileTime({ticks})")
                }
                InType::SYSTEMTIME => format!("super::system_time({bytes:?})"),
                InType::UNICODESTRING | InType::MANIFEST_COUNTEDSTRING
                    if field.length == Extent::None =>
                {
                    let units = bytes.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
                    format!("{:?}", String::from_utf16(&units.collect::<Vec<_>>()).unwrap())
                }
                _ if is_fixed(field) => units(field, bytes),
                _ => format!("&{}[..]", units(field, bytes)),
            },
            Value::Array(_) => panic!("an array in an array"),
        }
    }

    fn map_value(&self, map: usize, bits: u64) -> String {
        let map = &self.provider.maps[map];
        let name = pascal(map.symbol.as_deref().unwrap_or(&map.name));
        match map.is_bitmap {
            true => format!("{}::{name}({bits})", self.module),
            false => format!("{}::{name}::from({bits})", self.module),
        }
    }

    fn structure(&self, field: &Field, members: &[Value]) -> String {
        let name = pascal(&format!("{} {}", self.template, field.name));
        let start = self.structs.find(&format!("pub struct {name}")).expect("it has a struct");
        let end = start + self.structs[start..].find("\n    }\n").unwrap();
        let text = &self.structs[start..end];
        let mut list = Vec::new();
        for (member, value) in field.members.iter().zip(members) {
            let member_name = snake(&member.name);
            if text.contains(&format!("pub {member_name}: ")) {
                list.push(format!("{member_name}: {}", self.argument(member, value)));
            }
        }
        format!("{}::{name} {{ {} }}", self.module, list.join(", "))
    }
}

fn is_packed(field: &Field) -> bool {
    matches!(field.length, Extent::Field(_)) && field.count != Extent::None
}

fn is_fixed(field: &Field) -> bool {
    matches!(field.length, Extent::Fixed(_))
}

/// Bytes or UTF-16 units as an array.
fn units(field: &Field, bytes: &[u8]) -> String {
    match field.in_type {
        InType::UNICODESTRING => {
            let units = bytes.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
            format!("[{}]", units.map(|unit| format!("{unit}u16")).collect::<Vec<_>>().join(", "))
        }
        _ => format!("[{}]", bytes.iter().map(|b| format!("{b}u8")).collect::<Vec<_>>().join(", ")),
    }
}
