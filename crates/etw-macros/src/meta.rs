//! An event's static bytes while the macro collects them: known bytes if possible, else constants for rustc to evaluate.

use proc_macro::{Literal, Span, TokenStream, TokenTree};

use crate::hints::misspelt;
use crate::literal;
use crate::tokens::{Error, Result, comma_separated, fill, literal as literal_tokens, single};
use crate::types::Names;

/// A number: known now, or a constant expression of its final type.
#[derive(Clone, Debug)]
pub enum Number {
    Known(u64),
    Constant(TokenStream),
}

impl Number {
    pub fn known(&self) -> Option<u64> {
        match self {
            Number::Known(value) => Some(*value),
            Number::Constant(_) => None,
        }
    }

    /// The value as an expression; `suffix` is its type.
    pub fn tokens(&self, suffix: &str) -> TokenStream {
        match self {
            Number::Known(value) => {
                format!("{value}{suffix}").parse().expect("a literal is made of tokens")
            }
            Number::Constant(tokens) => tokens.clone(),
        }
    }
}

/// The range and the names of a number.
pub struct Range {
    /// Its name in messages.
    pub what: &'static str,
    pub max: u64,
    pub names: Names,
    /// The method of `etw::rt::Const` that converts the user's constant.
    pub method: &'static str,
}

impl Range {
    pub fn parse(&self, krate: &TokenStream, tokens: &[TokenTree], at: Span) -> Result<Number> {
        let what = self.what;
        match single(tokens) {
            None if tokens.is_empty() => Err(Error::new(at, format!("{what} is missing"))),
            Some(TokenTree::Ident(name)) => {
                let text = name.to_string();
                if let Some((_, value)) = self.names.iter().find(|(known, _)| *known == text) {
                    return Ok(Number::Known(u64::from(*value)));
                }
                if let Some(meant) = misspelt(&text, self.names.iter().map(|(known, _)| *known)) {
                    let message = format!("`{text}` is not {what}; did you mean `{meant}`?");
                    return Err(Error::new(name.span(), message));
                }
                Ok(self.constant(krate, tokens, at))
            }
            Some(token @ TokenTree::Literal(_)) => match literal::integer(&token) {
                Some(value) if value <= self.max => Ok(Number::Known(value)),
                Some(_) => {
                    let max = self.max;
                    let message = match what {
                        "tag" => "a tag has 28 bits: at most 0x0fffffff".to_owned(),
                        _ => format!("{what} is at most {max}"),
                    };
                    Err(Error::at(tokens, at, message))
                }
                None => Err(Error::at(tokens, at, format!("{what} has to be an integer"))),
            },
            _ => Ok(self.constant(krate, tokens, at)),
        }
    }

    fn constant(&self, krate: &TokenStream, tokens: &[TokenTree], at: Span) -> Number {
        let span = tokens.first().map_or(at, TokenTree::span);
        let value: TokenStream = tokens.iter().cloned().collect();
        let template = format!("$crate::rt::Const($value).{}()", self.method);
        Number::Constant(fill(&template, span, &[("crate", krate.clone()), ("value", value)]))
    }
}

/// A name: known now, or a constant expression of type `&str`.
#[derive(Clone, Debug)]
pub enum Name {
    Known(String),
    Constant(TokenStream, Span),
}

impl Name {
    /// `what`: the owner of the name.
    pub fn parse(tokens: &[TokenTree], at: Span, what: &str) -> Result<Name> {
        match single(tokens) {
            None if tokens.is_empty() => {
                Err(Error::new(at, format!("the name of {what} is missing")))
            }
            Some(token @ TokenTree::Literal(_)) => match literal::string(&token) {
                Some(name) => match name.find('\0') {
                    None => Ok(Name::Known(name)),
                    Some(_) => {
                        Err(Error::at(tokens, at, format!("the name of {what} holds a NUL")))
                    }
                },
                None => {
                    Err(Error::at(tokens, at, format!("the name of {what} has to be a string")))
                }
            },
            _ if !is_constant(tokens) => {
                let message = format!(
                    "the name of {what} is not a string literal or a constant; for names known only at run time, use \
                     `EventBuilder`"
                );
                Err(Error::at(tokens, at, message))
            }
            _ => Ok(Name::Constant(tokens.iter().cloned().collect(), tokens[0].span())),
        }
    }
}

