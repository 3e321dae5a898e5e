//! Manual pages and shell completions, made from the definitions that parse the command line.

use crate::frontends::FRONTENDS;
use crate::frontends::table::Help;
use crate::output::{Failure, Outcome};
use crate::schemas::refused;
use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use clap_complete::Shell;
use std::path::PathBuf;

#[derive(Args)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Args)]
pub struct ManualArguments {
    /// The folder for the pages
    directory: PathBuf,
}

/// `etw completions SHELL`: writes a script that completes the command's words.
pub fn completions(arguments: &CompletionsArguments) -> Result<Outcome, Failure> {
    let script = String::from_utf8(script(arguments.shell)).map_err(Failure::new)?;
    crate::frontends::answer::print(&script)
}

/// `etw manual DIR`: writes one page per command.
pub fn manual(arguments: &ManualArguments) -> Result<Outcome, Failure> {
    let folder = &arguments.directory;
    std::fs::create_dir_all(folder).map_err(|error| refused(folder, error))?;
    for page in pages() {
        let path = folder.join(&page.name);
        std::fs::write(&path, page.text).map_err(|error| refused(&path, error))?;
    }
    Ok(Outcome::Done)
}

/// A completion script. Options of Windows' commands are values of their one argument.
fn script(shell: Shell) -> Vec<u8> {
    let mut command = crate::command();
    let mut fish = String::new();
    for frontend in FRONTENDS {
        let help = (frontend.help)();
        let entries = help.parts().into_iter().flat_map(|(_, entries)| entries);
        let names: Vec<String> = entries.flat_map(|entry| entry.names.clone()).collect();
        fish += &format!(
            "complete -c etw -n \"__fish_seen_subcommand_from {}\" -a '{}'\n",
            frontend.name,
            names.join(" ")
        );
        command = command.mut_subcommand(frontend.name, |command| {
            command.mut_arg("arguments", |arg| arg.value_parser(PossibleValuesParser::new(names)))
        });
    }
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "etw", &mut script);
    let mut script = with_candidates(shell, String::from_utf8_lossy(&script).into_owned());
    if shell == Shell::Fish {
        // The generator leaves out values of arguments.
        script += &fish;
    }
    script.into_bytes()
}

/// In bash: candidates of `etw complete`, or those of the generated function.
const BASH: &str = r#"
_etw_candidates() {
    local found
    if found=$("${COMP_WORDS[0]}" complete "$COMP_CWORD" -- "${COMP_WORDS[@]}" 2>/dev/null); then
        mapfile -t COMPREPLY <<<"$found"
        return 0
    fi
    _etw "$@"
}
"#;

/// The same in zsh.
const ZSH: &str = r#"
_etw_candidates() {
    local found
    if found=$("${words[1]}" complete $((CURRENT - 1)) -- "${words[@]}" 2>/dev/null); then
        compadd -- "${(@f)found}"
        return
    fi
    _etw_static "$@"
}
"#;

/// The same in fish.
const FISH: &str = r#"
function __etw_candidates
    set -l words (commandline -opc) (commandline -ct)
    etw complete (math (count $words) - 1) -- $words 2>/dev/null
end
complete -c etw -n '__etw_candidates >/dev/null' -f -a '(__etw_candidates)'
# Behind an option with a value, fish takes the candidates of that option alone.
for option in provider columns fields by sum where
    complete -c etw -n '__etw_candidates >/dev/null' -l $option -x -a '(__etw_candidates)'
end
complete -c etw -n '__etw_candidates >/dev/null' -s p -x -a '(__etw_candidates)'
"#;

/// Adds the candidates that only this machine knows to a generated script.
fn with_candidates(shell: Shell, script: String) -> String {
    match shell {
        Shell::Bash => match script.find("\nif [[ \"${BASH_VERSINFO") {
            Some(end) => {
                let (functions, registration) = script.split_at(end);
                let registration = registration.replace("-F _etw ", "-F _etw_candidates ");
                format!("{functions}\n{BASH}{registration}")
            }
            None => script,
        },
        Shell::Zsh => match script.find("\nif [ \"$funcstack[1]\"") {
            Some(end) => {
                let (functions, registration) = script.split_at(end);
                let functions = functions.replace("\n_etw() {", "\n_etw_static() {");
                let registration = registration
                    .replace("    _etw \"$@\"", "    _etw_candidates \"$@\"")
                    .replace("compdef _etw etw", "compdef _etw_candidates etw");
                format!("{functions}\n{ZSH}{registration}")
            }
            None => script,
        },
        Shell::Fish => script + FISH,
        _ => script,
    }
}

