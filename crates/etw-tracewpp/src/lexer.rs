//! Tokens of C and C++, as far as trace calls need them: names, literals, punctuation and directives, without comments.

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Name,
    Number,
    /// A string literal with its prefix and quotes.
    Text,
    Character,
    /// One byte of punctuation.
    Punctuation(u8),
}

/// A token and its position.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
    /// Line, counted from 1.
    pub line: u32,
    /// Number of the directive that contains it, counted from 1; 0: none.
    pub directive: u32,
    /// Index of the matching bracket; its own index for anything else and for brackets without a partner.
    pub partner: usize,
}

impl Token {
    pub fn is(&self, byte: u8) -> bool {
        self.kind == Kind::Punctuation(byte)
    }
}

/// A source as tokens.
pub struct Tokens<'s> {
    pub text: &'s str,
    pub list: Vec<Token>,
    /// Index of the first token behind the `#` of each directive.
    pub directives: Vec<usize>,
}

impl<'s> Tokens<'s> {
    /// Cuts a source. Unfinished literals and comments end with the line or the file.
    pub fn new(text: &'s str) -> Tokens<'s> {
        let mut lexer = Lexer {
            text: text.as_bytes(),
            at: 0,
            line: 1,
            at_line_start: true,
            directive: 0,
            tokens: Tokens { text, list: Vec::new(), directives: Vec::new() },
        };
        lexer.run();
        let mut tokens = lexer.tokens;
        pair_brackets(&mut tokens.list);
        tokens
    }

    pub fn text_of(&self, token: &Token) -> &'s str {
        &self.text[token.start..token.end]
    }

    /// The text of a token, or "" behind the last one.
    pub fn word(&self, index: usize) -> &'s str {
        self.list.get(index).map_or("", |token| self.text_of(token))
    }
}

/// Pairs brackets of code and of each directive apart from each other.
fn pair_brackets(tokens: &mut [Token]) {
    let mut open_in_code: Vec<usize> = Vec::new();
    let mut open_in_directive: Vec<usize> = Vec::new();
    let mut directive = 0;
    for index in 0..tokens.len() {
        let token = tokens[index];
        if token.directive != directive {
            open_in_directive.clear();
            directive = token.directive;
        }
        let open = if token.directive == 0 { &mut open_in_code } else { &mut open_in_directive };
        let wanted = match token.kind {
            Kind::Punctuation(b'(' | b'[' | b'{') => {
                open.push(index);
                continue;
            }
            Kind::Punctuation(b')') => b'(',
            Kind::Punctuation(b']') => b'[',
            Kind::Punctuation(b'}') => b'{',
            _ => continue,
        };
        // Branches of #if may open a bracket twice; the innermost of the right kind counts, within a few.
        let near = open.len().saturating_sub(8);
        if let Some(depth) = open[near..].iter().rposition(|at| tokens[*at].is(wanted)) {
            let partner = open[near + depth];
            open.truncate(near + depth);
            tokens[index].partner = partner;
            tokens[partner].partner = index;
        }
    }
}

struct Lexer<'s> {
    text: &'s [u8],
    at: usize,
    line: u32,
    at_line_start: bool,
    directive: u32,
    tokens: Tokens<'s>,
}

