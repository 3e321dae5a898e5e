//! [`FitCounts`]: how well the schemas of events fit their payloads.

use crate::format::safe;
use etw_decode::{Decoded, Store};
use etw_types::EventRecord;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

/// Files that a row names.
const SCHEMA_LIMIT: usize = 8;

/// Counts of events whose schemas do not fit. Most kinds of events have none, and take no memory for them.
#[derive(Clone, Default)]
pub struct FitCounts(Option<Box<Counts>>);

#[derive(Clone, Default)]
pub struct Counts {
    /// Events with bytes behind their last field.
    pub rests: u64,
    /// Events that lack fields: the payload ends early, or the schema is not complete.
    pub cut: u64,
    /// Events whose schema of highest precedence does not fit, and another does.
    pub other_schema: u64,
    /// The files whose schemas were used.
    pub schemas: BTreeSet<Arc<str>>,
}

impl Deref for FitCounts {
    type Target = Counts;

    fn deref(&self) -> &Counts {
        static NONE: Counts =
            Counts { rests: 0, cut: 0, other_schema: 0, schemas: BTreeSet::new() };
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl FitCounts {
    pub fn add(&mut self, record: &EventRecord<'_>, decoded: &Decoded<'_>) {
        // Descriptions of other events are read whole, though not as fields.
        if Store::is_schema_record(record) {
            return;
        }
        let Some(fit) = decoded.fit(record) else { return };
        let is_other = decoded.passed_over() > 0;
        let origin = decoded.schema().and_then(|schema| schema.origin.as_ref());
        let origin = origin.filter(|origin| {
            self.schemas.len() < SCHEMA_LIMIT && !self.schemas.contains(&***origin)
        });
        if !(fit.has_rest || fit.is_cut || is_other || origin.is_some()) {
            return;
        }
        let counts = self.0.get_or_insert_default();
        counts.rests += u64::from(fit.has_rest);
        counts.cut += u64::from(fit.is_cut);
        counts.other_schema += u64::from(is_other);
        counts.schemas.extend(origin.cloned());
    }

    pub fn merge(&mut self, other: FitCounts) {
        let Some(other) = other.0 else { return };
        let counts = self.0.get_or_insert_default();
        counts.rests += other.rests;
        counts.cut += other.cut;
        counts.other_schema += other.other_schema;
        counts.schemas.extend(other.schemas.into_iter().take(SCHEMA_LIMIT));
    }

    pub fn schema_names(&self) -> Vec<&str> {
        self.schemas.iter().map(|file| &**file).collect()
    }

    /// The counts in brackets; empty if all values fit.
    pub fn to_text(&self) -> String {
        let files = self.schema_names().join(", ");
        let other = match files.is_empty() {
            true => "by another schema than the first".to_owned(),
            false => format!("by another schema than the first; used: {}", safe(&files)),
        };
        let parts = [(self.rests, "with a rest"), (self.cut, "cut"), (self.other_schema, &other)];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        if parts.is_empty() { String::new() } else { format!("  [{}]", parts.join(", ")) }
    }
}
