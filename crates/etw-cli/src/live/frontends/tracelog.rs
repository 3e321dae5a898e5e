//! `tracelog`: starts, changes, shows and stops sessions.

mod display;
mod options;
mod providers;

use super::kernel::{KERNEL_LOGGER, Kernel, is_kernel_logger};
use super::setup::Setup;
use super::{Controller, Enablement, all_sessions, enabled, session_name};
use crate::frontends::answer::{print, usage};
use crate::frontends::table::show_help;
use crate::frontends::table::{Given, Help, Table};
use crate::live::options::absolute;
use crate::output::{Failure, Outcome};
use display::{properties, succeeded};
use etw_host::{EnableInfo, EnableProperties, Filters, IdFilter};
use etw_host::{FileMode, SessionConfig};
use etw_types::{Keyword, Level};
use etw_wire::requests::Update;
use options::*;
use providers::Source;
use std::fmt::Write;
use std::time::Duration;

static TABLE: Table<Command> = Table {
    command: "tracelog",
    about: "Start, change, show and stop sessions, as Windows' tracelog does",
    forms: &[
        "-start NAME [-f FILE] [-rt | -buffering] [options] [-guid PROVIDER]...",
        "-start [-dpcisr] [-img] [-pf] [-hf] [-nodisk] [-nonet] [-eflag N FLAG...] [options]",
        "-enable NAME -guid PROVIDER... [-level N] [-matchanykw MASK] [-timeout MS]",
        "-disable NAME -guid PROVIDER...",
        "-update NAME [-f FILE] [-rt] [-ft SECONDS] [-max BUFFERS]",
        "-stop NAME | -q NAME [-lp] | -l [-lp] | -flush NAME [-f FILE]",
        "-capturestate NAME | -enumguid",
    ],
    repeatable: 0,
    actions: ACTIONS,
    operand: None,
    rows: ROWS,
    notes: "Sessions belong to your own host, which starts when it is needed. etw session and etw provider are the commands behind it.",
};

/// A command line, parsed.
#[derive(Debug, Default)]
struct Command {
    name: Option<String>,
    setup: Setup,
    sizes_in_kb: bool,
    guids: Vec<Source>,
    level: u8,
    any: Option<u64>,
    all: u64,
    info: EnableInfo,
    filters: Filters,
    timeout_ms: u32,
    with_providers: bool,
    real_time: bool,
    flush_timer_ms: Option<u32>,
    kernel: Kernel,
    /// `-systemlogger`: the session has to record events of the kernel.
    is_system_logger: bool,
    /// Classes of the kernel's session that are left out.
    without: Vec<&'static str>,
}

/// The default flags of the kernel's session.
const KERNEL_DEFAULTS: &str = "process,thread,disk,net";

pub fn help() -> Help {
    TABLE.help()
}

pub fn run(words: &[String]) -> Result<Outcome, Failure> {
    match parse(words)? {
        Some((action, command)) => act(action, command),
        None => show_help(&help()),
    }
}

/// The kernel's events of the session that a command starts.
#[cfg(test)]
pub fn kernel_of(words: &[String]) -> Result<Option<etw_host::SystemConfig>, Failure> {
    match parse(words)? {
        Some((_, mut command)) => {
            let name = command.name.take().unwrap_or_default();
            let enablements = command.enablements();
            Ok(command.config(name, &enablements)?.system)
        }
        None => Ok(None),
    }
}

/// The action and the rest; `None`: the user requested the help.
fn parse(words: &[String]) -> Result<Option<(u16, Command)>, Failure> {
    let mut command = Command::default();
    let Some(given) = TABLE.parse(words, &mut command)? else { return Ok(None) };
    let Some(by) = TABLE.action(&given) else {
        return Err(usage("tracelog: no action is given; tracelog -h lists them"));
    };
    let (action, by) = (by.row.actions, by.name);
    if let Some(odd) = TABLE.odd(&given, action) {
        return Err(TABLE.wrong(odd.name, format!("-{by} does not take it")));
    }
    match (action, &command.name) {
        (LIST | ENUM_GUID, None) => {}
        (LIST | ENUM_GUID, Some(_)) => {
            return Err(TABLE.wrong(by, "takes no name; -q NAME shows one session"));
        }
        // The kernel's session needs no name.
        (START | STOP | QUERY | UPDATE | FLUSH, None) => {
            command.name = Some(KERNEL_LOGGER.to_owned());
        }
        (_, None) => {
            return Err(TABLE.wrong(by, "a session's name is needed behind it"));
        }
        (_, Some(name)) => drop(session_name("tracelog", name)?),
    }
    if action == START {
        command.complete_kernel()?;
    }
    command.check_providers(action, by, &given)?;
    if command.sizes_in_kb && command.setup.max_size.is_none() {
        return Err(
            TABLE.wrong("kb", "it is the unit of -seq, -cir and -newfile; give one of them")
        );
    }
    command.filters.check().map_err(|error| usage(format!("tracelog: {error}")))?;
    Ok(Some((action, command)))
}

