//! Fields: what they add to the metadata, and the code that evaluates their values.

use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

use crate::hints::{
    OPTIONS, comma_before_option, comma_behind_name, comma_between_fields, did_you_mean,
};
use crate::meta::{Meta, Name, Number, Range};
use crate::options::Options;
use crate::tokens::{
    Argument, Error, Result, comma_separated, fill, ident, single, split, text_of,
};
use crate::types::{self, Shape};
use etw_tracelogging::InType;
use etw_tracelogging::vocabulary::{Codec, Stored, TARGET_IN_TYPES};

/// TDH decodes at most as many fields of an event.
const MAX_FIELDS: usize = 128;
/// Seven bits of a struct's OutType byte.
const MAX_MEMBERS: usize = 127;

const CCOUNT: u8 = 0x20;
const VCOUNT: u8 = 0x40;
const CUSTOM: u8 = 0x60;
const STRUCT: u8 = 24;

/// An expression that is evaluated before the event is written.
#[derive(Debug)]
pub struct Value {
    pub code: TokenStream,
    pub role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A field of constant size.
    Fixed,
    /// A field of any size.
    Sized,
    Activity,
    Related,
}

/// A list of fields: an event's, or a struct's members.
#[derive(Debug)]
pub struct Fields {
    krate: TokenStream,
    pub meta: Meta,
    pub values: Vec<Value>,
    /// The number of fields, members of structs included.
    total: usize,
    /// The number of fields at this level.
    count: usize,
    /// The number of fields at this level that `raw_struct`s still ask for; `None` if a count is not a literal.
    wanted: Option<usize>,
}

impl Fields {
    pub fn new(krate: &TokenStream) -> Fields {
        let krate = krate.clone();
        Fields {
            krate,
            meta: Meta::default(),
            values: Vec::new(),
            total: 0,
            count: 0,
            wanted: Some(0),
        }
    }

    /// `kind(…)`
    pub fn add(&mut self, kind: &Ident, group: &Group, in_struct: bool) -> Result<()> {
        let name = kind.to_string();
        let fields_before = self.total;
        match name.as_str() {
            "raw_data" => return self.raw_data(kind, group),
            "raw_struct" | "raw_struct_slice" if in_struct => {
                let message =
                    format!("`{name}` cannot stand in a struct, whose members have to be counted");
                return Err(Error::new(kind.span(), message));
            }
            "raw_struct" => self.raw_struct(kind, group, 0)?,
            "raw_struct_slice" => self.raw_struct(kind, group, VCOUNT)?,
            "raw_field" => self.raw_field(kind, group, 0, true)?,
            "raw_field_slice" => self.raw_field(kind, group, VCOUNT, true)?,
            "raw_meta" => self.raw_field(kind, group, 0, false)?,
            "raw_meta_slice" => self.raw_field(kind, group, VCOUNT, false)?,
            "struct" => self.structure(kind, group)?,
            "struct_slice" => self.struct_slice(kind, group)?,
            "custom" => self.custom(kind, group)?,
            _ => self.typed(kind, group)?,
        }
        if !name.starts_with("raw_struct") {
            self.wanted = self.wanted.map(|wanted| wanted.saturating_sub(1));
        }
        self.total += 1;
        self.count += 1;
        if self.total > MAX_FIELDS && fields_before <= MAX_FIELDS {
            let message = format!("too many fields: decoders take {MAX_FIELDS} of an event");
            return Err(Error::new(kind.span(), message));
        }
        Ok(())
    }

    /// The end of the list.
    pub fn finish(&self, at: Span) -> Result<()> {
        match self.wanted {
            Some(missing @ 1..) => {
                Err(Error::new(at, format!("{missing} members of a `raw_struct` are missing")))
            }
            _ => Ok(()),
        }
    }

    fn fill(&self, template: &str, span: Span, arguments: &[(&str, &TokenStream)]) -> TokenStream {
        let own = [("crate", self.krate.clone())];
        let arguments = arguments.iter().map(|(name, tokens)| (*name, (*tokens).clone()));
        fill(template, span, &own.into_iter().chain(arguments).collect::<Vec<_>>())
    }

