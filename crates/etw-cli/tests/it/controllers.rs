//! `tracelog`, `logman` and `xperf`: their everyday forms against a host that the command itself starts (OV-24).
use crate::fixture::stderr;
use ::etw::{ControlCode, Level, Provider, define_provider, write_event};
use etw_wire::host_client::Client;
use etw_wire::requests::Request;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

define_provider!(pub PROVIDER, "OpenEtw.Test.Controllers");
pub const NAME: &str = "*OpenEtw.Test.Controllers";
// Another one.
define_provider!(SECOND, "OpenEtw.Test.Second");
const SECOND_NAME: &str = "*OpenEtw.Test.Second";
// Its GUID is not the hash of its name.
define_provider!(THIRD, "OpenEtw.Test.Third", id("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"));
pub const ROLE: &str = "ETW_CLI_TEST_CONTROLLERS";

/// A folder with a host's runtime directory; the host ends with it.
pub struct Place {
    folder: PathBuf,
}

impl Place {
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
        let (worker, _) = hosts.iter().find(is_worker).expect("a keeper and its worker");
        assert!(Command::new("kill").args(["-9", &worker.to_string()]).status().unwrap().success());
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

    /// The same, whether or not a session wants its events.
    pub fn program_with_third_at_once(&self) -> Program {
        self.start_program("program-with-third-at-once")
    }

    /// Started behind a session that wants its events: from when they are wanted.
    pub fn program(&self) -> Program {
        self.start_program("program")
    }

