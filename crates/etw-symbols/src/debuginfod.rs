//! Debug files of `debuginfod` servers.
//!
//! The servers, their protocol and the cache are those of elfutils: `debuginfod-find` asks the servers that `DEBUGINFOD_URLS`
//! names and keeps what it received in its own folder. Without that program, this module asks those of the servers that speak plain HTTP:
//! `GET BASE/buildid/ID/debuginfo`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write, copy};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a server may take to accept a connection, and to send its next bytes.
const CONNECT_TIME: Duration = Duration::from_secs(5);
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// Bytes of the largest file that a server may send.
const MAX_FILE: u64 = 4 << 30;
/// Lines of an answer's header, and bytes of one of them.
const MAX_LINES: usize = 100;
const MAX_LINE: u64 = 8 << 10;

/// The debug file of a whole build id.
pub(crate) fn find(build_id: &[u8]) -> Option<PathBuf> {
    if build_id.is_empty() {
        return None;
    }
    let id = hex(build_id);
    let folder = cache_folder();
    let cached = folder.as_ref().map(|folder| folder.join(&id).join("debuginfo"));
    // A server that does not have the file leaves an empty one.
    let is_cached = |path: &PathBuf| path.metadata().is_ok_and(|data| data.len() > 0);
    if let Some(path) = cached.filter(is_cached) {
        return Some(path);
    }
    let mut command = Command::new("debuginfod-find");
    command.args(["debuginfo", &id]).stdin(Stdio::null()).stderr(Stdio::null());
    match command.output() {
        Ok(output) => {
            let output = Some(output).filter(|output| output.status.success())?;
            let path = String::from_utf8(output.stdout).ok()?;
            Some(PathBuf::from(path.trim_end())).filter(is_cached)
        }
        Err(_) => {
            let urls = std::env::var("DEBUGINFOD_URLS").ok()?;
            urls.split_whitespace().find_map(|url| fetch(url, &id, folder.as_ref()?))
        }
    }
}

/// Asks a server of plain HTTP, and keeps the file that it sends. `None`: it does not have the file, or speaks another protocol.
fn fetch(url: &str, id: &str, folder: &Path) -> Option<PathBuf> {
    let rest = url.strip_prefix("http://")?;
    let (host, base) = rest.split_once('/').unwrap_or((rest, ""));
    let base = base.trim_end_matches('/');
    let separator = if base.is_empty() { "" } else { "/" };
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let address = if has_port { host.to_owned() } else { format!("{host}:80") };
    let mut addresses = address.to_socket_addrs().ok()?;
    let mut server =
        addresses.find_map(|one| TcpStream::connect_timeout(&one, CONNECT_TIME).ok())?;
    server.set_read_timeout(Some(ANSWER_TIME)).ok()?;
    server.set_write_timeout(Some(ANSWER_TIME)).ok()?;
    // Version 1.0: the server closes the connection behind the file, and does not divide it.
    let request = format!(
        "GET /{base}{separator}buildid/{id}/debuginfo HTTP/1.0\r\nHost: {host}\r\nUser-Agent: openetw\r\n\r\n"
    );
    server.write_all(request.as_bytes()).ok()?;
    let mut answer = BufReader::new(server);
    let size = size_of_answer(&mut answer)?;
    let folder = folder.join(id);
    std::fs::create_dir_all(&folder).ok()?;
    // Other readers never see a part of the file.
    let (part, whole) =
        (folder.join(format!(".part-{}", std::process::id())), folder.join("debuginfo"));
    let received =
        File::create(&part).and_then(|mut file| copy(&mut answer.take(MAX_FILE), &mut file));
    let is_whole = received.is_ok_and(|count| count > 0 && size.is_none_or(|size| size == count));
    if is_whole && std::fs::rename(&part, &whole).is_ok() {
        return Some(whole);
    }
    let _ = std::fs::remove_file(&part);
    None
}

/// Reads the header of an answer. Returns the bytes that follow, if it states them; `None`: the server does not have the file.
fn size_of_answer(answer: &mut impl BufRead) -> Option<Option<u64>> {
    let mut next = || {
        let mut line = Vec::new();
        answer.take(MAX_LINE).read_until(b'\n', &mut line).ok()?;
        Some(String::from_utf8_lossy(&line).trim_end().to_ascii_lowercase())
    };
    let status = next()?;
    let is_found = status.starts_with("http/") && status.split(' ').nth(1) == Some("200");
    is_found.then_some(())?;
    let mut size = None;
    for _ in 0..MAX_LINES {
        let line = next()?;
        match line.split_once(':') {
            _ if line.is_empty() => return Some(size),
            Some(("content-length", value)) => size = Some(value.trim().parse().ok()?),
            Some(("transfer-encoding", _)) => return None,
            _ => {}
        }
    }
    None
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
        let path = fetch(&url, "ab12", &folder.0).unwrap();
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
            assert_eq!(fetch(&url, "ab12", &folder.0), None, "{answer:?}");
            thread.join().unwrap();
        }
        let left = std::fs::read_dir(folder.0.join("ab12")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "parts of files are left");
        assert_eq!(fetch("https://localhost/", "ab12", &folder.0), None);
    }
}
