//! A program in C and C++ that writes every event of a manifest through the macros of its header.

use std::fmt::Write;

use etw_mc::Manifest;
use etw_mc::manifest::{Extent, Field, Provider};
use etw_tracelogging::tdh::InType;

use super::values::{Source, Value, payload, payload_of};

/// The program and the payloads that it writes.
pub struct Driver {
    pub source: String,
    pub payloads: Vec<Vec<u8>>,
}

/// `header`: its file name, `text`: its text.
pub fn driver(manifest: &Manifest, header: &str, text: &str) -> Driver {
    let mut macros = text.lines().filter_map(|line| {
        let name = line.strip_prefix("#define EventWrite")?.split_once('(')?.0;
        (!name.ends_with("AssumeEnabled") && !name.ends_with("_ForContext")).then_some(name)
    });
    let mut calls = Calls::default();
    let mut body = String::new();
    for provider in &manifest.providers {
        let (suffix, guid) = names(provider);
        let _ = writeln!(body, "    CHECK(EventRegister{suffix}());");
        let _ = writeln!(body, "    CHECK(EventRegister{suffix}()); /* Succeeds again. */");
        let _ = writeln!(body, "    CHECK(etw_session_enable(session, &{guid}, 255, 0, 0));");
        for event in provider.events.iter().filter(|event| event.is_logged) {
            let name = macros.next().expect("each logged event has a macro");
            let fields = event.template.map_or(&[][..], |index| &provider.templates[index].fields);
            calls.event(&mut body, name, fields);
        }
    }
    for provider in &manifest.providers {
        let suffix = names(provider).0;
        let _ = writeln!(body, "    CHECK(EventUnregister{suffix}());");
        let _ = writeln!(body, "    CHECK(EventUnregister{suffix}());");
    }
    let source = format!(
        r#"#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <etw_session.h>
#include "{header}"

#define CHECK(call)                                                        \
    do {{                                                                   \
        unsigned long status = (unsigned long)(call);                      \
        if (status != 0) {{                                                 \
            fprintf(stderr, "line %d: %s: %lu\n", __LINE__, #call, status); \
            exit(1);                                                       \
        }}                                                                  \
    }} while (0)

{}
int main(void)
{{
    ETW_SESSION session;
    ULONGLONG lost = 99;
    CHECK(etw_session_start("manifest", getenv("DRIVER_OUT"), &session));
{body}    CHECK(etw_session_stop(session, &lost));
    CHECK(lost);
    return 0;
}}
"#,
        calls.memory
    );
    Driver { source, payloads: calls.payloads }
}

/// The ending of the registration macros' names, and the GUID that sessions enable.
fn names(provider: &Provider) -> (String, String) {
    match provider.control_guid {
        Some(_) => (format!("_{}", provider.symbol), format!("{}_ControlGuid", provider.symbol)),
        None => {
            let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
            (provider.name.chars().map(plain).collect(), provider.symbol.clone())
        }
    }
}

/// The bytes that NULL is written as, if a field may be NULL.
fn null(field: &Field) -> Option<&'static [u8]> {
    let is_one = field.count == Extent::None && field.members.is_empty();
    match field.in_type {
        InType::UNICODESTRING if is_one && field.length == Extent::None => {
            Some(b"N\0U\0L\0L\0\0\0")
        }
        InType::ANSISTRING if is_one && field.length == Extent::None => Some(b"NULL\0"),
        InType::SID if is_one => Some(&[0; 8]),
        _ => None,
    }
}

/// Whether an event is also written with NULL.
pub fn has_null(fields: &[Field]) -> bool {
    fields.iter().any(|field| null(field).is_some())
}

#[derive(Default)]
struct Calls {
    /// Definitions of the bytes that pointers lead to.
    memory: String,
    count: usize,
    payloads: Vec<Vec<u8>>,
}

impl Calls {
    /// Calls of an event's macros: with values, then with NULL where that is allowed.
    fn event(&mut self, body: &mut String, name: &str, fields: &[Field]) {
        let seed = self.payloads.len() as u64;
        let values = Source(seed).values(fields);
        let arguments: Vec<String> = fields
            .iter()
            .zip(&values)
            .flat_map(|(field, value)| self.arguments(field, value))
            .collect();
        let _ = writeln!(body, "    CHECK(!EventEnabled{name}());");
        let _ = writeln!(body, "    CHECK(EventWrite{name}({}));", arguments.join(", "));
        self.payloads.push(payload_of(fields, &values));
        if has_null(fields) {
            let mut arguments = Vec::new();
            let mut bytes = Vec::new();
            for (field, value) in fields.iter().zip(&values) {
                match null(field) {
                    Some(written) => {
                        arguments.push("NULL".to_owned());
                        bytes.extend(written);
                    }
                    None => {
                        arguments.extend(self.arguments(field, value));
                        bytes.extend(payload(field, value));
                    }
                }
            }
            let arguments = arguments.join(", ");
            let _ = writeln!(body, "    CHECK(EventWrite{name}_AssumeEnabled({arguments}));");
            self.payloads.push(bytes);
        }
    }