/// Whether the tokens may be a constant of type `&str`: not a reference, a variable, or a call of `format!` or of a method that
/// allocates. By convention the name of a variable starts with a lower-case letter, and that of a constant does not.
fn is_constant(tokens: &[TokenTree]) -> bool {
    let is_punct = |token: &TokenTree, c: char| matches!(token, TokenTree::Punct(punct) if punct.as_char() == c);
    let calls_method = tokens.windows(2).any(|pair| {
        is_punct(&pair[0], '.') && matches!(&pair[1], TokenTree::Ident(name) if AT_RUN_TIME.contains(&name.to_string().as_str()))
    });
    let is_format = matches!(tokens, [TokenTree::Ident(name), bang, ..] if is_punct(bang, '!') && name.to_string() == "format");
    let borrows = matches!(tokens, [first, TokenTree::Ident(_)] if is_punct(first, '&'));
    let is_variable = match (single(tokens), tokens) {
        (Some(TokenTree::Ident(name)), _) => name.to_string().starts_with(char::is_lowercase),
        (None, [TokenTree::Ident(first), dot, ..]) => {
            is_punct(dot, '.') && first.to_string().starts_with(char::is_lowercase)
        }
        _ => false,
    };
    !calls_method && !is_format && !borrows && !is_variable
}

/// Methods that make or borrow strings at run time.
const AT_RUN_TIME: &[&str] =
    &["to_string", "to_owned", "as_ref", "as_str", "clone", "into", "display", "as_deref"];

#[derive(Clone, Debug)]
enum Piece {
    Bytes(Vec<u8>),
    /// An expression of type `etw::rt::Part`.
    Part(TokenStream),
}

/// Bytes of metadata, in order.
#[derive(Clone, Debug, Default)]
pub struct Meta(Vec<Piece>);

/// `CHAIN` of both type bytes.
const CHAIN: u8 = 0x80;

