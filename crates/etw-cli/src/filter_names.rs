//! The names that a filter needs of a trace: they are gathered when the first kernel record comes, as the owner of any other is the one that its
//! header stores.

use crate::join::Names;
use crate::where_filter::Filter;
use etw_decode::expr::Owned;
use etw_decode::{Catalog, Decoded, Decoder, Style};
use etw_etl::read::{Records, TraceFile};
use etw_types::{EventRecord, FileTime};
use std::sync::{Arc, OnceLock};

/// The names of traces, for a filter of their records.
#[derive(Default)]
pub struct FilterNames {
    gathered: OnceLock<Arc<Names>>,
    /// `None`: the filter needs no names, or has them.
    source: Option<Source>,
}

struct Source {
    traces: Vec<TraceFile>,
    catalog: Arc<Catalog>,
    own: Arc<Catalog>,
    /// Records of providers, too, have the names of their processes.
    is_for_all: bool,
}

impl FilterNames {
    /// Names that are gathered if the filter needs them.
    pub fn of(
        filter: Option<&Filter>,
        traces: &[TraceFile],
        catalog: &Arc<Catalog>,
        own: &Arc<Catalog>,
    ) -> FilterNames {
        let needing = filter.filter(|filter| filter.needs_join());
        // A log has no kernel records.
        let has_records = traces.iter().any(|trace| !trace.is_translated());
        let source = needing.filter(|_| has_records).map(|filter| Source {
            traces: traces.to_vec(),
            catalog: catalog.clone(),
            own: own.clone(),
            is_for_all: filter.tests_process_name(),
        });
        FilterNames { gathered: OnceLock::new(), source }
    }

    /// Names that are known.
    pub fn known(names: Arc<Names>) -> FilterNames {
        FilterNames { gathered: names.into(), source: None }
    }

    /// Names of a stream, which [`follow`](FilterNames::follow) its records if the filter needs them.
    #[cfg(any(target_os = "linux", windows))]
    pub fn of_stream(filter: Option<&Filter>) -> FilterNames {
        match filter.is_some_and(Filter::tests_owner) {
            true => FilterNames::known(Arc::new(Names::of_stream())),
            false => FilterNames::default(),
        }
    }

    /// Learns from the next record of a stream.
    #[cfg(any(target_os = "linux", windows))]
    pub fn follow(&mut self, record: &EventRecord<'_>, decoder: &mut Decoder) {
        if let Some(names) = self.gathered.get_mut().and_then(Arc::get_mut) {
            names.follow(record, decoder);
        }
    }

    /// The names for a record, if it may have another owner, a file, or a process with a name that is tested.
    #[inline]
    fn of_record(&self, record: &EventRecord<'_>) -> Option<&Names> {
        let Some(source) = &self.source else { return self.gathered.get().map(|names| &**names) };
        // The header of a file is in every trace.
        let is_kernel = record.hook.is_some_and(|hook| hook.group() != 0);
        (is_kernel || source.is_for_all).then(|| &**self.gathered.get_or_init(|| source.gather()))
    }

    /// Whether a filter selects a record, if its header and its owner decide.
    #[inline]
    pub fn by_header(
        &self,
        filter: &Filter,
        record: &EventRecord<'_>,
        time: Option<FileTime>,
    ) -> Option<bool> {
        match self.of_record(record) {
            Some(names) => {
                let attributed = names.attributed(record);
                filter.by_owned_header(names.owned(record, &attributed), time)
            }
            None => filter.by_header(record, time),
        }
    }

    /// Whether a filter selects a decoded record.
    pub fn matches(
        &self,
        filter: &Filter,
        (record, decoded): (&EventRecord<'_>, &Decoded<'_>),
        time: Option<FileTime>,
        style: &Style,
    ) -> bool {
        let names = self.of_record(record);
        let attributed = names.map(|names| names.attributed(record));
        let owned = match (names, &attributed) {
            (Some(names), Some(attributed)) => names.owned(record, attributed),
            _ => Owned::stored(record),
        };
        filter.matches_joined(owned, names, decoded, time, style)
    }
}

impl Source {
    fn gather(&self) -> Arc<Names> {
        let mut decoder = Decoder::new();
        decoder.set_catalog(self.catalog.clone());
        decoder.set_own_catalog(self.own.clone());
        Arc::new(Names::gather(Records::new(self.traces.clone()), decoder))
    }
}
