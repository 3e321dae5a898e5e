//! Queries and bookmarks: `EvtQuery`, `EvtNext`, `EvtSeek`, `EvtGetQueryInfo`, `EvtCreateBookmark`, `EvtUpdateBookmark`.

use std::ffi::c_void;
use std::sync::Mutex;

use etw_api::Status;
use etw_eventlog::result_set::{Origin, ResultSet, SeekError, Source};
use etw_eventlog::stored_record::StoredRecord;
use etw_evtx::bookmark::BookmarkList;
use etw_evtx::value::ValueType;

use super::variant::Variants;
use super::{
    ERROR_NO_MORE_ITEMS, Failure, Object, Selected, boolean, handle, insert, local, lock, object,
    open_log, optional, selected, wrong_kind,
};
use crate::abi::store;
use crate::status::ERROR_NOT_FOUND;

/// `EvtQueryFilePath`
const FILE_PATH: u32 = 2;
/// `EvtQueryReverseDirection`
const REVERSE: u32 = 0x200;
/// `EvtQueryTolerateQueryErrors`
const TOLERATE: u32 = 0x1000;
/// `EvtSeekStrict`
const STRICT: u32 = 0x1_0000;

/// A result, and the status of each log that the query names.
pub struct Query {
    pub set: Mutex<ResultSet>,
    statuses: Vec<(String, Status)>,
}

/// # Safety
/// TEXT `path`, `query`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtQuery(
    session: *mut c_void,
    path: *const u16,
    query: *const u16,
    flags: u32,
) -> *mut c_void {
    handle(|| {
        local(session)?;
        // SAFETY: TEXT.
        let (path, query) = unsafe { (optional(path), optional(query)) };
        let is_tolerant = flags & TOLERATE != 0;
        let (known, unknown) = selected(path.as_deref(), flags & FILE_PATH != 0, query.as_deref())?;
        let mut statuses = Vec::new();
        let mut first = None;
        for one in unknown {
            statuses.push((one.name, one.failure.status));
            first.get_or_insert(one.failure);
        }
        let mut sources = Vec::new();
        for Selected { name, file, is_channel, selector } in known {
            match open_log(&file) {
                // A channel to which nothing was written yet.
                Err(_) if is_channel && !file.exists() => {
                    statuses.push((name, Status::ERROR_SUCCESS));
                }
                Ok(log) => {
                    statuses.push((name.clone(), Status::ERROR_SUCCESS));
                    sources.push(Source { name, log, selector });
                }
                Err(failure) => {
                    statuses.push((name, failure.status));
                    first.get_or_insert(failure);
                }
            }
        }
        let is_found = statuses.iter().any(|(_, status)| *status == Status::ERROR_SUCCESS);
        if let Some(failure) = first.filter(|_| !is_tolerant || !is_found) {
            return Err(failure);
        }
        let set = Mutex::new(ResultSet::new(sources, flags & REVERSE != 0));
        Ok(Object::Query(Query { set, statuses }))
    })
}

/// # Safety
/// HANDLE `result`; OUT `events`, `count` handles; OUT `returned`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtNext(
    result: *mut c_void,
    count: u32,
    events: *mut *mut c_void,
    timeout: u32,
    _flags: u32,
    returned: *mut u32,
) -> i32 {
    boolean(|| {
        if count == 0 || events.is_null() || returned.is_null() {
            return Err(Failure::invalid("the events or their count have no variable"));
        }
        // SAFETY: OUT.
        unsafe { store(returned, 0) };
        let records: Vec<StoredRecord> = match &*object(result)? {
            Object::Query(query) => {
                let mut set = lock(&query.set);
                let mut records = Vec::new();
                while records.len() < count as usize {
                    match set.next() {
                        Ok(Some(record)) => records.push(record),
                        Ok(None) => break,
                        Err(_) if !records.is_empty() => break,
                        Err(error) => return Err(Failure::of_log("log".as_ref(), &error)),
                    }
                }
                records
            }
            Object::Subscription(shared) => shared.take(count as usize, timeout)?,
            _ => return wrong_kind(),
        };
        if records.is_empty() {
            return Err(Failure::from(ERROR_NO_MORE_ITEMS));
        }
        let found = records.len() as u32;
        for (index, record) in records.into_iter().enumerate() {
            // SAFETY: OUT: there are at most `count`.
            unsafe { store(events.add(index), insert(Object::Event(record))) };
        }
        // SAFETY: OUT.
        unsafe { store(returned, found) };
        Ok(())
    })
}

