//! [`Facts`]: everything that is computed once for a template, and shared by its copies in the chunks of a log.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::json_plan::Plans;
use crate::system_plan::Plan;

/// Facts about a template, without its content.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Unlike that of any other template of this process.
    pub number: u64,
    /// The sources of the fields of `System`, computed at first use.
    pub system: OnceLock<Plan>,
    /// The JSON of the events whose innermost template this is, by their shape.
    pub json: Plans,
}

impl Default for Facts {
    fn default() -> Facts {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Facts { number, system: OnceLock::new(), json: Plans::default() }
    }
}
