//! The C and C++ header: macros, constants and descriptors by the names that Microsoft's `mc` gives, so that programs
//! compile unchanged.

mod arguments;
mod names;
mod runtime;

use std::collections::BTreeMap;
use std::fmt::Write;

use etw_types::{Guid, Keyword, Level};

use crate::Manifest;
use crate::manifest::{Event, Provider};
use crate::messages::MessageIds;
use arguments::Function;
use names::{identifier, symbol};

/// The code that a header has besides constants and descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Code {
    /// None.
    None,
    /// For user mode (`-um`).
    #[default]
    User,
    /// For kernel mode (`-km`): macros take an activity id first.
    Kernel,
}

/// Options of the header.
#[derive(Clone, Debug)]
pub struct Options {
    /// The code besides constants and descriptors.
    pub code: Code,
    /// In front of the names of macros that write (`-p`): `EventWrite`.
    pub write_prefix: String,
    /// Removed from the beginning of events' symbols, without regard to case (`-P`).
    pub removed_prefix: String,
    /// Whether each write also calls the function that `MCGEN_CALLOUT` names (`-co`).
    pub has_callout: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            code: Code::default(),
            write_prefix: "EventWrite".to_owned(),
            removed_prefix: String::new(),
            has_callout: false,
        }
    }
}

/// The header's text.
pub fn write(manifest: &Manifest, options: &Options) -> String {
    let mut out = String::from(
        "/* Made by etw mc from an instrumentation manifest: changes are lost when it is made again. */\n\
         #pragma once\n\n#include <string.h>\n#include <wmistr.h>\n#include <evntrace.h>\n#include <evntprov.h>\n\n#ifndef MCGEN_DECLARE\n\
         #ifdef _MSC_VER\n#define MCGEN_DECLARE extern\n\
         #define MCGEN_DEFINE extern __declspec(selectany)\n#else\n\
         #define MCGEN_DECLARE __attribute__((weak)) extern\n#define MCGEN_DEFINE\n#endif\n#endif\n\n\
         #ifdef __cplusplus\nextern \"C\" {\n#endif\n",
    );
    let has_code = options.code != Code::None;
    if has_code {
        out.push_str("\n#ifndef MCGEN_DISABLE_PROVIDER_CODE_GENERATION\n");
        out.push_str(runtime::HOOKS);
        out.push_str(runtime::CONTEXT);
        let call = "    return MCGEN_EVENTWRITETRANSFER(";
        match options.has_callout {
            true => {
                let callout = "    MCGEN_CALLOUT(Context->RegistrationHandle, Descriptor, EventDataCount, EventData);\n";
                out.push_str(&runtime::WRITE.replace(call, &format!("{callout}{call}")));
            }
            false => out.push_str(runtime::WRITE),
        }
        out.push_str("#endif /* MCGEN_DISABLE_PROVIDER_CODE_GENERATION */\n");
    }
    let mut functions = BTreeMap::new();
    for provider in &manifest.providers {
        let header = ProviderHeader { provider, options, events: logged(provider, options) };
        header.constants(&mut out);
        if has_code {
            header.code(&mut out, &mut functions);
        }
    }
    if has_code && !functions.is_empty() {
        out.push_str("\n#ifndef MCGEN_DISABLE_PROVIDER_CODE_GENERATION\n");
        for (name, function) in &functions {
            out.push('\n');
            out.push_str(&function.definition(name, options.code == Code::Kernel));
        }
        out.push_str("#endif /* MCGEN_DISABLE_PROVIDER_CODE_GENERATION */\n");
    }
    out.push_str("\n#ifdef __cplusplus\n}\n#endif\n\n");
    for (name, id) in MessageIds::new(manifest).strings() {
        line(&mut out, format_args!("#define MSG_{} 0x{id:08X}L", identifier(name)));
    }
    // A guess: the documentation says that mc makes these names, not where.
    for one in &manifest.message_table {
        if let Some(symbol) = &one.symbol {
            line(&mut out, format_args!("#define {symbol} 0x{:08X}L", one.id));
        }
    }
    out
}

