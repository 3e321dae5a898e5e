//! Sessions that are consumed while they run.

use etw_api::Status;

use super::trace::Input;

/// Finds the session that `OpenTrace` names with `PROCESS_TRACE_MODE_REAL_TIME`. There is none yet that other processes could see.
pub fn open(_session: &str) -> Result<Input, Status> {
    Err(Status::ERROR_WMI_INSTANCE_NOT_FOUND)
}
