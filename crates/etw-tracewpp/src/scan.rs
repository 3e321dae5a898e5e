//! Calls of trace functions in a source, and the functions that contain them.

use crate::condition::{Definitions, remaining};
use crate::config::{CallForm, Config};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Kind, Token, Tokens};
use std::collections::{BTreeMap, HashMap};

/// Bytes of one call; a longer one is an error.
const CALL_LIMIT: usize = 64 << 10;
/// Arguments of one call: what TraceMessage takes.
const ARGUMENT_LIMIT: usize = 128;
/// Lines of an invocation that get aliases.
const ALIAS_LIMIT: u32 = 1000;

/// A call of a trace function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Index of the function in the configuration.
    pub function: usize,
    /// Line of the function's name.
    pub line: u32,
    /// Values of the fixed arguments.
    pub fixed: Vec<String>,
    /// The text of the message, escapes resolved.
    pub message: String,
    /// Expressions behind the message.
    pub arguments: Vec<String>,
    /// Name of the function that contains the call.
    pub enclosing: Option<String>,
    /// Other lines that compilers may give the call.
    pub aliases: Vec<u32>,
}

/// The calls of a source.
#[derive(Debug, Default)]
pub struct Calls {
    pub list: Vec<Call>,
    pub warnings: Vec<Diagnostic>,
}

/// Finds the calls of a source.
///
/// `defined`: macros and their values, for conditions inside of calls.
pub fn calls(
    tokens: &Tokens<'_>,
    config: &Config,
    defined: &[(String, String)],
    file: &str,
) -> Result<Calls, Diagnostic> {
    let macros = Macros::new(tokens);
    let mut scanner = Scanner {
        tokens,
        config,
        definitions: Definitions::new(tokens, defined),
        file,
        scopes: Scopes::default(),
        groups: Vec::new(),
        found: Vec::new(),
        warnings: Vec::new(),
    };
    scanner.run(&macros)?;
    let Scanner { mut found, warnings, .. } = scanner;
    let mut lines: HashMap<u32, &Call> = HashMap::new();
    for (call, _) in &found {
        if lines.insert(call.line, call).is_some() {
            let what = "two trace calls are on this line; put each on a line of its own";
            return Err(Diagnostic::error(file, call.line, what));
        }
    }
    set_aliases(&mut found);
    Ok(Calls { list: found.into_iter().map(|(call, _)| call).collect(), warnings })
}

/// First and last line of something.
type Lines = (u32, u32);

/// Gives each call the lines of its invocation that no other call has.
fn set_aliases(found: &mut [(Call, Vec<Lines>)]) {
    const SEVERAL: usize = usize::MAX;
    let mut owners: BTreeMap<u32, usize> = BTreeMap::new();
    for (index, (_, lines)) in found.iter().enumerate() {
        for (first, last) in lines {
            for line in *first..=(*last).min(first.saturating_add(ALIAS_LIMIT)) {
                let owner = owners.entry(line).or_insert(index);
                if *owner != index {
                    *owner = SEVERAL;
                }
            }
        }
    }
    for (call, _) in found.iter() {
        owners.remove(&call.line);
    }
    for (line, owner) in owners {
        if let Some((call, _)) = found.get_mut(owner) {
            call.aliases.push(line);
        }
    }
}

/// The macros with parameters that a source defines.
struct Macros<'s> {
    /// Tokens of each body, by the macro's name.
    bodies: HashMap<&'s str, std::ops::Range<usize>>,
}

