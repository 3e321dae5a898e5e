//! The commands of a page, and the comments that say how a test runs them.
//!
//! A comment directly above a block of code is for this test alone, as readers of the page do not see it:
//!
//! ```text
//! <!-- file: shop.c -->            the block is the contents of this file
//! <!-- not run: a reason -->       the test cannot run the block's commands
//! ```

use std::path::Path;

/// A command of a page and the lines that the page shows below it.
pub struct Step {
    pub command: String,
    pub lines: Vec<String>,
}

/// A block of code.
pub enum Block {
    /// A file that later commands use.
    File { name: String, text: String },
    /// Commands that run.
    Commands(Vec<Step>),
    /// Commands that a test cannot run.
    NotRun { reason: String, commands: usize },
}

/// The blocks of a page that have commands or are files.
pub fn blocks(page: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(page).unwrap();
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    let mut above = "";
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            above = line;
            continue;
        };
        let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let note = above.strip_prefix("<!-- ").and_then(|note| note.strip_suffix(" -->"));
        let steps = if matches!(language, "sh" | "text" | "console") {
            steps(&inside, language == "sh")
        } else {
            Vec::new()
        };
        match note.and_then(|note| note.split_once(": ")) {
            Some(("file", name)) => {
                let text = inside.join("\n") + "\n";
                blocks.push(Block::File { name: name.to_owned(), text });
            }
            Some(("not run", reason)) => {
                assert!(!steps.is_empty(), "{}: no commands below: {reason}", page.display());
                blocks.push(Block::NotRun { reason: reason.to_owned(), commands: steps.len() });
            }
            _ if steps.is_empty() => {}
            _ => blocks.push(Block::Commands(steps)),
        }
        above = "";
    }
    blocks
}

/// Commands begin with `$ `, and their output stands below them. In blocks of the language `sh`, and in those that begin with `etw`,
/// every line is a command.
fn steps(lines: &[&str], is_script: bool) -> Vec<Step> {
    let has_prompts = lines.iter().any(|line| line.starts_with("$ "));
    let is_script = is_script || lines.first().is_some_and(|line| line.starts_with("etw "));
    let mut steps: Vec<Step> = Vec::new();
    let mut continues = false;
    for line in lines {
        let command = match has_prompts {
            true => line.strip_prefix("$ "),
            false => is_script.then_some(*line),
        };
        match (command, steps.last_mut()) {
            (_, Some(step)) if continues => {
                step.command.push('\n');
                step.command.push_str(line);
            }
            (Some(command), _) => {
                steps.push(Step { command: command.to_owned(), lines: Vec::new() });
            }
            (None, Some(step)) => step.lines.push((*line).to_owned()),
            (None, None) => continue,
        }
        continues = (command.is_some() || continues) && line.ends_with('\\');
    }
    steps
}