    /// The name of bytes in memory.
    fn bytes(&mut self, bytes: &[u8]) -> String {
        let name = format!("memory{}", self.count);
        self.count += 1;
        // An array has at least one byte.
        let list: Vec<String> = bytes.iter().chain([&0xee]).map(u8::to_string).collect();
        let _ = writeln!(
            self.memory,
            "static const unsigned char {name}[] __attribute__((aligned(16))) = {{{}}};",
            list.join(",")
        );
        name
    }

    /// The arguments of a field: its size where the macro asks for it, and its value.
    fn arguments(&mut self, field: &Field, value: &Value) -> Vec<String> {
        let is_array = matches!(value, Value::Array(_));
        let encoded = payload(field, value);
        if !field.members.is_empty() {
            let name = self.bytes(&encoded);
            return vec![encoded.len().to_string(), format!("(const void*){name}")];
        }
        let has_length = field.length != Extent::None;
        let content = match value {
            Value::Bytes(bytes) => bytes.clone(),
            _ => encoded.clone(),
        };
        let pointer = |calls: &mut Calls, c_type: &str, bytes: &[u8]| {
            format!("({c_type})(const void*){}", calls.bytes(bytes))
        };
        match field.in_type {
            InType::UNICODESTRING if is_array && !has_length => {
                let units = (encoded.len() / 2).to_string();
                vec![units, pointer(self, "const WCHAR*", &encoded)]
            }
            InType::ANSISTRING if is_array && !has_length => {
                vec![encoded.len().to_string(), pointer(self, "const char*", &encoded)]
            }
            InType::UNICODESTRING => vec![pointer(self, "PCWSTR", &encoded)],
            InType::ANSISTRING => vec![pointer(self, "PCSTR", &encoded)],
            InType::BINARY => vec![pointer(self, "const unsigned char*", &encoded)],
            InType::SID if is_array => {
                vec![encoded.len().to_string(), pointer(self, "const void*", &encoded)]
            }
            InType::SID => vec![pointer(self, "const void*", &encoded)],
            InType::MANIFEST_COUNTEDSTRING if !is_array => {
                vec![(content.len() / 2).to_string(), pointer(self, "const WCHAR*", &content)]
            }
            InType::MANIFEST_COUNTEDANSISTRING if !is_array => {
                vec![content.len().to_string(), pointer(self, "const char*", &content)]
            }
            InType::MANIFEST_COUNTEDBINARY if !is_array => {
                vec![content.len().to_string(), pointer(self, "const unsigned char*", &content)]
            }
            InType::MANIFEST_COUNTEDSTRING
            | InType::MANIFEST_COUNTEDANSISTRING
            | InType::MANIFEST_COUNTEDBINARY => {
                vec![encoded.len().to_string(), pointer(self, "const void*", &encoded)]
            }
            InType::GUID => vec![pointer(self, "LPCGUID", &encoded)],
            InType::FILETIME => vec![pointer(self, "const FILETIME*", &encoded)],
            InType::SYSTEMTIME => vec![pointer(self, "const SYSTEMTIME*", &encoded)],
            in_type => {
                let c_type = number_type(in_type);
                match value {
                    Value::Number(bits) => vec![number(in_type, c_type, *bits)],
                    _ if in_type == InType::POINTER => {
                        vec![format!("(const void**)(ULONG_PTR){}", self.bytes(&encoded))]
                    }
                    _ => vec![pointer(self, &format!("const {c_type}*"), &encoded)],
                }
            }
        }
    }
}

fn number_type(in_type: InType) -> &'static str {
    match in_type {
        InType::INT8 => "signed char",
        InType::UINT8 => "unsigned char",
        InType::INT16 => "signed short",
        InType::UINT16 => "unsigned short",
        InType::INT32 | InType::HEXINT32 | InType::BOOLEAN => "signed int",
        InType::UINT32 => "unsigned int",
        InType::INT64 | InType::HEXINT64 => "LONGLONG",
        InType::UINT64 => "ULONGLONG",
        InType::FLOAT => "float",
        InType::DOUBLE => "double",
        InType::POINTER => "const void*",
        other => panic!("{other:?} is not a number"),
    }
}

fn number(in_type: InType, c_type: &str, bits: u64) -> String {
    match in_type {
        InType::FLOAT => format!("{:?}f", f32::from_bits(bits as u32)),
        InType::DOUBLE => format!("{:?}", f64::from_bits(bits)),
        InType::POINTER => format!("(const void*)(ULONG_PTR){bits:#x}ULL"),
        _ => format!("({c_type}){bits:#x}ULL"),
    }
}