impl<'s> Macros<'s> {
    fn new(tokens: &Tokens<'s>) -> Macros<'s> {
        let mut bodies = HashMap::new();
        for (number, start) in tokens.directives.iter().enumerate() {
            let directive = number as u32 + 1;
            let Some(name) = tokens.list.get(start + 1) else { continue };
            if tokens.word(*start) != "define" || name.directive != directive {
                continue;
            }
            let end = tokens.list[*start..].iter().position(|token| token.directive != directive);
            let end = end.map_or(tokens.list.len(), |size| start + size);
            let open = tokens.list.get(start + 2).filter(|open| open.is(b'('));
            let body = match open {
                // The parenthesis of parameters follows the name at once.
                Some(open) if open.start == name.end => open.partner + 1,
                _ => start + 2,
            };
            bodies.insert(tokens.text_of(name), body.min(end)..end);
        }
        Macros { bodies }
    }
}

/// Braces that enclose a token.
#[derive(Default)]
struct Scopes {
    open: Vec<Scope>,
    /// Name that starts a function at this scope, if a brace follows.
    candidate: Option<String>,
    /// Name of the last function: handlers behind a function's `try` belong to it.
    last: Option<String>,
    /// Name behind `class`, `struct`, `union`, `enum` or `namespace`.
    class: Option<String>,
    has_class_word: bool,
    has_initialisers: bool,
}

enum Scope {
    /// `extern "C"`
    Open,
    /// Classes and namespaces.
    Class(String),
    Function(String),
    /// Blocks and initialisers.
    Block,
}

impl Scopes {
    fn function(&self) -> Option<&str> {
        self.open.iter().find_map(|scope| match scope {
            Scope::Function(name) => Some(name.as_str()),
            _ => None,
        })
    }

    fn is_at_declarations(&self) -> bool {
        self.open.iter().all(|scope| matches!(scope, Scope::Open | Scope::Class(_)))
    }

    fn end_statement(&mut self) {
        self.candidate = None;
        self.class = None;
        self.has_class_word = false;
        self.has_initialisers = false;
    }

    fn open_brace(&mut self) {
        let scope = if !self.is_at_declarations() {
            Scope::Block
        } else if let Some(name) = self.candidate.take() {
            self.last = Some(name.clone());
            let classes = self.open.iter().filter_map(|scope| match scope {
                Scope::Class(name) if !name.is_empty() => Some(name.as_str()),
                _ => None,
            });
            Scope::Function(classes.chain([name.as_str()]).collect::<Vec<_>>().join("::"))
        } else if self.has_class_word {
            Scope::Class(self.class.take().unwrap_or_default())
        } else {
            Scope::Open
        };
        self.open.push(scope);
        self.end_statement();
    }

    fn close_brace(&mut self) {
        self.open.pop();
        if self.is_at_declarations() {
            self.end_statement();
        }
    }
}

/// Words before a parenthesis that make no function and no macro.
const KEYWORDS: &[&str] = &[
    "if",
    "while",
    "for",
    "switch",
    "return",
    "sizeof",
    "do",
    "else",
    "catch",
    "case",
    "alignof",
    "_Alignof",
    "decltype",
    "static_assert",
    "_Static_assert",
    "defined",
    "typeof",
    "__typeof__",
    "new",
    "delete",
    "throw",
    "co_await",
    "co_return",
    "co_yield",
    "noexcept",
    "alignas",
    "__attribute__",
    "__declspec",
    "asm",
    "__asm__",
    "requires",
    "operator",
];

struct Scanner<'a, 's> {
    tokens: &'a Tokens<'s>,
    config: &'a Config,
    definitions: Definitions<'a>,
    file: &'a str,
    scopes: Scopes,
    /// Open parentheses of invocations: the index of the name in front of each.
    groups: Vec<(usize, bool)>,
    found: Vec<(Call, Vec<Lines>)>,
    warnings: Vec<Diagnostic>,
}

impl Scanner<'_, '_> {
    fn run(&mut self, macros: &Macros<'_>) -> Result<(), Diagnostic> {
        let mut index = 0;
        // Calls of code, in order.
        while let Some(token) = self.tokens.list.get(index) {
            index = match token.directive {
                0 => self.code_token(index, token, macros)?,
                _ => index + 1,
            };
        }
        let in_code = std::mem::take(&mut self.found);
        self.calls_in_macros(macros)?;
        self.found.extend(in_code);
        self.found.sort_by_key(|(call, _)| call.line);
        Ok(())
    }

