//! Sessions that are consumed while they run, where there is no host of global sessions: 50.

use etw_api::Status;
use etw_etl::read::TraceFile;

use super::process::Arrival;

/// There is none.
pub enum Live {}

pub fn open(_session: &str) -> Result<Live, Status> {
    Err(Status::ERROR_NOT_SUPPORTED)
}

impl Live {
    pub fn trace(&self) -> &TraceFile {
        match *self {}
    }

    pub fn close(&self) {
        match *self {}
    }

    pub fn next(&self) -> Arrival {
        match *self {}
    }
}
