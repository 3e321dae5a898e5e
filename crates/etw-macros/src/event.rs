//! `write_event!` and `provider_enabled!`.

use proc_macro::{Group, Ident, Span, TokenStream, TokenTree};

use crate::field::{Fields, Role, Value, names};
use crate::hints::{comma_before_name, comma_behind_name, comma_between_fields};
use crate::meta::{DESCRIPTOR_SIZE, Meta, Name, Number, Range};
use crate::options::{TAG, description};
use crate::tokens::{Argument, Error, Result, comma_separated, fill, single, split};
use crate::types;

const LEVEL: Range = Range { what: "a level", max: 255, names: types::LEVELS, method: "level" };
const OPCODE: Range =
    Range { what: "an opcode", max: 255, names: types::OPCODES, method: "opcode" };
const CHANNEL: Range =
    Range { what: "a channel", max: 255, names: types::CHANNELS, method: "channel" };
const TASK: Range = Range { what: "a task", max: 65535, names: &[], method: "task" };
const ID: Range = Range { what: "an event id", max: 65535, names: &[], method: "id" };
const VERSION: Range = Range { what: "a version", max: 255, names: &[], method: "version" };
const KEYWORD: Range = Range { what: "a keyword", max: u64::MAX, names: &[], method: "keyword" };

/// The default of Microsoft's crate.
const DEFAULT_LEVEL: u64 = 5;
const DEFAULT_KEYWORD: u64 = 1;
const DEFAULT_CHANNEL: u64 = 11;

/// The options of an event.
struct Attributes {
    level: Number,
    keywords: Vec<Number>,
    opcode: Number,
    task: Number,
    channel: Number,
    tag: Number,
    id: Number,
    version: Number,
    debug: bool,
    /// The options given so far that may be given once.
    given: Vec<String>,
}

/// The tokens behind `$crate`, which comes first.
pub fn write_event(input: TokenStream) -> Result<TokenStream> {
    let (krate, rest) = split_crate(input);
    let mut arguments = split(rest).into_iter();
    let provider = provider(&mut arguments)?;
    let at = Span::call_site();
    let name = arguments.next();
    if let Some((kind, _)) = name.as_ref().and_then(Argument::as_call) {
        if types::is_known(&kind.to_string()) {
            let message = "the name of the event is missing: write it behind the provider";
            return Err(Error::new(kind.span(), message));
        }
    }
    let name = name.map(|argument| argument.tokens).unwrap_or_default();
    comma_behind_name(&name)?;
    let name = Name::parse(&name, at, "the event")?;

    let mut attributes = Attributes {
        level: Number::Known(DEFAULT_LEVEL),
        keywords: Vec::new(),
        opcode: Number::Known(0),
        task: Number::Known(0),
        channel: Number::Known(DEFAULT_CHANNEL),
        tag: Number::Known(0),
        id: Number::Known(0),
        version: Number::Known(0),
        debug: false,
        given: Vec::new(),
    };
    let mut fields = Fields::new(&krate);
    for argument in arguments {
        let Some((kind, group)) = argument.as_call() else {
            if let (true, Some(comma)) = (argument.tokens.is_empty(), &argument.comma) {
                let message = "an option or a field is missing before this comma";
                return Err(Error::new(comma.span(), message));
            }
            comma_between_fields(&argument.tokens)?;
            let message =
                "not an option or a field, as `level(Warning)` or `u32(\"name\", &value)`";
            return Err(Error::at(&argument.tokens, at, message));
        };
        if types::OPTIONS.contains(&kind.to_string().as_str()) {
            attributes.set(&krate, kind, group, &mut fields)?;
        } else {
            fields.add(kind, group, false)?;
        }
    }
    fields.finish(at)?;

    let mut site = Meta::default();
    attributes.descriptor(&krate, &mut site);
    site.bytes(&[0, 0]);
    site.tag(&krate, &attributes.tag);
    site.name(&krate, &name);
    site.append(fields.meta);
    let site = site.into_site(&krate, at)?;

    let expanded = expand(&krate, provider, &attributes, site, fields.values);
    if attributes.debug {
        eprintln!("{expanded}");
    }
    Ok(expanded)
}