impl Command {
    /// Gives the kernel's session its defaults, and takes away what was left out.
    fn complete_kernel(&mut self) -> Result<(), Failure> {
        let is_kernels = self.name.as_deref().is_some_and(is_kernel_logger);
        let is_of_system = |source: &Source| source.named().is_of_system();
        if is_kernels && !self.guids.iter().all(is_of_system) {
            let what =
                format!("{KERNEL_LOGGER} records the kernel only; -start NAME enables providers");
            return Err(TABLE.wrong("guid", what));
        }
        if is_kernels {
            self.kernel.add(KERNEL_DEFAULTS).map_err(usage)?;
        }
        for word in &self.without {
            self.kernel.remove(word);
        }
        let lives: Vec<String> = ["process", "thread"]
            .iter()
            .filter(|word| self.without.contains(word))
            .map(|word| format!("-no{word}"))
            .collect();
        if !lives.is_empty() && !self.kernel.is_empty() {
            eprintln!(
                "etw: note: {}: no effect: other events cannot be read without processes and threads",
                lives.join(", ")
            );
        }
        if self.is_system_logger && self.kernel.is_empty() && !self.guids.iter().any(is_of_system) {
            let what = "name events of the kernel, too: -eflag N FLAG..., -dpcisr and its like, or a system provider with -guid";
            return Err(TABLE.wrong("systemlogger", what));
        }
        Ok(())
    }

    /// The session that the command starts.
    fn config(self, name: String, enabled: &[Enablement]) -> Result<SessionConfig, Failure> {
        let mut setup = self.setup;
        if !self.sizes_in_kb {
            setup.max_size = setup.max_size.map(|size| size << 10);
        }
        setup.config.real_time = self.real_time;
        setup.config.flush_timer = self.flush_timer_ms.map(|ms| Duration::from_millis(ms.into()));
        setup.config.system = self.kernel.config("tracelog", enabled)?;
        setup.finish("tracelog", name, || "LogFile.etl".into())
    }

    /// Rejects options about providers without `-guid`, and actions that need it.
    fn check_providers(
        &self,
        action: u16,
        by: &str,
        given: &[Given<Command>],
    ) -> Result<(), Failure> {
        if self.guids.is_empty() {
            let about_providers = |given: &&Given<Command>| {
                given.row.actions & ENABLE != 0 && given.name != "timeout" && given.name != by
            };
            if let Some(odd) = given.iter().find(about_providers) {
                return Err(TABLE.wrong(odd.name, "it is about providers; name them with -guid"));
            }
            if matches!(action, ENABLE | DISABLE) {
                return Err(TABLE.wrong(by, "-guid PROVIDER is needed, too"));
            }
        }
        let has_stacks = self.info.properties.contains(EnableProperties::STACK_TRACE);
        if self.filters.stacks.event_ids.is_some() && !has_stacks {
            let what = "it filters call stacks; ask for them with -EnableProperty 4";
            return Err(TABLE.wrong("StackWalkFilter", what));
        }
        Ok(())
    }

    fn property(&mut self, number: u64) -> Result<(), Failure> {
        use EnableProperties as P;
        let known = [
            P::SID,
            P::TS_ID,
            P::STACK_TRACE,
            P::IGNORE_KEYWORD_0,
            P::PROVIDER_GROUP,
            P::PROCESS_START_KEY,
            P::EXCLUDE_INPRIVATE,
        ];
        let known = known.iter().fold(0, |all, one| all | u64::from(one.0));
        if number & !known != 0 {
            let what = format!("{:#x} is not supported", number & !known);
            return Err(TABLE.wrong("enableproperty", what));
        }
        self.info.properties = P(number as u32);
        self.info.wanted.ignore_keyword_0 = self.info.properties.contains(P::IGNORE_KEYWORD_0);
        Ok(())
    }

    /// The command's enablements.
    fn enablements(&self) -> Vec<Enablement> {
        let filters = (self.filters != Filters::default()).then(|| Box::new(self.filters.clone()));
        let each = self.guids.iter().map(|source| {
            let (any, level) = match source {
                Source::One(_) => (None, None),
                Source::Line { any, level, .. } => (*any, *level),
            };
            let mut info = EnableInfo { filters: filters.clone(), ..self.info.clone() };
            info.wanted.level = Level(level.unwrap_or(self.level));
            info.wanted.any = Keyword(any.or(self.any).unwrap_or(0));
            info.wanted.all = Keyword(self.all);
            Enablement { provider: source.named(), info }
        });
        each.collect()
    }
}

/// Windows' message about a session that does not exist.
fn missing(name: &str, hint: &str) -> Failure {
    const WHAT: &str =
        "The instance name passed was not recognized as valid by a WMI data provider.";
    // Scripts look for this text in the output.
    let _ = print(&format!("Operation Status:       4201L   {WHAT}\n"));
    Failure::new(format!("tracelog: {name}: {WHAT} ({hint})"))
}

