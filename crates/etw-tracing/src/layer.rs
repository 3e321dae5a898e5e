//! The layer, and the filter that tells it whether anybody listens.

use crate::provider::Providers;
use crate::record::Recorder;
use crate::site::{self, Known, Part};
use etw::rt::{Extras, LevelAndKeyword, Routes, routes, write_site, write_site_with};
use etw::{Channel, EventDescriptor, Guid, Keyword, create_id, event_activity_id_control};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::subscriber::Interest;
use tracing_core::{Event, Level, LevelFilter, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

/// Keyword bits of levels and spans; `8` and higher are the program's own.
pub mod keyword {
    /// ERROR, WARN and INFO.
    pub const MAIN: u64 = 0x1;
    /// DEBUG.
    pub const DEBUG: u64 = 0x2;
    /// TRACE.
    pub const TRACE: u64 = 0x4;
}

/// Larger than any payload: refused by everybody who wants the event, and counted there.
const TOO_LARGE: usize = 1 << 24;

fn level_of(metadata: &Metadata<'_>) -> LevelAndKeyword {
    let (level, bits) = match *metadata.level() {
        Level::ERROR => (etw::Level::ERROR, keyword::MAIN),
        Level::WARN => (etw::Level::WARNING, keyword::MAIN),
        Level::INFO => (etw::Level::INFO, keyword::MAIN),
        Level::DEBUG => (etw::Level::VERBOSE, keyword::DEBUG),
        _ => (etw::Level::VERBOSE, keyword::TRACE),
    };
    LevelAndKeyword { level, keyword: Keyword(bits) }
}

/// Writes spans and events; made by [`Builder::build`](crate::Builder::build).
#[derive(Debug)]
pub struct EtwLayer {
    number: u32,
    providers: Arc<Providers>,
    location: bool,
    channel: Channel,
}

/// Whether a session wants a callsite's events.
#[derive(Clone, Debug)]
pub struct EtwFilter {
    providers: Arc<Providers>,
}

/// The activity of a span.
struct Activity {
    id: Guid,
    related: Option<Guid>,
}

/// The activity ids of an event.
#[derive(Clone, Copy, Default)]
struct ActivityIds {
    activity: Option<Guid>,
    related: Option<Guid>,
}

thread_local! {
    static PAYLOAD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Spans that were entered here, and the activity before each.
    static ENTERED: RefCell<Vec<(u64, Guid)>> = const { RefCell::new(Vec::new()) };
}

/// Runs with the thread's buffer, emptied. A value that writes an event while it is formatted has a buffer of its own.
fn with_buffer<R>(run: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut run = Some(run);
    let mut once = |buffer: &mut Vec<u8>| {
        buffer.clear();
        run.take().map(|run| run(buffer))
    };
    let shared =
        PAYLOAD.try_with(|buffer| buffer.try_borrow_mut().ok().and_then(|mut b| once(&mut b)));
    match shared.ok().flatten().or_else(|| once(&mut Vec::new())) {
        Some(result) => result,
        None => unreachable!("one of the two has run it"),
    }
}

impl EtwLayer {
    pub(crate) fn new(providers: Providers, location: bool, channel: Channel) -> EtwLayer {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        EtwLayer { number, providers: Arc::new(providers), location, channel }
    }

    pub(crate) fn filter(&self) -> EtwFilter {
        EtwFilter { providers: self.providers.clone() }
    }

    /// Whether no session enabled the level, before anything is formatted. If each target has a provider, this is checked later.
    fn unwanted(&self, metadata: &Metadata<'_>) -> bool {
        let level = level_of(metadata).level;
        self.providers.one().is_some_and(|provider| !provider.has_level(level))
    }

    /// Writes a part of a callsite's events. `ids`: without an activity, they have the thread's.
    fn write(
        &self,
        metadata: &'static Metadata<'static>,
        part: Part,
        ids: ActivityIds,
        record: impl FnOnce(&mut Recorder<'_>),
    ) {
        if self.unwanted(metadata) {
            return;
        }
        with_buffer(|payload| {
            let has_place = self.location && matches!(part, Part::Event | Part::Start);
            if has_place {
                let file = metadata.file().unwrap_or_default();
                let file = &file.as_bytes()[..file.len().min(1024)];
                payload.extend((file.len() as u16).to_le_bytes());
                payload.extend(file);
                payload.extend(u64::from(metadata.line().unwrap_or(0)).to_le_bytes());
            }
            let mut recorder = Recorder { payload, shape: Default::default(), is_too_large: false };
            record(&mut recorder);
            let Recorder { payload, shape, is_too_large } = recorder;
            let LevelAndKeyword { level, keyword: bits } = level_of(metadata);
            let known = site::find(self.number, metadata, part, shape, || {
                let keyword = bits | self.providers.keyword(metadata.target());
                let provider = self.providers.of(metadata)?;
                let descriptor = EventDescriptor {
                    channel: self.channel,
                    level,
                    keyword,
                    ..EventDescriptor::default()
                };
                let site = site::make(metadata, part, shape, has_place, descriptor);
                Some(Known { provider, site, keyword })
            });
            let Some(Known { provider, site: Some(site), keyword }) = known else { return };
            let wanted: Routes = routes(provider, level, *keyword);
            if !wanted.any() {
                return;
            }
            let size = if is_too_large { TOO_LARGE } else { payload.len() };
            let payload = &payload[..];
            // The session's ledger counts the outcome.
            let _ = match ids {
                ActivityIds { activity: None, related: None } => {
                    write_site(provider, site, wanted, size, |room| room.put(payload))
                }
                ActivityIds { activity, related } => {
                    let ids = Extras::ids(activity, related);
                    write_site_with(provider, site, wanted, ids, size, &|room| room.put(payload))
                }
            };
        });
    }
}

impl<S> Layer<S> for EtwLayer
where
    S: Subscriber + for<'l> LookupSpan<'l>,
{
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        // In a span that is entered, the thread's activity is the span's.
        let ids = match event.is_contextual() {
            true => ActivityIds::default(),
            false => ActivityIds {
                activity: Some(activity_of(event.parent(), &context).unwrap_or(Guid::ZERO)),
                related: None,
            },
        };
        self.write(event.metadata(), Part::Event, ids, |recorder| event.record(recorder));
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let related = match attributes.is_contextual() {
            true => Some(current()).filter(|id| !id.is_zero()),
            false => activity_of(attributes.parent(), &context),
        };
        let activity = Activity { id: create_id(), related };
        let ids = ActivityIds { activity: Some(activity.id), related };
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(activity);
        }
        self.write(attributes.metadata(), Part::Start, ids, |recorder| attributes.record(recorder));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let ids = ActivityIds { activity: activity_of(Some(id), &context), related: None };
        self.write(span.metadata(), Part::Record, ids, |recorder| values.record(recorder));
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let ids = ActivityIds {
            activity: activity_of(Some(id), &context),
            related: activity_of(Some(follows), &context),
        };
        self.write(span.metadata(), Part::Follows, ids, |_| ());
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(activity) = activity_of(Some(id), &context) else { return };
        let before = exchange(activity);
        // At a thread's end nothing more is entered.
        let _ = ENTERED.try_with(|entered| entered.borrow_mut().push((id.into_u64(), before)));
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        let _ = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            let Some(place) = entered.iter().rposition(|(span, _)| *span == id.into_u64()) else {
                return;
            };
            let (_, before) = entered.remove(place);
            match entered.get_mut(place) {
                // Left before those that were entered in it: they lead back to where it would have.
                Some((_, theirs)) => *theirs = before,
                None => drop(exchange(before)),
            }
        });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let ids = match span.extensions().get::<Activity>() {
            Some(activity) => {
                ActivityIds { activity: Some(activity.id), related: activity.related }
            }
            // Nobody listened when it began.
            None => return,
        };
        self.write(span.metadata(), Part::Stop, ids, |_| ());
    }
}

