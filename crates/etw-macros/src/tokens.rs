//! Token streams: split into arguments, and made from templates.

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// An error in an invocation, and the tokens to point at.
#[derive(Debug)]
pub struct Error {
    pub message: String,
    pub first: Span,
    pub last: Span,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(span: Span, message: impl Into<String>) -> Error {
        Error { message: message.into(), first: span, last: span }
    }

    /// Points at all of `tokens`, or at `otherwise` if there are none.
    pub fn at(tokens: &[TokenTree], otherwise: Span, message: impl Into<String>) -> Error {
        let first = tokens.first().map_or(otherwise, TokenTree::span);
        let last = tokens.last().map_or(first, TokenTree::span);
        Error { message: message.into(), first, last }
    }

    /// A `compile_error!` that rustc shows at these tokens.
    pub fn into_tokens(self) -> TokenStream {
        let mut text = Literal::string(&self.message);
        text.set_span(self.last);
        let mut group = Group::new(Delimiter::Brace, TokenTree::from(text).into());
        group.set_span(self.last);
        let path = fill("::core::compile_error!", self.first, &[]);
        path.into_iter().chain([group.into()]).collect()
    }
}

/// The tokens between two commas.
#[derive(Clone, Debug)]
pub struct Argument {
    pub tokens: Vec<TokenTree>,
    /// The comma behind them.
    pub comma: Option<TokenTree>,
}

impl Argument {
    /// `name(…)`: the name, and the group in parentheses.
    pub fn as_call(&self) -> Option<(&Ident, &Group)> {
        match &self.tokens[..] {
            [TokenTree::Ident(name), TokenTree::Group(group)]
                if group.delimiter() == Delimiter::Parenthesis =>
            {
                Some((name, group))
            }
            _ => None,
        }
    }

    pub fn stream(&self) -> TokenStream {
        self.tokens.iter().cloned().collect()
    }
}

/// Splits at the commas of the outermost level. A trailing comma makes no further argument.
pub fn split(stream: TokenStream) -> Vec<Argument> {
    let mut arguments = Vec::new();
    let mut tokens = Vec::new();
    for token in stream {
        if matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ',') {
            arguments.push(Argument { tokens: std::mem::take(&mut tokens), comma: Some(token) });
        } else {
            tokens.push(token);
        }
    }
    if !tokens.is_empty() {
        arguments.push(Argument { tokens, comma: None });
    }
    arguments
}

/// The only token, without the invisible groups that `macro_rules!` puts around its matches.
pub fn single(tokens: &[TokenTree]) -> Option<TokenTree> {
    match tokens {
        [TokenTree::Group(group)] if group.delimiter() == Delimiter::None => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            single(&inner)
        }
        [one] => Some(one.clone()),
        _ => None,
    }
}

/// Parses a template and replaces each `$name` by its argument. In error messages the template's own tokens point at `span`; the
/// arguments cannot see its local variables.
pub fn fill(template: &str, span: Span, arguments: &[(&str, TokenStream)]) -> TokenStream {
    let template: TokenStream = template.parse().expect("a template is made of tokens");
    substitute(template, Span::mixed_site().located_at(span), arguments)
}

fn substitute(template: TokenStream, span: Span, arguments: &[(&str, TokenStream)]) -> TokenStream {
    let mut out = TokenStream::new();
    let mut template = template.into_iter();
    while let Some(mut token) = template.next() {
        match &mut token {
            TokenTree::Punct(punct) if punct.as_char() == '$' => {
                let name = template.next().map(|name| name.to_string()).unwrap_or_default();
                let (_, argument) = arguments
                    .iter()
                    .find(|(argument, _)| *argument == name)
                    .unwrap_or_else(|| panic!("template without argument {name}"));
                if name == "crate" {
                    // `$crate` keeps its resolution from the wrapping macro, but errors point at `span`.
                    out.extend(argument.clone().into_iter().map(|mut token| {
                        token.set_span(token.span().located_at(span));
                        token
                    }));
                } else {
                    out.extend(argument.clone());
                }
            }
            TokenTree::Group(group) => {
                let mut filled =
                    Group::new(group.delimiter(), substitute(group.stream(), span, arguments));
                filled.set_span(span);
                out.extend([TokenTree::from(filled)]);
            }
            token => {
                token.set_span(span);
                out.extend([token.clone()]);
            }
        }
    }
    out
}

pub fn literal(literal: Literal) -> TokenStream {
    TokenTree::from(literal).into()
}

pub fn ident(name: &str, span: Span) -> TokenStream {
    TokenTree::from(Ident::new(name, Span::mixed_site().located_at(span))).into()
}

/// `a, b, c,`
pub fn comma_separated(parts: impl IntoIterator<Item = TokenStream>) -> TokenStream {
    let mut out = TokenStream::new();
    for part in parts {
        out.extend(part);
        out.extend([TokenTree::from(Punct::new(',', Spacing::Alone))]);
    }
    out
}

/// A token's text, and the offsets of its two ends in the source.
struct Leaf {
    text: String,
    start: usize,
    end: usize,
}

/// The text of an expression on one line, with a blank where the source has any white space or comment.
///
/// `TokenStream::to_string` adds blanks between tokens that came through a `macro_rules!`.
pub fn text_of(tokens: &[TokenTree]) -> String {
    let mut leaves = Vec::new();
    let is_complete = push_leaves(tokens.iter().cloned(), &mut leaves).is_some();
    let in_order = |leaves: &Vec<Leaf>| leaves.is_sorted_by(|a, b| a.end <= b.start);
    let Some(leaves) = is_complete.then_some(leaves).filter(in_order) else {
        // A macro put the tokens together from several positions in the source.
        let text = tokens.iter().cloned().collect::<TokenStream>().to_string();
        return text.split_whitespace().collect::<Vec<_>>().join(" ");
    };
    let mut text = String::new();
    let mut last_end = None;
    for leaf in leaves {
        if last_end.is_some_and(|end| end != leaf.start) {
            text.push(' ');
        }
        text += &leaf.text;
        last_end = Some(leaf.end);
    }
    text
}

/// The offsets of a span's two ends. Its lines and columns are public from Rust 1.88 on; before that only its `Debug` form
/// (`#0 bytes(120..125)`) says where it lies.
fn ends(span: Span) -> Option<(usize, usize)> {
    let text = format!("{span:?}");
    let (_, range) = text.strip_suffix(')')?.split_once("bytes(")?;
    let (start, end) = range.split_once("..")?;
    Some((start.parse().ok()?, end.parse().ok()?))
}

/// `None` if the offsets of a token are not known.
fn push_leaves(tokens: impl Iterator<Item = TokenTree>, leaves: &mut Vec<Leaf>) -> Option<()> {
    let push = |leaves: &mut Vec<Leaf>, text: String, span: Span| {
        let (start, end) = ends(span)?;
        leaves.push(Leaf { text, start, end });
        Some(())
    };
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                if !open.is_empty() {
                    push(leaves, open.to_owned(), group.span_open())?;
                }
                push_leaves(group.stream().into_iter(), leaves)?;
                if !close.is_empty() {
                    push(leaves, close.to_owned(), group.span_close())?;
                }
            }
            token => {
                let span = token.span();
                push(leaves, token.to_string(), span)?;
            }
        }
    }
    Some(())
}
