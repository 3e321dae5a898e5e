//! Programs on [`tracing`](https://docs.rs/tracing) become ETW providers by one layer.
//!
//! ```
//! use tracing_subscriber::prelude::*;
//!
//! let _default = tracing_subscriber::registry().with(etw_tracing::layer("MyCompany.App")).set_default();
//! let span = tracing::info_span!("order", number = 7);
//! let _entered = span.enter();
//! tracing::warn!(reason = "card", "payment failed");
//! ```
//!
//! * **Spans** are start and stop events with an activity id of their own; the span around them is the related activity. While a span
//!   is entered, its id is the thread's activity, also for events that are written by other means; a span that is entered by a
//!   task anew at each poll, on whatever thread, stays one activity.
//! * **Events** carry their fields in the order in which they are written, with their types; `message` among them. An event is named
//!   by its `name:`, else by its target. Errors are texts with their sources; `Debug` values are what they print.
//! * **Levels** are ETW's: ERROR 2, WARN 3, INFO 4, DEBUG and TRACE 5. The keyword tells those apart, and spans from events:
//!   [`keyword`].
//! * **Without a session** a callsite is off, and costs what `tracing` itself costs. When a session starts or stops, `tracing` asks the
//!   layer about each callsite again.
//! * An event's metadata is made once for each callsite and types of its fields, and kept for ever; an event allocates nothing and takes no
//!   lock. An event of more than 64 KiB is refused, and the session counts it as lost.
#![forbid(unsafe_code)]

mod layer;
mod provider;
mod record;
mod site;

use etw::Keyword;
pub use layer::{EtwFilter, EtwLayer, keyword};

use provider::Providers;
use tracing_core::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::registry::LookupSpan;

/// A layer whose events are of one provider; its GUID is the hash of its name, as TraceLogging has it.
///
/// # Panics
/// The name is longer than traits may be, or has a NUL: [`Builder::build`] tells instead.
pub fn layer<S>(name: &str) -> Filtered<EtwLayer, EtwFilter, S>
where
    S: Subscriber + for<'l> LookupSpan<'l>,
{
    match Builder::new(name).build() {
        Ok(layer) => layer,
        Err(status) => panic!("{name:?} can name no provider: {status:?}"),
    }
}

/// The names and options of a layer's events.
#[derive(Clone, Debug)]
pub struct Builder {
    name: String,
    per_target: bool,
    keywords: Vec<(String, Keyword)>,
    location: bool,
    channel: etw::Channel,
}

impl Builder {
    /// One provider of that name, no keywords for targets, no places in source files.
    pub fn new(name: &str) -> Builder {
        Builder {
            name: name.to_owned(),
            per_target: false,
            keywords: Vec::new(),
            location: false,
            channel: etw::Channel::TRACE_LOGGING,
        }
    }

    /// A provider for each target, as `NAME.crate.module`, in place of one for all.
    #[must_use]
    pub fn provider_per_target(mut self) -> Builder {
        self.per_target = true;
        self
    }

    /// Keyword bits for the targets that begin with `target`, beside those of the level: `8` and higher are free.
    #[must_use]
    pub fn keyword(mut self, target: &str, bits: Keyword) -> Builder {
        self.keywords.push((target.to_owned(), bits));
        self
    }

    /// Adds `file` and `line` to events and to starts of spans.
    #[must_use]
    pub fn with_location(mut self) -> Builder {
        self.location = true;
        self
    }

    /// The channel of all events, by its value in a manifest of the provider: 16 and higher are a manifest's own. If the manifest is
    /// installed, a host keeps the events in the channel's event log, without a session; the level of the log leaves all but errors
    /// out. The manifest names the provider by `etw::Guid::from_name(NAME)`.
    #[must_use]
    pub fn channel(mut self, channel: etw::Channel) -> Builder {
        self.channel = channel;
        self
    }

    /// The layer, with its filter.
    ///
    /// # Errors
    /// `ERROR_INVALID_PARAMETER` for a name that no provider can have.
    pub fn build<S>(self) -> Result<Filtered<EtwLayer, EtwFilter, S>, etw::Status>
    where
        S: Subscriber + for<'l> LookupSpan<'l>,
    {
        let providers = Providers::new(&self.name, self.per_target, self.keywords)?;
        let layer = EtwLayer::new(providers, self.location, self.channel);
        let filter = layer.filter();
        Ok(layer.with_filter(filter))
    }
}

/// The example of `README.md`, as a doc-test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
