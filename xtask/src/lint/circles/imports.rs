//! Paths that a source file names in its own crate.

use super::super::tokens::{Token, tokens};

pub struct Import<'t> {
    /// From the root of the crate.
    pub path: Vec<&'t str>,
    pub line: usize,
}

#[derive(Default)]
pub struct Imports<'t> {
    pub paths: Vec<Import<'t>>,
    /// Modules that only tests compile.
    pub test_modules: Vec<Vec<&'t str>>,
}

impl<'t> Imports<'t> {
    /// The paths in `text` that begin with `crate`, `super` or `self`, outside what only tests compile.
    pub fn of(module: &[&'t str], text: &'t str) -> Imports<'t> {
        let tokens = tokens(text);
        let mut scan = Scan {
            tokens: &tokens,
            module: module.to_vec(),
            depth: 0,
            inner_modules: Vec::new(),
            imports: Imports::default(),
        };
        scan.run();
        scan.imports
    }
}

struct Scan<'s, 't> {
    tokens: &'s [Token<'t>],
    /// The module around the current token.
    module: Vec<&'t str>,
    /// Open braces around the current token.
    depth: usize,
    /// The depth in front of each `mod x {` around the current token.
    inner_modules: Vec<usize>,
    imports: Imports<'t>,
}

impl<'t> Scan<'_, 't> {
    fn run(&mut self) {
        let mut at = 0;
        while at < self.tokens.len() {
            match self.text(at) {
                "#" if self.text(at + 1) == "[" => {
                    let end = self.after_group(at + 1);
                    at = if self.is_for_tests(at + 2, end) { self.skip_item(end) } else { end };
                    continue;
                }
                "mod" if self.text(at + 2) == "{" => {
                    self.inner_modules.push(self.depth);
                    self.module.push(self.text(at + 1));
                    at += 1;
                }
                "{" => self.depth += 1,
                "}" => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.inner_modules.last() == Some(&self.depth) {
                        self.inner_modules.pop();
                        self.module.pop();
                    }
                }
                "crate" | "super" | "self" if self.text(at + 1) == "::" => {
                    at = self.tree(at, &self.module.clone());
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn text(&self, at: usize) -> &'t str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    /// Adds the paths of the import tree at `at`, below `base`; returns the index behind it.
    fn tree(&mut self, mut at: usize, base: &[&'t str]) -> usize {
        let line = self.tokens.get(at).map_or(0, |token| token.line);
        let mut path = base.to_vec();
        loop {
            match self.text(at) {
                "{" => {
                    at += 1;
                    while !matches!(self.text(at), "}" | "") {
                        let next = self.tree(at, &path);
                        at = next.max(at + 1);
                    }
                    return at + 1;
                }
                "crate" => path.clear(),
                "super" => drop(path.pop()),
                "self" | "*" => {}
                word if word.starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                    path.push(word)
                }
                _ => return at,
            }
            at += 1;
            if self.text(at) != "::" {
                break;
            }
            at += 1;
            // `crate::a::f::<T>()` ends here.
            if self.text(at) == "<" {
                break;
            }
        }
        self.imports.paths.push(Import { path, line });
        if self.text(at) == "as" { at + 2 } else { at }
    }

    /// Whether the attribute from `start` to `end` leaves its item to tests alone.
    fn is_for_tests(&self, start: usize, end: usize) -> bool {
        let has = |word| (start..end).any(|at| self.text(at) == word);
        self.text(start) == "cfg" && has("test") && !has("not") && !has("any")
    }

    /// The index behind the item at `at`; a module in a file of its own is noted.
    fn skip_item(&mut self, mut at: usize) -> usize {
        while at < self.tokens.len() {
            match self.text(at) {
                "mod" if self.text(at + 2) == ";" => {
                    let mut path = self.module.clone();
                    path.push(self.text(at + 1));
                    self.imports.test_modules.push(path);
                    return at + 3;
                }
                ";" => return at + 1,
                "{" => return self.after_group(at),
                "(" | "[" => at = self.after_group(at),
                // The end of the block or list that the item is in.
                "}" | ")" | "]" => return at,
                _ => at += 1,
            }
        }
        at
    }

    /// The index behind the bracket that closes the one at `at`.
    fn after_group(&self, mut at: usize) -> usize {
        let mut depth = 0_usize;
        while at < self.tokens.len() {
            match self.text(at) {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth = depth.saturating_sub(1),
                _ => {}
            }
            at += 1;
            if depth == 0 {
                break;
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let imports = Imports::of(&["a", "b"], text);
        imports.paths.iter().map(|import| import.path.join("::")).collect()
    }

    #[test]
    fn trees_and_inline_paths_are_found() {
        assert_eq!(
            paths("use crate::{c::{self, D as E}, f::*}; fn f() { super::g::h::<u8>(self::i()) }"),
            ["c", "c::D", "f", "a::g::h", "a::b::i"]
        );
    }

    #[test]
    fn an_inner_module_has_its_own_parent() {
        assert_eq!(paths("mod c { use super::D; mod e {} } use super::F;"), ["a::b::D", "a::F"]);
    }

    #[test]
    fn a_module_for_tests_is_noted() {
        let imports = Imports::of(&["a"], "#[cfg(test)]\nmod tests;\nuse crate::x;");
        assert_eq!(imports.test_modules, [["a", "tests"]]);
        assert_eq!(imports.paths.len(), 1);
    }
}
