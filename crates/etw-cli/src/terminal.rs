//! The user's terminal: whether output has colours, and whether a pager shows it.

use clap::{Args, ValueEnum};
use std::io::{self, IsTerminal, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

#[derive(Args, Clone, Copy, Debug, Default)]
pub struct TerminalOptions {
    /// Colour levels, names and losses; auto: on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        alias = "colour",
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        global = true
    )]
    color: Color,
    /// Print long output without a pager
    #[arg(long, global = true)]
    no_pager: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

static OPTIONS: OnceLock<TerminalOptions> = OnceLock::new();

/// Sets the options of this run, once.
pub fn set(options: TerminalOptions) {
    let _ = OPTIONS.set(options);
}

fn options() -> TerminalOptions {
    OPTIONS.get().copied().unwrap_or_default()
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether standard output has colours.
pub fn has_colours() -> bool {
    match options().color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            io::stdout().is_terminal()
                && variable("NO_COLOR").is_none()
                && variable("TERM").as_deref() != Some("dumb")
                && console::takes_colours()
        }
    }
}

#[cfg(not(windows))]
mod console {
    /// Terminals of Unix have colours, unless the environment says otherwise.
    pub fn takes_colours() -> bool {
        true
    }
}

/// The console of Windows, which shows colours if a program asks for them, since Windows 10.
#[cfg(windows)]
mod console {
    use std::ffi::c_void;
    use std::os::windows::io::AsRawHandle;

    const ENABLE_VIRTUAL_TERMINAL_PROCESSING: u32 = 4;

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetConsoleMode(console: *mut c_void, mode: *mut u32) -> i32;
        fn SetConsoleMode(console: *mut c_void, mode: u32) -> i32;
    }

    /// Asks for colours. Terminals that are not the console's, such as those of MSYS, have them anyway.
    pub fn takes_colours() -> bool {
        let output = std::io::stdout().as_raw_handle();
        let mut mode = 0;
        // SAFETY: the handle of standard output, an out pointer, numbers.
        unsafe {
            GetConsoleMode(output, &mut mode) == 0
                || SetConsoleMode(output, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0
        }
    }
}

/// Lets the pipe that standard output may be hold 256 KiB: this program and the reader of the pipe then wait for each other less
/// often. Without effect on other outputs, and where the system allows no more.
pub fn widen_pipe() {
    #[cfg(target_os = "linux")]
    // SAFETY: takes and returns numbers.
    unsafe {
        libc::fcntl(libc::STDOUT_FILENO, libc::F_SETPIPE_SZ, 1 << 18);
    }
}

/// Bytes: more than a pipe holds that nobody reads.
const KEPT: usize = 128 << 10;
/// Statuses of a shell whose program cannot be run or was not found, on Unix and on Windows.
const NOT_RUN: [i32; 3] = [126, 127, 9009];

/// A running pager.
pub struct Pager {
    child: Child,
    input: Option<ChildStdin>,
    /// The start of the output, until the pager must have read some of it: the shell may not find the pager.
    kept: Option<Vec<u8>>,
    /// There is no pager: output goes to the terminal.
    is_absent: bool,
}

impl Pager {
    /// Starts the pager: `$PAGER`, or `less -FRX`. `None`: output is no terminal, or no pager is wanted or installed.
    pub fn start() -> Option<Pager> {
        if options().no_pager || OPTIONS.get().is_none() || !io::stdout().is_terminal() {
            return None;
        }
        let mut command = match std::env::var("PAGER") {
            Ok(line) if line.is_empty() || line == "cat" => return None,
            // A command line, as other programs read it.
            Ok(line) => {
                let (shell, option) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
                let mut command = Command::new(shell);
                command.arg(option).arg(line);
                command
            }
            Err(_) => {
                let mut command = Command::new("less");
                command.arg("-FRX");
                command
            }
        };
        if std::env::var_os("LESS").is_none() {
            command.env("LESS", "FRX");
        }
        let mut child = command.stdin(Stdio::piped()).spawn().ok()?;
        // Ctrl-C is the pager's: it would be left behind on the terminal.
        #[cfg(unix)]
        ignore_interrupts();
        let input = child.stdin.take();
        Some(Pager { child, input, kept: Some(Vec::new()), is_absent: false })
    }
}

#[cfg(target_os = "linux")]
fn ignore_interrupts() {
    // SAFETY: numbers; no handler is installed.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}

#[cfg(all(unix, not(target_os = "linux")))]
fn ignore_interrupts() {}

impl Pager {
    /// Waits until the user has closed the pager. If the shell could not run it, the output up to here is shown on the terminal.
    fn end(&mut self) -> io::Result<()> {
        drop(self.input.take());
        let status = self.child.wait()?;
        if let Some(kept) = self.kept.take()
            && status.code().is_some_and(|code| NOT_RUN.contains(&code))
        {
            self.is_absent = true;
            io::stdout().write_all(&kept)?;
        }
        Ok(())
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(input) = &mut self.input {
            match input.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.end()?,
                written => {
                    let taken = &bytes[..*written.as_ref().unwrap_or(&0)];
                    self.kept = self.kept.take().filter(|kept| kept.len() + taken.len() <= KEPT);
                    if let Some(kept) = &mut self.kept {
                        kept.extend_from_slice(taken);
                    }
                    return written;
                }
            }
        }
        match self.is_absent {
            true => io::stdout().write(bytes),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// The end of the output.
    fn flush(&mut self) -> io::Result<()> {
        self.end()?;
        if self.is_absent { io::stdout().flush() } else { Ok(()) }
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}
