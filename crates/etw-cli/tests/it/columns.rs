//! `--columns` and `--by` with every kind of value, and options that go with no format.

use crate::fixture::{TempFile, etw, greetings, json_lines, push_event, stderr, stdout};
use etw_etl::write::FileBuilder;
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, PayloadBuilder};
use serde_json::{Value, json};

/// A text with all that can break a line, a cell or a terminal.
const HOSTILE: &str = "a\tb\n\"c\",\\ \u{1b}[31m\u{7f}\u{9b}\u{202e}é";

/// An event of arrays, structs, fields of one name, floating-point numbers and a hostile text, and one with empty arrays.
fn values() -> TempFile {
    let mut file = FileBuilder::new();
    let scalar = |builder: MetadataBuilder, name: &str, in_type| {
        builder.field(name, in_type, OutType::NULL, Count::Scalar, 0)
    };
    let array = |builder: MetadataBuilder, name: &str, in_type| {
        builder.field(name, in_type, OutType::NULL, Count::Variable, 0)
    };
    let builder = MetadataBuilder::new("Values", 0);
    let builder = array(builder, "list", InType::UINT16);
    let builder = array(builder, "texts", InType::ANSISTRING);
    let builder = builder.structure("st", 2, Count::Scalar, 0);
    let builder = scalar(builder, "x", InType::INT8);
    let builder = scalar(builder, "name", InType::ANSISTRING);
    let builder = builder.structure("items", 2, Count::Variable, 0);
    let builder = scalar(builder, "sku", InType::UINT8);
    let builder = array(builder, "codes", InType::UINT8);
    let builder = scalar(builder, "dup", InType::UINT8);
    let builder = scalar(builder, "dup", InType::UINT8);
    let builder = scalar(builder, "tenth", InType::FLOAT);
    let builder = scalar(builder, "nan", InType::DOUBLE);
    let builder = scalar(builder, "minus", InType::FLOAT);
    let builder = scalar(builder, "large", InType::UINT64);
    let builder = scalar(builder, "flag", InType::BOOL32);
    let builder = builder.field("text", InType::ANSISTRING, OutType::UTF8, Count::Scalar, 0);
    let metadata = builder.finish().unwrap();
    let rest = |payload: PayloadBuilder| {
        payload
            .u8(8)
            .u8(9)
            .f32(0.1)
            .f64(f64::NAN)
            .f32(f32::NEG_INFINITY)
            .u64(u64::MAX)
            .bool32(true)
            .ansi_z(HOSTILE.as_bytes())
            .finish()
            .unwrap()
    };
    let full = PayloadBuilder::new().count(3).u16(1).u16(2).u16(3).count(2);
    let full = full.ansi_z(b"a b").ansi_z(b"\"\n").i8(-4).ansi_z(b"n");
    let full = full.count(2).u8(5).count(2).u8(50).u8(51).u8(6).count(0);
    let empty = PayloadBuilder::new().count(0).count(0).i8(-4).ansi_z(b"").count(0);
    push_event(&mut file, 0, 0, &metadata, &rest(full));
    push_event(&mut file, 0, 1, &metadata, &rest(empty));
    TempFile::new(&file.finish())
}

const WHERE: [&str; 2] = ["--where", "event == 'Values'"];

/// The rows of some columns of the two events as JSON.
fn rows(columns: &str, more: &[&str]) -> Vec<Value> {
    let file = values();
    let words = [&["dump", "--columns", columns, "--json"][..], &WHERE, more].concat();
    json_lines(&stdout(&words, &[file.path()], 0))
}

#[test]
fn arrays_and_structs_are_shown_whole() {
    let all = "list,texts,st,items,st.x,x,items.sku,codes,items.codes,dup,dup#2,DUP,St.Name";
    let file = values();
    let whole = json_lines(&stdout(&[&["dump", "--json"], &WHERE[..]].concat(), &[file.path()], 0));
    for (row, whole) in rows(all, &[]).iter().zip(&whole) {
        let fields = &whole["fields"];
        for name in ["list", "texts", "st", "items", "dup", "dup#2"] {
            assert_eq!(row[name], fields[name], "{name}");
        }
        assert_eq!((&row["st.x"], &row["x"]), (&json!(-4), &json!(-4)));
        assert_eq!((&row["DUP"], &row["St.Name"]), (&json!(8), &fields["st"]["name"]));
    }
    let first = &rows(all, &[])[0];
    assert_eq!(first["list"], json!([1, 2, 3]));
    assert_eq!(first["items.sku"], json!([5, 6]));
    assert_eq!(first["codes"], json!([[50, 51], []]));
    assert_eq!(first["items.codes"], first["codes"]);
    assert_eq!(first["dup#2"], 9);
    let text = stdout(
        &[&["dump", "--columns", "list,texts,st,items,sku,dup#2"], &WHERE[..]].concat(),
        &[file.path()],
        0,
    );
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[1],
        "[1 2 3]\t[\"a b\" \"\\\"\\n\"]\t{x=-4 name=\"n\"}\t[{sku=5 codes=[50 51]} {sku=6 codes=[]}]\t[5 6]\t9"
    );
    assert_eq!(lines[2], "[]\t[]\t{x=-4 name=\"\"}\t[]\t-\t9");
}