fn act(action: u16, mut command: Command) -> Result<Outcome, Failure> {
    let enablements = command.enablements();
    let name = command.name.take().unwrap_or_default();
    match action {
        START => {
            let start = command.config(name, &enablements)?;
            let has_providers = !enablements.is_empty();
            let status = Controller::connect_or_start()?.start(start, enablements)?;
            let mut text = "Logger Started...\n".to_owned();
            if has_providers {
                let _ = writeln!(text, "Enabling trace to logger {}", status.id);
            }
            print(&(text + &succeeded(&status, false)))
        }
        STOP => {
            let (status, outcome) = Controller::connect_to(&name, missing)?.stop(&name)?;
            print(&succeeded(&status, false))?;
            Ok(outcome)
        }
        QUERY => print(&succeeded(
            &Controller::connect_to(&name, missing)?.query(&name)?,
            command.with_providers,
        )),
        LIST => {
            let each = all_sessions()?;
            let each = each.iter().map(|status| properties(status, command.with_providers));
            print(&each.collect::<Vec<_>>().join("\n"))
        }
        UPDATE => {
            let controller = Controller::connect_to(&name, missing)?;
            let file = command.setup.file.as_deref().map(absolute);
            let update = Update {
                buffers: command.setup.max_buffers,
                flush_timer_ms: command.flush_timer_ms,
                file: file.transpose()?,
                real_time: command.real_time.then_some(true),
                ..Update::default()
            };
            controller.update("tracelog -update", &name, update)?;
            print(&succeeded(&controller.query(&name)?, false))
        }
        FLUSH => {
            let controller = Controller::connect_to(&name, missing)?;
            match &command.setup.file {
                Some(file) => controller.snapshot(&name, file)?,
                None => controller.flush(&name)?,
            }
            print(&succeeded(&controller.query(&name)?, false))
        }
        ENABLE => {
            let controller = Controller::connect_to(&name, missing)?;
            for enablement in &enablements {
                controller.enable(&name, enablement, command.timeout_ms)?;
            }
            let status = controller.query(&name)?;
            print(&format!("Enabling trace to logger {}\n{}", status.id, succeeded(&status, false)))
        }
        DISABLE => {
            let controller = Controller::connect_to(&name, missing)?;
            for enablement in &enablements {
                controller.disable(&name, &enablement.provider)?;
            }
            print(&succeeded(&controller.query(&name)?, false))
        }
        CAPTURE_STATE => {
            let controller = Controller::connect_to(&name, missing)?;
            let status = controller.query(&name)?;
            for (id, info) in enabled(&status) {
                controller.capture(&name, id, &info.wanted)?;
            }
            print(&succeeded(&status, false))
        }
        _ => print(&display::registered_providers()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::wanted::Named;
    use etw_types::Guid;

    fn parsed(line: &str) -> Result<Option<(u16, Command)>, Failure> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    /// OV-24: options in any case and order, with `-` or `/`.
    #[test]
    fn options_are_read_in_any_case_and_order() {
        let id = Guid::from_name("Doc");
        let line = format!(
            "/START s /Guid #{{{id}}} -GUID *Doc -LEVEL ffff -Flag 0x10 -matchallkw 2 -enableproperty 0x91 \
             -EventIdFilter -out 2 5 6 -PidFilter 1 7 -ExeFilter a;b"
        );
        let (action, command) = parsed(&line).unwrap().unwrap();
        assert_eq!((action, command.name.as_deref()), (START, Some("s")));
        let enablements = command.enablements();
        assert_eq!(enablements.len(), 2);
        for enablement in &enablements {
            assert_eq!(enablement.provider, Named::Id(id));
            let wanted = &enablement.info.wanted;
            assert_eq!((wanted.level.0, wanted.any.0, wanted.all.0), (255, 0x10, 2));
            assert!(wanted.ignore_keyword_0);
            assert_eq!(enablement.info.properties.0, 0x91);
            let filters = enablement.info.filters.as_ref().unwrap();
            assert_eq!(filters.event_ids, Some(IdFilter { include: false, ids: vec![5, 6] }));
            assert_eq!(filters.process_ids, [7]);
            assert_eq!(filters.executables, ["a", "b"]);
        }
    }

    /// OV-24: files of GUIDs, as Microsoft documents them and as control GUID files are.
    #[test]
    fn files_of_guids_have_a_line_per_provider() {
        let path = std::env::temp_dir().join(format!("etw-tracelog-{}.guid", std::process::id()));
        let one = Guid::from_u128(1);
        let text = format!(
            "; comment\r\n{one};0x30;4\r\n\r\n{{{one}}};7\n{one}   CtlGuid\n{one};ff;0xffff ; all\n"
        );
        std::fs::write(&path, text).unwrap();
        let name = path.to_str().unwrap();
        let (_, command) =
            parsed(&format!("-enable s -guid {name} -level 2 -flags 1")).unwrap().unwrap();
        let enablements = command.enablements();
        let got: Vec<_> = enablements
            .iter()
            .map(|enablement| (enablement.info.wanted.any.0, enablement.info.wanted.level.0))
            .collect();
        assert_eq!(got, [(0x30, 4), (7, 2), (1, 2), (0xff, 255)]);
        for bad in ["", "; only\n", "x;1;2\n", &format!("{one};x\n")] {
            std::fs::write(&path, bad).unwrap();
            assert!(providers::sources(name).is_err(), "{bad:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(providers::sources(name).is_err());
    }
}
