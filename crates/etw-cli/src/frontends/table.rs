//! Tables of Windows commands: one row per option, from which the command is parsed and its help, its manual page and its
//! completions are made.

use super::answer::{print, usage};
use super::words::{Word, Words};
use crate::output::{Failure, Outcome};

/// Reads an option's values and changes the command.
pub type Apply<C> = fn(&mut C, &mut Words<'_>, &str) -> Result<(), Failure>;

/// Takes a word that belongs to no option.
pub type Operand<C> = fn(&mut C, &str) -> Result<(), Failure>;

/// A Windows command.
pub struct Table<C: 'static> {
    pub command: &'static str,
    /// The command in one sentence.
    pub about: &'static str,
    /// Forms of the command, one a line, without its name.
    pub forms: &'static [&'static str],
    /// Actions that can be given several times.
    pub repeatable: u16,
    /// Names of the actions by their bit; empty where the command has one action.
    pub actions: &'static [(u16, &'static str)],
    /// Takes a word that belongs to no option.
    pub operand: Option<Operand<C>>,
    pub rows: &'static [Row<C>],
    /// Facts below the options.
    pub notes: &'static str,
}

/// An option, or several with one meaning.
pub struct Row<C: 'static> {
    /// Names in Windows' spelling, with blanks between them.
    pub names: &'static str,
    /// Values behind it, as the help shows them.
    pub values: &'static str,
    /// The option in one sentence; of a refused one, why and what to use instead.
    pub help: &'static str,
    /// Bits of the actions that take it; of an action, its own bit.
    pub actions: u16,
    pub effect: Effect<C>,
}

/// Effect of an option.
pub enum Effect<C: 'static> {
    /// Shows the help.
    Help,
    /// Chooses the action.
    Action(Apply<C>),
    /// Accepted for scripts; nothing changes.
    Nothing,
    Flag(fn(&mut C)),
    Number(fn(&mut C, u64)),
    Count(fn(&mut C, u32)),
    Text(fn(&mut C, &str)),
    /// Anything with more than one value, or with values of its own.
    Values(Apply<C>),
    /// Rejected: `help` says why.
    Refuse,
}

/// An option on the command line.
pub struct Given<C: 'static> {
    pub name: &'static str,
    pub row: &'static Row<C>,
}

/// The row of `-?`, `-h`, `-help` and `--help`.
pub const fn help_row<C>() -> Row<C> {
    Row {
        names: "? h help -help",
        values: "",
        help: "Show this text",
        actions: ALL,
        effect: Effect::Help,
    }
}

/// An action.
pub const fn action<C>(
    bit: u16,
    names: &'static str,
    values: &'static str,
    help: &'static str,
    apply: Apply<C>,
) -> Row<C> {
    Row { names, values, help, actions: bit, effect: Effect::Action(apply) }
}

/// An option of some actions.
pub const fn option<C>(
    actions: u16,
    names: &'static str,
    values: &'static str,
    help: &'static str,
    effect: Effect<C>,
) -> Row<C> {
    Row { names, values, help, actions, effect }
}

/// Options of Windows' command that are rejected, and why.
pub const fn refused<C>(names: &'static str, why: &'static str) -> Row<C> {
    Row { names, values: "", help: why, actions: ALL, effect: Effect::Refuse }
}

/// Every action.
pub const ALL: u16 = u16::MAX;

impl<C> Row<C> {
    fn name(&self, is_name: &dyn Fn(&str) -> bool) -> Option<&'static str> {
        self.names.split_whitespace().find(|name| is_name(name))
    }

    fn is_action(&self) -> bool {
        matches!(self.effect, Effect::Action(_))
    }
}

impl<C> Table<C> {
    /// Applies all words to `command`; `None`: the user requested the help.
    pub fn parse(
        &'static self,
        words: &[String],
        command: &mut C,
    ) -> Result<Option<Vec<Given<C>>>, Failure> {
        let names = self.rows.iter().flat_map(|row| row.names.split_whitespace());
        let names = names.map(str::to_ascii_lowercase).collect();
        let mut words = Words::new(self.command, names, words);
        let mut given: Vec<Given<C>> = Vec::new();
        while let Some(word) = words.next() {
            let written = match (word, self.operand) {
                (Word::Option(name), _) => name,
                (Word::Value(text), Some(operand)) => {
                    operand(command, text)?;
                    continue;
                }
                (Word::Value(text), None) => return Err(self.stray(text)),
            };
            let Some((row, name)) = self.find(&written) else {
                let command = self.command;
                let what = format!("there is no such option; {command} --help lists them");
                return Err(self.wrong(&written, what));
            };
            match row.effect {
                Effect::Help => return Ok(None),
                Effect::Refuse => return Err(self.wrong(name, row.help)),
                Effect::Action(apply) => {
                    let repeats = row.actions & self.repeatable != 0;
                    let before = given.iter().find(|given| given.row.is_action());
                    if let Some(before) =
                        before.filter(|before| before.row.actions != row.actions || !repeats)
                    {
                        let what = format!(
                            "a command does one thing, and -{} stands before it; use two commands",
                            before.name
                        );
                        return Err(self.wrong(name, what));
                    }
                    apply(command, &mut words, name)?;
                }
                Effect::Nothing => {}
                Effect::Flag(set) => set(command),
                Effect::Number(set) => set(command, words.number(name)?),
                Effect::Count(set) => set(command, words.count(name)?),
                Effect::Text(set) => set(command, words.needed(name, row.values)?),
                Effect::Values(apply) => apply(command, &mut words, name)?,
            }
            given.push(Given { name, row });
        }
        Ok(Some(given))
    }

