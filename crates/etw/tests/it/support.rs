//! Events by hand, and files read back.
use etw_decode::{Decoder, Value, Visitor};
use etw_etl::read::{Records, TraceFile};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// A path of this test's own in the temporary folder; what is there is removed in the end.
pub struct TempPath(pub PathBuf);

impl TempPath {
    pub fn new(name: &str) -> TempPath {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("etw-test-{}-{number}-{name}", std::process::id());
        TempPath(std::env::temp_dir().join(name))
    }
}

impl std::ops::Deref for TempPath {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for TempPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let mut part = self.0.clone().into_os_string();
        part.push(".part");
        let _ = std::fs::remove_file(part);
    }
}

/// A number of the private sessions that this process can have. A test that starts sessions holds them, so that it is refused
/// none because of the tests that run beside it.
pub struct SessionPermits(usize);

static FREE_SESSIONS: Mutex<usize> = Mutex::new(etw::MAX_PRIVATE_SESSIONS);
static SESSIONS_FREED: Condvar = Condvar::new();

/// Waits until so many sessions are free. A test takes all that it needs at once.
pub fn session_permits(count: usize) -> SessionPermits {
    let free = FREE_SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let enough = SESSIONS_FREED.wait_while(free, |free| *free < count);
    *enough.unwrap_or_else(PoisonError::into_inner) -= count;
    SessionPermits(count)
}

impl Drop for SessionPermits {
    fn drop(&mut self) {
        *FREE_SESSIONS.lock().unwrap_or_else(PoisonError::into_inner) += self.0;
        SESSIONS_FREED.notify_all();
    }
}

/// A record read back.
#[allow(dead_code)]
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub provider: String,
    pub event: String,
    pub fields: String,
    pub time: i64,
    pub cpu: u16,
    pub pid: u32,
    pub tid: u32,
    pub level: u8,
    pub opcode: u8,
    pub keyword: u64,
    pub activity: etw::Guid,
    pub related: Option<etw::Guid>,
    pub payload: Vec<u8>,
}

struct Text(String);

impl Visitor for Text {
    fn value(&mut self, field: &etw_decode::Field, value: Value<'_>) {
        let mut text = Vec::new();
        value.write_text(&mut text, &etw_decode::Style::default());
        self.0 += &format!("{}={} ", field.name, String::from_utf8_lossy(&text));
    }

    fn begin_array(&mut self, field: &etw_decode::Field, count: usize) {
        self.0 += &format!("{}[{count}] ", field.name);
    }

    fn end_array(&mut self, _field: &etw_decode::Field) {}

    fn begin_struct(&mut self, field: &etw_decode::Field) {
        self.0 += &format!("{}{{ ", field.name);
    }

    fn end_struct(&mut self, _field: &etw_decode::Field) {
        self.0 += "} ";
    }
}

/// All events of a file but the session's own report, which is returned apart.
pub fn read(path: &Path) -> (Vec<Seen>, Vec<Seen>) {
    read_file(TraceFile::open(path).unwrap())
}

pub fn read_file(file: TraceFile) -> (Vec<Seen>, Vec<Seen>) {
    let mut records = Records::new(vec![file]);
    let mut decoder = Decoder::new();
    let (mut events, mut reports) = (Vec::new(), Vec::new());
    while let Some(record) = records.next() {
        if record.hook.is_some() {
            continue;
        }
        let decoded = decoder.decode(&record);
        let mut text = Text(String::new());
        decoded.visit(&record, &mut text).unwrap();
        let seen = Seen {
            provider: decoded.provider_name().unwrap_or_default().to_string(),
            event: decoded.event_name().unwrap_or_default().to_owned(),
            fields: text.0.trim_end().to_owned(),
            time: record.order_time,
            cpu: record.cpu,
            pid: record.process_id.unwrap(),
            tid: record.thread_id.unwrap(),
            level: record.descriptor.level.0,
            opcode: record.descriptor.opcode.0,
            keyword: record.descriptor.keyword.0,
            activity: record.activity_id,
            related: record.related_activity_id(),
            payload: record.payload.to_vec(),
        };
        if seen.provider == "OpenEtw.Session" { reports.push(seen) } else { events.push(seen) }
    }
    assert_eq!(records.damage().count(), 0, "{:?}", records.damage().kept());
    (events, reports)
}
