//! The options of the command, on the command line and in `WPP_FLAGS`.

use std::path::PathBuf;

/// `-gen:{template}*.extension`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Name of the template.
    pub template: String,
    /// With its dot.
    pub extension: String,
}

/// The task of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Sources, in order; their names may have `*` and `?`.
    pub sources: Vec<String>,
    /// Kernel mode: its names of templates.
    pub is_kernel_mode: bool,
    /// The program is a library.
    pub is_dll: bool,
    /// Functions, in the configuration language.
    pub functions: Vec<String>,
    /// The provider's GUID, for sources that define none: its five parts, with commas between them.
    pub control_guid: Option<String>,
    /// Files whose comments configure.
    pub scanned: Vec<PathBuf>,
    /// Files in the configuration language.
    pub configurations: Vec<PathBuf>,
    /// The file that replaces the default configuration.
    pub default_configuration: Option<PathBuf>,
    /// Folders of templates and configurations.
    pub folders: Vec<PathBuf>,
    /// Folder of the headers.
    pub output_folder: PathBuf,
    /// The files made of each source; none: a `.tmh`.
    pub outputs: Vec<Output>,
    /// Extensions of sources; wildcards find no others.
    pub extensions: Vec<String>,
    /// Extensions that the output's name keeps.
    pub kept_extensions: Vec<String>,
    /// Words that templates ask for with FOUND.
    pub words: Vec<String>,
    /// Name of the component; none: that of the current folder.
    pub component: Option<String>,
    /// Number of a message's first argument.
    pub first_argument: Option<u32>,
    /// `%NAME` is a type as `%!NAME!` is.
    pub ignores_shrieks: bool,
    /// Macros that the output defines: name with parameters, and value.
    pub macros: Vec<(String, String)>,
    /// Larger values come first in the payload.
    pub reorders: bool,
    /// Folder for TMF and TMC files.
    pub format_folder: Option<PathBuf>,
    /// The command lists what it does.
    pub is_verbose: bool,
}

/// Options without a value.
const FLAGS: &[&str] = &["km", "um", "dll", "noshrieks", "reorder", "v", "verbose"];
/// Options with a value behind a colon.
const VALUES: &[&str] = &[
    "func",
    "ctl",
    "scan",
    "ini",
    "defwpp",
    "cfgdir",
    "I",
    "odir",
    "gen",
    "ext",
    "preserveext",
    "lookfor",
    "p",
    "argbase",
    "tmf",
];

impl Options {
    /// Applies one word: an option, or a source.
    ///
    /// # Errors
    /// The problem with the option, in one sentence.
    pub fn apply(&mut self, word: &str) -> Result<(), String> {
        let name = match word.strip_prefix('-') {
            Some(name) => name,
            // A path starts with a slash, too.
            None => match word.strip_prefix('/').filter(|name| is_option(name)) {
                Some(name) => name,
                None => {
                    self.sources.push(word.to_owned());
                    return Ok(());
                }
            },
        };
        self.apply_option(name)
    }

    /// Applies an option without its `-`.
    ///
    /// # Errors
    /// The problem with the option, in one sentence.
    pub fn apply_option(&mut self, option: &str) -> Result<(), String> {
        let option = option.trim();
        let lower = option.to_ascii_lowercase();
        match lower.as_str() {
            "km" => self.is_kernel_mode = true,
            "um" => self.is_kernel_mode = false,
            "dll" => self.is_dll = true,
            "noshrieks" => self.ignores_shrieks = true,
            "reorder" => self.reorders = true,
            "v" | "verbose" => self.is_verbose = true,
            _ if option.starts_with('D') => self.add_macro(&option[1..])?,
            // -IDIR, as compilers have it; -I:DIR is among the values.
            _ if option.starts_with('I') && !option.starts_with("I:") && option.len() > 1 => {
                self.add_folders(&option[1..]);
            }
            _ if lower.starts_with("man") => {
                return Err(format!("-{option}: manifests are not made of messages; use etw mc"));
            }
            _ => {
                let Some((name, value)) =
                    lower.split_once(':').map(|(name, _)| (name, option[name.len() + 1..].trim()))
                else {
                    return Err(self.unknown(option));
                };
                return self.apply_value(name, value, option);
            }
        }
        Ok(())
    }