    fn code_token(
        &mut self,
        index: usize,
        token: &Token,
        macros: &Macros<'_>,
    ) -> Result<usize, Diagnostic> {
        match token.kind {
            Kind::Name => {
                let word = self.tokens.text_of(token);
                if let Some(function) = self.call_at(index, word) {
                    let lines = self.outer_lines(macros, token.line);
                    let enclosing = self.scopes.function().map(str::to_owned);
                    let close = self.tokens.list[index + 1].partner;
                    self.add_call(index, function, enclosing, lines)?;
                    return Ok(close + 1);
                }
                if self.scopes.is_at_declarations() && self.groups.is_empty() {
                    self.declared_name(index, word);
                    if word == "operator" {
                        return Ok(self.end_of_operator(index));
                    }
                }
            }
            Kind::Punctuation(b'(') => {
                let is_invocation = index > 0
                    && token.partner != index
                    && self.tokens.list[index - 1].kind == Kind::Name
                    && !KEYWORDS.contains(&self.tokens.word(index - 1));
                self.groups.push((index.saturating_sub(1), is_invocation));
            }
            Kind::Punctuation(b')') => drop(self.groups.pop()),
            Kind::Punctuation(b'{') => {
                // `member{value}` among a constructor's initialisers.
                let is_initialiser = self.scopes.has_initialisers
                    && self.scopes.candidate.is_some()
                    && token.partner != index
                    && index > 0
                    && (self.tokens.list[index - 1].kind == Kind::Name
                        || self.tokens.list[index - 1].is(b'>'));
                if is_initialiser && self.scopes.is_at_declarations() {
                    return Ok(token.partner + 1);
                }
                self.scopes.open_brace();
            }
            Kind::Punctuation(b'}') => self.scopes.close_brace(),
            Kind::Punctuation(b';')
                if self.groups.is_empty() && self.scopes.is_at_declarations() =>
            {
                self.scopes.end_statement();
            }
            Kind::Punctuation(b':') => {
                let is_colon = |at: usize| self.tokens.list.get(at).is_some_and(|t| t.is(b':'));
                let is_scope = is_colon(index + 1) || (index > 0 && is_colon(index - 1));
                if !is_scope {
                    self.scopes.has_initialisers = true;
                }
            }
            Kind::Punctuation(b'=') if self.groups.is_empty() => self.scopes.candidate = None,
            _ => {}
        }
        Ok(index + 1)
    }

    /// A name outside of functions: of a class, or of a function that may begin.
    fn declared_name(&mut self, index: usize, word: &str) {
        match word {
            "class" | "struct" | "union" | "enum" | "namespace" => {
                self.scopes.has_class_word = true;
            }
            "operator" if self.scopes.candidate.is_none() => {
                self.scopes.candidate = Some(self.operator(index));
            }
            "catch" => self.scopes.candidate = self.scopes.last.clone(),
            _ if KEYWORDS.contains(&word) => {}
            _ => {
                let follows = self.tokens.list.get(index + 1);
                if follows.is_some_and(|next| next.is(b'(')) {
                    if self.scopes.candidate.is_none() {
                        self.scopes.candidate = Some(self.qualified(index));
                    }
                } else if self.scopes.has_class_word && !self.scopes.has_initialisers {
                    // `namespace a::b`
                    let before = match index > 0 && self.tokens.list[index - 1].is(b':') {
                        true => self.scopes.class.take().map(|before| before + "::"),
                        false => None,
                    };
                    self.scopes.class = Some(before.unwrap_or_default() + word);
                }
            }
        }
    }

    /// `A::operator==` and `A::operator bool`; the word `operator` is at `index`.
    fn operator(&self, index: usize) -> String {
        let mut name = self.qualified(index);
        for token in &self.tokens.list[index + 1..self.end_of_operator(index)] {
            if token.kind == Kind::Name {
                name.push(' ');
            }
            name.push_str(self.tokens.text_of(token));
        }
        name
    }

    /// Index of the parenthesis behind an operator's name.
    fn end_of_operator(&self, index: usize) -> usize {
        const LONGEST: usize = 16;
        let list = &self.tokens.list;
        let call = list.get(index + 1).filter(|token| token.is(b'('));
        if call.is_some_and(|open| open.partner == index + 2) {
            return index + 3;
        }
        let behind = list[index + 1..].iter().take(LONGEST);
        let size = behind.take_while(|token| !token.is(b'(') && !token.is(b';')).count();
        index + 1 + size
    }

    /// `A::B` and `~A`, up to the name at `index`.
    fn qualified(&self, index: usize) -> String {
        const LONGEST: usize = 32;
        let list = &self.tokens.list;
        let mut name = self.tokens.word(index).to_owned();
        let mut at = index;
        if at > 0 && list[at - 1].is(b'~') {
            name.insert(0, '~');
            at -= 1;
        }
        for _ in 0..LONGEST {
            let is_scope = at >= 3 && list[at - 1].is(b':') && list[at - 2].is(b':');
            if !is_scope || list[at - 3].kind != Kind::Name {
                break;
            }
            at -= 3;
            name = format!("{}::{name}", self.tokens.word(at));
        }
        name
    }

