//! Descriptions in traces, for other machines: loaded modules of programs, which give the addresses of call stacks names, schemas of
//! their events, and how system events were recorded.

use std::collections::{HashMap, HashSet};

use etw_session::Session;
use etw_types::{LoadedModule, SchemaRecord};

use crate::report::{Report, SystemSource, module_report, schema_report, source_report};

/// Bytes of modules that a session keeps in all, and for one process.
const LIMIT: usize = 4 << 20;
const PROCESS_LIMIT: usize = 256 << 10;
/// Bytes of schemas that a session keeps; readers keep twice as many.
const SCHEMA_LIMIT: usize = 8 << 20;

/// The modules and schemas of a session.
#[derive(Debug, Default)]
pub struct Modules {
    known: HashSet<(u32, LoadedModule)>,
    sizes: HashMap<u32, usize>,
    size: usize,
    schemas: HashSet<SchemaRecord>,
    schema_size: usize,
    sources: HashSet<SystemSource>,
    reports: Vec<(u32, Report)>,
    /// Number of reports that are in the trace.
    written: usize,
    /// Modules and schemas beyond the limits.
    pub left_out: u64,
}

impl Modules {
    /// Adds modules of a process. Modules that were added before are skipped.
    pub fn add(&mut self, process_id: u32, modules: impl IntoIterator<Item = LoadedModule>) {
        for module in modules {
            let size = 256 + module.path.len();
            let of_process = self.sizes.get(&process_id).copied().unwrap_or(0) + size;
            let key = (process_id, module);
            if self.known.contains(&key) {
                continue;
            }
            if of_process > PROCESS_LIMIT || self.size + size > LIMIT {
                self.left_out += 1;
                continue;
            }
            let Some(report) = module_report(process_id, &key.1) else { continue };
            self.sizes.insert(process_id, of_process);
            self.size += size;
            self.reports.push((process_id, report));
            self.known.insert(key);
        }
    }

    /// Adds a source of system events. One that was added before is skipped: each rundown that another recording begins with is one more.
    pub(crate) fn add_source(&mut self, source: SystemSource) {
        if !self.sources.contains(&source) {
            self.reports.extend(source_report(&source).map(|report| (0, report)));
            self.sources.insert(source);
        }
    }

    /// Bytes of all of them.
    pub fn size(&self) -> u64 {
        (self.size + self.schema_size) as u64
    }

    /// Adds schema records. Those that were added before are skipped.
    pub fn add_schemas(&mut self, schemas: impl IntoIterator<Item = SchemaRecord>) {
        for schema in schemas {
            if self.schemas.contains(&schema) {
                continue;
            }
            if self.schema_size + schema.payload.len() > SCHEMA_LIMIT {
                self.left_out += 1;
                continue;
            }
            self.schema_size += schema.payload.len();
            self.reports.push((0, schema_report(schema.clone())));
            self.schemas.insert(schema);
        }
    }

    /// Whether a module or schema is not in the trace yet.
    pub fn is_waiting(&self) -> bool {
        self.written < self.reports.len()
    }

    /// All of them are written again: their buffers may be overwritten, or a new reader starts here.
    pub fn repeat(&mut self) {
        self.written = 0;
    }

    /// Writes the modules and schemas that are not in the trace yet into the session's stream, at this time of its clock, as far as there
    /// is a free buffer.
    pub fn write<B: AsRef<[u8]> + AsMut<[u8]>>(&mut self, session: &mut Session<B>, time: i64) {
        while let Some((process_id, report)) = self.reports.get(self.written) {
            let event = report.event(time, *process_id, 0);
            let largest = session.largest_event();
            if event.size(&[]) <= largest && session.push_report(&event).is_err() {
                return;
            }
            self.written += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_session::{HostFacts, SessionConfig};

    fn module(base: u64, path: usize) -> LoadedModule {
        LoadedModule { base, path: "x".repeat(path), ..LoadedModule::default() }
    }

    fn session() -> Session<Vec<u8>> {
        let config =
            SessionConfig { buffer_size: 4096, real_time: true, ..SessionConfig::default() };
        Session::new(&config, HostFacts::default(), vec![vec![0; 4096]; 2]).unwrap()
    }

    #[test]
    fn modules_are_written_once_and_again_when_asked() {
        let mut modules = Modules::default();
        let mut session = session();
        modules.add(5, [module(1, 9), module(2, 9), module(1, 9)]);
        modules.add(6, [module(1, 9)]);
        assert!(modules.is_waiting());
        modules.write(&mut session, 1);
        assert!(!modules.is_waiting());
        let before = session.facts().bytes;
        modules.add(5, [module(2, 9)]);
        modules.write(&mut session, 2);
        assert_eq!(session.facts().bytes, before, "nothing new");
        modules.repeat();
        modules.write(&mut session, 3);
        assert_eq!(session.facts().bytes, 2 * before);
        assert_eq!(session.ledger().attempted, 0, "no events of a program's");
    }

    #[test]
    fn what_finds_no_room_waits() {
        let mut modules = Modules::default();
        let mut session = session();
        // Two buffers of 4 KiB.
        modules.add(5, (0..5).map(|base| module(base, 1500)));
        modules.write(&mut session, 1);
        assert!(modules.is_waiting());
        while let Some(full) = session.take_full() {
            session.stored(full);
        }
        session.flush(2);
        session.seal(1);
        while let Some(full) = session.take_full() {
            session.stored(full);
        }
        modules.write(&mut session, 3);
        assert!(!modules.is_waiting());
        // A module that is larger than a buffer does not hold up the others.
        modules.add(5, [module(9, 4096), module(10, 1)]);
        modules.write(&mut session, 4);
        assert!(!modules.is_waiting());
    }

    #[test]
    fn a_process_has_its_share() {
        let mut modules = Modules::default();
        modules.add(5, (0..100_000).map(|base| module(base, 9)));
        assert!(modules.size <= PROCESS_LIMIT && modules.left_out > 90_000);
        modules.add(6, [module(1, 9)]);
        assert_eq!(modules.reports.last().map(|(process, _)| *process), Some(6));
        for process in 7..100 {
            modules.add(process, (0..10_000).map(|base| module(base, 9)));
        }
        assert!(modules.size <= LIMIT && modules.reports.len() < LIMIT / 256);
    }
}
