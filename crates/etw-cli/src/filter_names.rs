//! The names that a filter needs of a trace: they are gathered when the first kernel record comes, as the owner of any other is the one that its
//! header stores.

use crate::join::{Names, TestedNames};
use crate::threads::ThreadsOption;
use crate::where_filter::Filter;
use etw_decode::expr::Owned;
use etw_decode::{Catalog, Decoded, Decoder, Style};
use etw_etl::read::TraceFile;
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
    tested: TestedNames,
    threads: ThreadsOption,
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
            tested: filter.tested_names(),
            threads: ThreadsOption::default(),
        });
        FilterNames { gathered: OnceLock::new(), source }
    }

    /// Gathers by this number of threads.
    pub fn on(mut self, threads: ThreadsOption) -> FilterNames {
        if let Some(source) = &mut self.source {
            source.threads = threads;
        }
        self
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
        // Records of providers, too, have the names of their processes.
        (is_kernel || source.tested.processes)
            .then(|| &**self.gathered.get_or_init(|| source.gather()))
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
                let has_name = filter.tested_names().processes;
                names.with_owner(record, has_name, |owned| filter.by_owned_header(owned, time))
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
        match self.of_record(record) {
            Some(names) => names.with_owner(record, filter.tested_names().processes, |owned| {
                filter.matches_joined(owned, Some(names), decoded, time, style)
            }),
            None => filter.matches_joined(Owned::stored(record), None, decoded, time, style),
        }
    }
}

impl Source {
    fn gather(&self) -> Arc<Names> {
        let mut decoder = Decoder::new();
        decoder.set_catalog(self.catalog.clone());
        decoder.set_own_catalog(self.own.clone());
        let parts = self.threads.parts();
        Arc::new(Names::gather_tested(&self.traces, decoder, self.tested, parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::where_filter::WhereOption;
    use etw_types::{HeaderType, Hook};

    fn gathers(expression: &str, records: &[EventRecord<'_>]) -> bool {
        let option = WhereOption::of(expression);
        let filter = option.compile(FileTime(0)).unwrap().unwrap();
        let trace = etw_etl::write::FileBuilder::new().finish();
        let trace = TraceFile::from_bytes("x.etl", trace).unwrap();
        let names = FilterNames::of(Some(&filter), &[trace], &Arc::default(), &Arc::default());
        for record in records {
            names.by_header(&filter, record, None);
        }
        names.gathered.get().is_some()
    }

    /// A trace is read a second time only if an event in it may have another owner than the one that its header stores.
    #[test]
    fn names_are_gathered_at_the_first_record_that_needs_them() {
        let of_provider = EventRecord::new(HeaderType::Event64, &[]);
        let mut of_kernel = EventRecord::new(HeaderType::PerfInfo64, &[]);
        of_kernel.hook = Some(Hook(0x0f2e));
        let mut header_of_file = of_kernel;
        header_of_file.hook = Some(Hook(0));
        let of_providers = [header_of_file, of_provider];
        let all = [header_of_file, of_provider, of_kernel];
        assert!(!gathers("pid == 4 and tid == 12", &of_providers));
        assert!(gathers("pid == 4 and tid == 12", &all));
        assert!(gathers("process == 'shop'", &of_providers));
        assert!(gathers("process in (4, 'shop')", &of_providers));
        assert!(gathers("process like 'sh*'", &of_providers));
        // An id needs no name.
        assert!(!gathers("process == 4 or process in (8, 12..16) or process & 1", &of_providers));
        assert!(gathers("process == 4", &all));
        assert!(!gathers("header.pid == 4 and cpu == 1", &all));
    }
}
