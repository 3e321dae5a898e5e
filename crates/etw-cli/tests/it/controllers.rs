//! `tracelog`, `logman`, `xperf` and `etw`'s own commands against a host that the command itself starts (OV-24).
use crate::fixture::stderr;
use ::etw::{ControlCode, Level, Provider, define_provider, write_event};
use etw_wire::host_client::Client;
use etw_wire::requests::Request;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

mod hosts;
mod logman;
mod record;
mod tracelog;
mod wpr;
mod xperf;

define_provider!(pub PROVIDER, "OpenEtw.Test.Controllers");
pub const NAME: &str = "*OpenEtw.Test.Controllers";
// Another one.
define_provider!(SECOND, "OpenEtw.Test.Second");
const SECOND_NAME: &str = "*OpenEtw.Test.Second";
// Its GUID is not the hash of its name.
define_provider!(THIRD, "OpenEtw.Test.Third", id("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"));
pub const ROLE: &str = "ETW_CLI_TEST_CONTROLLERS";
/// The arguments with which this program is the one that writes.
const PROGRAM: [&str; 4] = ["controllers::program", "--exact", "--nocapture", "--test-threads=1"];

/// A folder with a host's runtime directory; the host ends with it.
pub struct Place {
    pub folder: PathBuf,
}

impl Place {
    /// A copy of the tool that every user can run. Another process writes it: a child that another thread of this one has just forked
    /// would have it open for writing, and nobody could run it.
    pub fn copy_of_etw(&self) -> PathBuf {
        let etw = self.file("etw");
        if !etw.exists() {
            let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_etw")).arg(&etw).status();
            assert!(copied.unwrap().success());
        }
        etw
    }

    pub fn new(name: &str) -> Place {
        let folder = std::env::temp_dir().join(format!("etw-cli-{name}-{}", std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700).create(&folder).unwrap();
        builder.create(folder.join("run")).unwrap();
        Place { folder }
    }

    pub fn runtime(&self) -> PathBuf {
        self.folder.join("run")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Nothing of the user's own is asked.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("ETW_RUNTIME_DIR", self.runtime())
            .env("HOME", &self.folder)
            .env("ETW_MACHINE_PACKS", self.file("machine/packs"))
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_DATA_HOME")
            .env_remove("ETW_PACKS")
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        command
    }

    pub fn etw(&self, words: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_etw").as_ref()).args(words).output().unwrap()
    }

    /// Standard output of a command that ends with `status`.
    pub fn ends(&self, status: i32, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let output = self.etw(&words);
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert_eq!(output.status.code(), Some(status), "{line}: {}{text}", stderr(&output));
        text
    }

    /// Kills the worker of the host; its keeper starts another one.
    pub fn kill_worker(&self) {
        self.signal_worker("-9");
    }

    /// Kills the keeper of the host: its worker stores what it has, and ends.
    pub fn kill_keeper(&self) {
        send("-9", self.keeper_and_worker().0);
    }

    /// Sends a signal to the worker of the host.
    pub fn signal_worker(&self, signal: &str) {
        send(signal, self.keeper_and_worker().1);
    }

    /// The processes of the host.
    fn keeper_and_worker(&self) -> (u32, u32) {
        let environment = format!("ETW_RUNTIME_DIR={}", self.runtime().display());
        let mut hosts: Vec<(u32, u32)> = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
            let environ = String::from_utf8_lossy(&read("environ")).into_owned();
            let words = String::from_utf8_lossy(&read("cmdline")).into_owned();
            if environ.split('\0').any(|line| line == environment)
                && words.split('\0').nth(1) == Some("daemon")
            {
                let stat = String::from_utf8_lossy(&read("stat")).into_owned();
                let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
                hosts.push((pid, parent.unwrap().parse().unwrap()));
            }
        }
        let is_worker = |(_, parent): &&(u32, u32)| hosts.iter().any(|(pid, _)| pid == parent);
        let (worker, keeper) = hosts.iter().find(is_worker).expect("a keeper and its worker");
        (*keeper, *worker)
    }

    pub fn does(&self, line: &str) -> String {
        self.ends(0, line)
    }

