//! The template language: text with fields, loops, conditions and includes between backticks.
//!
//! ```text
//! `INCLUDE file`   `IF [!]condition` … `ENDIF`   `FORALL x IN Set [WHERE condition && !condition]` … `ENDFOR`
//! `x.Field`        `* a comment *`
//! ```
//!
//! A line that holds nothing but directives leaves no line in the output. Source: the templates that Microsoft publishes.

use crate::diagnostic::{Diagnostic, shown};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Bytes of one output, and steps of one run.
const OUTPUT_LIMIT: usize = 64 << 20;
const STEP_LIMIT: usize = 1 << 24;
/// Blocks inside of blocks, includes counted.
const DEPTH_LIMIT: usize = 64;
const TEMPLATE_LIMIT: usize = 4 << 20;

/// A value of a field.
#[derive(Clone, Debug)]
pub enum Value {
    Text(String),
    Flag(bool),
    Set(Rc<Vec<Object>>),
}

/// Fields by name.
pub type Object = BTreeMap<&'static str, Value>;

/// The names that templates can use.
pub struct Model {
    pub fields: Object,
    /// `OBJECT.FIELD`
    pub objects: BTreeMap<&'static str, Object>,
    /// Words that the source contains, of those that `-lookfor` names.
    pub found: Vec<String>,
}

#[derive(Debug)]
enum Node {
    Text(String),
    Field { path: String, line: u32 },
    Include { file: String, line: u32 },
    If { condition: String, line: u32, body: Vec<Node> },
    For { variable: String, set: String, conditions: Vec<String>, line: u32, body: Vec<Node> },
}

/// A template, read once and run for many sources.
#[derive(Debug)]
pub struct Template {
    file: String,
    nodes: Vec<Node>,
}

impl Template {
    /// Reads a template.
    pub fn parse(text: &str, file: &str) -> Result<Template, Diagnostic> {
        if text.len() > TEMPLATE_LIMIT {
            return Err(Diagnostic::error(file, 0, "the template is larger than 4 MB"));
        }
        let mut parser = Parser { file, open: Vec::new(), nodes: Vec::new() };
        for (index, line) in text.split_inclusive('\n').enumerate() {
            parser.line(line, index as u32 + 1)?;
        }
        match parser.open.pop() {
            Some((_, Node::If { line, .. } | Node::For { line, .. })) => {
                Err(Diagnostic::error(file, line, "the block is never closed"))
            }
            _ => Ok(Template { file: file.to_owned(), nodes: parser.nodes }),
        }
    }
}

struct Parser<'f> {
    file: &'f str,
    /// Blocks that are open, with the nodes before them.
    open: Vec<(Vec<Node>, Node)>,
    nodes: Vec<Node>,
}

/// A piece of a line.
enum Piece<'l> {
    Text(&'l str),
    Command(&'l str),
}

impl Parser<'_> {
    fn error(&self, line: u32, what: impl Into<String>) -> Diagnostic {
        Diagnostic::error(self.file, line, what)
    }

    fn line(&mut self, text: &str, line: u32) -> Result<(), Diagnostic> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, command)) = rest.split_once('`') {
            let Some((command, behind)) = command.split_once('`') else {
                return Err(self.error(line, "a backtick has no partner on its line"));
            };
            pieces.push(Piece::Text(before));
            pieces.push(Piece::Command(command));
            rest = behind;
        }
        pieces.push(Piece::Text(rest));
        // A line of directives alone leaves nothing.
        let is_bare = pieces.len() > 1
            && pieces.iter().all(|piece| match piece {
                Piece::Text(text) => text.trim().is_empty(),
                Piece::Command(command) => is_directive(command),
            });
        for piece in pieces {
            match piece {
                Piece::Text(text) if !is_bare && !text.is_empty() => self.add_text(text),
                Piece::Text(_) => {}
                Piece::Command(command) => self.command(command.trim(), line)?,
            }
        }
        Ok(())
    }

    fn add_text(&mut self, text: &str) {
        match self.nodes.last_mut() {
            Some(Node::Text(before)) => before.push_str(text),
            _ => self.nodes.push(Node::Text(text.to_owned())),
        }
    }

    fn command(&mut self, command: &str, line: u32) -> Result<(), Diagnostic> {
        if command.starts_with('*') || command.is_empty() {
            return Ok(());
        }
        let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim();
        match word {
            "INCLUDE" => self.nodes.push(Node::Include { file: rest.to_owned(), line }),
            "IF" => {
                let node = Node::If { condition: rest.to_owned(), line, body: Vec::new() };
                self.start(node, line)?;
            }
            "FORALL" => {
                let (head, conditions) = rest.split_once(" WHERE ").unwrap_or((rest, ""));
                let words: Vec<&str> = head.split_whitespace().collect();
                // Windows' mof.tpl has it in lower case, too.
                let (variable, set) = match words[..] {
                    [variable, keyword, set] if keyword.eq_ignore_ascii_case("IN") => {
                        (variable, set)
                    }
                    _ => {
                        let what =
                            format!("{} is not a loop; write FORALL x IN Set", shown(command));
                        return Err(self.error(line, what));
                    }
                };
                let conditions = conditions.split("&&").map(str::trim);
                let conditions = conditions.filter(|word| !word.is_empty()).map(str::to_owned);
                let node = Node::For {
                    variable: variable.to_owned(),
                    set: set.to_owned(),
                    conditions: conditions.collect(),
                    line,
                    body: Vec::new(),
                };
                self.start(node, line)?;
            }
            "ENDIF" | "ENDFOR" => self.end(word, line)?,
            _ => self.nodes.push(Node::Field { path: command.to_owned(), line }),
        }
        Ok(())
    }

    fn start(&mut self, node: Node, line: u32) -> Result<(), Diagnostic> {
        if self.open.len() >= DEPTH_LIMIT {
            return Err(self.error(line, "the blocks are nested too deeply"));
        }
        self.open.push((std::mem::take(&mut self.nodes), node));
        Ok(())
    }

    fn end(&mut self, word: &str, line: u32) -> Result<(), Diagnostic> {
        let Some((before, mut node)) = self.open.pop() else {
            return Err(self.error(line, format!("{word} closes no block")));
        };
        let inner = std::mem::replace(&mut self.nodes, before);
        match &mut node {
            Node::If { body, .. } if word == "ENDIF" => *body = inner,
            Node::For { body, .. } if word == "ENDFOR" => *body = inner,
            _ => return Err(self.error(line, format!("{word} does not match the open block"))),
        }
        self.nodes.push(node);
        Ok(())
    }
}