    fn value(&mut self, role: Role, code: TokenStream) {
        self.values.push(Value { code, role });
    }

    fn in_type(&self, stored: Stored, at: Span) -> Number {
        match (stored, stored.constant()) {
            (Stored::Fixed(InType(number)), _) => Number::Known(number.into()),
            (_, constant) => {
                let template = format!("$crate::rt::{}", constant.unwrap_or_default());
                Number::Constant(self.fill(&template, at, &[]))
            }
        }
    }

    /// `u32("name", &value, tag(1), format(Hex))`
    fn typed(&mut self, kind: &Ident, group: &Group) -> Result<()> {
        let type_name = kind.to_string();
        let (row, shape) =
            types::find(&type_name).map_err(|message| Error::new(kind.span(), message))?;
        let allowed: &[&str] = match shape {
            Shape::Array => &["tag", "format", "description", "count"],
            _ => &["tag", "format", "description"],
        };
        let (name, value, options) = self.name_and_value(kind, group, allowed)?;
        let in_type = self.in_type(row.stored, kind.span());
        let count = match shape {
            Shape::Array => Some(options.required("count", kind)?.parse(&self.krate, &COUNT)?),
            _ => None,
        };
        let flags = match shape {
            Shape::Scalar => 0,
            Shape::Array => CCOUNT,
            Shape::Slice | Shape::Opt => VCOUNT,
        };
        let out_type = options.format(&self.krate)?.unwrap_or(Number::Known(row.out_type.0.into()));
        self.meta.name(&self.krate, &name);
        self.meta.types(&self.krate, &in_type, flags, &out_type, &options.tag(&self.krate)?);
        if let Some(count) = &count {
            self.meta.u16(&self.krate, count);
        }

        let (function, codec, method) = match (row.codec, shape) {
            (Codec::Plain(codec), Shape::Scalar) => ("scalar", codec, ""),
            (Codec::Plain(codec), Shape::Slice) => ("slice", codec, ""),
            (Codec::Plain(codec), Shape::Array) => ("array", codec, ""),
            (Codec::Plain(codec), Shape::Opt) => ("opt", codec, ""),
            (Codec::Bytes(codec), Shape::Scalar) => ("text", codec, ".__etw_bytes()"),
            (Codec::Units(codec), Shape::Scalar) => ("text", codec, ".__etw_units()"),
            (Codec::Bytes(codec) | Codec::Units(codec), Shape::Slice) => ("text_slice", codec, ""),
            (Codec::Bytes(codec) | Codec::Units(codec), Shape::Array) => ("text_array", codec, ""),
            (Codec::Bytes(codec) | Codec::Units(codec), Shape::Opt) => ("opt_text", codec, ""),
        };
        let mut generics = codec.to_owned();
        match count {
            Some(Number::Known(count)) => generics += &format!(", {count}"),
            Some(Number::Constant(_)) => generics += ", { $count as ::core::primitive::usize }",
            None => {}
        }
        if function.contains("text_") || function.ends_with("_text") {
            // The type of the elements.
            generics += ", _";
        }
        let value = if method.is_empty() {
            value
        } else {
            let span = value.clone().into_iter().next().map_or(kind.span(), |token| token.span());
            self.fill(&format!("($value){method}"), span, &[("value", &value)])
        };
        let template = format!("$crate::rt::{function}::<$crate::rt::{generics}>($value)");
        let count = match options.get("count") {
            Some(option) => option.parse(&self.krate, &COUNT)?.tokens("u16"),
            None => TokenStream::new(),
        };
        let code = self.fill(&template, kind.span(), &[("value", &value), ("count", &count)]);
        let fixed = shape == Shape::Array || shape == Shape::Scalar;
        let role = match row.codec {
            Codec::Plain(_) if fixed => Role::Fixed,
            _ => Role::Sized,
        };
        self.value(role, code);
        Ok(())
    }

