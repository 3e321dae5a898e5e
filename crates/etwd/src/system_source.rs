//! Events of the system as a source of the engine.

use etw_host::engine::EventSource;
use etw_session::{Event, SystemConfig};
use etw_system::flags::Masks;
use etw_system::{Options, Recorder, StartError};
use etw_types::{SYSTEM_TRACE, Status};

/// The recording of one session.
pub(crate) struct SystemSource {
    recorder: Recorder,
}

impl SystemSource {
    /// Opens what a session wants; nothing is recorded yet.
    pub fn open(config: &SystemConfig) -> Result<SystemSource, StartError> {
        let options = Options {
            masks: Masks(config.masks),
            stacks: config.stacks.clone(),
            sample_interval: config.sample_interval.max(1),
        };
        Ok(SystemSource { recorder: Recorder::open(options, config.process)? })
    }

    /// Begins to record.
    pub fn begin(&mut self) -> std::io::Result<()> {
        self.recorder.begin()
    }

    /// Notes on classes that were left out.
    pub fn notes(&self) -> &[String] {
        self.recorder.notes()
    }
}

/// The status of a session that cannot record the system.
pub(crate) fn status_of(error: &StartError) -> Status {
    match error {
        StartError::Rings(_) => Status::ERROR_NO_SYSTEM_RESOURCES,
        _ => Status::ERROR_ACCESS_DENIED,
    }
}

impl EventSource for SystemSource {
    fn poll(&mut self) -> u64 {
        self.recorder.poll()
    }

    fn peek(&self) -> Option<Event<'_>> {
        let record = self.recorder.peek()?;
        Some(Event {
            time: record.time,
            cpu: record.cpu,
            process_id: record.process,
            thread_id: record.thread,
            provider: SYSTEM_TRACE,
            payload: record.payload,
            classic: Some(record.class),
            ..Event::default()
        })
    }

    fn pop(&mut self) {
        self.recorder.pop();
    }

    fn take_lost(&mut self) -> u64 {
        self.recorder.take_lost()
    }

    fn finish(&mut self) {
        self.recorder.finish();
    }
}