    /// The output of `etw stat` for a file.
    fn stat(&self, name: &str) -> Value {
        serde_json::from_str(&self.does(&format!("stat --format json {name}"))).unwrap()
    }

    /// How often an event of the providers is in a file.
    fn count(&self, name: &str, event: &str) -> u64 {
        let stat = self.stat(name);
        let rows = stat["by_event"].as_array().unwrap().iter();
        let of = rows.filter(|row| {
            row["event"] == event
                && row["provider_name"].as_str().unwrap_or("").starts_with("OpenEtw.Test.")
        });
        of.map(|row| row["count"].as_u64().unwrap()).sum()
    }

    /// Events of the three kinds that programs write.
    pub fn counts(&self, name: &str) -> [u64; 3] {
        ["Info", "Detail", "State"].map(|event| self.count(name, event))
    }

    /// A program that has registered its providers, whether or not a session wants their events.
    pub fn other_program(&self) -> Program {
        self.start_program("program-at-once")
    }

    /// Registers a third provider, whose GUID is not the hash of its name.
    pub fn program_with_third(&self) -> Program {
        self.start_program("program-with-third")
    }

    /// Registers a provider by its GUID alone, whether or not a session wants its events.
    pub fn program_without_names_at_once(&self) -> Program {
        self.start_program("program-without-names-at-once")
    }

    /// The same, whether or not a session wants its events.
    pub fn program_with_third_at_once(&self) -> Program {
        self.start_program("program-with-third-at-once")
    }

    /// A program that changes its root to the folder `jail` when it has registered its providers.
    pub fn program_in_chroot(&self) -> Program {
        self.start_program("program-in-chroot-at-once")
    }

    /// Started behind a session that wants its events: from when they are wanted.
    pub fn program(&self) -> Program {
        self.start_program("program")
    }

    /// The program behind `etw record`, whose messages go to the file `said`.
    pub fn recorded_program(&self, record: &str, said: &str) -> Program {
        let said = std::fs::File::create(self.file(said)).unwrap();
        let mut command = self.command(env!("CARGO_BIN_EXE_etw").as_ref());
        command.args(record.split(' ')).arg("--").arg(std::env::current_exe().unwrap());
        Program::start(command.args(PROGRAM).env(ROLE, "program").stderr(said))
    }

