//! Enablements of a session that programs refused.

use etw_wire::requests::{MAX_REFUSALS, RefusalStatus};
use serde::{Deserialize, Serialize};

/// Enablements that programs refused: how many, and the first of them.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Refusals {
    pub count: u64,
    pub rows: Vec<RefusalStatus>,
}

impl Refusals {
    /// Adds a refusal; `false` if it is known already, because the program was asked again.
    pub fn add(&mut self, refusal: RefusalStatus) -> bool {
        if self.rows.contains(&refusal) {
            return false;
        }
        self.count += 1;
        if self.rows.len() < MAX_REFUSALS {
            self.rows.push(refusal);
        }
        true
    }
}
