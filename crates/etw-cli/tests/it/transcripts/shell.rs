//! A folder with the programs and files that the pages name, where their commands run.

use crate::controllers::Place;
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A provider with two logs, which the pages call `Shop`.
const MANIFEST: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<instrumentationManifest xmlns="http://schemas.microsoft.com/win/2004/08/events"
    xmlns:win="http://manifests.microsoft.com/win/2004/08/windows/events">
  <instrumentation>
    <events>
      <provider name="Shop" guid="{0c0b0a09-0102-0304-0506-0708090a0b0c}" symbol="SHOP" resourceFileName="shop" messageFileName="shop">
        <channels>
          <channel name="Shop/Operational" chid="OPERATIONAL" type="Operational" enabled="true"/>
          <channel name="Shop/Debug" chid="DEBUG" type="Debug"/>
        </channels>
        <templates>
          <template tid="sold"><data name="count" inType="win:UInt32"/><data name="what" inType="win:UnicodeString"/></template>
        </templates>
        <events>
          <event value="1" symbol="Sold" channel="OPERATIONAL" level="win:Informational" template="sold"/>
        </events>
      </provider>
    </events>
  </instrumentation>
</instrumentationManifest>
"#;

/// Programs and the library that cargo built for the pages.
pub struct Built {
    ticker: PathBuf,
    requests: PathBuf,
    library: PathBuf,
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Built {
    pub fn new() -> Built {
        let examples = build(&["-p", "openetw", "--example", "ticker", "--example", "requests"]);
        let library = build(&["-p", "etw-capi"]);
        let find = |built: &[PathBuf], name: &str| {
            let has_name = |path: &&PathBuf| path.file_name().is_some_and(|it| it == name);
            built.iter().find(has_name).unwrap_or_else(|| panic!("{name} was not built")).clone()
        };
        Built {
            ticker: find(&examples, "ticker"),
            requests: find(&examples, "requests"),
            library: find(&library, "libetw.a"),
        }
    }
}

/// Builds what the words select; the files that were built.
fn build(words: &[&str]) -> Vec<PathBuf> {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--message-format=json"])
        .args(words)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let messages = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let names = |message: Value| match message["filenames"].as_array() {
        Some(names) => names.iter().filter_map(|name| Some(name.as_str()?.into())).collect(),
        None => Vec::new(),
    };
    messages.flat_map(names).collect()
}

pub struct Shell {
    place: Place,
    /// Ticks all the time, as the program that the guide's sessions record.
    ticker: Child,
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.ticker.kill();
        let _ = self.ticker.wait();
    }
}

impl Shell {
    pub fn new(name: &str, built: &Built) -> Shell {
        let place = Place::new(name);
        let programs = place.file("bin");
        std::fs::create_dir(&programs).unwrap();
        let etw = Path::new(env!("CARGO_BIN_EXE_etw"));
        for (name, program) in
            [("etw", etw), ("ticker", &built.ticker), ("requests", &built.requests)]
        {
            symlink(program, programs.join(name)).unwrap();
        }
        let pkg_config = programs.join("pkg-config");
        let include = root().join("crates/etw-capi/include");
        let script = format!(
            "#!/bin/sh\necho -I'{}' '{}' -lpthread -ldl -lm\n",
            include.display(),
            built.library.display()
        );
        std::fs::write(&pkg_config, script).unwrap();
        std::fs::set_permissions(&pkg_config, PermissionsExt::from_mode(0o755)).unwrap();
        let ticker = place.command(&built.ticker).args(["10000000", "1000"]).spawn().unwrap();
        let shell = Shell { place, ticker };
        shell.write_files();
        shell
    }

    /// Writes a file that commands use.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.place.file(name), text).unwrap();
    }

    /// Writes the files that several pages name: traces, manifests, formats.
    fn write_files(&self) {
        symlink(root().join("testdata"), self.place.file("testdata")).unwrap();
        let sample = std::fs::read(root().join("testdata/sample.etl")).unwrap();
        for name in ["trace.etl", "boot.etl", "kernel.etl", "merged-1.etl", "merged-2.etl"] {
            self.write(name, &sample);
        }
        self.write("cut.etl", &sample[..sample.len() - 9000]);
        for name in ["shop.man", "service.man", "ClrEtwAll.man"] {
            self.write(name, MANIFEST);
        }
        std::fs::create_dir(self.place.file("symbols")).unwrap();
        let format = root().join("fuzz/corpus/tmf/whole");
        std::fs::copy(format, self.place.file("symbols/whole.tmf")).unwrap();
    }

    /// Makes the event logs that the page of event logs reads.
    pub fn make_logs(&self) {
        for name in ["Security.evtx", "System.evtx", "Application.evtx"] {
            self.run(&format!("etw convert --to evtx -o {name} trace.etl"));
        }
    }

    pub fn output(&self, command: &str) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        self.place
            .command("sh".as_ref())
            .args(["-c", command])
            .env("PATH", format!("{}:{path}", self.place.file("bin").display()))
            .stderr(Stdio::piped())
            .output()
            .unwrap()
    }

    /// Standard output and errors of a command; an error if it fails.
    pub fn try_run(&self, command: &str) -> Result<String, String> {
        let output = self.output(command);
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        // Both fail if they find a problem, and the page shows one.
        let may_fail = ["etw doctor", "etw check cut.etl"].iter().any(|it| command.starts_with(it));
        match output.status.success() || may_fail {
            true => Ok(printed),
            false => Err(format!("{command}: {}: {printed}", output.status)),
        }
    }

    /// Standard output and errors of a command that has to succeed.
    pub fn run(&self, command: &str) -> String {
        self.try_run(command).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until a session has an event of the ticker, so that its next transcripts show events.
    pub fn wait_for_event(&self, session: &str) {
        let end = Instant::now() + Duration::from_secs(120);
        while !self.run(&format!("etw session query {session}")).lines().any(|line| {
            let count = line.strip_prefix("attempted").map(str::trim);
            count.is_some_and(|count| count != "0")
        }) {
            assert!(Instant::now() < end, "session {session} has no events");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
