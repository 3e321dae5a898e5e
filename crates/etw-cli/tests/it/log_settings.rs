//! `etw log list|set|clear|tail|import` and `wevtutil`'s actions on logs by name.

use crate::fixture::stderr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const MANIFEST: &str = "<instrumentationManifest xmlns='http://schemas.microsoft.com/win/2004/08/events'>\
    <instrumentation><events><provider name='Shop' symbol='SHOP' guid='{e0b2f6f1-2f0a-4d4c-9ab8-0f3d7bb7c0ff}' \
    resourceFileName='x' messageFileName='x'><channels>\
    <channel chid='o' name='Shop/Operational' type='Operational' symbol='O'/>\
    <channel chid='d' name='Shop/Debug' type='Debug' symbol='D'/></channels>\
    <events><event value='1' symbol='E' channel='o' level='win:Error'/></events>\
    </provider></events></instrumentation></instrumentationManifest>";

/// A home of its own, without a host unless one is started.
pub struct Home(PathBuf);

impl Home {
    pub fn new(name: &str) -> Home {
        let folder = std::env::temp_dir().join(format!("etw-log-{name}-{}", std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700).create(&folder).unwrap();
        builder.create(folder.join("run")).unwrap();
        std::fs::write(folder.join("shop.man"), MANIFEST).unwrap();
        Home(folder)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_etw"));
        command
            .args(words)
            .env("ETW_RUNTIME_DIR", self.0.join("run"))
            .env("HOME", &self.0)
            .env("ETW_MACHINE_PACKS", self.0.join("machine/packs"))
            .env_remove("XDG_DATA_HOME")
            .env_remove("ETW_PACKS")
            .current_dir(&self.0)
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Standard output of a command that ends with a status.
    #[track_caller]
    fn ends(&self, status: i32, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    pub fn does(&self, words: &[&str]) -> String {
        self.ends(0, words)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A log's line of `etw log list --json`.
    pub fn log(&self, name: &str) -> serde_json::Value {
        let text = self.does(&["log", "list", "--json"]);
        let mut lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.find(|line: &serde_json::Value| line["log"] == name).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.run(&["session", "stop", "running"]);
        // The host ends by itself when it has nothing to do.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// OV-22: names of logs stand for their files in every command that reads them.
#[test]
fn logs_are_read_by_name() {
    let home = Home::new("names");
    let lines = "<3>Nov 22 10:00:00 till shop[12]: drawer open\n<6>Nov 22 10:00:01 till shop[12]: drawer closed\n";
    std::fs::write(home.file("lines"), lines).unwrap();
    home.does(&["manifest", "install", "shop.man"]);
    let file = PathBuf::from(home.log("Shop/Operational")["file"].as_str().unwrap());
    // Nothing was written to it yet.
    for words in [
        &["log", "show", "--json", "shop/operational"][..],
        &["log", "query", "--json", "Shop/Operational", "*"],
        &["wevtutil", "qe", "Shop/Operational"],
    ] {
        assert_eq!(home.does(words), "", "{words:?}");
    }
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    home.does(&["log", "import", "syslog", "lines", "-o", file.to_str().unwrap()]);
    let shown = home.does(&["log", "show", "--json", "Shop/Operational"]);
    assert_eq!(shown.lines().count(), 2);
    assert_eq!(shown, home.does(&["log", "show", "--json", file.to_str().unwrap()]));
    let query = "*[System[EventRecordID=2]]";
    let found = home.does(&["log", "query", "--json", "Shop/Operational", query]);
    assert_eq!(found.lines().count(), 1);
    let found = home.does(&["wevtutil", "qe", "Shop/Operational", &format!("/q:{query}")]);
    assert_eq!(found.matches("<EventRecordID>2</EventRecordID>").count(), 1, "{found}");
    assert!(home.does(&["wevtutil", "gli", "Shop/Operational"]).contains("numberOfLogRecords: 2"));
    home.does(&["log", "export", "-o", "copy.evtx", "Shop/Operational"]);
    assert_eq!(home.does(&["log", "show", "--json", "copy.evtx"]).lines().count(), 2);
    assert!(home.does(&["log", "info", "Shop/Operational"]).contains("2"));
    // The events of a direct channel are in a trace, which nobody can follow as a log.
    assert_eq!(home.does(&["log", "show", "Shop/Debug"]), "");
    let output = home.run(&["log", "tail", "Shop/Debug"]);
    assert!(stderr(&output).contains("etw tail"), "{}", stderr(&output));
    let output = home.run(&["log", "show", "NoSuchLog"]);
    assert!(stderr(&output).contains("NoSuchLog: no such log"), "{}", stderr(&output));
}

/// OV-22: logs are listed, shown and changed by both commands, which agree.
#[test]
fn settings_of_logs_are_shown_and_changed() {
    let home = Home::new("settings");
    assert_eq!(home.does(&["wevtutil", "el"]), "Application\nSystem\n");
    home.does(&["wevtutil", "im", "shop.man", "/rf:x.dll", "/mf:x.dll"]);
    assert_eq!(
        home.does(&["wevtutil", "enum-logs"]),
        "Application\nShop/Debug\nShop/Operational\nSystem\n"
    );
    let text = home.does(&["wevtutil", "gl", "shop/operational"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "name: Shop/Operational",
            "enabled: true",
            "type: Operational",
            "owningPublisher: Shop",
            "isolation: Application"
        ]
    );
    assert!(lines.contains(&"logging:") && lines.contains(&"  maxSize: 1052672"), "{text}");

    home.does(&["wevtutil", "sl", "Shop/Operational", "/ms:4194304", "-rt:true", "/ab:TRUE"]);
    home.does(&["log", "set", "Shop/Operational", "--level", "3"]);
    let log = home.log("Shop/Operational");
    assert_eq!((&log["max_size"], &log["level"]), (&4_194_304.into(), &3.into()));
    assert_eq!((&log["retention"], &log["auto_backup"]), (&true.into(), &true.into()));

    // The XML form is read as it is printed.
    let xml = home.does(&["wevtutil", "get-log", "Shop/Operational", "/format:xml"]);
    std::fs::write(home.file("log.xml"), &xml).unwrap();
    home.does(&["log", "set", "Shop/Operational", "--reset"]);
    assert_eq!(home.log("Shop/Operational")["max_size"], 1_052_672);
    home.does(&["wevtutil", "set-log", "/c:log.xml"]);
    assert_eq!(home.does(&["wevtutil", "gl", "Shop/Operational", "/f:xml"]), xml);

    assert_eq!(home.does(&["wevtutil", "ep"]), "Shop\n");
    let publisher = home.does(&["wevtutil", "gp", "Shop", "/ge:true", "/gm:true"]);
    assert!(publisher.contains("    name: Shop/Operational\n    id: 16\n"), "{publisher}");
    assert!(publisher.contains("    value: 1\n"), "{publisher}");

    home.ends(2, &["log", "set", "Shop/Operational", "--max-size", "1000"]);
    home.ends(2, &["log", "set", "Shop/Operational"]);
    home.ends(2, &["wevtutil", "sl", "Shop/Operational", "/e:maybe"]);
    home.ends(3, &["log", "set", "Security", "--enabled", "true"]);
    home.ends(3, &["wevtutil", "gl", "Nobody"]);
    home.does(&["wevtutil", "um", "shop.man"]);
    assert_eq!(home.does(&["wevtutil", "el"]), "Application\nSystem\n");
}

/// OV-22: entries of journald and syslog become records with their own times; a clear keeps the numbers, with or without a
/// backup; `tail` prints records.
#[test]
fn imported_logs_are_tailed_and_cleared() {
    let home = Home::new("import");
    let entry = |n: u32| {
        format!(
            "{{\"__REALTIME_TIMESTAMP\":\"170000000{n}000001\",\"PRIORITY\":\"3\",\"SYSLOG_IDENTIFIER\":\"sshd\",\
             \"_HOSTNAME\":\"host\",\"_PID\":\"42\",\"MESSAGE\":\"number {n}\"}}\n"
        )
    };
    std::fs::write(home.file("journal"), entry(1) + &entry(2) + "{broken\n").unwrap();
    let output = home.run(&["log", "import", "journal", "journal", "-o", "out.evtx"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.ends_with("left out 1 entry that could not be read\n"), "{text}");
    std::fs::write(home.file("lines"), "<34>Oct 11 22:14:15 host su: failed\n").unwrap();
    home.does(&["log", "import", "syslog", "lines", "-o", "out.evtx"]);
    let text = home.does(&["log", "tail", "out.evtx", "--from-start", "-n", "3", "--json"]);
    let records: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records[0]["timestamp"], "2023-11-14T22:13:21.0000010Z");
    let ids: Vec<u64> =
        records.iter().map(|record| record["record_id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!((&records[1]["pid"], &records[1]["computer"]), (&42.into(), &"host".into()));
    assert!(text.contains("number 2") && text.contains("failed"), "{text}");

    // Without a host, the command clears a log itself.
    let file = home.log("Application")["file"].as_str().unwrap().to_owned();
    std::fs::create_dir_all(Path::new(&file).parent().unwrap()).unwrap();
    std::fs::copy(home.file("out.evtx"), &file).unwrap();
    home.does(&["wevtutil", "cl", "application", "/bu:backup.evtx"]);
    assert_eq!(home.does(&["log", "show", "--json", "backup.evtx"]).lines().count(), 3);
    assert_eq!(home.does(&["log", "show", "--json", &file]), "");
    home.does(&["log", "import", "syslog", "lines", "-o", &file]);
    assert!(home.does(&["log", "show", "--json", &file]).contains("\"record_id\":4"));
    home.ends(3, &["log", "clear", "Application", "--backup", "backup.evtx"]);
}

/// OV-22: a host that runs keeps the channels of a manifest from its installation to its removal.
#[test]
fn a_running_host_keeps_an_installed_manifests_channels() {
    let home = Home::new("host");
    home.does(&["session", "start", "running", "-o", "running.etl", "-p", "*Nobody"]);
    assert_eq!(home.log("Application")["state"], "on");
    home.does(&["manifest", "install", "shop.man"]);
    assert_eq!(home.log("Shop/Operational")["state"], "kept");
    assert_eq!(home.log("Shop/Debug")["state"], "off");
    home.does(&["log", "clear", "Shop/Operational", "--backup", "shop.evtx"]);
    assert!(home.file("shop.evtx").exists());
    home.does(&["manifest", "uninstall", "Shop"]);
    let list = home.does(&["log", "list"]);
    assert!(!list.contains("Shop"), "{list}");
    assert_eq!(home.log("Application")["state"], "kept");
}

/// OV-22: with the channel of an installed manifest, a service's errors are kept by a host without any session.
#[test]
fn a_services_errors_are_kept_without_a_session() {
    let home = Home::new("errors");
    let manifest =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../etw-log-sink/examples/kept_errors.man");
    home.does(&["manifest", "install", manifest.to_str().unwrap()]);
    let runtime = home.file("run");
    let mut daemon = home.command(&["daemon", runtime.to_str().unwrap()]);
    let mut daemon = daemon.stderr(Stdio::null()).spawn().unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(120);
    let build = ["run", "-q", "--locked", "-p", "etw-log-sink", "--example", "kept_errors"];
    let shown = loop {
        // A busy host may admit the program after it has logged.
        let service = Command::new(env!("CARGO"))
            .args(build)
            .env("ETW_RUNTIME_DIR", &runtime)
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(service.success());
        let _ = home.run(&["session", "flush", "EventLog"]);
        let shown = home.does(&["log", "show", "--json", "OpenEtw.Shop/Admin"]);
        if !shown.is_empty() {
            break shown;
        }
        assert!(std::time::Instant::now() < end, "no record is kept");
    };
    let id = daemon.id().to_string();
    assert!(Command::new("kill").arg(id).status().unwrap().success());
    daemon.wait().unwrap();
    let first: serde_json::Value = serde_json::from_str(shown.lines().next().unwrap()).unwrap();
    assert_eq!(first["fields"]["content"], "till 3 is offline", "{shown}");
    assert!(!shown.contains("tills are open"), "{shown}");
}
