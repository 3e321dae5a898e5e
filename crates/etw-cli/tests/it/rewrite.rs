//! `etw merge` and `etw relog`.

use crate::fixture::{TempFile, etw, greetings, json_lines, push_tracelogging, stderr, stdout};
use etw_etl::write::FileBuilder;
use serde_json::Value;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of its own, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("etw-rewrite-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Events with texts of `numbers`, one each 10 µs, of a session that starts with the first of them.
fn session(numbers: std::ops::Range<i64>, step: usize) -> Vec<u8> {
    let mut file = FileBuilder::new();
    file.header.logfile.buffer_size = 0x1000;
    let first = numbers.start * 100;
    file.header.start_raw += first;
    file.header.logfile.start_time.0 += first;
    for number in numbers.step_by(step) {
        push_tracelogging(
            &mut file,
            (number % 3) as u16,
            number * 100 - first,
            &number.to_string(),
        );
    }
    file.finish()
}

fn dump(file: &Path) -> Vec<Value> {
    json_lines(&stdout(&["dump", "--format", "json"], &[file], 0))
}

fn texts(lines: &[Value]) -> Vec<i64> {
    lines.iter().filter_map(|line| line["fields"]["text"].as_str()?.parse().ok()).collect()
}

fn stat(file: &Path) -> Value {
    json_lines(&stdout(&["stat", "--format", "json"], &[file], 0)).remove(0)
}

#[test]
fn two_files_that_overlap_become_one() {
    let folder = Folder::new();
    let (even, odd) = (TempFile::new(&session(0..600, 2)), TempFile::new(&session(301..900, 2)));
    for (name, compress) in [("plain.etl", None), ("small.etl", Some("--compress"))] {
        let out = folder.path(name);
        let mut arguments = vec!["merge", "-o", out.to_str().unwrap()];
        arguments.extend(compress);
        // The order of the arguments does not matter to files of one clock.
        let text = stdout(&arguments, &[odd.path(), even.path()], 0);
        assert!(text.ends_with(" buffers, from 2 files\n"), "{text}");
        let lines = dump(&out);
        let mut want: Vec<i64> = (0..600).step_by(2).chain((301..900).step_by(2)).collect();
        want.sort();
        assert_eq!(texts(&lines), want);
        // But for the header all lines are those of a merging dump.
        let both = stdout(&["dump", "--format", "json"], &[even.path(), odd.path()], 0);
        let both = json_lines(&both);
        let events = |lines: &[Value]| {
            let events = lines.iter().filter(|line| line["event"] == "Greeting");
            events.cloned().collect::<Vec<_>>()
        };
        assert_eq!(events(&lines), events(&both));
        assert_eq!(stat(&out)["compressed"], compress.is_some());
        assert_eq!(stat(&out)["finalised"], true);
        assert_eq!(stat(&out)["start"], stat(even.path())["start"]);
        assert_eq!(stat(&out)["end"], stat(odd.path())["end"]);
        let text = stdout(&["check"], &[&out], 0);
        assert!(text.contains(": sound, 601 records"), "{text}");
    }
    assert_eq!(folder.names(), ["plain.etl", "small.etl"]);
    // Compressed and not, of merged files and of one, and back.
    let (small, again) = (folder.path("small.etl"), folder.path("again.etl"));
    stdout(&["relog", "-o", again.to_str().unwrap()], &[&small], 0);
    assert_eq!(dump(&again)[1..], dump(&folder.path("plain.etl"))[1..]);
    let sizes = ["plain.etl", "small.etl"].map(|name| folder.path(name).metadata().unwrap().len());
    assert!(sizes[1] < sizes[0] / 3, "{sizes:?}");
}

#[test]
fn counts_of_stat_stay() {
    let folder = Folder::new();
    let file = TempFile::new(&crate::fixture::every_header());
    let out = folder.path("out.etl");
    let mut was = stat(file.path());
    for compress in [None, Some("--compress")] {
        let mut arguments = vec!["relog", "--force", "-o", out.to_str().unwrap()];
        arguments.extend(compress);
        stdout(&arguments, &[file.path()], 0);
        let mut is = stat(&out);
        for key in ["file", "buffers", "buffer_size", "compressed", "compressed_buffers"] {
            (was[key], is[key]) = (Value::Null, Value::Null);
        }
        assert_eq!(is, was);
    }
}

#[test]
fn damage_is_told_and_the_rest_kept() {
    let folder = Folder::new();
    let mut bytes = greetings(300);
    bytes[0x2000..0x2060].fill(0xee);
    let (damaged, sound) = (TempFile::new(&bytes), TempFile::new(&session(0..50, 1)));
    let want = etw(&["dump", "--format", "json"], &[damaged.path()]);
    let want = json_lines(&String::from_utf8(want.stdout).unwrap()).len();
    let out = folder.path("out.etl");
    let output = etw(&["merge", "-o", out.to_str().unwrap()], &[damaged.path(), sound.path()]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("damaged: ") && text.contains("offset 0x2000"), "{text}");
    assert_eq!(dump(&out).len(), want + 50);
}

#[test]
fn a_note_names_files_of_another_clock_and_how_exact_their_times_are() {
    let folder = Folder::new();
    let counted = |frequency: u64| {
        let mut file = FileBuilder::new();
        file.header.logfile.perf_freq = frequency;
        file.header.start_raw = 77;
        for number in 0..10 {
            push_tracelogging(&mut file, 0, number * 3000 + 15, &number.to_string());
        }
        TempFile::new(&file.finish())
    };
    let (other, coarse) = (counted(3_000_000), counted(2_400_000));
    let home = TempFile::new(&session(0..50, 1));
    let out = folder.path("out.etl");
    let merged = |paths: [&Path; 2]| {
        let output = etw(&["merge", "--force", "-o", out.to_str().unwrap()], &paths);
        assert_eq!(output.status.code(), Some(0));
        stderr(&output)
    };
    let note = |paths: [&Path; 2], of: &Path, base: &Path| {
        let (text, of, base) = (merged(paths), of.display(), base.display());
        let note = format!(
            "note: {of}: its clock differs from that of {base}, to which the times of records were converted, to 100 ns;"
        );
        assert_eq!(text.matches("its clock differs").count(), 1, "{text}");
        assert!(text.contains(&note), "{text}");
    };
    // No tick of 10 MHz is longer than a time's unit, so that file gives the clock, wherever it stands.
    note([other.path(), home.path()], other.path(), home.path());
    note([home.path(), other.path()], other.path(), home.path());
    // A tick of both is longer: the new file counts wall-clock time.
    let text = merged([coarse.path(), other.path()]);
    assert!(
        text.contains(
            "none tells every 100 ns apart: times of records were converted to wall-clock"
        )
    );
    assert!(!text.contains("its clock differs"), "{text}");
    merged([home.path(), other.path()]);
    let merged = dump(&out);
    for line in dump(other.path()).iter().chain(&dump(home.path())) {
        let same =
            |it: &&Value| it["timestamp"] == line["timestamp"] && it["fields"] == line["fields"];
        assert!(line["event"] != "Greeting" || merged.iter().any(|it| same(&it)), "{line}");
    }
}

/// Coarse and odd counters, an earlier start in either file: each record of the merge has the time that its own file gives it.
#[test]
fn times_of_converted_files_stay_to_the_tick() {
    let folder = Folder::new();
    let counted = |frequency: u64, earlier_by: i64, step: i64| {
        let mut file = FileBuilder::new();
        file.header.logfile.perf_freq = frequency;
        file.header.start_raw = 123_456_789;
        file.header.logfile.start_time.0 -= earlier_by;
        for number in 0..200 {
            push_tracelogging(&mut file, 0, number * step + 1, &format!("{frequency} {number}"));
        }
        TempFile::new(&file.finish())
    };
    for (first, second) in [
        (counted(3_579_545, 0, 7), counted(2_893_431_001, 12_345_678, 2_011)),
        (counted(2_893_431_001, 0, 2_011), counted(3_579_545, 12_345_678, 7)),
        (counted(24_000_000, 0, 17), counted(3_579_545, 3, 7)),
        // None of both tells every 100 ns apart.
        (counted(3_579_545, 0, 7), counted(2_343_750, 12_345_678, 5)),
        (counted(2_343_750, 12_345_678, 5), counted(3_579_545, 0, 7)),
    ] {
        let out = folder.path("out.etl");
        let arguments = ["merge", "--force", "-o", out.to_str().unwrap()];
        stdout(&arguments, &[first.path(), second.path()], 0);
        let times = |path: &Path| {
            let lines = dump(path).into_iter().filter(|line| line["event"] == "Greeting");
            let pair = |line: Value| {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                (text(&line["fields"]["text"]), text(&line["timestamp"]))
            };
            lines.map(pair).collect::<std::collections::BTreeMap<_, _>>()
        };
        let mut want = times(first.path());
        want.extend(times(second.path()));
        assert_eq!(times(&out), want);
    }
}

#[test]
fn nothing_is_overwritten_unless_told() {
    let folder = Folder::new();
    let input = folder.path("in.etl");
    std::fs::write(&input, greetings(10)).unwrap();
    let other = folder.path("other.etl");
    std::fs::write(&other, b"precious").unwrap();
    let refused = |arguments: &[&str], files: &[&Path], why: &str| {
        let output = etw(arguments, files);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
        assert_eq!(std::fs::read(&input).unwrap(), greetings(10));
    };
    let (out, same) = (other.to_str().unwrap(), folder.path("./in.etl"));
    let same = same.to_str().unwrap();
    refused(&["relog", "-o", out], &[&input], "exists; --force replaces it");
    assert_eq!(std::fs::read(&other).unwrap(), b"precious");
    refused(&["relog", "--force", "-o", same], &[&input], "is an input file");
    refused(&["relog", "-o", "-"], &[&input], "give -o a file");
    refused(
        &["relog", "--force", "-o", folder.0.to_str().unwrap()],
        &[&input],
        "not a regular file",
    );
    let nowhere = folder.path("no/such/out.etl");
    refused(&["relog", "-o", nowhere.to_str().unwrap()], &[&input], "create the folder first");
    let missing = folder.path("missing.etl");
    refused(
        &["merge", "-o", folder.path("x").to_str().unwrap()],
        &[&input, &missing],
        "missing.etl",
    );
    assert_eq!(folder.names(), ["in.etl", "other.etl"]);
    stdout(&["relog", "--force", "-o", out], &[&input], 0);
    assert_eq!(dump(&other).len(), 11);
    assert_eq!(folder.names(), ["in.etl", "other.etl"]);
}

#[cfg(unix)]
#[test]
fn links_lead_to_what_is_replaced() {
    let folder = Folder::new();
    let (input, target, link) =
        (folder.path("in.etl"), folder.path("target.etl"), folder.path("link.etl"));
    std::fs::write(&input, greetings(10)).unwrap();
    std::fs::write(&target, b"old").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    stdout(&["relog", "--force", "-o", link.to_str().unwrap()], &[&input], 0);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(dump(&target).len(), 11);
    let to_input = folder.path("to-input.etl");
    std::os::unix::fs::symlink(&input, &to_input).unwrap();
    let output = etw(&["relog", "--force", "-o", to_input.to_str().unwrap()], &[&input]);
    assert_eq!(output.status.code(), Some(3));
    let output = etw(&["relog", "--force", "-o", "/dev/full"], &[&input]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("not a regular file"), "{}", stderr(&output));
}

/// The system refuses to make the file longer, as it does on a full disk.
#[cfg(unix)]
#[test]
fn what_cannot_be_written_leaves_nothing() {
    let folder = Folder::new();
    let input = TempFile::new(&greetings(3000));
    let out = folder.path("out.etl");
    let script = "trap '' XFSZ; ulimit -f 32; exec \"$@\"";
    let output = Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_etw"), "relog", "-o"])
        .args([&out, input.path()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let text = stderr(&output);
    assert!(text.contains("out.etl: cannot be written: ") && text.lines().count() == 1, "{text}");
    assert_eq!(folder.names(), [""; 0]);
}

/// A real full disk, where the test may mount one.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told() {
    let folder = Folder::new();
    let input = TempFile::new(&greetings(20_000));
    let script = "mount -t tmpfs -o size=256k none \"$1\" || exit 77; \
                  \"$2\" relog -o \"$1/out.etl\" \"$3\"; status=$?; ls -A \"$1\"; exit $status";
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", script, "sh"])
        .args([&folder.0, Path::new(env!("CARGO_BIN_EXE_etw")), input.path()])
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        println!("skipped: no unshare here");
        return;
    };
    if output.status.code() != Some(3) && stderr(&output).contains("unshare: ")
        || output.status.code() == Some(77)
    {
        println!("skipped: mounting is not allowed here: {}", stderr(&output));
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("free some space"), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
}

#[test]
fn the_level_small_makes_a_smaller_file_of_the_same_records() {
    let folder = Folder::new();
    let input = TempFile::new(&session(0..5000, 1));
    let sizes = ["fast", "small"].map(|level| {
        let out = folder.path(level);
        let out = out.to_str().unwrap();
        stdout(&["relog", "--compress", "--level", level, "-o", out], &[input.path()], 0);
        assert_eq!(texts(&dump(Path::new(out))).len(), 5000);
        std::fs::metadata(out).unwrap().len()
    });
    assert!(sizes[1] < sizes[0] && sizes[0] < sizes[1] * 5 / 4, "{sizes:?}");
    let out = folder.path("none.etl");
    let arguments = ["relog", "--level", "small", "-o", out.to_str().unwrap()];
    assert_eq!(etw(&arguments, &[input.path()]).status.code(), Some(2));
}

#[cfg(unix)]
#[test]
fn killed_in_mid_run_leaves_no_file() {
    let folder = Folder::new();
    // Long enough that it does not come to its end: a few hundred passes over some records.
    let input = folder.path("in.etl");
    std::fs::write(&input, greetings(20_000)).unwrap();
    let out = folder.path("out.etl");
    let mut child = Command::new(env!("CARGO_BIN_EXE_etw"))
        .args(["merge", "--compress", "-o"])
        .arg(&out)
        .args(std::iter::repeat_n(&input, 200))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let is_temporary = |name: &String| name.starts_with(".etw-") && name.ends_with(".tmp");
    let begun = || {
        let name = folder.names().into_iter().find(is_temporary)?;
        Some(folder.path(&name)).filter(|path| path.metadata().is_ok_and(|m| m.len() > 0))
    };
    let temporary = loop {
        assert!(child.try_wait().unwrap().is_none(), "done before it was killed");
        if let Some(path) = begun() {
            break path;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!out.exists());
    // The temporary file that it leaves is a readable trace, like that of a killed session.
    let text =
        stdout(&["check"], &[&temporary], etw(&["check"], &[&temporary]).status.code().unwrap());
    assert!(text.contains("note: not finalised"), "{text}");
}

#[test]
fn usage_is_checked() {
    let status = |arguments: &[&str]| etw(arguments, &[]).status.code();
    assert_eq!(status(&["merge", "-o", "x"]), Some(2));
    assert_eq!(status(&["relog", "in.etl"]), Some(2));
    assert_eq!(status(&["relog", "-o", "x", "a", "b"]), Some(2));
}

/// Only the records that are wanted, with what describes them.
#[test]
fn relog_writes_only_selected_records() {
    let folder = Folder::new();
    let (input, output) = (TempFile::new(&greetings(300)), folder.path("out.etl"));
    let out = output.to_str().unwrap();
    stdout(&["relog", "-o", out, "--where", "cpu == 2 and text like '*8'"], &[input.path()], 0);
    let lines = json_lines(&stdout(&["dump", "--format", "json"], &[&output], 0));
    let texts: Vec<&str> =
        lines.iter().filter_map(|line| line["fields"]["text"].as_str()).collect();
    assert!(lines.len() == texts.len() + 1 && texts.len() == 10, "{texts:?}");
    assert!(texts.iter().all(|text| text.ends_with('8')));
}

/// Regression: the signal ended the command without a word, and its temporary file stayed.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_grows_past_the_shells_limit_is_reported_and_removed() {
    let folder = Folder::new();
    let trace = TempFile::new(&greetings(3000));
    let out = folder.path("out");
    for words in [&["merge"][..], &["convert", "--to", "chrome"], &["dump"]] {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f 8; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_etw")]);
        let output = command.args(words).arg("-o").arg(&out).arg(trace.path()).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{words:?}: {text}");
        assert!(text.contains("File too large"), "{words:?}: {text}");
        let is_temporary = |name: &String| name.starts_with(".etw-");
        assert!(!folder.names().iter().any(is_temporary), "{words:?}: {:?}", folder.names());
    }
}