/// `PROVIDER, level, keyword`
pub fn provider_enabled(input: TokenStream) -> Result<TokenStream> {
    let (krate, rest) = split_crate(input);
    let mut arguments = split(rest).into_iter();
    let provider = provider(&mut arguments)?;
    let at = Span::call_site();
    let mut next = || arguments.next().map(|argument| argument.tokens).unwrap_or_default();
    let level = LEVEL.parse(&krate, &next(), at)?;
    let keyword = KEYWORD.parse(&krate, &next(), at)?;
    if let Some(more) = arguments.next() {
        return Err(Error::at(
            &more.tokens,
            at,
            "`provider_enabled!` is (PROVIDER, level, keyword)",
        ));
    }
    Ok(fill(
        "$crate::rt::enabled(&($provider), $crate::Level($level), $crate::Keyword($keyword))",
        at,
        &[
            ("crate", krate),
            ("provider", provider),
            ("level", level.tokens("u8")),
            ("keyword", keyword.tokens("u64")),
        ],
    ))
}

/// `$crate`, the first token from the wrapping `macro_rules!`, and the user's tokens.
pub fn split_crate(input: TokenStream) -> (TokenStream, TokenStream) {
    let mut tokens = input.into_iter();
    (tokens.by_ref().take(1).collect(), tokens.collect())
}

fn provider(arguments: &mut impl Iterator<Item = Argument>) -> Result<TokenStream> {
    match arguments.next() {
        Some(argument) if !argument.tokens.is_empty() => {
            comma_before_name(&argument.tokens)?;
            if let Some(TokenTree::Literal(literal)) = single(&argument.tokens) {
                let message = "the first argument is a provider: the symbol that `define_provider!` defines, not a name";
                return Err(Error::new(literal.span(), message));
            }
            Ok(argument.stream())
        }
        _ => Err(Error::new(Span::call_site(), "the provider is missing")),
    }
}

impl Attributes {
    fn set(
        &mut self,
        krate: &TokenStream,
        kind: &Ident,
        group: &Group,
        fields: &mut Fields,
    ) -> Result<()> {
        let name = kind.to_string();
        if name != "keyword" {
            if self.given.contains(&name) {
                return Err(Error::new(kind.span(), format!("`{name}` is given twice")));
            }
            self.given.push(name.clone());
        }
        let arguments = split(group.stream());
        let wanted = match name.as_str() {
            "debug" => 0,
            "id_version" => 2,
            _ => 1,
        };
        if arguments.len() != wanted {
            let message = match wanted {
                0 => format!("`{name}` takes nothing"),
                1 => format!("`{name}` takes one value"),
                _ => format!("`{name}` takes an id and a version"),
            };
            return Err(Error::new(group.span(), message));
        }
        let number = |range: &Range, index: usize| {
            range.parse(krate, &arguments[index].tokens, group.span())
        };
        match name.as_str() {
            "level" => self.level = number(&LEVEL, 0)?,
            "keyword" => self.keywords.push(number(&KEYWORD, 0)?),
            "opcode" => self.opcode = number(&OPCODE, 0)?,
            "task" => self.task = number(&TASK, 0)?,
            "channel" => self.channel = number(&CHANNEL, 0)?,
            "tag" => self.tag = number(&TAG, 0)?,
            "id_version" => {
                self.id = number(&ID, 0)?;
                self.version = number(&VERSION, 1)?;
            }
            "activity_id" => fields.values.push(id_value(krate, &arguments[0], Role::Activity)),
            "related_id" => fields.values.push(id_value(krate, &arguments[0], Role::Related)),
            "description" => description(group)?,
            _ => self.debug = true,
        }
        Ok(())
    }

    fn keyword(&self) -> Number {
        if self.keywords.is_empty() {
            return Number::Known(DEFAULT_KEYWORD);
        }
        let known = self.keywords.iter().filter_map(Number::known).fold(0, |all, one| all | one);
        let mut constants = self.keywords.iter().filter(|keyword| keyword.known().is_none());
        let Some(first) = constants.next() else { return Number::Known(known) };
        let or = |all: TokenStream, one: &Number| {
            let arguments = [("all", all), ("one", one.tokens("u64"))];
            fill("$all | $one", Span::mixed_site(), &arguments)
        };
        let all = constants.fold(or(Number::Known(known).tokens("u64"), first), or);
        Number::Constant(all)
    }

    fn descriptor(&self, krate: &TokenStream, site: &mut Meta) {
        let numbers = [
            (&self.id, 2),
            (&self.version, 1),
            (&self.channel, 1),
            (&self.level, 1),
            (&self.opcode, 1),
            (&self.task, 2),
            (&self.keyword(), 8),
        ];
        if numbers.iter().all(|(number, _)| number.known().is_some()) {
            let mut bytes = Vec::with_capacity(DESCRIPTOR_SIZE);
            for (number, size) in numbers {
                bytes.extend(&number.known().unwrap_or(0).to_le_bytes()[..size]);
            }
            return site.bytes(&bytes);
        }
        let [id, version, channel, level, opcode, task, keyword] =
            numbers.map(|(number, size)| number.tokens(&format!("u{}", size * 8)));
        site.part(fill(
            "$crate::rt::Part::Descriptor {
                id: $id, version: $version, channel: $channel, level: $level, opcode: $opcode,
                task: $task, keyword: $keyword
            }",
            Span::mixed_site(),
            &[
                ("crate", krate.clone()),
                ("id", id),
                ("version", version),
                ("channel", channel),
                ("level", level),
                ("opcode", opcode),
                ("task", task),
                ("keyword", keyword),
            ],
        ));
    }
}

