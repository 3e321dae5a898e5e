//! Common options of the commands that start sessions: providers, sizes, modes.

use super::host::Client;
use super::lookup::Lookup;
use super::payload_option::PayloadOption;
use super::wanted::{Named, Wanted};
use crate::output::Failure;
use crate::output_file::ReplaceOption;
use crate::schemas::Schemas;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use etw_host::{
    Compression, ConfigError, EnableInfo, EnableProperties, Enablement, FileMode, Filters,
    IdFilter, LevelKeywordFilter, NameFilter, SessionClock, SessionConfig, StackFilter,
};
use etw_types::{Guid, LevelKeyword};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes: 65536, 64K, 10M, 2G.
pub fn size(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is not a size: 65536, 64K, 10M, 2G");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().trim_end_matches('b') {
        "" => 1u64,
        "k" | "ki" => 1 << 10,
        "m" | "mi" => 1 << 20,
        "g" | "gi" => 1 << 30,
        _ => return Err(bad()),
    };
    digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit)).ok_or_else(bad)
}

/// Milliseconds, or with a unit: 500, 500ms, 2s.
pub fn milliseconds(text: &str) -> Result<u32, String> {
    let (digits, factor) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(digits), _) => (digits, 1),
        (None, Some(digits)) => (digits, 1000),
        (None, None) => (text, 1),
    };
    let time = digits.parse::<u32>().ok().and_then(|time| time.checked_mul(factor));
    time.ok_or_else(|| format!("{text:?} is not a time: 500, 500ms, 2s"))
}

/// The names of enabled providers, as the command line has them.
pub fn asked_names(wanted: &[Wanted]) -> Vec<(Guid, String)> {
    let each = wanted.iter().filter_map(|wanted| match (&wanted.provider, &wanted.hashed_name) {
        (Named::Id(id), Some(name)) => Some((*id, format!("*{name}"))),
        (Named::Name(name), _) => Some((Guid::from_name(name), name.clone())),
        (Named::Id(_), None) => None,
    });
    each.collect()
}

/// The GUID of a provider: by its name among those that are registered, then among the schemas that the user keeps.
pub fn resolve(named: &Named, client: Option<&Client>) -> Result<Guid, Failure> {
    Lookup::new(client, Arc::default()).id(named)
}

/// The names of an enumeration as an option's values, each with its line of help.
fn values<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
    description: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let values = all.iter().map(|value| PossibleValue::new(name(*value)).help(description(*value)));
    PossibleValuesParser::new(values).map(move |word| {
        // Words that are no name do not come here.
        *all.iter().find(|value| name(**value) == word).unwrap_or(&all[0])
    })
}

/// How a session is set up.
#[derive(Args, Clone, Debug, Default)]
pub struct SessionOptions {
    /// How the file is written
    #[arg(long, default_value = "sequential",
          value_parser = values(&FileMode::ALL, FileMode::name, FileMode::description))]
    pub mode: FileMode,
    /// Maximum size of the file: 100M
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub max_size: Option<u64>,
    /// Reserve the maximum size at the start
    #[arg(long)]
    pub preallocate: bool,
    /// Compress the file's buffers: all, or those that the disk does not take fast enough
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true,
          default_value = "off", default_missing_value = "on",
          value_parser = values(&Compression::ALL, Compression::name, Compression::description))]
    pub compress: Compression,
    /// Size of a buffer
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = size)]
    pub buffer_size: u64,
    /// Number of buffers
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub buffers: u32,
    /// Store partly filled buffers after this time: 500ms, 1s
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    pub flush_timer: Option<u32>,
    /// Clock of the timestamps; default: qpc, with --mode append system
    #[arg(long,
          value_parser = values(&SessionClock::ALL, SessionClock::name, SessionClock::description))]
    pub clock: Option<SessionClock>,
    /// One stream of buffers for all processors
    #[arg(long)]
    pub no_per_processor: bool,
    /// Neither hold other sessions up nor be held up by them
    #[arg(long)]
    pub independent: bool,
    /// Only events of root's programs and of the session owner's
    #[arg(long)]
    pub secure: bool,
}

