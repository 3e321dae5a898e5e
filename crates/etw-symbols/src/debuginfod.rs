//! Debug files of `debuginfod` servers.
//!
//! The servers, their protocol and the cache are those of elfutils: `debuginfod-find` asks the servers that `DEBUGINFOD_URLS`
//! names and keeps what it received in its own folder. Without that program, this module asks those of the servers that speak plain HTTP:
//! `GET BASE/buildid/ID/debuginfo`.

use crate::module::Module;
use crate::module_file::matching;
use crate::regular_file::{MAX_FILE, open};
use crate::symbol_file::SymbolFile;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write, copy};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};
use ureq::http::StatusCode;

/// How long a server may take to accept a connection.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Bytes that a server has to send in each `DEBUGINFOD_TIMEOUT`.
const PACE: u64 = 100 << 10;
/// The name of a debug file in the folder of its build id.
const FILE: &str = "debuginfo";
/// The program that asks the servers.
const CLIENT: &str = "debuginfod-find";

/// Limits that the user sets; `None`: there is none. Source: debuginfod-client-config(7) of elfutils.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// `DEBUGINFOD_TIMEOUT`: in this time a server sends at least 100 KiB, or the rest of its file.
    pace_time: Option<Duration>,
    /// `DEBUGINFOD_MAXTIME`: in this time a server sends a whole file.
    file_time: Option<Duration>,
    /// `DEBUGINFOD_MAXSIZE`: bytes of a file.
    file_size: Option<u64>,
}

impl Limits {
    fn of(variable: impl Fn(&str) -> Option<String>) -> Limits {
        let number = |name: &str| variable(name)?.trim().parse::<i64>().ok();
        // Numbers below 0 mean the same as 0.
        let limit = |number: i64| u64::try_from(number).ok().filter(|number| *number != 0);
        let seconds = |number: i64| limit(number).map(Duration::from_secs);
        Limits {
            pace_time: seconds(number("DEBUGINFOD_TIMEOUT").unwrap_or(90)),
            file_time: seconds(number("DEBUGINFOD_MAXTIME").unwrap_or(0)),
            file_size: limit(number("DEBUGINFOD_MAXSIZE").unwrap_or(0)),
        }
    }

    fn too_slow(&self) -> Failure {
        let seconds = self.pace_time.unwrap_or_default().as_secs_f64();
        Failure::of_server(format!(
            "it sent less than 100 KiB in {seconds} seconds (DEBUGINFOD_TIMEOUT)"
        ))
    }

    fn too_long(&self) -> Failure {
        let seconds = self.file_time.unwrap_or_default().as_secs_f64();
        Failure::OfFile(format!("it takes more than {seconds} seconds (DEBUGINFOD_MAXTIME)"))
    }

    fn too_large(&self) -> Failure {
        let bytes = self.file_size.unwrap_or_default();
        Failure::OfFile(format!("it has more than {bytes} bytes (DEBUGINFOD_MAXSIZE)"))
    }
}

/// Why a server's file is not used.
#[derive(Debug)]
enum Failure {
    /// Another file of the server may be.
    OfFile(String),
    OfServer(io::Error),
}

impl Failure {
    fn of_server(what: impl Into<String>) -> Failure {
        Failure::OfServer(io::Error::other(what.into()))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::OfServer(error)
    }
}

/// The servers, some of which may have been given up.
pub(crate) struct Servers {
    client: OsString,
    urls: Vec<String>,
    limits: Limits,
    cache: Option<PathBuf>,
    /// Removes what commands that were interrupted left in the cache.
    sweep: Once,
    given_up: Mutex<HashSet<String>>,
    report: fn(&str),
}