    fn start_program(&self, role: &str) -> Program {
        let mut command = self.command(&std::env::current_exe().unwrap());
        Program::start(command.args(PROGRAM).env(ROLE, role))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Ok(host) = Client::connect(&self.runtime()) {
            let _ = host.ask(&Request::Shutdown);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn send(signal: &str, process: u32) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success());
}

/// A process that writes on request.
pub struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// `command` starts it.
    fn start(command: &mut Command) -> Program {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut program = Program { child, input, output: BufReader::new(output.unwrap()) };
        program.expect("ready");
        program
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn expect(&mut self, word: &str) {
        let mut line = String::new();
        // Behind what the test's harness says.
        while !line.trim_end().ends_with(word) {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the program has ended");
        }
    }

    /// So many events of level 4 and keyword 1, as many of level 5 and keyword 2.
    pub fn writes(&mut self, count: u32) {
        writeln!(self.input.as_mut().unwrap(), "{count}").unwrap();
        self.expect("written");
    }

    pub fn ends(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write(provider: &'static Provider, number: u32) {
    let _ =
        write_event!(provider, "Info", level(Informational), keyword(0x1), u32("Number", &number));
    let _ = write_event!(provider, "Detail", level(Verbose), keyword(0x2), u32("Number", &number));
}

/// An event of a manifest: id 2, a number, and a text of the number in UTF-16.
fn write_numbered(shop: etw::evntprov::RegHandle, number: u32) {
    let descriptor = etw::EventDescriptor {
        id: 2,
        level: Level::INFO,
        keyword: etw::Keyword(0x10),
        ..Default::default()
    };
    let text: Vec<u8> =
        format!("n{number}\0").encode_utf16().flat_map(|unit| unit.to_le_bytes()).collect();
    let number = number.to_le_bytes();
    let data = [&number[..], &text].map(etw::evntprov::EventDataDescriptor::new);
    let _ = etw::evntprov::event_write(shop, Some(&descriptor), &data);
}

/// Not a test by itself: the program that writes.
#[test]
fn program() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let _registration = PROVIDER.register_with(|change| {
        if change.control == ControlCode::CaptureState {
            let _ = write_event!(PROVIDER, "State", level(Informational), keyword(0x1));
        }
    });
    let _second = SECOND.register();
    let role = std::env::var(ROLE).unwrap_or_default();
    let has_third = role.starts_with("program-with-third");
    let _third = has_third.then(|| THIRD.register());
    // Registration waits for a busy host no longer than a program may be held up.
    let end = Instant::now() + Duration::from_secs(120);
    let is_wanted = || {
        let provider = if has_third { &THIRD } else { &PROVIDER };
        provider.is_enabled(Level::INFO, etw::Keyword(0x1)) || role.ends_with("at-once")
    };
    while !is_wanted() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    let shop = role.starts_with("program-without-names").then(|| {
        let id: etw::Guid = "11111111-2222-3333-4444-555555555555".parse().unwrap();
        etw::evntprov::event_register(&id, None).unwrap()
    });
    if role.starts_with("program-in-chroot") {
        std::os::unix::fs::chroot("jail").unwrap();
    }
    println!("ready");
    for line in std::io::stdin().lines() {
        if let Some(shop) = shop {
            // An event that no session wants is not counted.
            while !etw::evntprov::event_provider_enabled(shop, Level::INFO, etw::Keyword(0x10))
                && Instant::now() < end
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            let descriptor = etw::EventDescriptor {
                id: 1,
                level: Level::INFO,
                keyword: etw::Keyword(0x10),
                ..Default::default()
            };
            let _ = etw::evntprov::event_write(shop, Some(&descriptor), &[]);
        }
        for number in 0..line.unwrap().parse().unwrap() {
            if let Some(shop) = shop {
                write_numbered(shop, number);
            }
            write(&PROVIDER, number);
            write(&SECOND, number);
            write(&THIRD, number);
        }
        println!("written");
    }
}

/// The value in a row of a display.
fn field<'t>(text: &'t str, name: &str) -> &'t str {
    let row = text.lines().find(|line| line.trim_start().starts_with(name));
    let row = row.unwrap_or_else(|| panic!("no {name} in {text}"));
    row.trim_start()[name.len()..].trim_start_matches([' ', ':']).trim()
}