impl SessionOptions {
    /// The session that they describe. `file`: `None` for a session without one, which has no log mode either.
    pub fn config(&self, name: &str, file: Option<&Path>) -> Result<SessionConfig, Failure> {
        let wrong_size = |_| wrong_options(ConfigError::BufferSize { size: self.buffer_size });
        let buffer_size = u32::try_from(self.buffer_size).map_err(wrong_size)?;
        let mut config = SessionConfig {
            name: name.to_owned(),
            file: file.map(absolute).transpose()?,
            preallocate: self.preallocate,
            compression: self.compress,
            buffer_size,
            buffer_count: self.buffers,
            flush_timer: self.flush_timer.map(|ms| Duration::from_millis(ms.into())),
            per_processor: !self.no_per_processor,
            independent: self.independent,
            secure: self.secure,
            ..SessionConfig::default()
        };
        self.check_max_size()?;
        if let (None, Some(option)) = (file, self.option_of_file()) {
            return Err(Failure::Usage(format!(
                "session {name}: {option} is about a file, and this session has none: give -o FILE"
            )));
        }
        config.set_log_mode(false, self.mode, self.max_size).map_err(wrong_options)?;
        config.clock = self.clock.unwrap_or(SessionClock::default_of(config.mode));
        Ok(config)
    }

    /// The first option that says how a file is written.
    fn option_of_file(&self) -> Option<&'static str> {
        [
            ("--mode", self.mode != FileMode::Sequential),
            ("--max-size", self.max_size.is_some()),
            ("--preallocate", self.preallocate),
            ("--compress", self.compress != Compression::Off),
        ]
        .into_iter()
        .find_map(|(option, is_given)| is_given.then_some(option))
    }

    /// Rejects modes that need a maximum size or have none, in the words of the options.
    fn check_max_size(&self) -> Result<(), Failure> {
        let mode = self.mode.name();
        let what = match (self.mode, self.max_size) {
            (FileMode::Circular | FileMode::NewFile, None) => {
                format!("--mode {mode} needs the size of a file: --max-size 100M")
            }
            (FileMode::Append, Some(_)) => format!("--mode {mode} takes no --max-size"),
            (_, None) if self.preallocate => {
                "--preallocate needs the size to reserve: --max-size 100M".to_owned()
            }
            _ => return Ok(()),
        };
        Err(Failure::Usage(what))
    }

    /// Rejects an existing file, unless it is appended to or replaced.
    pub fn check_output(&self, path: &Path, replace: ReplaceOption) -> Result<(), Failure> {
        match self.mode {
            FileMode::Append => Ok(()),
            FileMode::NewFile => {
                let first = path.to_string_lossy().replacen("%d", "1", 1);
                replace.check(Path::new(&first))
            }
            _ => replace.check(path),
        }
    }
}

/// Rejects options that no session can have together, whatever host it is of: that is wrong usage.
pub fn check_config(config: &SessionConfig) -> Result<(), Failure> {
    config.validate().map_err(wrong_options)
}

fn wrong_options(error: ConfigError) -> Failure {
    Failure::Usage(error.to_string())
}

/// The host has another working directory.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// Further conditions on a provider's events.
#[derive(Args, Clone, Debug, Default)]
pub struct EnableOptions {
    /// Only events of these processes (at most 8)
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Only events of programs of these file names
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub exe: Vec<String>,
    /// Record only events with these ids; -1,2: all but these. TraceLogging events have no ids and pass: see --event-name
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    pub event_id: Option<String>,
    /// Only TraceLogging events of these names; -a,b: all but these
    #[arg(long, value_name = "NAMES", allow_hyphen_values = true)]
    pub event_name: Option<String>,
    /// Record an event only if its fields match: 'Request:status>=500,path~/api'. EVENT is the name of a TraceLogging event, or the
    /// name or id of one in a manifest (--manifest, or a registered one). Operators: = != < <= > >=, ~ contains, !~ does not. All
    /// conditions of one option have to hold; if an event has several options, one suffices
    #[arg(long, value_name = "EVENT:FIELD=VALUE,...", value_parser = PayloadOption::parse)]
    pub payload: Vec<PayloadOption>,
    /// Leave out events without a keyword
    #[arg(long)]
    pub ignore_keyword_0: bool,
    /// Add to each event: sid, ts-id, start-key, stack
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    pub with: Vec<Property>,
    /// Call stacks of events of these ids only; -1,2: all but these
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    pub stack_id: Option<String>,
    /// Call stacks of TraceLogging events of these names only; -a,b: all but these
    #[arg(long, value_name = "NAMES", allow_hyphen_values = true)]
    pub stack_name: Option<String>,
    /// Call stacks of events of this level and these keywords only: LEVEL[:ANY[:ALL]]; -LEVEL...: all but these
    #[arg(long, value_name = "LEVEL", allow_hyphen_values = true)]
    pub stack_level: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Property {
    /// The user's SID
    Sid,
    /// The terminal session
    TsId,
    /// A key of the process that is not used twice
    StartKey,
    /// The call stack, captured by the program
    Stack,
}

impl EnableOptions {
    /// Whether any of them was given.
    fn is_given(&self) -> bool {
        let EnableOptions {
            pid, exe, event_id, event_name, payload, ignore_keyword_0, with, ..
        } = self;
        let texts = [event_id, event_name, &self.stack_id, &self.stack_name, &self.stack_level];
        *ignore_keyword_0
            || texts.iter().any(|text| text.is_some())
            || [pid.is_empty(), exe.is_empty(), payload.is_empty(), with.is_empty()]
                .contains(&false)
    }

