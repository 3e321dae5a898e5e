//! `define_provider!`.

use etw_types::Guid;
use proc_macro::{Delimiter, Literal, Span, TokenStream, TokenTree};

use crate::event::split_crate;
use crate::hints::{comma_before_name, comma_behind_name, nearest};
use crate::literal::{self, bytes};
use crate::meta::Name;
use crate::tokens::{Argument, Error, Result, fill, literal as literal_tokens, single, split};

/// `tracelogging_dynamic` asserts that provider names are shorter than 32 KiB.
const MAX_NAME_SIZE: usize = 32_767;

/// Behind `$crate`: attributes, visibility, name, `"Name"`, options.
pub fn define_provider(input: TokenStream) -> Result<TokenStream> {
    let (krate, rest) = split_crate(input);
    let at = Span::call_site();
    let mut arguments = split(rest).into_iter();
    let head = arguments.next().map(|argument| argument.tokens).unwrap_or_default();
    if head.len() > 1 && arguments.len() == 0 {
        comma_before_name(&head)?;
    }
    let (attributes, visibility, symbol) = split_head(&head)?;
    let name = arguments.next().map(|argument| argument.tokens).unwrap_or_default();
    comma_behind_name(&name)?;
    let name_span = name.first().map_or(at, TokenTree::span);
    let Name::Known(name) = Name::parse(&name, at, "the provider")? else {
        let message = "a provider's name must be a string literal, since its GUID is derived from it; for names known only at run \
                       time, use `Provider::dynamic`";
        return Err(Error::at(&name, at, message));
    };
    if name.len() > MAX_NAME_SIZE {
        let message = format!("a provider's name has at most {MAX_NAME_SIZE} bytes");
        return Err(Error::new(name_span, message));
    }

    let (mut id, mut group, mut debug) = (None, None, false);
    for argument in arguments {
        let Some((option, values)) = argument.as_call() else {
            let message = "not an option, as `id(\"guid\")`";
            return Err(Error::at(&argument.tokens, at, message));
        };
        let values = split(values.stream());
        let twice = || Error::new(option.span(), format!("`{option}` is given twice"));
        match option.to_string().as_str() {
            "id" => {
                let given = id.replace(guid(&values, option.span())?);
                given.map_or(Ok(()), |_| Err(twice()))?;
            }
            "group_id" => {
                let given = group.replace(guid(&values, option.span())?);
                given.map_or(Ok(()), |_| Err(twice()))?;
            }
            "debug" if values.is_empty() => debug = true,
            _ => {
                let near = nearest(&option.to_string(), ["id", "group_id", "debug"]);
                let hint = near.map_or(String::new(), |near| format!(": did you mean `{near}`?"));
                let message = format!(
                    "unknown option `{option}` of a provider{hint}; there are `id(\"guid\")`, \
                     `group_id(\"guid\")`, `debug()`"
                );
                return Err(Error::new(option.span(), message));
            }
        }
    }
    let traits = etw_tracelogging::provider_traits(&name, group)
        .map_err(|error| Error::new(name_span, error.to_string()))?;
    let id = id.unwrap_or_else(|| Guid::from_name(&name));
    // A public provider needs documentation: at least its name.
    let attributes = match attributes.is_empty() {
        true => {
            let text = Literal::string(&format!("Provider `{name}`."));
            fill("#[doc = $text]", at, &[("text", literal_tokens(text))])
        }
        false => attributes,
    };

    let expanded = fill(
        "$attributes $visibility static $symbol: $crate::Provider =
            $crate::Provider::new($name, $crate::Guid(*$id), $traits);",
        at,
        &[
            ("crate", krate),
            ("attributes", attributes),
            ("visibility", visibility),
            ("symbol", symbol),
            ("name", literal_tokens(Literal::string(&name))),
            ("id", literal_tokens(bytes(&id.0))),
            ("traits", literal_tokens(bytes(&traits))),
        ],
    );
    if debug {
        eprintln!("{expanded}");
    }
    Ok(expanded)
}

/// Attributes, visibility, symbol.
fn split_head(head: &[TokenTree]) -> Result<(TokenStream, TokenStream, TokenStream)> {
    let Some((TokenTree::Ident(symbol), before)) = head.split_last() else {
        let message = "a provider is (SYMBOL, \"Name\", options…)";
        return Err(Error::at(head, Span::call_site(), message));
    };
    let mut attributes = 0;
    while let [TokenTree::Punct(hash), TokenTree::Group(group), ..] = &before[attributes..] {
        if hash.as_char() != '#' || group.delimiter() != Delimiter::Bracket {
            break;
        }
        attributes += 2;
    }
    let (attributes, visibility) = before.split_at(attributes);
    let is_visibility = match visibility {
        [] => true,
        [TokenTree::Ident(word), rest @ ..] => {
            word.to_string() == "pub"
                && match rest {
                    [] => true,
                    [TokenTree::Group(group)] => group.delimiter() == Delimiter::Parenthesis,
                    _ => false,
                }
        }
        // `$vis` of a `macro_rules!`.
        [TokenTree::Group(group)] => group.delimiter() == Delimiter::None,
        _ => false,
    };
    if !is_visibility {
        return Err(Error::at(visibility, symbol.span(), "not a visibility"));
    }
    let collect = |tokens: &[TokenTree]| tokens.iter().cloned().collect();
    Ok((collect(attributes), collect(visibility), TokenTree::from(symbol.clone()).into()))
}

fn guid(values: &[Argument], at: Span) -> Result<Guid> {
    let [value] = values else { return Err(Error::new(at, "write one GUID, as `id(\"guid\")`")) };
    let text = single(&value.tokens).and_then(|token| literal::string(&token));
    let Some(text) = text else {
        return Err(Error::at(&value.tokens, at, "a GUID is a string literal"));
    };
    text.parse().map_err(|_| {
        let message = "not a GUID of the form xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
        Error::at(&value.tokens, at, message)
    })
}
