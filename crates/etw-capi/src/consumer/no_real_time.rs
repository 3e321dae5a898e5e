//! Running sessions on systems without hosts of global sessions: opening one returns 50.

use etw_api::Status;
use etw_etl::read::TraceFile;

use super::arrival::Arrival;

/// Never made.
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

    pub fn next(&self, _then: impl FnOnce(Arrival<'_>)) {
        match *self {}
    }
}
