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
    ends(2, "tail", &["name a session (etw tail SESSION) or a provider (etw tail -p PROVIDER)"]);
    ends(2, "session start x", &["session start x", "-o FILE", "--real-time", "--buffering"]);
    let missing = ["/absent/x.etl: the folder /absent does not exist; create it"];
    ends(3, "session start x -o /absent/x.etl", &missing);
    ends(125, "record -o /absent/x.etl -p A -- true", &missing);
    ends(2, "session start x --real-time -p A:loud", &["--provider", "\"loud\" is no level"]);
    ends(2, "session start x --real-time -p A:4:Sales", &["keyword \"Sales\" of A", "--manifest"]);
    ends(2, "record -p A -- true", &["--output <FILE>"]);
    ends(3, "dump absent.etl", &["absent.etl: No such file"]);
}
