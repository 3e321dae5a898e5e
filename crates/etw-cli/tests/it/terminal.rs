//! Commands on a terminal: progress, colours, a pager.

use crate::fixture::{TempFile, greetings};
use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A pseudo-terminal: the end of whoever looks at it, and that of the programs on it.
struct Terminal {
    screen: File,
    program: OwnedFd,
}

impl Terminal {
    fn new() -> Terminal {
        let (mut screen, mut program) = (0, 0);
        let null = std::ptr::null_mut();
        // SAFETY: space for two descriptors; the name, the settings and the size are optional.
        let made =
            unsafe { libc::openpty(&mut screen, &mut program, null, null.cast(), null.cast()) };
        assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
        // SAFETY: two descriptors that nobody else owns.
        unsafe {
            Terminal { screen: File::from_raw_fd(screen), program: OwnedFd::from_raw_fd(program) }
        }
    }

    fn stdio(&self) -> Stdio {
        self.program.try_clone().unwrap().into()
    }

    /// The text that was shown, once all programs have closed the terminal.
    fn shown(self) -> String {
        drop(self.program);
        let mut screen = self.screen;
        let (mut text, mut part) = (Vec::new(), [0; 4096]);
        // After the last program has ended, reading fails.
        while let Ok(size @ 1..) = screen.read(&mut part) {
            text.extend_from_slice(&part[..size]);
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

fn etw(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_etw"));
    command.args(words).stdin(Stdio::null()).env("TERM", "xterm");
    command.env_remove("NO_COLOR").env_remove("PAGER").env_remove("LESS");
    command
}

/// Work that takes more than a second shows its count, its size and the time that is left; at the end the line is removed.
#[test]
fn long_work_shows_its_progress() {
    let trace = TempFile::new(&greetings(60_000));
    let terminal = Terminal::new();
    let mut command = etw(&["dump", trace.path().to_str().unwrap()]);
    command.stdout(Stdio::piped()).stderr(terminal.stdio());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut output = child.stdout.take().unwrap();
    // The command has started its work. It waits for its reader until it has worked for more than a second.
    output.read_exact(&mut [0]).unwrap();
    let end = Instant::now() + Duration::from_millis(1200);
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        std::thread::sleep(left);
    }
    std::io::copy(&mut output, &mut std::io::sink()).unwrap();
    assert!(child.wait().unwrap().success());
    let shown = terminal.shown();
    assert!(shown.contains(" records, ") && shown.contains(" s left"), "{shown:?}");
    assert!(shown.contains(" % of ") && shown.contains(" MiB"), "{shown:?}");
    assert!(shown.ends_with(&format!("\r{:60}\r", "")), "{shown:?}");
}

/// On a terminal, output has colours, unless the user does not want them; elsewhere it has none.
#[test]
fn colours_are_for_terminals() {
    let trace = TempFile::new(&greetings(3));
    let file = trace.path().to_str().unwrap();
    let shown = |change: &dyn Fn(&mut Command)| {
        let terminal = Terminal::new();
        let mut command = etw(&["dump", "--no-pager", file]);
        command.stdout(terminal.stdio()).stderr(Stdio::null());
        change(&mut command);
        assert!(command.status().unwrap().success());
        drop(command);
        terminal.shown()
    };
    assert!(shown(&|_| ()).contains("\x1b[1m"), "{:?}", shown(&|_| ()));
    for (variable, value, word) in
        [("NO_COLOR", "1", None), ("TERM", "dumb", None), ("X", "", Some("--color=never"))]
    {
        let text = shown(&|command| {
            command.env(variable, value).args(word);
        });
        assert!(text.contains("hello 2") && !text.contains('\x1b'), "{text:?}");
    }
    let piped = etw(&["dump", file]).output().unwrap();
    assert!(!piped.stdout.contains(&0x1b));
}

/// On a terminal, the user's pager shows the output; `--no-pager` and an empty `PAGER` do without it.
#[test]
fn a_pager_shows_long_output() {
    let trace = TempFile::new(&greetings(3));
    let file = trace.path().to_str().unwrap();
    let shown = |pager: &str, words: &[&str]| {
        let terminal = Terminal::new();
        let mut command = etw(&[&["dump", file], words].concat());
        command.env("PAGER", pager).stdout(terminal.stdio()).stderr(Stdio::null());
        assert!(command.status().unwrap().success());
        drop(command);
        terminal.shown()
    };
    let counted = shown("grep -c hello", &[]);
    assert_eq!(counted.trim(), "3");
    // A pager that the shell does not find shows nothing.
    for (pager, words) in
        [("", &[][..]), ("grep -c hello", &["--no-pager"]), ("/nonexistent -x 2>/dev/null", &[])]
    {
        let text = shown(pager, words);
        assert!(text.contains("hello 2"), "{text:?}");
    }
}

/// More than a pipe holds is shown, too, without a pager.
#[test]
fn long_output_is_shown_without_the_pager_that_is_absent() {
    let trace = TempFile::new(&greetings(2000));
    let terminal = Terminal::new();
    let mut command = etw(&["dump", trace.path().to_str().unwrap()]);
    command.env("PAGER", "/nonexistent").stdout(terminal.stdio()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(command);
    let text = terminal.shown();
    assert!(child.wait().unwrap().success());
    assert_eq!(text.matches("hello ").count(), 2000);
}