    /// The enablement of a provider. `lookup` has the schemas of its events.
    pub fn info(
        &self,
        wanted: &LevelKeyword,
        provider: Guid,
        lookup: &Lookup<'_>,
    ) -> Result<EnableInfo, Failure> {
        let usage = |what: &str| Failure::Usage(what.to_owned());
        let mut filters = Filters {
            process_ids: self.pid.clone(),
            executables: self.exe.clone(),
            ..Filters::default()
        };
        for option in &self.payload {
            filters.payload.extend(option.filters(provider, lookup)?);
        }
        let ids = |option: &str, text: &String| {
            let (include, list) = including(text);
            let ids: Result<Vec<u16>, _> = list.split(',').map(str::parse).collect();
            let ids = ids.map_err(|_| usage(&format!("{option}: ids are 0 to 65535")))?;
            Ok::<_, Failure>(IdFilter { include, ids })
        };
        let names = |text: &String| {
            let (include, list) = including(text);
            let names = list.split(',').map(str::to_owned).collect();
            NameFilter { of: LevelKeyword::ALL, include, names }
        };
        filters.event_ids = self.event_id.as_ref().map(|t| ids("--event-id", t)).transpose()?;
        filters.event_names = self.event_name.as_ref().map(names);
        filters.stacks = StackFilter {
            event_ids: self.stack_id.as_ref().map(|t| ids("--stack-id", t)).transpose()?,
            event_names: self.stack_name.as_ref().map(names),
            level_keyword: self.stack_level.as_deref().map(stack_level).transpose()?,
        };
        let has_stacks = self.with.iter().any(|property| matches!(property, Property::Stack));
        if filters.stacks != StackFilter::default() && !has_stacks {
            return Err(usage("--stack-id, --stack-name and --stack-level go with --with stack"));
        }
        if let Some(path) = self.exe.iter().find(|name| name.contains('/')) {
            let name = path.rsplit('/').next().unwrap_or_default();
            return Err(Failure::Usage(format!(
                "--exe {path}: a file name is needed, without its folder: --exe {name}"
            )));
        }
        filters.check().map_err(|error| Failure::Usage(format!("a filter: {error}")))?;
        let properties = self.with.iter().map(|property| match property {
            Property::Sid => EnableProperties::SID.0,
            Property::TsId => EnableProperties::TS_ID.0,
            Property::StartKey => EnableProperties::PROCESS_START_KEY.0,
            Property::Stack => EnableProperties::STACK_TRACE.0,
        });
        let is_empty = filters == Filters::default();
        Ok(EnableInfo {
            wanted: LevelKeyword { ignore_keyword_0: self.ignore_keyword_0, ..*wanted },
            properties: EnableProperties(properties.fold(0, |all, one| all | one)),
            filters: (!is_empty).then(|| Box::new(filters)),
        })
    }
}

/// The enablements of a session: each provider once.
pub fn enablements(
    wanted: &[Wanted],
    options: &EnableOptions,
    lookup: &Lookup<'_>,
) -> Result<Vec<Enablement>, Failure> {
    if wanted.is_empty() && options.is_given() {
        let what = "--pid, --exe, --event-id, --event-name, --payload, --ignore-keyword-0, --with and --stack-… are about the events of providers: name one with -p";
        return Err(Failure::Usage(what.to_owned()));
    }
    let mut all: Vec<Enablement> = Vec::new();
    for wanted in wanted {
        let enablement = enablement(wanted, options, lookup)?;
        if all.iter().any(|other| other.provider.id() == enablement.provider.id()) {
            // A session has one enablement of a provider: the second would replace the first.
            return Err(Failure::Usage(format!("provider {} is named twice", enablement.provider)));
        }
        all.push(enablement);
    }
    Ok(all)
}

/// The enablement of one provider.
pub fn enablement(
    wanted: &Wanted,
    options: &EnableOptions,
    lookup: &Lookup<'_>,
) -> Result<Enablement, Failure> {
    let provider = lookup.key(&wanted.provider)?;
    let masks = lookup.level_keyword(wanted, provider.id())?;
    let info = options.info(&masks, provider.id(), lookup)?;
    Ok(Enablement::new(provider, info))
}

/// Schemas in which names of providers and keywords are looked up.
#[derive(Args, Clone, Debug, Default)]
pub struct NameSchemas {
    /// Manifest with the names of providers and keywords: XML, a program or library with a compiled one
    #[arg(long, value_name = "FILE")]
    manifest: Vec<PathBuf>,
    /// Schema pack with the names of providers and keywords
    #[arg(long, value_name = "FILE")]
    pack: Vec<PathBuf>,
}

impl NameSchemas {
    pub fn lookup<'c>(&self, client: Option<&'c Client>) -> Result<Lookup<'c>, Failure> {
        let (manifest, pack) = (self.manifest.clone(), self.pack.clone());
        let schemas = Schemas { manifest, pack, ..Schemas::default() };
        Ok(Lookup::new(client, schemas.load()?))
    }
}