impl Servers {
    /// Those of the environment. `report` gets a sentence about each server that is given up.
    pub fn new(report: fn(&str)) -> Servers {
        let urls = std::env::var("DEBUGINFOD_URLS").unwrap_or_default();
        Servers {
            client: CLIENT.into(),
            urls: urls.split_whitespace().map(str::to_owned).collect(),
            limits: Limits::of(|name| std::env::var(name).ok()),
            cache: cache_folder(),
            sweep: Once::new(),
            given_up: Mutex::default(),
            report,
        }
    }

    /// The debug file of a whole build id.
    pub fn find(&self, build_id: &[u8]) -> Option<SymbolFile> {
        if build_id.is_empty() {
            return None;
        }
        let id = hex(build_id);
        let folder = self.cache.as_ref();
        // Another program may have left anything in the folder, which the servers' file replaces.
        let cached = folder.and_then(|folder| read(open(&folder.join(&id).join(FILE))?, build_id));
        if cached.is_some() {
            return cached;
        }
        if self.is_given_up(CLIENT) {
            return None;
        }
        if let Ok(answer) = self.ask_client(&id) {
            let path = answer?;
            let file = open(&path).and_then(|file| read(file, build_id));
            if file.is_none() {
                let what = format!("{} is not the file of its build id", path.display());
                self.give_up(&path.to_string_lossy(), &what);
            }
            return file;
        }
        let urls = self.urls.iter().filter(|url| !self.is_given_up(url));
        urls.into_iter().find_map(|url| match self.fetch(url, build_id, folder?) {
            Ok(file) => file,
            Err(Failure::OfFile(why)) => {
                (self.report)(&format!("the debug file {id} of {url} is left out: {why}"));
                None
            }
            Err(Failure::OfServer(error)) => {
                self.give_up(url, &format!("{url} is not asked for debug files any more: {error}"));
                None
            }
        })
    }

    fn is_given_up(&self, name: &str) -> bool {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    fn give_up(&self, name: &str, message: &str) {
        let mut given_up = self.given_up.lock().unwrap_or_else(PoisonError::into_inner);
        if given_up.insert(name.to_owned()) {
            (self.report)(message);
        }
    }

    /// Asks `debuginfod-find`. `Err`: it is not installed.
    fn ask_client(&self, id: &str) -> io::Result<Option<PathBuf>> {
        let mut command = Command::new(&self.client);
        command.args(["debuginfo", id]).stdin(Stdio::null());
        let start = Instant::now();
        let output = command.output()?;
        if !output.status.success() {
            // It asks all servers at once, and waits for each.
            if self.limits.pace_time.is_some_and(|time| start.elapsed() >= time) {
                let errors = String::from_utf8_lossy(&output.stderr);
                let why = errors.lines().last().unwrap_or("it took too long");
                self.give_up(
                    CLIENT,
                    &format!("{CLIENT} is not asked for debug files any more: {why}"),
                );
            }
            return Ok(None);
        }
        let path = String::from_utf8(output.stdout).ok();
        Ok(path.map(|path| PathBuf::from(path.trim_end())).filter(|path| path.is_file()))
    }

    /// Asks a server of plain HTTP, and keeps the file that it sends if it is that of the build id. `None`: it does not have the file; `Err`: it answers
    /// nothing, something else, or speaks another protocol, or the file is more than the user wants.
    fn fetch(
        &self,
        url: &str,
        build_id: &[u8],
        folder: &Path,
    ) -> Result<Option<SymbolFile>, Failure> {
        if !url.starts_with("http://") {
            return Err(Failure::of_server(format!(
                "only {CLIENT} of elfutils speaks its protocol, and is not installed"
            )));
        }
        let id = hex(build_id);
        let Limits { pace_time, file_time, file_size } = self.limits;
        let start = Instant::now();
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .user_agent("openetw")
            .timeout_connect(pace_time.map(|time| time.min(CONNECT_TIME)))
            .timeout_recv_response(pace_time)
            .timeout_per_read(pace_time)
            .timeout_per_write(pace_time)
            .timeout_global(file_time);
        let path = format!("{}/buildid/{id}/debuginfo", url.trim_end_matches('/'));
        let mut request = config.build().new_agent().get(path);
        if let Some(size) = file_size {
            request = request.header("X-DEBUGINFOD-MAXSIZE", size.to_string());
        }
        let mut answer = request.call().map_err(|error| self.explained(error))?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            StatusCode::NOT_ACCEPTABLE if file_size.is_some() => {
                return Err(self.limits.too_large());
            }
            status => return Err(Failure::of_server(format!("it answers {status}"))),
        }
        let body = answer.body_mut();
        let size = body.content_length().unwrap_or(0);
        if file_size.is_some_and(|most| size > most) {
            return Err(self.limits.too_large());
        }
        if size > MAX_FILE {
            return Err(Failure::of_server("it sends a file that is too large"));
        }
        let body = body.with_config().limit(MAX_FILE).reader();
        let mut body = Paced { body, limits: &self.limits, since: start, sent: 0, size: 0 };
        let explained = |error: io::Error| self.explained(error.into());
        let mut magic = [0; 4];
        body.read_exact(&mut magic).map_err(explained)?;
        let is_other =
            || Failure::of_server(format!("it sends no ELF file with the build id {id}"));
        if magic != *b"\x7fELF" {
            return Err(is_other());
        }
        self.sweep.call_once(|| remove_stale_parts(folder));
        let (part, mut file) = Part::new(&folder.join(&id))?;
        file.write_all(&magic).map_err(|error| named(&part.0, &error))?;
        copy(&mut body, &mut file).map_err(explained)?;
        let found = read(file, build_id).ok_or_else(is_other)?;
        // Other readers never see a part of the file. Without the cache it is there for this command only.
        let _ = std::fs::rename(&part.0, part.0.with_file_name(FILE));
        Ok(Some(found))
    }

