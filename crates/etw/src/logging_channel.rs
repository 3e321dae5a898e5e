//! [`LoggingChannel`]: named channels of events that describe themselves.

use std::sync::Arc;

use etw_types::{Guid, Keyword, Level, Opcode, Status};

use crate::{Activity, EventBuilder, OutType, Provider, Registration};

/// Provider of the channels of Windows 8.1.
const SHARED_NAME: &str = "Microsoft-Windows-Diagnostics-LoggingChannel";
const SHARED_ID: Guid = Guid::from_u128(0x4bd2826e_54a1_4ba9_bf63_92b73ea1ac4a);

/// A channel of events in the form of `Windows.Foundation.Diagnostics.LoggingChannel`.
///
/// Each channel is a provider of its own: its name is the channel's, its GUID is made of the name. The channels that
/// [`compatible`](Self::compatible) makes share the provider of Windows 8.1 instead, and each event names its channel in the
/// field `LoggingChannelName`.
///
/// ```
/// use etw::{Level, LoggingChannel, OutType};
///
/// let channel = LoggingChannel::new("MyCompany-Shop", None)?;
/// channel.log_message("open", Level::INFO);
/// channel.log_event("Sold", Level::INFO, |event| {
///     event.add_str8("item", "tea", OutType::UTF8, 0).add_u32("count", 3, OutType::NULL, 0);
/// });
/// let order = channel.start_activity("Order", Level::INFO, |_| {});
/// order.log_event("Paid", Level::INFO, |_| {});
/// order.stop("OrderDone", |_| {});
/// # Ok::<(), etw::Status>(())
/// ```
///
/// # Loss
/// As [`EventBuilder::write`].
#[derive(Debug)]
pub struct LoggingChannel {
    name: String,
    provider: Arc<Provider>,
    /// Events name the channel.
    is_compatible: bool,
    _registration: Registration,
}

impl LoggingChannel {
    /// A channel whose GUID is made of its name, in a provider group or in none.
    ///
    /// # Errors
    /// `ERROR_INVALID_PARAMETER` for a name that [`Provider::dynamic`] refuses.
    pub fn new(name: &str, group: Option<Guid>) -> Result<LoggingChannel, Status> {
        LoggingChannel::with_id(name, group, Guid::from_name(name))
    }

    /// A channel with a GUID of its own.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_id(name: &str, group: Option<Guid>, id: Guid) -> Result<LoggingChannel, Status> {
        Self::register(name, Provider::dynamic(name, id, group)?, false)
    }

    /// A channel in the form of Windows 8.1: its provider is `Microsoft-Windows-Diagnostics-LoggingChannel`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn compatible(name: &str) -> Result<LoggingChannel, Status> {
        Self::register(name, Provider::dynamic(SHARED_NAME, SHARED_ID, None)?, true)
    }

    fn register(
        name: &str,
        provider: Arc<Provider>,
        is_compatible: bool,
    ) -> Result<LoggingChannel, Status> {
        if name.contains('\0') {
            return Err(Status::ERROR_INVALID_PARAMETER);
        }
        let registration = provider.register_shared(None);
        let name = name.to_owned();
        Ok(LoggingChannel { name, provider, is_compatible, _registration: registration })
    }

    /// The channel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The provider's GUID.
    pub fn id(&self) -> Guid {
        self.provider.id()
    }

    /// Whether any session wants events of this level.
    pub fn is_enabled(&self, level: Level) -> bool {
        self.provider.is_enabled(level, Keyword(0))
    }

    /// Writes an event; `fields` adds its fields, if a session wants it.
    pub fn log_event(
        &self,
        name: &str,
        level: Level,
        fields: impl FnOnce(&mut EventBuilder),
    ) -> Status {
        self.write(name, level, Opcode(0), Activities::default(), fields)
    }

    /// Writes a text: the event `MessageEvent` with the field `StringMessage`.
    pub fn log_message(&self, text: &str, level: Level) -> Status {
        self.log_event("MessageEvent", level, |event| add_text(event, "StringMessage", text))
    }

    /// Writes a text and a number: the event `ValuePairEvent` with the fields `StringMessage` and `IntMessage`.
    pub fn log_value_pair(&self, text: &str, number: i32, level: Level) -> Status {
        self.log_event("ValuePairEvent", level, |event| {
            add_text(event, "StringMessage", text);
            event.add_i32("IntMessage", number, OutType::NULL, 0);
        })
    }

    /// Writes the start event of a new activity, whose parent is the thread's current one.
    pub fn start_activity(
        &self,
        name: &str,
        level: Level,
        fields: impl FnOnce(&mut EventBuilder),
    ) -> LoggingActivity<'_> {
        let activity = Activity::new();
        let activities = Activities { id: Some(activity.id()), related: activity.related_id() };
        self.write(name, level, Opcode(1), activities, fields);
        LoggingActivity { channel: self, id: activity.id(), name: Some(name.to_owned()), level }
    }

    fn write(
        &self,
        name: &str,
        level: Level,
        opcode: Opcode,
        activities: Activities,
        fields: impl FnOnce(&mut EventBuilder),
    ) -> Status {
        if !self.is_enabled(level) {
            return Status::ERROR_SUCCESS;
        }
        let mut event = EventBuilder::new();
        event.reset(name, level, Keyword(0), 0).opcode(opcode);
        if self.is_compatible {
            add_text(&mut event, "LoggingChannelName", &self.name);
        }
        fields(&mut event);
        event.write(&self.provider, activities.id.as_ref(), activities.related.as_ref())
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Activities {
    id: Option<Guid>,
    related: Option<Guid>,
}

fn add_text(event: &mut EventBuilder, name: &str, text: &str) {
    let units: Vec<u16> = text.encode_utf16().take_while(|unit| *unit != 0).collect();
    event.add_cstr16(name, units, OutType::NULL, 0);
}

/// An operation of a [`LoggingChannel`]: its events have one activity id. If it is dropped without
/// [`stop`](Self::stop), it writes the stop event under the name of the start event.
#[derive(Debug)]
pub struct LoggingActivity<'a> {
    channel: &'a LoggingChannel,
    id: Guid,
    /// Name of the start event; `None` once the activity has stopped.
    name: Option<String>,
    level: Level,
}

impl LoggingActivity<'_> {
    /// The activity id.
    pub fn id(&self) -> Guid {
        self.id
    }

    /// Writes an event of the activity.
    pub fn log_event(
        &self,
        name: &str,
        level: Level,
        fields: impl FnOnce(&mut EventBuilder),
    ) -> Status {
        self.channel.write(name, level, Opcode(0), self.activities(), fields)
    }

    /// Writes the stop event, with a name and fields of its own.
    pub fn stop(mut self, name: &str, fields: impl FnOnce(&mut EventBuilder)) -> Status {
        self.name = None;
        self.channel.write(name, self.level, Opcode(2), self.activities(), fields)
    }

    fn activities(&self) -> Activities {
        Activities { id: Some(self.id), related: None }
    }
}

impl Drop for LoggingActivity<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.channel.write(&name, self.level, Opcode(2), self.activities(), |_| {});
        }
    }
}