    /// The two arguments that every field with a value has, and its options.
    fn name_and_value(
        &self,
        kind: &Ident,
        group: &Group,
        allowed: &[&str],
    ) -> Result<(Name, TokenStream, Options)> {
        let mut arguments = split(group.stream());
        let options = Options::take(&mut arguments, 2, kind, allowed)?;
        let mut arguments = arguments.into_iter();
        let name = self.name(kind, group, arguments.next())?;
        let rest: Vec<Argument> = arguments.collect();
        Ok((name, value_of(kind, group, &rest)?, options))
    }

    fn name(&self, kind: &Ident, group: &Group, argument: Option<Argument>) -> Result<Name> {
        let tokens = argument.map(|argument| argument.tokens).unwrap_or_default();
        let starts_like_a_value = matches!(
            tokens.first(),
            Some(TokenTree::Punct(punct)) if punct.as_char() == '&'
        );
        if starts_like_a_value {
            let message = format!("the name of `{kind}` is missing: write it before the value");
            return Err(Error::at(&tokens, kind.span(), message));
        }
        comma_behind_name(&tokens)?;
        Name::parse(&tokens, group.span_close(), &format!("`{kind}`"))
    }

    /// `struct("name", tag(1), { … })`
    fn structure(&mut self, kind: &Ident, group: &Group) -> Result<()> {
        let mut arguments = split(group.stream());
        let body = arguments.iter().position(|argument| brace(&argument.tokens).is_some());
        let Some(body) = body else {
            return Err(Error::new(group.span_close(), "the members, `{ … }`, are missing"));
        };
        let body = arguments.remove(body);
        let options = Options::take(&mut arguments, 1, kind, &["tag", "description"])?;
        if let Some(more) = arguments.get(1) {
            return Err(Error::at(&more.tokens, kind.span(), "a struct has a name and members"));
        }
        let name = self.name(kind, group, arguments.into_iter().next())?;
        let members = self.members(kind, brace(&body.tokens).expect("found above"))?;
        self.struct_meta(&name, 0, members.count, &options)?;
        self.meta.append(members.meta);
        self.values.extend(members.values);
        self.total += members.total;
        Ok(())
    }

