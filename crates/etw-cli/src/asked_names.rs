//! Notes on columns and fields of the command line that no record had.

use crate::column::Column;
use crate::where_filter::{HEADER_NAMES, TraceNames, closest};
use etw_decode::{Catalog, Decoder, Schema, Store};
use etw_etl::read::{Records, TraceFile};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Records in which the names of fields are looked up that the user may have meant.
const LOOKED_UP: usize = 1 << 16;

/// Names of fields that an option asked for, and which of them a record had.
#[derive(Debug, Default)]
pub struct AskedNames {
    option: &'static str,
    /// Words of the option that are no names of fields.
    words: &'static [&'static str],
    names: Vec<AskedName>,
}

#[derive(Debug)]
struct AskedName {
    name: String,
    /// The column of this name.
    column: Option<Column>,
    is_found: AtomicBool,
}

impl AskedNames {
    /// The names of an option.
    pub fn new(option: &'static str, names: impl Iterator<Item = String>) -> AskedNames {
        let name = |name| AskedName { name, column: None, is_found: AtomicBool::new(false) };
        AskedNames { option, words: &[], names: names.map(name).collect() }
    }

    /// With further words that the user may have meant.
    pub fn or_words(self, words: &'static [&'static str]) -> AskedNames {
        AskedNames { words, ..self }
    }

    /// The fields among an option's columns; a name of a header is always found.
    pub fn of_columns(option: &'static str, columns: &[Column]) -> AskedNames {
        let name = |column: &Column| AskedName {
            name: column.name.clone(),
            column: Some(column.clone()),
            is_found: AtomicBool::new(!column.is_field()),
        };
        AskedNames { option, words: &[], names: columns.iter().map(name).collect() }
    }

    /// Marks that a record had the name of this number.
    #[inline]
    pub fn mark_found(&self, number: usize) {
        if let Some(asked) = self.names.get(number)
            && !asked.is_found.load(Ordering::Relaxed)
        {
            asked.is_found.store(true, Ordering::Relaxed);
        }
    }

    /// Prints a note for each name that none of `shown` records had.
    /// `traces`: every record that the names may be of.
    pub fn report(
        &self,
        shown: u64,
        traces: impl FnOnce() -> Vec<TraceFile>,
        catalog: &Arc<Catalog>,
    ) {
        if shown == 0 || self.names.iter().all(|asked| asked.is_found.load(Ordering::Relaxed)) {
            return;
        }
        let names = names_in(&traces(), catalog, |schema| self.mark_in(schema));
        for note in self.notes(&names) {
            eprintln!("etw: note: {note}");
        }
    }

    /// Marks the columns that events of a schema have, if only in arrays that are empty.
    fn mark_in(&self, schema: &Schema) {
        for asked in &self.names {
            if !asked.is_found.load(Ordering::Relaxed)
                && asked.column.as_ref().is_some_and(|column| column.is_of(schema))
            {
                asked.is_found.store(true, Ordering::Relaxed);
            }
        }
    }

    fn notes(&self, trace: &TraceNames) -> Vec<String> {
        let missing = self.names.iter().filter(|asked| !asked.is_found.load(Ordering::Relaxed));
        missing.map(|asked| self.note(&asked.name, trace)).collect()
    }

    fn note(&self, name: &str, trace: &TraceNames) -> String {
        let start = format!("{}: none of the records has a field {name}", self.option);
        let known = self.words.iter().copied().chain(HEADER_NAMES).chain(trace.fields());
        match closest(name, known).filter(|meant| !meant.eq_ignore_ascii_case(name)) {
            Some(meant) => format!("{start}; did you mean {meant}?"),
            None => format!("{start}; etw dump --limit 5 shows what events have"),
        }
    }
}

/// The names in the first records of traces. `see` is called with their schemas.
fn names_in(traces: &[TraceFile], catalog: &Arc<Catalog>, see: impl Fn(&Schema)) -> TraceNames {
    let (mut names, mut store) = (TraceNames::default(), Store::default());
    let mut records = Records::new(traces.to_vec());
    for _ in 0..LOOKED_UP {
        let Some(record) = records.next() else { break };
        store.learn(&record);
    }
    let mut decoder = Decoder::new();
    decoder.set_catalog(catalog.clone());
    decoder.set_own_catalog(crate::schemas::own_for(traces));
    decoder.set_store(Arc::new(store));
    decoder.set_learning(false);
    let mut records = Records::new(traces.to_vec());
    for _ in 0..LOOKED_UP {
        let Some(record) = records.next() else { break };
        let decoded = decoder.decode(&record);
        decoded.schema().into_iter().for_each(&see);
        names.add(&record, &decoded);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_record_has_gets_a_note() {
        let columns: Vec<Column> =
            ["event", "tick", "tiem"].iter().map(|name| name.parse().unwrap()).collect();
        let asked = AskedNames::of_columns("--columns", &columns);
        asked.mark_found(1);
        assert_eq!(
            asked.notes(&TraceNames::default()),
            ["--columns: none of the records has a field tiem; did you mean time?"]
        );
    }
}