/// A manual page.
struct Page {
    /// Its file's name.
    name: String,
    text: Vec<u8>,
}

fn pages() -> Vec<Page> {
    let mut command = crate::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    put_pages(&command, &mut pages);
    pages
}

fn put_pages(command: &Command, pages: &mut Vec<Page>) {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let frontend = FRONTENDS.iter().find(|frontend| name == format!("etw-{}", frontend.name));
    let mut text = Vec::new();
    match frontend {
        Some(frontend) => text = frontend_page(&(frontend.help)()).into_bytes(),
        // Writing to a Vec cannot fail.
        None => drop(clap_mangen::Man::new(command.clone()).render(&mut text)),
    }
    pages.push(Page { name: format!("{name}.1"), text });
    for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        put_pages(subcommand, pages);
    }
}

/// The page of one of Windows' commands.
fn frontend_page(help: &Help) -> String {
    let name = help.command;
    let mut page = format!(
        ".TH ETW\\-{} 1 \"\" \"etw {}\"\n.SH NAME\netw\\-{name} \\- {}\n.SH SYNOPSIS\n.nf\n",
        name.to_uppercase(),
        env!("CARGO_PKG_VERSION"),
        roff(help.about),
    );
    for form in &help.forms {
        page += &format!("\\fB{name}\\fR {}\n", roff(form));
    }
    page += ".fi\n";
    for (title, entries) in help.parts() {
        if entries.is_empty() {
            continue;
        }
        page += &format!(".SH {}\n", title.to_uppercase());
        for entry in entries {
            page += &format!(".TP\n\\fB{}\\fR\n{}\n", roff(&entry.term), roff(&entry.text));
        }
    }
    page += &format!(".SH NOTES\n{}\n.SH SEE ALSO\n.BR etw (1)\n", roff(help.notes));
    page
}

/// Text as roff reads it literally.
fn roff(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ").replace('\\', "\\e").replace('-', "\\-");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    /// Calls `check` with each visible command and its full name.
    fn each_command(command: &Command, check: &mut impl FnMut(&Command, &str)) {
        check(command, command.get_display_name().unwrap_or(command.get_name()));
        for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            each_command(subcommand, check);
        }
    }

    fn built() -> Command {
        let mut command = crate::command().disable_help_subcommand(true);
        command.build();
        command
    }

    #[test]
    fn every_option_is_in_the_manual() {
        let pages = pages();
        each_command(&built(), &mut |command, name| {
            let page = pages.iter().find(|page| page.name == format!("{name}.1"));
            let text = String::from_utf8(page.unwrap_or_else(|| panic!("{name}")).text.clone());
            let text = text.unwrap();
            if FRONTENDS.iter().any(|frontend| name == format!("etw-{}", frontend.name)) {
                return;
            }
            for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
                let Some(long) = option.get_long() else { continue };
                let long = format!("\\-\\-{}", long.replace('-', "\\-"));
                assert!(text.contains(&long), "{name}: {long} is missing");
            }
        });
        for frontend in FRONTENDS {
            let name = format!("etw-{}.1", frontend.name);
            let page = pages.iter().find(|page| page.name == name).unwrap();
            let text = String::from_utf8(page.text.clone()).unwrap();
            for (_, entries) in (frontend.help)().parts() {
                for entry in entries {
                    assert!(text.contains(&roff(&entry.term)), "{name}: {}", entry.term);
                }
            }
        }
    }

    #[test]
    fn every_option_is_in_the_completions() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = String::from_utf8(script(shell)).unwrap();
            each_command(&built(), &mut |command, name| {
                for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
                    let Some(long) = option.get_long() else { continue };
                    let long = match shell {
                        Shell::Fish => format!("-l {long}"),
                        _ => format!("--{long}"),
                    };
                    assert!(text.contains(&long), "{shell}: {name} {long} is missing");
                }
            });
            for frontend in FRONTENDS {
                for (_, entries) in (frontend.help)().parts() {
                    for name in entries.iter().flat_map(|entry| &entry.names) {
                        assert!(text.contains(name), "{shell}: {} {name}", frontend.name);
                    }
                }
            }
        }
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = String::from_utf8(script(shell)).unwrap();
            let calls =
                ["-F _etw_candidates -o", "compdef _etw_candidates", "-a '(__etw_candidates)'"];
            assert!(calls.iter().any(|call| text.contains(call)), "{shell}");
        }
        assert!(Shell::value_variants().iter().all(|shell| !script(*shell).is_empty()));
    }
}