fn id_value(krate: &TokenStream, argument: &Argument, role: Role) -> Value {
    let span = argument.tokens.first().map_or(Span::call_site(), |token| token.span());
    let arguments = [("crate", krate.clone()), ("value", argument.stream())];
    Value { code: fill("($value).__etw_id()", span, &arguments), role }
}

fn expand(
    krate: &TokenStream,
    provider: TokenStream,
    attributes: &Attributes,
    site: TokenStream,
    values: Vec<Value>,
) -> TokenStream {
    let own = |template: &str, name: &TokenStream| {
        let arguments = [("crate", krate.clone()), ("name", name.clone())];
        fill(template, Span::mixed_site(), &arguments)
    };
    let all = names(values.len());
    let of = |role: Role| {
        let of_role = all.iter().zip(&values).filter(move |(_, value)| value.role == role);
        of_role.map(|(name, _)| name)
    };
    // Constant sizes come first, so that they fold to one number. A sum of sizes in memory cannot overflow; if it did, the
    // reservation would be too small, and the write refused.
    let sized = of(Role::Fixed).chain(of(Role::Sized));
    let sizes: TokenStream =
        sized.map(|name| own(".wrapping_add($crate::rt::Field::size(&$name))", name)).collect();
    let fields = all
        .iter()
        .zip(&values)
        .filter(|(_, value)| matches!(value.role, Role::Fixed | Role::Sized));
    let puts: TokenStream = fields
        .map(|(name, _)| own("let room = $crate::rt::Field::put(&$name, room);", name))
        .collect();
    let id = |role: Role| match of(role).next() {
        Some(name) => name.clone(),
        None => own("::core::option::Option::None", &TokenStream::new()),
    };
    let has_ids = values.iter().any(|value| matches!(value.role, Role::Activity | Role::Related));
    let (send, ids, by) = match has_ids {
        true => ("write_site_with", comma_separated([id(Role::Activity), id(Role::Related)]), "&"),
        false => ("write_site", TokenStream::new(), ""),
    };
    let ids = if has_ids { own("$crate::rt::Extras::ids($name),", &ids) } else { ids };
    let send = own(&format!("$crate::rt::{send}"), &TokenStream::new());

    // Constants of their own, which fold into the gate and the match.
    let constant = |number: &Number, name: &str, ty: &str| match number {
        Number::Known(_) => (TokenStream::new(), number.tokens(ty)),
        Number::Constant(value) => (
            own(&format!("const {name}: ::core::primitive::{ty} = $name;"), value),
            own(name, &TokenStream::new()),
        ),
    };
    let (level_item, level) = constant(&attributes.level, "__ETW_LEVEL", "u8");
    let (keyword_item, keyword) = constant(&attributes.keyword(), "__ETW_KEYWORD", "u64");
    fill(
        "{
            $level_item
            $keyword_item
            let provider: &$crate::Provider = &($provider);
            if provider.has_level($crate::Level($level)) {
                static __ETW_SITE: $crate::rt::Site = $site;
                let routes = $crate::rt::routes(provider, $crate::Level($level), $crate::Keyword($keyword));
                if routes.any() {
                    #[allow(unused_imports)]
                    use $crate::rt::{Bytes as _, Id as _, Units as _};
                    match ($values) {
                        ($names) => $send(
                            provider,
                            &__ETW_SITE,
                            routes,
                            $ids
                            0usize $sizes,
                            $by move |room| { $puts room },
                        ),
                    }
                } else {
                    $crate::Status::ERROR_SUCCESS
                }
            } else {
                $crate::Status::ERROR_SUCCESS
            }
        }",
        Span::mixed_site(),
        &[
            ("crate", krate.clone()),
            ("level_item", level_item),
            ("keyword_item", keyword_item),
            ("keyword", keyword),
            ("send", send),
            ("ids", ids),
            ("provider", provider),
            ("level", level),
            ("site", site),
            ("values", comma_separated(values.iter().map(|value| value.code.clone()))),
            ("names", comma_separated(all.clone())),
            ("sizes", sizes),
            ("puts", puts),
            ("by", own(by, &TokenStream::new())),
        ],
    )
}
