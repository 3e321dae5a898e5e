//! `EVENT_TRACE_PROPERTIES_V2`: the one place where a session's configuration becomes the system's, and the system's state ours.

use std::os::windows::ffi::OsStrExt;
use std::path::Path;
#[cfg(feature = "control")]
use std::{ffi::OsString, os::windows::ffi::OsStringExt, path::PathBuf};

#[cfg(feature = "control")]
use etw_session::SessionClock;
use etw_session::SessionConfig;
use etw_types::raw::{RawGuid, RawMoreProperties, RawProperties};
use etw_types::{LogFileMode, SYSTEM_TRACE, Status};
#[cfg(feature = "control")]
use etw_wire::requests::{SessionStatus, Update};

use super::Refusal;
use super::api::{NAME_UNITS, TRACED_GUID, VERSIONED};

/// The session of the system's own events that every Windows has.
pub const KERNEL_LOGGER: &str = "NT Kernel Logger";

/// The properties and the names behind them.
#[repr(C)]
#[derive(Clone)]
pub struct Properties {
    pub raw: RawProperties,
    more: RawMoreProperties,
    name: [u16; NAME_UNITS],
    file: [u16; NAME_UNITS],
}

impl Properties {
    /// Properties without any setting, for questions and for changes.
    pub fn empty() -> Box<Properties> {
        // SAFETY: numbers and a pointer, for which zero is valid.
        let mut properties: Box<Properties> = Box::new(unsafe { std::mem::zeroed() });
        let raw = &mut properties.raw;
        raw.size = size_of::<Properties>() as u32;
        raw.flags = TRACED_GUID | VERSIONED;
        raw.name_offset = std::mem::offset_of!(Properties, name) as u32;
        raw.file_name_offset = std::mem::offset_of!(Properties, file) as u32;
        properties.more.control = 2;
        properties
    }

    /// The properties of a session to start.
    ///
    /// # Errors
    /// An option that ETW forbids, or that only this project's hosts support.
    pub fn of_config(config: &SessionConfig) -> Result<Box<Properties>, Refusal> {
        let wrong = |error: etw_session::ConfigError| Refusal {
            status: error.status(),
            message: error.to_string(),
        };
        config.validate().map_err(wrong)?;
        config.validate_path().map_err(wrong)?;
        if config.is_event_log() {
            return Err(Refusal::not_supported(
                "a session of Windows writes .etl files, not event logs (.evtx); etw convert --to evtx makes one",
            ));
        }
        let mut properties = Properties::empty();
        let raw = &mut properties.raw;
        raw.guid = RawGuid::from_guid(&config.guid);
        raw.clock = config.clock.number();
        raw.buffer_size = config.buffer_size >> 10;
        (raw.minimum_buffers, raw.maximum_buffers) = (config.buffer_count, config.buffer_count);
        raw.mode = config.log_file_mode();
        if config.secure {
            raw.mode |= LogFileMode::SECURE;
        }
        // With `USE_KBYTES_FOR_SIZE`, which `log_file_mode` states for every file with a maximum size.
        raw.maximum_file_size = config.max_size_kb();
        if let Some(timer) = config.effective_flush_timer() {
            set_flush_timer(raw, u32::try_from(timer.as_millis()).unwrap_or(u32::MAX));
        }
        if let Some(system) = &config.system {
            raw.enable_flags = system.masks[0];
            if config.name.eq_ignore_ascii_case(KERNEL_LOGGER) {
                raw.guid = RawGuid::from_guid(&SYSTEM_TRACE);
                raw.mode = raw.mode.without(LogFileMode::SYSTEM_LOGGER);
            }
        }
        properties.set_file(config.file.as_deref())?;
        Ok(properties)
    }

    /// The properties of an update: those of the running session with the changes.
    ///
    /// # Errors
    /// A path that the system cannot take.
    #[cfg(feature = "control")]
    pub fn of_update(running: &Properties, update: &Update) -> Result<Box<Properties>, Refusal> {
        let mut properties = Box::new(running.clone());
        let raw = &mut properties.raw;
        raw.flags = TRACED_GUID | VERSIONED;
        if let Some(buffers) = update.buffers {
            raw.maximum_buffers = buffers;
        }
        if let Some(timer) = update.flush_timer_ms {
            set_flush_timer(raw, timer);
        }
        match update.real_time {
            Some(true) => raw.mode |= LogFileMode::REAL_TIME,
            Some(false) => raw.mode = raw.mode.without(LogFileMode::REAL_TIME),
            None => {}
        }
        // A file name that is given is one to continue in, also the current one.
        properties.set_file(update.file.as_deref())?;
        Ok(properties)
    }