fn is_directive(command: &str) -> bool {
    let word = command.split_whitespace().next().unwrap_or("*");
    word.starts_with('*') || matches!(word, "INCLUDE" | "IF" | "FORALL" | "ENDIF" | "ENDFOR")
}

/// Finds the template of a name.
pub type Find<'a> = dyn Fn(&str) -> Result<Rc<Template>, String> + 'a;

/// Runs a template.
pub fn run(template: &Template, model: &Model, find: &Find<'_>) -> Result<String, Diagnostic> {
    let mut run = Run { model, find, out: String::new(), scopes: Vec::new(), steps: 0, depth: 0 };
    run.nodes(&template.nodes, &template.file)?;
    Ok(run.out)
}

struct Run<'a> {
    model: &'a Model,
    find: &'a Find<'a>,
    out: String,
    /// The variables of open loops.
    scopes: Vec<Variable>,
    steps: usize,
    depth: usize,
}

/// A loop's variable, and the member of a set that it names.
struct Variable {
    name: String,
    set: Rc<Vec<Object>>,
    index: usize,
}

impl Variable {
    fn fields(&self) -> &Object {
        &self.set[self.index]
    }
}

impl Run<'_> {
    fn nodes(&mut self, nodes: &[Node], file: &str) -> Result<(), Diagnostic> {
        for node in nodes {
            self.steps += 1;
            let line = match node {
                Node::Text(_) => 0,
                Node::Field { line, .. }
                | Node::Include { line, .. }
                | Node::If { line, .. }
                | Node::For { line, .. } => *line,
            };
            if self.steps > STEP_LIMIT || self.out.len() > OUTPUT_LIMIT {
                return Err(Diagnostic::error(
                    file,
                    line,
                    "the output of the template is too large",
                ));
            }
            if self.depth > DEPTH_LIMIT {
                return Err(Diagnostic::error(
                    file,
                    line,
                    "templates include each other too deeply",
                ));
            }
            self.node(node, file).map_err(|what| match what {
                Problem::Here(what) => Diagnostic::error(file, line, what),
                Problem::Inside(diagnostic) => diagnostic,
            })?;
        }
        Ok(())
    }

    fn node(&mut self, node: &Node, file: &str) -> Result<(), Problem> {
        match node {
            Node::Text(text) => self.out.push_str(text),
            Node::Field { path, .. } => {
                let text = match path.strip_prefix("ENV ") {
                    Some(name) => std::env::var(name.trim()).unwrap_or_default(),
                    None if path == "TemplateFile" => file.to_owned(),
                    None => match self.value(path)? {
                        Value::Text(text) => text,
                        Value::Flag(flag) => u8::from(flag).to_string(),
                        Value::Set(_) => return Err(format!("{path} is a set; use FORALL").into()),
                    },
                };
                self.out.push_str(&text);
            }
            Node::Include { file, .. } => {
                let template = (self.find)(file)?;
                self.depth += 1;
                self.nodes(&template.nodes, &template.file).map_err(Problem::Inside)?;
                self.depth -= 1;
            }
            Node::If { condition, body, .. } => {
                if self.condition(condition)? {
                    self.nodes(body, file).map_err(Problem::Inside)?;
                }
            }
            Node::For { variable, set, conditions, body, .. } => {
                let Value::Set(objects) = self.value(set)? else {
                    return Err(format!("{} is not a set", shown(set)).into());
                };
                self.depth += 1;
                for index in 0..objects.len() {
                    let (name, set) = (variable.clone(), Rc::clone(&objects));
                    self.scopes.push(Variable { name, set, index });
                    let holds = conditions.iter().map(|condition| self.flag(condition));
                    let holds = holds.collect::<Result<Vec<bool>, Problem>>()?;
                    if holds.iter().all(|holds| *holds) {
                        self.nodes(body, file).map_err(Problem::Inside)?;
                    }
                    self.steps += 1;
                    self.scopes.pop();
                }
                self.depth -= 1;
            }
        }
        Ok(())
    }

    /// `x.Field`, `Object.Field` or `Field`.
    fn value(&self, path: &str) -> Result<Value, Problem> {
        let unknown = || Problem::Here(format!("there is no field {}", shown(path)));
        let value = match path.split_once('.') {
            Some((object, field)) => {
                let in_scope = self.scopes.iter().rev().find(|scope| scope.name == object);
                let fields = match in_scope {
                    Some(scope) => Some(scope.fields()),
                    None => self.model.objects.get(object),
                };
                fields.and_then(|fields| fields.get(field))
            }
            None => self.model.fields.get(path),
        };
        value.cloned().ok_or_else(unknown)
    }

    /// `[!]FOUND word`, `Set [!]Empty`, or a flag.
    fn condition(&self, condition: &str) -> Result<bool, Problem> {
        let words: Vec<&str> = condition.split_whitespace().collect();
        let found = |word: &str| self.model.found.iter().any(|found| found == word);
        Ok(match words[..] {
            ["FOUND", word] => found(word),
            ["!FOUND", word] => !found(word),
            [set, empty @ ("Empty" | "!Empty")] => {
                let Value::Set(objects) = self.value(set)? else {
                    return Err(format!("{} is not a set", shown(set)).into());
                };
                objects.is_empty() == (empty == "Empty")
            }
            [_] => self.flag(condition)?,
            _ => return Err(format!("{} is not a condition", shown(condition)).into()),
        })
    }

    /// `[!]Name` of the innermost object, or `[!]x.Name`.
    fn flag(&self, condition: &str) -> Result<bool, Problem> {
        let (name, wanted) = match condition.trim().strip_prefix('!') {
            Some(name) => (name.trim(), false),
            None => (condition.trim(), true),
        };
        let value = match self.scopes.last().and_then(|scope| scope.fields().get(name)) {
            Some(value) => value.clone(),
            None => self.value(name)?,
        };
        let holds = match value {
            Value::Flag(flag) => flag,
            Value::Text(text) => !text.is_empty(),
            Value::Set(objects) => !objects.is_empty(),
        };
        Ok(holds == wanted)
    }
}