impl Meta {
    pub fn bytes(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            Some(Piece::Bytes(last)) => last.extend(bytes),
            _ => self.0.push(Piece::Bytes(bytes.to_vec())),
        }
    }

    pub fn part(&mut self, part: TokenStream) {
        self.0.push(Piece::Part(part));
    }

    pub fn append(&mut self, other: Meta) {
        for piece in other.0 {
            match piece {
                Piece::Bytes(bytes) => self.bytes(&bytes),
                part => self.0.push(part),
            }
        }
    }

    pub fn name(&mut self, krate: &TokenStream, name: &Name) {
        match name {
            Name::Known(name) => {
                self.bytes(name.as_bytes());
                self.bytes(&[0]);
            }
            Name::Constant(tokens, span) => {
                let arguments = [("crate", krate.clone()), ("name", tokens.clone())];
                self.part(fill(
                    "$crate::rt::Part::Name($crate::rt::name($name))",
                    *span,
                    &arguments,
                ));
            }
        }
    }

    /// An event's tag, which is present even if it is 0.
    pub fn tag(&mut self, krate: &TokenStream, tag: &Number) {
        match tag.known() {
            Some(tag) => self.tag_bytes(tag as u32),
            None => {
                let arguments = [("crate", krate.clone()), ("tag", tag.tokens("u32"))];
                self.part(fill("$crate::rt::Part::Tag($tag)", Span::mixed_site(), &arguments));
            }
        }
    }

    /// Seven bits a byte, the most significant first, until the rest is zeros.
    fn tag_bytes(&mut self, tag: u32) {
        for shift in [21, 14, 7, 0] {
            let bits = (tag >> shift) as u8 & !CHAIN;
            if tag & ((1 << shift) - 1) == 0 {
                self.bytes(&[bits]);
                return;
            }
            self.bytes(&[bits | CHAIN]);
        }
    }

    /// A field's type bytes and tag, in the shortest encoding.
    pub fn types(
        &mut self,
        krate: &TokenStream,
        in_type: &Number,
        flags: u8,
        out_type: &Number,
        tag: &Number,
    ) {
        match (in_type.known(), out_type.known(), tag.known()) {
            (Some(in_type), Some(out_type), Some(tag)) => {
                let (in_type, out_type) = (in_type as u8 | flags, out_type as u8);
                match (out_type, tag) {
                    (0, 0) => self.bytes(&[in_type]),
                    (_, 0) => self.bytes(&[in_type | CHAIN, out_type]),
                    (_, tag) => {
                        self.bytes(&[in_type | CHAIN, out_type | CHAIN]);
                        self.tag_bytes(tag as u32);
                    }
                }
            }
            _ => self.part(fill(
                "$crate::rt::Part::Types {
                    in_type: $in_type, flags: $flags, out_type: $out_type, tag: $tag
                }",
                Span::mixed_site(),
                &[
                    ("crate", krate.clone()),
                    ("in_type", in_type.tokens("u8")),
                    ("flags", literal_tokens(Literal::u8_suffixed(flags))),
                    ("out_type", out_type.tokens("u8")),
                    ("tag", tag.tokens("u32")),
                ],
            )),
        }
    }

    /// A `u16`. `what`: an expression of that type, if the value is not known.
    pub fn u16(&mut self, krate: &TokenStream, value: &Number) {
        match value.known() {
            Some(value) => self.bytes(&(value as u16).to_le_bytes()),
            None => {
                let arguments = [("crate", krate.clone()), ("value", value.tokens("u16"))];
                self.part(fill("$crate::rt::Part::U16($value)", Span::mixed_site(), &arguments));
            }
        }
    }

    /// The expression of type `etw::rt::Site` for a static. The collected bytes start with the descriptor; the metadata must
    /// follow it.
    pub fn into_site(mut self, krate: &TokenStream, at: Span) -> Result<TokenStream> {
        if let [Piece::Bytes(bytes)] = &mut self.0[..] {
            let size = bytes.len() - DESCRIPTOR_SIZE;
            let size = u16::try_from(size).map_err(|_| {
                Error::new(at, format!("metadata of {size} bytes; an event has at most 65535"))
            })?;
            bytes[DESCRIPTOR_SIZE..][..2].copy_from_slice(&size.to_le_bytes());
            let arguments =
                [("crate", krate.clone()), ("bytes", literal_tokens(literal::bytes(bytes)))];
            return Ok(fill("$crate::rt::Site::new($bytes)", Span::mixed_site(), &arguments));
        }
        let parts = self.0.into_iter().map(|piece| match piece {
            Piece::Bytes(bytes) => fill(
                "$crate::rt::Part::Bytes($bytes)",
                Span::mixed_site(),
                &[("crate", krate.clone()), ("bytes", literal_tokens(literal::bytes(&bytes)))],
            ),
            Piece::Part(part) => part,
        });
        Ok(fill(
            "{
                const __ETW_PARTS: &[$crate::rt::Part<'static>] = &[$parts];
                const __ETW_SIZE: ::core::primitive::usize = $crate::rt::site_size(__ETW_PARTS);
                static __ETW_BYTES: [::core::primitive::u8; __ETW_SIZE] = $crate::rt::site_bytes(__ETW_PARTS);
                $crate::rt::Site::new(&__ETW_BYTES)
            }",
            Span::mixed_site(),
            &[("crate", krate.clone()), ("parts", comma_separated(parts))],
        ))
    }
}

/// `EVENT_DESCRIPTOR`
pub const DESCRIPTOR_SIZE: usize = 16;
