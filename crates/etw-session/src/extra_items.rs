//! Extended items that a session adds to an event: process facts and the call stack.

use crate::enable::{EnableInfo, EnableProperties};
use crate::event::{Event, ProcessFacts};

impl ProcessFacts {
    fn items(&self) -> [(EnableProperties, &[u8]); 3] {
        [
            (EnableProperties::SID, &self.sid),
            (EnableProperties::TS_ID, &self.terminal_session),
            (EnableProperties::PROCESS_START_KEY, &self.start_key),
        ]
    }

    /// Bytes that a session with these properties adds to each event.
    pub fn extra_size(&self, properties: EnableProperties) -> usize {
        let wanted =
            self.items().into_iter().filter(|(property, _)| properties.contains(*property));
        wanted.map(|(_, item)| item.len()).sum()
    }
}

/// Extended items that a session adds to an event.
#[derive(Default)]
pub(crate) struct ExtraItems<'a> {
    items: [&'a [u8]; 4],
    count: usize,
    /// The session wants a call stack that the event lacks or that does not fit.
    pub lacks_stack: bool,
}

impl<'a> ExtraItems<'a> {
    /// Collects the items that `info` asks for. `largest` is the largest size of an event with all items. A call stack that would exceed it is
    /// omitted.
    #[inline]
    pub fn find(&mut self, info: &EnableInfo, event: &Event<'a>, largest: usize) {
        if info.properties != EnableProperties::default() && event.classic.is_none() {
            self.add(info, event, largest);
        }
    }

    #[inline(never)]
    fn add(&mut self, info: &EnableInfo, event: &Event<'a>, largest: usize) {
        for (property, item) in event.process.into_iter().flat_map(ProcessFacts::items) {
            if info.properties.contains(property) {
                self.push(item);
            }
        }
        let filter = info.filters.as_ref().map(|filters| &filters.stacks);
        let passes = |filter: &etw_types::StackFilter| {
            filter.passes(&event.descriptor, event.tracelogging_name())
        };
        if info.properties.contains(EnableProperties::STACK_TRACE) && filter.is_none_or(passes) {
            let size = event.size(self.as_slice()) + event.stack.len();
            self.lacks_stack = event.stack.is_empty() || size > largest;
            if !self.lacks_stack {
                self.push(event.stack);
            }
        }
    }

    fn push(&mut self, item: &'a [u8]) {
        self.items[self.count] = item;
        self.count += 1;
    }

    #[inline]
    pub fn as_slice(&self) -> &[&'a [u8]] {
        &self.items[..self.count]
    }
}