    fn unknown(&self, option: &str) -> String {
        match VALUES.iter().any(|name| name.eq_ignore_ascii_case(option)) {
            true => format!("-{option} needs a value: -{option}:VALUE"),
            false => format!("-{option}: there is no such option; etw tracewpp -? lists them"),
        }
    }

    fn apply_value(&mut self, name: &str, value: &str, option: &str) -> Result<(), String> {
        if value.is_empty() {
            return Err(format!("-{name} needs a value: -{name}:VALUE"));
        }
        let text = || value.to_owned();
        let lists = |value: &str| -> Vec<String> {
            let parts = value.split('.').map(str::trim).filter(|part| !part.is_empty());
            parts.map(|part| part.trim_matches(';').to_ascii_lowercase()).collect()
        };
        match name {
            "func" => self.functions.push(text()),
            "ctl" => self.control_guid = Some(guid_parts(value)?),
            "scan" => self.scanned.push(value.into()),
            "ini" => self.configurations.push(value.into()),
            "defwpp" => self.default_configuration = Some(value.into()),
            "cfgdir" | "i" => self.add_folders(value),
            "odir" => self.output_folder = value.into(),
            "gen" => {
                let output = value.strip_prefix('{').and_then(|rest| rest.split_once('}'));
                let Some((template, extension)) = output else {
                    return Err(
                        "-gen needs a template and an extension: -gen:{FILE.tpl}*.tmh".into()
                    );
                };
                self.outputs.push(Output {
                    template: template.trim().to_owned(),
                    extension: extension.trim().trim_start_matches('*').to_owned(),
                });
            }
            "ext" => self.extensions = lists(value),
            "preserveext" => self.kept_extensions = lists(value),
            "lookfor" => self.words.push(text()),
            "p" => self.component = Some(text()),
            "argbase" => {
                let number = value.parse().ok().filter(|number| (1..=9999).contains(number));
                self.first_argument = Some(number.ok_or("-argbase needs a number from 1 to 9999")?);
            }
            "tmf" => self.format_folder = Some(value.into()),
            _ => return Err(self.unknown(option)),
        }
        Ok(())
    }

    /// `DIR;DIR`
    fn add_folders(&mut self, folders: &str) {
        let folders = folders.split(';').map(str::trim).filter(|folder| !folder.is_empty());
        self.folders.extend(folders.map(PathBuf::from));
    }

    /// Applies the options of a text, such as the environment variable `WPP_FLAGS`: words with blanks between them, in quotes where they
    /// have blanks themselves.
    ///
    /// # Errors
    /// The problem with an option, in one sentence.
    pub fn apply_all(&mut self, text: &str) -> Result<(), String> {
        let mut is_quoted = false;
        let words = text.split(|c: char| {
            is_quoted ^= c == '"';
            c.is_whitespace() && !is_quoted
        });
        for word in words.map(|word| word.replace('"', "")).filter(|word| !word.is_empty()) {
            self.apply(&word)?;
        }
        Ok(())
    }

    /// The macros that headers define: those of `-D`, and those that stand for other options.
    pub fn defined_macros(&self) -> Vec<(String, String)> {
        let flags = [("WPP_KERNEL_MODE", self.is_kernel_mode), ("WPP_DLL", self.is_dll)];
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set);
        let flags = flags.map(|(name, _)| (name.to_owned(), String::new()));
        let flags = flags.filter(|(name, _)| self.macros.iter().all(|(known, _)| known != name));
        flags.chain(self.macros.clone()).collect()
    }

    /// `NAME[(parameters)][=VALUE]`
    fn add_macro(&mut self, text: &str) -> Result<(), String> {
        let head = match text.split_once('(') {
            // Parameters may be followed by = or a blank.
            Some((name, rest)) if !name.contains('=') => {
                let end = rest.find(')').ok_or(format!("-D{text}: a parenthesis is not closed"))?;
                name.len() + 1 + end + 1
            }
            _ => text.find(['=', ' ']).unwrap_or(text.len()),
        };
        let (name, value) = text.split_at(head);
        let value = value.trim_start().strip_prefix('=').unwrap_or(value).trim();
        let is_valid = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && !text.contains(['\n', '\r', '\\']);
        if !is_valid {
            return Err("-D needs the name of a macro: -DNAME=VALUE".into());
        }
        self.macros.push((name.trim().to_owned(), value.to_owned()));
        Ok(())
    }
}