    /// The trace function that the name at `index` calls.
    fn call_at(&self, index: usize, word: &str) -> Option<usize> {
        let function = self.config.function(word)?;
        let open = self.tokens.list.get(index + 1)?;
        let is_member = index > 0
            && (self.tokens.list[index - 1].is(b'.')
                || (self.tokens.list[index - 1].is(b'>')
                    && index > 1
                    && self.tokens.list[index - 2].is(b'-')));
        (open.is(b'(') && !is_member).then_some(function)
    }

    /// Lines of the outermost invocation that contains a call. Compilers give a macro's arguments its first or last line.
    fn outer_lines(&mut self, macros: &Macros<'_>, line: u32) -> Vec<Lines> {
        let outer = self.groups.iter().find(|(_, is_invocation)| *is_invocation);
        let Some((head, _)) = outer else { return Vec::new() };
        let list = &self.tokens.list;
        let close = list[list[head + 1].partner];
        let lines = (list[*head].line, close.line);
        let name = self.tokens.text_of(&list[*head]);
        if macros.bodies.contains_key(name)
            && self.found.iter().any(|(_, known)| known.contains(&lines))
        {
            let what = format!(
                "the second trace call in one invocation of the macro {name}: compilers give both the same line; \
                 invoke the macro twice"
            );
            self.warnings.push(Diagnostic::warning(self.file, line, what));
        }
        vec![lines]
    }

    /// Calls in the bodies of macros: they have the lines where the macros are used.
    fn calls_in_macros(&mut self, macros: &Macros<'_>) -> Result<(), Diagnostic> {
        let mut with_calls: HashMap<&str, usize> = HashMap::new();
        let mut names: Vec<_> = macros.bodies.iter().collect();
        names.sort_by_key(|(_, body)| body.start);
        for (name, body) in names {
            if self.config.function(name).is_some() {
                continue;
            }
            let mut index = body.start;
            while index < body.end {
                let call = self.call_at(index, self.tokens.word(index));
                let Some(function) = call.filter(|_| self.tokens.list[index].kind == Kind::Name)
                else {
                    index += 1;
                    continue;
                };
                let close = self.tokens.list[index + 1].partner;
                let line = self.tokens.list[index].line;
                if with_calls.contains_key(*name) {
                    let what = format!(
                        "the second trace call in the macro {name}: compilers give both the line where the macro is used; \
                         use a function instead"
                    );
                    return Err(Diagnostic::error(self.file, line, what));
                }
                self.add_call(index, function, None, Vec::new())?;
                with_calls.insert(*name, self.found.len() - 1);
                index = close + 1;
            }
        }
        if with_calls.is_empty() {
            return Ok(());
        }
        for (index, token) in self.tokens.list.iter().enumerate() {
            if token.directive != 0 || token.kind != Kind::Name {
                continue;
            }
            let Some(call) = with_calls.get(self.tokens.text_of(token)) else { continue };
            let open = self.tokens.list.get(index + 1).filter(|open| open.is(b'('));
            let last = open.map_or(token.line, |open| self.tokens.list[open.partner].line);
            self.found[*call].1.push((token.line, last));
        }
        Ok(())
    }

