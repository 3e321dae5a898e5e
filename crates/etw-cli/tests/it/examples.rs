//! The examples of crate `etw`, run as a newcomer runs them, and what `etw` shows of their traces.
use crate::fixture::{json_lines, stdout};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The events of an example's trace, its session's own report aside.
fn run(name: &str, arguments: &[&str]) -> (String, Vec<Value>) {
    let folder =
        Folder(std::env::temp_dir().join(format!("etw-example-{name}-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).unwrap();
    let trace = folder.0.join("trace.etl");
    let output = Command::new(env!("CARGO"))
        .args([
            "run",
            "--quiet",
            "--locked",
            "-p",
            "openetw",
            "--features",
            "session",
            "--example",
            name,
            "--",
        ])
        .args(arguments.iter().map(|a| if *a == "TRACE" { trace.to_str().unwrap() } else { a }))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut lines = json_lines(&stdout(&["dump", "--format", "json"], &[&trace], 0));
    lines.retain(|line| line["header"] == "EVENT64" && line["provider_name"] != "OpenEtw.Session");
    assert!(lines.iter().all(|line| line["decoded"] == "tracelogging"));
    (String::from_utf8(output.stdout).unwrap(), lines)
}

fn named<'a>(events: &'a [Value], name: &str, opcode: u8) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == name && event["opcode"] == opcode).collect()
}

/// OV-11: each file is an activity of its own, related to the run, from its start to its stop.
#[test]
fn parallel_grep_has_one_activity_for_each_file() {
    let (told, events) =
        run("parallel_grep", &["--trace", "TRACE", "define_provider", "crates/etw/examples"]);
    let runs = named(&events, "Run", 1);
    let totals = &named(&events, "Run", 2)[0]["fields"]["Totals"];
    let (starts, stops) = (named(&events, "File", 1), named(&events, "File", 2));
    assert_eq!((runs.len(), starts.len()), (1, stops.len()));
    assert_eq!(totals["Files"], starts.len());
    assert!(starts.len() >= 4 && totals["Matches"].as_u64() >= Some(6), "{totals}");
    assert_eq!(totals["Matches"], named(&events, "Match", 0).len());
    assert!(
        told.contains(&format!("{} events", events.len())) && told.contains("0 lost"),
        "{told}"
    );
    let mut open: BTreeMap<&str, &Value> = BTreeMap::new();
    for start in starts {
        assert_eq!(start["related_activity_id"], runs[0]["activity_id"]);
        assert!(open.insert(start["activity_id"].as_str().unwrap(), start).is_none());
    }
    for stop in stops {
        assert!(open.remove(stop["activity_id"].as_str().unwrap()).is_some());
    }
}

/// OV-11: a request stays one activity while it moves between threads, and its steps are related to it.
#[test]
fn async_server_keeps_an_activity_across_threads() {
    let (_, events) = run("async_server", &["TRACE"]);
    let (starts, stops) = (named(&events, "Request", 1), named(&events, "Request", 2));
    assert_eq!((starts.len(), stops.len(), events.len()), (20, 20, 160));
    let requests: BTreeMap<&str, &Value> =
        starts.iter().map(|e| (e["activity_id"].as_str().unwrap(), *e)).collect();
    assert_eq!(requests.len(), 20);
    assert!(stops.iter().all(|e| requests.contains_key(e["activity_id"].as_str().unwrap())));
    let steps = named(&events, "Query", 1);
    assert_eq!(steps.len(), 60);
    assert!(
        steps.iter().all(|e| requests.contains_key(e["related_activity_id"].as_str().unwrap()))
    );
}

/// OV-5: the last steps before the panic are in the file, and the panic itself.
#[test]
fn flight_recorder_stores_the_last_steps_before_a_panic() {
    let (_, events) = run("flight_recorder", &["TRACE"]);
    let panic = events.last().unwrap();
    assert_eq!((&panic["event"], &panic["level"]), (&"Panic".into(), &1.into()));
    assert!(panic["fields"]["What"].as_str().unwrap().contains("in step 60000"));
    let steps: Vec<u64> =
        named(&events, "Step", 0).iter().map(|e| e["fields"]["Number"].as_u64().unwrap()).collect();
    assert!(steps.len() > 1000 && steps.is_sorted(), "{}", steps.len());
    // On a machine that is busy the recorder may have been short of room for a moment, and says so.
    assert!(steps.last().unwrap() + 1000 > 60_000, "{:?}", steps.last());
}

/// TC-3, TC-4, TC-5: a custom field is length and payload with its schema; whoever has a decoder for the protocol shows what it says,
/// others protocol, schema and bytes.
#[test]
fn custom_fields_are_shown_by_their_decoder() {
    let folder = Folder(std::env::temp_dir().join(format!("etw-custom-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).unwrap();
    let trace = folder.0.join("trace.etl");
    let example = ["run", "-q", "--locked", "-p", "openetw", "--features", "session", "--example"];
    let output = Command::new(env!("CARGO"))
        .args(example)
        .args(["custom_fields", "--"])
        .arg(&trace)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let fields = |options: &[&str]| -> Vec<Value> {
        let arguments = [&["dump", "--format", "json"], options].concat();
        let lines = json_lines(&stdout(&arguments, &[&trace], 0));
        let mut lines = lines.into_iter();
        lines
            .by_ref()
            .filter(|line| line["event"] == "Order")
            .map(|l| l["fields"].clone())
            .collect()
    };
    let known = fields(&["--custom", "5=cbor"]);
    assert_eq!(
        known,
        [
            serde_json::json!({"Order": {"sku": "tea", "counts": [0, 7]}, "Number": 0}),
            serde_json::json!({"Order": {"sku": "advice", "counts": [1, 7]}, "Number": 1}),
        ]
    );
    let unknown = fields(&["--custom", "6=cbor"]);
    assert_eq!(unknown, fields(&[]));
    let order = &unknown[0]["Order"];
    assert_eq!((&order["protocol"], &order["schema"]), (&Value::from(5), &Value::from("0100")));
    assert!(order["data"].as_str().unwrap().starts_with("a263736b75"));
    let text = stdout(&["dump", "--custom", "5=cbor"], &[&trace], 0);
    assert!(text.contains(r#"Order={"sku":"tea","counts":[0,7]} Number=0"#), "{text}");
    let text = stdout(&["dump"], &[&trace], 0);
    assert!(text.contains("Order=protocol 5 schema 0100 data a263736b75"), "{text}");
    let xml = stdout(&["dump", "--format", "xml"], &[&trace], 0);
    let (length, payload) = (r#"<Data Name="Order.Length">19</Data>"#, r#"<Data Name="Order">"#);
    assert!(xml.contains(length) && xml.contains(payload), "{xml}");
    let xml = stdout(&["dump", "--format", "xml", "--custom", "5=cbor"], &[&trace], 0);
    assert!(xml.contains("sku&quot;:&quot;tea") || xml.contains("\"sku\":\"tea\""), "{xml}");
    // Usage.
    for wrong in ["5", "32=cbor", "x=cbor", "5=yaml"] {
        stdout(&["dump", "--custom", wrong], &[&trace], 2);
    }
}
