//! Logs as a whole: `EvtOpenLog`, `EvtGetLogInfo`, `EvtExportLog`, `EvtClearLog`, `EvtArchiveExportedLog`.

use std::ffi::c_void;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use etw_api::Status;
use etw_eventlog::export::{ExportError, export_merged};
use etw_eventlog::result_set::Source;
use etw_evtx::value::ValueType;
use etw_types::FileTime;

use super::variant::Variants;
use super::{
    Failure, Object, Selected, boolean, channels, file_of, handle, local, object, open_log,
    optional, selected, status_of, wrong_kind,
};

/// `EvtOpenFilePath`, `EvtExportLogFilePath`
const FILE_PATH: u32 = 2;
/// `EvtExportLogTolerateQueryErrors`
const TOLERATE: u32 = 0x1000;
/// `EvtExportLogOverwrite`
const OVERWRITE: u32 = 0x2000;

/// # Safety
/// TEXT `path`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtOpenLog(
    session: *mut c_void,
    path: *const u16,
    flags: u32,
) -> *mut c_void {
    handle(|| {
        local(session)?;
        // SAFETY: TEXT.
        let path = unsafe { optional(path) };
        let path = path.ok_or_else(|| Failure::invalid("the path is NULL"))?;
        let is_file = flags & FILE_PATH != 0 || path.starts_with("file://");
        let file = if flags & FILE_PATH != 0 { PathBuf::from(&path) } else { file_of(&path)? };
        // Nothing may have been written to the log of a channel yet.
        if is_file || file.exists() {
            open_log(&file)?;
        }
        Ok(Object::Log(file))
    })
}

fn time(time: std::io::Result<SystemTime>) -> FileTime {
    let since = time.ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    FileTime(since.map_or(0, |since| FileTime::UNIX_EPOCH.0 + (since.as_nanos() / 100) as i64))
}

/// The records of a log, and the number of the oldest one.
pub fn count(path: &Path) -> Result<(u64, u64), Failure> {
    let failure = |error| Failure::of_log(path, &error);
    let log = open_log(path)?;
    let mut records = log.records();
    let (mut count, mut oldest) = (0, None);
    while let Some(record) = records.next().map_err(failure)? {
        count += 1;
        oldest.get_or_insert(record.id());
    }
    Ok((count, oldest.unwrap_or(0)))
}

/// # Safety
/// HANDLE `log`; OUT `buffer`, `size` bytes; OUT `used`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtGetLogInfo(
    log: *mut c_void,
    property: i32,
    size: u32,
    buffer: *mut u8,
    used: *mut u32,
) -> i32 {
    boolean(|| {
        let found = object(log)?;
        let Object::Log(path) = &*found else { return wrong_kind() };
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(Failure::new(status_of(&error), error.to_string())),
        };
        let mut out = Variants::default();
        let Some(metadata) = metadata else {
            match property {
                0..=2 => out.null(),
                3 | 5 | 6 => out.number(ValueType::UINT64, Some(0u64)),
                4 => out.number(ValueType::UINT32, Some(32u32)),
                7 => out.boolean(false),
                _ => return Err(Failure::invalid("there is no such property of a log")),
            }
            // SAFETY: OUT.
            return unsafe { out.put_into(buffer, size, used) };
        };
        match property {
            0 => out.time(time(metadata.created())),
            1 => out.time(time(metadata.accessed())),
            2 => out.time(time(metadata.modified())),
            3 => out.number(ValueType::UINT64, Some(metadata.len())),
            // FILE_ATTRIBUTE_ARCHIVE, which every log of Windows has.
            4 => out.number(ValueType::UINT32, Some(32u32)),
            5 => out.number(ValueType::UINT64, Some(count(path)?.0)),
            6 => out.number(ValueType::UINT64, Some(count(path)?.1)),
            7 => {
                out.boolean(open_log(path)?.is_full());
            }
            _ => return Err(Failure::invalid("there is no such property of a log")),
        }
        // SAFETY: OUT.
        unsafe { out.put_into(buffer, size, used) }
    })
}

/// # Safety
/// TEXT `path`, `query`, `target`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtExportLog(
    session: *mut c_void,
    path: *const u16,
    query: *const u16,
    target: *const u16,
    flags: u32,
) -> i32 {
    boolean(|| {
        local(session)?;
        // SAFETY: TEXT.
        let (path, query, target) = unsafe { (optional(path), optional(query), optional(target)) };
        let target = target.ok_or_else(|| Failure::invalid("the file to write is NULL"))?;
        let (known, mut unknown) =
            selected(path.as_deref(), flags & FILE_PATH != 0, query.as_deref())?;
        if !unknown.is_empty() && (flags & TOLERATE == 0 || known.is_empty()) {
            return Err(unknown.remove(0).failure);
        }
        let mut sources = Vec::new();
        // Nobody has written to a channel whose file does not exist yet.
        for Selected { name, file, is_channel, selector } in known {
            if !is_channel || file.exists() {
                sources.push(Source { name, log: open_log(&file)?, selector });
            }
        }
        write(sources, Path::new(&target), flags & OVERWRITE != 0)
    })
}

/// Writes the selected records of some logs to a file beside the target, which gets its name when it is complete.
pub fn write(sources: Vec<Source>, target: &Path, overwrites: bool) -> Result<(), Failure> {
    let failure = |error: std::io::Error| {
        Failure::new(status_of(&error), format!("{}: {error}", target.display()))
    };
    if !overwrites && target.symlink_metadata().is_ok() {
        return Err(failure(std::io::ErrorKind::AlreadyExists.into()));
    }
    let mut name = target.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let part = PathBuf::from(name);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&part);
    let written = export_merged(sources, file.map_err(failure)?).map_err(|error| match error {
        ExportError::Read(error) | ExportError::Write(error) => Failure::of_log(target, &error),
    });
    let result = written.and_then(|_| std::fs::rename(&part, target).map_err(failure));
    if result.is_err() {
        // The incomplete file is of no use; its removal may fail for the reason that stopped the export.
        let _ = std::fs::remove_file(&part);
    }
    result
}

/// Removes the records of a channel's log, by the host that keeps it, if one does. `target`, if it is not NULL, is an event log that receives
/// them first.
///
/// # Safety
/// TEXT `path`, `target`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtClearLog(
    session: *mut c_void,
    path: *const u16,
    target: *const u16,
    _flags: u32,
) -> i32 {
    boolean(|| {
        local(session)?;
        // SAFETY: TEXT.
        let (path, target) = unsafe { (optional(path), optional(target)) };
        let path = path.ok_or_else(|| Failure::invalid("the path is NULL"))?;
        channels::clear(&path, target.map(PathBuf::from))
    })
}

/// Windows stores the publishers' texts beside an exported log; here they stay with the schemas.
#[unsafe(no_mangle)]
pub extern "C" fn EvtArchiveExportedLog(_: *mut c_void, _: *const u16, _: u32, _: u32) -> i32 {
    boolean(|| {
        let text = "texts are not stored beside a log; export its schemas with `etw pack`";
        Err(Failure::new(Status::ERROR_NOT_SUPPORTED, text))
    })
}
