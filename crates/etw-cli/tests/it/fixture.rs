//! Traces made for the tests, and the command run on them.

use etw_etl::write::{FileBuilder, sample};
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, PayloadBuilder, provider_traits};
use etw_types::{EventRecord, ExtType, ExtendedItemsBuf, Guid, HeaderType};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

pub const PROVIDER: Guid = Guid::from_u128(0xaaaaaaaa_bbbb_cccc_dddd_eeeeeeeeeeee);

/// A file in the temporary folder, removed in the end.
pub struct TempFile(PathBuf);

impl TempFile {
    pub fn new(bytes: &[u8]) -> TempFile {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("etw-cli-test-{}-{number}.etl", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        TempFile(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub fn etw(arguments: &[&str], files: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_etw"))
        .args(arguments)
        .args(files)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Standard output of a run that ends with `status`.
pub fn stdout(arguments: &[&str], files: &[&Path], status: i32) -> String {
    let output = etw(arguments, files);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        output.status.code(),
        Some(status),
        "{stderr}{}",
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8(output.stdout).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// One of every header type.
pub fn every_header() -> Vec<u8> {
    sample::trace()
}

/// Pushes a TraceLogging event with a string, a number and a custom field.
pub fn push_tracelogging(file: &mut FileBuilder, cpu: u16, after: i64, text: &str) {
    let metadata = MetadataBuilder::new("Greeting", 0)
        .field("text", InType::COUNTEDANSISTRING, OutType::UTF8, Count::Scalar, 0)
        .field("number", InType::UINT64, OutType::NULL, Count::Scalar, 0)
        .custom("blob", 5, &[0, 1, 2], 0)
        .finish()
        .unwrap();
    let payload = PayloadBuilder::new()
        .counted_ansi(text.as_bytes())
        .u64(u64::MAX)
        .binary(&[0xaa, 0xbb])
        .finish()
        .unwrap();
    push_event(file, cpu, after, &metadata, &payload);
}

/// Pushes a TraceLogging event of any shape.
pub fn push_event(file: &mut FileBuilder, cpu: u16, after: i64, metadata: &[u8], payload: &[u8]) {
    let traits = provider_traits("Test.Provider", Some(Guid::from_u128(7))).unwrap();
    let items = ExtendedItemsBuf::from_items(&[
        (ExtType::PROV_TRAITS, &traits[..]),
        (ExtType::EVENT_SCHEMA_TL, metadata),
    ])
    .unwrap();
    let mut record = EventRecord::new(HeaderType::Event64, payload);
    record.provider = Some(PROVIDER);
    record.descriptor.channel.0 = 11;
    record.descriptor.level.0 = 4;
    (record.process_id, record.thread_id) = (Some(10), Some(20));
    record.extended = items.as_items();
    record.order_time = file.header.start_raw + after;
    file.push(cpu, &record).unwrap();
}

/// `count` TraceLogging events a microsecond apart on three CPUs.
pub fn greetings(count: i64) -> Vec<u8> {
    let mut file = FileBuilder::new();
    file.header.logfile.buffer_size = 0x1000;
    for number in 0..count {
        push_tracelogging(&mut file, (number % 3) as u16, number * 10, &format!("hello {number}"));
    }
    file.finish()
}
