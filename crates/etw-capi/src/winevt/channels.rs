//! Channels: `EvtOpenChannelEnum`, `EvtNextChannelPath`, `EvtOpenChannelConfig`, `EvtGetChannelConfigProperty`,
//! `EvtSetChannelConfigProperty`, `EvtSaveChannelConfig`, and the logs behind their names.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use etw_api::{Keyword, Level, Status};
use etw_eventlog::channel::{Channel, Settings};
use etw_eventlog::log_file::clear_file;
use etw_eventlog::registry::{Registry, RegistryError};
use etw_evtx::value::ValueType;

use super::variant::Variants;
use super::{
    Failure, NameKind, Object, boolean, handle, local, lock, object, optional, put_next, status_of,
    wrong_kind,
};
use crate::abi::{read, utf16_of};

/// The settings of a channel, as `EvtSetChannelConfigProperty` left them.
pub struct Config {
    channel: Channel,
    settings: Settings,
}

fn registry() -> Registry {
    // Parts of the registry that cannot be read have no channels.
    Registry::load(&mut |_| ())
}

fn refused(error: &RegistryError) -> Failure {
    Failure::new(Status(error.code()), error.to_string())
}

fn channel(name: &str) -> Result<Channel, Failure> {
    registry().channel(name).cloned().map_err(|error| refused(&error))
}

/// The log of a channel, which may not exist yet.
pub fn log_file(name: &str) -> Result<PathBuf, Failure> {
    registry().log_file(name).map(Path::to_owned).map_err(|error| refused(&error))
}

/// Removes the records of a channel's log.
pub fn clear(name: &str, backup: Option<PathBuf>) -> Result<(), Failure> {
    let (file, access) = (log_file(name)?, channel(name)?.access());
    let failure = |path: &Path, error: std::io::Error| {
        Failure::new(status_of(&error), format!("{}: {error}", path.display()))
    };
    let absolute =
        |path: PathBuf| std::path::absolute(&path).map_err(|error| failure(&path, error));
    let backup = backup.map(absolute).transpose()?;
    #[cfg(target_os = "linux")]
    {
        let cleared = etw_wire::kept_logs::clear(name, backup.clone());
        let refused =
            |error: etw_wire::ClientError| Failure::new(Status(error.status()), error.to_string());
        if cleared.map_err(refused)? {
            return Ok(());
        }
    }
    clear_file(&file, backup.as_deref(), &access).map_err(|error| failure(&file, error))
}

#[unsafe(no_mangle)]
pub extern "C" fn EvtOpenChannelEnum(session: *mut c_void, _flags: u32) -> *mut c_void {
    handle(|| {
        local(session)?;
        let registry = registry();
        let names: Vec<String> =
            registry.channels().iter().map(|channel| channel.name.clone()).collect();
        Ok(Object::Names(NameKind::Channel, Mutex::new(names.into_iter())))
    })
}

/// # Safety
/// HANDLE `channels`; OUT `buffer`, `size` units; OUT `used`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtNextChannelPath(
    channels: *mut c_void,
    size: u32,
    buffer: *mut u16,
    used: *mut u32,
) -> i32 {
    // SAFETY: HANDLE, OUT.
    unsafe { put_next(channels, NameKind::Channel, buffer, size, used) }
}

/// # Safety
/// TEXT `path`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtOpenChannelConfig(
    session: *mut c_void,
    path: *const u16,
    _flags: u32,
) -> *mut c_void {
    handle(|| {
        local(session)?;
        // SAFETY: TEXT.
        let path = unsafe { optional(path) };
        let path = path.ok_or_else(|| Failure::invalid("the path is NULL"))?;
        let channel = channel(&path)?;
        let settings = channel.settings.clone();
        Ok(Object::ChannelConfig(Mutex::new(Config { channel, settings })))
    })
}