/// Data that several translation units may define: declared, so that it has external linkage in C++, and defined.
fn data(out: &mut String, c_type: &str, name: &str, value: &str) {
    line(
        out,
        format_args!("MCGEN_DECLARE {c_type} {name};\nMCGEN_DEFINE {c_type} {name} = {value};"),
    );
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    let _ = writeln!(out, "{text}");
}

/// Events that have a descriptor, with its name.
fn logged<'p>(provider: &'p Provider, options: &Options) -> Vec<(String, &'p Event)> {
    let events = provider.events.iter().filter(|event| event.is_logged);
    events.map(|event| (names::event(provider, event, &options.removed_prefix), event)).collect()
}

struct ProviderHeader<'p> {
    provider: &'p Provider,
    options: &'p Options,
    events: Vec<(String, &'p Event)>,
}

impl ProviderHeader<'_> {
    /// The text between `EventRegister` and its parenthesis, and before `Handle`.
    fn suffix(&self) -> (String, String) {
        match self.provider.control_guid {
            Some(_) => (format!("_{}", self.provider.symbol), format!("{}_", self.provider.symbol)),
            None => {
                let name = identifier(&self.provider.name);
                (name.clone(), name)
            }
        }
    }

    fn constants(&self, out: &mut String) {
        let provider = self.provider;
        let sym = &provider.symbol;
        line(
            out,
            format_args!("\n/* Provider {}: {} events */", provider.name, provider.events.len()),
        );
        data(out, "const GUID", sym, &guid(provider.guid));
        if let Some(control) = provider.control_guid {
            data(out, "const GUID", &format!("{sym}_ControlGuid"), &guid(control));
        }
        line(
            out,
            format_args!("#ifndef {sym}_Traits\n#define {sym}_Traits {}\n#endif", traits(provider)),
        );
        for one in &provider.channels {
            let name = symbol(provider, one.symbol.as_deref(), "CHANNEL", &one.id);
            line(out, format_args!("#define {name} {:#x}", one.value));
        }
        let own = |name: &str| !name.starts_with("win:");
        for one in provider.levels.iter().filter(|one| own(&one.name)) {
            let name = symbol(provider, one.symbol.as_deref(), "LEVEL", &one.name);
            line(out, format_args!("#define {name} {:#x}", one.value));
        }
        for one in provider.opcodes.iter().filter(|one| own(&one.name)) {
            let name = symbol(provider, one.symbol.as_deref(), "OPCODE", &one.name);
            line(out, format_args!("#define {name} {:#x}", one.value));
        }
        for one in provider.tasks.iter().filter(|one| own(&one.name)) {
            let name = symbol(provider, one.symbol.as_deref(), "TASK", &one.name);
            line(out, format_args!("#define {name} {:#x}", one.value));
            if let Some(event) = one.guid {
                data(out, "const GUID", &format!("{}Id", identifier(&one.name)), &guid(event));
            }
        }
        for one in provider.keywords.iter().filter(|one| own(&one.name)) {
            let name = symbol(provider, one.symbol.as_deref(), "KEYWORD", &one.name);
            line(out, format_args!("#define {name} {:#x}", one.mask));
        }
        self.enumerations(out);
        for (name, event) in &self.events {
            let numbers = provider.numbers_of(event);
            let channel = provider.descriptor_channel(event);
            let descriptor = format!(
                "{{{:#x}, {:#x}, {channel:#x}, {:#x}, {:#x}, {:#x}, {:#x}}}",
                event.id,
                event.version,
                numbers.level.0,
                numbers.opcode,
                numbers.task,
                provider.keyword_of(event),
            );
            data(out, "const EVENT_DESCRIPTOR", name, &descriptor);
            line(out, format_args!("#define {name}_value {:#x}", event.id));
        }
    }

    /// Maps with a symbol as enumerations.
    fn enumerations(&self, out: &mut String) {
        for map in &self.provider.maps {
            let Some(symbol) = &map.symbol else { continue };
            line(out, format_args!("#ifndef _{symbol}_def\n#define _{symbol}_def"));
            line(out, format_args!("typedef enum _{symbol} {{"));
            for item in map.items.iter() {
                if let Some(name) = &item.symbol {
                    line(out, format_args!("    {symbol}{name} = {},", item.value as i32));
                }
            }
            line(out, format_args!("}} {symbol};\n#endif"));
        }
    }

    fn code(&self, out: &mut String, functions: &mut BTreeMap<String, Function>) {
        let (provider, sym) = (self.provider, &self.provider.symbol);
        let is_kernel = self.options.code == Code::Kernel;
        let (suffix, handle) = self.suffix();
        let bits_name = identifier(&provider.name);
        line(out, format_args!("\n#ifndef MCGEN_DISABLE_PROVIDER_CODE_GENERATION"));
        line(out, format_args!("#define {sym}_EventWriteActivity {}", u8::from(is_kernel)));
        let EnableBits { pairs: bits, of_event } = self.enable_bits();
        let words = bits.len().div_ceil(32).max(1);
        data(out, "ULONG", &format!("{bits_name}EnableBits[{words}]"), "{0}");
        // An array has at least one item.
        let list = |items: Vec<String>| match items.is_empty() {
            true => "{0}".to_owned(),
            false => format!("{{{}}}", items.join(", ")),
        };
        let keywords = list(bits.iter().map(|(_, keyword)| format!("{keyword:#x}")).collect());
        let levels = list(bits.iter().map(|(level, _)| level.to_string()).collect());
        let size = bits.len().max(1);
        data(out, "const ULONGLONG", &format!("{bits_name}Keywords[{size}]"), &keywords);
        data(out, "const unsigned char", &format!("{bits_name}Levels[{size}]"), &levels);
        let context = format!(
            "{{0, (ULONG_PTR){sym}_Traits, 0, 0, 0, 0, 0, 0, {}, {bits_name}EnableBits, \
             {bits_name}Keywords, {bits_name}Levels}}",
            bits.len()
        );
        data(out, "MCGEN_TRACE_CONTEXT", &format!("{sym}_Context"), &context);
        let (register, target) = match traits(provider).as_str() {
            "NULL" => ("McGenEventRegister", format!("{handle}Handle")),
            _ => ("McGenEventRegisterContext", format!("{sym}_Context")),
        };
        let control = match provider.control_guid {
            Some(_) => format!("{sym}_ControlGuid"),
            None => sym.clone(),
        };
        line(
            out,
            format_args!(
                "#define {handle}Handle ({sym}_Context.RegistrationHandle)\n\
                 #ifndef MCGEN_PENABLECALLBACK\n#define MCGEN_PENABLECALLBACK McGenControlCallbackV2\n#endif\n\
                 #ifndef EventRegister{suffix}\n\
                 #define EventRegister{suffix}() \\\n    {register}(&{control}, MCGEN_PENABLECALLBACK, &{sym}_Context, &{target})\n#endif\n\
                 #ifndef EventRegisterByGuid{suffix}\n\
                 #define EventRegisterByGuid{suffix}(Guid) \\\n    {register}(&(Guid), MCGEN_PENABLECALLBACK, &{sym}_Context, &{target})\n#endif\n\
                 #ifndef EventUnregister{suffix}\n\
                 #define EventUnregister{suffix}() McGenEventUnregister(&{handle}Handle)\n#endif"
            ),
        );
        let size = [words, bits.len()];
        out.push_str(&runtime::for_context(
            sym,
            &bits_name,
            &Registration { suffix, handle, control },
            size,
        ));
        for ((name, event), bit) in self.events.iter().zip(of_event) {
            let fields = event.template.map_or(&[][..], |index| &provider.templates[index].fields);
            let function = Function::of(fields);
            let kind = if is_kernel { "McTemplateK0" } else { "McTemplateU0" };
            let function_name = format!("{kind}{}", function.code);
            let write = &self.options.write_prefix;
            let is_field = function.parameters.iter().any(|name| name == "Activity");
            let activity = if is_field { "Activity_2" } else { "Activity" };
            let activity = is_kernel.then(|| activity.to_owned());
            let parameters: Vec<String> =
                activity.into_iter().chain(function.parameters.iter().cloned()).collect();
            let arguments: String =
                parameters.iter().map(|parameter| format!(", ({parameter})")).collect();
            let more: String =
                parameters.iter().map(|parameter| format!(", {parameter}")).collect();
            let parameters = parameters.join(", ");
            let context = format!("McGenCheckContext_{bits_name}(pContext)");
            line(
                out,
                format_args!(
                    "#define EventEnabled{name}() MCGEN_EVENT_BIT_SET({bits_name}EnableBits, {bit})\n\
                     #define {write}{name}({parameters}) \\\n    (MCGEN_EVENT_ENABLED({name}) ? {write}{name}_AssumeEnabled({parameters}) : 0)\n\
                     #define {write}{name}_AssumeEnabled({parameters}) \\\n    {function_name}_etw(&{sym}_Context, &{name}{arguments})\n\
                     #define EventEnabled{name}_ForContext(pContext) \\\n    MCGEN_EVENT_BIT_SET({context}->EnableBits, {bit})\n\
                     #define {write}{name}_ForContext(pContext{more}) \\\n    (MCGEN_EVENT_ENABLED_FORCONTEXT(pContext, {name}) ? {write}{name}_ForContextAssumeEnabled(pContext{more}) : 0)\n\
                     #define {write}{name}_ForContextAssumeEnabled(pContext{more}) \\\n    {function_name}_etw(&{context}->Context, &{name}{arguments})"
                ),
            );
            functions.entry(function_name).or_insert(function);
        }
        line(out, format_args!("#endif /* MCGEN_DISABLE_PROVIDER_CODE_GENERATION */"));
    }

    /// The distinct pairs of level and keyword in the order of their first use, and each logged event's index in them.
    /// Events that are not logged have pairs, too.
    fn enable_bits(&self) -> EnableBits {
        let mut bits = EnableBits { pairs: Vec::new(), of_event: Vec::new() };
        for event in &self.provider.events {
            let pair = (self.provider.numbers_of(event).level, self.provider.keyword_of(event));
            let known = bits.pairs.iter().position(|known| *known == pair);
            if event.is_logged {
                bits.of_event.push(known.unwrap_or(bits.pairs.len()));
            }
            if known.is_none() {
                bits.pairs.push(pair);
            }
        }
        bits
    }
}

