//! `EVENT_TRACE_PROPERTIES`: the settings and statistics of a session, with the names behind the structure.

use std::ffi::{OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use etw_api::Status;
use etw_system::flags::Masks;
use etw_types::LogFileMode;
use etw_types::raw::RawMoreProperties;
pub use etw_types::raw::RawProperties;
use etw_wire::requests::SessionStatus;

use super::sessions::handle_of;
use crate::abi::RawGuid;

/// `WNODE_FLAG_TRACED_GUID`
pub const TRACED_GUID: u32 = 0x0002_0000;
/// `WNODE_FLAG_VERSIONED_PROPERTIES`
const VERSIONED: u32 = 0x0080_0000;
/// The most UTF-16 units of a session's or file's name, with its NUL.
pub const NAME_UNITS: usize = 1024;

const SIZE: u32 = size_of::<RawProperties>() as u32;

/// The units of a call's texts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// UTF-16: calls whose names end in W.
    Wide,
    /// UTF-8: those in A.
    Narrow,
}

impl Text {
    fn unit(self) -> usize {
        match self {
            Text::Wide => 2,
            Text::Narrow => 1,
        }
    }

    fn encode(self, text: &OsStr) -> Vec<u8> {
        match self {
            Text::Wide => {
                text.to_string_lossy().encode_utf16().flat_map(u16::to_ne_bytes).collect()
            }
            Text::Narrow => text.as_bytes().to_vec(),
        }
    }

    fn decode(self, bytes: &[u8]) -> PathBuf {
        match self {
            Text::Wide => {
                let units: Vec<u16> =
                    bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_ne_bytes(*unit)).collect();
                String::from_utf16_lossy(&units).into()
            }
            Text::Narrow => OsStr::from_bytes(bytes).into(),
        }
    }

    /// A text of fewer than `limit` units and a NUL; `None` if it is longer.
    ///
    /// # Safety
    /// TEXT `at`, or at least `limit` units.
    unsafe fn read(self, at: *const u8, limit: usize) -> Option<PathBuf> {
        let unit = self.unit();
        let mut bytes = Vec::new();
        for number in 0..limit {
            // SAFETY: TEXT: no unit so far was a NUL.
            let (low, high) = unsafe {
                let place = at.add(number * unit);
                (place.read(), if unit == 2 { place.add(1).read() } else { 0 })
            };
            if low == 0 && high == 0 {
                return Some(self.decode(&bytes));
            }
            bytes.extend(&[low, high][..unit]);
        }
        None
    }

    /// The name of a session; `None` for NULL.
    ///
    /// # Errors
    /// 87: too long.
    ///
    /// # Safety
    /// TEXT `at`.
    pub unsafe fn name(self, at: *const c_void) -> Result<Option<String>, Status> {
        if at.is_null() {
            return Ok(None);
        }
        // SAFETY: TEXT.
        match unsafe { self.read(at.cast(), NAME_UNITS) } {
            Some(name) => Ok(Some(name.to_string_lossy().into_owned())),
            None => Err(Status::ERROR_INVALID_PARAMETER),
        }
    }
}

/// The properties that a program passes.
pub struct Properties {
    at: *mut RawProperties,
    pub raw: RawProperties,
    text: Text,
}

impl Properties {
    /// # Errors
    /// 87: NULL, or a name starts outside the structure. 24: the size is below that of the structure.
    ///
    /// # Safety
    /// ONE and OUT `at`, of `Wnode.BufferSize` bytes, until the result is dropped.
    pub unsafe fn read(at: *mut RawProperties, text: Text) -> Result<Properties, Status> {
        if at.is_null() {
            return Err(Status::ERROR_INVALID_PARAMETER);
        }
        // SAFETY: ONE: the size is the first member, and it is read before anything else.
        let size = unsafe { (&raw const (*at).size).read_unaligned() };
        if size < SIZE {
            return Err(Status::ERROR_BAD_LENGTH);
        }
        // SAFETY: ONE: the size covers the structure.
        let raw = unsafe { at.read_unaligned() };
        let mut least = SIZE;
        if raw.flags & VERSIONED != 0 {
            least = SIZE + size_of::<RawMoreProperties>() as u32;
            if size < least {
                return Err(Status::ERROR_BAD_LENGTH);
            }
            // SAFETY: ONE: the size covers the second structure, too.
            let more = unsafe { at.add(1).cast::<RawMoreProperties>().read_unaligned() };
            if more.control & 0xff != 2 {
                return Err(Status::ERROR_INVALID_PARAMETER);
            }
            if more.filter_count != 0 {
                // Filters of a session: there are those of its providers.
                return Err(Status::ERROR_NOT_SUPPORTED);
            }
        }
        let lies_outside = |offset: u32| offset != 0 && !(least..size).contains(&offset);
        if lies_outside(raw.name_offset) || lies_outside(raw.file_name_offset) {
            return Err(Status::ERROR_INVALID_PARAMETER);
        }
        Ok(Properties { at, raw, text })
    }