    fn add_call(
        &mut self,
        index: usize,
        function: usize,
        enclosing: Option<String>,
        mut lines: Vec<Lines>,
    ) -> Result<(), Diagnostic> {
        let list = &self.tokens.list;
        let (name, open) = (list[index], list[index + 1]);
        let definition = &self.config.functions[function];
        let wrong = |what: String| {
            let what = format!("{}: {what}", definition.name);
            Diagnostic::error(self.file, name.line, what)
        };
        if open.partner == index + 1 {
            return Err(wrong("its parenthesis is never closed".into()));
        }
        let close = list[open.partner];
        if close.end - name.start > CALL_LIMIT {
            return Err(wrong("the call is longer than 64 KB".into()));
        }
        let (remaining, unknown) =
            remaining(self.tokens, &self.definitions, index + 2..open.partner);
        for line in unknown {
            let what = "this condition is inside of a trace call, and nothing in this file says whether it holds: its first branch \
                        counts; define its macros with -D, or put a call into each branch";
            self.warnings.push(Diagnostic::warning(self.file, line, what.to_owned()));
        }
        let mut ranges = self.arguments(&remaining);
        if definition.form != CallForm::Plain {
            lines.push((name.line, close.line));
            let inner = match definition.form {
                CallForm::DoubleParentheses => ranges.first().copied(),
                _ => ranges.last().copied(),
            };
            let inner = inner.and_then(|range| {
                let (open, rest) = range.split_first()?;
                let (close, inside) = rest.split_last()?;
                (list[*open].is(b'(') && list[*open].partner == *close).then_some(inside)
            });
            let Some(inner) = inner else {
                return Err(wrong("its configuration puts the message into parentheses".into()));
            };
            ranges.pop();
            ranges.extend(self.arguments(inner));
        }
        if ranges.len() > ARGUMENT_LIMIT {
            return Err(wrong(format!("it has more than {ARGUMENT_LIMIT} arguments")));
        }
        let fixed_count = definition.fixed.len();
        let needed = fixed_count + usize::from(definition.has_message);
        if ranges.len() < needed || (ranges.len() > needed && !definition.is_variadic) {
            let count = ranges.len();
            return Err(wrong(format!(
                "it takes {needed} arguments before the values, not {count}"
            )));
        }
        let fixed = ranges[..fixed_count].iter().map(|range| self.expression(range)).collect();
        let message = match definition.has_message {
            true => self.message(ranges[fixed_count]).map_err(|what| wrong(what.to_owned()))?,
            false => String::new(),
        };
        let arguments = ranges[needed..].iter().map(|range| self.expression(range)).collect();
        let call = Call {
            function,
            line: name.line,
            fixed,
            message,
            arguments,
            enclosing,
            aliases: Vec::new(),
        };
        self.found.push((call, lines));
        Ok(())
    }

    /// The tokens of each argument, of those between two parentheses.
    fn arguments<'t>(&self, tokens: &'t [usize]) -> Vec<&'t [usize]> {
        let mut ranges = Vec::new();
        let mut rest = tokens;
        let mut size = 0;
        while let Some(index) = rest.get(size) {
            let token = &self.tokens.list[*index];
            if token.is(b',') {
                ranges.push(&rest[..size]);
                rest = &rest[size + 1..];
                size = 0;
                continue;
            }
            size += match token.kind {
                Kind::Punctuation(b'(' | b'[' | b'{') if token.partner > *index => {
                    let inside = rest[size..].iter().take_while(|inner| **inner < token.partner);
                    inside.count().max(1)
                }
                _ => 1,
            };
        }
        if !rest.is_empty() || !ranges.is_empty() {
            ranges.push(rest);
        }
        ranges
    }

    /// The text of an argument, without comments and line ends.
    fn expression(&self, range: &[usize]) -> String {
        let mut text = String::new();
        let mut end = None;
        for token in range.iter().map(|index| &self.tokens.list[*index]) {
            if end.is_some_and(|end| end != token.start) {
                text.push(' ');
            }
            text.push_str(self.tokens.text_of(token));
            end = Some(token.end);
        }
        text.replace(['\r', '\n'], " ")
    }

    /// The literals of a message, joined.
    fn message(&self, range: &[usize]) -> Result<String, &'static str> {
        const NEEDED: &str = "its message has to be a string literal";
        let mut message = String::new();
        if range.is_empty() {
            return Err(NEEDED);
        }
        for token in range.iter().map(|index| &self.tokens.list[*index]) {
            if token.kind != Kind::Text {
                return Err(NEEDED);
            }
            add_literal(&mut message, self.tokens.text_of(token)).ok_or(NEEDED)?;
        }
        Ok(message)
    }
}

