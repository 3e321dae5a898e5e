//! `etw repair`.

use crate::fixture::{TempFile, etw, greetings, push_tracelogging, stderr, stdout};
use etw_etl::write::FileBuilder;

fn unfinished(count: i64) -> Vec<u8> {
    let mut file = FileBuilder::new();
    file.finalised = false;
    file.header.logfile.buffer_size = 0x1000;
    for number in 0..count {
        push_tracelogging(&mut file, (number % 2) as u16, number * 10, "x");
    }
    file.finish()
}

#[test]
fn an_unfinished_file_is_finalised_once() {
    let mut bytes = unfinished(100);
    bytes.resize(bytes.len() + 0x3000, 0);
    let file = TempFile::new(&bytes);
    let text = stdout(&["repair"], &[file.path()], 0);
    assert!(
        text.contains(
            ": finalised, 101 records in 7 buffers, the last at 2026-01-02T03:04:05.0000990Z"
        ),
        "{text}"
    );
    assert!(text.contains("; 12288 bytes behind them cut off"), "{text}");
    let now = std::fs::read(file.path()).unwrap();
    assert_eq!(now.len(), bytes.len() - 0x3000);
    let text = stdout(&["check"], &[file.path()], 0);
    assert!(text.contains(": sound, 101 records") && !text.contains("note"), "{text}");
    let text = stdout(&["repair"], &[file.path()], 0);
    assert!(text.contains(": sound, 101 records in 7 buffers, left as it is"), "{text}");
    assert!(std::fs::read(file.path()).unwrap() == now);
}

#[test]
fn a_cut_buffer_is_completed_and_its_loss_told() {
    let bytes = unfinished(100);
    let file = TempFile::new(&bytes[..bytes.len() - 0xf00]);
    let output = etw(&["repair"], &[file.path()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the file ends 3840 bytes before"), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains(": finalised, ") && text.contains(" bytes of records were never written"),
        "{text}"
    );
    let text = stdout(&["check"], &[file.path()], 0);
    assert!(text.contains(": sound"), "{text}");
}

#[test]
fn what_cannot_be_repaired_is_told_and_left() {
    let mut bytes = unfinished(100);
    bytes[0x2000..0x2060].fill(0xee);
    for bytes in [bytes, greetings(100)[..0x3800].to_vec()] {
        let file = TempFile::new(&bytes);
        let output = etw(&["repair"], &[file.path()]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("etw: damaged: "), "{}", stderr(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(": damaged, ") && text.contains("left as it is"), "{text}");
        assert!(std::fs::read(file.path()).unwrap() == bytes);
    }
    let none = TempFile::new(b"no trace");
    assert_eq!(etw(&["repair"], &[none.path()]).status.code(), Some(3));
}

/// Its header has no end time, and a time of zero is one of the year 1601.
#[test]
fn a_damaged_file_without_an_end_time_has_no_last_record() {
    let mut bytes = unfinished(100);
    bytes[0x2000..0x2060].fill(0xee);
    for (bytes, is_known) in [(bytes, false), (greetings(100)[..0x3800].to_vec(), true)] {
        let file = TempFile::new(&bytes);
        let output = etw(&["repair", "--json"], &[file.path()]);
        let text = String::from_utf8(output.stdout).unwrap();
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["outcome"], "damaged", "{text}");
        assert_eq!(object["last_record"].is_string(), is_known, "{text}");
        assert!(!text.contains("1601"), "{text}");
    }
}

#[test]
fn a_part_beside_the_file_is_not_lost() {
    let bytes = unfinished(10);
    let file = TempFile::new(&bytes);
    let part = file.path().with_extension("etl.part");
    std::fs::write(&part, b"what a session left").unwrap();
    let output = etw(&["repair"], &[file.path()]);
    std::fs::remove_file(&part).unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains(".etl.part"), "{}", stderr(&output));
    assert!(std::fs::read(file.path()).unwrap() == bytes);
}