/// `[-]LEVEL[:ANY[:ALL]]`
fn stack_level(text: &str) -> Result<LevelKeywordFilter, Failure> {
    let (include, list) = including(text);
    let wanted: Result<Wanted, String> = format!("*x:{list}").parse();
    let wanted = wanted.map_err(|error| Failure::Usage(format!("--stack-level: {error}")))?;
    if let Some(names) = wanted.any_names.or(wanted.all_names) {
        return Err(Failure::Usage(format!("--stack-level: {names:?} is not a hexadecimal mask")));
    }
    Ok(LevelKeywordFilter { of: wanted.wanted, include })
}

fn including(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(list) => (false, list),
        None => (true, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_all_none_or_automatic() {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            session: SessionOptions,
            command: Vec<String>,
        }
        let parse = |words: &[&str]| {
            let line = Line::try_parse_from([&["etw"], words].concat()).ok()?;
            let config = line.session.config("a", Some(Path::new("/a.etl"))).ok()?;
            Some((config.compression, line.command.len()))
        };
        assert_eq!(parse(&[]), Some((Compression::Off, 0)));
        assert_eq!(parse(&["--compress"]), Some((Compression::On, 0)));
        assert_eq!(parse(&["--compress=auto"]), Some((Compression::Auto, 0)));
        // A word behind the option alone is not its value.
        assert_eq!(parse(&["--compress", "auto"]), Some((Compression::On, 1)));
        assert_eq!(parse(&["--compress=often"]), None);
    }

    #[test]
    fn providers_with_levels_and_masks() {
        let id = Guid::from_name("Doc");
        let wanted: Wanted = "*Doc:warning:0x10:3".parse().unwrap();
        assert_eq!(wanted.provider, Named::Id(id));
        assert_eq!((wanted.wanted.level.0, wanted.wanted.any.0, wanted.wanted.all.0), (3, 0x10, 3));
        assert_eq!(format!("{{{id}}}").parse(), Ok(Named::Id(id)));
        let wanted: Wanted = "My-Provider::ff".parse().unwrap();
        assert_eq!(wanted.provider, Named::Name("My-Provider".to_owned()));
        let lookup = Lookup::new(None, Arc::default());
        let masks = lookup.level_keyword(&wanted, id).unwrap();
        assert_eq!((masks.level.0, masks.any.0), (5, 0xff));
        let unknown: Wanted = "My-Provider:4:Sales".parse().unwrap();
        let error = lookup.level_keyword(&unknown, id).unwrap_err();
        assert!(error.message().unwrap().contains("no schema of this provider is known"));
        for bad in ["", "*", "a:256", "a:4:1:1:1"] {
            assert!(bad.parse::<Wanted>().is_err(), "{bad}");
        }
        assert_eq!((size("64K"), size("2GiB"), size("7")), (Ok(65536), Ok(2 << 30), Ok(7)));
        assert!(size("1x").is_err() && size("99999999999G").is_err());
        assert_eq!(
            (milliseconds("2s"), milliseconds("5ms"), milliseconds("7")),
            (Ok(2000), Ok(5), Ok(7))
        );
    }
}