    /// Bytes from a name's place up to the other name's or the end.
    fn room(&self, offset: u32, other: u32) -> usize {
        let end = if other > offset { other } else { self.raw.size };
        end.saturating_sub(offset) as usize
    }

    /// Is there room for the session's name, if there is a place for it?
    pub fn has_room_for(&self, name: &str) -> bool {
        let size = self.text.encode(OsStr::new(name)).len() + self.text.unit();
        let offset = self.raw.name_offset;
        offset == 0 || size <= self.room(offset, self.raw.file_name_offset)
    }

    /// The file that it names: from the working directory of this process, which the host does not share. `None`: it names none.
    ///
    /// # Errors
    /// 87: the name does not end; 161: it is too long or no text.
    pub fn file(&self) -> Result<Option<PathBuf>, Status> {
        let offset = self.raw.file_name_offset;
        if offset == 0 {
            return Ok(None);
        }
        let units = self.room(offset, self.raw.name_offset) / self.text.unit();
        // SAFETY: the program's promise of `read`: it has so many bytes.
        let name = unsafe { self.text.read(self.at.cast::<u8>().add(offset as usize), units) };
        let name = name.ok_or(Status::ERROR_INVALID_PARAMETER)?;
        if name.as_os_str().is_empty() {
            return Ok(None);
        }
        if name.to_str().is_none_or(|name| name.encode_utf16().count() >= NAME_UNITS) {
            return Err(Status::ERROR_BAD_PATHNAME);
        }
        std::path::absolute(&name).map(Some).map_err(|_| Status::ERROR_BAD_PATHNAME)
    }

    /// Writes a session's properties for the program; the name of the file only if `with_file`.
    ///
    /// # Errors
    /// 234: a name did not fit. The numbers are written all the same.
    pub fn tell(&self, session: &SessionStatus, with_file: bool) -> Result<(), Status> {
        let properties = self.of_session(session);
        // SAFETY: OUT, from `read`.
        unsafe { self.at.write_unaligned(properties) };
        let RawProperties { name_offset, file_name_offset, .. } = self.raw;
        let name = self.put(name_offset, file_name_offset, OsStr::new(&session.name));
        let file = session.file.as_deref().unwrap_or(Path::new(""));
        let file = if with_file {
            self.put(file_name_offset, name_offset, file.as_os_str())
        } else {
            true
        };
        if name && file { Ok(()) } else { Err(Status::ERROR_MORE_DATA) }
    }

    fn of_session(&self, session: &SessionStatus) -> RawProperties {
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        // The daemon has bytes and milliseconds. The program gets the larger unit if the value is a multiple of it.
        let mut mode = session
            .mode
            .without(LogFileMode::USE_KBYTES_FOR_SIZE | LogFileMode::USE_MS_FLUSH_TIMER);
        let in_mb = session.max_size.is_multiple_of(1 << 20);
        let in_seconds = session.flush_timer_ms.is_multiple_of(1000);
        mode |= LogFileMode::USE_KBYTES_FOR_SIZE.when(!in_mb);
        mode |= LogFileMode::USE_MS_FLUSH_TIMER.when(!in_seconds);
        RawProperties {
            handle: handle_of(session),
            guid: RawGuid::from_guid(&session.guid),
            clock: session.clock.number(),
            flags: self.raw.flags | TRACED_GUID,
            buffer_size: session.buffer_size >> 10,
            // All are there from the start.
            minimum_buffers: session.buffers,
            maximum_buffers: session.buffers,
            maximum_file_size: small(session.max_size >> if in_mb { 20 } else { 10 }),
            mode,
            flush_timer: session.flush_timer_ms / if in_seconds { 1000 } else { 1 },
            enable_flags: session
                .system
                .as_ref()
                .map_or(0, |system| Masks(system.masks).enable_flags()),
            number_of_buffers: session.buffers,
            free_buffers: session.free_buffers,
            events_lost: small(session.lost),
            buffers_written: small(session.buffers_written),
            log_buffers_lost: small(session.buffers_lost),
            real_time_buffers_lost: small(session.real_time_buffers_lost),
            // A thread of another process.
            logger_thread: std::ptr::null_mut(),
            ..self.raw
        }
    }

    /// Puts a text to its place, if it has one. `false`: it does not fit, and nothing is put.
    fn put(&self, offset: u32, other: u32, text: &OsStr) -> bool {
        if offset == 0 {
            return true;
        }
        let mut bytes = self.text.encode(text);
        bytes.resize(bytes.len() + self.text.unit(), 0);
        if bytes.len() > self.room(offset, other) {
            return false;
        }
        // SAFETY: the program's promise of `read`: it has so many bytes, and nothing of ours lies there.
        unsafe {
            let to = self.at.cast::<u8>().add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        true
    }
}