#[test]
fn the_second_field_of_a_name_can_be_chosen() {
    let file = values();
    let words = [&["dump", "--json", "--fields", "DUP#2,tenth"], &WHERE[..]].concat();
    let output = etw(&words, &[file.path()]);
    assert_eq!(stderr(&output), "");
    let row = &json_lines(&String::from_utf8(output.stdout).unwrap())[0];
    assert_eq!(row["fields"], json!({"dup#2": 9, "tenth": 0.1}));
}

#[test]
fn fields_that_are_there_get_no_note() {
    let file = values();
    let empty = ["--where", "event == 'Values' and not list"];
    let notes = |words: &[&str]| stderr(&etw(&[words, &empty[..]].concat(), &[file.path()]));
    for columns in ["list", "items.sku", "dup#2", "st.x,st", "codes"] {
        assert_eq!(notes(&["dump", "--columns", columns]), "", "{columns}");
        assert_eq!(notes(&["stat", "--by", columns]), "", "{columns}");
    }
    for (columns, missing) in [("st.y", "st.y"), ("dup#3", "dup#3"), ("items.x", "items.x")] {
        let text = notes(&["dump", "--columns", columns]);
        assert!(text.contains(&format!("none of the records has a field {missing}")), "{text}");
    }
}

#[test]
fn numbers_are_those_of_the_usual_output() {
    let columns = "tenth,nan,minus,large,flag";
    let row = &rows(columns, &[])[0];
    let expected =
        json!({"tenth": 0.1, "nan": "NaN", "minus": "-Infinity", "large": u64::MAX, "flag": true});
    assert_eq!(*row, expected);
    assert_eq!(rows(columns, &["--json-strings64"])[0]["large"], u64::MAX.to_string());
    let file = values();
    let words = [&["dump", "--columns", columns], &WHERE[..]].concat();
    let text = stdout(&words, &[file.path()], 0);
    assert_eq!(text.lines().nth(1), Some("0.1\tNaN\t-Infinity\t18446744073709551615\ttrue"));
}

#[test]
fn texts_are_escaped_kept_or_quoted_as_the_format_asks() {
    let file = values();
    assert_eq!(rows("text", &[])[0]["text"], HOSTILE);
    let words =
        |format| [&["dump", "--columns", "text,x", "--format", format], &WHERE[..]].concat();
    let text = stdout(&words("text"), &[file.path()], 0);
    let cell = r#""a\tb\n\"c\",\\ \u001b[31m\u007f\u009b\u202eé""#;
    assert_eq!(text.lines().nth(1), Some(&*format!("{cell}\t-4")));
    let csv = stdout(&words("csv"), &[file.path()], 0);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!((rows.len(), &rows[0][0], &rows[0][1]), (2, HOSTILE, "-4"));
}

