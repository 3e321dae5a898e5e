//! The procedural macros of crate `etw`. Programs use the documented wrappers in that crate.
//!
//! * `tokens`, `literal`: token streams without `syn` and `quote`, which would slow down the build of a program with a few events;
//! * `types`: the table of field types;
//! * `meta`: the static bytes of an event;
//! * `options`, `field`, `event`, `provider`: the grammar and its expansion;
//! * `hints`: messages for common mistakes.
//!
//! Each macro takes `$crate` of the wrapping `macro_rules!` as its first token, so that a renamed or re-exported `etw` works.
//! The tests of `etw` compare messages and positions of grammar errors through [`event_error`].
#![forbid(unsafe_code)]

mod event;
mod field;
mod hints;
mod literal;
mod meta;
mod options;
mod provider;
mod tokens;
mod types;

use proc_macro::{Delimiter, Group, Literal, Span, TokenStream, TokenTree};

use tokens::Result;

/// Implements `etw::define_provider!`.
#[proc_macro]
pub fn define_provider(input: TokenStream) -> TokenStream {
    finish(provider::define_provider(input))
}

/// Implements `etw::write_event!`.
#[proc_macro]
pub fn write_event(input: TokenStream) -> TokenStream {
    finish(event::write_event(input))
}

/// Implements `etw::provider_enabled!`.
#[proc_macro]
pub fn provider_enabled(input: TokenStream) -> TokenStream {
    finish(event::provider_enabled(input))
}

/// Returns the error of an invocation of `write_event!` and the source that it points at, as `(message, source)`. Tests use it. Both are
/// empty if there is no error; the source is empty if the error points at the whole invocation.
#[doc(hidden)]
#[proc_macro]
pub fn event_error(input: TokenStream) -> TokenStream {
    error_of(event::write_event(input))
}

/// Does what [`event_error`] does, for `define_provider!`.
#[doc(hidden)]
#[proc_macro]
pub fn provider_error(input: TokenStream) -> TokenStream {
    error_of(provider::define_provider(input))
}

fn finish(expanded: Result<TokenStream>) -> TokenStream {
    expanded.unwrap_or_else(tokens::Error::into_tokens)
}

fn error_of(expanded: Result<TokenStream>) -> TokenStream {
    let (message, source) = match expanded {
        Ok(_) => (String::new(), String::new()),
        Err(error) => {
            let whole = error.first.source_text() == Span::call_site().source_text();
            let source = error.first.source_text().filter(|_| !whole);
            (error.message, source.unwrap_or_default())
        }
    };
    let pair = tokens::comma_separated([
        tokens::literal(Literal::string(&message)),
        tokens::literal(Literal::string(&source)),
    ]);
    TokenTree::from(Group::new(Delimiter::Parenthesis, pair)).into()
}
