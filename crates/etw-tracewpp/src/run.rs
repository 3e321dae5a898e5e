//! One run: configurations, sources, outputs.

use crate::config::{self, Config, Request};
use crate::diagnostic::{Diagnostic, shown};
use crate::lexer::{Kind, Tokens};
use crate::message::{self, Facts, Message};
use crate::model::{self, Source};
use crate::options::{Options, Output};
use crate::scan;
use crate::template::{self, Cache, Template};
use crate::tmf::{self, ControlGuid};
use md5::{Digest, Md5};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Bytes of one source.
const SOURCE_LIMIT: usize = 64 << 20;
/// Configurations that include each other.
const INCLUDE_LIMIT: usize = 100;
/// Sources of one run.
const SOURCE_COUNT_LIMIT: usize = 100_000;

/// Reads a file.
pub type Read<'a> = dyn Fn(&Path) -> std::io::Result<Vec<u8>> + 'a;

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it belongs.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Outputs {
    /// Headers, and formats if a folder for them was given.
    pub files: Vec<File>,
    /// Facts that did not prevent the outputs.
    pub warnings: Vec<Diagnostic>,
    /// The sources, wildcards expanded.
    pub sources: Vec<PathBuf>,
    /// Number of messages in all sources.
    pub message_count: usize,
}

/// Runs the preprocessor. Nothing is written.
///
/// # Errors
/// The first mistake in options, configurations, templates or sources, with its file and line.
pub fn run(options: &Options, read: &Read<'_>) -> Result<Outputs, Diagnostic> {
    let mut run = Run {
        options: options.clone(),
        config: Config::default(),
        read,
        templates: RefCell::default(),
        include_count: 0,
    };
    run.configure()?;
    run.outputs()
}

/// The configuration and the templates that are part of the program.
const DEFAULT_CONFIGURATION: &str = include_str!("default.ini");

fn own_template(name: &str) -> Option<&'static str> {
    let mode = name.strip_prefix("um-").or_else(|| name.strip_prefix("km-")).unwrap_or(name);
    Some(match mode.to_ascii_lowercase().as_str() {
        "default.tpl" | "wdfdefault.tpl" | "stordefault.tpl" => {
            include_str!("templates/default.tpl")
        }
        "header.tpl" | "storheader.tpl" => include_str!("templates/header.tpl"),
        "init.tpl" | "storinit.tpl" => include_str!("templates/init.tpl"),
        "control.tpl" => include_str!("templates/control.tpl"),
        "tracemacro.tpl" | "tracemacro-ifr.tpl" => include_str!("templates/tracemacro.tpl"),
        "provider.tpl" => "",
        _ => return None,
    })
}

struct Run<'a> {
    options: Options,
    config: Config,
    read: &'a Read<'a>,
    templates: RefCell<Cache>,
    include_count: usize,
}

const COMMAND_LINE: &str = "command line";