#[test]
fn groups_have_the_values_of_columns() {
    let file = values();
    let stat = |words: &[&str]| {
        let words = [&["stat"], words, &WHERE[..], &["--json"]].concat();
        json_lines(&stdout(&words, &[file.path()], 0)).remove(0)["groups"].clone()
    };
    let groups = stat(&["--by", "list,st.x,dup#2,text", "--sum", "tenth"]);
    assert_eq!(
        groups[0]["by"],
        json!({"list": [1, 2, 3], "st.x": -4, "dup#2": 9, "text": HOSTILE})
    );
    assert_eq!(groups[1]["by"]["list"], json!([]));
    assert_eq!((&groups[0]["sum"], &groups[0]["count"]), (&json!(0.1), &json!(1)));
    assert_eq!(stat(&["--by", "nan,minus"])[0]["by"], json!({"nan": "NaN", "minus": "-Infinity"}));
    // All values of an array are summed, and no digit is lost.
    let sums = stat(&["--by", "event", "--sum", "list"]);
    assert_eq!((&sums[0]["sum"], &sums[0]["values"]), (&json!(6), &json!(3)));
    let words = ["stat", "--by", "event", "--sum", "nan", WHERE[0], WHERE[1]];
    let text = stderr(&etw(&words, &[file.path()]));
    assert_eq!(text, "etw: note: --sum: left out, as NaN or infinite: 2 values\n");
    let words = ["stat", "--by", "event", "--sum", "large", "--json", WHERE[0], WHERE[1]];
    let text = stdout(&words, &[file.path()], 0);
    assert!(text.contains(r#""sum":36893488147419103230,"values":2"#), "{text}");
    let table = stdout(&["stat", "--by", "list,text", WHERE[0], WHERE[1]], &[file.path()], 0);
    assert!(table.lines().any(|line| line.ends_with(r#"\u202eé""#)), "{table}");
    assert!(table.contains("  [1 2 3]  \"a\\tb\\n"), "{table}");
}

#[test]
fn singles_are_filtered_as_they_are_shown() {
    let file = values();
    let count = |filter: &str| {
        let filter = format!("event == 'Values' and {filter}");
        stdout(&["dump", "--where", &filter], &[file.path()], 0).lines().count()
    };
    for (filter, expected) in [
        ("tenth == 0.1", 2),
        ("tenth <= 0.1 and tenth >= 0.1", 2),
        ("tenth in (0.1, 7)", 2),
        ("tenth in 0.1..0.1", 2),
        ("tenth like '0.1'", 2),
        ("tenth != 0.1", 0),
        ("tenth > 0.1", 0),
        ("tenth < 1e300 and tenth > 1e-300", 2),
        ("minus < -1e300", 2),
        ("dup#2 == 9 and dup == 8 and not dup#2 == 8", 2),
        ("large == 18446744073709551615.0", 0),
        ("text like '*É'", 2),
        ("text ~ '(?i)É$'", 2),
        ("text ~ 'É$'", 0),
    ] {
        assert_eq!(count(filter), expected, "{filter}");
    }
}

#[test]
fn a_trace_without_names_of_processes_says_so_once() {
    let file = values();
    let notes = |filter: &str| stderr(&etw(&["dump", "--where", filter], &[file.path()]));
    let note = "the trace has no names of processes";
    for filter in ["process == 'shop'", "process like 'sh*'", "process == 'shop' or dup == 8"] {
        assert_eq!(notes(filter).matches(note).count(), 1, "{filter}");
    }
    assert_eq!(notes("process == 10"), "");
}

#[test]
fn options_without_an_effect_are_refused() {
    let file = TempFile::new(&greetings(1));
    for (words, expected) in [
        (&["dump", "--raw", "--columns", "pid"][..], "--raw adds to whole records"),
        (&["dump", "--join", "--format", "csv"], "--join has the formats text and json"),
        (&["dump", "--join", "--format", "xml"], "--join has the formats text and json"),
        (&["dump", "--json-strings64"], "--json-strings64 needs --format json"),
        (&["dump", "--json", "--columns", "pid,text,PID"], "--columns names pid twice"),
        (&["dump", "--columns", "fields."], "a column's name is empty"),
        (&["stat", "--symbols", "/"], "--symbols and --perf-map need --by function"),
        (&["stat", "--perf-map", "/", "--by", "thread"], "--symbols and --perf-map need"),
    ] {
        let output = etw(words, &[file.path()]);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).contains(expected), "{words:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    let named =
        stdout(&["dump", "--join", "--format", "csv", "--columns", "pid"], &[file.path()], 0);
    assert_eq!(named.lines().count(), 3);
}

/// `--raw` adds payload and place in every format.
#[test]
fn raw_records_have_payload_and_place() {
    let file = TempFile::new(&greetings(1));
    let json = json_lines(&stdout(&["dump", "--raw", "--json"], &[file.path()], 0));
    let payload = json[1]["payload"].as_str().unwrap();
    let (buffer, offset) = (&json[1]["buffer"], &json[1]["offset"]);
    let of = |format| stdout(&["dump", "--raw", "--format", format], &[file.path()], 0);
    let csv = of("csv");
    let end = format!(",payload={payload},buffer={buffer},offset={offset}");
    assert!(csv.lines().nth(2).unwrap().ends_with(&end), "{csv}");
    let end = format!("<Position Buffer=\"{buffer}\" Offset=\"{offset}\"/></Event>");
    let xml = of("xml");
    assert!(xml.contains(&format!("<BinaryEventData>{payload}</BinaryEventData>")), "{xml}");
    assert!(xml.lines().any(|line| line.ends_with(&end)), "{xml}");
}

#[test]
fn a_row_of_one_empty_cell_is_no_empty_line() {
    let file = TempFile::new(&greetings(2));
    let csv = stdout(&["dump", "--columns", "text", "--format", "csv"], &[file.path()], 0);
    assert_eq!(csv, "text\n\"\"\nhello 0\nhello 1\n");
}

/// A closed pipe is no failure, a full disk is one.
#[test]
#[cfg(target_os = "linux")]
fn help_that_cannot_be_written_is_an_error() {
    use std::process::Command;
    for words in [&["--help"][..], &["help", "dump"], &["stat", "--help"], &["--version"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output =
            Command::new(env!("CARGO_BIN_EXE_etw")).args(words).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{words:?}");
        assert!(stderr(&output).contains("standard output: No space left"), "{words:?}");
    }
}
