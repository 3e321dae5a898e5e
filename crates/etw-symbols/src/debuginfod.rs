//! Debug files of `debuginfod` servers.
//!
//! The servers, their protocol and the cache are those of elfutils: `debuginfod-find` asks the servers that `DEBUGINFOD_URLS`
//! names and keeps what it received in its own folder. Without that program, this module asks those of the servers that speak plain HTTP:
//! `GET BASE/buildid/ID/debuginfo`.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write, copy};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a server may take to accept a connection, and to send its next bytes unless `DEBUGINFOD_TIMEOUT` says otherwise.
const CONNECT_TIME: Duration = Duration::from_secs(5);
const ANSWER_TIME: Duration = Duration::from_secs(90);
/// Bytes of the largest file that a server may send.
const MAX_FILE: u64 = 4 << 30;
/// Lines of an answer's header, and bytes of one of them.
const MAX_LINES: usize = 100;
const MAX_LINE: u64 = 8 << 10;
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
    pub fn find(&self, build_id: &[u8]) -> Option<PathBuf> {
        if build_id.is_empty() {
            return None;
        }
        let id = hex(build_id);
        let folder = self.cache.as_ref();
        let cached = folder.map(|folder| folder.join(&id).join("debuginfo"));
        if let Some(path) = cached.filter(|path| is_cached(path)) {
            return Some(path);
        }
        if self.is_given_up(CLIENT) {
            return None;
        }
        self.ask_client(&id).unwrap_or_else(|_| {
            let urls = self.urls.iter().filter(|url| !self.is_given_up(url));
            urls.into_iter().find_map(|url| match self.fetch(url, &id, folder?) {
                Ok(path) => path,
                Err(error) => {
                    self.give_up(
                        url,
                        &format!("{url} is not asked for debug files any more: {error}"),
                    );
                    None
                }
            })
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
        Ok(path.map(|path| PathBuf::from(path.trim_end())).filter(|path| is_cached(path)))
    }

    /// Asks a server of plain HTTP, and keeps the file that it sends. `None`: it does not have the file; `Err`: it answers nothing, or speaks
    /// another protocol.
    fn fetch(&self, url: &str, id: &str, folder: &Path) -> io::Result<Option<PathBuf>> {
        let rest = url.strip_prefix("http://").ok_or_else(|| {
            io::Error::other(format!(
                "only {CLIENT} of elfutils speaks its protocol, and is not installed"
            ))
        })?;
        let (host, base) = rest.split_once('/').unwrap_or((rest, ""));
        let base = base.trim_end_matches('/');
        let separator = if base.is_empty() { "" } else { "/" };
        let mut server = self.connect(host)?;
        // Version 1.0: the server closes the connection behind the file, and does not divide it.
        let request = format!(
            "GET /{base}{separator}buildid/{id}/debuginfo HTTP/1.0\r\nHost: {host}\r\nUser-Agent: openetw\r\n\r\n"
        );
        server.write_all(request.as_bytes()).map_err(|error| self.explained(error))?;
        let mut answer = BufReader::new(server);
        let size = size_of_answer(&mut answer).map_err(|error| self.explained(error))?;
        let Some(size) = size else { return Ok(None) };
        let folder = folder.join(id);
        if std::fs::create_dir_all(&folder).is_err() {
            return Ok(None);
        }
        // Other readers never see a part of the file.
        let (part, whole) =
            (folder.join(format!(".part-{}", std::process::id())), folder.join("debuginfo"));
        let received =
            File::create(&part).and_then(|mut file| copy(&mut answer.take(MAX_FILE), &mut file));
        let is_whole = |count: u64| count > 0 && size.is_none_or(|size| size == count);
        if received.as_ref().is_ok_and(|count| is_whole(*count))
            && std::fs::rename(&part, &whole).is_ok()
        {
            return Ok(Some(whole));
        }
        let _ = std::fs::remove_file(&part);
        match received {
            Err(error) if is_late(&error) => Err(self.explained(error)),
            _ => Ok(None),
        }
    }

    fn connect(&self, host: &str) -> io::Result<TcpStream> {
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { host.to_owned() } else { format!("{host}:80") };
        let time = self.answer_time.map_or(CONNECT_TIME, |time| time.min(CONNECT_TIME));
        let mut last = io::Error::from(ErrorKind::NotFound);
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, time) {
                Ok(server) => {
                    server.set_read_timeout(self.answer_time)?;
                    server.set_write_timeout(self.answer_time)?;
                    return Ok(server);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The error of a server, in words if it took too long.
    fn explained(&self, error: io::Error) -> io::Error {
        let seconds = self.answer_time.unwrap_or_default().as_secs();
        match is_late(&error) {
            true => io::Error::other(format!(
                "it sent nothing for {seconds} seconds (DEBUGINFOD_TIMEOUT)"
            )),
            false => error,
        }
    }
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Servers").field("urls", &self.urls).finish_non_exhaustive()
    }
}

/// A server that does not have the file leaves an empty one.
fn is_cached(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.len() > 0)
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Reads the header of an answer. Returns the bytes that follow, if it states them; `None`: the server does not have the file.
fn size_of_answer(answer: &mut impl BufRead) -> io::Result<Option<Option<u64>>> {
    let mut next = || {
        let mut line = Vec::new();
        answer.take(MAX_LINE).read_until(b'\n', &mut line)?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&line).trim_end().to_ascii_lowercase())
    };
    let status = next()?;
    if !status.starts_with("http/") || status.split(' ').nth(1) != Some("200") {
        return Ok(None);
    }
    let mut size = None;
    for _ in 0..MAX_LINES {
        let line = next()?;
        match line.split_once(':') {
            _ if line.is_empty() => return Ok(Some(size)),
            Some(("content-length", value)) => match value.trim().parse() {
                Ok(stated) => size = Some(stated),
                Err(_) => return Ok(None),
            },
            Some(("transfer-encoding", _)) => return Ok(None),
            _ => {}
        }
    }
    Ok(None)
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
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::{JoinHandle, spawn};

    use super::*;

    /// A server that sends one answer. Returns its URL; the thread returns the first line of the request.
    fn server(answer: &'static [u8]) -> (String, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/debug/", listener.local_addr().unwrap());
        let thread = spawn(move || {
            let (connection, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(&connection).lines();
            let first = lines.next().unwrap().unwrap();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            (&connection).write_all(answer).unwrap();
            first
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
        let (url, thread) = server(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX: y\r\n\r\n\x7fELF");
        let path = servers(&[&url], &folder, |_| ()).find(&[0xab, 0x12]).unwrap();
        assert_eq!(thread.join().unwrap(), "GET /debug/buildid/ab12/debuginfo HTTP/1.0");
        assert_eq!(path, folder.0.join("ab12/debuginfo"));
        assert_eq!(std::fs::read(path).unwrap(), b"\x7fELF");
    }

    #[test]
    fn answers_without_a_whole_file_are_rejected() {
        let folder = Folder::new("rejected");
        for answer in [
            &b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone"[..],
            b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nshort",
            b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n",
            b"HTTP/1.0 200 OK\r\n\r\n",
            b"",
        ] {
            let (url, thread) = server(answer);
            assert_eq!(servers(&[&url], &folder, |_| ()).find(&[0xab, 0x12]), None, "{answer:?}");
            thread.join().unwrap();
        }
        let left = std::fs::read_dir(folder.0.join("ab12")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "parts of files are left");
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
            assert_eq!(servers.find(&[0xab, number]), None);
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
