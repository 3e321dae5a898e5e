//! Files that are written while they are read.

use super::*;
use std::io::Write;

pub(super) struct Temporary(pub std::path::PathBuf);

impl Temporary {
    pub fn new(name: &str, bytes: &[u8]) -> Temporary {
        let path = std::env::temp_dir().join(format!("etw-etl-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn read_while_changed(name: &str, sound: &Sound, change: impl Fn(&Path)) -> Outcome {
    let temporary = Temporary::new(name, &sound.bytes);
    let file = TraceFile::open(&temporary.0).unwrap();
    let totals = *file.totals();
    let mut records = Records::new(vec![file]);
    assert!(records.next().is_some());
    change(&temporary.0);
    let outcome = crate::support::drain(&mut records, 1, totals);
    for row in &outcome.rows {
        assert!(sound.rows.contains(row), "{name}: {row:?}");
    }
    let changed = |damage: &&(u64, DamageKind)| damage.1 == DamageKind::Changed;
    assert!(outcome.damage.iter().any(|damage| changed(&damage)), "{name}");
    let other: Vec<_> = outcome.damage.iter().filter(|damage| !changed(damage)).collect();
    assert!(other.is_empty(), "{name}: {other:?}");
    for (number, damage) in outcome.damage.iter().enumerate() {
        assert!(!outcome.damage[..number].contains(damage), "{name}: {damage:?} twice");
    }
    outcome
}

#[test]
fn a_file_that_shrinks() {
    for (name, sound) in [("shrink-u", Sound::uniform()), ("shrink-c", Sound::compressed())] {
        for length in
            [0, 36, 3 * GRID + 36, 3 * GRID + 200, sound.offsets[3], sound.offsets[4] + 90]
        {
            let length = length.min(sound.bytes.len() - 1) as u64;
            read_while_changed(name, &sound, |path| {
                std::fs::OpenOptions::new()
                    .write(true)
                    .open(path)
                    .unwrap()
                    .set_len(length)
                    .unwrap();
            });
        }
    }
}

#[test]
fn a_file_that_grows() {
    let sound = Sound::uniform();
    let outcome = read_while_changed("grow", &sound, |path| {
        let mut bytes = sound.bytes.clone();
        bytes.extend(&sound.bytes);
        std::fs::write(path, bytes).unwrap();
    });
    assert_eq!(outcome.rows.len() + 1, sound.rows.len());
}

/// The file of a running session: it is not finalised, and grows. What was there at the opening is sound.
#[test]
fn a_file_that_a_session_still_writes() {
    let mut file = builder(GRID as u32);
    file.finalised = false;
    push_numbered(&mut file, 3, 600);
    let bytes = file.finish();
    let temporary = Temporary::new("running", &bytes);
    let read = |change: &dyn Fn(&mut std::fs::File)| {
        let mut records = Records::new(vec![TraceFile::open(&temporary.0).unwrap()]);
        assert!(records.next().is_some() && !records.files()[0].is_finalised());
        change(&mut std::fs::OpenOptions::new().write(true).open(&temporary.0).unwrap());
        let mut count = 1;
        while records.next().is_some() {
            count += 1;
        }
        (count, records.damage().clone())
    };
    let (count, damage) = read(&|_| ());
    assert!(damage.is_empty());
    let grown = read(&|file| {
        std::io::Seek::seek(file, io::SeekFrom::End(0)).unwrap();
        file.write_all(&bytes[bytes.len() - GRID..]).unwrap();
    });
    assert_eq!((grown.0, grown.1.count()), (count, 0));
    // Buffers that were there and are replaced are lost.
    let (_, damage) = read(&|file| file.write_all(&vec![0; bytes.len()]).unwrap());
    assert!(damage.kept().iter().any(|damage| damage.kind == DamageKind::Changed));
}

/// The session reserved space, and writes there while the file is opened, behind the search for headers.
#[test]
fn reserved_space_that_a_session_fills_meanwhile_is_no_damage() {
    struct Filling {
        bytes: Vec<u8>,
        reserved_from: u64,
        reads: std::sync::atomic::AtomicU64,
    }
    impl ByteSource for Filling {
        fn size(&self) -> u64 {
            self.bytes.len() as u64
        }
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let count = self.bytes.read_at(buffer, offset)?;
            // A long read is the one that looks whether all of it is zero.
            if offset >= self.reserved_from && count > HEAD {
                self.reads.fetch_add(1, Ordering::Relaxed);
                buffer[0] = 1;
            }
            Ok(count)
        }
        fn has_changed(&self) -> bool {
            self.reads.load(Ordering::Relaxed) > 0
        }
    }
    for finalised in [false, true] {
        let mut file = builder(GRID as u32);
        file.finalised = finalised;
        file.header.logfile.log_file_mode |= LogFileMode::PREALLOCATE;
        push_numbered(&mut file, 3, 600);
        let mut bytes = file.finish();
        let reserved_from = bytes.len() as u64;
        bytes.resize(bytes.len() + 8 * GRID, 0);
        let source = Filling { bytes, reserved_from, reads: Default::default() };
        let file = TraceFile::from_source(Path::new("filling"), Box::new(source)).unwrap();
        let damage = read_files(vec![file], options(0)).damage;
        assert_eq!(damage.is_empty(), !finalised, "{damage:?}");
    }
}

#[test]
fn a_file_that_is_rewritten() {
    let sound = Sound::uniform();
    read_while_changed("zeros", &sound, |path| {
        std::fs::write(path, vec![0; sound.bytes.len()]).unwrap();
    });
    let other = numbered(GRID as u32, 3, 600);
    let temporary = Temporary::new("other", &sound.bytes);
    let file = TraceFile::open(&temporary.0).unwrap();
    let mut records = Records::new(vec![file]);
    std::fs::write(&temporary.0, &other).unwrap();
    while records.next().is_some() {}
    let changed = |damage: &etw_etl::Damage| damage.kind == DamageKind::Changed;
    assert!(records.damage().kept().iter().any(changed));
}

/// Fails or tears reads at will.
#[derive(Clone)]
struct Unreliable {
    bytes: Arc<Mutex<Vec<u8>>>,
    size: u64,
    fail: Arc<AtomicBool>,
}

impl ByteSource for Unreliable {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.fail.load(Ordering::Relaxed)
            && offset >= 3 * GRID as u64
            && offset < 4 * GRID as u64
        {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        // Short reads are legal.
        let few = buffer.len().min(13);
        self.bytes.lock().unwrap().read_at(&mut buffer[..few], offset)
    }
}

#[test]
fn an_unreadable_range_is_reported_and_skipped() {
    let sound = Sound::uniform();
    let source = Unreliable {
        bytes: Arc::new(Mutex::new(sound.bytes.clone())),
        size: sound.bytes.len() as u64,
        fail: Arc::default(),
    };
    let fail = Arc::clone(&source.fail);
    let file = TraceFile::from_source(Path::new("unreliable"), Box::new(source)).unwrap();
    assert_eq!(read_files(vec![file.clone()], options(0)).rows, sound.rows);
    fail.store(true, Ordering::Relaxed);
    let outcome = read_files(vec![file], options(0));
    let kind = DamageKind::Io(io::ErrorKind::PermissionDenied);
    assert_eq!(outcome.damage, damages([(3 * GRID, kind)]));
    assert_same("unreadable", &outcome.rows, &sound.without(|row| row.buffer == 3));
}

/// A file that another process cuts while it is opened: what is left of it is read, and the missing bytes are counted.
#[test]
fn a_file_that_is_cut_while_it_is_opened() {
    let sound = Sound::uniform();
    let size = sound.bytes.len();
    for kept in [3 * GRID, 3 * GRID + 10, 3 * GRID + 71, 6 * GRID] {
        let source = Unreliable {
            bytes: Arc::new(Mutex::new(sound.bytes[..kept].to_vec())),
            size: size as u64,
            fail: Arc::default(),
        };
        let file = TraceFile::from_source(Path::new("cut"), Box::new(source)).unwrap();
        let outcome = read_files(vec![file], options(0));
        let is_whole = |row: &Row| (row.buffer + 1) * GRID as u64 <= kept as u64;
        assert_same("cut", &outcome.rows, &sound.without(|row| !is_whole(row)));
        let kind =
            DamageKind::Truncated { missing_bytes: (size - kept) as u64, missing_buffers: 0 };
        assert_eq!(outcome.damage, damages([(size, kind)]), "{kept}");
    }
}
