//! Spans and events, recorded into a file and read back.
#![allow(missing_docs)]

use etw::{Guid, Keyword, Level, Session};
use etw_decode::{Decoder, FieldValue};
use etw_etl::read::{Records, TraceFile};
use std::path::PathBuf;
use tracing::{Instrument, debug, error, info, info_span, trace, warn};
use tracing_subscriber::prelude::*;

struct Seen {
    event: String,
    provider: String,
    level: u8,
    keyword: u64,
    opcode: u8,
    channel: u8,
    activity: Guid,
    related: Option<Guid>,
    fields: Vec<(String, FieldValue)>,
}

impl Seen {
    fn text(&self, name: &str) -> &str {
        self.fields
            .iter()
            .find(|(found, _)| found == name)
            .and_then(|(_, value)| value.as_str())
            .unwrap()
    }
}

struct Recording {
    session: Option<Session>,
    path: PathBuf,
}

impl Recording {
    fn start(name: &str, providers: &[&str], level: Level, any: u64) -> Recording {
        let path =
            std::env::temp_dir().join(format!("etw-tracing-{}-{name}.etl", std::process::id()));
        // Others of this process have sessions too.
        let session = loop {
            match Session::builder(name).file(&path).portable().start() {
                Ok(session) => break session,
                Err(error) if error.status() == etw::Status::ERROR_NO_SYSTEM_RESOURCES => {
                    std::thread::yield_now()
                }
                Err(error) => panic!("{error}"),
            }
        };
        for provider in providers {
            session.enable(&Guid::from_name(provider), level, Keyword(any)).unwrap();
        }
        Recording { session: Some(session), path }
    }

    fn stop(mut self) -> Vec<Seen> {
        let ledger = self.session.take().unwrap().stop().unwrap().ledger;
        assert_eq!(ledger.lost_total(), 0, "{ledger:?}");
        let mut records = Records::new(vec![TraceFile::open(&self.path).unwrap()]);
        let mut decoder = Decoder::new();
        let mut seen = Vec::new();
        while let Some(record) = records.next() {
            let decoded = decoder.decode(&record);
            let provider =
                decoded.provider_name().map(|name| name.into_owned()).unwrap_or_default();
            if !record.header.is_event() || provider.starts_with("OpenEtw.") {
                continue;
            }
            let fields = decoded.fields(&record).unwrap().unwrap();
            seen.push(Seen {
                event: decoded.event_name().unwrap().to_owned(),
                provider,
                level: record.descriptor.level.0,
                keyword: record.descriptor.keyword.0,
                opcode: record.descriptor.opcode.0,
                channel: record.descriptor.channel.0,
                activity: record.activity_id,
                related: record.related_activity_id(),
                fields: fields
                    .iter()
                    .map(|(name, value)| (name.to_owned(), value.clone()))
                    .collect(),
            });
        }
        seen
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[derive(Debug)]
struct Broken(std::io::Error);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("broken")
    }
}