    /// The row of an option. Options are written in any case, unless two of a command differ in nothing else.
    fn find(&'static self, written: &str) -> Option<(&'static Row<C>, &'static str)> {
        let by = |is_name: &dyn Fn(&str) -> bool| {
            self.rows.iter().find_map(|row| Some((row, row.name(is_name)?)))
        };
        by(&|name| name == written).or_else(|| by(&|name| name.eq_ignore_ascii_case(written)))
    }

    /// The error about a word that no option takes.
    pub fn stray(&self, word: &str) -> Failure {
        let command = self.command;
        usage(format!("{command}: {word:?} belongs to no option; {command} --help lists them"))
    }

    /// An error about an option.
    pub fn wrong(&self, option: &str, what: impl std::fmt::Display) -> Failure {
        usage(format!("{} -{option}: {what}", self.command))
    }

    /// The first option that an action does not take.
    pub fn odd<'g>(&self, given: &'g [Given<C>], action: u16) -> Option<&'g Given<C>> {
        given.iter().find(|given| given.row.actions & action == 0)
    }

    /// The action among the options.
    pub fn action<'g>(&self, given: &'g [Given<C>]) -> Option<&'g Given<C>> {
        given.iter().find(|given| given.row.is_action())
    }

    /// The help, for people and for generators.
    pub fn help(&self) -> Help {
        let mut help = Help {
            command: self.command,
            about: self.about,
            forms: self.forms.to_vec(),
            notes: self.notes,
            ..Help::default()
        };
        for row in self.rows {
            let names: Vec<String> =
                row.names.split_whitespace().map(|name| format!("-{name}")).collect();
            let mut term = names.join(", ");
            if !row.values.is_empty() {
                term = format!("{term} {}", row.values);
            }
            let takers = self.actions.iter().filter(|(bit, _)| row.actions & bit != 0);
            let takers: Vec<&str> = takers.map(|(_, name)| *name).collect();
            let text = row.help.to_owned();
            let some = takers.len() < self.actions.len() && !takers.is_empty();
            match row.effect {
                Effect::Refuse => help.refused.push(Entry { names, term, text }),
                Effect::Action(_) => help.actions.push(Entry { names, term, text }),
                _ if some => {
                    let text = format!("{text} ({})", takers.join(", "));
                    help.options.push(Entry { names, term, text });
                }
                _ => help.options.push(Entry { names, term, text }),
            }
        }
        help
    }
}

/// A command's help, apart from its types.
#[derive(Debug, Default)]
pub struct Help {
    pub command: &'static str,
    pub about: &'static str,
    pub forms: Vec<&'static str>,
    pub actions: Vec<Entry>,
    pub options: Vec<Entry>,
    pub refused: Vec<Entry>,
    pub notes: &'static str,
}

/// An option in a help.
#[derive(Debug)]
pub struct Entry {
    /// Each with its `-`.
    pub names: Vec<String>,
    /// Names and values.
    pub term: String,
    pub text: String,
}

impl Help {
    /// The parts that list options, with their titles.
    pub fn parts(&self) -> [(&'static str, &[Entry]); 3] {
        [
            ("Actions", &self.actions),
            ("Options", &self.options),
            ("Not supported, and rejected", &self.refused),
        ]
    }

    /// The help as text.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}: {}\n\nUsage:\n", self.command, self.about);
        for form in &self.forms {
            text += &format!("  {} {form}\n", self.command);
        }
        for (title, entries) in self.parts() {
            if entries.is_empty() {
                continue;
            }
            text += &format!("\n{title}:\n");
            for entry in entries {
                put_entry(&mut text, entry);
            }
        }
        text += "\n";
        put_wrapped(&mut text, self.notes, 0, 0);
        text
    }
}

/// Columns of the help.
const WIDTH: usize = 96;
/// The column in which explanations start.
const INDENT: usize = 26;

fn put_entry(text: &mut String, entry: &Entry) {
    let start = text.len();
    put_wrapped(text, &entry.term, 2, 4);
    text.pop();
    let last_line = text[start..].rsplit('\n').next().unwrap_or_default().chars().count();
    if last_line + 2 > INDENT {
        text.push('\n');
        *text += &" ".repeat(INDENT);
    } else {
        *text += &" ".repeat(INDENT - last_line);
    }
    put_wrapped_from(text, &entry.text, INDENT, INDENT);
}

/// Words from a column on, further lines indented.
fn put_wrapped(text: &mut String, words: &str, first: usize, indent: usize) {
    *text += &" ".repeat(first);
    put_wrapped_from(text, words, first, indent);
}

fn put_wrapped_from(text: &mut String, words: &str, mut column: usize, indent: usize) {
    let mut is_first = true;
    for word in words.split_whitespace() {
        let width = word.chars().count();
        if !is_first && column + 1 + width > WIDTH {
            text.push('\n');
            *text += &" ".repeat(indent);
            column = indent;
        } else if !is_first {
            text.push(' ');
            column += 1;
        }
        *text += word;
        column += width;
        is_first = false;
    }
    text.push('\n');
}

/// Shows a command's help.
pub fn show_help(help: &Help) -> Result<Outcome, Failure> {
    print(&help.to_text())
}
