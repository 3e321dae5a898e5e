//! `eprintln!` and `eprint!` of this program: a closed standard error ends no command.
//!
//! The standard library's macros panic if nobody reads the other end, as in `etw … 2>&1 | head`. That must not cost a
//! recording its last events.

macro_rules! eprintln {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

macro_rules! eprint {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), $($text)*);
    }};
}