impl std::error::Error for Broken {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// `tracing` keeps one level for the process: subscribers that come and go on several threads at once may leave that of an earlier
/// moment.
fn one_at_a_time() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn fields_in_order_with_their_types() {
    let _one = one_at_a_time();
    let _default =
        tracing_subscriber::registry().with(etw_tracing::layer("Test.Fields")).set_default();
    let recording = Recording::start("fields", &["Test.Fields"], Level::VERBOSE, 0);
    let broken = Broken(std::io::Error::other("disk"));
    info!(b = 1u64, a = -2i32, "hello {}", "you");
    error!(
        name: "Odd",
        f = 0.5, yes = true, text = "t", list = ?[1, 2], big = u128::MAX, error = &broken as &(dyn std::error::Error + 'static)
    );
    let seen = recording.stop();
    assert_eq!(seen.len(), 2);
    let names = |seen: &Seen| seen.fields.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!((seen[0].event.as_str(), seen[0].level, seen[0].keyword), ("layer", 4, 1));
    assert_eq!(names(&seen[0]), ["message", "b", "a"]);
    assert_eq!(seen[0].text("message"), "hello you");
    assert_eq!(seen[0].fields[1].1, FieldValue::UInt(1));
    assert_eq!(seen[0].fields[2].1, FieldValue::Int(-2));
    assert_eq!((seen[1].event.as_str(), seen[1].level), ("Odd", 2));
    assert_eq!(names(&seen[1]), ["f", "yes", "text", "list", "big", "error"]);
    assert_eq!(seen[1].fields[0].1, FieldValue::Float(0.5));
    assert_eq!(seen[1].fields[1].1, FieldValue::Bool(true));
    assert_eq!((seen[1].text("list"), seen[1].text("error")), ("[1, 2]", "broken: disk"));
    assert_eq!(seen[1].text("big"), u128::MAX.to_string());
}

#[test]
fn spans_are_activities() {
    let _one = one_at_a_time();
    let _default =
        tracing_subscriber::registry().with(etw_tracing::layer("Test.Spans")).set_default();
    let recording = Recording::start("spans", &["Test.Spans"], Level::VERBOSE, 0);
    let outer = info_span!("outer", number = 7, late = tracing::field::Empty);
    outer.in_scope(|| {
        info!("in outer");
        let inner = info_span!("inner");
        let _entered = inner.enter();
        warn!("in inner");
        inner.follows_from(&outer);
    });
    outer.record("late", 8);
    info!("outside");
    info!(parent: &outer, "by name");
    drop(outer);
    let seen = recording.stop();
    let told: Vec<(&str, u8)> =
        seen.iter().map(|seen| (seen.event.as_str(), seen.opcode)).collect();
    assert_eq!(
        told,
        [
            ("outer", 1),
            ("layer", 0),
            ("inner", 1),
            ("layer", 0),
            ("inner", 0),
            ("inner", 2),
            ("outer", 0),
            ("layer", 0),
            ("layer", 0),
            ("outer", 2)
        ]
    );
    let (outer, inner) = (seen[0].activity, seen[2].activity);
    assert!(!outer.is_zero() && !inner.is_zero() && outer != inner);
    let activities: Vec<Guid> = seen.iter().map(|seen| seen.activity).collect();
    assert_eq!(
        activities,
        [outer, outer, inner, inner, inner, inner, outer, Guid::ZERO, outer, outer]
    );
    assert_eq!(
        (seen[0].related, seen[2].related, seen[4].related),
        (None, Some(outer), Some(outer))
    );
    assert_eq!(seen[0].fields, [("number".to_owned(), FieldValue::Int(7))]);
    assert_eq!(seen[6].fields, [("late".to_owned(), FieldValue::Int(8))]);
}

/// A task that is polled on two threads is one activity, and leaves none behind.
#[test]
fn tasks_stay_one_activity() {
    let _one = one_at_a_time();
    struct Twice(u32);
    impl Future for Twice {
        type Output = ();
        fn poll(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<()> {
            info!(poll = self.0);
            self.0 += 1;
            if self.0 == 2 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        }
    }
    let subscriber = tracing_subscriber::registry().with(etw_tracing::layer("Test.Tasks"));
    let dispatch = tracing::Dispatch::new(subscriber);
    let recording = Recording::start("tasks", &["Test.Tasks"], Level::VERBOSE, 0);
    let mut task = tracing::dispatcher::with_default(&dispatch, || {
        Box::pin(Twice(0).instrument(info_span!("task")))
    });
    for _ in 0..2 {
        let dispatch = dispatch.clone();
        task = std::thread::spawn(move || {
            tracing::dispatcher::with_default(&dispatch, || {
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                let _ = task.as_mut().poll(&mut context);
                info!("after");
            });
            task
        })
        .join()
        .unwrap();
    }
    tracing::dispatcher::with_default(&dispatch, || drop(task));
    let seen = recording.stop();
    let activity = seen[0].activity;
    let polls: Vec<Guid> = seen
        .iter()
        .filter(|seen| seen.fields.iter().any(|(name, _)| name == "poll"))
        .map(|seen| seen.activity)
        .collect();
    assert_eq!(polls, [activity, activity]);
    let after = seen
        .iter()
        .filter(|seen| seen.fields.iter().any(|(_, value)| value.as_str() == Some("after")));
    assert!(after.map(|seen| seen.activity).all(|id| id.is_zero()));
    assert_eq!(
        seen.last().map(|seen| (seen.event.as_str(), seen.opcode, seen.activity)),
        Some(("task", 2, activity))
    );
}

/// Callsites are off before a session starts and after it stops; keywords distinguish levels.
#[test]
fn callsites_follow_sessions() {
    let _one = one_at_a_time();
    let _default =
        tracing_subscriber::registry().with(etw_tracing::layer("Test.Interest")).set_default();
    let all = || {
        trace!("t");
        debug!("d");
        info!("i");
    };
    all();
    assert!(!tracing::enabled!(tracing::Level::ERROR));
    let recording =
        Recording::start("debug", &["Test.Interest"], Level::VERBOSE, etw_tracing::keyword::DEBUG);
    all();
    let seen = recording.stop();
    assert_eq!(seen.iter().map(|seen| seen.text("message")).collect::<Vec<_>>(), ["d"]);
    all();
    let recording = Recording::start("info", &["Test.Interest"], Level::INFO, 0);
    assert!(tracing::enabled!(tracing::Level::INFO) && !tracing::enabled!(tracing::Level::DEBUG));
    all();
    let seen = recording.stop();
    assert_eq!(seen.iter().map(|seen| seen.text("message")).collect::<Vec<_>>(), ["i"]);
}

/// A provider a target, keywords for targets, places in the source.
#[test]
fn options_of_the_layer_change_providers_keywords_and_fields() {
    let _one = one_at_a_time();
    let layer = etw_tracing::Builder::new("Test.Choices")
        .provider_per_target()
        .keyword("net", Keyword(0x100))
        .with_location()
        .build()
        .unwrap();
    let _default = tracing_subscriber::registry().with(layer).set_default();
    let providers = ["Test.Choices.net.http", "Test.Choices.db"];
    let recording = Recording::start("choices", &providers, Level::VERBOSE, 0);
    info!(target: "net::http", "inside");
    info!(target: "db", "outside");
    info!(target: "other", "nobody listens");
    let seen = recording.stop();
    let told: Vec<_> = seen
        .iter()
        .map(|seen| (seen.provider.as_str(), seen.keyword, seen.text("message")))
        .collect();
    assert_eq!(
        told,
        [("Test.Choices.net.http", 0x101, "inside"), ("Test.Choices.db", 1, "outside")]
    );
    assert!(seen[1].text("file").ends_with("layer.rs"));
    assert!(etw_tracing::Builder::new("nul\0").build::<tracing_subscriber::Registry>().is_err());
}

/// An event above the maximum size is refused and counted as lost.
#[test]
fn an_event_above_the_maximum_size_is_counted_as_lost() {
    let _one = one_at_a_time();
    let _default =
        tracing_subscriber::registry().with(etw_tracing::layer("Test.Large")).set_default();
    let recording = Recording::start("large", &["Test.Large"], Level::VERBOSE, 0);
    info!(text = "x".repeat(70_000));
    let ledger = recording.session.as_ref().unwrap().statistics().unwrap().ledger;
    assert_eq!((ledger.attempted, ledger.lost_total(), ledger.stored), (1, 1, 0), "{ledger:?}");
}

/// OV-22: the channel of a layer is in all its events; that of another layer stays TraceLogging's.
#[test]
fn a_layer_with_a_channel_names_it_in_each_event() {
    let recording =
        Recording::start("channel", &["Test.Channel", "Test.NoChannel"], Level::VERBOSE, 0);
    for (name, channel) in [("Test.Channel", 16), ("Test.NoChannel", 11)] {
        let layer = etw_tracing::Builder::new(name).channel(etw::Channel(channel)).build().unwrap();
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            let span = info_span!("sale");
            let _entered = span.enter();
            error!("till 3 is offline");
        });
    }
    let seen = recording.stop();
    let of = |provider: &str| {
        let own = seen.iter().filter(|event| event.provider == provider);
        own.map(|event| event.channel).collect::<Vec<_>>()
    };
    assert_eq!((of("Test.Channel"), of("Test.NoChannel")), (vec![16; 3], vec![11; 3]));
}
