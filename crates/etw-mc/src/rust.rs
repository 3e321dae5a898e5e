//! Rust: a typed function for each event, structs, and enumerations for maps.
//!
//! ```text
//! pub mod SYMBOL {                        one for each provider
//!     pub static PROVIDER: etw::Provider
//!     pub fn register() -> etw::Registration
//!     pub enum MAP, pub struct BITMAP
//!     pub struct TEMPLATE_STRUCT
//!     pub fn EVENT_enabled() -> bool
//!     pub fn EVENT(fields) -> etw::Status
//! }
//! ```
//!
//! A field that has the length or count of another one is no parameter: its value is that of the slice.

mod fields;
mod maps;
mod names;

use std::fmt::Write;

use etw_types::Guid;

use crate::Manifest;
use crate::manifest::{Event, Provider};
use crate::schema;
use fields::Fields;
use names::Used;
pub use names::{pascal, snake};

/// Options of the Rust output.
#[derive(Clone, Debug)]
pub struct Options {
    /// The path of crate `etw` in the program that includes the output.
    pub crate_path: String,
    /// Whether the provider carries its schema, so that traces explain themselves.
    pub has_schema: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { crate_path: "::etw".to_owned(), has_schema: true }
    }
}

/// The text of a Rust file, for `include!`.
pub fn write(manifest: &Manifest, options: &Options) -> String {
    let mut out = String::from("// Made by etw mc from an instrumentation manifest.\n");
    let schemas = match options.has_schema {
        true => schema::blobs(manifest),
        false => Vec::new(),
    };
    let mut modules = Used::default();
    for (index, provider) in manifest.providers.iter().enumerate() {
        let module = modules.unique(snake(&provider.symbol));
        let schema = schemas.get(index).map(Vec::as_slice).unwrap_or_default();
        line(&mut out, 0, &format!("/// Provider `{}`.", doc(&provider.name)));
        let lints = "#[allow(clippy::all, dead_code, missing_docs, non_upper_case_globals, unused_imports)]";
        line(&mut out, 0, lints);
        line(&mut out, 0, &format!("pub mod {module} {{"));
        line(&mut out, 1, &format!("use {} as __etw;", options.crate_path));
        line(&mut out, 1, "use __etw::rt::Field as _;");
        provider_item(&mut out, provider, schema);
        maps::write(&mut out, provider);
        let mut structs = Used::default();
        let templates: Vec<Fields> = provider
            .templates
            .iter()
            .map(|template| Fields::of(provider, template, &mut structs))
            .collect();
        for structure in templates.iter().flat_map(|template| &template.structs) {
            out.push_str(structure);
        }
        let none = Fields::default();
        let mut functions = Used::default();
        functions.unique("register".to_owned());
        for event in provider.events.iter().filter(|event| event.is_logged) {
            let fields = event.template.map_or(&none, |index| &templates[index]);
            function(&mut out, provider, event, fields, &mut functions);
        }
        out.push_str("}\n");
    }
    out
}

/// A line at a depth of braces.
fn line(out: &mut String, depth: usize, text: &str) {
    // Writing to a String does not fail.
    let _ = writeln!(out, "{:1$}{text}", "", 4 * depth);
}

/// Text in a documentation comment.
fn doc(text: &str) -> String {
    let one_line = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(one_line).filter(|c| *c != '`').collect()
}

fn bytes(bytes: &[u8]) -> String {
    let escaped: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("b\"{escaped}\"")
}

fn provider_item(out: &mut String, provider: &Provider, schema: &[u8]) {
    let guid: Guid = provider.control_guid.unwrap_or(provider.guid);
    let traits = etw_tracelogging::provider_traits(&provider.name, provider.group_guid);
    // A name that no blob can hold is left out of it.
    let traits = traits.unwrap_or_else(|_| vec![3, 0, 0]);
    let schema = match schema {
        [] => String::new(),
        schema => format!(".with_schema({})", bytes(schema)),
    };
    line(out, 1, "/// Sessions enable it by its GUID or name once it is registered.");
    line(
        out,
        1,
        &format!(
            "pub static PROVIDER: __etw::Provider = __etw::Provider::new({:?}, __etw::Guid(*{}), {}){schema};",
            provider.name,
            bytes(&guid.0),
            bytes(&traits),
        ),
    );
    line(out, 1, "/// Registers the provider until the result is dropped.");
    line(out, 1, "pub fn register() -> __etw::Registration {\n        PROVIDER.register()\n    }");
}

fn function(
    out: &mut String,
    provider: &Provider,
    event: &Event,
    fields: &Fields,
    functions: &mut Used,
) {
    let plain = match &event.symbol {
        Some(symbol) => snake(symbol),
        None => format!("event_{}_{}", event.id, event.version),
    };
    let name = functions.unique(plain);
    let test = functions.unique(format!("{name}_enabled"));
    let numbers = provider.numbers_of(event);
    let keyword = provider.keyword_of(event);
    let channel = provider.descriptor_channel(event);
    let mut site = event.id.to_le_bytes().to_vec();
    site.extend([event.version, channel, numbers.level.0, numbers.opcode]);
    site.extend(numbers.task.to_le_bytes());
    site.extend(keyword.0.to_le_bytes());
    let level = format!("__etw::Level({})", numbers.level.0);
    let keyword = format!("__etw::Keyword({:#x})", keyword.0);
    let enabled = "__etw::rt::enabled";
    let (id, version) = (event.id, event.version);
    line(out, 1, &format!("/// Whether a session wants event {id}, version {version}."));
    line(out, 1, "#[inline(always)]");
    line(out, 1, &format!("pub fn {test}() -> bool {{"));
    line(out, 2, &format!("{enabled}(&PROVIDER, {level}, {keyword})\n    }}"));
    let known = event.name.as_deref().or(event.symbol.as_deref()).unwrap_or("without a name");
    line(out, 1, &format!("/// Writes event {id}, version {version}: `{}`.", doc(known)));
    line(out, 1, "#[inline(always)]");
    let parameters = fields.parameters.join(", ");
    line(out, 1, &format!("pub fn {name}({parameters}) -> __etw::Status {{"));
    line(out, 2, &format!("if !PROVIDER.has_level({level}) {{"));
    line(out, 3, "return __etw::Status::ERROR_SUCCESS;\n        }");
    line(out, 2, &format!("let __routes = __etw::rt::routes(&PROVIDER, {level}, {keyword});"));
    line(out, 2, "if !__routes.any() {");
    line(out, 3, "return __etw::Status::ERROR_SUCCESS;\n        }");
    line(
        out,
        2,
        &format!("static SITE: __etw::rt::Site = __etw::rt::Site::new({});", bytes(&site)),
    );
    for (index, value) in fields.values.iter().enumerate() {
        line(out, 2, &format!("let __f{index} = {value};"));
    }
    line(out, 2, &format!("let __size = {};", fields.size("__f")));
    line(out, 2, "__etw::rt::write_site(&PROVIDER, &SITE, __routes, __size, |__room| {");
    for index in 0..fields.values.len() {
        line(out, 3, &format!("let __room = __f{index}.put(__room);"));
    }
    line(out, 3, "__room\n        })\n    }");
}