/// The activity of a span that somebody listened to when it began.
fn activity_of<S>(id: Option<&Id>, context: &Context<'_, S>) -> Option<Guid>
where
    S: Subscriber + for<'l> LookupSpan<'l>,
{
    let span = context.span(id?)?;
    let extensions = span.extensions();
    extensions.get::<Activity>().map(|activity| activity.id)
}

fn current() -> Guid {
    let mut id = Guid::ZERO;
    event_activity_id_control(1, &mut id);
    id
}

/// Sets the thread's activity; the one before.
fn exchange(id: Guid) -> Guid {
    let mut id = id;
    event_activity_id_control(4, &mut id);
    id
}

impl EtwFilter {
    fn wants(&self, metadata: &'static Metadata<'static>) -> bool {
        let LevelAndKeyword { level, keyword: bits } = level_of(metadata);
        let Some(provider) = self.providers.of(metadata) else { return false };
        let keyword = bits | self.providers.keyword(metadata.target());
        provider.is_enabled(level, keyword)
    }
}

impl<S> Filter<S> for EtwFilter {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        // Callsites are asked below, and asked anew when sessions change; this is for those that are asked each time.
        let level = level_of(metadata).level;
        self.providers.one().is_none_or(|provider| provider.has_level(level))
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.wants(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.providers.max_level())
    }
}