    /// `struct_slice("name", items, |item| { … })`
    fn struct_slice(&mut self, kind: &Ident, group: &Group) -> Result<()> {
        let wanted = "`struct_slice` is (\"name\", items, |item| { members })";
        let mut arguments = split(group.stream());
        let options = Options::take(&mut arguments, 3, kind, &["tag", "description"])?;
        let mut arguments = arguments.into_iter();
        let name = self.name(kind, group, arguments.next())?;
        let rest: Vec<TokenTree> = arguments
            .flat_map(|argument| argument.tokens.into_iter().chain(argument.comma))
            .collect();
        let bad = || Error::new(group.span_close(), wanted);
        let is = |token: &TokenTree, sign: char| matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign);
        let rest = match rest.split_last() {
            Some((last, before)) if is(last, ',') => before,
            _ => &rest[..],
        };
        let (body, before) = rest.split_last().ok_or_else(bad)?;
        let body = brace(std::slice::from_ref(body)).ok_or_else(bad)?;
        let (bar, before) = before.split_last().filter(|(bar, _)| is(bar, '|')).ok_or_else(bad)?;
        // The bar that opens the closure is the last bar behind a comma.
        let open =
            (1..before.len()).rev().find(|&at| is(&before[at], '|') && is(&before[at - 1], ','));
        let open = open.ok_or_else(|| Error::new(bar.span(), wanted))?;
        let items: TokenStream = before[..open - 1].iter().cloned().collect();
        let pattern: TokenStream = before[open + 1..].iter().cloned().collect();
        if items.is_empty() || pattern.is_empty() {
            return Err(Error::new(bar.span(), wanted));
        }
        let members = self.members(kind, body)?;
        self.struct_meta(&name, VCOUNT, members.count, &options)?;
        self.meta.append(members.meta);
        self.total += members.total;
        let names = names(members.values.len());
        let puts = names.iter().map(|name| {
            self.fill("let out = out.field(&$name);", Span::mixed_site(), &[("name", name)])
        });
        let puts: TokenStream = puts.collect();
        let code = self.fill(
            "$crate::rt::items($items, |$pattern, out| match ($values) { ($names) => { $puts out } })",
            kind.span(),
            &[
                ("items", &items),
                ("pattern", &pattern),
                ("values", &comma_separated(members.values.into_iter().map(|value| value.code))),
                ("names", &comma_separated(names)),
                ("puts", &puts),
            ],
        );
        self.value(Role::Sized, code);
        Ok(())
    }

    fn members(&self, kind: &Ident, body: &Group) -> Result<Fields> {
        let mut members = Fields::new(&self.krate);
        for argument in split(body.stream()) {
            match argument.as_call() {
                Some((kind, group)) => members.add(kind, group, true)?,
                None => {
                    comma_between_fields(&argument.tokens)?;
                    let message = "a struct has fields only, as `u32(\"name\", &value)`";
                    return Err(Error::at(&argument.tokens, kind.span(), message));
                }
            }
            if members.count > MAX_MEMBERS {
                let message = format!("too many fields: a struct has at most {MAX_MEMBERS}");
                return Err(Error::at(&argument.tokens, kind.span(), message));
            }
        }
        if members.count == 0 {
            return Err(Error::new(body.span(), format!("`{kind}` needs a member")));
        }
        Ok(members)
    }

    fn struct_meta(
        &mut self,
        name: &Name,
        flags: u8,
        members: usize,
        options: &Options,
    ) -> Result<()> {
        let tag = options.tag(&self.krate)?;
        self.meta.name(&self.krate, name);
        let (in_type, members) = (Number::Known(STRUCT.into()), Number::Known(members as u64));
        self.meta.types(&self.krate, &in_type, flags, &members, &tag);
        Ok(())
    }

    /// `custom("name", &bytes, protocol(5), schema([0, 1, 2]), tag(1))`
    fn custom(&mut self, kind: &Ident, group: &Group) -> Result<()> {
        let allowed = ["protocol", "schema", "tag", "description"];
        let mut arguments = split(group.stream());
        let options = Options::take(&mut arguments, 1, kind, &allowed)?;
        let (name, value) = match &arguments[..] {
            [] => return Err(Error::new(group.span_close(), "the value of `custom` is missing")),
            // A string alone is a name whose value was forgotten.
            [name] if matches!(single(&name.tokens), Some(TokenTree::Literal(_))) => {
                return Err(Error::new(group.span_close(), "the value of `custom` is missing"));
            }
            [value] => (Name::Known(text_of(&value.tokens)), value.stream()),
            [name, value @ ..] => {
                (self.name(kind, group, Some(name.clone()))?, value_of(kind, group, value)?)
            }
        };
        let protocol = options.required("protocol", kind)?;
        let protocol = self.protocol(&protocol.tokens(), kind.span())?;
        let schema = options.required("schema", kind)?.tokens();
        self.meta.name(&self.krate, &name);
        let tag = options.tag(&self.krate)?;
        self.meta.types(&self.krate, &protocol, CUSTOM, &Number::Known(0), &tag);
        match known_bytes(&schema) {
            Some(bytes) => {
                let size = u16::try_from(bytes.len()).map_err(|_| {
                    Error::at(&schema, kind.span(), "a schema has at most 65535 bytes")
                })?;
                self.meta.bytes(&size.to_le_bytes());
                self.meta.bytes(&bytes);
            }
            None => {
                let is_array = matches!(
                    single(&schema),
                    Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket
                );
                let by = if is_array { "&" } else { "" };
                let span = schema.first().map_or(kind.span(), TokenTree::span);
                let schema = schema.into_iter().collect();
                let template = format!("$crate::rt::Part::Counted({by}$schema)");
                let part = self.fill(&template, span, &[("schema", &schema)]);
                self.meta.part(part);
            }
        }
        let span = value.clone().into_iter().next().map_or(kind.span(), |token| token.span());
        let value = self.fill("($value).__etw_bytes()", span, &[("value", &value)]);
        let template = "$crate::rt::text::<$crate::rt::Counted8>($value)";
        let code = self.fill(template, kind.span(), &[("value", &value)]);
        self.value(Role::Sized, code);
        Ok(())
    }

    /// 5–31, or `Microsoft(0)` to `Microsoft(4)`, or a constant of type `etw::Protocol` or `u8`.
    fn protocol(&self, tokens: &[TokenTree], at: Span) -> Result<Number> {
        if let [TokenTree::Ident(name), TokenTree::Group(group)] = tokens {
            if name.to_string() == "Microsoft" && group.delimiter() == Delimiter::Parenthesis {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let number = single(&inner).and_then(|token| crate::literal::integer(&token));
                return match number {
                    Some(number @ 0..=4) => Ok(Number::Known(number)),
                    _ => Err(Error::new(
                        group.span(),
                        "Microsoft's protocols are the literals 0 to 4",
                    )),
                };
            }
        }
        let number = PROTOCOL.parse(&self.krate, tokens, at)?;
        match number.known() {
            Some(0..=4) => Err(Error::at(
                tokens,
                at,
                "protocols 0 to 4 are Microsoft's: write `protocol(Microsoft(n))`",
            )),
            _ => Ok(number),
        }
    }

    /// `raw_field("name", U32, &bytes)`; without a value, `raw_meta("name", U32)`.
    fn raw_field(&mut self, kind: &Ident, group: &Group, flags: u8, valued: bool) -> Result<()> {
        let mut arguments = split(group.stream());
        let positions = if valued { 3 } else { 2 };
        let allowed = ["tag", "format", "description"];
        let options = Options::take(&mut arguments, positions, kind, &allowed)?;
        let mut arguments = arguments.into_iter();
        let name = self.name(kind, group, arguments.next())?;
        let in_type = arguments.next().map(|argument| argument.tokens).unwrap_or_default();
        let in_type = self.raw_in_type(&in_type, group.span_close())?;
        let rest: Vec<Argument> = arguments.collect();
        let out_type = options.format(&self.krate)?.unwrap_or(Number::Known(0));
        self.meta.name(&self.krate, &name);
        self.meta.types(&self.krate, &in_type, flags, &out_type, &options.tag(&self.krate)?);
        if valued {
            let value = value_of(kind, group, &rest)?;
            self.raw_value(kind, &value);
        } else if let Some(more) = rest.first() {
            let message = format!("`{kind}` has no value; `raw_data` has");
            return Err(Error::at(&more.tokens, kind.span(), message));
        }
        Ok(())
    }

    fn raw_in_type(&self, tokens: &[TokenTree], at: Span) -> Result<Number> {
        if let Some(TokenTree::Ident(name)) = single(tokens) {
            let name = name.to_string();
            if let Some((_, stored)) = TARGET_IN_TYPES.iter().find(|(of, _)| *of == name) {
                return Ok(self.in_type(*stored, at));
            }
        }
        IN_TYPE.parse(&self.krate, tokens, at)
    }

    fn raw_value(&mut self, kind: &Ident, value: &TokenStream) {
        let span = value.clone().into_iter().next().map_or(kind.span(), |token| token.span());
        let value = self.fill("($value).__etw_bytes()", span, &[("value", value)]);
        let code = self.fill("$crate::rt::raw($value)", kind.span(), &[("value", &value)]);
        self.value(Role::Sized, code);
    }

    /// `raw_struct("name", 2, tag(1))`
    fn raw_struct(&mut self, kind: &Ident, group: &Group, flags: u8) -> Result<()> {
        let mut arguments = split(group.stream());
        let options = Options::take(&mut arguments, 2, kind, &["tag", "description"])?;
        let mut arguments = arguments.into_iter();
        let name = self.name(kind, group, arguments.next())?;
        let count = arguments.next().map(|argument| argument.tokens).unwrap_or_default();
        let count = MEMBERS.parse(&self.krate, &count, group.span_close())?;
        if count.known() == Some(0) {
            return Err(Error::new(group.span(), "a struct has at least one member"));
        }
        if let Some(more) = arguments.next() {
            return Err(Error::at(&more.tokens, kind.span(), "a `raw_struct` has no value"));
        }
        let members = count.known().map(|members| members as usize);
        // The struct itself is a member too.
        self.wanted = self.wanted.and_then(|wanted| Some(wanted.saturating_sub(1) + members?));
        let tag = options.tag(&self.krate)?;
        self.meta.name(&self.krate, &name);
        self.meta.types(&self.krate, &Number::Known(STRUCT.into()), flags, &count, &tag);
        Ok(())
    }

    /// `raw_data(&bytes)`
    fn raw_data(&mut self, kind: &Ident, group: &Group) -> Result<()> {
        let value = value_of(kind, group, &split(group.stream()))?;
        self.raw_value(kind, &value);
        Ok(())
    }
}

