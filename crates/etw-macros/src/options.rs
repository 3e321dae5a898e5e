//! The options of a field: `tag(1)`, `format(Hex)`, … behind its value.

use proc_macro::{Group, Ident, TokenStream, TokenTree};

use crate::hints::OPTIONS;
use crate::meta::{Number, Range};
use crate::tokens::{Argument, Error, Result, split};

pub const TAG: Range = Range { what: "tag", max: 0x0fff_ffff, names: &[], method: "tag" };
const FORMAT: Range = Range {
    what: "a format",
    max: 127,
    names: etw_tracelogging::OutType::MACRO_NAMES,
    method: "out_type",
};

#[derive(Debug)]
pub struct Options(Vec<FieldOption>);

#[derive(Debug)]
pub struct FieldOption {
    name: Ident,
    group: Group,
}

impl Options {
    /// Takes the options from the end of a field's arguments; the first `positions` arguments are not options.
    pub fn take(
        arguments: &mut Vec<Argument>,
        positions: usize,
        kind: &Ident,
        allowed: &[&str],
    ) -> Result<Options> {
        let mut options: Vec<FieldOption> = Vec::new();
        while arguments.len() > positions {
            let last = arguments.last().and_then(Argument::as_call);
            let Some((name, group)) =
                last.filter(|(name, _)| OPTIONS.contains(&name.to_string().as_str()))
            else {
                break;
            };
            if !allowed.contains(&name.to_string().as_str()) {
                return Err(Error::new(name.span(), format!("`{kind}` has no option `{name}`")));
            }
            if options.iter().any(|other| other.name.to_string() == name.to_string()) {
                return Err(Error::new(name.span(), format!("`{name}` is given twice")));
            }
            let option = FieldOption { name: name.clone(), group: group.clone() };
            options.push(option);
            arguments.pop();
        }
        // The text is not used, but it must be a string.
        let options = Options(options);
        if let Some(description) = options.get("description") {
            description.text()?;
        }
        Ok(options)
    }

    pub fn get(&self, name: &str) -> Option<&FieldOption> {
        self.0.iter().find(|option| option.name.to_string() == name)
    }

    pub fn required(&self, name: &str, kind: &Ident) -> Result<&FieldOption> {
        let missing = || Error::new(kind.span(), format!("`{kind}` needs `{name}(…)`"));
        self.get(name).ok_or_else(missing)
    }

    pub fn tag(&self, krate: &TokenStream) -> Result<Number> {
        self.get("tag").map_or(Ok(Number::Known(0)), |option| option.parse(krate, &TAG))
    }

    pub fn format(&self, krate: &TokenStream) -> Result<Option<Number>> {
        self.get("format").map(|option| option.parse(krate, &FORMAT)).transpose()
    }
}

impl FieldOption {
    pub fn tokens(&self) -> Vec<TokenTree> {
        self.group.stream().into_iter().collect()
    }

    pub fn parse(&self, krate: &TokenStream, range: &Range) -> Result<Number> {
        range.parse(krate, &self.tokens(), self.group.span())
    }

    fn text(&self) -> Result<()> {
        description(&self.group)
    }
}

/// Checks a description, which is for readers of the source.
pub fn description(group: &Group) -> Result<()> {
    let arguments = split(group.stream());
    let text = match &arguments[..] {
        [one] => crate::tokens::single(&one.tokens),
        _ => None,
    };
    match text.and_then(|token| crate::literal::string(&token)) {
        Some(_) => Ok(()),
        None => Err(Error::new(group.span(), "a description is a string literal")),
    }
}
