//! The ledger in a session's trace: the totals, and the losses from the largest on. Where the file has no room for all of them, the rest of
//! each cause is one row.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use etw_session::{Cause, Ledger, Loss, Session};

use crate::report::{Report, loss_report, totals_report};

/// Losses of one cause: of one provider and process, or of so many `origins` together.
#[derive(Clone, Copy, Debug)]
struct Row {
    loss: Loss,
    origins: u32,
}

impl Row {
    fn report(&self) -> Option<Report> {
        loss_report(&self.loss, self.origins)
    }
}

/// The time of a report, and the process and thread that write it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    pub time: i64,
    pub process_id: u32,
    pub thread_id: u32,
}

impl Writer {
    fn size(self, report: Option<&Report>) -> usize {
        let size = |report: &Report| self.event_size(report).next_multiple_of(8);
        report.map_or(0, size)
    }

    fn event_size(self, report: &Report) -> usize {
        report.event(self.time, self.process_id, self.thread_id).size(&[])
    }
}

/// The part of a session's report on its ledger that is not in its stream yet.
#[derive(Debug)]
pub(crate) struct LedgerReport {
    note: Option<Report>,
    totals: Option<Report>,
    rows: VecDeque<Row>,
    /// The last rows are those of the rest.
    is_rest: bool,
}

impl LedgerReport {
    /// `files_before`: files of the session that the ledger counts, too.
    pub fn of(ledger: &Ledger, files_before: u32) -> LedgerReport {
        let mut rows: Vec<Row> = ledger.losses().map(|loss| Row { loss, origins: 1 }).collect();
        rows.sort_by_key(|row| Reverse(row.loss.count));
        let totals = totals_report(ledger, files_before);
        LedgerReport { note: None, totals, rows: rows.into(), is_rest: false }
    }

    /// It begins with a note.
    pub fn behind(self, note: Option<Report>) -> LedgerReport {
        LedgerReport { note, ..self }
    }

    /// All of it.
    pub fn into_reports(self) -> Vec<Report> {
        let rows = self.rows.iter().filter_map(Row::report).collect::<Vec<_>>();
        self.note.into_iter().chain(self.totals).chain(rows).collect()
    }

    /// Bytes that all of it takes.
    pub fn size(&self, writer: Writer) -> usize {
        let rows = self.rows.iter().map(|row| writer.size(row.report().as_ref()));
        let first = [&self.note, &self.totals].map(|report| writer.size(report.as_ref()));
        first.into_iter().chain(rows).sum()
    }

    /// Writes it into the session's stream. `false`: the rest needs a buffer that the storage still has. `can_wait`: it has one.
    pub fn write<B: AsRef<[u8]> + AsMut<[u8]>>(
        &mut self,
        session: &mut Session<B>,
        writer: Writer,
        can_wait: bool,
    ) -> bool {
        // A report without space even so, in the smallest buffers, is left out.
        let push = |session: &mut Session<B>, report: &Report| {
            let event = report.event(writer.time, writer.process_id, writer.thread_id);
            session.push_report(&event).is_ok() || !can_wait
        };
        for one in [&mut self.note, &mut self.totals] {
            if one.as_ref().is_some_and(|report| !push(session, report)) {
                return false;
            }
            *one = None;
        }
        while let Some(row) = self.rows.front() {
            let report = row.report();
            let has_rest = !self.is_rest && self.rows.len() > 1;
            if let Some(room) = session.report_room().filter(|_| has_rest) {
                let others = rest(self.rows.iter().skip(1));
                let others = others.iter().map(|row| writer.size(row.report().as_ref()));
                if room < writer.size(report.as_ref()) + others.sum::<usize>() {
                    (self.rows, self.is_rest) = (rest(self.rows.iter()), true);
                    continue;
                }
            }
            if report.is_some_and(|report| !push(session, &report)) {
                return false;
            }
            self.rows.pop_front();
        }
        true
    }
}

