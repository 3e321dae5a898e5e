//! Words to a query, by recursive descent.

use super::lexer::{Token, Word, error, words};
use super::{Expression, Path, QueryError, Step, Test};

/// Predicates and parentheses inside of each other.
const MAX_DEPTH: usize = 64;

/// Reads a query: a path that begins at the event. An empty query means all events.
pub fn parse(text: &str) -> Result<Path, QueryError> {
    let mut parser = Parser { text, words: words(text)?, next: 0, depth: 0 };
    if parser.peek() == &Token::End {
        return Ok(Path {
            steps: vec![Step { test: Test::Element(None), predicates: Vec::new() }],
        });
    }
    // `/Event` and `//Event` are seen in scripts; both begin at the event.
    while parser.takes('/') {}
    let at = parser.at();
    let path = parser.path()?;
    match path.steps.first().map(|step| &step.test) {
        Some(Test::Element(None)) => {}
        Some(Test::Element(Some(name))) if name == "Event" => {}
        _ => return Err(error(text, at, "`*` or `Event`")),
    }
    match parser.peek() {
        Token::End => Ok(path),
        _ => parser.fail("`[`, `/` or the end of the query"),
    }
}

struct Parser<'t> {
    text: &'t str,
    words: Vec<Word>,
    next: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.words[self.next].token
    }

    fn at(&self) -> usize {
        self.words[self.next].at
    }

    /// The next word. The last one, [`Token::End`], stays.
    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next = (self.next + 1).min(self.words.len() - 1);
        token
    }

    fn takes(&mut self, sign: char) -> bool {
        let is_next = *self.peek() == Token::Sign(sign);
        if is_next {
            self.take();
        }
        is_next
    }

    fn takes_name(&mut self, name: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Name(next) if next == name);
        if is_next {
            self.take();
        }
        is_next
    }

    fn fail<T>(&self, expected: &'static str) -> Result<T, QueryError> {
        Err(error(self.text, self.at(), expected))
    }

    fn require(&mut self, sign: char, expected: &'static str) -> Result<(), QueryError> {
        match self.takes(sign) {
            true => Ok(()),
            false => self.fail(expected),
        }
    }

    fn path(&mut self) -> Result<Path, QueryError> {
        let mut steps = vec![self.step()?];
        while self.takes('/') {
            steps.push(self.step()?);
        }
        Ok(Path { steps })
    }

    fn step(&mut self) -> Result<Step, QueryError> {
        let is_attribute = self.takes('@');
        let test = match self.peek().clone() {
            Token::Sign('*') if is_attribute => Test::Attribute(None),
            Token::Sign('*') => Test::Element(None),
            Token::Sign('.') if !is_attribute => Test::Itself,
            Token::Name(name) if is_attribute => Test::Attribute(Some(name)),
            Token::Name(name) => match self.words.get(self.next + 1).map(|word| &word.token) {
                Some(Token::Sign('(')) if name == "text" => {
                    self.take();
                    self.take();
                    // The closing parenthesis is taken below, like any test's last word.
                    match self.peek() {
                        Token::Sign(')') => Test::Text,
                        _ => return self.fail("`)`"),
                    }
                }
                Some(Token::Sign('(')) => {
                    return self.fail("a path (the functions are position, band and timediff)");
                }
                _ => Test::Element(Some(name)),
            },
            _ => return self.fail("a name, `*`, `@` or `text()`"),
        };
        self.take();
        let mut predicates = Vec::new();
        while self.takes('[') {
            predicates.push(self.nested(Self::or)?);
            self.require(']', "`and`, `or` or `]`")?;
        }
        Ok(Step { test, predicates })
    }

    fn nested(
        &mut self,
        inner: fn(&mut Self) -> Result<Expression, QueryError>,
    ) -> Result<Expression, QueryError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail("fewer brackets inside of each other");
        }
        let expression = inner(self)?;
        self.depth -= 1;
        Ok(expression)
    }

    fn or(&mut self) -> Result<Expression, QueryError> {
        let mut left = self.and()?;
        while self.takes_name("or") {
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expression, QueryError> {
        let mut left = self.comparison()?;
        while self.takes_name("and") {
            left = Expression::And(Box::new(left), Box::new(self.comparison()?));
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Expression, QueryError> {
        let left = self.operand()?;
        let Token::Compare(comparison) = *self.peek() else { return Ok(left) };
        self.take();
        let right = self.operand()?;
        Ok(Expression::Compare(comparison, Box::new(left), Box::new(right)))
    }

    fn operand(&mut self) -> Result<Expression, QueryError> {
        match self.peek().clone() {
            Token::Sign('(') => {
                self.take();
                let inner = self.nested(Self::or)?;
                self.require(')', "`and`, `or` or `)`")?;
                Ok(inner)
            }
            Token::Text(text) => {
                self.take();
                Ok(Expression::Text(text))
            }
            Token::Integer(value) => {
                self.take();
                Ok(Expression::Integer(value))
            }
            Token::Number(value) => {
                self.take();
                Ok(Expression::Number(value))
            }
            Token::Name(name) => {
                let is_call = self.words.get(self.next + 1).map(|word| &word.token)
                    == Some(&Token::Sign('('));
                // Windows takes these names in any case.
                match name.to_ascii_lowercase().as_str() {
                    "position" if is_call => {
                        self.call()?;
                        self.require(')', "`)`")?;
                        Ok(Expression::Position)
                    }
                    "band" if is_call => {
                        self.call()?;
                        let left = self.nested(Self::operand)?;
                        self.require(',', "`,` and the second argument of band")?;
                        let right = self.nested(Self::operand)?;
                        self.require(')', "`)`")?;
                        Ok(Expression::Band(Box::new(left), Box::new(right)))
                    }
                    "timediff" if is_call => {
                        self.call()?;
                        let first = Box::new(self.nested(Self::operand)?);
                        let second = match self.takes(',') {
                            true => Some(Box::new(self.nested(Self::operand)?)),
                            false => None,
                        };
                        self.require(')', "`)`")?;
                        Ok(Expression::TimeDifference(first, second))
                    }
                    _ => Ok(Expression::Path(self.path()?)),
                }
            }
            Token::Sign('*' | '@' | '.') => Ok(Expression::Path(self.path()?)),
            _ => self.fail("a path, a value or `(`"),
        }
    }

    /// Takes a function's name and its opening parenthesis.
    fn call(&mut self) -> Result<(), QueryError> {
        self.take();
        self.require('(', "`(`")
    }
}