/// OV-24: names are what others chose: nothing in them moves the terminal's cursor or breaks a row.
#[test]
fn controllers_show_hostile_names_as_text() {
    let place = Place::new("controllers-hostile");
    let name = "a\u{1b}[2J\nOperation Status: 0L";
    let output = place.etw(&["tracelog", "-start", name, "-rt"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for words in [
        &["tracelog", "-l"][..],
        &["tracelog", "-q", name],
        &["logman", "query", "-ets"],
        &["logman", "query", name, "-ets"],
        &["xperf", "-loggers"],
    ] {
        let text = String::from_utf8(place.etw(words).stdout).unwrap();
        assert!(text.contains("a\u{fffd}[2J\u{fffd}Operation"), "{words:?}: {text}");
        assert!(!text.contains('\u{1b}'), "{words:?}");
    }
}

/// OV-24: by a link's name, or a copy's, which starts a host as `etw` does.
#[test]
fn a_link_named_like_a_controller_is_that_controller() {
    let place = Place::new("controllers-by-name");
    let program = Path::new(env!("CARGO_BIN_EXE_etw"));
    for name in ["logman", "xperf"] {
        std::os::unix::fs::symlink(program, place.file(name)).unwrap();
    }
    // By another process: a child of another test that is about to begin would hold the file open for writing.
    assert!(
        Command::new("cp").arg(program).arg(place.file("tracelog")).status().unwrap().success()
    );
    let run = |name: &str, line: &str| {
        let output =
            place.command(&place.file(name)).args(line.split_whitespace()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name} {line}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    run("tracelog", "-start My -f my.etl");
    assert!(run("logman", "query -ets").contains("\nMy "));
    assert!(run("xperf", "-loggers").contains(": My\n"));
    run("logman", "stop My -ets");
    for (name, line) in [("tracelog", "-?"), ("logman", "/?"), ("xperf", "-help")] {
        assert!(run(name, line).starts_with(name), "{name} {line}");
        assert!(place.does(&format!("{name} -h")).starts_with(name));
    }
}

/// Command lines that are rejected, and a part of the message.
const REFUSED: &[(&str, &str)] = &[
    ("tracelog", "no action is given"),
    ("tracelog -stop GlobalLogger", "kernel"),
    ("tracelog -start s -EFLAG 1 x", "no class of system events"),
    ("tracelog -start s -cm", "kernel"),
    ("tracelog -start s -eflag 1 REGISTRY", "does not record these events"),
    ("tracelog -start -guid *A", "records the kernel only"),
    ("tracelog -start s -stackwalk Profile", "name its flags"),
    ("tracelog -start -setprofint 1", "shortest interval"),
    ("tracelog -start -stackwalk RegQueryKey", "no call stacks of this event"),
    ("tracelog -addautologger s", "sessions.json"),
    ("tracelog -start s -um", "private session"),
    ("tracelog -start s -gs", "sequence numbers"),
    ("tracelog -x", "by its name"),
    ("tracelog -start s -nonsense", "no such option"),
    ("tracelog -start s -f a.etl b.etl", "belongs to no option"),
    ("tracelog -start s -stop t", "one thing"),
    ("tracelog -stop s -f a.etl", "-stop"),
    ("tracelog -update s -b 8", "-update"),
    ("tracelog -update s -guid *A", "-update"),
    ("tracelog -l s", "takes no name"),
    ("tracelog -start s -level 4", "-guid"),
    ("tracelog -enable s", "-guid"),
    ("tracelog -disable s", "-guid"),
    ("tracelog -start s -guid", "needed"),
    ("tracelog -start s -guid #1", "is not a GUID"),
    ("tracelog -start s -guid nobody.guid", "write a GUID as #GUID"),
    ("tracelog -start s -guid bad.guid", "line 1"),
    ("tracelog -start s -guid *A -level", "number"),
    ("tracelog -start s -guid *A -level x", "not a number"),
    ("tracelog -start s -guid *A -flag 1 -matchanykw 2", "one mask"),
    ("tracelog -start s -guid *A -enableproperty 0x400", "0x400"),
    ("tracelog -start s -guid *A -EventIdFilter 1 2", "-in or -out"),
    ("tracelog -start s -guid *A -EventIdFilter -in 2 1", "announced"),
    ("tracelog -start s -guid *A -PidFilter 9 1 2 3 4 5 6 7 8 9", "at most 8"),
    ("tracelog -start s -in", "-EventIdFilter"),
    ("tracelog -start s -StackWalkFilter -in 1 1", "-guid"),
    ("tracelog -start s -guid *A -StackWalkFilter -in 1 1", "call stacks"),
    ("tracelog -start s -cir", "number"),
    ("tracelog -start s -cir 1 -seq 1", "exclude"),
    ("tracelog -start s -cir 0", "maximum size 0"),
    ("tracelog -start s -newfile 1", "%d"),
    ("tracelog -start s -f a.etl -append -rt", "-rt: log mode append excludes"),
    ("tracelog -start s -f a.etl -append -UsePerfCounter", "system time"),
    ("tracelog -start s -buffering -rt", "memory"),
    ("tracelog -start s -buffering -f a.etl", "memory"),
    ("tracelog -start s -prealloc", "-prealloc"),
    ("tracelog -start s -kb", "unit"),
    ("tracelog -start s -rt -seq 1", "needs a file"),
    ("tracelog -start s -b 1", "4 to 16384"),
    ("tracelog -start s -min 9 -max 8", "not possible"),
    ("tracelog -start s -ft 4294968", "too long"),
    ("tracelog -start s -age 1", "buffers"),
    ("tracelog -systemrundown s", "kernel"),
    ("logman start s", "-ets"),
    ("logman create trace s -o a.etl -p *A", "-ets"),
    ("logman query", "-ets"),
    ("logman query s", "-ets"),
    ("logman stop s", "-ets"),
    ("logman update s -rt", "-ets"),
    ("logman delete s", "-ets"),
    ("logman import s", "saved"),
    ("logman export s -xml a", "command line"),
    ("logman create counter s -c x", "nothing is scheduled or counted"),
    ("logman create counter s", "create trace"),
    ("logman create alert s -ets", "create trace"),
    ("logman start -ets", "name is needed"),
    ("logman start a b -ets", "belongs to no option"),
    ("logman start NT_Kernel_Logger -p *A (process,thread) -ets", "mask"),
    ("logman start s -p -ets", "needed"),
    ("logman start s -p *A Keyword -ets", "mask"),
    ("logman start s -p *A 1 Loud -ets", "level"),
    ("logman start s -pf nobody -ets", "nobody"),
    ("logman start s -p *A -s other -ets", "other computers"),
    ("logman start s -rf 10 -ets", "scheduled"),
    ("logman start s -b 1/1/2030 -ets", "scheduled"),
    ("logman start s -cnf 10 -ets", "NewFile"),
    ("logman start s -v mmddhhmm -ets", "-o"),
    ("logman start s -ul -ets", "private session"),
    ("logman start s -mode globalsequence -ets", "sequence numbers"),
    ("logman start s -mode nonsense -ets", "Circular"),
    ("logman start s -f csv -ets", "bincirc"),
    ("logman start s -f bincirc -ets", "maximum size"),
    ("logman start s -f bincirc -a -max 1 -ets", "exclude"),
    ("logman start s -ct sundial -ets", "perf"),
    ("logman start s -ft 1:x -ets", "not a time"),
    ("logman start s -nb 4 -ets", "number"),
    ("logman start s -nb 1 1 -ets", "at least 2"),
    ("logman update s -nb 9 8 -ets", "above"),
    ("logman start s -pid 4 -ets", "does not go with"),
    ("logman stop s -p *A -ets", "does not go with"),
    ("logman update s -bs 4 -ets", "does not go with"),
    ("logman query providers -rt", "does not go with"),
    ("logman query providers *A -pid 4", "without a name"),
    ("logman start s -nonsense -ets", "no such option"),
    ("xperf -on *A", "kernel"),
    ("xperf -on Latency+*A", "records the kernel only"),
    ("xperf -on SPINLOCK", "does not record these events"),
    ("xperf -on Latency -stackwalk FlightRecorder", "no event with call stacks"),
    ("xperf -on Latency -setprofint 100 cached", "shortest interval"),
    ("xperf -f a.etl", "kernel"),
    ("logman start s -p Windows_Kernel_Trace -ets", "needs its flags"),
    ("logman start s -p Windows_Kernel_Trace (colour) -ets", "no class of system events"),
    ("xperf -start s", "-on"),
    ("xperf -start s -f a.etl", "-on"),
    ("xperf -start s -start t -on *A", "-on"),
    ("xperf -i a.etl -on *A -a process", "name a session"),
    ("xperf -start profiles.xml!main -on *A", "profiles"),
    ("xperf -start s -on *A:1:4:'stock'", "stack, sid and tsid"),
    ("xperf -start s -on *A:1:4:'stack':x", "too much"),
    ("xperf -start s -on *A:x", "not a mask"),
    ("xperf -start s -on *A:1:300", "levels"),
    ("xperf -start s -on *A+", "missing"),
    ("xperf -start s -on *A *B", "belongs to no option"),
    ("xperf -start s -on *A -heap", "private session"),
    ("xperf -start s -on *A -stackwalk x", "call stacks"),
    ("xperf -start s -on *A -FileMode Spiral", "Circular"),
    ("xperf -start s -on *A -FileMode Circular", "maximum size"),
    ("xperf -start s -on *A -ClockType Sundial", "PerfCounter"),
    ("xperf -start s -on *A -BufferSize 1", "4 to 16384"),
    ("xperf -start s -on *A -d merged.etl", "does not go with"),
    ("xperf -update s -BufferSize 64", "while a session runs"),
    ("xperf -loggers s", "belongs to no option"),
    ("xperf -flush s -d x", "does not go with"),
    ("xperf -capturestate s", "needed"),
    ("xperf -merge a.etl", "needed"),
    ("xperf -stopall", "by its name"),
    ("xperf -i a.etl -a sysconfig", "etw dump"),
    ("xperf -i a.etl -a process -range 0 1", "-a dumper"),
    ("xperf -providers I", "etw provider list"),
    ("xperf -boottrace Base", "kernel"),
    ("xperf trace.etl", "belongs to no option"),
    ("xperf -nonsense", "no such option"),
];

/// OV-24: what is not supported is refused with status 2 and a sentence, and before a host is asked or started.
#[test]
fn controllers_refuse_unsupported_options_before_they_ask_a_host() {
    let place = Place::new("controllers-refuse");
    std::fs::write(place.file("bad.guid"), "nonsense\n").unwrap();
    let mut wrong = Vec::new();
    for (line, why) in REFUSED {
        // Names of Windows' own sessions have spaces in them.
        let words: Vec<String> = line
            .split_whitespace()
            .map(|word| match word {
                "NT_Kernel_Logger" | "Windows_Kernel_Trace" => word.replace('_', " "),
                word => word.to_owned(),
            })
            .collect();
        let output = place.etw(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let said = stderr(&output);
        let is_refusal = output.status.code() == Some(2) && output.stdout.is_empty();
        if !is_refusal
            || !said.starts_with("etw: ")
            || said.lines().count() != 1
            || !said.contains(why)
        {
            wrong.push(format!("{line}: {:?} {said}", output.status.code()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(std::fs::read_dir(place.runtime()).unwrap().count(), 0, "no host was started");
    assert!(!place.file("LogFile.etl").exists());
    // Without a host there is no session to control.
    for line in [
        "tracelog -stop s",
        "tracelog -q s",
        "logman stop s -ets",
        "xperf -stop s",
        "xperf -flush",
        "xperf -stop",
    ] {
        let output = place.etw(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(3), "{line}");
        assert!(stderr(&output).contains("no host of sessions is running"), "{line}");
    }
}

/// OV-7, OV-17: call stacks by every controller, by name and level; `--join` says what the addresses lie in.
#[test]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn every_controller_enables_call_stacks_by_name_and_level() {
    let place = Place::new("stacks");
    let this = std::env::current_exe().unwrap();
    let this = this.file_name().unwrap().to_str().unwrap();
    for line in [
        format!(
            "tracelog -start t -f t.etl -guid {NAME} -enableproperty 4 -StackWalkFilter -in 1 7"
        ),
        format!("xperf -start x -f x.etl -on {NAME}:1:5:'stack,sid'"),
        format!("etw session start n -o n.etl -p {NAME} --with stack --stack-name Info"),
        format!("etw session start l -o l.etl -p {NAME} --with stack --stack-level -4:1"),
        format!("etw session start p -o p.etl -p {NAME} --payload Detail:Number>=1,Number!=2"),
    ] {
        place.does(line.strip_prefix("etw ").unwrap_or(&line));
    }
    let mut program = place.program();
    program.writes(4);
    let pid = program.child.id();
    // How many Info and Detail events have a stack, and have none.
    for (session, expected) in [
        // Ids are of no concern to TraceLogging's events.
        ("t", [[4, 0], [4, 0]]),
        ("x", [[4, 0], [0, 0]]),
        ("n", [[4, 0], [0, 4]]),
        ("l", [[0, 4], [4, 0]]),
        ("p", [[0, 4], [0, 2]]),
    ] {
        place.does(&format!("session stop {session}"));
        let text = place.does(&format!("dump --join --format json {session}.etl"));
        let mut counts = [[0, 0], [0, 0]];
        for line in text.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            let kind = match event["event"].as_str() {
                Some("Info") => 0,
                Some("Detail") => 1,
                _ => continue,
            };
            if event["provider_name"] != PROVIDER.name() {
                continue;
            }
            assert_eq!(event["pid"], pid);
            let images = event["frames"].as_array();
            counts[kind][usize::from(images.is_none())] += 1;
            let Some(images) = images else { continue };
            assert_eq!(images.len(), event["stack"].as_array().unwrap().len());
            let of_program = |image: &Value| {
                // A function of the program, as far as symbols are there.
                let name = image.as_str().and_then(|image| image.strip_prefix(this));
                name.is_some_and(|rest| rest.starts_with("!") || rest.starts_with("+0x"))
            };
            assert!(images.iter().any(of_program), "{line}");
            assert!(images.iter().all(Value::is_string), "{line}");
        }
        assert_eq!(counts, expected, "{session}");
    }
    program.ends();
}

/// The names of providers and sessions neither move the terminal's cursor nor start lines.
#[test]
fn names_do_not_control_the_terminal() {
    let place = Place::new("names");
    let session = "red\u{1b}[31m\nline";
    let id = "6d5f0d0e-7c37-4b8e-9d3c-1f0a2b3c4d5e";
    assert!(place.etw(&["session", "start", session, "--buffering", "-p", id]).status.success());
    for line in [&["session", "list"][..], &["session", "query", session], &["provider", "list"]] {
        let output = place.etw(line);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("red\u{fffd}[31m\u{fffd}line"), "{line:?}: {text}");
    }
}

/// A name has one GUID, with the star that it has among other providers, too.
#[test]
fn a_name_has_one_guid() {
    let place = Place::new("guid");
    let guid = |name: &str| place.etw(&["provider", "guid", name]).stdout;
    let expected = format!("{}\n", ::etw_types::Guid::from_name(&NAME[1..]));
    assert_eq!(String::from_utf8(guid(NAME)).unwrap(), expected);
    assert_eq!(guid(&NAME[1..]), guid(NAME));
}

/// A query says what a session wants, filters with it; a provider is wanted once.
#[test]
fn a_query_shows_enablements_and_filters() {
    let place = Place::new("wanted");
    place.does(&format!(
        "session start q --buffering -p {NAME}:4:0x10 --pid 5 --payload Detail:Number>=1 --with sid"
    ));
    let text = place.does("session query q");
    for wanted in [
        "level 4 any 0x10",
        "EnableProperties(SID)",
        r#""process_ids":[5]"#,
        r#""field":"Number""#,
        r#""values":["1"]"#,
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(!text.contains("executables"), "what says nothing is left out: {text}");
    place.does("session stop q");
    for line in ["session start q --buffering", "record -o q.etl", "tail"] {
        let line = format!("{line} -p {NAME} -p {NAME}:5");
        let output = place.etw(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(stderr(&output).contains("is named twice"), "{}", stderr(&output));
    }
    assert!(place.does("session list").is_empty());
}

/// Providers stand alone or behind `-p`; a session without output says what is missing.
#[test]
fn options_are_spelt_alike_everywhere() {
    let place = Place::new("spelling");
    place.does("session start s --buffering --format json");
    place.does(&format!("session enable s -p {NAME}:4"));
    place.does(&format!("session enable s {SECOND_NAME} -p {NAME}:3 --timeout 0"));
    let text = place.does("session query s --json");
    let status: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status["enabled"].as_object().unwrap().len(), 2, "{text}");
    place.does(&format!("session disable s -p {SECOND_NAME}"));
    place.does(&format!("session capture-state s -p {NAME}"));
    for (line, status, why) in [
        ("session enable s", 2, "PROVIDER"),
        ("session start t", 2, "session start t: no output is named: give -o FILE"),
        ("session start t --real-time --max-size 1M", 2, "--max-size is about a file"),
        ("session start t --buffering --compress", 2, "--compress is about a file"),
        ("tail", 2, "tail: name a session (etw tail SESSION) or a provider"),
        ("session list --system-host", 3, "/run/openetw"),
        ("wpa -i x.etl", 2, "ui.perfetto.dev"),
        ("pktmon start", 2, "tcpdump"),
        ("PerfView collect", 2, "etw convert --to perfetto"),
        ("tracepdb.exe -f x.pdb", 2, "etw tracefmt -pdb"),
        ("netsh trace start", 2, "tcpdump"),
    ] {
        let output = place.etw(&line.split(' ').collect::<Vec<_>>());
        if line.ends_with("--system-host") && output.status.success() {
            // A machine with a host.
            continue;
        }
        assert_eq!(output.status.code(), Some(status), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{line}: {}", stderr(&output));
    }
    for name in ["wpr", "wevtutil", "netsh", "pktmon", "tracelog", "logman", "xperf", "tracerpt"] {
        assert!(place.does(&format!("{name} --help")).starts_with(name), "{name}");
    }
}