    /// The error of a server, in words if it took too long.
    fn explained(&self, error: ureq::Error) -> Failure {
        match error {
            ureq::Error::Timeout(ureq::Timeout::Connect) => {
                Failure::of_server("it does not accept a connection")
            }
            ureq::Error::Timeout(ureq::Timeout::Global) => self.limits.too_long(),
            ureq::Error::Timeout(_) => self.limits.too_slow(),
            ureq::Error::Io(error) => match error.kind() {
                io::ErrorKind::TimedOut => self.limits.too_slow(),
                io::ErrorKind::FileTooLarge => self.limits.too_large(),
                _ => error.into(),
            },
            other => io::Error::other(other).into(),
        }
    }
}

/// A server's file, until it is sent too slowly (`TimedOut`) or is too large (`FileTooLarge`).
struct Paced<'a, R> {
    body: R,
    limits: &'a Limits,
    /// Bytes that were sent since then.
    since: Instant,
    sent: u64,
    /// All bytes.
    size: u64,
}

impl<R: Read> Read for Paced<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.body.read(into)?;
        self.sent += count as u64;
        self.size += count as u64;
        if self.limits.file_size.is_some_and(|most| self.size > most) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if self.sent >= PACE {
            (self.since, self.sent) = (Instant::now(), 0);
        }
        let is_late = self.limits.pace_time.is_some_and(|time| self.since.elapsed() >= time);
        if is_late && count > 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(count)
    }
}

/// The beginning of the name of a file that is being received.
const PART: &str = ".part-";

/// A file that is being received; it is removed unless it gets another name.
struct Part(PathBuf);

impl Part {
    /// Makes the file. As long as it is open, it is locked.
    fn new(folder: &Path) -> io::Result<(Part, File)> {
        std::fs::create_dir_all(folder).map_err(|error| named(folder, &error))?;
        let part = Part(folder.join(format!("{PART}{}", std::process::id())));
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&part.0).map_err(|error| named(&part.0, &error))?;
        // Some file systems have no locks; nobody removes files there.
        let _ = file.lock();
        Ok((part, file))
    }
}