/// The bits of `EnableBits` in generated code: one for each pair of level and keyword.
struct EnableBits {
    pairs: Vec<(Level, Keyword)>,
    /// For each logged event the number of its pair.
    of_event: Vec<usize>,
}

/// The names of a provider's registration.
struct Registration {
    /// Behind `EventRegister`.
    suffix: String,
    /// Before `Handle`.
    handle: String,
    /// The GUID that sessions enable.
    control: String,
}

/// A GUID as a C initialiser.
fn guid(guid: Guid) -> String {
    let b = guid.0;
    let tail: Vec<String> = b[8..].iter().map(|byte| format!("0x{byte:02x}")).collect();
    format!(
        "{{0x{:08x},0x{:04x},0x{:04x},{{{}}}}}",
        u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
        u16::from_le_bytes([b[4], b[5]]),
        u16::from_le_bytes([b[6], b[7]]),
        tail.join(",")
    )
}

/// A provider's traits as a C string literal: `u16` size, name, NUL, then `u16` size, `u8` type, GUID for each trait.
fn traits(provider: &Provider) -> String {
    let traits = [(1, provider.group_guid), (2, provider.control_guid.map(|_| provider.guid))];
    if !provider.includes_name && traits.iter().all(|(_, guid)| guid.is_none()) {
        return "NULL".to_owned();
    }
    let name = if provider.includes_name { provider.name.as_str() } else { "" };
    let mut bytes = vec![0, 0];
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(0);
    for (kind, guid) in traits {
        let Some(guid) = guid else { continue };
        bytes.extend_from_slice(&[19, 0, kind]);
        bytes.extend_from_slice(&guid.0);
    }
    let size = (bytes.len() as u16).to_le_bytes();
    bytes[..2].copy_from_slice(&size);
    let text: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("\"{text}\"")
}
