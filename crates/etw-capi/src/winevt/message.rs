//! `EvtFormatMessage`: texts of events from the schemas of their publishers.

use std::ffi::c_void;

use etw_decode::Decoder;
use etw_eventlog::rendering::{Renderer, Rendering};

use super::render::read;
use super::{
    ERROR_EVT_MESSAGE_ID_NOT_FOUND, ERROR_EVT_MESSAGE_NOT_FOUND, Failure, Object, boolean, object,
    put_text, wrong_kind,
};
use crate::loaded;

/// The texts of an event, by the schemas that the process has loaded and the user has registered.
fn rendering(record: &etw_evtx::Record<'_>) -> Result<Rendering, etw_evtx::Error> {
    let mut decoder = Decoder::new();
    decoder.set_catalog(loaded::catalog().1);
    decoder.set_own_catalog(loaded::registered());
    Renderer::new(decoder).render(record)
}

/// # Safety
/// HANDLE `publisher`, `event`; OUT `buffer`, `size` units; OUT `used`. `values` is not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn EvtFormatMessage(
    publisher: *mut c_void,
    event: *mut c_void,
    message: u32,
    _count: u32,
    _values: *const c_void,
    flags: u32,
    size: u32,
    buffer: *mut u16,
    used: *mut u32,
) -> i32 {
    boolean(|| {
        if !publisher.is_null() && !matches!(&*object(publisher)?, Object::Publisher(_)) {
            return wrong_kind();
        }
        if flags == 8 {
            let found = object(publisher)?;
            let Object::Publisher(publisher) = &*found else { return wrong_kind() };
            let text = publisher.message(message).ok_or_else(|| {
                let text = format!("the publisher has no message {message:#x}");
                Failure::new(ERROR_EVT_MESSAGE_ID_NOT_FOUND, text)
            })?;
            // SAFETY: OUT.
            return unsafe { put_text(&text, buffer, size, used) };
        }
        let event = object(event)?;
        let Object::Event(record) = &*event else { return wrong_kind() };
        let text = match flags {
            9 => Some(read(record, |record| rendering(record)?.xml(record))?),
            1..=7 => {
                let rendering = read(record, rendering)?;
                match flags {
                    1 => rendering.message,
                    2 => rendering.level,
                    3 => rendering.task,
                    4 => rendering.opcode,
                    // Each with a NUL; the one of the whole text ends the list.
                    5 if rendering.keywords.is_empty() => None,
                    5 => Some(rendering.keywords.join("\0") + "\0"),
                    6 => rendering.channel,
                    _ => rendering.provider,
                }
            }
            _ => return Err(Failure::invalid("the text of an event is 1 to 9")),
        };
        let Some(text) = text else {
            let text = "the schemas at hand have no such text for the event";
            return Err(Failure::new(ERROR_EVT_MESSAGE_NOT_FOUND, text));
        };
        // SAFETY: OUT.
        unsafe { put_text(&text, buffer, size, used) }
    })
}