/// Adds the characters of a string literal; `None` if the literal is unfinished.
fn add_literal(out: &mut String, literal: &str) -> Option<()> {
    let (prefix, body) = literal.split_once('"')?;
    let body = body.strip_suffix('"')?;
    if prefix.ends_with('R') {
        let (delimiter, rest) = body.split_once('(')?;
        out.push_str(rest.strip_suffix(delimiter)?.strip_suffix(')')?);
        return Some(());
    }
    let mut rest = body.chars().peekable();
    while let Some(character) = rest.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        match rest.next()? {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'a' => out.push('\x07'),
            'b' => out.push('\x08'),
            'f' => out.push('\x0c'),
            'v' => out.push('\x0b'),
            '\n' => {}
            '\r' => drop(rest.next_if_eq(&'\n')),
            'x' => {
                let mut code = 0u32;
                while let Some(digit) = rest.peek().and_then(|next| next.to_digit(16)) {
                    code = (code << 4 | digit) & 0xff_ffff;
                    rest.next();
                }
                out.push(char::from_u32(code).unwrap_or('?'));
            }
            'u' => add_code(out, &mut rest, 4),
            'U' => add_code(out, &mut rest, 8),
            first @ '0'..='7' => {
                let mut code = first.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = rest.peek().and_then(|next| next.to_digit(8)) else { break };
                    code = code * 8 + digit;
                    rest.next();
                }
                out.push(char::from_u32(code).unwrap_or('?'));
            }
            other => out.push(other),
        }
    }
    Some(())
}