    fn start_program(&self, role: &str) -> Program {
        let mut child = self
            .command(&std::env::current_exe().unwrap())
            .args(["controllers::program", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut program = Program { child, input, output: BufReader::new(output.unwrap()) };
        program.expect("ready");
        program
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

/// A process that writes on request.
pub struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
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

    fn ends(mut self) {
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
    println!("ready");
    for line in std::io::stdin().lines() {
        for number in 0..line.unwrap().parse().unwrap() {
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

/// OV-24: a session from its start to its stop, its providers changed meanwhile.
#[test]
fn tracelog_controls_a_session() {
    let place = Place::new("tracelog");
    assert_eq!(place.does("tracelog -l"), "");
    assert_eq!(place.does("tracelog -enumguid").lines().count(), 2);
    let id = PROVIDER.id();
    let text = place.does(&format!("tracelog -start My -f my.etl -guid {NAME} -level 4 -flag 0x1"));
    assert!(
        text.starts_with(
            "Logger Started...\nEnabling trace to logger 1\nOperation Status:       0L "
        ),
        "{text}"
    );
    assert_eq!(field(&text, "Logger Name"), "My");
    assert_eq!(field(&text, "Log Filename"), place.file("my.etl").to_str().unwrap());
    let mut program = place.program();
    program.writes(10);

    let text = place.does("tracelog -enumguid");
    let rows: Vec<Vec<&str>> =
        text.lines().skip(2).map(|row| row.split_whitespace().collect()).collect();
    let (id, second) = (id.to_string(), SECOND.id().to_string());
    assert!(rows.contains(&vec![&id, "TRUE", "1", "4", "0x1"]), "{text}");
    assert!(rows.contains(&vec![&second, "FALSE", "0", "0", "0"]), "{text}");

    let text = place.does("tracelog /Q my /LP");
    assert_eq!(field(&text, "Logger Id"), "0x1");
    assert_eq!(field(&text, "Log Mode"), "Sequential");
    assert_eq!(field(&text, "Enabled Providers"), "1");
    assert!(field(&text, &id).starts_with("Level 4  MatchAnyKeyword 0x1 "), "{text}");
    assert!(!place.does("tracelog -q MY").contains("Enabled Providers"));
    assert!(place.does("tracelog -l").starts_with("Logger Name:            My\n"));

    place.does("tracelog -flush My");
    assert_eq!(place.counts("my.etl"), [10, 0, 0]);
    place.does(&format!("tracelog -enable My -guid #{{{id}}} -level 5 -timeout 20000"));
    program.writes(10);
    place.does(&format!("tracelog -disable My -guid #{id}"));
    program.writes(10);
    let text = place.does("tracelog -capturestate My");
    assert!(text.starts_with("Operation Status:       0L"));
    place.does(&format!("tracelog -enable My -guid {NAME} -timeout 20000"));
    place.does("tracelog -capturestate My");
    let text = place.does("tracelog -stop My");
    assert_eq!(field(&text, "Events Lost"), "0");
    assert_eq!(place.counts("my.etl"), [20, 10, 1]);
    assert_eq!(place.does("tracelog -l"), "");
    place.ends(3, "tracelog -stop My");
    program.ends();
}

/// OV-24: how files are written, and what else a start says.
#[test]
fn tracelog_starts_sessions_of_every_kind() {
    let place = Place::new("tracelog-kinds");
    let id = PROVIDER.id();
    std::fs::write(place.file("two.guid"), format!("; both\n{id};0x1;4\n{};2\n", SECOND.id()))
        .unwrap();
    let start = |options: &str| place.does(&format!("tracelog -start s {options}"));

    // The file's default name, circular, a clock, a timer, small buffers, a maximum in KB.
    let text = start(&format!(
        "-cir 64 -kb -b 4 -min 4 -max 8 -ft 3 -UseSystemTime -lowcapacity -independent -guid {NAME}"
    ));
    for (name, value) in [
        ("Buffer Size", "4 Kb"),
        ("Maximum Buffers", "8"),
        ("ClockType", "SystemTime"),
        ("Log Mode", "Independent  LowCapacity  Circular"),
        ("Maximum File Size", "64 Kb"),
        ("Buffer Flush Timer", "3 secs"),
        ("Log Filename", place.file("LogFile.etl").to_str().unwrap()),
    ] {
        assert_eq!(field(&text, name), value, "{text}");
    }
    place.ends(3, "tracelog -start S -f other.etl");
    let mut program = place.program();
    program.writes(5);
    place.does("tracelog -stop s");
    assert_eq!(place.counts("LogFile.etl"), [5, 5, 0]);
    assert_eq!(place.stat("LogFile.etl")["clock"], "system");

    // A file of GUIDs; appended to.
    start("-f a.etl -guid two.guid -UseSystemTime");
    program.writes(3);
    place.does("tracelog -stop s");
    assert_eq!(place.counts("a.etl"), [3, 3, 0]);
    start(&format!("-f a.etl -append -guid {NAME}"));
    program.writes(4);
    place.does("tracelog -stop s");
    assert_eq!(place.counts("a.etl"), [7, 7, 0]);

    // A series of files.
    start(&format!("-f n%d.etl -newfile 16 -kb -b 4 -guid {NAME}"));
    program.writes(1000);
    place.does("tracelog -stop s");
    assert!(place.file("n2.etl").exists());

    // At its maximum size a sequential file takes no more, which is a loss of this run.
    start(&format!("-f full.etl -seq 16 -kb -prealloc -b 4 -guid {NAME}"));
    program.writes(1000);
    let text = place.ends(1, "tracelog -stop s");
    assert_ne!(field(&text, "Events Lost"), "0");

    // Memory, written when it is asked for.
    let text = start(&format!("-buffering -guid {NAME} -guid {SECOND_NAME}"));
    assert_eq!(field(&text, "Mode"), "Buffering");
    program.writes(6);
    place.does("tracelog -flush s -f snap.etl");
    place.does("tracelog -stop s");
    assert_eq!(place.counts("snap.etl"), [12, 12, 0]);

    // Real time, and a file beside it.
    let text = start("-rt -f rt.etl");
    assert_eq!(field(&text, "Log Mode"), "RealTime  Sequential");
    assert!(!text.contains("Enabling trace"));
    place.does("tracelog -stop s");

    // Filters, ids beside events, and no event without a keyword.
    let pid = program.child.id();
    start(&format!("-f f.etl -guid {NAME} -PidFilter 2 {pid} 1 -enableproperty 0x81"));
    program.writes(2);
    place.does("tracelog -stop s");
    assert_eq!(place.counts("f.etl"), [2, 2, 0]);
    start(&format!(
        "-f f.etl -guid {NAME} -PidFilter 1 1 -EventIdFilter -in 1 7 -ExeFilter other;another"
    ));
    program.writes(2);
    place.does("tracelog -stop s");
    assert_eq!(place.counts("f.etl"), [0, 0, 0]);
    program.ends();
}

/// OV-24: a running session changed.
#[test]
fn tracelog_updates_a_running_session() {
    let place = Place::new("tracelog-update");
    place.does(&format!("tracelog -start s -f one.etl -max 8 -guid {NAME}"));
    let mut program = place.program();
    program.writes(2);
    let text = place.does("tracelog -update s -f two.etl -ft 2 -max 12 -rt");
    for (name, value) in [
        ("Number of Buffers", "12"),
        ("Log Mode", "RealTime  Sequential"),
        ("Buffer Flush Timer", "2 secs"),
        ("Log Filename", place.file("two.etl").to_str().unwrap()),
    ] {
        assert_eq!(field(&text, name), value, "{text}");
    }
    place.ends(2, "tracelog -update s -max 8");
    program.writes(3);
    place.does("tracelog -stop s");
    assert_eq!((place.counts("one.etl"), place.counts("two.etl")), ([2, 2, 0], [3, 3, 0]));
    program.ends();
}

/// OV-24
#[test]
fn logman_controls_a_session() {
    let place = Place::new("logman");
    let done = "The command completed successfully.\n";
    assert!(place.does("logman query -ets").ends_with(done));
    let line = format!(
        "logman create trace My -p {NAME} 0x1 win:Informational -bs 16 -nb 4 8 -ct system -ft 1:00 -o out -ets"
    );
    assert_eq!(place.does(&line), done);
    let mut program = place.program();
    program.writes(10);

    let text = place.does("logman query -ets");
    let row: Vec<&str> = text.lines().nth(3).unwrap().split_whitespace().collect();
    assert_eq!(row, ["My", "Trace", "Running"]);
    assert_eq!(place.does("logman -ets"), text);
    let guid = format!("{{{}}}", PROVIDER.id().to_string().to_uppercase());
    let text = place.does("logman query MY -ets");
    for (name, value) in [
        ("Name", "My"),
        ("Status", "Running"),
        ("Type", "Trace"),
        ("Output Location", place.file("out.etl").to_str().unwrap()),
        ("Circular", "Off"),
        ("Buffer Size", "16"),
        ("Buffer Flush Timer", "60"),
        ("Clock Type", "System"),
        ("File Mode", "File"),
        ("Provider Guid", &guid),
        ("Level", "4 (win:Informational)"),
        ("KeywordsAny", "0x1"),
    ] {
        assert_eq!(field(&text, name), value, "{text}");
    }
    // By the name that the program has registered.
    assert!(text.contains("Provider:\nName:                 OpenEtw.Test.Controllers\n"), "{text}");

    let text = place.does("logman query providers");
    assert!(text.contains(&format!("OpenEtw.Test.Controllers                 {guid}\n")), "{text}");
    assert!(text.contains("OpenEtw.Test.Second "));
    let pid = program.child.id();
    assert_eq!(place.does(&format!("logman query providers -pid {pid}")), text);
    let one = place.does("logman query providers OpenEtw.Test.Controllers");
    assert!(field(&one, &format!("{pid:#010x}")).contains("/it-"), "{one}");
    place.ends(2, "logman query providers Nobody.Knows");

    assert_eq!(place.does("logman update My -p OpenEtw.Test.Controllers 0x3 5 -fd -ets"), done);
    program.writes(10);
    place.does(&format!(
        "logman update trace My --p {NAME} 0x3 -p {SECOND_NAME} 2 -o next.etl -nb 4 16 -rt -ets"
    ));
    assert_eq!(field(&place.does("logman query My -ets"), "File Mode"), "File, Real-time");
    program.writes(10);
    assert_eq!(place.does("logman stop My -ets"), done);
    assert_eq!(place.counts("out.etl"), [20, 10, 0]);
    assert_eq!(place.counts("next.etl"), [0, 10, 0]);
    assert_eq!(place.stat("out.etl")["clock"], "system");
    place.ends(3, "logman stop My -ets");
    place.ends(3, "logman query My -ets");
    place.ends(3, "logman update My -ets");
    program.ends();
}

/// OV-24: how files are written, with the words in which Microsoft's support asks for traces.
#[test]
fn logman_starts_sessions_of_every_kind() {
    let place = Place::new("logman-kinds");
    std::fs::write(
        place.file("list"),
        format!("{{{}}} 0x1 0x4 Name\n{SECOND_NAME}\n", PROVIDER.id()),
    )
    .unwrap();
    let line = format!(
        "logman create trace s -ow -o {} -pf list -nb 16 16 -bs 1024 -mode Circular -f bincirc -max 8 -ets",
        place.file("c.etl").display()
    );
    place.does(&line);
    let text = place.does("logman query s -ets");
    assert_eq!((field(&text, "Circular"), field(&text, "Segment Max Size")), ("On", "8 MB"));
    let mut program = place.program();
    program.writes(5);
    place.does("logman stop s -ets");
    assert_eq!(place.counts("c.etl"), [10, 5, 0]);

    // Its own name, when none is given; then more of the same.
    place.does(&format!("logman start s -ct system -p {NAME} -ets"));
    program.writes(5);
    place.does("logman stop s -ets");
    place.does(&format!("logman start s -a -p {NAME} -o s.etl -ets"));
    program.writes(5);
    place.does("logman stop s -ets");
    assert_eq!(place.counts("s.etl"), [10, 10, 0]);
    place.ends(3, "logman start s -o s.etl --ow -ets");
    place.does(&format!("logman start s -mode NewFile -max 1 -bs 4 -p {NAME} -o n%d.etl -rt -ets"));
    place.does("logman stop s -ets");
    assert!(place.file("n1.etl").exists());
    place.does("logman start s -rt -mode pagedmemory -ets");
    assert_eq!(field(&place.does("logman s -ets"), "File Mode"), "Real-time");
    place.does("logman stop s -ets");
    program.ends();
}

/// OV-24
#[test]
fn xperf_controls_sessions() {
    let place = Place::new("xperf");
    assert_eq!(place.does("xperf -loggers"), "");
    let second = SECOND.id();
    assert_eq!(
        place.does(&format!(
            "xperf -start a -on {NAME}:0x1:4 -f a.etl -BufferSize 32 -MinBuffers 4 -MaxBuffers 8 -MaxFile 4 \
             -FileMode Circular -FlushTimer 1 -ClockType SystemTime -start b -on {NAME}+{second} -f b.etl"
        )),
        ""
    );
    let text = place.does("xperf -Loggers");
    assert_eq!(text.matches("Logger Name           : ").count(), 2);
    for (name, value) in [
        ("Buffer Size", "32"),
        ("Maximum Buffers", "8"),
        ("Flush Timer", "1"),
        ("Log File Mode", "Circular"),
        ("Maximum File Size", "4"),
        ("Log Filename", place.file("a.etl").to_str().unwrap()),
        ("Trace Flags", &format!("{}:0x1:0x4", PROVIDER.id())),
    ] {
        assert_eq!(field(&text, name), value, "{text}");
    }
    let mut program = place.program();
    program.writes(10);
    place.does("xperf -flush a");
    assert_eq!(place.counts("a.etl"), [10, 0, 0]);
    place.does(&format!("xperf -update a -on {SECOND_NAME} -MaxBuffers 9"));
    program.writes(1);
    place.does(&format!("xperf -capturestate b {NAME}:1:4+{second}"));
    let text = place.does("xperf -stop a b -d merged.etl");
    assert!(text.ends_with("Merged Etl: merged.etl\n"), "{text}");
    assert_eq!(place.counts("a.etl"), [12, 1, 1]);
    assert_eq!(place.counts("b.etl"), [22, 22, 1]);
    assert_eq!(place.counts("merged.etl"), [34, 23, 2]);
    place.does("xperf -merge a.etl b.etl again.etl");
    assert_eq!(place.counts("again.etl"), [34, 23, 2]);

    // Memory; a merge needs files, and nothing is stopped before that is known.
    place.does(&format!("xperf -start c -on {NAME} -Buffering"));
    program.writes(3);
    place.ends(2, "xperf -stop c -d merged.etl");
    place.does("xperf -flush c -f c.etl");
    place.does("xperf -stop c");
    assert_eq!(place.counts("c.etl"), [3, 3, 0]);

    // All sessions of a command or none.
    place.ends(3, &format!("xperf -start d -on {NAME} -start D -on {NAME} -f d.etl"));
    assert_eq!(place.does("xperf -loggers"), "");
    assert!(place.file("user.etl").exists());
    place.ends(3, "xperf -stop d");
    program.ends();
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
    ("tracelog -start s -fio", "does not record these events"),
    ("tracelog -start -guid *A", "records the kernel only"),
    ("tracelog -start s -stackwalk Profile", "name its flags"),
    ("tracelog -start -setprofint 1", "shortest interval"),
    ("tracelog -start -stackwalk FileRead", "no call stacks of this event"),
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
    ("tracelog -start s -guid *A -EventIdFilter -in 2 1", "needed"),
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
    ("xperf -d merged.etl", "kernel"),
    ("xperf -flush", "name is needed"),
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
    ("xperf -i a.etl", "-a dumper"),
    ("xperf -i a.etl -a process -range 0 1", "-a dumper"),
    ("xperf -providers", "etw provider list"),
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
    for line in ["tracelog -stop s", "tracelog -q s", "logman stop s -ets", "xperf -stop s"] {
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

/// P3, P4: a host that a command has started is independent of it: nobody reads its messages, and that does not end it when
/// a program lies or its worker is killed; it holds nothing that was the command's.
#[test]
fn a_host_outlives_the_command_that_started_it() {
    use etw_wire::message::{FromProgram, Role, VERSION};
    let place = Place::new("outlives");
    let start = format!("exec 9>held; exec \"$0\" session start s -o s.etl -p '{NAME}'");
    let mut shell = place.command("sh".as_ref());
    let output = shell.args(["-c", &start, env!("CARGO_BIN_EXE_etw")]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let keeper =
        etw_wire::runtime_directory::Directory::open(&place.runtime()).unwrap().connect().unwrap();
    let process = PathBuf::from(format!("/proc/{}", keeper.peer().unwrap().pid));
    let worker = || {
        let tasks = std::fs::read_dir(process.join("task")).ok()?;
        tasks.flatten().find_map(|task| {
            let children = std::fs::read_to_string(task.path().join("children")).ok()?;
            children.split_ascii_whitespace().next()?.parse::<i32>().ok()
        })
    };
    let first = worker().unwrap();
    for process in [process.clone(), format!("/proc/{first}").into()] {
        assert_eq!(std::fs::read_link(process.join("cwd")).unwrap(), Path::new("/"));
        let open = std::fs::read_dir(process.join("fd")).unwrap().flatten();
        let open: Vec<_> = open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).collect();
        assert!(!open.contains(&place.file("held")), "{open:?}");
    }
    let mut program = place.program();
    program.writes(10);

    // Nobody reads the message about the invalid bytes.
    let hello = FromProgram::Hello { version: VERSION, role: Role::Program as u8 };
    keeper.send(&hello.to_bytes(), &[]).unwrap();
    assert!(!keeper.receive_within(Duration::from_secs(120)).unwrap().bytes.is_empty());
    keeper.send(b"\xffno message", &[]).unwrap();
    let end = keeper.receive_within(Duration::from_secs(120));
    assert!(end.is_ok_and(|received| received.bytes.is_empty()), "the connection goes on");
    assert!(place.does("session list").contains("running"));
    assert_eq!(worker(), Some(first), "the worker has ended");

    // SAFETY: numbers; the worker of a host that this test has started.
    assert_eq!(unsafe { libc::kill(first, libc::SIGKILL) }, 0);
    let end = Instant::now() + Duration::from_secs(120);
    while worker().is_none_or(|other| other == first) {
        assert!(process.exists() && Instant::now() < end, "no other worker goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    program.writes(10);
    assert!(place.does("session stop s").contains("none lost"));
    assert_eq!(place.counts("s.etl"), [20, 20, 0]);
    program.ends();
}

/// A service is ended by a signal: what programs wrote before is in their sessions' files, which are complete.
#[test]
fn a_host_that_receives_a_signal_finalises_its_sessions() {
    let place = Place::new("ended");
    for number in 0..5 {
        let runtime = place.runtime();
        let mut host = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
        let mut host = host.args(["daemon", runtime.to_str().unwrap()]).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(120);
        while Client::connect(&runtime).is_err() {
            assert!(Instant::now() < end, "no host");
            std::thread::sleep(Duration::from_millis(5));
        }
        place.does(&format!("session start s -o {number}.etl -p {NAME}"));
        let mut program = place.program();
        program.writes(10);
        // SAFETY: numbers; a child that has not been waited for.
        assert_eq!(unsafe { libc::kill(host.id() as libc::pid_t, libc::SIGTERM) }, 0);
        assert!(host.wait().unwrap().success());
        program.ends();
        let stat = place.stat(&format!("{number}.etl"));
        assert_eq!(stat["finalised"], true, "{number}");
        assert_eq!(place.counts(&format!("{number}.etl")), [10, 10, 0], "{number}");
    }
}

/// A host that cannot begin says why once; a directory that is not to be had is no absence of sessions.
#[test]
fn a_host_that_cannot_start_says_why_once() {
    let place = Place::new("hindered");
    let runtime = place.runtime();
    let output = place.etw(&["daemon", "--sessions", "none.json", runtime.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(stderr(&output).matches("none.json").count(), 1, "{}", stderr(&output));
    std::fs::remove_file(runtime.join("lock")).unwrap();
    std::fs::remove_file(runtime.join("word")).unwrap_or_default();
    std::fs::remove_dir(&runtime).unwrap();
    place.does("session list");
    std::os::unix::fs::symlink("elsewhere", &runtime).unwrap();
    for line in ["session list", "provider list"] {
        let output = place.etw(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(3), "{line}");
        assert!(stderr(&output).contains("run: no directory, or a link"), "{}", stderr(&output));
    }
}

/// OV-12: a program has eight sessions for a provider, `etw record`'s own among them: whichever has nothing of it says so, with status 1.
#[test]
fn a_ninth_session_reports_that_the_program_refused_it() {
    let place = Place::new("ninth");
    let name = |number| format!("s{number}");
    for number in 0..8 {
        let s = name(number);
        place.does(&format!("session start {s} -o {s}.etl -p {NAME}"));
    }
    // Nothing is typed: it ends as soon as a session wants its events.
    let program = std::env::current_exe().unwrap();
    let mut record = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
    record.args(["record", "-o", "r.etl", "-p", NAME, "--"]).arg(program);
    record.args(["controllers::program", "--exact", "--nocapture", "--test-threads=1"]);
    let output = record.env(ROLE, "program").output().unwrap();
    // The status of `record` is its command's.
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stderr(&output);
    let code = Some(i32::from(text.contains("NOT RECORDED")));
    let mut ends = vec![(code, text)];
    let query = |number| place.does(&format!("session query {}", name(number)));
    let queried: Vec<String> = (0..8).map(query).collect();
    for (number, queried) in queried.iter().enumerate() {
        let output = place.etw(&["session", "stop", &name(number)]);
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let is_told = queried.contains("eight sessions already");
        assert_eq!(is_told, output.status.code() == Some(1), "{queried}");
        ends.push((output.status.code(), text));
    }
    let (told, whole): (Vec<_>, Vec<_>) = ends.iter().partition(|(code, _)| *code == Some(1));
    assert_eq!((told.len(), whole.len()), (1, 8), "{ends:?}");
    assert!(whole.iter().all(|(code, text)| *code == Some(0) && text.contains("none lost")));
    let text = &told[0].1;
    assert!(text.contains("1 NOT RECORDED:\n  process "), "{text}");
    assert!(text.contains("has eight sessions already") && !text.contains("none lost"), "{text}");
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

/// P8: what a killed `etw record` leaves, the next one removes; nothing that somebody has or that is none of its own.
#[test]
fn a_killed_record_leaves_nothing_for_long() {
    let place = Place::new("left");
    let command = |file: &str, words: &[&str]| {
        let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
        command.env("TMPDIR", &place.folder).stderr(Stdio::piped()).stdout(Stdio::piped());
        command.args(["record", "-o", file, "-p", NAME, "--"]).args(words);
        command
    };
    let begin = |file: &str| {
        let words = ["sh", "-c", "echo $$; exec sleep 60"];
        let mut record = command(file, &words).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(record.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (record, line.trim().parse::<libc::pid_t>().unwrap())
    };
    let end = |process: libc::pid_t| {
        // SAFETY: numbers; a process that this test has had started.
        assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
    };
    let (mut killed, orphan) = begin("a.etl");
    let (going_on, child) = begin("b.etl");
    killed.kill().unwrap();
    killed.wait().unwrap();
    std::fs::create_dir(place.file("etw-record-4194305-x")).unwrap();
    let left = || {
        let names = std::fs::read_dir(&place.folder).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.starts_with("etw-record-")).collect();
        names.sort();
        names
    };
    assert_eq!(left().len(), 3, "{:?}", left());
    let output = command("c.etl", &["true"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let mut expected =
        [format!("etw-record-{}-0", going_on.id()), "etw-record-4194305-x".to_owned()];
    expected.sort();
    assert_eq!(left(), expected);
    end(orphan);
    end(child);
    going_on.wait_with_output().unwrap();
    assert_eq!(left(), ["etw-record-4194305-x"]);
}

/// A recorded command receives the signals that end it, those of its children, and those sent to `etw record`.
#[test]
fn recorded_commands_have_their_signals() {
    let place = Place::new("signals");
    // Shells unblock them for their own commands.
    let line = ["record", "-o", "s.etl", "-p", NAME, "--", "grep", "^SigBlk:", "/proc/self/status"];
    let output = place.etw(&line);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "SigBlk:\t0000000000000000\n");

    let mut record = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
    record.args(["record", "-o", "t.etl", "-p", NAME, "--", "sh", "-c", "echo on; exec sleep 60"]);
    let mut record = record.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(record.stdout.take().unwrap()).read_line(&mut line).unwrap();
    // SAFETY: numbers; a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(record.id() as libc::pid_t, libc::SIGTERM) }, 0);
    let output = record.wait_with_output().unwrap();
    assert!(stderr(&output).contains("sh ended with signal 15"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(128 + 15));
    assert_eq!(place.stat("t.etl")["finalised"], true);
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

/// `etw record -- COMMAND` ends as the command does; its own failures have statuses of their own.
#[test]
fn a_recorded_command_gives_its_exit_status() {
    let place = Place::new("status");
    std::fs::write(place.file("data"), "text").unwrap();
    for (words, expected) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 1"], 1),
        (&["sh", "-c", "exit 3"], 3),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["no-such-command-anywhere"], 127),
        (&["./data"], 126),
    ] {
        let line = [&["record", "--force", "-q", "-o", "s.etl", "-p", NAME, "--"], words].concat();
        let output = place.etw(&line);
        assert_eq!(output.status.code(), Some(expected), "{words:?}: {}", stderr(&output));
    }
    for line in ["record -o none/s.etl -p *A -- true", "record -o s.etl -p *A -p *A -- true"] {
        place.ends(125, line);
    }
}

/// An existing trace is replaced with `--force` alone, by every command.
#[test]
fn an_existing_trace_is_replaced_with_force_alone() {
    let place = Place::new("force");
    place.does(&format!("record -q -o a.etl -p {NAME} -- true"));
    let before = std::fs::read(place.file("a.etl")).unwrap();
    place.does(&format!("session start m --buffering -p {NAME}"));
    for line in [
        format!("session start s -o a.etl -p {NAME}"),
        format!("record -o a.etl -p {NAME} -q"),
        "session flush m -o a.etl".to_owned(),
        "dump -o a.etl a.etl".to_owned(),
        "stat -o a.etl a.etl".to_owned(),
    ] {
        let output = place.etw(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(3), "{line}");
        assert!(stderr(&output).contains("a.etl: exists; --force"), "{line}: {}", stderr(&output));
    }
    assert_eq!(std::fs::read(place.file("a.etl")).unwrap(), before);
    place.does("session flush m -o a.etl --force");
    place.does(&format!("session start s -o a.etl --force -p {NAME}"));
    place.does("session stop s");
    // Appending replaces nothing.
    place.does(&format!("session start s -o b.etl --clock system -p {NAME}"));
    place.does("session stop s");
    place.does(&format!("session start s -o b.etl --mode append --clock system -p {NAME}"));
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
        ("tail", 2, "tail: name a session (etw tail SESSION) or a provider"),
        ("session list --system-host", 3, "/run/openetw"),
        ("wpr -start GeneralProfile", 2, "etw record"),
        ("pktmon start", 2, "tcpdump"),
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

/// OV-24: a second stop prints Windows' text.
#[test]
fn a_second_stop_prints_what_windows_prints() {
    let place = Place::new("second-stop");
    const NOT_RECOGNIZED: &str =
        "The instance name passed was not recognized as valid by a WMI data provider.";
    for line in ["logman stop s -ets", "logman query s -ets"] {
        assert!(place.ends(3, line).contains("Data Collector Set was not found."), "{line}");
    }
    place.does(&format!("logman start s -p {NAME} -rt -ets"));
    place.does("logman stop s -ets");
    assert!(place.ends(3, "logman stop s -ets").contains("\nData Collector Set was not found.\n"));
    let text = place.ends(3, "tracelog -stop s");
    assert!(text.contains("4201L") && text.contains(NOT_RECOGNIZED), "{text}");
    let output = place.etw(&["xperf", "-stop", "s"]);
    assert!(stderr(&output).contains(NOT_RECOGNIZED) && stderr(&output).contains("0x1069"));
}

/// OV-24: levels and keywords of a manifest's provider.
#[test]
fn logman_shows_levels_and_keywords_of_a_provider() {
    let place = Place::new("logman-keywords");
    std::fs::create_dir(place.file("packs")).unwrap();
    std::fs::write(
        place.file("shop.man"),
        r#"<instrumentationManifest><instrumentation><events>
        <provider name="Shop-Orders" guid="{11111111-2222-3333-4444-555555555555}" symbol="S" resourceFileName="x" messageFileName="x">
        <keywords><keyword name="Sales" mask="0x1"/><keyword name="Net" mask="0x20"/></keywords>
        <events><event value="1" level="win:Warning" keywords="Sales"/></events>
        </provider></events></instrumentation></instrumentationManifest>"#,
    )
    .unwrap();
    place.does("pack create -o packs/shop.etwpack shop.man");
    let mut command = place.command(env!("CARGO_BIN_EXE_etw").as_ref());
    command.env("ETW_PACKS", place.file("packs"));
    let output = command.args(["logman", "query", "providers", "Shop-Orders"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "Shop-Orders                              {11111111-2222-3333-4444-555555555555}",
        "0x0000000000000001  Sales",
        "0x0000000000000020  Net",
        "0x03                win:Warning          Warning",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

/// OV-24: the analyses of `xperf -i`.
#[test]
fn xperf_prints_analyses_of_a_trace() {
    let place = Place::new("xperf-analysis");
    place.does(&format!("record -q -o a.etl -p {NAME} -- true"));
    assert!(place.does("xperf -i a.etl -a tracestats").contains("session  \"etw-record-"));
    assert!(place.does("xperf -i a.etl -a process").contains("process"));
    let text = place.does("xperf -i a.etl -o out.csv -a dumper");
    assert_eq!(text, "");
    let csv = std::fs::read_to_string(place.file("out.csv")).unwrap();
    assert!(csv.starts_with("Event Name,Type,") && csv.lines().count() > 1, "{csv}");
    assert!(!place.does("xperf -i a.etl -a stack -range 0 10000000").is_empty());
}