/// A row for each cause.
fn rest<'a>(rows: impl Iterator<Item = &'a Row>) -> VecDeque<Row> {
    let mut by_cause: BTreeMap<Cause, Row> = BTreeMap::new();
    for row in rows {
        let loss = Loss { cause: row.loss.cause, ..Loss::default() };
        let sum = by_cause.entry(loss.cause).or_insert(Row { loss, origins: 0 });
        sum.loss.count = sum.loss.count.saturating_add(row.loss.count);
        sum.origins += row.origins;
        if sum.origins == 1 {
            sum.loss = row.loss;
        } else {
            (sum.loss.provider, sum.loss.process_id) = (None, None);
        }
    }
    by_cause.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{read_loss, read_loss_origins};
    use etw_etl::read::{BufferRecords, Item};
    use etw_session::{Event, HostFacts, LogMode, SessionConfig};
    use etw_types::Guid;

    const WRITER: Writer = Writer { time: 9, process_id: 1, thread_id: 2 };

    /// A file of three slots, of which the session has filled one, and the rows of losses that are in the other one in the end.
    fn rows_in_full_file(processes: u32) -> (Vec<(Loss, u32)>, Ledger) {
        let config = SessionConfig {
            file: Some("x.etl".into()),
            buffer_size: 4096,
            mode: LogMode::Sequential { max_size: Some(3 * 4096) },
            ..SessionConfig::default()
        };
        let buffers = vec![vec![0; 4096]; 4];
        let mut session = Session::new(&config, HostFacts::default(), buffers).unwrap();
        session.enable(Guid::ZERO, etw_session::EnableInfo::default());
        while session.push(&Event { payload: &[0; 900], ..Event::default() }).is_ok() {}
        for process_id in 1..=processes {
            let event = Event { process_id, payload: &[0; 900], ..Event::default() };
            (0..process_id).for_each(|_| assert!(session.push(&event).is_err()));
        }
        session.begin_report();
        let ledger = session.ledger().clone();
        let mut report = LedgerReport::of(&ledger, 0);
        assert!(report.write(&mut session, WRITER, false));
        session.stop(10);
        session.seal(1);
        let mut rows = Vec::new();
        while let Some(full) = session.take_full() {
            let records = &full.bytes()[etw_types::BufferHeader::SIZE..full.filled()];
            let context = etw_etl::record::RecordContext::default();
            for item in BufferRecords::new(records, &context) {
                let Item::Record { record, .. } = item else { panic!() };
                rows.extend(
                    Some(())
                        .and_then(|()| Some((read_loss(&record)?, read_loss_origins(&record)?))),
                );
            }
            session.stored(full);
        }
        (rows, ledger)
    }

    /// Each CPU has a buffer of its own, and a file of the series has room for one: the last one has the ledger.
    #[test]
    fn the_ledger_is_in_the_last_buffer() {
        let config = SessionConfig {
            file: Some("x%d.etl".into()),
            buffer_size: 4096,
            mode: LogMode::NewFile { max_size: 3 * 4096 },
            ..SessionConfig::default()
        };
        let facts = HostFacts::default();
        let mut session = Session::new(&config, facts, vec![vec![0; 4096]; 8]).unwrap();
        session.enable(Guid::ZERO, etw_session::EnableInfo::default());
        for cpu in 0..4 {
            session.push(&Event { cpu, ..Event::default() }).unwrap();
        }
        session.begin_report();
        let mut report = LedgerReport::of(session.ledger(), 0);
        assert!(report.write(&mut session, WRITER, false));
        session.stop(10);
        session.seal(1);
        let mut has_ledger = Vec::new();
        while let Some(full) = session.take_full() {
            let records = &full.bytes()[etw_types::BufferHeader::SIZE..full.filled()];
            let context = etw_etl::record::RecordContext::default();
            let totals = BufferRecords::new(records, &context).filter_map(|item| match item {
                Item::Record { record, .. } => crate::report::read_totals(&record),
                _ => None,
            });
            has_ledger.push(totals.count() == 1);
            session.stored(full);
        }
        assert_eq!(has_ledger, [false, false, false, true]);
    }

    /// A full file has the sum of the losses for which it has no room.
    #[test]
    fn a_full_file_has_the_largest_losses_and_the_sum_of_the_others() {
        for processes in [3, 200] {
            let (rows, ledger) = rows_in_full_file(processes);
            let sum: u64 = rows.iter().map(|(loss, _)| loss.count).sum();
            assert_eq!(sum, ledger.lost_total());
            let origins: u32 = rows.iter().map(|(_, origins)| origins).sum();
            assert_eq!(u64::from(origins), ledger.losses().count() as u64);
            assert_eq!(rows[0].0.process_id, Some(processes));
            let (last, last_origins) = rows.last().unwrap();
            assert_eq!(*last_origins > 1, processes == 200);
            assert_eq!(last.process_id.is_none(), processes == 200);
            let counts: Vec<u64> = rows[..rows.len() - 1].iter().map(|row| row.0.count).collect();
            assert!(counts.is_sorted_by(|one, next| one >= next));
        }
    }
}