/// The parts of a GUID, with commas between them: `{l-w-w-w-ll}`, `(l,w,w,w,ll)`, or either without brackets.
fn guid_parts(text: &str) -> Result<String, String> {
    let inner = text.trim().trim_matches(['{', '}', '(', ')']);
    let parts: Vec<&str> = inner.split([',', '-']).map(str::trim).collect();
    let is_guid = parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()));
    match is_guid {
        true => Ok(parts.join(",")),
        false => Err("-ctl needs a GUID: -ctl:01234567-89ab-cdef-0123-456789abcdef".to_owned()),
    }
}

/// Whether a word behind a slash is an option and no path.
fn is_option(word: &str) -> bool {
    let name = word.split(':').next().unwrap_or_default();
    let is = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    match word.contains(':') {
        true => is(VALUES),
        false => is(FLAGS) || (word.starts_with('D') && !word.contains('/') && !word.contains('.')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_windows() {
        let mut options = Options::default();
        for word in [
            "/km",
            "-dll",
            "-func:F{A=1}(L,MSG,...)",
            "-cfgdir:a;b",
            "/I:c",
            "-gen:{x.tpl}*.tmh",
            "-ext:.c.CPP",
            "-preserveext:.c.h",
            "-DLOG(a,b)=log_it(a,b)",
            "-DX",
            "-p:Mine",
            "a.c",
            "/src/b.c",
            "-DY=1",
            "-DW(x) PAIR(x)",
            "-Id",
            "-ctl:{01234567-89AB-cdef-0123-456789abcdef}",
        ] {
            options.apply(word).unwrap();
        }
        assert_eq!(options.sources, ["a.c", "/src/b.c"]);
        assert_eq!(options.extensions, ["c", "cpp"]);
        assert_eq!(options.folders, ["a", "b", "c", "d"].map(PathBuf::from));
        let guid = Some("01234567,89AB,cdef,0123,456789abcdef".to_owned());
        assert_eq!(options.control_guid, guid);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let macros = [
            pair("LOG(a,b)", "log_it(a,b)"),
            pair("X", ""),
            pair("Y", "1"),
            pair("W(x)", "PAIR(x)"),
        ];
        assert_eq!(options.macros, macros);
        let defined = options.defined_macros();
        assert_eq!(defined[..2], [pair("WPP_KERNEL_MODE", ""), pair("WPP_DLL", "")]);
        assert_eq!(defined[2..], macros);
        for (word, what) in [
            ("-nonsense", "no such option"),
            ("-func", "needs a value"),
            ("-gen:x", "needs a template"),
            ("-argbase:x", "needs a number"),
            ("-man", "etw mc"),
            ("-D=1", "name of a macro"),
            ("-ctl:0123,4567", "needs a GUID"),
        ] {
            let error = options.apply(word).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn options_of_the_environment_may_be_in_quotes() {
        let mut options = Options::default();
        options.apply_all(" -km\t\"-p:Two words\" -func:\"F(L, MSG)\"  a.c").unwrap();
        assert_eq!(options.component.as_deref(), Some("Two words"));
        assert_eq!(options.functions, ["F(L, MSG)"]);
        assert_eq!(options.sources, ["a.c"]);
        assert!(options.is_kernel_mode && options.apply_all("-km -nonsense").is_err());
    }
}