/// An error of a node, or of one inside of it.
enum Problem {
    Here(String),
    Inside(Diagnostic),
}

impl From<String> for Problem {
    fn from(what: String) -> Problem {
        Problem::Here(what)
    }
}

/// Templates that were read, by name.
pub type Cache = HashMap<String, Rc<Template>>;

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        let object = |name: &str, flag| {
            Object::from([("Name", Value::Text(name.into())), ("Odd", Value::Flag(flag))])
        };
        let set = Value::Set(Rc::new(vec![object("a", true), object("b", false)]));
        Model {
            fields: Object::from([("Things", set), ("None", Value::Set(Rc::default()))]),
            objects: BTreeMap::from([("File", object("f.c", true))]),
            found: vec!["INIT".into()],
        }
    }

    fn render(text: &str) -> Result<String, Diagnostic> {
        let find = |name: &str| match name {
            "other.tpl" => Ok(Rc::new(Template::parse("[`File.Name`]\n", name).unwrap())),
            "self.tpl" => Ok(Rc::new(Template::parse("`INCLUDE self.tpl`\n", name).unwrap())),
            _ => Err(format!("{name}: there is no such template")),
        };
        run(&Template::parse(text, "x.tpl")?, &model(), &find)
    }

    #[test]
    fn loops_conditions_and_includes_run() {
        let text = "`* comment *`\n`FORALL t IN Things WHERE !Odd`\n<`t.Name`>\n`ENDFOR`\n\
                    (`FORALL t IN Things`, `t.Name``ENDFOR t`)\n`INCLUDE other.tpl`\n\
                    `IF FOUND INIT`\nyes\n`ENDIF`\n`IF !FOUND INIT`\nno\n`ENDIF`\n`IF None !Empty`\nno\n`ENDIF None`\n";
        assert_eq!(render(text).unwrap(), "<b>\n(, a, b)\n[f.c]\nyes\n");
    }

    #[test]
    fn errors_name_their_line() {
        for (text, line, what) in [
            ("a\n`b", 2, "no partner"),
            ("\n`IF FOUND x`\n", 2, "never closed"),
            ("`ENDIF`", 1, "closes no block"),
            ("`FORALL x IN Things`\n`ENDIF`", 2, "does not match"),
            ("`FORALL x`", 1, "is not a loop"),
            ("\n\n`x.Name`", 3, "no field"),
            ("`FORALL x IN Nothing`\n`ENDFOR`", 1, "no field"),
            ("`INCLUDE none.tpl`", 1, "no such template"),
            ("`INCLUDE self.tpl`", 1, "include each other"),
        ] {
            let error = render(text).unwrap_err();
            assert_eq!((error.line, error.message.contains(what)), (line, true), "{error}");
        }
    }
}