/// `a0, a1, …`
pub fn names(count: usize) -> Vec<TokenStream> {
    (0..count).map(|index| ident(&format!("a{index}"), Span::mixed_site())).collect()
}

fn brace(tokens: &[TokenTree]) -> Option<&Group> {
    match tokens {
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    }
}

/// The value among a field's arguments. Commas inside the expression, between angle brackets or bars, have split it; they are put
/// back.
fn value_of(kind: &Ident, group: &Group, arguments: &[Argument]) -> Result<TokenStream> {
    let Some((first, rest)) = arguments.split_first() else {
        return Err(Error::new(group.span_close(), format!("the value of `{kind}` is missing")));
    };
    if first.tokens.is_empty() {
        let message = format!("the value of `{kind}` is missing");
        return Err(Error::new(group.span_close(), message));
    }
    let opens = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if matches!(punct.as_char(), '<' | '|'));
    if let Some(more) = rest.first().filter(|_| !first.tokens.iter().any(opens)) {
        let message = match more.as_call() {
            Some((name, _)) => {
                let hint = did_you_mean(&name.to_string(), OPTIONS.iter().copied());
                format!("unknown option `{name}` of `{kind}`{hint}")
            }
            None => format!("`{kind}` has one value; this is a second one"),
        };
        return Err(Error::at(&more.tokens, kind.span(), message));
    }
    comma_before_option(&arguments[arguments.len() - 1].tokens)?;
    let last = arguments.len() - 1;
    let tokens = arguments.iter().enumerate().flat_map(|(index, argument)| {
        let comma = argument.comma.clone().filter(|_| index != last);
        argument.tokens.iter().cloned().chain(comma)
    });
    Ok(tokens.collect())
}

/// `[0, 1, 2]`
fn known_bytes(tokens: &[TokenTree]) -> Option<Vec<u8>> {
    let Some(TokenTree::Group(group)) = single(tokens) else { return None };
    if group.delimiter() != Delimiter::Bracket {
        return None;
    }
    let byte = |argument: Argument| {
        let value = crate::literal::integer(&single(&argument.tokens)?)?;
        u8::try_from(value).ok()
    };
    split(group.stream()).into_iter().map(byte).collect()
}

const COUNT: Range =
    Range { what: "the count of an array", max: 65535, names: &[], method: "count" };
const MEMBERS: Range =
    Range { what: "the count of members", max: 127, names: &[], method: "members" };
const PROTOCOL: Range = Range { what: "a protocol", max: 31, names: &[], method: "protocol" };
const IN_TYPE: Range =
    Range { what: "an in-type", max: 31, names: InType::MACRO_NAMES, method: "in_type" };