/// Adds the character of `\u` and `\U`: `size` hexadecimal digits.
fn add_code(out: &mut String, rest: &mut std::iter::Peekable<std::str::Chars<'_>>, size: usize) {
    let mut code = 0u32;
    for _ in 0..size {
        let Some(digit) = rest.peek().and_then(|next| next.to_digit(16)) else { break };
        code = code << 4 | digit;
        rest.next();
    }
    out.push(char::from_u32(code).unwrap_or('?'));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn scan(source: &str) -> Result<Calls, Diagnostic> {
        let mut config = Config::default();
        let text = "FUNC T(FLAG, MSG, ...); FUNC D((MSG, ...)); FUNC M(L,(MSG,...)); FUNC E(L);";
        for statement in parse(text, "x", 1).unwrap() {
            config.apply(&statement, "x").unwrap();
        }
        let defined = [("GIVEN".to_owned(), "3".to_owned())];
        calls(&Tokens::new(source), &config, &defined, "x.c")
    }

    #[test]
    fn calls_have_the_line_of_their_name() {
        let source = "// T(A, \"no\");\nchar *s = \"T(A, 1)\";\nvoid f(void) {\n  T (A | B,\n    \"one \" /* , */\n    \"two %d\\n\",\n    g(1,\n 2), // x\n x);\n  D((\"d\"));\n  M(1, (\"m %s\", \"a\")); E(3);\n}\n";
        // Two calls on a line are refused.
        assert_eq!(scan(source).unwrap_err().line, 11);
        let calls = scan(&source.replace("; E(3)", ";\n E(3)")).unwrap().list;
        let lines: Vec<u32> = calls.iter().map(|call| call.line).collect();
        assert_eq!(lines, [4, 10, 11, 12]);
        assert_eq!(calls[0].fixed, ["A | B"]);
        assert_eq!(calls[0].message, "one two %d\n");
        assert_eq!(calls[0].arguments, ["g(1, 2)", "x"]);
        assert!(calls.iter().all(|call| call.enclosing.as_deref() == Some("f")));
    }

    #[test]
    fn calls_know_their_function() {
        let source = "namespace n { class C : public B { int m() const { T(A, \"a\");\n } };\nC::C() : x{1}, y(2) { T(A, \"b\");\n}\nC::~C() noexcept { auto l = [&](int i) {\n T(A, \"c\"); };\n}\nstatic struct S v = { .a = { 1 } };\nint __attribute__((unused)) plain(void) {\nT(A, \"d\");\n} }\n";
        let calls = scan(source).unwrap().list;
        let names: Vec<_> = calls.iter().map(|call| call.enclosing.as_deref().unwrap()).collect();
        assert_eq!(names, ["n::C::m", "n::C::C", "n::C::~C", "n::plain"]);
    }

    #[test]
    fn operators_and_handlers_of_functions_have_names() {
        let source = "struct C { bool operator==(C) { T(A, \"a\");\n }\n operator bool() const { T(A, \"b\");\n }\n void operator()(int); };\nvoid C::operator()(int) { T(A, \"c\");\n}\nint f() try { T(A, \"d\");\n} catch (int) { T(A, \"e\");\n} catch (...) { T(A, \"f\");\n}\n";
        let calls = scan(source).unwrap().list;
        let names: Vec<_> = calls.iter().map(|call| call.enclosing.as_deref().unwrap()).collect();
        assert_eq!(names, ["C::operator==", "C::operator bool", "C::operator()", "f", "f", "f"]);
    }

    #[test]
    fn conditions_inside_of_a_call_choose_its_text() {
        let call = |before: &str, condition: &str| {
            let source = format!(
                "{before}\nvoid f() {{\nT(A, \"%d\"\n#{condition}\n\" of %s\"\n#else\n\" and no more\"\n#endif\n, 1\n\
                 #{condition}\n, g(2,\n 3)\n#endif\n);\n}}"
            );
            let calls = scan(&source)?.list;
            Ok((calls[0].message.clone(), calls[0].arguments.clone()))
        };
        let both = ("%d of %s".to_owned(), vec!["1".to_owned(), "g(2, 3)".to_owned()]);
        let one = ("%d and no more".to_owned(), vec!["1".to_owned()]);
        for (before, condition, wanted) in [
            ("", "if 1", &both),
            ("", "if 0", &one),
            ("#undef DBG", "ifndef DBG", &both),
            ("#define DBG", "ifdef DBG", &both),
            ("#define DBG\n#undef DBG", "ifdef DBG", &one),
            ("", "ifdef GIVEN", &both),
            ("", "if GIVEN >= 4", &one),
            ("#define DBG 0x10u", "if DBG == 16 && !defined(OTHER)", &both),
            ("", "if (defined GIVEN || OTHER) && (GIVEN < 3)", &one),
        ] {
            let found: Result<_, Diagnostic> = call(before, condition);
            assert_eq!(found.as_ref(), Ok(wanted), "{before} #{condition}");
        }
        for (condition, wanted) in [
            ("ifdef NULL", &both),
            ("ifndef NULL", &both),
            ("if NULL == 0", &both),
            ("if NULL && GIVEN > 3", &one),
            ("if NULL || GIVEN", &both),
            ("if !defined(NULL) || 0", &both),
            ("if GIVEN(1)", &both),
            ("if 1 +", &both),
            ("ifdef", &both),
        ] {
            let source = format!(
                "T(A,\"%d\"\n#{condition}\n\" of %s\"\n#else\n\" and no more\"\n#endif\n);"
            );
            let calls = scan(&source).unwrap();
            assert_eq!(calls.list[0].message, wanted.0, "#{condition}");
            let is_known = matches!(condition, "if NULL && GIVEN > 3" | "if NULL || GIVEN");
            let lines: Vec<u32> = calls.warnings.iter().map(|warning| warning.line).collect();
            assert_eq!(lines, if is_known { vec![] } else { vec![2] }, "#{condition}");
        }
        let branches =
            "T(A,\n#if 0\n\"a\"\n#elif GIVEN\n\"b\"\n#elif 1\n\"c\"\n#else\n\"d\"\n#endif\n);";
        assert_eq!(scan(branches).unwrap().list[0].message, "b");
    }

    #[test]
    fn invocations_give_aliases_for_their_lines() {
        let source = "#define IF(x) x\n#define LOG(x) \\\n T(A, \"%d\", x)\nvoid f(void) {\nIF(\n  T(A, \"a\")\n);\nLOG(1);\nLOG(\n2);\nD((\"x\"\n));\n}\n";
        let calls = scan(source).unwrap().list;
        let aliases: Vec<(u32, &[u32])> =
            calls.iter().map(|call| (call.line, &call.aliases[..])).collect();
        assert_eq!(aliases, [(3, &[8, 9, 10][..]), (6, &[5, 7][..]), (11, &[12][..])]);
    }

    #[test]
    fn wrong_calls_are_errors_at_their_line() {
        for (source, what) in [
            ("\nT(A, msg);", "string literal"),
            ("\nT(A);", "takes 2 arguments"),
            ("\nT(A, \"x\"", "never closed"),
            ("\nE(1, 2);", "takes 1 arguments"),
            ("\nD(\"x\");", "into parentheses"),
            ("#define X T(A,\"a\"); \\\n T(A, \"b\")\nX", "the second trace call"),
        ] {
            let error = scan(source).unwrap_err();
            assert_eq!((error.line, error.message.contains(what)), (2, true), "{error}");
        }
    }
}