impl Run<'_> {
    /// Reads a file as text: UTF-8, UTF-16 with its mark, or bytes of which only ASCII counts.
    fn text(&self, path: &Path) -> Result<String, Diagnostic> {
        let shown = path.display().to_string();
        let bytes = (self.read)(path)
            .map_err(|error| Diagnostic::error(&shown, 0, format!("cannot be read: {error}")))?;
        if bytes.len() > SOURCE_LIMIT {
            return Err(Diagnostic::error(&shown, 0, "the file is larger than 64 MB"));
        }
        let units = |of: fn([u8; 2]) -> u16| {
            let units: Vec<u16> = bytes[2..].as_chunks().0.iter().map(|pair| of(*pair)).collect();
            String::from_utf16_lossy(&units)
        };
        Ok(match bytes.as_slice() {
            [0xff, 0xfe, ..] => units(u16::from_le_bytes),
            [0xfe, 0xff, ..] => units(u16::from_be_bytes),
            [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
            bytes => String::from_utf8_lossy(bytes).into_owned(),
        })
    }

    // ---- configuration --------------------------------------------------------------------------------------------------

    fn configure(&mut self) -> Result<(), Diagnostic> {
        match self.options.default_configuration.clone() {
            Some(path) => self.configuration_file(&path)?,
            None => match self.in_folders("defaultwpp.ini") {
                Some(path) => self.configuration_file(&path)?,
                None => {
                    self.configuration(DEFAULT_CONFIGURATION, "the default configuration", 1)?
                }
            },
        }
        for path in self.options.configurations.clone() {
            self.configuration_file(&path)?;
        }
        let mut next = 0;
        // A scanned file can name more of them.
        while let Some(path) = self.options.scanned.get(next).cloned() {
            self.scan(&path)?;
            next += 1;
        }
        for function in self.options.functions.clone() {
            self.configuration(&format!("FUNC {function};"), COMMAND_LINE, 1)?;
        }
        Ok(())
    }

    fn scan(&mut self, path: &Path) -> Result<(), Diagnostic> {
        let text = self.text(path)?;
        let file = path.display().to_string();
        for (block, line) in config::blocks(&text) {
            self.configuration(&block, &file, line)?;
        }
        Ok(())
    }

    fn configuration_file(&mut self, path: &Path) -> Result<(), Diagnostic> {
        let text = self.text(path)?;
        self.configuration(&text, &path.display().to_string(), 1)
    }

    fn configuration(&mut self, text: &str, file: &str, line: u32) -> Result<(), Diagnostic> {
        for statement in config::parse(text, file, line)? {
            let request = self.config.apply(&statement, file)?;
            if let Some(request) = request {
                self.request(request, file, statement.line)?;
            }
        }
        Ok(())
    }

    fn request(&mut self, request: Request, file: &str, line: u32) -> Result<(), Diagnostic> {
        match request {
            Request::Include(name) => {
                self.include_count += 1;
                if self.include_count > INCLUDE_LIMIT {
                    return Err(Diagnostic::error(file, line, "there are more than 100 INCLUDEs"));
                }
                let beside = Path::new(file).parent().unwrap_or(Path::new("")).join(&name);
                let path = match (self.read)(&beside) {
                    Ok(_) => beside,
                    Err(_) => self.in_folders(&name).ok_or_else(|| {
                        let what = format!("INCLUDE: {} is in no folder of -cfgdir", shown(&name));
                        Diagnostic::error(file, line, what)
                    })?,
                };
                self.configuration_file(&path)?;
            }
            Request::Sources(names) => self.options.sources.extend(names),
            Request::Scan(names) => {
                self.options.scanned.extend(names.into_iter().map(PathBuf::from));
                if self.options.scanned.len() > INCLUDE_LIMIT {
                    return Err(Diagnostic::error(file, line, "more than 100 files are scanned"));
                }
            }
            Request::Options(words) => {
                for word in words {
                    let word = word.trim();
                    let bare = word.strip_prefix(['-', '/']).unwrap_or(word);
                    self.options
                        .apply_option(bare)
                        .map_err(|what| Diagnostic::error(file, line, what))?;
                }
            }
        }
        Ok(())
    }

    fn in_folders(&self, name: &str) -> Option<PathBuf> {
        let paths = self.options.folders.iter().map(|folder| folder.join(name));
        paths.into_iter().find(|path| (self.read)(path).is_ok())
    }

    fn template(&self, name: &str) -> Result<Rc<Template>, String> {
        if let Some(template) = self.templates.borrow().get(name) {
            return Ok(Rc::clone(template));
        }
        let (text, file) = match self.in_folders(name).or_else(|| {
            let path = PathBuf::from(name);
            (self.read)(&path).is_ok().then_some(path)
        }) {
            Some(path) => {
                (self.text(&path).map_err(|error| error.to_string())?, path.display().to_string())
            }
            None => match own_template(name) {
                Some(text) => (text.to_owned(), name.to_owned()),
                None => return Err(format!("{name}: there is no such template")),
            },
        };
        let template = Template::parse(&text, &file).map_err(|error| error.to_string())?;
        let template = Rc::new(template);
        self.templates.borrow_mut().insert(name.to_owned(), Rc::clone(&template));
        Ok(template)
    }

    // ---- outputs --------------------------------------------------------------------------------------------------------

    fn outputs(&self) -> Result<Outputs, Diagnostic> {
        let sources = expand(&self.options)?;
        if sources.is_empty() {
            let what = "no source is given; etw tracewpp -? shows how";
            return Err(Diagnostic::error(COMMAND_LINE, 0, what));
        }
        let mut outputs = Outputs::default();
        let mut units = Vec::new();
        let mut next_number = self.config.range.map_or(10, |(first, _)| first);
        for path in &sources {
            let unit = self.unit(path, next_number, &mut outputs.warnings)?;
            if self.config.shares_guid {
                next_number = next_number.saturating_add(unit.messages.len() as u16);
            }
            outputs.message_count += unit.messages.len();
            units.push(unit);
        }
        if self.config.shares_guid {
            let all: Vec<&Unit> = units.iter().collect();
            let guid = message_guid(&self.component(), &all);
            units.iter_mut().for_each(|unit| unit.guid.clone_from(&guid));
        }
        let mut paths: HashMap<PathBuf, usize> = HashMap::new();
        for (index, unit) in units.iter().enumerate() {
            for file in self.headers(unit)? {
                if paths.insert(file.path.clone(), index).is_some_and(|before| before != index) {
                    let what = format!(
                        "another source makes {}, too; use -preserveext or -odir",
                        file.path.display()
                    );
                    return Err(Diagnostic::error(&unit.path.display().to_string(), 0, what));
                }
                outputs.files.push(file);
            }
        }
        if let Some(folder) = &self.options.format_folder {
            outputs.files.extend(self.formats(folder, &units));
        }
        outputs.sources = sources;
        Ok(outputs)
    }

    /// The component's name: `-p`, or the name of the current folder.
    fn component(&self) -> String {
        let name = self.options.component.clone().or_else(|| {
            let folder = std::env::current_dir().ok()?;
            Some(folder.file_name()?.to_string_lossy().into_owned())
        });
        // A TMF has it on a line of its own.
        name.unwrap_or_else(|| "Unknown".to_owned()).replace(char::is_control, " ")
    }

    fn unit(
        &self,
        path: &Path,
        first: u16,
        warnings: &mut Vec<Diagnostic>,
    ) -> Result<Unit, Diagnostic> {
        let shown = path.display().to_string();
        let text = self.text(path)?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let identifier: String = file.chars().map(|c| if is_part(c) { c } else { '_' }).collect();
        let component = self.component();
        let own = config::blocks(&text);
        // A source's own configuration is for itself.
        let mut own_config = None;
        if !own.is_empty() {
            let mut config = self.config.clone();
            for (block, line) in own {
                for statement in config::parse(&block, &shown, line)? {
                    config.apply(&statement, &shown)?;
                }
            }
            own_config = Some(config);
        }
        let config = own_config.as_ref().unwrap_or(&self.config);
        let tokens = Tokens::new(&text);
        let calls = scan::calls(&tokens, config, &self.options.defined_macros(), &shown)?;
        warnings.extend(calls.warnings);
        let facts = Facts {
            file: &file,
            path: &shown,
            identifier: &identifier,
            component: &component,
            first_argument: self.options.first_argument.unwrap_or(10),
            has_shrieks: !self.options.ignores_shrieks,
            reorders: self.options.reorders,
        };
        let last = config.range.map_or(u16::MAX, |(_, last)| last);
        let mut messages = Vec::new();
        for call in calls.list {
            let number = u16::try_from(messages.len()).ok().and_then(|n| first.checked_add(n));
            let Some(number) = number.filter(|number| *number <= last) else {
                let what = format!("there are more messages than numbers from {first} to {last}");
                return Err(Diagnostic::error(&shown, call.line, what));
            };
            messages.push(message::message(call, number, config, &facts)?);
        }
        let names = tokens.list.iter().filter(|token| token.kind == Kind::Name);
        let mut found: Vec<String> = Vec::new();
        if !self.options.words.is_empty() {
            for token in names {
                let word = tokens.text_of(token);
                if self.options.words.iter().any(|wanted| wanted == word)
                    && !found.iter().any(|known| known == word)
                {
                    found.push(word.to_owned());
                }
            }
        }
        let control_guids = control_guids(&tokens);
        let checksum = hex(&Md5::digest(text));
        let mut unit = Unit {
            path: path.to_owned(),
            file,
            identifier,
            checksum,
            guid: String::new(),
            messages,
            found,
            control_guids,
            own_config,
        };
        unit.guid = message_guid(&component, &[&unit]);
        Ok(unit)
    }

    fn config_of<'u>(&'u self, unit: &'u Unit) -> &'u Config {
        unit.own_config.as_ref().unwrap_or(&self.config)
    }

    fn headers(&self, unit: &Unit) -> Result<Vec<File>, Diagnostic> {
        let mode = if self.options.is_kernel_mode { "km" } else { "um" };
        let default =
            [Output { template: format!("{mode}-default.tpl"), extension: ".tmh".to_owned() }];
        let outputs = match self.options.outputs.is_empty() {
            true => &default[..],
            false => &self.options.outputs,
        };
        let component = self.component();
        let config = self.config_of(unit);
        let formats = self.formats_of(unit, tmf::blocks);
        let macros = self.options.defined_macros();
        let source = Source {
            file: &unit.file,
            identifier: &unit.identifier,
            component: &component,
            checksum: &unit.checksum,
            guid: &unit.guid,
            messages: &unit.messages,
            macros: &macros,
            formats: &formats,
            found: unit.found.clone(),
            control_guid: self.options.control_guid.as_deref(),
        };
        let model = model::model(&source, config);
        let find = |name: &str| self.template(name);
        let mut files = Vec::new();
        for output in outputs {
            let template = self
                .template(&output.template)
                .map_err(|what| Diagnostic::error(COMMAND_LINE, 0, format!("-gen: {what}")))?;
            let text = template::run(&template, &model, &find)?;
            let path = self.options.output_folder.join(self.output_name(unit, &output.extension));
            files.push(File { path, text });
        }
        Ok(files)
    }

    fn output_name(&self, unit: &Unit, extension: &str) -> String {
        let kept = |found: &str| self.options.kept_extensions.iter().any(|known| *known == found);
        match unit.file.rsplit_once('.') {
            Some((stem, found)) if !kept(&found.to_ascii_lowercase()) => {
                format!("{stem}{extension}")
            }
            _ => format!("{}{extension}", unit.file),
        }
    }

    /// Makes the formats of a source's messages; none without messages.
    fn formats_of<T>(
        &self,
        unit: &Unit,
        make: impl Fn(&[Message], &Config, &Facts<'_>, &str) -> Vec<T>,
    ) -> Vec<T> {
        if unit.messages.is_empty() {
            return Vec::new();
        }
        let component = self.component();
        let facts = Facts {
            file: &unit.file,
            path: "",
            identifier: &unit.identifier,
            component: &component,
            first_argument: 0,
            has_shrieks: true,
            reorders: false,
        };
        make(&unit.messages, self.config_of(unit), &facts, &unit.guid)
    }

    /// TMF and TMC files.
    fn formats(&self, folder: &Path, units: &[Unit]) -> Vec<File> {
        let mut files: Vec<File> = Vec::new();
        let mut by_guid: HashMap<&str, usize> = HashMap::new();
        for unit in units.iter().filter(|unit| !unit.messages.is_empty()) {
            let lines = self.formats_of(unit, tmf::lines);
            let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
            match by_guid.get(unit.guid.as_str()) {
                Some(index) => files[*index].text.push_str(&text),
                None => {
                    by_guid.insert(&unit.guid, files.len());
                    let path = folder.join(format!("{}.tmf", unit.guid));
                    files.push(File { path, text });
                }
            }
        }
        let mut controls: Vec<ControlGuid> =
            units.iter().flat_map(|unit| unit.control_guids.clone()).collect();
        for path in &self.options.scanned {
            if let Ok(text) = self.text(path) {
                controls.extend(control_guids(&Tokens::new(&text)));
            }
        }
        if let Some(guid) = self.options.control_guid.as_ref().filter(|_| controls.is_empty()) {
            controls.push(ControlGuid {
                guid: guid.replace(',', "-").to_ascii_lowercase(),
                name: "Default".to_owned(),
                flags: ["Error", "Unusual", "Noise"].map(str::to_owned).to_vec(),
            });
        }
        controls.sort_by(|a, b| a.guid.cmp(&b.guid));
        controls.dedup_by(|a, b| a.guid == b.guid);
        for control in controls {
            let path = folder.join(format!("{}.tmc", control.guid));
            files.push(File { path, text: control.tmc() });
        }
        files
    }
}

/// A source and its messages.
struct Unit {
    path: PathBuf,
    file: String,
    identifier: String,
    checksum: String,
    guid: String,
    messages: Vec<Message>,
    found: Vec<String>,
    control_guids: Vec<ControlGuid>,
    own_config: Option<Config>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The GUID of some sources' messages: it changes with any of them, and with nothing else.
fn message_guid(component: &str, units: &[&Unit]) -> String {
    let mut sum = Vec::new();
    let mut add = |text: &str| {
        sum.extend((text.len() as u64).to_le_bytes());
        sum.extend(text.as_bytes());
    };
    add(component);
    for unit in units {
        add(&unit.file);
        for message in &unit.messages {
            add(&message.name);
            add(&message.number.to_string());
            add(&message.text);
            for argument in &message.arguments {
                add(&argument.kind.item);
                add(&argument.number.to_string());
            }
        }
    }
    let mut sum: [u8; 16] = Md5::digest(&sum).into();
    // The form of a GUID by name, as Windows' message GUIDs have it.
    sum[6] = sum[6] & 0x0f | 0x30;
    let digits = hex(&sum);
    format!(
        "{}-{}-{}-{}-{}",
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..]
    )
}

/// The providers that `WPP_CONTROL_GUIDS` defines.
fn control_guids(tokens: &Tokens<'_>) -> Vec<ControlGuid> {
    const FLAG_LIMIT: usize = 64;
    let mut found = Vec::new();
    for (index, token) in tokens.list.iter().enumerate() {
        if token.kind != Kind::Name
            || token.directive == 0
            || tokens.text_of(token) != "WPP_DEFINE_CONTROL_GUID"
        {
            continue;
        }
        let Some(open) = tokens.list.get(index + 1).filter(|open| open.is(b'(')) else { continue };
        let Some(inner) = (index + 2..open.partner).find(|at| tokens.list[*at].is(b'(')) else {
            continue;
        };
        let name = tokens.word(index + 2).trim_matches('"').to_owned();
        let close = tokens.list[inner].partner;
        let parts = (inner + 1..close).filter(|at| !tokens.list[*at].is(b','));
        let parts: Vec<&str> = parts.map(|at| tokens.word(at)).collect();
        let guid = parts.join("-").to_ascii_lowercase();
        let is_guid = guid.len() == 36
            && parts.len() == 5
            && guid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
        if !is_guid || close <= inner {
            continue;
        }
        let bits = (close..open.partner).filter(|at| tokens.word(*at) == "WPP_DEFINE_BIT");
        let flags = bits.take(FLAG_LIMIT).map(|at| tokens.word(at + 2).to_owned()).collect();
        found.push(ControlGuid { guid, name, flags });
    }
    found
}

/// The sources, wildcards replaced by the files that match.
fn expand(options: &Options) -> Result<Vec<PathBuf>, Diagnostic> {
    const KNOWN: [&str; 5] = ["c", "c++", "cpp", "cxx", "cc"];
    let mut sources: Vec<PathBuf> = Vec::new();
    for name in &options.sources {
        let path = Path::new(name);
        let pattern = path.file_name().unwrap_or_default().to_string_lossy();
        if !pattern.contains(['*', '?']) {
            sources.push(path.to_owned());
            continue;
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).map_err(|error| {
            Diagnostic::error(name, 0, format!("its folder cannot be read: {error}"))
        })?;
        let is_source = |file: &str| {
            let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
            let extension = extension.to_ascii_lowercase();
            match options.extensions.is_empty() {
                true => KNOWN.contains(&extension.as_str()),
                false => options.extensions.contains(&extension),
            }
        };
        let mut files: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|file| matches(&pattern, file) && is_source(file))
            .collect();
        files.sort();
        if files.is_empty() {
            return Err(Diagnostic::error(name, 0, "no source matches"));
        }
        sources.extend(files.into_iter().map(|file| path.with_file_name(file)));
    }
    let mut known = std::collections::HashSet::new();
    sources.retain(|path| known.insert(path.clone()));
    if sources.len() > SOURCE_COUNT_LIMIT {
        return Err(Diagnostic::error(COMMAND_LINE, 0, "there are more than 100,000 sources"));
    }
    Ok(sources)
}

/// Whether a name matches a pattern of `*` and `?`.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, n) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}