    /// Sets the name of the file, or removes it.
    ///
    /// # Errors
    /// `ERROR_BAD_PATHNAME` for a path of more than 1023 characters.
    pub fn set_file(&mut self, path: Option<&Path>) -> Result<(), Refusal> {
        self.file = [0; NAME_UNITS];
        let units: Vec<u16> =
            path.map_or(Vec::new(), |path| path.as_os_str().encode_wide().collect());
        if units.len() >= NAME_UNITS || units.contains(&0) {
            let path = path.map_or(String::new(), |path| path.display().to_string());
            let message =
                format!("{path}: a path of at most 1023 characters without NUL is required");
            return Err(Refusal { status: Status::ERROR_BAD_PATHNAME, message });
        }
        self.file[..units.len()].copy_from_slice(&units);
        self.raw.file_name_offset = match units.is_empty() {
            true => 0,
            false => std::mem::offset_of!(Properties, file) as u32,
        };
        Ok(())
    }

    /// The pointer that the system gets, to the names as well.
    pub fn as_mut_ptr(&mut self) -> *mut RawProperties {
        std::ptr::from_mut(self).cast()
    }

    /// The session's name, as the system returned it.
    #[cfg(feature = "control")]
    pub fn name(&self) -> String {
        text(&self.name).to_string_lossy().into_owned()
    }

    /// The state of a session. Counts of events that the system does not have are zero: only its losses are known, and not their
    /// causes.
    #[cfg(feature = "control")]
    pub fn status(&self, name: &str, state: &str) -> SessionStatus {
        let raw = &self.raw;
        let file = PathBuf::from(text(&self.file));
        let unit = if raw.mode.contains(LogFileMode::USE_KBYTES_FOR_SIZE) { 10 } else { 20 };
        let returned = self.name();
        SessionStatus {
            name: if returned.is_empty() { name.to_owned() } else { returned },
            guid: raw.guid.guid(),
            id: logger_id(raw.handle).into(),
            state: state.to_owned(),
            file: (!file.as_os_str().is_empty()).then_some(file),
            mode: raw.mode,
            max_size: u64::from(raw.maximum_file_size) << unit,
            buffer_size: raw.buffer_size << 10,
            buffers: raw.number_of_buffers,
            free_buffers: raw.free_buffers,
            flush_timer_ms: flush_timer_ms(raw),
            clock: SessionClock::of_number(raw.clock).unwrap_or_default(),
            buffers_written: raw.buffers_written.into(),
            buffers_lost: raw.log_buffers_lost.into(),
            real_time_buffers_lost: raw.real_time_buffers_lost.into(),
            lost: raw.events_lost.into(),
            ..SessionStatus::default()
        }
    }
}

/// Whole seconds are stated as such, which every version of the system knows.
fn set_flush_timer(raw: &mut RawProperties, milliseconds: u32) {
    match milliseconds % 1000 {
        0 => {
            raw.mode = raw.mode.without(LogFileMode::USE_MS_FLUSH_TIMER);
            raw.flush_timer = milliseconds / 1000;
        }
        _ => {
            raw.mode |= LogFileMode::USE_MS_FLUSH_TIMER;
            raw.flush_timer = milliseconds;
        }
    }
}

#[cfg(feature = "control")]
fn flush_timer_ms(raw: &RawProperties) -> u32 {
    match raw.mode.contains(LogFileMode::USE_MS_FLUSH_TIMER) {
        true => raw.flush_timer,
        false => raw.flush_timer.saturating_mul(1000),
    }
}

/// The number of a session in its handle, which events and enablements have.
#[cfg(feature = "control")]
pub fn logger_id(handle: u64) -> u16 {
    handle as u16
}

#[cfg(feature = "control")]
fn text(units: &[u16]) -> OsString {
    let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
    OsString::from_wide(&units[..end])
}