/// # Safety
/// HANDLE `config`; OUT `buffer`, `size` bytes; OUT `used`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtGetChannelConfigProperty(
    config: *mut c_void,
    property: i32,
    _flags: u32,
    size: u32,
    buffer: *mut u8,
    used: *mut u32,
) -> i32 {
    boolean(|| {
        let found = object(config)?;
        let Object::ChannelConfig(config) = &*found else { return wrong_kind() };
        let Config { channel, settings } = &*lock(config);
        let mut out = Variants::default();
        let number = |out: &mut Variants, value: u32| out.number(ValueType::UINT32, Some(value));
        match property {
            0 => out.boolean(settings.is_enabled),
            1 => number(&mut out, settings.isolation.number()),
            2 => number(&mut out, channel.kind.number()),
            3 => out.text(channel.owner()),
            4 => out.boolean(channel.is_classic),
            5 => out.text(Some(&settings.access)),
            6 => out.boolean(settings.retention),
            7 => out.boolean(settings.auto_backup),
            8 => out.number(ValueType::UINT64, Some(settings.max_size)),
            9 => out.text(settings.file.to_str()),
            10 => number(&mut out, u32::from(settings.level.0)),
            11 => out.number(ValueType::UINT64, Some(settings.keywords.0)),
            // On Windows, a channel has a session with these.
            12..=18 | 20 => out.null(),
            19 => out.texts(channel.publishers.iter().map(|publisher| publisher.name.as_str())),
            _ => return Err(Failure::invalid("there is no such property of a channel")),
        }
        // SAFETY: OUT.
        unsafe { out.put_into(buffer, size, used) }
    })
}

/// `EVT_VARIANT`: 16 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawVariant {
    content: u64,
    count: u32,
    kind: u32,
}

impl RawVariant {
    fn is(self, kind: ValueType) -> Result<u64, Failure> {
        match self.kind == u32::from(kind.0) {
            true => Ok(self.content),
            false => Err(Failure::invalid("the value has another type than the property")),
        }
    }

    fn boolean(self) -> Result<bool, Failure> {
        // BOOL, the lower half.
        Ok(self.is(ValueType::BOOL)? as u32 != 0)
    }

    /// # Safety
    /// TEXT at a string's pointer.
    unsafe fn text(self) -> Result<String, Failure> {
        let address = self.is(ValueType::STRING)? as usize;
        // SAFETY: TEXT.
        unsafe { utf16_of(std::ptr::with_exposed_provenance(address)) }
            .ok_or_else(|| Failure::invalid("the text is NULL"))
    }
}

/// # Safety
/// HANDLE `config`; ONE `value`, with TEXT if it is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtSetChannelConfigProperty(
    config: *mut c_void,
    property: i32,
    _flags: u32,
    value: *const RawVariant,
) -> i32 {
    boolean(|| {
        let found = object(config)?;
        let Object::ChannelConfig(config) = &*found else { return wrong_kind() };
        // SAFETY: ONE.
        let value = unsafe { read(value) }.ok_or_else(|| Failure::invalid("the value is NULL"))?;
        let settings = &mut lock(config).settings;
        match property {
            0 => settings.is_enabled = value.boolean()?,
            // SAFETY: TEXT.
            5 => settings.access = unsafe { value.text() }?,
            6 => settings.retention = value.boolean()?,
            7 => settings.auto_backup = value.boolean()?,
            8 => settings.max_size = value.is(ValueType::UINT64)?,
            // SAFETY: TEXT.
            9 => settings.file = unsafe { value.text() }?.into(),
            10 => {
                let level = u8::try_from(value.is(ValueType::UINT32)? as u32);
                let level = level.map_err(|_| Failure::invalid("a level is 0 to 255"))?;
                settings.level = Level(level);
            }
            11 => settings.keywords = Keyword(value.is(ValueType::UINT64)?),
            12..=18 | 20 => {
                let text = "channels have no session of their own here";
                return Err(Failure::new(Status::ERROR_NOT_SUPPORTED, text));
            }
            1..=4 | 19 => return Err(Failure::invalid("the manifest has this property")),
            _ => return Err(Failure::invalid("there is no such property of a channel")),
        }
        Ok(())
    })
}

/// # Safety
/// HANDLE `config`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtSaveChannelConfig(config: *mut c_void, _flags: u32) -> i32 {
    boolean(|| {
        let found = object(config)?;
        let Object::ChannelConfig(config) = &*found else { return wrong_kind() };
        let mut config = lock(config);
        let mut registry = registry();
        let change = config.settings.difference(&config.channel.settings);
        registry.set(&config.channel.name, &change).map_err(|error| refused(&error))?;
        let saved = registry.channel(&config.channel.name).map_err(|error| refused(&error))?;
        *config = Config { channel: saved.clone(), settings: saved.settings.clone() };
        // A warning of a host does not undo the change; it is in the host's log.
        #[cfg(target_os = "linux")]
        let _ = etw_wire::kept_logs::refresh();
        Ok(())
    })
}