/// # Safety
/// HANDLE `result`, `bookmark`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtSeek(
    result: *mut c_void,
    position: i64,
    bookmark: *mut c_void,
    _timeout: u32,
    flags: u32,
) -> i32 {
    boolean(|| {
        let found = object(result)?;
        let Object::Query(query) = &*found else { return wrong_kind() };
        let is_strict = flags & STRICT != 0;
        let origin = match flags & 7 {
            1 => Origin::First,
            2 => Origin::Last,
            3 => Origin::Current,
            4 => match &*object(bookmark)? {
                Object::Bookmark(list) => Origin::Bookmark { list: lock(list).clone(), is_strict },
                _ => return wrong_kind(),
            },
            _ => return Err(Failure::invalid("the origin of a seek is 1 to 4")),
        };
        let mut set = lock(&query.set);
        match set.seek(&origin, position) {
            Ok(()) => Ok(()),
            // Without EvtSeekStrict, the nearest end is meant.
            Err(SeekError::OutOfRange) if !is_strict => {
                let end = if position < 0 { (Origin::First, 0) } else { (Origin::Last, 1) };
                let _ = set.seek(&end.0, end.1);
                Ok(())
            }
            Err(SeekError::OutOfRange | SeekError::NoBookmark) => {
                Err(Failure::new(ERROR_NOT_FOUND, "the position is not in the result"))
            }
            Err(_) => Err(Failure::from(Status::ERROR_BAD_PATHNAME)),
        }
    })
}

/// # Safety
/// HANDLE `query`; OUT `buffer`, `size` bytes; OUT `used`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtGetQueryInfo(
    query: *mut c_void,
    property: i32,
    size: u32,
    buffer: *mut u8,
    used: *mut u32,
) -> i32 {
    boolean(|| {
        let found = object(query)?;
        let statuses: Vec<(&str, u32)> = match &*found {
            Object::Query(query) => {
                query.statuses.iter().map(|(name, status)| (name.as_str(), status.0)).collect()
            }
            Object::Subscription(shared) => {
                shared.names.iter().map(|name| (name.as_str(), 0)).collect()
            }
            _ => return wrong_kind(),
        };
        let variants = Variants::of(|out| match property {
            0 => out.texts(statuses.iter().map(|(name, _)| *name)),
            1 => {
                let statuses: Vec<u32> = statuses.iter().map(|(_, status)| *status).collect();
                out.numbers(ValueType::UINT32, &statuses);
            }
            _ => {}
        });
        if variants.len() == 0 {
            return Err(Failure::invalid("there is no such property of a query"));
        }
        // SAFETY: OUT.
        unsafe { variants.put_into(buffer, size, used) }
    })
}

/// # Safety
/// TEXT `xml`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtCreateBookmark(xml: *const u16) -> *mut c_void {
    handle(|| {
        // SAFETY: TEXT.
        let list = match unsafe { optional(xml) } {
            Some(xml) => xml.parse().map_err(|error: etw_evtx::bookmark::BookmarkError| {
                Failure::new(Status::ERROR_INVALID_PARAMETER, error.to_string())
            })?,
            None => BookmarkList::default(),
        };
        Ok(Object::Bookmark(Mutex::new(list)))
    })
}

/// # Safety
/// HANDLE `bookmark`, `event`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtUpdateBookmark(bookmark: *mut c_void, event: *mut c_void) -> i32 {
    boolean(|| {
        let (bookmark, event) = (object(bookmark)?, object(event)?);
        let (Object::Bookmark(list), Object::Event(record)) = (&*bookmark, &*event) else {
            return wrong_kind();
        };
        lock(list).update(record.source(), record.record_id());
        Ok(())
    })
}
