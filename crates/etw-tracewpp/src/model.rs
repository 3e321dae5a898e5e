//! The names that templates have for a source and its messages.

use crate::config::{CallForm, Config, Function};
use crate::message::{Message, c_type};
use crate::template::{Model, Object, Value};
use crate::tmf;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A source, as templates see it.
pub struct Source<'a> {
    pub file: &'a str,
    pub identifier: &'a str,
    pub component: &'a str,
    /// Digits of the checksum.
    pub checksum: &'a str,
    /// Message GUID with its dashes.
    pub guid: &'a str,
    pub messages: &'a [Message],
    pub macros: &'a [(String, String)],
    /// Lines of the TMF.
    pub formats: &'a [tmf::Block],
    pub found: Vec<String>,
    /// Whether later templates define a control GUID of their own.
    pub control_guid: Option<&'a str>,
}

fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

fn set(objects: Vec<Object>) -> Value {
    Value::Set(Rc::new(objects))
}

/// The model of a source.
pub fn model(source: &Source<'_>, config: &Config) -> Model {
    let messages: Vec<Object> =
        source.messages.iter().map(|message| of_message(message, source, config)).collect();
    let guids = match source.messages.is_empty() {
        true => Vec::new(),
        false => vec![of_guid(source, &messages)],
    };
    let macros = source.macros.iter().map(|(name, value)| {
        Object::from([("Name", text(name.as_str())), ("Alias", text(value.as_str()))])
    });
    let lines = |lines: &[String]| {
        let lines = lines.iter();
        set(lines.map(|line| Object::from([("Text", text(c_literal(line)))])).collect())
    };
    let formats = source.formats.iter().map(|block| {
        Object::from([
            ("Flag", text(block.flag.as_str())),
            ("Lines", lines(&block.lines)),
            ("Public", lines(&block.public)),
        ])
    });
    let mut fields = Object::from([
        ("MacroDefinitions", set(macros.collect())),
        ("TypeSigSet", set(signatures(source.messages))),
        ("Reorder", set(permutations(source.messages, config))),
        ("Funcs", set(config.functions.iter().map(of_function).collect())),
        ("Messages", set(messages)),
        ("TraceGuids", set(guids)),
        ("Formats", set(formats.collect())),
        ("ControlGuids", set(Vec::new())),
        ("StringTable", set(Vec::new())),
        ("CurrentDir", text(source.component)),
    ]);
    fields.insert("ControlGuid", text(source.control_guid.unwrap_or("")));
    let objects = BTreeMap::from([
        (
            "SourceFile",
            Object::from([("Name", text(source.file)), ("CanonicalName", text(source.identifier))]),
        ),
        (
            "Compiler",
            Object::from([
                ("Checksum", text(source.checksum)),
                ("Name", text("etw tracewpp")),
                ("Version", text(env!("CARGO_PKG_VERSION"))),
                // Outputs depend on inputs alone.
                ("Timestamp", text("0")),
            ]),
        ),
        ("System", Object::from([("Date", text("")), ("Time", text(""))])),
    ]);
    Model { fields, objects, found: source.found.clone() }
}

fn of_function(function: &Function) -> Object {
    let Goo { id, arguments, values } = goo(function);
    Object::from([
        ("Name", text(function.name.as_str())),
        ("GooId", text(id)),
        ("GooArgs", text(arguments)),
        ("GooVals", text(values)),
        ("FixedArgs", text(fixed_parameters(function))),
        ("DoubleP", Value::Flag(function.form == CallForm::DoubleParentheses)),
        ("MsgArgs", Value::Flag(function.form == CallForm::MessageInParentheses)),
        ("NoMsg", Value::Flag(!function.has_message)),
        ("Etw", Value::Flag(false)),
    ])
}

/// A function's part in the names of its macros, and their parameters and arguments. The word is that of templates.
struct Goo {
    id: String,
    arguments: String,
    values: String,
}

/// Arguments with defaults come first.
fn goo(function: &Function) -> Goo {
    let keys = || function.defaults.iter().map(|(key, _)| key).chain(&function.fixed);
    let values = function.defaults.iter().map(|(_, value)| value).chain(&function.fixed);
    Goo {
        id: keys().map(|key| format!("_{key}")).collect(),
        arguments: keys().cloned().collect::<Vec<_>>().join(", "),
        values: values.cloned().collect::<Vec<_>>().join(", "),
    }
}

/// `LEVEL, FLAGS, `, without the last comma if nothing follows.
fn fixed_parameters(function: &Function) -> String {
    let mut parameters = function.fixed.join(", ");
    if function.has_message && !parameters.is_empty() {
        parameters.push_str(", ");
    }
    parameters
}