impl Lexer<'_> {
    fn byte(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn run(&mut self) {
        while self.at < self.text.len() {
            match (self.byte(0), self.byte(1)) {
                (b'\n', _) => {
                    self.newline();
                    (self.at_line_start, self.directive) = (true, 0);
                }
                (b'\\', b'\n') => {
                    self.at += 1;
                    self.newline();
                }
                (b'\\', b'\r') if self.byte(2) == b'\n' => {
                    self.at += 2;
                    self.newline();
                }
                (b'/', b'/') => self.line_comment(),
                (b'/', b'*') => self.block_comment(),
                (byte, _) if byte.is_ascii_whitespace() => self.at += 1,
                (b'#', _) if self.at_line_start => {
                    self.at += 1;
                    self.at_line_start = false;
                    self.tokens.directives.push(self.tokens.list.len());
                    self.directive = self.tokens.directives.len() as u32;
                }
                _ => {
                    self.at_line_start = false;
                    self.token();
                }
            }
        }
    }

    fn newline(&mut self) {
        self.at += 1;
        self.line += 1;
    }

    fn line_comment(&mut self) {
        while self.at < self.text.len() && self.byte(0) != b'\n' {
            if self.byte(0) == b'\\' && self.byte(1) == b'\n' {
                self.at += 1;
                self.newline();
            } else {
                self.at += 1;
            }
        }
    }

    fn block_comment(&mut self) {
        self.at += 2;
        while self.at < self.text.len() {
            match (self.byte(0), self.byte(1)) {
                (b'*', b'/') => {
                    self.at += 2;
                    return;
                }
                (b'\n', _) => self.newline(),
                _ => self.at += 1,
            }
        }
    }

    fn token(&mut self) {
        let (start, line) = (self.at, self.line);
        let byte = self.byte(0);
        let kind = if byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$' || byte >= 0x80 {
            self.name(start)
        } else if byte.is_ascii_digit() || (byte == b'.' && self.byte(1).is_ascii_digit()) {
            self.number()
        } else if byte == b'"' {
            self.quoted(b'"');
            Kind::Text
        } else if byte == b'\'' {
            self.quoted(b'\'');
            Kind::Character
        } else {
            self.at += 1;
            Kind::Punctuation(byte)
        };
        let partner = self.tokens.list.len();
        let directive = self.directive;
        self.tokens.list.push(Token { kind, start, end: self.at, line, directive, partner });
    }

    fn name(&mut self, start: usize) -> Kind {
        let is_part =
            |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80;
        while is_part(self.byte(0)) && self.at < self.text.len() {
            self.at += 1;
        }
        let prefix = &self.text[start..self.at];
        match self.byte(0) {
            b'"' if matches!(prefix, b"L" | b"u" | b"U" | b"u8") => {
                self.quoted(b'"');
                Kind::Text
            }
            b'"' if matches!(prefix, b"R" | b"LR" | b"uR" | b"UR" | b"u8R") => {
                self.raw_text();
                Kind::Text
            }
            b'\'' if matches!(prefix, b"L" | b"u" | b"U" | b"u8") => {
                self.quoted(b'\'');
                Kind::Character
            }
            _ => Kind::Name,
        }
    }

    fn number(&mut self) -> Kind {
        loop {
            let (byte, before) = (self.byte(0), self.text[self.at.saturating_sub(1)]);
            let is_sign =
                matches!(byte, b'+' | b'-') && matches!(before, b'e' | b'E' | b'p' | b'P');
            let is_separator = byte == b'\'' && self.byte(1).is_ascii_alphanumeric();
            let is_part = byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_');
            if !(is_part || is_sign || is_separator) {
                return Kind::Number;
            }
            self.at += 1;
        }
    }

    /// A literal up to its quote or the end of the line.
    fn quoted(&mut self, quote: u8) {
        self.at += 1;
        while self.at < self.text.len() {
            match (self.byte(0), self.byte(1)) {
                (b'\\', b'\n') => {
                    self.at += 1;
                    self.newline();
                }
                (b'\\', b'\r') if self.byte(2) == b'\n' => {
                    self.at += 2;
                    self.newline();
                }
                (b'\\', next) if next != 0 => self.at += 2,
                (b'\n', _) => return,
                (byte, _) => {
                    self.at += 1;
                    if byte == quote {
                        return;
                    }
                }
            }
        }
        self.at = self.at.min(self.text.len());
    }

    /// `"delimiter(…)delimiter"`, behind the `R`.
    fn raw_text(&mut self) {
        const DELIMITER_LIMIT: usize = 16;
        let rest = &self.text[self.at + 1..];
        let open = rest.iter().take(DELIMITER_LIMIT + 1).position(|byte| *byte == b'(');
        let Some(open) = open else { return self.quoted(b'"') };
        let end = [b")", &rest[..open], b"\""].concat();
        let body = &rest[open + 1..];
        let size = body.windows(end.len()).position(|part| part == end);
        let stop = match size {
            Some(size) => self.at + 1 + open + 1 + size + end.len(),
            None => self.text.len(),
        };
        self.line += self.text[self.at..stop].iter().filter(|byte| **byte == b'\n').count() as u32;
        self.at = stop;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_literals_and_directives_are_told_apart() {
        let source = "a /* b\n */ c // d \\\n e\n#define F(x) \\\n  g(x)\n\"h\\\"i\" L\"j\" R\"k(l\")k\" 1'000 'm'\n";
        let tokens = Tokens::new(source);
        let words: Vec<(&str, u32, u32)> = tokens
            .list
            .iter()
            .map(|token| (tokens.text_of(token), token.line, token.directive))
            .collect();
        assert_eq!(
            words,
            [
                ("a", 1, 0),
                ("c", 2, 0),
                ("define", 4, 1),
                ("F", 4, 1),
                ("(", 4, 1),
                ("x", 4, 1),
                (")", 4, 1),
                ("g", 5, 1),
                ("(", 5, 1),
                ("x", 5, 1),
                (")", 5, 1),
                ("\"h\\\"i\"", 6, 0),
                ("L\"j\"", 6, 0),
                ("R\"k(l\")k\"", 6, 0),
                ("1'000", 6, 0),
                ("'m'", 6, 0),
            ]
        );
    }

    #[test]
    fn unfinished_sources_end() {
        for source in ["\"abc", "'", "/*", "R\"x(", "a\\", "\\", "#", "((", "}])", "1e", "\"\\"] {
            let tokens = Tokens::new(source);
            assert!(tokens.list.iter().all(|token| token.end <= source.len()), "{source}");
        }
    }
}
