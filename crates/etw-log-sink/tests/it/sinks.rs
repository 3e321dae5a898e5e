//! The other sinks, and the adapter.
use crate::support::*;
use etw_log_sink::*;
use std::sync::Mutex;

fn record_of<'a>(context: Option<&'a LogContext<'a>>) -> LogRecord<'a> {
    LogRecord {
        level: LogLevel::WARNING,
        context,
        file: "a.rs",
        func: "f",
        line: 7,
        message: format_args!("hello"),
    }
}

/// Level, time, place, contexts and message in one line; colour before it, reset and line end behind it.
#[test]
fn the_console_line() {
    let outer = LogContext::new("").with("a", 1u8);
    let inner = LogContext::with_parent("inner", &outer).with("b", "x").with("c", true);
    let line = ConsoleSink::line(&record_of(Some(&inner)));
    let line = line.strip_prefix("\x1b[33;40mWARNING Time:").unwrap();
    let (time, rest) = line.split_at(24);
    assert!(time.as_bytes()[13] == b':' && time.ends_with(|c: char| c.is_ascii_digit()), "{time}");
    assert_eq!(rest, " File:a.rs:7 Func:f inner={ { a=1 } b=x c=true } hello\x1b[0m\r\n");
    let text = "ü".repeat(4000);
    let long = LogContext::new("").with("t", &text);
    let line = ConsoleSink::line(&record_of(Some(&long)));
    assert!((4090..=4095).contains(&line.len()) && line.ends_with("\x1b[0m\r\n"));
}

#[test]
fn the_callback_hears_what_is_severe_enough() {
    let heard = Mutex::new(Vec::new());
    let sink =
        CallbackSink::new(|level, line: &str| heard.lock().unwrap().push((level, line.to_owned())))
            .with_max_level(LogLevel::WARNING);
    sink.log(&record_of(None));
    sink.log(&LogRecord { level: LogLevel::INFO, ..record_of(None) });
    let several: [&dyn LogSink; 2] = [&sink, &sink];
    several[..].log(&record_of(None));
    let heard = heard.into_inner().unwrap();
    assert_eq!(heard.len(), 3);
    assert!(heard.iter().all(|(level, _)| *level == LogLevel::WARNING));
    assert!(heard[0].1.starts_with("Time:") && heard[0].1.ends_with("File:a.rs:7 Func:f hello"));
}

/// The `log` crate's records, by its own macros' way of calling.
#[test]
fn the_log_crate() {
    let seen = record(50, |sink| {
        let adapter = LogAdapter::new(sink);
        for level in log::Level::iter() {
            let metadata = log::Metadata::builder().level(level).target("shop").build();
            assert!(log::Log::enabled(&adapter, &metadata));
            log::Log::log(
                &adapter,
                &log::Record::builder()
                    .metadata(metadata)
                    .file(Some("b.rs"))
                    .line(Some(9))
                    .module_path(Some("shop::cart"))
                    .args(format_args!("sold {}", 3))
                    .build(),
            );
        }
    });
    let levels: Vec<u8> = seen.iter().map(|e| e.level).collect();
    assert_eq!(levels, [2, 3, 4, 5, 5]);
    let traces: Vec<u8> = seen.iter().map(|e| e.payload[e.payload.len() - 4]).collect();
    assert_eq!(traces, [0, 0, 0, 0, 1]);
    let fields: Vec<_> = seen[0].fields.iter().map(|(n, v)| format!("{n}={v}")).collect();
    assert_eq!(
        fields[..6],
        ["content=sold 3", "file=b.rs", "func=shop::cart", "line=9", "log={", "target=shop"]
    );
}