fn of_message(message: &Message, source: &Source<'_>, config: &Config) -> Object {
    let function = &config.functions[message.function];
    let Goo { id, arguments: names, values } = goo(function);
    let own_values = (1..=message.call.arguments.len()).map(|n| format!(", _a{n}"));
    let values_in_macro: String = match function.has_message {
        true => std::iter::once("MSG".to_owned()).chain(own_values).collect(),
        false => String::new(),
    };
    let list = |wanted: Option<bool>| -> String {
        let arguments = message.arguments.iter();
        let arguments = arguments.filter(|a| wanted.is_none_or(|w| a.is_own == w));
        arguments.map(|argument| format!(", {}", argument.parameter)).collect()
    };
    let arguments = message.arguments.iter().map(|argument| {
        Object::from([
            ("Name", text(tmf::escaped(&argument.expression.replace(',', ".")))),
            ("MofType", text(argument.kind.item.as_str())),
            ("No", text(argument.number.to_string())),
        ])
    });
    let aliases = message
        .call
        .aliases
        .iter()
        .map(|line| Object::from([("Name", text(format!("{}{line}", source.identifier)))]));
    let has_message_arguments = function.form == CallForm::MessageInParentheses;
    Object::from([
        ("Name", text(message.name.as_str())),
        ("Guid", text(source.guid)),
        ("MsgNo", text(message.number.to_string())),
        ("Text", text(tmf::escaped(&message.text))),
        ("Indent", text("")),
        ("GooPairs", text(tmf::pairs(message, function))),
        ("GooId", text(id)),
        ("GooArgs", text(names)),
        ("GooVals", text(values)),
        ("FixedArgs", text(fixed_parameters(function))),
        ("MacroArgs", text(values_in_macro.clone())),
        ("DbgMacroArgs", text(values_in_macro)),
        ("MacroExprs", text(list(None))),
        ("SyntheticExprs", text(list(Some(false)))),
        ("ReorderSig", text(permutation(message))),
        ("MsgVal", text("")),
        ("TypeSig", text(message.signature())),
        ("Arguments", set(arguments.collect())),
        ("Aliases", set(aliases.collect())),
        ("FlagValue", text(function.public_flag.clone().unwrap_or_default())),
        ("MsgArgs", Value::Flag(has_message_arguments)),
        ("DoubleP", Value::Flag(function.form == CallForm::DoubleParentheses)),
        ("NoMsg", Value::Flag(!function.has_message)),
        ("MsgIsPrivate", Value::Flag(function.public_flag.is_some())),
        ("MsgIsPublic", Value::Flag(false)),
    ])
}

/// The helper functions of a source's messages.
fn signatures(messages: &[Message]) -> Vec<Object> {
    let mut known = BTreeSet::new();
    let mut objects = Vec::new();
    for message in messages {
        let name = message.signature();
        if !known.insert(name.clone()) {
            continue;
        }
        let arguments = message.arguments.iter().enumerate();
        let parameters: String = arguments
            .clone()
            .map(|(index, argument)| format!(", {} _a{}", c_type(&argument.kind.c_type), index + 1))
            .collect();
        let pairs: String = arguments
            .map(|(index, argument)| argument.pairs(&format!("_a{}", index + 1)))
            .collect();
        objects.push(Object::from([
            ("Name", text(name)),
            ("Arguments", text(parameters)),
            ("LogArgs", text(pairs)),
            ("DeclVars", text("")),
            ("UnsafeArgs", Value::Flag(false)),
        ]));
    }
    objects
}

/// The order of a message's own values, as a part of a macro's name.
fn permutation(message: &Message) -> String {
    let own = message.arguments.iter().filter(|argument| argument.is_own);
    let own = own.filter_map(|argument| argument.parameter.strip_prefix("_a"));
    std::iter::once("_".to_owned()).chain(own.map(|number| format!("_{number}"))).collect()
}

/// Macros that give the values of a message in parentheses.
fn permutations(messages: &[Message], config: &Config) -> Vec<Object> {
    let mut known = BTreeSet::new();
    let mut objects = Vec::new();
    for message in messages {
        let form = config.functions[message.function].form;
        let name = permutation(message);
        if form != CallForm::MessageInParentheses || !known.insert(name.clone()) {
            continue;
        }
        let count = message.call.arguments.len();
        let parameters: String = (1..=count).map(|n| format!(", _a{n}")).collect();
        let own = message.arguments.iter().filter(|argument| argument.is_own);
        let values: String = own.map(|argument| format!(", {}", argument.parameter)).collect();
        objects.push(Object::from([
            ("Name", text(name)),
            ("Arguments", text(format!("MSG{parameters}"))),
            ("Permutation", text(values)),
        ]));
    }
    objects
}

/// A message GUID with its messages, which templates of MOF files list.
fn of_guid(source: &Source<'_>, messages: &[Object]) -> Object {
    let Source { guid, component, file, .. } = *source;
    let digits = guid.replace('-', "");
    let byte = |index: usize| format!("0x{}", &digits[index * 2..index * 2 + 2]);
    let bytes = (8..16).map(byte).collect::<Vec<_>>().join(",");
    let fields =
        format!("{{0x{},0x{},0x{},{{{bytes}}}}}", &digits[..8], &digits[8..12], &digits[12..16]);
    Object::from([
        ("Text", text(guid)),
        ("Normalized", text(digits.clone())),
        ("Struct", text(fields)),
        // Guess: the text behind the GUID in a TMF file.
        ("Comment", text(format!("{component} // SRC={file} MJ= MN="))),
        ("Messages", set(messages.to_vec())),
    ])
}

/// A line as a string literal of C, its line end included.
fn c_literal(line: &str) -> String {
    let mut out = String::from("\"");
    for character in line.chars() {
        match character {
            // A question mark alone could begin a trigraph.
            '"' | '\\' | '?' => {
                out.push('\\');
                out.push(character);
            }
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out.push_str("\\n\"");
    out
}