/// Removes files that nobody receives any more.
fn remove_stale_parts(cache: &Path) {
    let files = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in files(cache).flat_map(|folder| files(&folder.path())) {
        let is_part = entry.file_name().to_str().is_some_and(|name| name.starts_with(PART));
        if is_part && open(&entry.path()).is_some_and(|file| file.try_lock().is_ok()) {
            // Another command may have removed it.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Reads a file, if it is that of a build id.
fn read(file: File, build_id: &[u8]) -> Option<SymbolFile> {
    let module = Module { build_id: build_id.to_vec(), ..Module::default() };
    matching(file, &module)?.ok()
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Servers").field("urls", &self.urls).finish_non_exhaustive()
    }
}

/// The folder in which `debuginfod-find` keeps files.
fn cache_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let inside = |folder: OsString| PathBuf::from(folder).join("debuginfod_client");
    if let Some(folder) = set("DEBUGINFOD_CACHE_PATH") {
        return Some(PathBuf::from(folder));
    }
    let home = || Some(PathBuf::from(set("HOME")?).join(".cache").into_os_string());
    set("XDG_CACHE_HOME").or_else(home).map(inside)
}

/// Lowercase hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::{JoinHandle, spawn};

    use super::*;

    const ID: [u8; 4] = [0xab, 0x12, 0x34, 0x56];

    /// A program whose only contents are its build id.
    fn elf(id: [u8; 4]) -> Vec<u8> {
        let numbers =
            |all: &[u64]| all.iter().flat_map(|one| one.to_le_bytes()).collect::<Vec<_>>();
        // Header, one program header, its note.
        let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
        file.extend(numbers(&[0, 64, 0]));
        file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
        file.extend([4, 0, 0, 0, 4, 0, 0, 0]);
        file.extend(numbers(&[120, 0, 0, 20, 20, 4]));
        file.extend([4, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0]);
        file.extend(b"GNU\0");
        file.extend(id);
        file
    }

    fn answer(header: &str, body: &[u8]) -> Vec<u8> {
        [b"HTTP/1.1 200 OK\r\n", header.as_bytes(), b"\r\n\r\n", body].concat()
    }

    /// A whole file.
    fn sized(body: &[u8]) -> Vec<u8> {
        answer(&format!("Content-Length: {}\r\nX: y", body.len()), body)
    }

    /// A server that sends an answer to each request. Returns its URL; the thread returns the first lines of the requests.
    fn server(answers: Vec<Vec<u8>>) -> (String, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/debug/", listener.local_addr().unwrap());
        let thread = spawn(move || {
            let answer = |answer: Vec<u8>| {
                let (connection, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(&connection).lines();
                let first = lines.next().unwrap().unwrap();
                while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
                // A client that rejects the beginning closes the connection.
                let _ = (&connection).write_all(&answer);
                first
            };
            answers.into_iter().map(answer).collect()
        });
        (url, thread)
    }

    /// Servers at these addresses, without `debuginfod-find`.
    fn servers(urls: &[&str], folder: &Folder, report: fn(&str)) -> Servers {
        Servers {
            client: "/nowhere/debuginfod-find".into(),
            urls: urls.iter().map(|url| (*url).to_owned()).collect(),
            limits: Limits {
                pace_time: Some(Duration::from_secs(60)),
                file_time: None,
                file_size: None,
            },
            cache: Some(folder.0.clone()),
            sweep: Once::new(),
            given_up: Mutex::default(),
            report,
        }
    }

    /// Gives up servers that are slow. A busy machine makes any server slow, so only tests of slow ones use it.
    fn hasty(servers: Servers) -> Servers {
        let pace_time = Some(Duration::from_millis(300));
        Servers { limits: Limits { pace_time, ..servers.limits }, ..servers }
    }

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = format!("etw-debuginfod-{name}-{}", std::process::id());
            Folder(std::env::temp_dir().join(folder))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_of_a_server_is_kept() {
        let folder = Folder::new("kept");
        let moved = b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n".to_vec();
        let pieces =
            [b"8;any=1\r\n", &elf(ID)[..8], b"\r\n84\r\n", &elf(ID)[8..], b"\r\n0\r\n\r\n"];
        let chunked = answer("Transfer-Encoding: chunked", &pieces.concat());
        for (answers, last) in [
            (vec![sized(&elf(ID))], "GET /debug/buildid/ab123456/debuginfo HTTP/1.1"),
            (vec![answer("X: y", &elf(ID))], "GET /debug/buildid/ab123456/debuginfo HTTP/1.1"),
            (vec![moved, chunked], "GET /there HTTP/1.1"),
        ] {
            let (url, thread) = server(answers);
            let file = servers(&[&url], &folder, |_| ()).find(&ID).unwrap();
            assert_eq!(thread.join().unwrap().last().map(String::as_str), Some(last));
            assert_eq!(file.build_id, ID);
            assert_eq!(std::fs::read(folder.0.join("ab123456/debuginfo")).unwrap(), elf(ID));
            assert!(servers(&[], &folder, |_| ()).find(&ID).is_some(), "without a server");
            std::fs::remove_dir_all(&folder.0).unwrap();
        }
    }

    /// OV-23: what is not the file of the build id is not kept, and the next server is asked.
    #[test]
    fn a_server_with_another_answer_is_passed_over_with_a_note() {
        static NOTES: AtomicUsize = AtomicUsize::new(0);
        let folder = Folder::new("rejected");
        let file = elf(ID);
        let none = b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone";
        let broken = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
        for (bad, notes) in [
            (none.to_vec(), 0),
            (broken.to_vec(), 1),
            (answer("Content-Length: 9000", &file), 1),
            (answer(&format!("Content-Length: {}", 1u64 << 45), &file), 1),
            (sized(b"<html>Please log in</html>"), 1),
            (sized(&elf([9; 4])), 1),
            (sized(b"\x7fELF and no more"), 1),
            (answer("X: y", b""), 1),
            (Vec::new(), 1),
        ] {
            NOTES.store(0, Ordering::Relaxed);
            let note = |text: &str| {
                assert!(text.contains("is not asked for debug files any more"), "{text}");
                NOTES.fetch_add(1, Ordering::Relaxed);
            };
            let shown = String::from_utf8_lossy(&bad).into_owned();
            let ((bad, bad_thread), (good, good_thread)) =
                (server(vec![bad.clone(), bad]), server(vec![sized(&file)]));
            let found = servers(&[&bad], &folder, note).find(&ID);
            assert!(found.is_none() && NOTES.load(Ordering::Relaxed) == notes, "{shown}");
            let left = std::fs::read_dir(folder.0.join("ab123456")).map_or(0, Iterator::count);
            assert_eq!(left, 0, "{shown}");
            assert!(servers(&[&bad, &good], &folder, |_| ()).find(&ID).is_some(), "{shown}");
            bad_thread.join().unwrap();
            good_thread.join().unwrap();
            std::fs::remove_dir_all(&folder.0).unwrap();
        }
    }

    /// OV-23: the cache is elfutils', which keeps what a server sends.
    #[test]
    fn junk_in_the_cache_is_replaced() {
        let folder = Folder::new("junk");
        let kept = folder.0.join("ab123456");
        std::fs::create_dir_all(&kept).unwrap();
        std::fs::write(kept.join("debuginfo"), b"junk").unwrap();
        let (url, thread) = server(vec![sized(&elf(ID))]);
        assert!(servers(&[&url], &folder, |_| ()).find(&ID).is_some());
        thread.join().unwrap();
        assert_eq!(std::fs::read(kept.join("debuginfo")).unwrap(), elf(ID));
    }

    /// OV-23: a server without an answer costs its time once, and the user learns of it.
    #[test]
    fn a_server_that_does_not_answer_is_given_up() {
        static REPORTS: AtomicUsize = AtomicUsize::new(0);
        static SILENT: AtomicUsize = AtomicUsize::new(0);
        let folder = Folder::new("given-up");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = format!("http://{}", listener.local_addr().unwrap());
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let refusing = format!("http://{unused}/");
        let urls = [silent.as_str(), &refusing, "https://localhost/"];
        let servers = hasty(servers(&urls, &folder, |text| {
            REPORTS.fetch_add(1, Ordering::Relaxed);
            SILENT.fetch_add(
                usize::from(text.contains("it sent less than 100 KiB")),
                Ordering::Relaxed,
            );
        }));
        let start = Instant::now();
        for number in 1..=20 {
            assert!(servers.find(&[0xab, number]).is_none());
        }
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        assert_eq!((REPORTS.load(Ordering::Relaxed), SILENT.load(Ordering::Relaxed)), (3, 1));
    }

    /// A server that answers each request with pieces of a file, until its client has enough or there are `count` pieces. Each piece waits a
    /// little for the next one. Returns its URL; the thread returns the requests.
    fn slow_server(
        requests: usize,
        piece: usize,
        count: usize,
    ) -> (String, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let thread = spawn(move || {
            let serve = |_| {
                let (connection, _) = listener.accept().unwrap();
                let lines = BufReader::new(&connection).lines().map(Result::unwrap);
                let request: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                let mut pieces = [elf(ID), vec![0; piece]].concat();
                pieces.resize(piece, 0);
                let header = answer("X: y", b"");
                let pieces = std::iter::once(&header).chain(std::iter::repeat_n(&pieces, count));
                for piece in pieces {
                    if (&connection).write_all(piece).is_err() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                request.join("\n")
            };
            (0..requests).map(serve).collect()
        });
        (url, thread)
    }

    /// Asks servers for a file that they never send whole. Returns the notes.
    fn refused(servers: Servers, folder: &Folder, times: usize) -> Vec<String> {
        static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let report: fn(&str) = |text| NOTES.lock().unwrap().push(text.to_owned());
        let servers = Servers { report, ..servers };
        assert!((0..times).all(|_| servers.find(&ID).is_none()));
        let left = std::fs::read_dir(folder.0.join("ab123456")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "parts are left");
        std::mem::take(&mut *NOTES.lock().unwrap())
    }

    /// Regression: each byte began the time anew.
    #[test]
    fn a_server_that_drips_is_given_up() {
        let folder = Folder::new("drip");
        // Each piece comes in time, and all of them take longer.
        let (url, thread) = slow_server(1, 4, 2000);
        let notes = refused(hasty(servers(&[&url], &folder, |_| ())), &folder, 2);
        let [note] = &*notes else { panic!("{notes:?}") };
        assert!(note.contains("not asked for debug files any more"), "{note}");
        assert!(note.contains("it sent less than 100 KiB in 0.3 seconds"), "{note}");
        thread.join().unwrap();
    }

    #[test]
    fn a_file_that_takes_too_long_is_left_out() {
        let folder = Folder::new("long");
        let (url, thread) = slow_server(2, 1000, 2000);
        let file_time = Some(Duration::from_millis(200));
        let limits = Limits { pace_time: None, file_time, file_size: None };
        let servers = Servers { limits, ..servers(&[&url], &folder, |_| ()) };
        let notes = refused(servers, &folder, 2);
        assert_eq!(notes.len(), 2, "the server is asked again: {notes:?}");
        let is_named = |note: &String| note.contains("(DEBUGINFOD_MAXTIME)");
        assert!(notes.iter().all(is_named), "{notes:?}");
        thread.join().unwrap();
    }

    #[test]
    fn a_file_that_is_too_large_is_left_out() {
        let folder = Folder::new("large");
        let limits = Limits { pace_time: None, file_time: None, file_size: Some(100_000) };
        let check = |url: String, thread: JoinHandle<Vec<String>>| {
            let servers = Servers { limits, ..servers(&[&url], &folder, |_| ()) };
            let notes = refused(servers, &folder, 2);
            let is_named =
                |note: &String| note.ends_with("more than 100000 bytes (DEBUGINFOD_MAXSIZE)");
            assert!(notes.len() == 2 && notes.iter().all(is_named), "{notes:?}");
            thread.join().unwrap()
        };
        let (url, thread) = slow_server(2, 4096, 2000);
        for request in check(url, thread) {
            let request = request.to_ascii_lowercase();
            assert!(request.contains("\nx-debuginfod-maxsize: 100000"), "{request}");
        }
        let refusal = b"HTTP/1.1 406 Not Acceptable\r\nContent-Length: 0\r\n\r\n".to_vec();
        let (url, thread) = server(vec![answer("Content-Length: 100001", b""), refusal]);
        check(url, thread);
    }

    #[test]
    fn limits_have_the_defaults_of_elfutils() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let shown = |values: [Option<&str>; 3]| {
            let names = ["DEBUGINFOD_TIMEOUT", "DEBUGINFOD_MAXTIME", "DEBUGINFOD_MAXSIZE"];
            let limits = Limits::of(|name| {
                let place = names.iter().position(|one| *one == name)?;
                values[place].map(str::to_owned)
            });
            (limits.pace_time, limits.file_time, limits.file_size)
        };
        assert_eq!(shown([None; 3]), (seconds(90), None, None));
        assert_eq!(shown([Some("4"), Some(" 5"), Some("6")]), (seconds(4), seconds(5), Some(6)));
        assert_eq!(shown([Some("0"), Some("0"), Some("0")]), (None, None, None));
        assert_eq!(shown([Some("-1"), Some("-1"), Some("-1")]), (None, None, None));
        assert_eq!(shown([Some("soon"), Some(""), Some("1k")]), (seconds(90), None, None));
    }

    /// Regression: a command that was interrupted left the beginning of a file in the cache.
    #[test]
    fn parts_that_nobody_receives_any_more_are_removed() {
        let folder = Folder::new("stale");
        let other = folder.0.join("cd00");
        std::fs::create_dir_all(&other).unwrap();
        std::fs::write(other.join(".part-1"), b"\x7fELF").unwrap();
        std::fs::write(other.join("debuginfo"), b"\x7fELF").unwrap();
        let received = File::create(other.join(".part-2")).unwrap();
        if received.lock().is_err() {
            return eprintln!("left out: the file system has no locks");
        }
        let (url, thread) = server(vec![sized(&elf(ID))]);
        assert!(servers(&[&url], &folder, |_| ()).find(&ID).is_some());
        thread.join().unwrap();
        let left = std::fs::read_dir(&other).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<OsString> = left.collect();
        left.sort();
        assert_eq!(left, [".part-2", "debuginfo"]);
    }

    /// OV-23
    #[test]
    #[cfg(unix)]
    fn a_client_that_waits_is_given_up() {
        use std::os::unix::fs::PermissionsExt;
        static REPORTS: AtomicUsize = AtomicUsize::new(0);
        let folder = Folder::new("client");
        std::fs::create_dir_all(&folder.0).unwrap();
        let client = folder.0.join("debuginfod-find");
        std::fs::write(&client, "#!/bin/sh\nsleep 0.4; echo Timer expired >&2; exit 1\n").unwrap();
        std::fs::set_permissions(&client, PermissionsExt::from_mode(0o755)).unwrap();
        let mut servers = hasty(servers(&["https://localhost/"], &folder, |text| {
            REPORTS.fetch_add(usize::from(text.ends_with("Timer expired")), Ordering::Relaxed);
        }));
        servers.client = client.into();
        let start = Instant::now();
        assert!((1..20).all(|number| servers.find(&[0xab, number]).is_none()));
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        assert_eq!(REPORTS.load(Ordering::Relaxed), 1);
    }
}
