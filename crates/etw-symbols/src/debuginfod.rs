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
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use ureq::http::StatusCode;

/// How long a server may take to accept a connection, and to send its next bytes unless `DEBUGINFOD_TIMEOUT` says otherwise.
const CONNECT_TIME: Duration = Duration::from_secs(5);
const ANSWER_TIME: Duration = Duration::from_secs(90);
/// The name of a debug file in the folder of its build id.
const FILE: &str = "debuginfo";
/// The program that asks the servers.
const CLIENT: &str = "debuginfod-find";

/// The servers, some of which may have been given up.
pub(crate) struct Servers {
    client: OsString,
    urls: Vec<String>,
    /// `None`: there is no limit.
    answer_time: Option<Duration>,
    cache: Option<PathBuf>,
    given_up: Mutex<HashSet<String>>,
    report: fn(&str),
}

impl Servers {
    /// Those of the environment. `report` gets a sentence about each server that is given up.
    pub fn new(report: fn(&str)) -> Servers {
        let urls = std::env::var("DEBUGINFOD_URLS").unwrap_or_default();
        let seconds = std::env::var("DEBUGINFOD_TIMEOUT").ok();
        let seconds = seconds.and_then(|seconds| seconds.trim().parse().ok());
        let answer_time = seconds.map_or(ANSWER_TIME, Duration::from_secs);
        Servers {
            client: CLIENT.into(),
            urls: urls.split_whitespace().map(str::to_owned).collect(),
            answer_time: Some(answer_time).filter(|time| !time.is_zero()),
            cache: cache_folder(),
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
        let cached = folder.and_then(|folder| read(&folder.join(&id).join(FILE), build_id));
        if cached.is_some() {
            return cached;
        }
        if self.is_given_up(CLIENT) {
            return None;
        }
        if let Ok(answer) = self.ask_client(&id) {
            let path = answer?;
            let file = read(&path, build_id);
            if file.is_none() {
                let what = format!("{} is not the file of its build id", path.display());
                self.give_up(&path.to_string_lossy(), &what);
            }
            return file;
        }
        let urls = self.urls.iter().filter(|url| !self.is_given_up(url));
        urls.into_iter().find_map(|url| match self.fetch(url, build_id, folder?) {
            Ok(file) => file,
            Err(error) => {
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
            if self.answer_time.is_some_and(|time| start.elapsed() >= time) {
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
    /// nothing, something else, or speaks another protocol.
    fn fetch(&self, url: &str, build_id: &[u8], folder: &Path) -> io::Result<Option<SymbolFile>> {
        if !url.starts_with("http://") {
            return Err(io::Error::other(format!(
                "only {CLIENT} of elfutils speaks its protocol, and is not installed"
            )));
        }
        let id = hex(build_id);
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .user_agent("openetw")
            .timeout_connect(self.answer_time.map(|time| time.min(CONNECT_TIME)))
            .timeout_per_read(self.answer_time)
            .timeout_per_write(self.answer_time);
        let request = format!("{}/buildid/{id}/debuginfo", url.trim_end_matches('/'));
        let answer = config.build().new_agent().get(request).call();
        let mut answer = answer.map_err(|error| self.explained(error))?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            status => return Err(io::Error::other(format!("it answers {status}"))),
        }
        let body = answer.body_mut();
        let size = body.content_length();
        if size.is_some_and(|size| size > MAX_FILE) {
            return Err(io::Error::other("it sends a file that is too large"));
        }
        let mut body = body.with_config().limit(MAX_FILE).reader();
        let explained = |error: io::Error| self.explained(error.into());
        let mut magic = [0; 4];
        body.read_exact(&mut magic).map_err(explained)?;
        let is_other = || io::Error::other(format!("it sends no ELF file with the build id {id}"));
        if magic != *b"\x7fELF" {
            return Err(is_other());
        }
        let part = Part::new(&folder.join(&id))?;
        let mut file = File::create(&part.0).map_err(|error| named(&part.0, &error))?;
        file.write_all(&magic).map_err(|error| named(&part.0, &error))?;
        copy(&mut body, &mut file).map_err(explained)?;
        let found = read(&part.0, build_id).ok_or_else(is_other)?;
        // Other readers never see a part of the file. Without the cache it is there for this command only.
        let _ = std::fs::rename(&part.0, part.0.with_file_name(FILE));
        Ok(Some(found))
    }

    /// The error of a server, in words if it took too long.
    fn explained(&self, error: ureq::Error) -> io::Error {
        let seconds = self.answer_time.unwrap_or_default().as_secs();
        match error {
            ureq::Error::Timeout(ureq::Timeout::Connect) => {
                io::Error::other("it does not accept a connection")
            }
            ureq::Error::Timeout(_) => io::Error::other(format!(
                "it sent nothing for {seconds} seconds (DEBUGINFOD_TIMEOUT)"
            )),
            ureq::Error::Io(error) => error,
            other => io::Error::other(other),
        }
    }
}

/// A file that is being received; it is removed unless it gets another name.
struct Part(PathBuf);

impl Part {
    fn new(folder: &Path) -> io::Result<Part> {
        std::fs::create_dir_all(folder).map_err(|error| named(folder, &error))?;
        Ok(Part(folder.join(format!(".part-{}", std::process::id()))))
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
fn read(path: &Path, build_id: &[u8]) -> Option<SymbolFile> {
    let module = Module { build_id: build_id.to_vec(), ..Module::default() };
    matching(open(path)?, &module)?.ok()
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
            answer_time: Some(Duration::from_millis(300)),
            cache: Some(folder.0.clone()),
            given_up: Mutex::default(),
            report,
        }
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
        let servers = servers(&urls, &folder, |text| {
            REPORTS.fetch_add(1, Ordering::Relaxed);
            SILENT.fetch_add(usize::from(text.contains("it sent nothing")), Ordering::Relaxed);
        });
        let start = Instant::now();
        for number in 1..=20 {
            assert!(servers.find(&[0xab, number]).is_none());
        }
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        assert_eq!((REPORTS.load(Ordering::Relaxed), SILENT.load(Ordering::Relaxed)), (3, 1));
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
        let mut servers = servers(&["https://localhost/"], &folder, |text| {
            REPORTS.fetch_add(usize::from(text.ends_with("Timer expired")), Ordering::Relaxed);
        });
        servers.client = client.into();
        let start = Instant::now();
        assert!((1..20).all(|number| servers.find(&[0xab, number]).is_none()));
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        assert_eq!(REPORTS.load(Ordering::Relaxed), 1);
    }
}
