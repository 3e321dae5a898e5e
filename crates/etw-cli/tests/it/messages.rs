//! Errors name the option and the path, and say what to do.

use crate::controllers::Place;
use crate::fixture::stderr;

#[test]
fn errors_name_option_and_path() {
    let place = Place::new("messages");
    let ends = |status: i32, line: &str, expected: &[&str]| {
        let words: Vec<&str> = line.split(' ').collect();
        let output = place.etw(&words);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{line}: {text}");
        for expected in expected {
            assert!(text.contains(expected), "{line}: {expected} is missing in {text}");
        }
    };
    ends(3, "session stop x", &["no host of sessions is running in ", "etw session start"]);
    ends(2, "tail", &["name a session (etw tail SESSION) or a provider (etw tail -p PROVIDER)"]);
    ends(2, "session start x", &["session start x", "-o FILE", "--real-time", "--buffering"]);
    let missing = ["/absent/x.etl: the folder /absent does not exist; create it"];
    ends(3, "session start x -o /absent/x.etl", &missing);
    ends(125, "record -o /absent/x.etl -p A -- true", &missing);
    ends(2, "session start x --real-time -p A:loud", &["--provider", "\"loud\" is not a level"]);
    ends(2, "session start x --real-time -p A:4:Sales", &["keyword \"Sales\" of A", "--manifest"]);
    // Wrong usage has the same status with a command and without.
    ends(2, "record -p A", &["--output <FILE>"]);
    ends(2, "record -p A -- true", &["--output <FILE>"]);
    ends(2, "record -o x.etl -- true", &["--provider <PROVIDER>", "--system <FLAGS>"]);
    for end in ["", " -- true"] {
        for (options, expected) in [
            ("--system cswich", "cswich is not known; did you mean CSWITCH?"),
            ("--system profile --stack profil", "profil is not known; did you mean Profile?"),
            ("--system profile --sample-interval 1", "must be a time from 50us to 1s"),
        ] {
            ends(2, &format!("record -o x.etl {options}{end}"), &[expected]);
        }
    }
    for options in [
        "--buffer-size 5",
        "--buffer-size 99999999999",
        "--buffers 1",
        "--max-size 1",
        "--mode append --clock qpc",
        "--mode circular --max-size 10M --compress",
        "--system process --clock system",
    ] {
        for line in ["session start x", "record"] {
            ends(2, &format!("{line} -o x.etl -p A {options}"), &[]);
        }
        ends(2, &format!("record -o x.etl -p A {options} -- true"), &[]);
    }
    ends(0, "record --help -- true", &[]);
    for id in ["9e814aad-3204-11d2-9a82-006008a86939", "599a2a76-4d91-4910-9ac7-7d33f2e97a6c"] {
        let text = place.does(&format!("provider show {id}"));
        assert!(text.contains("the host has its events") && !text.contains("manifest"), "{text}");
    }
    let kernel = place.etw(&["provider", "show", "Windows Kernel Trace"]);
    assert!(String::from_utf8_lossy(&kernel.stdout).contains("Windows Kernel Trace: "));
    let no_class = ["--system: no class of system events is named; use process, thread"];
    ends(2, "record -o x.etl --system  -- true", &no_class);
    ends(2, "help wher", &["did you mean etw help where?"]);
    for (line, expected) in [
        (
            "session start x -o a.etl --mode circular -p A",
            "--mode circular needs the size of a file",
        ),
        ("session start x -o a.etl --mode append --max-size 1M -p A", "takes no --max-size"),
        ("session start x -o a.etl --preallocate -p A", "--preallocate needs the size to reserve"),
        ("session start x -o a.etl --buffering -p A", "etw session flush NAME -o FILE"),
        ("session start x --buffering -p A --exe /bin/ls", "--exe ls"),
        ("session start x --buffering -p A --pid x", "a whole number is needed"),
        ("session start x --buffering -p d8bfa331-f50d-5555-40df-d6536abfd6e", "is not a GUID"),
        ("session update x", "nothing to change is named: --buffers"),
        ("session update x --buffers 0", "a session has at least 2 buffers"),
    ] {
        ends(2, line, &[expected]);
    }
    place.does("session start x -o x.etl -p A");
    ends(0, "session disable x -p *B", &["session x has", "not enabled"]);
    ends(0, "session capture-state x -p *B", &["has registered provider", "none logs its state"]);
    ends(3, "session flush x -o y.etl", &["this session has a file of its own"]);
    ends(3, "session update x -o /absent/x.etl", &missing);
    place.does("session stop x");
    ends(2, "dump --from +2s --to +1s x.etl", &["--to is before --from"]);
    ends(0, "stat --by functon x.etl", &["a field functon; did you mean function?"]);
    place.does("session start x --buffering -p A");
    ends(3, "session flush x -o /absent/x.etl", &missing);
    let text = place.ends(0, "session stop x");
    assert_eq!(text, "0 events in memory, none lost\n");
    ends(3, "dump absent.etl", &["absent.etl: No such file"]);
}
