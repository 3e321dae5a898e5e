//! [`RecordWriter`]: events of a session as records of its logs.

use crate::computer::computer_name;
use crate::log_file::Pending;
use crate::record::{RecordBuilder, RecordFacts};
use crate::report::Report;
use etw_decode::{Catalog, Decoder};
use etw_evtx::Error;
use etw_types::{Clock, EventRecord, FileTime, HeaderType, is_session_report};
use std::sync::Arc;

/// Decodes events and appends them to logs.
pub(crate) struct RecordWriter {
    decoder: Decoder,
    builder: RecordBuilder,
    clock: Clock,
    computer: String,
}

impl std::fmt::Debug for RecordWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordWriter").field("computer", &self.computer).finish_non_exhaustive()
    }
}

impl RecordWriter {
    /// `schemas`: for events that do not describe themselves.
    pub fn new(clock: Clock, schemas: Arc<Catalog>) -> RecordWriter {
        let mut decoder = Decoder::new();
        decoder.set_own_catalog(schemas);
        RecordWriter { decoder, builder: RecordBuilder::new(), clock, computer: computer_name() }
    }

    /// Changes the schemas.
    pub fn set_schemas(&mut self, schemas: Arc<Catalog>) {
        self.decoder.set_own_catalog(schemas);
    }

    /// The time of an event that logs keep. Schemas are learnt from the others.
    pub fn time_if_kept(&mut self, record: &EventRecord<'_>) -> Option<FileTime> {
        if !is_kept(record) {
            self.decoder.decode(record);
            return None;
        }
        record.timestamp(&self.clock)
    }

    /// The report of a program that is in an event; `None` for an invalid one.
    pub fn report(&mut self, record: &EventRecord<'_>) -> Option<Report> {
        let decoded = self.decoder.decode(record);
        let fields = decoded.fields(record).ok()??;
        Report::read(&fields)
    }

    /// Appends an event, unless the log has it from before a crash. `channel`: of events whose schema names none.
    pub fn push(
        &mut self,
        pending: &mut Pending<'_>,
        record: &EventRecord<'_>,
        time: FileTime,
        channel: &str,
    ) -> Result<(), Error> {
        if pending.is_known() {
            return Ok(());
        }
        let log = &mut *pending.log;
        let decoded = self.decoder.decode(record);
        let facts = RecordFacts { id: log.next_id(), time, channel, computer: &self.computer };
        let whole = self.builder.build(record, &decoded, facts, |one| log.append(time, one));
        match whole {
            Err(Error::DoesNotFit { .. }) => {
                self.builder.build_cut(record, &decoded, facts, |one| log.append(time, one))
            }
            other => other,
        }
        .map(drop)
    }

    /// Appends the report of a program. `record`: the event that brought it.
    pub fn push_report(
        &mut self,
        pending: &mut Pending<'_>,
        record: &EventRecord<'_>,
        report: &Report,
        facts: (FileTime, &str),
    ) -> Result<(), Error> {
        if pending.is_known() {
            return Ok(());
        }
        let (time, channel) = facts;
        let log = &mut *pending.log;
        let facts = RecordFacts { id: log.next_id(), time, channel, computer: &self.computer };
        self.builder.build_report(record, report, facts, |one| log.append(time, one)).map(drop)
    }
}

/// Events of programs; not those that a session writes about itself, nor the kernel's.
fn is_kept(record: &EventRecord<'_>) -> bool {
    matches!(record.header, HeaderType::Event32 | HeaderType::Event64)
        && !is_session_report(record)
        && !etw_decode::Store::is_schema_record(record)
}
